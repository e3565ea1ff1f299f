//! Smoothing all units of a layer in vectors: the trapezoidal rule of `sigmoidal.rs` with its step rounded down to one of
//! a few, so that nodes, weights and Hermite polynomials stand in a table.

use super::sigmoidal::{NARROW, Sigmoidal, hermite_ratios};
use super::units::Units;
use crate::gaussian::special::pdf;
use crate::kernel::Single;
use crate::kernel::dispatch::arch;
use pulp::{Simd, WithSimd};
use std::f64::consts::{FRAC_PI_2, PI};
use std::sync::OnceLock;

/// Coefficients that the table has polynomials for: more come only with long series.
const ORDERS: usize = 12;
/// Steps per unit of `σ/pole`.
const CLASSES: f64 = 12.0;
/// Nodes of the longest rule, at `σ = NARROW` for the nearest pole of all, that of tanh.
const NODES: usize = 320;
/// Sums are made in so many parts.
const PARTS: usize = 8;

/// Which errors a rule leaves: `exp(−alias²/2)`, `exp(−decay)` and `exp(−reach²/2)`.
struct Accuracy {
    alias: f64,
    decay: f64,
    reach: f64,
}

/// Those of `sigmoidal.rs`: about 1e-14.
const DOUBLE: Accuracy = Accuracy { alias: 8.0, decay: 36.0, reach: 9.5 };
/// About 1e-8.
const SINGLE: Accuracy = Accuracy { alias: 6.1, decay: 19.0, reach: 6.5 };

/// A trapezoidal rule against the normal density, filled up with nodes of weight zero.
struct Rule {
    z: Vec<f64>,
    /// They sum to one: constants pass unharmed.
    weight: Vec<f64>,
    /// `weight · he_n(z)`, `n = 2, 3, …`, one after the other.
    hermite: Vec<f64>,
}

impl Rule {
    /// For `σ/pole` up to `ratio`.
    fn new(ratio: f64, accuracy: &Accuracy) -> Self {
        let root = ((ORDERS + 1) as f64).sqrt();
        let step = 2.0 * PI / (root + accuracy.alias + accuracy.decay * ratio);
        let side = ((accuracy.reach + 0.5 * root) / step).ceil() as i64;
        let mut z: Vec<f64> = (-side..=side).map(|k| k as f64 * step).collect();
        let total: f64 = z.iter().map(|z| pdf(*z)).sum();
        let mut weight: Vec<f64> = z.iter().map(|z| pdf(*z) / total).collect();
        let count = z.len().next_multiple_of(PARTS);
        z.resize(count, 0.0);
        weight.resize(count, 0.0);
        let mut hermite = vec![0.0; ORDERS * count];
        for (j, (z, weight)) in z.iter().zip(&weight).enumerate() {
            let (mut now, mut before) = (z * weight, *weight);
            for (row, (first, second)) in hermite.chunks_exact_mut(count).zip(hermite_ratios()) {
                (now, before) = (z * now * first - before * second, now);
                row[j] = now;
            }
        }
        Rule { z, weight, hermite }
    }

    fn all(accuracy: &Accuracy) -> Vec<Rule> {
        let most = (CLASSES * NARROW / FRAC_PI_2).ceil() as usize;
        (1..=most).map(|k| Rule::new(k as f64 / CLASSES, accuracy)).collect()
    }
}

/// Everything about all units in double precision.
pub(crate) fn expand_double<A: Sigmoidal>(activation: &A, units: &mut Units<f64>, orders: usize) {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    let rules = RULES.get_or_init(|| Rule::all(&DOUBLE));
    arch().dispatch(ExpandAll { activation, units, orders, rules });
}

/// The same in single precision; the arithmetic is double.
pub(crate) fn expand_single<A: Sigmoidal>(activation: &A, units: &mut Units<f32>, orders: usize) {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    let rules = RULES.get_or_init(|| Rule::all(&SINGLE));
    arch().dispatch(ExpandAll { activation, units, orders, rules });
}

struct ExpandAll<'a, A, E> {
    activation: &'a A,
    units: &'a mut Units<E>,
    orders: usize,
    rules: &'static [Rule],
}

