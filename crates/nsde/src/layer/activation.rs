//! Elementwise layers, lifted from points to moments: one calculus for every activation (Sec. 4.2).
//!
//! ```text
//! mean'_i = c_0(i)     J'_i = c_1(i) J_i     R'_ij = c_1(i) c_1(j) R_ij + S_ij
//! ```
//!
//! with `c_n = E[u⁽ⁿ⁾(h_i)]` and `S` the covariance beyond its linear term. Derivatives come by
//! shifting: `∂c_n/∂m = c_{n+1}`, `∂c_n/∂s = ½ c_{n+2}`.

use super::Moments;
use super::exp::Exp;
use super::smoothed::{Pairwise, Rest, Smoothed};
use crate::flow::{Covariance, Flow};
use crate::kernel::mat::padded;
use crate::kernel::{Mat, Real, series};
use crate::solver::Stats;

/// Most orders any mode spends: the long series of the exact mode.
const LONGEST: usize = 402;

/// The diagonal may fall below its own series by this share of the variance without being counted.
const ROUNDING: f64 = 1e-10;

/// What the adjoint needs again, and scratch.
pub(crate) struct ActivationTape<T> {
    covariance: Covariance<T>,
    /// `c_0 … c_3` per unit.
    c: Vec<[f64; 4]>,
    /// The diagonal beyond the linear term, per unit.
    rest: Vec<Rest>,
    /// Standard deviation of the input and its reciprocal (zero for a point mass).
    sd: Vec<f64>,
    inv_sd: Vec<T>,
    slope: Vec<T>,
    /// `e_2, e_3, …` in the rows.
    coef: Mat<T>,
    column: Vec<f64>,
    /// How the pairs were computed.
    pairs: Pairs,
    cov_bar: Mat<T>,
    sums: Mat<T>,
    scratch: Mat<T>,
}

#[derive(Clone, Copy, PartialEq)]
enum Pairs {
    /// `orders` terms from `n = 2` on.
    Series {
        orders: usize,
    },
    Formula(Pairwise),
}

impl<T: Real> ActivationTape<T> {
    pub fn new(units: usize, inputs: usize, moments: Moments, activation: &dyn Smoothed) -> Self {
        let rows = match moments {
            Moments::Series { terms } => terms + 1,
            Moments::Exact if activation.has_pairs(Pairwise::Exact, f64::INFINITY) => 0,
            Moments::Exact => LONGEST,
            Moments::Paper => Moments::DEFAULT_TERMS + 1,
        };
        ActivationTape {
            covariance: Covariance::zeros(units, inputs),
            c: vec![[0.0; 4]; units],
            rest: vec![Rest::default(); units],
            sd: vec![0.0; units],
            inv_sd: vec![T::ZERO; padded::<T>(units)],
            slope: vec![T::ZERO; padded::<T>(units)],
            coef: Mat::zeros(rows, units),
            column: vec![0.0; rows],
            pairs: Pairs::Series { orders: 0 },
            cov_bar: Mat::zeros(units, units),
            sums: Mat::zeros(rows, units),
            scratch: Mat::zeros(3, units),
        }
    }

    fn choose(&self, moments: Moments, activation: &dyn Smoothed) -> Pairs {
        let widest = self.sd.iter().copied().fold(0.0, f64::max);
        let formula = |how: Pairwise| activation.has_pairs(how, widest).then_some(Pairs::Formula(how));
        match moments {
            Moments::Series { terms } => Pairs::Series { orders: terms - 1 },
            Moments::Exact => formula(Pairwise::Exact)
                .unwrap_or_else(|| Pairs::Series { orders: activation.long_terms(widest).min(LONGEST - 2) }),
            Moments::Paper => {
                formula(Pairwise::Paper).unwrap_or(Pairs::Series { orders: Moments::DEFAULT_TERMS - 1 })
            }
        }
    }
}

