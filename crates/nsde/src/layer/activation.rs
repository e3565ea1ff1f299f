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
use super::smoothed::Smoothed;
use super::units::Units;
use crate::flow::{Base, Covariance, Flow, Shape, Variance, scale_jac};
use crate::kernel::abreast::BAND;
use crate::kernel::mat::padded;
use crate::kernel::product::Part;
use crate::kernel::real::in_vectors;
use crate::kernel::series::{self, Source};
use crate::kernel::transpose::mirror;
use crate::kernel::{Mat, Real, Single, paper, rows};
use crate::solver::Stats;

/// Most orders any mode spends: the long series of the exact mode.
const LONGEST: usize = 402;

/// The diagonal may fall below its own series by this share of the variance, or by [`ROUNDING_UNITS`] units in the last
/// place, without being counted.
const ROUNDING: f64 = 1e-10;
const ROUNDING_UNITS: f64 = 100.0;

/// What the adjoint needs again.
pub(crate) struct ActivationTape<T: Real> {
    /// Of all lanes.
    units: Units<T::One>,
    /// `c_1`.
    slope: Vec<T>,
    spread: Spread<T>,
}

/// Scratch; the matrices over pairs of units are empty where only variances are known.
pub(crate) struct ActivationRoom<T> {
    slope_bar: Vec<T>,
    var_bar: Vec<T>,
    bar_jac: Mat<T>,
    covariance: Covariance<T>,
    cov_bar: Mat<T>,
    sums: Mat<T>,
    scratch: Mat<T>,
    /// Some rows of `B`.
    band: Mat<T>,
}

/// How much is known of the covariance of the input.
enum Spread<T> {
    Diagonal(Variance<T>),
    Full(Box<Everything<T>>),
}

struct Everything<T> {
    /// `B`, but for predictions by the series, which form it on the way.
    cov: Mat<T>,
    /// Its diagonal.
    var: Variance<T>,
    /// Reciprocal of the standard deviation (zero for a point mass).
    inv_sd: Vec<T>,
    /// How the pairs were computed.
    pairs: Pairs,
    /// What the paper's formula needs; empty in the other modes.
    paper: paper::Units<T>,
}

#[derive(Clone, Copy, PartialEq)]
enum Pairs {
    /// `orders` terms from `n = 2` on.
    Series { orders: usize },
    /// The exact formula of the activation.
    Formula,
    /// The paper's, for a line plus `kink · h⁺`.
    Paper { kink: f64 },
}

impl<T: Real> ActivationTape<T> {
    pub fn new(
        units: usize,
        inputs: usize,
        moments: Moments,
        activation: &dyn Smoothed,
        shape: Shape,
    ) -> Self {
        let zero = || vec![T::ZERO; padded::<T>(units)];
        let full = shape == Shape::Full;
        let orders = match moments {
            _ if !full => 0,
            Moments::Series { terms } => terms + 1,
            Moments::Exact if activation.has_pairs(f64::INFINITY) => 0,
            Moments::Paper if activation.kink().is_some() => 0,
            Moments::Exact => LONGEST,
            Moments::Paper => Moments::DEFAULT_TERMS + 1,
        };
        ActivationTape {
            units: Units::zeros(units * T::LANES, orders),
            slope: zero(),
            spread: if full {
                Spread::Full(Box::new(Everything {
                    cov: Mat::zeros(units, units),
                    var: Variance::zeros(units, 0),
                    inv_sd: zero(),
                    pairs: Pairs::Series { orders: 0 },
                    paper: paper::Units::zeros(if moments == Moments::Paper { units } else { 0 }),
                }))
            } else {
                Spread::Diagonal(Variance::zeros(units, inputs))
            },
        }
    }

