//! Dropout with fresh masks, `u(h) = h ⊙ β / keep` (Sec. 4.3, Eqs. 28–31).
//!
//! ```text
//! mean' = mean     J' = J     R' = R + diag((1 − keep)/keep · (B_ii + mean_i²))
//! ```
//!
//! Only the diagonal changes, so both ways work in place.

use crate::flow::{Base, Flow, Shape, Variance};
use crate::kernel::real::in_vectors;
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
    if !h.var_known {
        tape.push(h, base);
    }
    h.widen(shape);
    let excess = excess::<T>(keep);
    in_vectors::<T>(
        #[inline(always)]
        || {
            for i in 0..h.units() {
                let var = if h.var_known { h.var[i] } else { tape.var[i] };
                let more = excess * (var + h.mean[i] * h.mean[i]);
                *h.rest_mut(i) += more;
                h.var[i] = var + more;
            }
        },
    );
}

/// Adjoint of [`push`]; mean and Jacobian of `h` are those before it as well as after.
pub(crate) fn pull<T: Real>(
    keep: f64,
    h: &Flow<T>,
    bar: &mut Flow<T>,
    base_bar: &mut Mat<T>,
    tape: &mut Variance<T>,
    bar_jac: &mut Mat<T>,
) {
    let mut var_bar = std::mem::take(&mut tape.var);
    for i in 0..h.units() {
        let known = if h.var_known { bar.var[i] } else { T::ZERO };
        let more_bar = excess::<T>(keep) * (bar.rest(i) + known);
        bar.mean[i] += more_bar * (h.mean[i] + h.mean[i]);
        var_bar[i] = more_bar;
        if h.var_known {
            bar.var[i] += more_bar;
        } else {
            *bar.rest_mut(i) += more_bar;
        }
    }
    if !h.var_known {
        tape.pull(h, &var_bar, bar, base_bar, bar_jac);
    }
    tape.var = var_bar;
}
