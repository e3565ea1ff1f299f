//! Smoothing by one-dimensional quadrature: for activations that are straight lines far from zero.
//!
//! `u(h) = A(h) + r(h)` with `A(h) = l₀ + l₁h + (r₁−l₁)h⁺ + (r₀−l₀)·1(h>0)` and `r` decaying like
//! `e^{−|h|}`. For a narrow Gaussian the trapezoidal rule in `z` integrates `u` itself; for a wide
//! one `A` is done in closed form and `r` on fixed panels in `h`. Both reach about 1e-14.

use super::rectified;
use super::smoothed::{Rest, Smoothed};
use super::tabled;
use super::units::Units;
use crate::gaussian::special::{cdf, pdf, softrelu};
use crate::kernel::legendre;
use pulp::Simd;
use std::f64::consts::PI;
use std::sync::OnceLock;

/// An activation given by its derivatives, its asymptotes and its nearest complex singularity.
pub(crate) trait Sigmoidal: Send + Sync {
    /// `u, u', u'', u'''` at `h`.
    fn derivatives(&self, h: f64) -> [f64; 4];
    /// The same in a form that the compiler turns into vectors, where there is one.
    #[inline(always)]
    fn derivatives_in<S: Simd>(&self, h: f64) -> [f64; 4] {
        self.derivatives(h)
    }
    /// Intercept and slope of `A` on the left and on the right.
    fn asymptotes(&self) -> [(f64, f64); 2];
    /// Distance of the nearest pole from the real axis.
    fn pole(&self) -> f64;
}

impl<A: Sigmoidal> Smoothed for A {
    fn value(&self, h: f64) -> f64 {
        self.derivatives(h)[0]
    }

    fn slope(&self, h: f64) -> f64 {
        self.derivatives(h)[1]
    }

    fn smooth(&self, mean: f64, sd: f64) -> [f64; 4] {
        if sd == 0.0 { self.derivatives(mean) } else { Weighted::of(self, mean, sd).smooth() }
    }

    fn hermite(&self, mean: f64, sd: f64, e: &mut [f64]) {
        Weighted::of(self, mean, sd).hermite(e);
    }

    fn rest(&self, mean: f64, sd: f64) -> Rest {
        Weighted::of(self, mean, sd).rest()
    }

    fn expand(&self, mean: f64, sd: f64, e: &mut [f64]) -> ([f64; 4], Rest) {
        let here = Weighted::of(self, mean, sd);
        here.narrow_expand(e).unwrap_or_else(|| {
            here.hermite(e);
            (here.smooth(), here.rest())
        })
    }

    fn expand_double(&self, units: &mut Units<f64>, orders: usize) {
        tabled::expand_double(self, units, orders);
    }

    fn expand_single(&self, units: &mut Units<f32>, orders: usize) {
        tabled::expand_single(self, units, orders);
    }

    fn long_terms(&self, sd: f64) -> usize {
        long_terms(sd / self.pole())
    }
}

/// Most terms the exact mode spends; beyond about `sd = 2·pole` it is no longer enough for
/// correlations near ±1 (docs/accuracy.md shows how the error grows).
pub(crate) const LONG_TERMS_MAX: usize = 400;

/// Coefficients fall like `exp(−√(2n)/ratio)`, `ratio` = deviation over pole distance.
fn long_terms(ratio: f64) -> usize {
    let root = 16.0 * ratio;
    (0.5 * root * root + 24.0).min(LONG_TERMS_MAX as f64) as usize
}

/// Up to this deviation the trapezoidal rule serves.
pub(super) const NARROW: f64 = 3.0;

/// `√n⁻¹` and `√((n−1)/n)`, `n ≥ 2`, of the recurrence `he_n = (z he_{n−1} − √(n−1) he_{n−2})/√n`.
pub(crate) fn hermite_ratios() -> &'static [(f64, f64)] {
    static RATIOS: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    RATIOS.get_or_init(|| {
        let ratio = |n: usize| ((n as f64).sqrt().recip(), ((n as f64 - 1.0) / n as f64).sqrt());
        (2..LONG_TERMS_MAX + 4).map(ratio).collect()
    })
}

/// Adds `weighted · he_n(z)` to `e[n − 2]`.
fn add_hermite(e: &mut [f64], z: f64, weighted: f64) {
    let (mut now, mut before) = (z * weighted, weighted);
    for (e, (first, second)) in e.iter_mut().zip(hermite_ratios()) {
        (now, before) = (z * now * first - before * second, now);
        *e += now;
    }
}

/// Nodes that [`Weighted::narrow_expand`] has room for; more come only with long series.
const NODES: usize = 320;

/// A Gaussian against which one activation is integrated.
pub(crate) struct Weighted<'a, A> {
    activation: &'a A,
    mean: f64,
    sd: f64,
}

impl<'a, A: Sigmoidal> Weighted<'a, A> {
    pub fn of(activation: &'a A, mean: f64, sd: f64) -> Self {
        Weighted { activation, mean, sd }
    }