    pub fn room(&self, inputs: usize) -> ActivationRoom<T> {
        let units = self.units.mean.len() / T::LANES;
        let (pairs, orders) = match &self.spread {
            Spread::Full(_) => (units, self.units.e.rows),
            Spread::Diagonal(_) => (0, 0),
        };
        ActivationRoom {
            slope_bar: vec![T::ZERO; padded::<T>(units)],
            var_bar: vec![T::ZERO; padded::<T>(units)],
            bar_jac: Mat::zeros(units, inputs),
            covariance: Covariance::zeros(pairs, inputs),
            cov_bar: Mat::zeros(pairs, pairs),
            sums: Mat::zeros(orders, pairs),
            scratch: Mat::zeros(2 + orders, pairs),
            band: Mat::zeros(BAND, pairs),
        }
    }
}

/// The numbers of unit `i`.
#[inline(always)]
fn pack<T: Real>(x: &[T::One], i: usize) -> T {
    let mut out = [T::ZERO];
    T::flat_mut(&mut out).copy_from_slice(&x[i * T::LANES..(i + 1) * T::LANES]);
    out[0]
}

fn choose(moments: Moments, activation: &dyn Smoothed, sd: &[impl Single]) -> Pairs {
    let widest = || sd.iter().map(|x| x.f64()).fold(0.0, f64::max);
    match moments {
        Moments::Series { terms } => Pairs::Series { orders: terms - 1 },
        Moments::Exact if activation.has_pairs(widest()) => Pairs::Formula,
        Moments::Exact => Pairs::Series { orders: activation.long_terms(widest()).min(LONGEST - 2) },
        Moments::Paper => match activation.kink() {
            Some(kink) => Pairs::Paper { kink },
            None => Pairs::Series { orders: Moments::DEFAULT_TERMS - 1 },
        },
    }
}

