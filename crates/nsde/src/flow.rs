//! What travels down a network: `h ~ N(mean, J Σ Jᵀ + R)`, with `J = E[∂h/∂x]`.
//!
//! # Departs from the paper
//! The paper carries the covariance `B` of a layer beside the Jacobian. We carry what the Jacobian
//! does *not* explain, `R = B − J Σ Jᵀ`, and form `B` from it where an activation asks. Then
//! nothing is ever subtracted: `R` is a sum of congruences of positive semi-definite matrices, and
//! `Σ' = (I + Δt J) Σ (I + Δt J)ᵀ + Δt² R + Δt Q` is positive semi-definite by construction, in
//! floating point too. It is also cheaper: the first linear layer has `R = 0`.

use crate::kernel::tile::{Left, Part, product};
use crate::kernel::{Mat, Real};

/// Moments of one layer's output, relative to an input `x ~ N(·, Σ)`. Also the type of cotangents.
#[derive(Clone, Debug)]
pub(crate) struct Flow<T> {
    pub mean: Vec<T>,
    /// `R`, symmetric positive semi-definite.
    pub resid: Mat<T>,
    /// `J`, one row per unit, one column per entry of `x`.
    pub jac: Mat<T>,
    /// `R` is zero: a linear function of `x`.
    pub linear: bool,
}

impl<T: Real> Flow<T> {
    pub fn zeros(units: usize, inputs: usize) -> Self {
        Flow {
            mean: vec![T::ZERO; crate::kernel::mat::padded::<T>(units)],
            resid: Mat::zeros(units, units),
            jac: Mat::zeros(units, inputs),
            linear: true,
        }
    }

    pub fn fill_zero(&mut self) {
        self.mean.fill(T::ZERO);
        self.resid.fill_zero();
        self.jac.fill_zero();
        self.linear = true;
    }

    pub fn units(&self) -> usize {
        self.resid.rows
    }

    pub fn copy_from(&mut self, other: &Flow<T>) {
        self.mean.copy_from_slice(&other.mean);
        self.jac.copy_from(&other.jac);
        self.linear = other.linear;
        self.resid.copy_from(&other.resid);
    }

    /// `R` unless it is zero.
    pub fn resid(&self) -> Option<&Mat<T>> {
        (!self.linear).then_some(&self.resid)
    }
}

/// `B = J Σ Jᵀ + R` and what its computation leaves behind for the adjoint.
#[derive(Clone, Debug)]
pub(crate) struct Covariance<T> {
    /// `B`.
    pub cov: Mat<T>,
    /// `J Σ`.
    pub cross: Mat<T>,
    /// `Jᵀ`.
    jac_t: Mat<T>,
    /// `∂ℓ/∂B · J`, scratch of the adjoint.
    bar_jac: Mat<T>,
}

impl<T: Real> Covariance<T> {
    pub fn zeros(units: usize, inputs: usize) -> Self {
        Covariance {
            cov: Mat::zeros(units, units),
            cross: Mat::zeros(units, inputs),
            jac_t: Mat::zeros(inputs, units),
            bar_jac: Mat::zeros(units, inputs),
        }
    }

    /// Forms `B` of `h`.
    pub fn push(&mut self, h: &Flow<T>, base: &Mat<T>) {
        self.push_cross(h, base);
        self.jac_t.transpose_from(&h.jac);
        let keep = !h.linear;
        if keep {
            self.cov.copy_from(&h.resid);
        }
        product(&mut self.cov, keep, T::ONE, Left::Plain(&self.cross), &self.jac_t, Part::Symmetric);
    }

    /// Forms `J Σ` only; [`variance`](Self::variance) then gives the diagonal of `B`.
    pub fn push_cross(&mut self, h: &Flow<T>, base: &Mat<T>) {
        product(&mut self.cross, false, T::ONE, Left::Plain(&h.jac), base, Part::All);
    }

    /// `B_ii`, never negative.
    pub fn variance(&self, h: &Flow<T>, i: usize) -> T {
        let linear: T = self.cross.row(i).iter().zip(h.jac.row(i)).map(|(a, b)| *a * *b).sum();
        let v = if h.linear { linear } else { linear + h.resid.at(i, i) };
        if v > T::ZERO { v } else { T::ZERO }
    }

    /// Adjoint of [`push`](Self::push): adds `cov_bar` to `∂ℓ/∂R`, `2 cov_bar J Σ` to `∂ℓ/∂J` and
    /// `Jᵀ cov_bar J` to `∂ℓ/∂Σ`.
    pub fn pull(&mut self, h: &Flow<T>, cov_bar: &Mat<T>, h_bar: &mut Flow<T>, base_bar: &mut Mat<T>) {
        h_bar.resid.add_assign(cov_bar);
        product(&mut h_bar.jac, true, T::of(2.0), Left::Plain(cov_bar), &self.cross, Part::All);
        product(&mut self.bar_jac, false, T::ONE, Left::Plain(cov_bar), &h.jac, Part::All);
        product(base_bar, true, T::ONE, Left::Transposed(&h.jac), &self.bar_jac, Part::Symmetric);
    }

    /// Adjoint of [`variance`](Self::variance), one unit at a time.
    pub fn pull_variance(&self, h: &Flow<T>, i: usize, bar: T, h_bar: &mut Flow<T>, base_bar: &mut Mat<T>) {
        *h_bar.resid.at_mut(i, i) += bar;
        let jac = h.jac.row(i);
        for (to, from) in h_bar.jac.row_mut(i).iter_mut().zip(self.cross.row(i)) {
            *to += bar * (*from + *from);
        }
        for (a, x) in jac.iter().enumerate() {
            for (to, y) in base_bar.row_mut(a).iter_mut().zip(jac) {
                *to += bar * *x * *y;
            }
        }
    }
}