    /// Step and number of nodes on each side of the trapezoidal rule for `He_n`, `n ≤ top`.
    ///
    /// The step keeps the first alias (`2π/step`) out of reach of the spectrum of `u` (which falls
    /// like `exp(−pole·k/σ)`) and of `He_n φ` (which ends near `√n + 6`).
    fn narrow_rule(&self, top: usize) -> (f64, i64) {
        let root = (top as f64).sqrt();
        let step = 2.0 * PI / (root + 8.0 + 36.0 * self.sd / self.activation.pole());
        let reach = 9.5 + 0.5 * root.min(9.0);
        (step, (reach / step).ceil() as i64)
    }

    /// Everything from one evaluation per node; `None` where another rule is needed.
    fn narrow_expand(&self, e: &mut [f64]) -> Option<([f64; 4], Rest)> {
        let (step, side) = self.narrow_rule(e.len() + 1);
        let count = 2 * side as usize + 1;
        if self.sd > NARROW || count > NODES {
            return None;
        }
        // Weight, `u` less its tangent, `u'`.
        let mut nodes = [(0.0, 0.0, 0.0); NODES];
        let nodes = &mut nodes[..count];
        let [u0, slope, ..] = self.activation.derivatives(self.mean);
        let mut total = 0.0;
        let (mut c, mut shift, mut e1) = ([0.0; 4], 0.0, 0.0);
        for (k, node) in nodes.iter_mut().enumerate() {
            let z = (k as i64 - side) as f64 * step;
            let w = pdf(z);
            let u = self.activation.derivatives(self.mean + self.sd * z);
            let lifted = u[0] - u0 - slope * self.sd * z;
            total += w;
            for n in 1..4 {
                c[n] += w * u[n];
            }
            shift += w * lifted;
            e1 += w * lifted * z;
            *node = (w, lifted, u[1]);
        }
        shift /= total;
        e1 /= total;
        c.iter_mut().for_each(|c| *c /= total);
        c[0] = u0 + shift;
        e.fill(0.0);
        let mut rest = Rest::default();
        for (k, (w, lifted, u1)) in nodes.iter().enumerate() {
            let z = (k as i64 - side) as f64 * step;
            let w = w / total;
            let left = lifted - shift - e1 * z;
            rest.value += w * left * left;
            rest.d_mean += 2.0 * w * left * u1;
            rest.d_var += w * left * u1 * z / self.sd;
            add_hermite(e, z, w * left);
        }
        Some((c, rest))
    }

    /// Calls `each(z, weight)` over the trapezoidal rule.
    fn narrow(&self, top: usize, mut each: impl FnMut(f64, f64)) {
        let (step, count) = self.narrow_rule(top);
        // Normalised so that the weights sum to one exactly: constants pass unharmed.
        let total: f64 = (-count..=count).map(|k| pdf(k as f64 * step)).sum();
        for k in -count..=count {
            let z = k as f64 * step;
            each(z, pdf(z) / total);
        }
    }

    /// Calls `each(h, z, weight)` over fixed panels in `h`, the weight carrying the density.
    fn wide(&self, mut each: impl FnMut(f64, f64, f64)) {
        static PANELS: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
        let nodes = PANELS.get_or_init(|| {
            let rule = legendre::rule(16);
            let edges = [0.0, 0.5, 1.0, 2.0, 4.0, 6.0, 9.0, 13.0, 18.0, 25.0, 38.0];
            edges
                .windows(2)
                .flat_map(|e| {
                    rule.iter()
                        .map(|(x, w)| (e[0] + (e[1] - e[0]) * x, (e[1] - e[0]) * w))
                        .collect::<Vec<_>>()
                })
                .collect()
        });
        for side in [-1.0, 1.0] {
            for (h, w) in nodes {
                let h = side * h;
                let z = (h - self.mean) / self.sd;
                let density = pdf(z);
                if density > 0.0 {
                    each(h, z, w * density / self.sd);
                }
            }
        }
    }

    fn line(&self, h: f64) -> (f64, f64) {
        let (at, slope) = self.activation.asymptotes()[usize::from(h > 0.0)];
        (at + slope * h, slope)
    }

    /// `c_0` and `e_1` for a wide Gaussian.
    fn wide_linear(&self) -> (f64, f64) {
        let [(l0, l1), (r0, r1)] = self.activation.asymptotes();
        let a = self.mean / self.sd;
        let relu = rectified::relu_smooth(self.mean, self.sd);
        let mut c0 = l0 + l1 * self.mean + (r1 - l1) * relu[0] + (r0 - l0) * cdf(a);
        let mut e1 = self.sd * (l1 + (r1 - l1) * relu[1]) + (r0 - l0) * pdf(a);
        self.wide(|h, z, w| {
            let r = self.activation.derivatives(h)[0] - self.line(h).0;
            c0 += w * r;
            e1 += w * r * z;
        });
        (c0, e1)
    }