impl<A: Sigmoidal, E: Single> WithSimd for ExpandAll<'_, A, E> {
    type Output = ();

    /// Several short loops, so that the compiler makes vectors of each.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let ExpandAll { activation, units, orders, rules } = self;
        // `u … u'''` at the nodes; then `u` less its best line.
        let mut u = [[0.0; NODES]; 4];
        for i in 0..units.rest.len() {
            let (mean, sd) = (units.mean[i].f64(), units.sd[i].f64());
            let class = (CLASSES * sd / activation.pole()) as usize;
            let narrow = sd > 0.0 && sd <= NARROW && orders <= ORDERS;
            let Some(rule) = rules.get(class).filter(|_| narrow) else {
                units.fill_one(activation, i, orders);
                continue;
            };
            let count = rule.z.len();
            let (z, weight) = (&rule.z[..count], &rule.weight[..count]);
            let [left, u1, u2, u3] = u.each_mut().map(|u| &mut u[..count]);
            let [u0, slope, ..] = activation.derivatives(mean);
            let tangent = slope * sd;
            for j in 0..count {
                let at = activation.derivatives_in::<S>(mean + sd * z[j]);
                left[j] = at[0] - u0 - tangent * z[j];
                (u1[j], u2[j], u3[j]) = (at[1], at[2], at[3]);
            }
            let shift = sum(count, |j| weight[j] * left[j]);
            let e1 = sum(count, |j| weight[j] * left[j] * z[j]);
            let c = [
                u0 + shift,
                sum(count, |j| weight[j] * u1[j]),
                sum(count, |j| weight[j] * u2[j]),
                sum(count, |j| weight[j] * u3[j]),
            ];
            for j in 0..count {
                left[j] = left[j] - shift - e1 * z[j];
            }
            for (to, c) in units.c.iter_mut().zip(c) {
                to[i] = E::of(c);
            }
            // As in `Weighted::narrow_rest`.
            units.rest[i] = E::of(sum(count, |j| weight[j] * left[j] * left[j]));
            units.rest_mean[i] = E::of(2.0 * sum(count, |j| weight[j] * left[j] * u1[j]));
            units.rest_var[i] = E::of(sum(count, |j| weight[j] * left[j] * u1[j] * z[j]) / sd);
            for (k, row) in rule.hermite.chunks_exact(count).take(orders).enumerate() {
                *units.e.at_mut(k, i) = E::of(sum(count, |j| row[j] * left[j]));
            }
        }
    }
}

/// A sum whose order lets the compiler make vectors of it; `count` is a multiple of [`PARTS`].
#[inline(always)]
fn sum(count: usize, term: impl Fn(usize) -> f64) -> f64 {
    let mut parts = [0.0; PARTS];
    for first in (0..count).step_by(PARTS) {
        for (l, part) in parts.iter_mut().enumerate() {
            *part += term(first + l);
        }
    }
    parts.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::gelu;
    use crate::layer::sigmoid::Sigmoid;
    use crate::layer::silu::Silu;
    use crate::layer::smoothed::Smoothed;
    use crate::layer::softplus::Softplus;
    use crate::layer::tanh::Tanh;
    use nsde_check::{random_vec, seeded};

    /// Every figure of many units against `reference`, one unit at a time.
    fn agrees<A: Sigmoidal, E: Single>(
        activation: &A,
        reference: &dyn Smoothed,
        expand: fn(&A, &mut Units<E>, usize),
        tolerance: f64,
    ) {
        const COUNT: usize = 400;
        let orders = 9;
        let rng = &mut seeded(1);
        let mut units = Units::<E>::zeros(COUNT, orders);
        let (means, spreads) = (random_vec(COUNT, rng), random_vec(COUNT, rng));
        for i in 0..COUNT {
            units.mean[i] = E::of(3.0 * means[i]);
            units.sd[i] = E::of((2.0 * spreads[i] - 1.0).exp());
        }
        units.sd[0] = E::ZERO;
        expand(activation, &mut units, orders);
        let mut e = vec![0.0; orders];
        for i in 0..COUNT {
            let (mean, sd) = (units.mean[i].f64(), units.sd[i].f64());
            let near = |what: &str, got: E, want: f64, scale: f64| {
                let off = (got.f64() - want).abs();
                assert!(off <= tolerance * scale, "{what} at ({mean}, {sd}): {got:?}, {want}");
            };
            if sd == 0.0 {
                let c = reference.smooth(mean, 0.0);
                (0..4).for_each(|n| near("c of a point mass", units.c[n][i], c[n], 1.0));
                continue;
            }
            let (c, rest) = reference.expand(mean, sd, &mut e);
            (0..4).for_each(|n| near("c", units.c[n][i], c[n], 1.0 + mean.abs() + sd));
            let wide = 1.0 + sd * sd;
            near("rest", units.rest[i], rest.value, wide);
            near("its slope in the mean", units.rest_mean[i], rest.d_mean, wide);
            near("its slope in the variance", units.rest_var[i], rest.d_var, wide);
            (0..orders).for_each(|k| near("e", units.e.at(k, i), e[k], 1.0 + sd));
        }
    }

    fn both<A: Sigmoidal>(activation: &A, reference: &dyn Smoothed) {
        agrees::<A, f64>(activation, reference, expand_double, 1e-14);
        agrees::<A, f32>(activation, reference, expand_single, 3e-7);
    }

    #[test]
    fn tables_agree_with_a_rule_for_each_unit() {
        both(&Softplus, &Softplus);
        both(&Sigmoid, &Sigmoid);
        both(&Silu, &Silu);
        both(&Tanh, &Tanh);
    }

    #[test]
    fn tables_agree_with_the_closed_forms_of_the_gelu() {
        both(&gelu::Curve, &gelu::Gelu);
    }
}