pub(crate) fn push<T: Real>(
    activation: &dyn Smoothed,
    exponential: bool,
    moments: Moments,
    h: &Flow<T>,
    base: Base<'_, T>,
    out: &mut Flow<T>,
    tape: &mut ActivationTape<T>,
    room: &mut ActivationRoom<T>,
    stats: &mut Stats,
) {
    let n = h.units();
    let ActivationTape { units, slope, spread, .. } = tape;
    let count = n * T::LANES;
    units.mean.copy_from_slice(&T::flat(&h.mean)[..count]);
    match spread {
        Spread::Diagonal(variance) => {
            variance.push(h, base);
            let from = &T::flat(&variance.var)[..count];
            in_vectors::<T>(
                #[inline(always)]
                || units.sd.iter_mut().zip(from).for_each(|(sd, x)| *sd = x.sqrt()),
            );
            units.expand(activation, 0);
        }
        Spread::Full(all) => {
            let Everything { cov, var, inv_sd, .. } = &mut **all;
            if is_fused(moments, h, base) {
                var.push(h, base);
            } else {
                room.covariance.push(cov, h, base, Part::Lower);
                (0..n).for_each(|i| var.var[i] = cov.at(i, i).positive());
            }
            let (var, inv_sd) = (&T::flat(&var.var)[..count], &mut T::flat_mut(inv_sd)[..count]);
            let sd = &mut units.sd[..count];
            in_vectors::<T>(
                #[inline(always)]
                || {
                    for i in 0..count {
                        let root = var[i].sqrt();
                        sd[i] = root;
                        inv_sd[i] = if root > T::One::ZERO { T::One::ONE / root } else { T::One::ZERO };
                    }
                },
            );
            all.pairs = choose(moments, activation, sd);
            let coefficients = match (all.pairs, base) {
                (Pairs::Series { orders }, Base::White(_)) => orders,
                // Its derivatives take two more.
                (Pairs::Series { orders }, Base::Cov(_)) => orders + 2,
                (Pairs::Formula | Pairs::Paper { .. }, _) => 0,
            };
            units.expand(activation, coefficients);
        }
    }
    if exponential {
        let both = units.mean.iter().zip(&units.sd);
        stats.exp_clamped += both.filter(|(m, sd)| Exp::is_clamped(m.f64(), sd.f64())).count() as u64;
    }
    T::flat_mut(&mut out.mean)[..count].copy_from_slice(&units.c[0]);
    T::flat_mut(slope)[..count].copy_from_slice(&units.c[1]);
    out.var_known = true;
    match spread {
        Spread::Diagonal(variance) => {
            scale_jac(&mut out.jac, h, slope);
            out.shape = Shape::Diagonal;
            for i in 0..n {
                out.var[i] = slope[i] * slope[i] * variance.var[i] + pack(&units.rest, i);
                out.diag[i] = slope[i] * slope[i] * h.rest(i) + pack(&units.rest, i);
            }
        }
        Spread::Full(all) => {
            out.shape = Shape::Full;
            let (resid, jac) = out.lower_and_jac();
            scale_jac(jac, h, slope);
            match all.pairs {
                Pairs::Series { orders } => {
                    let Everything { cov, inv_sd, .. } = &**all;
                    let source = if is_fused(moments, h, base) {
                        Source::White { jac_t: room.covariance.scaled(h, inv_sd), band: &mut room.band }
                    } else {
                        Source::Cov(cov)
                    };
                    series::push(resid, source, h.resid(), inv_sd, slope, &units.e, orders);
                }
                Pairs::Paper { kink } => {
                    let Everything { cov, paper, .. } = &mut **all;
                    paper.set(&units.mean, &units.sd);
                    paper::push(resid, cov, h.resid(), slope, kink, paper);
                }
                Pairs::Formula => {
                    for i in 0..n {
                        for j in 0..i {
                            let mut x = T::lanes(|lane| {
                                pair(activation, units, &all.cov, i, j, lane, false).map_or(0.0, |p| p.value)
                            });
                            if let Some(before) = h.resid() {
                                x += slope[i] * slope[j] * before.at(i, j);
                            }
                            *resid.at_mut(i, j) = x;
                        }
                    }
                }
            }
            let mut raised = 0;
            in_vectors::<T>(
                #[inline(always)]
                || {
                    raised = raise(units, all.pairs);
                    // (Two loops, because the diagonal does not go in vectors.)
                    let (slope, var, rest) = (&slope[..n], &all.var.var[..n], &units.rest[..count]);
                    for (i, to) in out.var[..n].iter_mut().enumerate() {
                        *to = slope[i] * slope[i] * var[i] + pack(rest, i);
                    }
                    for i in 0..n {
                        *out.resid.at_mut(i, i) = slope[i] * slope[i] * h.rest(i) + pack(rest, i);
                    }
                },
            );
            stats.diagonal_raised += raised;
        }
    }
}

/// Whether the covariance of the input is formed on the way through the series, and not kept: adjoints and the other
/// formulas want it.
fn is_fused<T: Real>(moments: Moments, h: &Flow<T>, base: Base<'_, T>) -> bool {
    let series = matches!(moments, Moments::Series { .. });
    T::LANES > 1 && series && matches!(base, Base::White(_)) && h.shape != Shape::Diagonal
}

/// The exact diagonal is at least the cut series; rounding must not undo that. Returns how often more than
/// rounding did.
#[inline(always)]
fn raise<E: Single>(units: &mut Units<E>, pairs: Pairs) -> u64 {
    let Pairs::Series { orders } = pairs else { return 0 };
    let Units { sd, c, rest, e, scratch: [series, ..], .. } = units;
    // Eight at a time, which every padded row has, through all orders.
    for (place, to) in series.chunks_mut(8).enumerate() {
        let mut sums = [E::ZERO; 8];
        for row in e.data.chunks_exact(e.stride).take(orders) {
            for (sum, e) in sums.iter_mut().zip(&row[8 * place..8 * place + 8]) {
                *sum += *e * *e;
            }
        }
        to.copy_from_slice(&sums[..to.len()]);
    }
    let n = rest.len();
    let (sd, slope, rest, series) = (&sd[..n], &c[1][..n], &mut rest[..n], &series[..n]);
    let rounding = E::of(ROUNDING.max(ROUNDING_UNITS * E::EPSILON));
    // No branch, so that it goes in vectors.
    let mut raised = 0_u32;
    for i in 0..n {
        let linear = slope[i] * sd[i];
        let short = series[i] - rest[i];
        raised += u32::from(short > rounding * (series[i] + linear * linear));
        rest[i] = if short > E::ZERO { series[i] } else { rest[i] };
    }
    u64::from(raised)
}

