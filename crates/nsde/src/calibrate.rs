//! Calibration on held-out forecasts: a temperature for the covariance, and conformal regions per step.
//!
//! Not in the paper, whose covariances are used as they come. Both repairs need forecasts with what came
//! true, from trajectories that the training has not seen.
//!
//! ```
//! use nsde::calibrate::{Calibration, HeldOut};
//!
//! // Ten forecasts N(0, 1) of what turned out to be ±2: the variance was four times too small.
//! let seen: Vec<[f64; 1]> = (0..10).map(|i| [if i % 2 == 0 { 2.0 } else { -2.0 }]).collect();
//! let held: Vec<HeldOut> =
//!     seen.iter().map(|x| HeldOut { step: 1, mean: &[0.0], cov: &[1.0], observation: x }).collect();
//! let calibration = Calibration::fit(&held)?;
//! assert!((calibration.temperature - 4.0).abs() < 1e-12);
//! assert_eq!(calibration.region_radius(1, 0.9), Some(1.0)); // in deviations after the temperature
//! assert_eq!(calibration.region_radius(1, 0.95), None); // needs 19 observations
//! # Ok::<(), nsde::Error>(())
//! ```

use crate::error::{Error, Result, dimension};
use crate::gaussian;
use crate::metric::{self, INTERVALS};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `(n + 1) p` may exceed the whole number it stands for by this share, from rounding of `p`.
const RANK_NOISE: f64 = 1e-12;

/// Two levels are the same if they differ by no more.
const LEVEL_NOISE: f64 = 1e-9;

/// One forecast and what came true.
#[derive(Clone, Copy, Debug)]
pub struct HeldOut<'a> {
    /// The step of the horizon.
    pub step: usize,
    /// `μ`, length `D`.
    pub mean: &'a [f64],
    /// `Σ` before calibration, row-major `[D, D]`.
    pub cov: &'a [f64],
    /// `x`, NaN where missing.
    pub observation: &'a [f64],
}

/// What held-out forecasts taught about the covariances of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// `τ` of `Σ → τ Σ`, see [`fit`](Calibration::fit): above one if the model was too confident.
    pub temperature: f64,
    /// One radius per step and level, steps ascending.
    pub radii: Vec<ConformalRadius>,
    /// Number of forecasts with an observed coordinate.
    #[serde(default)]
    pub count: usize,
    /// Number of observed coordinates, which decides how sure `τ` is: for independent Gaussians its relative
    /// error is `√(2/coordinates)`.
    #[serde(default)]
    pub coordinates: usize,
}

/// The region `{x : √((x−μ)ᵀ (τΣ)⁻¹ (x−μ)) ≤ radius}` for one step and level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConformalRadius {
    /// The step of the horizon.
    pub step: usize,
    /// The probability with which the region holds a new observation, at least.
    pub level: f64,
    /// In standard deviations of the covariance *after* the temperature; `None` (`null`) is infinite: there
    /// were too few observations to promise the level.
    pub radius: Option<f64>,
    /// Complete observations behind it.
    #[serde(default)]
    pub count: usize,
}

