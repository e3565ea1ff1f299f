//! Coverage of confidence ellipsoids, and its expected error ECPE (Sec. 6.1, Eqs. 36–38).

use serde::Serialize;

/// The ten confidence levels `p_j`. The last is met by every observation, so ECPE averages nine errors
/// that can be positive and one that cannot; this is the paper's definition.
pub const LEVELS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// One point of the calibration curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CalibrationPoint {
    /// `p_j`, the probability that the predictions claim for their region.
    pub level: f64,
    /// `p̂_j`, the share of the observations inside.
    pub empirical: f64,
}

/// The expected error of the coverage probability.
///
/// ```text
/// ECPE = 1/J Σ_j |p̂_j − p_j|                                                         Sec. 6.1, Eq. 36
/// ```
pub fn ecpe(curve: &[CalibrationPoint]) -> f64 {
    curve.iter().map(|point| (point.empirical - point.level).abs()).sum::<f64>() / curve.len() as f64
}

/// How many observations lie in the region of each level.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Coverage {
    count: u64,
    inside: [u64; LEVELS.len()],
}

impl Coverage {
    /// Counts an observation on the rim of the region with probability `region`: it is inside the regions
    /// of all levels from there on, which says the same as comparing with `χ²_D(p_j)` (Eqs. 37–38).
    pub(super) fn add(&mut self, region: f64) {
        self.count += 1;
        for (inside, level) in self.inside.iter_mut().zip(LEVELS) {
            *inside += u64::from(region <= level);
        }
    }

    /// Adds what another one has counted.
    pub(super) fn merge(&mut self, other: &Coverage) {
        self.count += other.count;
        for (inside, more) in self.inside.iter_mut().zip(other.inside) {
            *inside += more;
        }
    }

    /// `(p_j, p̂_j)` for every level.
    ///
    /// ```text
    /// p̂_j = 1/N Σ_i 1{(x_i − μ_i)ᵀ Σ_i⁻¹ (x_i − μ_i) ≤ χ²_D(p_j)}                Sec. 6.1, Eqs. 37–38
    /// ```
    pub(super) fn curve(&self) -> Vec<CalibrationPoint> {
        let point = |(level, inside): (f64, u64)| CalibrationPoint {
            level,
            empirical: inside as f64 / self.count as f64,
        };
        LEVELS.into_iter().zip(self.inside).map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::assert_close_abs;

    #[test]
    fn four_observations_are_counted_by_hand() {
        let mut coverage = Coverage::default();
        for region in [0.05, 0.35, 0.35, 1.0] {
            coverage.add(region);
        }
        let curve = coverage.curve();
        let empirical: Vec<f64> = curve.iter().map(|p| p.empirical).collect();
        assert_eq!(empirical, [0.25, 0.25, 0.25, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75, 1.0]);
        let errors = [0.15, 0.05, 0.05, 0.35, 0.25, 0.15, 0.05, 0.05, 0.15, 0.0];
        assert_close_abs(ecpe(&curve), errors.iter().sum::<f64>() / 10.0, 1e-15);
    }

    #[test]
    fn halves_merge_into_the_whole() {
        let (mut whole, mut left, mut right) =
            (Coverage::default(), Coverage::default(), Coverage::default());
        for i in 0..100 {
            let region = (i as f64 * 0.618).fract();
            whole.add(region);
            if i < 30 { left.add(region) } else { right.add(region) }
        }
        left.merge(&right);
        assert_eq!(left, whole);
        // A sequence of low discrepancy is calibrated.
        assert!(ecpe(&whole.curve()) < 0.02);
    }
}
