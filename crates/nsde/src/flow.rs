//! What travels down a network: `h ~ N(mean, J Σ Jᵀ + R)`, with `J = E[∂h/∂x]`.
//!
//! # Departs from the paper
//! The paper carries the covariance `B` of a layer beside the Jacobian. We carry what the Jacobian
//! does *not* explain, `R = B − J Σ Jᵀ`, and form `B` from it where an activation asks. Then
//! nothing is ever subtracted: `R` is a sum of congruences of positive semi-definite matrices, and
//! `Σ' = (I + Δt J) Σ (I + Δt J)ᵀ + Δt² R + Δt Q` is positive semi-definite by construction, in
//! floating point too. It is also cheaper: the first linear layer has `R = 0`.

use crate::kernel::abreast::gram;
use crate::kernel::mat::padded;
use crate::kernel::product::{Left, Part, product, product_onto};
use crate::kernel::real::in_vectors;
use crate::kernel::transpose::mirror;
use crate::kernel::{Mat, Real, rows};

/// How much of `R` is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// `R = 0`: a linear function of `x`.
    Zero,
    /// Only variances; nobody reads the rest, or it is neglected (`structured`).
    Diagonal,
    Full,
}

/// Moments of one layer's output, relative to an input `x ~ N(·, Σ)`. Also the type of cotangents.
#[derive(Clone, Debug)]
pub(crate) struct Flow<T> {
    pub mean: Vec<T>,
    /// `R`, symmetric positive semi-definite; without rows where it is never [`Shape::Full`]. Down the network only
    /// its lower triangle counts, until somebody asks for [all of it](Flow::complete).
    pub resid: Mat<T>,
    complete: bool,
    /// Its diagonal, where that is all there is.
    pub diag: Vec<T>,
    /// `J`, one row per unit, one column per entry of `x`; or `Jᵀ`, where it is turned.
    pub jac: Mat<T>,
    /// Predictions of single trajectories want `Jᵀ` only, and never transpose it.
    pub turned: bool,
    pub shape: Shape,
    /// `B_ii` where the layer before gave them away for free, as activations do.
    pub var: Vec<T>,
    pub var_known: bool,
}

impl<T: Real> Flow<T> {
    /// `widest` is the most of `R` it will ever hold.
    pub fn zeros(units: usize, inputs: usize, widest: Shape, turned: bool) -> Self {
        let square = if widest == Shape::Full { units } else { 0 };
        Flow {
            mean: vec![T::ZERO; padded::<T>(units)],
            resid: Mat::zeros(square, square),
            complete: false,
            diag: vec![T::ZERO; padded::<T>(units)],
            jac: if turned { Mat::zeros(inputs, units) } else { Mat::zeros(units, inputs) },
            turned,
            shape: Shape::Zero,
            var: vec![T::ZERO; padded::<T>(units)],
            var_known: false,
        }
    }

    pub fn units(&self) -> usize {
        if self.turned { self.jac.cols } else { self.jac.rows }
    }

    /// `R` where it is full.
    pub fn resid(&self) -> Option<&Mat<T>> {
        (self.shape == Shape::Full).then_some(&self.resid)
    }

    /// The place of `R`, whose lower triangle is about to be set.
    pub fn lower(&mut self) -> &mut Mat<T> {
        self.complete = false;
        &mut self.resid
    }

    /// The same, and the place of `J`.
    pub fn lower_and_jac(&mut self) -> (&mut Mat<T>, &mut Mat<T>) {
        self.complete = false;
        (&mut self.resid, &mut self.jac)
    }

    /// Puts the other triangle of `R` in place, unless it is there.
    pub fn complete(&mut self) {
        if self.shape == Shape::Full && !self.complete {
            mirror(&mut self.resid);
            self.complete = true;
        }
    }

    /// `R_ii`.
    #[inline(always)]
    pub fn rest(&self, i: usize) -> T {
        match self.shape {
            Shape::Zero => T::ZERO,
            Shape::Diagonal => self.diag[i],
            Shape::Full => self.resid.at(i, i),
        }
    }

    /// The same, to be changed; `R` is not zero.
    #[inline(always)]
    pub fn rest_mut(&mut self, i: usize) -> &mut T {
        match self.shape {
            Shape::Full => self.resid.at_mut(i, i),
            Shape::Diagonal | Shape::Zero => &mut self.diag[i],
        }
    }

    /// Makes a `Zero` residual one of this shape, with zeros in it.
    pub fn widen(&mut self, shape: Shape) {
        if self.shape == Shape::Zero {
            match shape {
                Shape::Full => self.resid.fill_zero(),
                Shape::Diagonal | Shape::Zero => self.diag.fill(T::ZERO),
            }
            self.shape = shape;
        }
    }
}

/// `diag(slope) J` of `h`, turned if that is.
pub(crate) fn scale_jac<T: Real>(out: &mut Mat<T>, h: &Flow<T>, slope: &[T]) {
    if h.turned {
        rows::scale_columns(out, &h.jac, slope);
    } else {
        rows::scale(out, &h.jac, slope);
    }
}