fn pair<T: Real>(
    activation: &dyn Smoothed,
    units: &Units<T::One>,
    cov: &Mat<T>,
    i: usize,
    j: usize,
    lane: usize,
    partials: bool,
) -> Option<super::smoothed::PairRest> {
    let at = |x: &[T::One], i: usize| x[i * T::LANES + lane].f64();
    let unit = |i: usize| (at(&units.mean, i), at(&units.sd, i));
    let (a, b) = (unit(i), unit(j));
    if a.1 == 0.0 || b.1 == 0.0 {
        return None;
    }
    let rho = cov.at(i, j).lane(lane) / a.1 / b.1;
    Some(activation.pair(a, b, rho, partials))
}

/// Adjoint of [`push`] at `h`, whose tape it reads; sets `h_bar` and adds to `base_bar`.
pub(crate) fn pull<T: Real>(
    activation: &dyn Smoothed,
    h: &mut Flow<T>,
    base: &Mat<T>,
    out_bar: &Flow<T>,
    h_bar: &mut Flow<T>,
    base_bar: &mut Mat<T>,
    tape: &mut ActivationTape<T>,
    room: &mut ActivationRoom<T>,
) {
    h.complete();
    let h = &*h;
    let n = h.units();
    let ActivationTape { units, slope, spread } = tape;
    let ActivationRoom { slope_bar, var_bar, bar_jac, covariance, cov_bar, sums, scratch, .. } = room;
    h_bar.shape = h.shape;
    h_bar.var.fill(T::ZERO);
    // Slope: J'_i = c_1 J_i and R'_ij = c_1(i) c_1(j) R_ij.
    rows::dots(slope_bar, &out_bar.jac, &h.jac);
    rows::scale(&mut h_bar.jac, &out_bar.jac, slope);
    h_bar.mean.fill(T::ZERO);
    var_bar.fill(T::ZERO);
    if let Spread::Full(all) = spread {
        match all.pairs {
            Pairs::Series { orders } => {
                let Everything { cov, inv_sd, .. } = &**all;
                series::pull(cov_bar, sums, &out_bar.resid, cov, inv_sd, &units.e, orders, scratch);
                pull_orders(sums, inv_sd, &units.e, orders, &mut h_bar.mean, var_bar);
            }
            Pairs::Paper { kink } => {
                let Everything { cov, paper, .. } = &mut **all;
                let (mean_bar, bar) = (&mut h_bar.mean, &out_bar.resid);
                paper::pull(cov_bar, mean_bar, var_bar, bar, cov, kink, paper);
            }
            Pairs::Formula => {
                cov_bar.fill_zero();
                let add = |to: &mut T, lane, x: f64| to.set_lane(lane, to.lane(lane) + x);
                for (i, j) in (0..n).flat_map(|i| (0..i).map(move |j| (i, j))) {
                    for lane in 0..T::LANES {
                        let Some(p) = pair(activation, units, &all.cov, i, j, lane, true) else {
                            continue;
                        };
                        // Entries ij and ji both carry the cotangent.
                        let both = out_bar.resid.at(i, j).lane(lane) * 2.0;
                        cov_bar.at_mut(i, j).set_lane(lane, 0.5 * both * p.d_cov);
                        add(&mut h_bar.mean[i], lane, both * p.d_mean[0]);
                        add(&mut h_bar.mean[j], lane, both * p.d_mean[1]);
                        add(&mut var_bar[i], lane, both * p.d_var[0]);
                        add(&mut var_bar[j], lane, both * p.d_var[1]);
                    }
                }
            }
        }
        mirror(cov_bar);
        if let Some(resid) = h.resid() {
            // The dots rest in the scratch, which is free again.
            let dots = &mut scratch.data;
            series::pull_linear(&mut h_bar.resid, dots, &out_bar.resid, slope, resid, cov_bar);
            for i in 0..n {
                slope_bar[i] += dots[i] + dots[i];
            }
        }
    } else if h.shape == Shape::Diagonal {
        for i in 0..n {
            let bar = out_bar.diag[i];
            slope_bar[i] += T::of(2.0) * bar * slope[i] * h.diag[i];
            h_bar.diag[i] = slope[i] * slope[i] * bar;
        }
    }
    let [_, c1, c2, c3] = &units.c;
    in_vectors::<T>(
        #[inline(always)]
        || {
            for i in 0..n {
                // The variance that was given away: c_1² B_ii + rest.
                let (variance, given) = match spread {
                    Spread::Diagonal(variance) => (variance.var[i], out_bar.var[i]),
                    Spread::Full(all) => (all.var.var[i], out_bar.var[i]),
                };
                slope_bar[i] += T::of(2.0) * given * slope[i] * variance;
                var_bar[i] += slope[i] * slope[i] * given;
                let (mean_out, rest_out) = (out_bar.mean[i], out_bar.rest(i) + given);
                let (c1, c2, c3): (T, T, T) = (pack(c1, i), pack(c2, i), pack(c3, i));
                let half = T::of(0.5);
                h_bar.mean[i] += mean_out * c1 + slope_bar[i] * c2 + rest_out * pack(&units.rest_mean, i);
                var_bar[i] +=
                    mean_out * (half * c2) + slope_bar[i] * (half * c3) + rest_out * pack(&units.rest_var, i);
                if h.shape != Shape::Zero {
                    *h_bar.rest_mut(i) += var_bar[i];
                }
            }
        },
    );
    match spread {
        Spread::Diagonal(variance) => variance.pull(h, var_bar, h_bar, base_bar, bar_jac),
        Spread::Full(_) => {
            (0..n).for_each(|i| *cov_bar.at_mut(i, i) = var_bar[i]);
            covariance.pull(h, base, cov_bar, h_bar, base_bar);
        }
    }
}