    pub fn smooth(&self) -> [f64; 4] {
        let mut c = [0.0; 4];
        if self.sd <= NARROW {
            self.narrow(3, |z, w| {
                let u = self.activation.derivatives(self.mean + self.sd * z);
                for n in 0..4 {
                    c[n] += w * u[n];
                }
            });
        } else {
            let mut e = [0.0; 2];
            self.hermite(&mut e);
            let (c0, e1) = self.wide_linear();
            let s = self.sd;
            c = [c0, e1 / s, e[0] * 2f64.sqrt() / (s * s), e[1] * 6f64.sqrt() / (s * s * s)];
        }
        c
    }

    pub fn hermite(&self, e: &mut [f64]) {
        e.fill(0.0);
        if self.sd <= NARROW {
            // The best line carries no e_n, n ≥ 2: taking it out leaves less to cancel.
            let [at, slope, ..] = self.activation.derivatives(self.mean);
            self.narrow(e.len() + 1, |z, w| {
                let u = self.activation.derivatives(self.mean + self.sd * z)[0];
                add_hermite(e, z, w * (u - at - slope * self.sd * z));
            });
        } else {
            let [(l0, l1), (r0, r1)] = self.activation.asymptotes();
            rectified::add_relu_hermite(self.mean, self.sd, r1 - l1, e);
            rectified::add_step_hermite(self.mean, self.sd, r0 - l0, e);
            self.wide(|h, z, w| add_hermite(e, z, w * (self.activation.derivatives(h)[0] - self.line(h).0)));
        }
    }

    /// `S = E[ε²]`, `ε = u − c_0 − e_1 z`; `∂S/∂m = 2E[εu']` and `∂S/∂σ² = E[εu'z]/σ`.
    pub fn rest(&self) -> Rest {
        if self.sd <= NARROW { self.narrow_rest(|each| self.narrow(8, each)) } else { self.wide_rest() }
    }

    /// The rest over any rule `(z, weight)` that resolves `u`.
    pub fn narrow_rest(&self, rule: impl Fn(&mut dyn FnMut(f64, f64))) -> Rest {
        let at = |z: f64| self.activation.derivatives(self.mean + self.sd * z);
        let [u0, slope, ..] = self.activation.derivatives(self.mean);
        let lifted = |z: f64, u: f64| u - u0 - slope * self.sd * z;
        let (mut c0, mut e1) = (0.0, 0.0);
        rule(&mut |z, w| {
            let u = lifted(z, at(z)[0]);
            c0 += w * u;
            e1 += w * u * z;
        });
        let mut out = Rest::default();
        rule(&mut |z, w| {
            let u = at(z);
            let left = lifted(z, u[0]) - c0 - e1 * z;
            out.value += w * left * left;
            out.d_mean += 2.0 * w * left * u[1];
            out.d_var += w * left * u[1] * z / self.sd;
        });
        out
    }

    fn wide_rest(&self) -> Rest {
        let [(l0, l1), (r0, r1)] = self.activation.asymptotes();
        let (kink, jump, sd) = (r1 - l1, r0 - l0, self.sd);
        let a = self.mean / sd;
        let (phi, up, down, sr) = (pdf(a), cdf(a), cdf(-a), softrelu(a));
        let (c0, e1) = self.wide_linear();
        // ε of the asymptote alone, in closed form …
        let relu = rectified::relu_smooth(self.mean, sd);
        let line_c0 = l0 + l1 * self.mean + kink * relu[0] + jump * up;
        let line_e1 = sd * (l1 + kink * relu[1]) + jump * phi;
        let cross = sd * (sr * down - up * phi);
        let step = up * down - phi * phi;
        let mut value = kink * kink * rectified::relu_rest(self.mean, sd).value
            + jump * jump * step
            + 2.0 * kink * jump * cross;
        // … and what the remainder r adds: E[(A + r)²] − E[A²], less the change of c_0² and e_1².
        value -= (c0 - line_c0) * (c0 + line_c0) + (e1 - line_e1) * (e1 + line_e1);
        let (mut with_slope, mut with_slope_z) = (0.0, 0.0);
        let (mut right, mut right_z) = (0.0, 0.0);
        self.wide(|h, z, w| {
            let u = self.activation.derivatives(h);
            let (line, slope) = self.line(h);
            let r = u[0] - line;
            value += w * r * (2.0 * line + r);
            let left = u[0] - c0 - e1 * z;
            with_slope += w * left * (u[1] - slope);
            with_slope_z += w * left * (u[1] - slope) * z;
            if h > 0.0 {
                right += w * r;
                right_z += w * r * z;
            }
        });
        // E[ε 1(h>0)] and E[ε z 1(h>0)]: the slope of A jumps by `kink` there.
        right += r0 * up + r1 * sd * sr - c0 * up - e1 * phi;
        right_z += r0 * phi + r1 * sd * up - c0 * phi - e1 * (up - a * phi);
        Rest {
            value: value.max(0.0),
            d_mean: 2.0 * (kink * right + with_slope),
            d_var: (kink * right_z + with_slope_z) / sd,
        }
    }
}
