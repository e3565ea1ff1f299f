//! Dropout with fresh masks, `u(h) = h ⊙ β / keep` (Sec. 4.3, Eqs. 28–31).
//!
//! ```text
//! mean' = mean     J' = J     R' = R + diag((1 − keep)/keep · (B_ii + mean_i²))
//! ```

use crate::flow::{Covariance, Flow};
use crate::kernel::Real;

/// `(1 − keep)/keep`, the variance of `β / keep`.
fn excess<T: Real>(keep: f64) -> T {
    T::of((1.0 - keep) / keep)
}

pub(crate) fn push<T: Real>(
    keep: f64,
    h: &Flow<T>,
    base: &crate::kernel::Mat<T>,
    out: &mut Flow<T>,
    tape: &mut Covariance<T>,
) {
    tape.push_cross(h, base);
    out.copy_from(h);
    if h.linear {
        out.resid.fill_zero();
    }
    out.linear = false;
    for i in 0..h.units() {
        let second = tape.variance(h, i) + h.mean[i] * h.mean[i];
        *out.resid.at_mut(i, i) += excess::<T>(keep) * second;
    }
}

pub(crate) fn pull<T: Real>(
    keep: f64,
    h: &Flow<T>,
    out_bar: &Flow<T>,
    h_bar: &mut Flow<T>,
    base_bar: &mut crate::kernel::Mat<T>,
    tape: &Covariance<T>,
) {
    h_bar.copy_from(out_bar);
    for i in 0..h.units() {
        let bar = excess::<T>(keep) * out_bar.resid.at(i, i);
        h_bar.mean[i] += bar * (h.mean[i] + h.mean[i]);
        tape.pull_variance(h, i, bar, h_bar, base_bar);
    }
}