impl Calibration {
    /// Learns temperature and radii from held-out forecasts.
    ///
    /// ```text
    /// τ = Σ_i d²_i / Σ_i dof_i            d²_i = (x_i−μ_i)ᵀ Σ_i⁻¹ (x_i−μ_i) over the observed coordinates
    /// radius = ⌈(n+1)p⌉-th smallest of d_i/√τ among the n complete observations of the step
    /// ```
    ///
    /// `τ` maximises the likelihood of all held-out observations together. The radii are split-conformal: a
    /// new observation, exchangeable with the `n` of its step, is inside with probability at least `p`,
    /// whatever its law, and at most `p + 1/(n+1)` if it has a density. (`τ` cancels from the region, so
    /// learning it from the same data does no harm.) The forecasts of one step should come from different
    /// trajectories: those that overlap are not exchangeable.
    ///
    /// Observations with missing coordinates count for `τ` only: a distance in fewer dimensions does not
    /// compare. Fails without any observed coordinate, if sizes differ, a number is not finite, a covariance
    /// is singular, or every observation is exactly its mean.
    pub fn fit(held: &[HeldOut<'_>]) -> Result<Self> {
        let dim = held.first().map_or(0, |h| h.mean.len());
        let (mut count, mut coordinates, mut sum) = (0, 0, 0.0);
        let mut steps: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for h in held {
            let (square, dof) = distance(h, dim)?;
            if dof == 0 {
                continue;
            }
            count += 1;
            coordinates += dof;
            sum += square;
            let complete = steps.entry(h.step).or_default();
            if dof == dim {
                complete.push(square);
            }
        }
        if count == 0 {
            return Err(Error::Range {
                what: "calibration: observed forecasts".into(),
                value: 0.0,
                must: "positive",
            });
        }
        let temperature = sum / coordinates as f64;
        let mut radii = Vec::with_capacity(steps.len() * INTERVALS.len());
        for (step, squares) in &mut steps {
            squares.sort_by(f64::total_cmp);
            for level in INTERVALS {
                let radius = rank(squares.len(), level).map(|k| (squares[k - 1] / temperature).sqrt());
                radii.push(ConformalRadius { step: *step, level, radius, count: squares.len() });
            }
        }
        let calibration = Calibration { temperature, radii, count, coordinates };
        calibration.check()?;
        Ok(calibration)
    }

    /// Whether the numbers can be a calibration: worth asking after reading one from a file.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: &str, value: f64, must: &'static str| {
            Err(Error::Range { what: format!("calibration: {what}"), value, must })
        };
        if !(self.temperature.is_finite() && self.temperature > 0.0) {
            return refuse("temperature", self.temperature, "finite and positive");
        }
        for r in &self.radii {
            if !(r.level > 0.0 && r.level < 1.0) {
                return refuse("a level", r.level, "between 0 and 1");
            }
            match r.radius {
                Some(radius) if !(radius.is_finite() && radius >= 0.0) => {
                    return refuse("a radius", radius, "finite and not negative, or null");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `Σ → τ Σ`, in place; any number of covariances at once.
    pub fn apply_temperature(&self, cov: &mut [f64]) {
        cov.iter_mut().for_each(|c| *c *= self.temperature);
    }

    /// The radius of the region of `level` at `step`, in Mahalanobis distance after the temperature.
    ///
    /// A step that was not calibrated uses the last calibrated one before it, or the first if there is none
    /// before. `None` if the region is unbounded, the observations being too few, or if `level` is not one of
    /// those calibrated (50, 80, 90 and 95 %).
    pub fn region_radius(&self, step: usize, level: f64) -> Option<f64> {
        let of_level = || self.radii.iter().filter(|r| (r.level - level).abs() <= LEVEL_NOISE);
        let last = of_level().filter(|r| r.step <= step).max_by_key(|r| r.step);
        last.or_else(|| of_level().min_by_key(|r| r.step))?.radius
    }
}

/// Squared Mahalanobis distance over the observed coordinates, and how many there are.
fn distance(h: &HeldOut<'_>, dim: usize) -> Result<(f64, usize)> {
    dimension("calibration: mean", dim, h.mean.len())?;
    dimension("calibration: entries of the covariance", dim * dim, h.cov.len())?;
    dimension("calibration: observation", dim, h.observation.len())?;
    let index = metric::observed(h.observation)?;
    let (mean, cov, x) = metric::marginal(h.mean, h.cov, h.observation, &index);
    metric::finite(&mean, "mean")?;
    metric::finite(&cov, "covariance")?;
    Ok((gaussian::mahalanobis(&mean, &cov, &x)?, index.len()))
}

/// `⌈(n+1)p⌉`, the rank of the conformal quantile among `n`; `None` if that is more than `n`.
fn rank(n: usize, p: f64) -> Option<usize> {
    let exact = (n + 1) as f64 * p;
    let rank = (exact * (1.0 - RANK_NOISE)).ceil() as usize;
    (1..=n).contains(&rank).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::sampling::{normal, uniform};
    use nsde_check::{Random, assert_close, assert_close_abs, seeded};

    const MEAN: [f64; 2] = [1.0, -2.0];
    const COV: [f64; 4] = [1.0, 0.6, 0.6, 1.0];

    /// A draw from N(MEAN, factor · COV).
    fn draw(factor: f64, rng: &mut Random) -> [f64; 2] {
        let (a, b, s) = (normal(rng), normal(rng), factor.sqrt());
        [MEAN[0] + s * a, MEAN[1] + s * (0.6 * a + 0.8 * b)]
    }

    /// A draw with the tails of a Student law of three degrees of freedom about MEAN.
    fn heavy(rng: &mut Random) -> [f64; 2] {
        let chi: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
        draw(3.0 / chi, rng)
    }

    fn fit(step: usize, seen: &[[f64; 2]]) -> Calibration {
        Calibration::fit(&held(step, seen)).unwrap()
    }

    fn held(step: usize, seen: &[[f64; 2]]) -> Vec<HeldOut<'_>> {
        seen.iter().map(|x| HeldOut { step, mean: &MEAN, cov: &COV, observation: x }).collect()
    }

    /// Whether `x` is in the region, by the written-out inverse of τ·COV.
    fn is_inside(calibration: &Calibration, step: usize, level: f64, x: [f64; 2]) -> bool {
        let mut cov = COV;
        calibration.apply_temperature(&mut cov);
        let (a, b) = (x[0] - MEAN[0], x[1] - MEAN[1]);
        let det = cov[0] * cov[3] - cov[1] * cov[2];
        let square = (cov[3] * a * a - 2.0 * cov[1] * a * b + cov[0] * b * b) / det;
        calibration.region_radius(step, level).is_none_or(|r| square.sqrt() <= r)
    }

    #[test]
    fn the_temperature_recovers_how_confident_the_forecasts_were() {
        let mut rng = seeded(1);
        for factor in [0.25, 1.0, 4.0] {
            let mut seen: Vec<[f64; 2]> = (0..4000).map(|_| draw(factor, &mut rng)).collect();
            for i in 0..1000 {
                seen[3 * i][i % 2] = f64::NAN;
            }
            let got = fit(1, &seen);
            assert_eq!((got.count, got.coordinates), (4000, 7000));
            assert_close_abs(got.temperature, factor, 5.0 * factor * (2.0 / 7000.0f64).sqrt());
        }
    }

    #[test]
    fn the_temperature_maximises_the_likelihood() {
        // Independent coordinates of different variance, so that the likelihood is a product.
        let mut rng = seeded(2);
        let var = [0.3, 2.0, 5.0];
        let cov = [var[0], 0.0, 0.0, 0.0, var[1], 0.0, 0.0, 0.0, var[2]];
        let mut seen: Vec<[f64; 3]> =
            (0..50).map(|_| [normal(&mut rng), normal(&mut rng), normal(&mut rng)]).collect();
        seen[7][1] = f64::NAN;
        let held: Vec<HeldOut> =
            seen.iter().map(|x| HeldOut { step: 0, mean: &[0.0; 3], cov: &cov, observation: x }).collect();
        let best = Calibration::fit(&held).unwrap().temperature;
        let nll = |t: f64| -> f64 {
            let each = seen.iter().flat_map(|x| x.iter().zip(var));
            each.filter(|(x, _)| !x.is_nan()).map(|(x, v)| 0.5 * ((t * v).ln() + x * x / (t * v))).sum()
        };
        for factor in [0.5, 0.9, 0.999, 1.001, 1.1, 2.0] {
            assert!(nll(best) < nll(factor * best), "{factor}");
        }
    }

    /// Leaving each of n + 1 points out in turn, exactly ⌈(n+1)p⌉ of them are in the region of the others.
    #[test]
    fn coverage_of_exchangeable_data_is_exact() {
        let mut rng = seeded(3);
        for n in [3, 4, 9, 19, 30, 99] {
            let seen: Vec<[f64; 2]> = (0..=n).map(|_| heavy(&mut rng)).collect();
            for level in INTERVALS {
                let inside = (0..=n).filter(|&out| {
                    let mut rest = seen.clone();
                    let x = rest.remove(out);
                    is_inside(&fit(1, &rest), 1, level, x)
                });
                let percent = (100.0 * level).round() as usize;
                assert_eq!(inside.count(), ((n + 1) * percent).div_ceil(100), "{n} {level}");
            }
        }
    }

    #[test]
    fn fresh_data_are_covered_whatever_their_law() {
        let (n, fresh, mut rng) = (500, 5000, seeded(4));
        let laws: [fn(&mut Random) -> [f64; 2]; 3] = [|r| draw(9.0, r), |r| draw(0.1, r), heavy];
        for law in laws {
            let seen: Vec<[f64; 2]> = (0..n).map(|_| law(&mut rng)).collect();
            let got = fit(1, &seen);
            let new: Vec<[f64; 2]> = (0..fresh).map(|_| law(&mut rng)).collect();
            for level in INTERVALS {
                let share =
                    new.iter().filter(|x| is_inside(&got, 1, level, **x)).count() as f64 / fresh as f64;
                // Both the rank among n and the share of the fresh ones scatter.
                let error = (level * (1.0 - level) * (1.0 / n as f64 + 1.0 / fresh as f64)).sqrt();
                assert!(share >= level - 3.0 * error, "{level}: {share}");
                assert!(share <= level + 1.0 / n as f64 + 4.0 * error, "{level}: {share}");
            }
        }
    }

    #[test]
    fn small_samples_cover_on_average_as_promised() {
        let (runs, mut rng) = (20_000, seeded(5));
        let mut inside = [0; INTERVALS.len()];
        for _ in 0..runs {
            let seen: Vec<[f64; 2]> = (0..12).map(|_| heavy(&mut rng)).collect();
            let (got, x) = (fit(1, &seen), heavy(&mut rng));
            for (k, level) in INTERVALS.into_iter().enumerate() {
                inside[k] += usize::from(is_inside(&got, 1, level, x));
            }
        }
        // ⌈13p⌉/13, and all where 13 · 0.95 needs the thirteenth of twelve.
        for (k, want) in [7.0 / 13.0, 11.0 / 13.0, 12.0 / 13.0, 1.0].into_iter().enumerate() {
            let error = 5.0 * (want * (1.0 - want) / runs as f64).sqrt();
            assert_close_abs(inside[k] as f64 / runs as f64, want, error);
        }
    }

    #[test]
    fn too_few_observations_promise_nothing() {
        for (n, level, want) in [
            (0, 0.5, None),
            (1, 0.5, Some(1)),
            (3, 0.8, None),
            (4, 0.8, Some(4)),
            (8, 0.9, None),
            (9, 0.9, Some(9)),
            (18, 0.95, None),
            (19, 0.95, Some(19)),
            (39, 0.95, Some(38)),
            (999_999, 0.95, Some(950_000)),
        ] {
            assert_eq!(rank(n, level), want, "{n} {level}");
        }
    }

    #[test]
    fn other_steps_use_the_last_calibrated_one() {
        let mut rng = seeded(6);
        let [near, far] = [1.0, 50.0].map(|f| (0..30).map(|_| draw(f, &mut rng)).collect::<Vec<_>>());
        let mut all = held(2, &near);
        all.extend(held(5, &far));
        let got = Calibration::fit(&all).unwrap();
        let at = |step| got.region_radius(step, 0.9).unwrap();
        assert!(at(5) > 3.0 * at(2));
        assert_eq!([at(0), at(3), at(4)], [at(2); 3]);
        assert_eq!([at(6), at(1000)], [at(5); 2]);
        assert_eq!(got.region_radius(2, 0.7), None);
        assert_eq!(Calibration { radii: vec![], ..got }.region_radius(2, 0.9), None);
    }

    #[test]
    fn incomplete_observations_do_not_enter_the_radii() {
        let mut rng = seeded(7);
        let mut seen: Vec<[f64; 2]> = (0..20).map(|_| draw(1.0, &mut rng)).collect();
        let complete = fit(1, &seen);
        seen.push([1e3, f64::NAN]);
        seen.push([f64::NAN; 2]);
        let got = fit(1, &seen);
        assert_eq!((got.count, got.coordinates, got.radii[0].count), (21, 41, 20));
        for (a, b) in got.radii.iter().zip(&complete.radii) {
            let raw = |r: &ConformalRadius, c: &Calibration| r.radius.unwrap() * c.temperature.sqrt();
            assert_close(raw(a, &got), raw(b, &complete), 1e-14);
        }
    }

    #[test]
    fn it_reads_back_from_json_to_the_same_bits() {
        let mut rng = seeded(8);
        let seen: Vec<[f64; 2]> = (0..12).map(|_| draw(uniform(0.5, 2.0, &mut rng), &mut rng)).collect();
        let got = fit(3, &seen);
        let text = serde_json::to_string(&got).unwrap();
        assert!(text.contains("\"radius\":null"), "{text}");
        assert_eq!(serde_json::from_str::<Calibration>(&text).unwrap(), got);
        assert!(Calibration { temperature: -1.0, ..got.clone() }.check().is_err());
        let bad = ConformalRadius { radius: Some(-1.0), ..got.radii[0] };
        assert!(Calibration { radii: vec![bad], ..got }.check().is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |mean: &[f64], cov: &[f64], x: &[f64]| {
            Calibration::fit(&[HeldOut { step: 0, mean, cov, observation: x }]).is_err()
        };
        assert!(Calibration::fit(&[]).is_err());
        assert!(refused(&[0.0], &[1.0], &[f64::NAN]));
        assert!(refused(&[0.0], &[1.0], &[f64::INFINITY]));
        assert!(refused(&[0.0], &[0.0], &[1.0]));
        assert!(refused(&[f64::NAN], &[1.0], &[1.0]));
        assert!(refused(&[0.0], &[1.0, 0.0], &[1.0]));
        assert!(refused(&[0.0], &[1.0], &[1.0, 2.0]));
        assert!(refused(&[0.0], &[1.0], &[0.0]), "all observations at the mean");
        assert!(!refused(&[0.0], &[1.0], &[1.0]));
    }
}
