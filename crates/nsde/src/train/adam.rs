//! Adam and AdamW on flat slices.

/// What the optimiser remembers between steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    /// Running mean of the gradient.
    pub first: Vec<f64>,
    /// Running mean of its square.
    pub second: Vec<f64>,
    /// Updates made.
    pub updates: u64,
}

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

impl Adam {
    /// A fresh optimiser for `n` parameters.
    pub fn new(n: usize) -> Self {
        Adam { first: vec![0.0; n], second: vec![0.0; n], updates: 0 }
    }

    /// One update of `parameters` along `gradient`; `decay` is decoupled from the gradient (AdamW).
    pub fn update(&mut self, parameters: &mut [f64], gradient: &[f64], rate: f64, decay: f64) {
        self.updates += 1;
        let t = self.updates as f64;
        let (c1, c2) = (1.0 - BETA1.powf(t), 1.0 - BETA2.powf(t));
        for (((p, g), m), v) in parameters.iter_mut().zip(gradient).zip(&mut self.first).zip(&mut self.second)
        {
            *m = BETA1 * *m + (1.0 - BETA1) * g;
            *v = BETA2 * *v + (1.0 - BETA2) * g * g;
            *p -= rate * (*m / c1 / ((*v / c2).sqrt() + EPSILON) + decay * *p);
        }
    }
}

/// Scales `gradient` to length `limit` if it is longer; returns its length before.
pub fn clip(gradient: &mut [f64], limit: f64) -> f64 {
    let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    if norm > limit {
        gradient.iter_mut().for_each(|g| *g *= limit / norm);
    }
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_update_moves_by_the_rate() {
        // Bias correction makes the first step rate·sign(gradient), whatever its size.
        let mut p = [1.0, -2.0, 0.5];
        Adam::new(3).update(&mut p, &[1e-3, -40.0, 0.0], 0.1, 0.0);
        for (got, want) in p.iter().zip([0.9, -1.9, 0.5]) {
            assert!((got - want).abs() < 2e-6, "{got} {want}");
        }
    }

    #[test]
    fn weight_decay_does_not_pass_through_the_moments() {
        let (mut a, mut b) = ([1.0], [1.0]);
        let (mut plain, mut decayed) = (Adam::new(1), Adam::new(1));
        plain.update(&mut a, &[0.3], 0.1, 0.0);
        decayed.update(&mut b, &[0.3], 0.1, 0.5);
        assert!((a[0] - b[0] - 0.05).abs() < 1e-15);
        assert_eq!(plain, decayed);
    }

    #[test]
    fn a_quadratic_is_minimised() {
        let mut p = vec![3.0, -4.0];
        let mut adam = Adam::new(2);
        for _ in 0..2000 {
            let g = [2.0 * (p[0] - 1.0), 20.0 * (p[1] - 2.0)];
            adam.update(&mut p, &g, 0.02, 0.0);
        }
        assert!((p[0] - 1.0).abs() < 1e-3 && (p[1] - 2.0).abs() < 1e-3, "{p:?}");
    }

    #[test]
    fn clipping_keeps_the_direction() {
        let mut g = [3.0, 4.0];
        assert_eq!(clip(&mut g, 1.0), 5.0);
        assert!((g[0] - 0.6).abs() < 1e-15 && (g[1] - 0.8).abs() < 1e-15);
        assert_eq!(clip(&mut g, 2.0), 1.0);
    }
}
