//! What an activation must tell about itself: its Gaussian-smoothed derivatives and its rest.

use super::units::Units;

/// `Var[u(h)] − c_1² σ²`, the variance that the best linear predictor of `u(h)` leaves, and its
/// derivatives in the mean and the variance of `h`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    pub value: f64,
    pub d_mean: f64,
    pub d_var: f64,
}

/// `Cov[u(x), u(y)] − c_1(x) c_1(y) Cov[x, y]` and its derivatives: in `Cov[x, y]` with the
/// variances held, in the two means, and in the two variances with the covariance held.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PairRest {
    pub value: f64,
    pub d_cov: f64,
    pub d_mean: [f64; 2],
    pub d_var: [f64; 2],
}

/// An elementwise function `u`, smoothed by `h ~ N(mean, sd²)`, `h = mean + sd·z`.
///
/// Covariance, expected Jacobian and adjoint follow from these for every activation alike
/// (`layer/activation.rs`).
pub(crate) trait Smoothed: Send + Sync {
    /// `u(h)`.
    fn value(&self, h: f64) -> f64;

    /// `u'(h)`.
    fn slope(&self, h: f64) -> f64;

    /// `u` of each: one call for many, so that the loop can go in vectors.
    fn values(&self, h: &mut [f64]) {
        h.iter_mut().for_each(|h| *h = self.value(*h));
    }

    /// `u'` of each.
    fn slopes(&self, h: &mut [f64]) {
        h.iter_mut().for_each(|h| *h = self.slope(*h));
    }

    /// `c_n = E[u⁽ⁿ⁾(h)]` for `n = 0 … 3`; `sd = 0` is a point mass.
    fn smooth(&self, mean: f64, sd: f64) -> [f64; 4];

    /// `e[k] = e_{k+2}`, where `e_n = E[u(h) He_n(z)] / √n! = c_n sdⁿ / √n!`; `sd > 0`.
    fn hermite(&self, mean: f64, sd: f64, e: &mut [f64]);

    /// The diagonal beyond the linear term; `sd > 0`.
    fn rest(&self, mean: f64, sd: f64) -> Rest;

    /// All three at once, for activations that can share work between them; `sd > 0`.
    fn expand(&self, mean: f64, sd: f64, e: &mut [f64]) -> ([f64; 4], Rest) {
        self.hermite(mean, sd, e);
        (self.smooth(mean, sd), self.rest(mean, sd))
    }

    /// The same for all units of a layer, `orders` coefficients each; `sd = 0` is a point mass.
    fn expand_double(&self, units: &mut Units<f64>, orders: usize) {
        units.fill(self, orders);
    }

    /// The same in single precision.
    fn expand_single(&self, units: &mut Units<f32>, orders: usize) {
        units.fill(self, orders);
    }

    /// Whether [`pair`](Smoothed::pair) is there to be asked, for deviations up to `sd`.
    fn has_pairs(&self, _sd: f64) -> bool {
        false
    }

    /// An entry beyond the linear term by an exact formula of its own, for `(mean, sd)` of both.
    fn pair(&self, _a: (f64, f64), _b: (f64, f64), _rho: f64, _partials: bool) -> PairRest {
        unreachable!("asked for a pair formula that has_pairs denies")
    }

    /// `κ` of a function that is a line plus `κ h⁺`: the paper's formula is for these (`kernel/paper.rs`).
    fn kink(&self) -> Option<f64> {
        None
    }

    /// Terms after which the series is exact to about 1e-12, for deviations up to `sd`.
    fn long_terms(&self, _sd: f64) -> usize {
        unreachable!("an exact pair formula makes a long series needless")
    }
}