pub(crate) fn push<T: Real>(
    activation: &dyn Smoothed,
    exponential: bool,
    moments: Moments,
    h: &Flow<T>,
    base: &Mat<T>,
    out: &mut Flow<T>,
    tape: &mut ActivationTape<T>,
    stats: &mut Stats,
) {
    let n = h.units();
    tape.covariance.push(h, base);
    for i in 0..n {
        let sd = tape.covariance.cov.at(i, i).f64().max(0.0).sqrt();
        tape.sd[i] = sd;
        tape.inv_sd[i] = if sd > 0.0 { T::of(1.0 / sd) } else { T::ZERO };
    }
    tape.pairs = tape.choose(moments, activation);
    let coefficients = match tape.pairs {
        Pairs::Series { orders } => orders + 2,
        Pairs::Formula(_) => 0,
    };
    for i in 0..n {
        let (mean, sd) = (h.mean[i].f64(), tape.sd[i]);
        if exponential && Exp::is_clamped(mean, sd) {
            stats.exp_clamped += 1;
        }
        let column = &mut tape.column[..coefficients];
        let (c, rest) = if sd > 0.0 {
            activation.expand(mean, sd, column)
        } else {
            column.fill(0.0);
            (activation.smooth(mean, 0.0), Rest::default())
        };
        for (k, e) in column.iter().enumerate() {
            tape.coef.data[k * tape.coef.stride + i] = T::of(*e);
        }
        tape.c[i] = c;
        tape.rest[i] = rest;
        tape.slope[i] = T::of(c[1]);
        out.mean[i] = T::of(c[0]);
        for (to, from) in out.jac.row_mut(i).iter_mut().zip(h.jac.row(i)) {
            *to = T::of(c[1]) * *from;
        }
    }
    out.linear = false;
    match tape.pairs {
        Pairs::Series { orders } => {
            series::push(
                &mut out.resid,
                &tape.covariance.cov,
                h.resid(),
                &tape.inv_sd,
                &tape.slope,
                &tape.coef,
                orders,
            );
        }
        Pairs::Formula(how) => {
            for i in 0..n {
                for j in 0..i {
                    let rest = pair(activation, how, h, tape, i, j, false).map_or(0.0, |p| p.value);
                    let mut x = T::of(rest);
                    if let Some(resid) = h.resid() {
                        x += tape.slope[i] * tape.slope[j] * resid.at(i, j);
                    }
                    *out.resid.at_mut(i, j) = x;
                    *out.resid.at_mut(j, i) = x;
                }
            }
        }
    }
    for i in 0..n {
        let mut rest = tape.rest[i].value;
        if let Pairs::Series { orders } = tape.pairs {
            // The exact diagonal is at least the cut series; rounding must not undo that.
            let series: f64 = (0..orders).map(|k| tape.coef.at(k, i).f64().powi(2)).sum();
            if rest < series {
                let linear = (tape.c[i][1] * tape.sd[i]).powi(2);
                stats.diagonal_raised += u64::from(series - rest > ROUNDING * (series + linear));
                rest = series;
            }
        }
        let slope = tape.slope[i];
        let linear = h.resid().map_or(T::ZERO, |r| slope * slope * r.at(i, i));
        *out.resid.at_mut(i, i) = linear + T::of(rest);
    }
}

fn pair<T: Real>(
    activation: &dyn Smoothed,
    how: Pairwise,
    h: &Flow<T>,
    tape: &ActivationTape<T>,
    i: usize,
    j: usize,
    partials: bool,
) -> Option<super::smoothed::PairRest> {
    let (sd_i, sd_j) = (tape.sd[i], tape.sd[j]);
    if sd_i == 0.0 || sd_j == 0.0 {
        return None;
    }
    let rho = tape.covariance.cov.at(i, j).f64() / sd_i / sd_j;
    Some(activation.pair(how, (h.mean[i].f64(), sd_i), (h.mean[j].f64(), sd_j), rho, partials))
}

