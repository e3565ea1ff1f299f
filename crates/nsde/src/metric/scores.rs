//! Scores of many forecasts, per step of the horizon and overall.

use super::tally::{Summary, Tally};
use super::{Predictive, Score};
use crate::error::Result;
use serde::Serialize;
use std::collections::BTreeMap;

/// Takes forecasts with what came true, one at a time, and averages.
///
/// Sums run in the order of the calls within each step, and over the steps in their order: the same calls
/// give the same bits. For parallel work keep one per block of trajectories and [`merge`](Scores::merge) them
/// in a fixed order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    steps: BTreeMap<usize, Tally>,
}

/// All that [`Scores`] knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Over all points of all steps, every point alike; `None` if there was none.
    pub overall: Option<Summary>,
    /// Per step, in ascending order; steps without a point are absent.
    pub steps: Vec<StepSummary>,
}

/// Averages over the points of one step of the horizon.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepSummary {
    /// The step, as the caller counts.
    pub step: usize,
    /// Its averages; in JSON their keys stand beside `step`.
    #[serde(flatten)]
    pub summary: Summary,
}

impl Scores {
    /// Nothing scored yet.
    pub fn new() -> Self {
        Scores::default()
    }

    /// Scores `law`, the forecast for `step`, against `observation` (NaN where missing). An observation
    /// without any coordinate is skipped; on an error nothing is added. See [`Score::new`].
    pub fn push<'a>(
        &mut self,
        step: usize,
        law: impl Into<Predictive<'a>>,
        observation: &[f64],
    ) -> Result<()> {
        if let Some(score) = Score::new(law, observation)? {
            self.add(step, &score);
        }
        Ok(())
    }

    /// Adds a score that was computed before.
    pub fn add(&mut self, step: usize, score: &Score) {
        self.steps.entry(step).or_default().add(score);
    }

    /// Adds what another one has summed, after one's own.
    pub fn merge(&mut self, other: &Scores) {
        for (step, tally) in &other.steps {
            self.steps.entry(*step).or_default().merge(tally);
        }
    }

    /// Averages over everything; `None` if nothing was scored.
    pub fn overall(&self) -> Option<Summary> {
        let mut all = Tally::default();
        self.steps.values().for_each(|tally| all.merge(tally));
        all.summary()
    }

    /// Averages over one step; `None` if nothing was scored there.
    pub fn step(&self, step: usize) -> Option<Summary> {
        self.steps.get(&step).and_then(Tally::summary)
    }

    /// Overall and per step.
    pub fn report(&self) -> Report {
        let of_step = |(step, tally): (&usize, &Tally)| {
            tally.summary().map(|summary| StepSummary { step: *step, summary })
        };
        Report { overall: self.overall(), steps: self.steps.iter().filter_map(of_step).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{LEVELS, Mixture, chi_squared_cdf, chi_squared_quantile};
    use crate::{Error, Gaussian};
    use nsde_check::sampling::{normal, uniform};
    use nsde_check::{assert_close, assert_close_abs, random_vec, seeded};

    const MEAN: [f64; 2] = [0.5, -1.0];
    const COV: [f64; 4] = [1.0, 0.6, 0.6, 1.0];

    /// A draw from N(MEAN, factor · COV): the lower factor of COV is [[1, 0], [0.6, 0.8]].
    fn draw(factor: f64, rng: &mut nsde_check::Random) -> [f64; 2] {
        let (a, b) = (normal(rng), normal(rng));
        let s = factor.sqrt();
        [MEAN[0] + s * a, MEAN[1] + s * (0.6 * a + 0.8 * b)]
    }

    fn simulate(factor: f64, count: usize, seed: u64) -> Summary {
        let (mut scores, mut rng) = (Scores::new(), seeded(seed));
        for _ in 0..count {
            let x = draw(factor, &mut rng);
            scores.push(1, Predictive::Gaussian { mean: &MEAN, cov: &COV }, &x).unwrap();
        }
        scores.overall().unwrap()
    }

    /// Five standard errors of a share of `count` trials.
    fn share_error(p: f64, count: f64) -> f64 {
        5.0 * (p * (1.0 - p) / count).sqrt()
    }

    #[test]
    fn a_right_forecast_is_calibrated_and_has_its_entropy() {
        let count = 20_000.0;
        let s = simulate(1.0, 20_000, 1);
        for point in &s.calibration {
            assert_close_abs(point.empirical, point.level, share_error(point.level, count));
        }
        assert!(s.ecpe < 0.01);
        // The two coordinates of a point are correlated: count points, not coordinates.
        for interval in &s.intervals {
            assert_close_abs(interval.coverage, interval.level, share_error(interval.level, count));
        }
        for bin in s.pit {
            assert_close_abs(bin as f64 / (2.0 * count), 0.05, share_error(0.05, count));
        }
        let error = 5.0 / count.sqrt();
        let entropy = (2.0 * std::f64::consts::PI * std::f64::consts::E).ln() + 0.5 * 0.64f64.ln();
        assert_close_abs(s.nll, entropy, error); // nll has variance D/2 = 1
        assert_close_abs(s.mse_per_coordinate, 1.0, 2f64.sqrt() * error);
        assert_eq!(s.mse_summed, 2.0 * s.mse_per_coordinate);
        assert_close_abs(s.crps, 1.0 / std::f64::consts::PI.sqrt(), error); // E[CRPS] = σ/√π
    }

    #[test]
    fn a_confident_forecast_covers_too_little_by_a_known_amount() {
        // The truth has four times the variance: 1 − (1 − p)^¼ of the points are in the χ²₂ ellipsoid of p.
        let count = 20_000.0;
        let s = simulate(4.0, 20_000, 2);
        for point in &s.calibration {
            let want = 1.0 - (1.0 - point.level).powf(0.25);
            assert_close_abs(point.empirical, want, share_error(want, count));
        }
        let want: f64 = LEVELS.iter().map(|p| (1.0 - (1.0 - p).powf(0.25) - p).abs()).sum::<f64>() / 10.0;
        assert_close_abs(s.ecpe, want, 0.01);
        // The 95 % interval of z reaches 1.96/2 deviations of the truth.
        let inside = chi_squared_cdf(chi_squared_quantile(0.95, 1) / 4.0, 1);
        assert_close_abs(s.intervals[3].coverage, inside, share_error(inside, count));
        assert!(s.pit[0] > 3 * s.pit[10] && s.pit[19] > 3 * s.pit[9], "U-shaped: {:?}", s.pit);
    }

    #[test]
    fn a_right_mixture_has_a_flat_pit_and_covers_its_intervals() {
        let part = |m: f64, v: f64| Gaussian::new(vec![m], vec![v]).unwrap();
        let mixture = Mixture::new(vec![0.3, 0.7], vec![part(-1.5, 0.1), part(2.0, 1.0)]).unwrap();
        let (mut scores, mut rng) = (Scores::new(), seeded(3));
        for _ in 0..5_000 {
            let first = uniform(0.0, 1.0, &mut rng) < 0.3;
            let z = normal(&mut rng);
            let x = if first { -1.5 + 0.1f64.sqrt() * z } else { 2.0 + z };
            scores.push(1, &mixture, &[x]).unwrap();
        }
        let s = scores.overall().unwrap();
        for interval in &s.intervals {
            assert_close_abs(interval.coverage, interval.level, share_error(interval.level, 5e3));
        }
        for bin in s.pit {
            assert_close_abs(bin as f64 / 5e3, 0.05, share_error(0.05, 5e3));
        }
        // Between the modes the matched ellipsoid is nearly empty: that is what it says about mixtures.
        assert!(s.calibration[0].empirical < 0.1);
    }

    #[test]
    fn steps_add_up_to_the_whole_and_the_same_calls_give_the_same_bits() {
        let mut rng = seeded(4);
        let (mut whole, mut left, mut right) = (Scores::new(), Scores::new(), Scores::new());
        for i in 0..60 {
            let x = random_vec(2, &mut rng);
            let law = Predictive::Gaussian { mean: &MEAN, cov: &COV };
            whole.push(i % 3, law, &x).unwrap();
            if i < 30 { &mut left } else { &mut right }.push(i % 3, law, &x).unwrap();
        }
        let overall = whole.overall().unwrap();
        let report = whole.report();
        assert_eq!(report.steps.iter().map(|s| s.step).collect::<Vec<_>>(), [0, 1, 2]);
        let mean = report.steps.iter().map(|s| s.summary.nll * s.summary.count as f64).sum::<f64>() / 60.0;
        assert_close(overall.nll, mean, 1e-14);
        assert_eq!(whole.step(1).unwrap(), report.steps[1].summary);
        assert_eq!((whole.step(9), Scores::new().report().overall), (None, None));
        left.merge(&right);
        let merged = left.overall().unwrap();
        assert_eq!((merged.count, merged.pit, &merged.calibration), (60, overall.pit, &overall.calibration));
        assert_close(merged.nll, overall.nll, 1e-14);
        assert_eq!(whole.clone().report(), report);
    }

    #[test]
    fn an_error_adds_nothing_and_a_wholly_missing_row_is_skipped() {
        let mut scores = Scores::new();
        let singular = Predictive::Gaussian { mean: &MEAN, cov: &[1.0; 4] };
        assert!(matches!(scores.push(1, singular, &[0.0; 2]), Err(Error::NotPositiveDefinite { .. })));
        scores.push(1, singular, &[f64::NAN; 2]).unwrap();
        assert_eq!(scores.overall(), None);
        // Of one coordinate alone the same covariance is regular.
        scores.push(1, singular, &[0.0, f64::NAN]).unwrap();
        assert_eq!(scores.overall().unwrap().coordinates, 1);
    }

    #[test]
    fn the_report_is_json_with_the_step_beside_its_numbers() {
        let mut scores = Scores::new();
        scores.push(7, Predictive::Gaussian { mean: &MEAN, cov: &COV }, &MEAN).unwrap();
        let json = serde_json::to_value(scores.report()).unwrap();
        assert_eq!(json["steps"][0]["step"], 7);
        assert_eq!(json["steps"][0]["mse_summed"], 0.0);
        assert_eq!(json["overall"]["pit"].as_array().unwrap().len(), 20);
        assert_eq!(json["overall"]["calibration"][9]["level"], 1.0);
        assert_eq!(json["overall"]["intervals"][0]["coverage"], 1.0);
    }
}
