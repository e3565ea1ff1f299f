//! What a cloud of particles says: its Gaussian, and how well that one covers the observations.

use anyhow::Result;
use nsde::metric::{CalibrationPoint, LEVELS, Mixture, Score, chi_squared_cdf, ecpe};
use nsde::{Gaussian, mahalanobis};
use serde::{Deserialize, Serialize};

/// Mean and covariance (`n − 1` in the denominator) of the first `samples` particles, `[…, D]` by rows.
pub fn moments(particles: &[f64], dim: usize, samples: usize) -> Gaussian {
    let rows = || particles.chunks(dim).take(samples);
    let n = samples as f64;
    let (mut mean, mut cov) = (vec![0.0; dim], vec![0.0; dim * dim]);
    for row in rows() {
        mean.iter_mut().zip(row).for_each(|(m, x)| *m += x / n);
    }
    for row in rows() {
        for i in 0..dim {
            for j in 0..dim {
                cov[i * dim + j] += (row[i] - mean[i]) * (row[j] - mean[j]) / (n - 1.0).max(1.0);
            }
        }
    }
    Gaussian { mean, cov }
}

/// Scores of Gaussians that may be singular, as those of few particles are: such a one covers nothing but
/// a set without volume, so its observations count as outside of every region but that of level 1.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    dim: usize,
    points: u64,
    squared: f64,
    /// Points that had a density.
    dense: u64,
    nll: f64,
    crps: f64,
    inside: [u64; LEVELS.len()],
    singular: u64,
}

/// Averages over all points; NLL is `None` where a prediction was singular.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// Squared error per coordinate.
    pub mse: f64,
    /// Negative log-likelihood, summed over coordinates.
    pub nll: Option<f64>,
    /// Error of the coverage, Eq. 36.
    pub ecpe: Option<f64>,
    /// Continuous ranked probability score per coordinate.
    pub crps: Option<f64>,
}

impl Scored {
    /// The NLL, or the MSE where there is no density.
    pub fn likely(self) -> f64 {
        self.nll.unwrap_or(self.mse)
    }
}

impl Judge {
    /// Scores `law` against `x`.
    pub fn gaussian(&mut self, law: &Gaussian, x: &[f64]) -> Result<()> {
        self.mean(&law.mean, x);
        match Score::new(law, x) {
            Err(nsde::Error::NotPositiveDefinite { .. }) => self.singular += 1,
            Err(other) => return Err(other.into()),
            Ok(None) => {}
            Ok(Some(score)) => {
                let crps = score.coordinates.iter().map(|c| c.crps).sum();
                self.dense(score.region, score.nll, crps);
            }
        }
        Ok(())
    }

    /// Scores a mixture against `x`; its region is that of the Gaussian with its moments.
    pub fn mixture(&mut self, law: &Mixture, x: &[f64]) -> Result<()> {
        let moments = law.moments();
        self.mean(&moments.mean, x);
        let region = chi_squared_cdf(mahalanobis(&moments.mean, &moments.cov, x)?, x.len());
        let crps = x.iter().enumerate().map(|(i, x)| law.crps(i, *x)).sum();
        self.dense(region, law.nll(x)?, crps);
        Ok(())
    }

    fn dense(&mut self, region: f64, nll: f64, crps: f64) {
        self.dense += 1;
        self.nll += nll;
        self.crps += crps;
        for (inside, level) in self.inside.iter_mut().zip(LEVELS) {
            *inside += u64::from(region <= level);
        }
    }

    /// Scores a prediction without uncertainty against `x`.
    pub fn mean(&mut self, mean: &[f64], x: &[f64]) {
        self.dim = x.len();
        self.points += 1;
        self.squared += mean.iter().zip(x).map(|(m, x)| (m - x).powi(2)).sum::<f64>();
    }

    /// Whether nothing was scored yet.
    pub fn empty(&self) -> bool {
        self.points == 0
    }

    /// The averages.
    pub fn scored(&self) -> Scored {
        let whole = self.dense > 0 && self.singular == 0;
        let judged = (self.dense + self.singular) as f64;
        let mut curve = LEVELS.map(|level| CalibrationPoint { level, empirical: 1.0 });
        for (point, inside) in curve.iter_mut().zip(self.inside).take(LEVELS.len() - 1) {
            point.empirical = inside as f64 / judged;
        }
        Scored {
            mse: self.squared / (self.points * self.dim as u64) as f64,
            nll: whole.then(|| self.nll / judged),
            ecpe: (judged > 0.0).then(|| ecpe(&curve)),
            crps: whole.then(|| self.crps / (judged * self.dim as f64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_three_particles_by_hand() {
        let g = moments(&[0.0, 0.0, 2.0, 0.0, 4.0, 3.0, 99.0, 99.0], 2, 3);
        assert_eq!((g.mean, g.cov), (vec![2.0, 1.0], vec![4.0, 3.0, 3.0, 3.0]));
    }

    #[test]
    fn a_single_particle_covers_nothing() {
        let mut judge = Judge::default();
        judge.gaussian(&moments(&[1.0], 1, 1), &[1.5]).unwrap();
        let s = judge.scored();
        assert_eq!((s.mse, s.nll), (0.25, None));
        assert!((s.ecpe.unwrap() - 0.45).abs() < 1e-12);
    }

    #[test]
    fn a_mean_alone_has_no_likelihood() {
        let mut judge = Judge::default();
        judge.mean(&[1.0, 1.0], &[0.0, 3.0]);
        assert_eq!(judge.scored(), Scored { mse: 2.5, nll: None, ecpe: None, crps: None });
    }
}
