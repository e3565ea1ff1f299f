//! The scores of one predictive distribution against one observation (Sec. 6.1).

use super::marginal::Marginal;
use super::missing::{finite, marginal, observed};
use super::{INTERVALS, Predictive, chi_squared_cdf};
use crate::error::{Error, Result, dimension};
use crate::gaussian;

/// How one prediction fared, over the coordinates that were observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// How many coordinates were observed: the degrees of freedom of the distance.
    pub dof: usize,
    /// `‖x − μ‖²`, summed over the observed coordinates.
    pub squared_error: f64,
    /// `−log p(x)` of the observed coordinates jointly, all constants included.
    pub nll: f64,
    /// `(x − μ)ᵀ Σ⁻¹ (x − μ)`, χ² with `dof` degrees of freedom if a Gaussian prediction is right. For a
    /// mixture, mean and covariance are those of the whole mixture.
    pub squared_mahalanobis: f64,
    /// Probability of the ellipsoid that has the observation on its rim, `F_χ²(squared_mahalanobis)`:
    /// uniform if the prediction is right, and `≤ p` exactly if the observation is in the region of Eq. 38.
    pub region: f64,
    /// One entry per observed coordinate, in order.
    pub coordinates: Vec<CoordinateScore>,
}

/// How the law of one coordinate fared.
#[derive(Clone, Debug, PartialEq)]
pub struct CoordinateScore {
    /// Which coordinate.
    pub index: usize,
    /// `F(x)`, the probability integral transform: uniform if the prediction is right.
    pub pit: f64,
    /// The continuous ranked probability score, in the units of `x`.
    pub crps: f64,
    /// Whether the central interval of each level of [`INTERVALS`] holds `x`.
    pub inside: [bool; INTERVALS.len()],
    /// Width of these intervals.
    pub width: [f64; INTERVALS.len()],
}

impl Score {
    /// Scores `law` against `observation`, NaN where a coordinate is missing; `None` if all are.
    ///
    /// ```text
    /// nll = ½(log det 2πΣ + (x − μ)ᵀ Σ⁻¹ (x − μ))           Gaussian
    /// nll = −log Σ_k w_k N(x | μ_k, Σ_k)                    mixture
    /// ```
    ///
    /// Fails if the sizes differ, a number is not finite, or the covariance of the observed coordinates is
    /// singular: no jitter is added. Cost `O(dof³)` per component, and bisections for a mixture.
    pub fn new<'a>(law: impl Into<Predictive<'a>>, observation: &[f64]) -> Result<Option<Score>> {
        let law = law.into();
        dimension("observation", law.dim(), observation.len())?;
        let index = observed(observation)?;
        if index.is_empty() {
            return Ok(None);
        }
        let matched;
        let (mean, cov) = match law {
            Predictive::Gaussian { mean, cov } => (mean, cov),
            Predictive::Mixture(mixture) => {
                matched = mixture.moments();
                (&matched.mean[..], &matched.cov[..])
            }
        };
        dimension("entries of the covariance", mean.len() * mean.len(), cov.len())?;
        let (m, c, x) = marginal(mean, cov, observation, &index);
        finite(&m, "mean")?;
        finite(&c, "covariance")?;
        let squared_mahalanobis = gaussian::mahalanobis(&m, &c, &x)?;
        let nll = match law {
            Predictive::Gaussian { .. } => gaussian::nll(&m, &c, &x)?,
            Predictive::Mixture(mixture) => mixture.nll(observation)?,
        };
        if !squared_mahalanobis.is_finite() {
            let what = "squared Mahalanobis distance".into();
            return Err(Error::Range { what, value: squared_mahalanobis, must: "finite" });
        }
        Ok(Some(Score {
            dof: index.len(),
            squared_error: x.iter().zip(&m).map(|(x, m)| (x - m) * (x - m)).sum(),
            nll,
            squared_mahalanobis,
            region: chi_squared_cdf(squared_mahalanobis, index.len()),
            coordinates: index.iter().map(|&i| CoordinateScore::new(law, i, observation[i])).collect(),
        }))
    }
}

