//! Dropout with fresh masks, `u(h) = h ⊙ β / keep` (Sec. 4.3, Eqs. 28–31).
//!
//! ```text
//! mean' = mean     J' = J     R' = R + diag((1 − keep)/keep · (B_ii + mean_i²))
//! ```
//!
//! Only the diagonal changes, so both ways work in place.

use crate::flow::{Base, Flow, Shape, Variance};
use crate::kernel::{Mat, Real};

/// `(1 − keep)/keep`, the variance of `β / keep`.
fn excess<T: Real>(keep: f64) -> T {
    T::of((1.0 - keep) / keep)
}

pub(crate) fn push<T: Real>(
    keep: f64,
    h: &mut Flow<T>,
    base: Base<'_, T>,
    shape: Shape,
    tape: &mut Variance<T>,
) {
    tape.push(h, base);
    h.widen(shape);
    for i in 0..h.units() {
        let second = tape.var[i] + h.mean[i] * h.mean[i];
        *h.rest_mut(i) += excess::<T>(keep) * second;
    }
}

/// Adjoint of [`push`]; mean and Jacobian of `h` are those before it as well as after.
pub(crate) fn pull<T: Real>(
    keep: f64,
    h: &Flow<T>,
    bar: &mut Flow<T>,
    base_bar: &mut Mat<T>,
    tape: &mut Variance<T>,
) {
    let mut var_bar = std::mem::take(&mut tape.var);
    for i in 0..h.units() {
        var_bar[i] = excess::<T>(keep) * bar.rest(i);
        bar.mean[i] += var_bar[i] * (h.mean[i] + h.mean[i]);
        *bar.rest_mut(i) += var_bar[i];
    }
    tape.pull(h, &var_bar, bar, base_bar);
    tape.var = var_bar;
}