/// Adjoint of [`push`] at `h`, whose tape it reads; sets `h_bar` and adds to `base_bar`.
pub(crate) fn pull<T: Real>(
    activation: &dyn Smoothed,
    h: &Flow<T>,
    out_bar: &Flow<T>,
    h_bar: &mut Flow<T>,
    base_bar: &mut Mat<T>,
    tape: &mut ActivationTape<T>,
) {
    let n = h.units();
    let bar = &out_bar.resid;
    match tape.pairs {
        Pairs::Series { orders } => {
            series::pull(
                &mut tape.cov_bar,
                &mut tape.sums,
                bar,
                &tape.covariance.cov,
                &tape.inv_sd,
                &tape.coef,
                orders,
                &mut tape.scratch,
            );
            for i in 0..n {
                // ∂e_n/∂m = √(n+1) e_{n+1}/σ,  ∂e_n/∂s at fixed covariance = ½ √((n+1)(n+2)) e_{n+2}/σ².
                let inv = tape.inv_sd[i];
                let (mut mean_bar, mut var_bar) = (T::ZERO, T::ZERO);
                for k in 0..orders {
                    let order = k as f64 + 2.0;
                    let sum = tape.sums.at(k, i);
                    mean_bar += sum * T::of((order + 1.0).sqrt()) * (tape.coef.at(k + 1, i) * inv);
                    let second = 0.5 * ((order + 1.0) * (order + 2.0)).sqrt();
                    var_bar += sum * T::of(second) * (tape.coef.at(k + 2, i) * inv) * inv;
                }
                h_bar.mean[i] = mean_bar;
                *tape.cov_bar.at_mut(i, i) = var_bar;
            }
        }
        Pairs::Formula(how) => {
            tape.cov_bar.fill_zero();
            h_bar.mean.fill(T::ZERO);
            for i in 0..n {
                for j in 0..i {
                    let Some(p) = pair(activation, how, h, tape, i, j, true) else { continue };
                    // Entries ij and ji both carry the cotangent.
                    let both = bar.at(i, j).f64() * 2.0;
                    let half = T::of(0.5 * both * p.d_cov);
                    *tape.cov_bar.at_mut(i, j) = half;
                    *tape.cov_bar.at_mut(j, i) = half;
                    h_bar.mean[i] += T::of(both * p.d_mean[0]);
                    h_bar.mean[j] += T::of(both * p.d_mean[1]);
                    *tape.cov_bar.at_mut(i, i) += T::of(both * p.d_var[0]);
                    *tape.cov_bar.at_mut(j, j) += T::of(both * p.d_var[1]);
                }
            }
        }
    }
    h_bar.linear = false;
    for i in 0..n {
        let [_, c1, c2, c3] = tape.c[i];
        // Slope: J'_i = c_1 J_i and R'_ij = c_1(i) c_1(j) R_ij.
        let mut slope_bar: T = out_bar.jac.row(i).iter().zip(h.jac.row(i)).map(|(a, b)| *a * *b).sum();
        for (to, from) in h_bar.jac.row_mut(i).iter_mut().zip(out_bar.jac.row(i)) {
            *to = T::of(c1) * *from;
        }
        if let Some(resid) = h.resid() {
            let mut dot = T::ZERO;
            for j in 0..n {
                dot += bar.at(i, j) * tape.slope[j] * resid.at(i, j);
            }
            slope_bar += dot + dot;
        }
        for j in 0..n {
            *h_bar.resid.at_mut(i, j) = tape.slope[i] * tape.slope[j] * bar.at(i, j);
        }
        let mean_out = out_bar.mean[i];
        let mut mean_bar = mean_out * T::of(c1) + slope_bar * T::of(c2);
        let mut var_bar = mean_out * T::of(0.5 * c2) + slope_bar * T::of(0.5 * c3);
        mean_bar += bar.at(i, i) * T::of(tape.rest[i].d_mean);
        var_bar += bar.at(i, i) * T::of(tape.rest[i].d_var);
        h_bar.mean[i] += mean_bar;
        *tape.cov_bar.at_mut(i, i) += var_bar;
    }
    let ActivationTape { covariance, cov_bar, .. } = tape;
    covariance.pull(h, cov_bar, h_bar, base_bar);
}