impl CoordinateScore {
    fn new(law: Predictive<'_>, index: usize, x: f64) -> Self {
        let law = Marginal::new(law, index);
        let intervals = law.central();
        CoordinateScore {
            index,
            pit: law.cdf(x),
            crps: law.crps(x),
            inside: intervals.map(|(low, high)| low <= x && x <= high),
            width: intervals.map(|(low, high)| high - low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gaussian;
    use crate::metric::{Mixture, chi_squared_quantile, crps_gaussian};
    use nsde_check::activation::normal_cdf;
    use nsde_check::{assert_close, assert_close_abs};

    const COV: [f64; 9] = [2.0, 0.6, -0.3, 0.6, 1.0, 0.2, -0.3, 0.2, 0.5];
    const MEAN: [f64; 3] = [1.0, -1.0, 0.5];

    fn law() -> Predictive<'static> {
        Predictive::Gaussian { mean: &MEAN, cov: &COV }
    }

    /// Two of the three coordinates, by the written-out inverse of a 2 × 2 matrix.
    #[test]
    fn a_missing_coordinate_leaves_the_marginal() {
        let score = Score::new(law(), &[1.7, f64::NAN, -0.4]).unwrap().unwrap();
        let (a, b): (f64, f64) = (0.7, -0.9);
        let det: f64 = 2.0 * 0.5 - 0.09;
        let square = (0.5 * a * a + 2.0 * 0.3 * a * b + 2.0 * b * b) / det;
        assert_eq!(score.dof, 2);
        assert_close(score.squared_error, a * a + b * b, 1e-15);
        assert_close(score.squared_mahalanobis, square, 1e-14);
        assert_close(score.nll, (2.0 * std::f64::consts::PI).ln() + 0.5 * (det.ln() + square), 1e-14);
        assert_close(score.region, 1.0 - (-0.5 * square).exp(), 1e-13);
        let indices: Vec<usize> = score.coordinates.iter().map(|c| c.index).collect();
        assert_eq!(indices, [0, 2]);
        assert_close(score.coordinates[1].pit, normal_cdf(b / 0.5f64.sqrt()), 1e-14);
        assert_eq!(score.coordinates[1].crps, crps_gaussian(0.5, 0.5f64.sqrt(), -0.4));
    }

    #[test]
    fn central_intervals_have_their_known_widths() {
        // z = 2.5 is in none of them, z = 0 in all, z = 1.5 in those of 90 and 95 %.
        let widths = [
            0.674_489_750_196_081_7,
            1.281_551_565_544_600_4,
            1.644_853_626_951_472_2,
            1.959_963_984_540_054,
        ];
        for (z, inside) in [(2.5, [false; 4]), (0.0, [true; 4]), (-1.5, [false, false, true, true])] {
            let x = [1.0 + z * 2f64.sqrt(), f64::NAN, f64::NAN];
            let score = Score::new(law(), &x).unwrap().unwrap();
            assert_eq!(score.coordinates[0].inside, inside, "{z}");
            for (got, half) in score.coordinates[0].width.iter().zip(widths) {
                assert_close(*got, 2.0 * half * 2f64.sqrt(), 1e-14);
            }
        }
    }

    #[test]
    fn the_region_of_a_level_is_the_ellipsoid_of_eq_38() {
        for i in 0..40 {
            let t = i as f64 * 0.1;
            let score = Score::new(law(), &[1.0 + t, -1.0 + 0.3 * t, 0.5 - 0.4 * t]).unwrap().unwrap();
            for level in [0.1, 0.5, 0.9] {
                let inside = score.squared_mahalanobis <= chi_squared_quantile(level, 3);
                assert_eq!(score.region <= level, inside, "{t} {level}");
            }
        }
    }

    #[test]
    fn a_mixture_of_one_gaussian_scores_alike() {
        let gaussian = Gaussian::new(MEAN.to_vec(), COV.to_vec()).unwrap();
        let mixture = Mixture::equal(vec![gaussian.clone(); 3]).unwrap();
        let x = [0.2, -3.0, f64::NAN];
        let one = Score::new(&gaussian, &x).unwrap().unwrap();
        let many = Score::new(&mixture, &x).unwrap().unwrap();
        for (a, b) in [
            (one.squared_error, many.squared_error),
            (one.nll, many.nll),
            (one.squared_mahalanobis, many.squared_mahalanobis),
            (one.region, many.region),
        ] {
            assert_close(a, b, 1e-13);
        }
        for (a, b) in one.coordinates.iter().zip(&many.coordinates) {
            assert_eq!((a.index, a.inside), (b.index, b.inside));
            assert_close(a.pit, b.pit, 1e-13);
            assert_close(a.crps, b.crps, 1e-13);
            for k in 0..4 {
                assert_close(a.width[k], b.width[k], 1e-13);
            }
        }
    }

    #[test]
    fn a_mixture_of_two_has_its_wide_ellipsoid_and_its_own_likelihood() {
        let part = |m: f64| Gaussian::new(vec![m], vec![0.01]).unwrap();
        let mixture = Mixture::equal(vec![part(-1.0), part(1.0)]).unwrap();
        let between = Score::new(&mixture, &[0.0]).unwrap().unwrap();
        let on_top = Score::new(&mixture, &[1.0]).unwrap().unwrap();
        assert_close_abs(between.squared_mahalanobis, 0.0, 1e-30);
        assert_close(on_top.squared_mahalanobis, 1.0 / 1.01, 1e-14);
        assert!(between.nll > 45.0 && on_top.nll < 0.0);
        assert_close(on_top.coordinates[0].pit, 0.75, 1e-14);
    }

    #[test]
    fn nothing_observed_is_no_score_and_nonsense_is_an_error() {
        assert_eq!(Score::new(law(), &[f64::NAN; 3]).unwrap(), None);
        assert!(Score::new(law(), &[0.0; 2]).is_err());
        assert!(Score::new(law(), &[0.0, f64::INFINITY, 0.0]).is_err());
        let scalar =
            |mean: f64, cov: f64| Score::new(Predictive::Gaussian { mean: &[mean], cov: &[cov] }, &[0.0]);
        for (mean, cov) in [(f64::NAN, 1.0), (0.0, f64::NAN), (0.0, 0.0), (0.0, -1.0), (0.0, f64::INFINITY)] {
            assert!(scalar(mean, cov).is_err(), "{mean} {cov}");
        }
        assert!(scalar(0.0, 1.0).is_ok());
        let short = Predictive::Gaussian { mean: &[0.0; 2], cov: &[1.0; 3] };
        assert!(Score::new(short, &[0.0; 2]).is_err());
    }
}