/// The covariance of the input a Jacobian refers to.
#[derive(Clone, Copy)]
pub(crate) enum Base<'a, T> {
    /// `J = E[∂h/∂x]`, `x ~ N(·, Σ)`. Adjoints need this form: it has them for singular `Σ` too.
    Cov(&'a Mat<T>),
    /// `J = E[∂h/∂z]`, `x = μ + √Σ z`, `z ~ N(0, I)`: no products with `Σ`, for predictions. With `√Σ`, turned as the
    /// Jacobians are.
    White(&'a Mat<T>),
}

/// Scratch of `B = J Σ Jᵀ + R` and its adjoint.
#[derive(Clone, Debug)]
pub(crate) struct Covariance<T> {
    /// `Jᵀ` and `Σ Jᵀ`.
    jac_t: Mat<T>,
    cross_t: Mat<T>,
    /// `∂ℓ/∂B · J`.
    bar_jac: Mat<T>,
}

impl<T: Real> Covariance<T> {
    pub fn zeros(units: usize, inputs: usize) -> Self {
        Covariance {
            jac_t: Mat::zeros(inputs, units),
            cross_t: Mat::zeros(inputs, units),
            bar_jac: Mat::zeros(units, inputs),
        }
    }

    /// Forms `B` of `h`, or its lower triangle, in `cov`.
    pub fn push(&mut self, cov: &mut Mat<T>, h: &Flow<T>, base: Base<'_, T>, part: Part) {
        let jac_t = if h.turned {
            &h.jac
        } else {
            self.jac_t.transpose_from(&h.jac);
            &self.jac_t
        };
        if matches!(base, Base::White(_)) && T::LANES > 1 && part == Part::Lower && h.shape != Shape::Diagonal
        {
            return gram(cov, h.resid(), jac_t);
        }
        // Added on the way.
        let onto = T::LANES == 1 && h.shape == Shape::Full;
        let keep = match h.shape {
            Shape::Zero => false,
            Shape::Diagonal => {
                cov.fill_zero();
                (0..h.units()).for_each(|i| *cov.at_mut(i, i) = h.diag[i]);
                true
            }
            Shape::Full if onto => false,
            Shape::Full => {
                cov.copy_lower_from(&h.resid);
                true
            }
        };
        let cross_t = match base {
            Base::Cov(base) => {
                product(&mut self.cross_t, false, T::ONE, Left::Transposed(base), jac_t, Part::All);
                &self.cross_t
            }
            Base::White(_) => jac_t,
        };
        if onto {
            product_onto(cov, T::ONE, &h.resid, Left::Transposed(cross_t), jac_t);
            if part == Part::Symmetric {
                mirror(cov);
            }
        } else {
            product(cov, keep, T::ONE, Left::Transposed(cross_t), jac_t, part);
        }
    }

    /// `Jᵀ` of `h`, every column times a number.
    pub fn scaled(&mut self, h: &Flow<T>, by: &[T]) -> &Mat<T> {
        let Covariance { jac_t, .. } = self;
        in_vectors::<T>(
            #[inline(always)]
            || {
                for (k, to) in jac_t.data.chunks_exact_mut(jac_t.stride).enumerate() {
                    let jac = h.jac.data.chunks_exact(h.jac.stride);
                    for ((to, row), by) in to.iter_mut().zip(jac).zip(by) {
                        *to = row[k] * *by;
                    }
                }
            },
        );
        jac_t
    }

    /// Adjoint of [`push`](Self::push) in `J` and `Σ`: adds `2 cov_bar J Σ` to `∂ℓ/∂J` and
    /// `Jᵀ cov_bar J` to `∂ℓ/∂Σ`. That of `R` is `cov_bar` itself and left to the caller.
    pub fn pull(
        &mut self,
        h: &Flow<T>,
        base: &Mat<T>,
        cov_bar: &Mat<T>,
        h_bar: &mut Flow<T>,
        base_bar: &mut Mat<T>,
    ) {
        product(&mut self.bar_jac, false, T::ONE, Left::Transposed(cov_bar), &h.jac, Part::All);
        product(&mut h_bar.jac, true, T::of(2.0), Left::Plain(&self.bar_jac), base, Part::All);
        product(base_bar, true, T::ONE, Left::Transposed(&h.jac), &self.bar_jac, Part::Symmetric);
    }
}

/// The diagonal of `B` alone.
#[derive(Clone, Debug)]
pub(crate) struct Variance<T> {
    /// `B_ii`, never negative.
    pub var: Vec<T>,
    /// `J Σ`.
    cross: Mat<T>,
}

impl<T: Real> Variance<T> {
    pub fn zeros(units: usize, inputs: usize) -> Self {
        Variance { var: vec![T::ZERO; padded::<T>(units)], cross: Mat::zeros(units, inputs) }
    }

    /// Forms the variances of `h`.
    pub fn push(&mut self, h: &Flow<T>, base: Base<'_, T>) {
        match base {
            Base::Cov(base) => {
                product(&mut self.cross, false, T::ONE, Left::Plain(&h.jac), base, Part::All);
                rows::dots(&mut self.var, &self.cross, &h.jac);
            }
            Base::White(_) if h.turned => rows::column_dots(&mut self.var, &h.jac, &h.jac),
            Base::White(_) => rows::dots(&mut self.var, &h.jac, &h.jac),
        }
        for i in 0..h.units() {
            self.var[i] = (self.var[i] + h.rest(i)).positive();
        }
    }

    /// Adjoint of [`push`](Self::push) in `J` and `Σ`; that of `R_ii` is `var_bar` itself and left to
    /// the caller. `bar_jac` is room for `diag(var_bar) J`.
    pub fn pull(
        &self,
        h: &Flow<T>,
        var_bar: &[T],
        h_bar: &mut Flow<T>,
        base_bar: &mut Mat<T>,
        bar_jac: &mut Mat<T>,
    ) {
        rows::scale(bar_jac, &h.jac, var_bar);
        rows::add_scaled(&mut h_bar.jac, &self.cross, var_bar, T::of(2.0));
        product(base_bar, true, T::ONE, Left::Transposed(&h.jac), bar_jac, Part::Symmetric);
    }
}