/// From the cotangents of the series' coefficients to those of mean and variance, which it adds to.
fn pull_orders<T: Real>(
    sums: &Mat<T>,
    inv_sd: &[T],
    coef: &Mat<T::One>,
    orders: usize,
    mean_bar: &mut [T],
    var_bar: &mut [T],
) {
    // ∂e_n/∂m = √(n+1) e_{n+1}/σ,  ∂e_n/∂s at fixed covariance = ½ √((n+1)(n+2)) e_{n+2}/σ².
    let n = sums.cols;
    let coef = |k: usize| &T::packs(&coef.data[k * coef.stride..(k + 1) * coef.stride])[..n];
    for k in 0..orders {
        let order = k as f64 + 2.0;
        let first = T::of((order + 1.0).sqrt());
        let second = T::of(0.5 * ((order + 1.0) * (order + 2.0)).sqrt());
        let (sums, one, two) = (&sums.row(k)[..n], coef(k + 1), coef(k + 2));
        let (mean_bar, var_bar, inv_sd) = (&mut mean_bar[..n], &mut var_bar[..n], &inv_sd[..n]);
        for i in 0..n {
            mean_bar[i] += sums[i] * first * (one[i] * inv_sd[i]);
            var_bar[i] += sums[i] * second * (two[i] * inv_sd[i]) * inv_sd[i];
        }
    }
}
