//! Drift and diffusion on points: `f(x, u)` and `L(x, u)` for many `x` at once, with adjoints.

use super::noise::{Noise, triangle};
use crate::kernel::{Mat, Real, Single};
use crate::network::{Chain, ChainGrad, Network};
use crate::points::{Masks, PointBars, PointTape};
use crate::sde::NeuralSde;
use std::ops::Range;

pub(crate) struct Field<T: Real> {
    drift: Chain<T>,
    noise: Noise<T>,
    pub state: usize,
}

/// What an evaluation leaves behind for its adjoint.
pub(crate) struct FieldTape<T> {
    drift: PointTape<T>,
    noise: Option<PointTape<T>>,
}

/// Cotangents and the gradient.
pub(crate) struct FieldWork<T> {
    drift: (PointBars<T>, ChainGrad<T>),
    noise: Option<(PointBars<T>, ChainGrad<T>)>,
    scale_bar: Vec<f64>,
}

impl<T: Single> Field<T> {
    pub fn new(sde: &NeuralSde) -> Self {
        let chain = |net: &Network| Chain::driven(net, sde.state());
        Field { drift: chain(sde.drift()), noise: Noise::new(sde, chain), state: sde.state() }
    }

    pub fn load(&mut self, sde: &NeuralSde) {
        self.drift.load(sde.drift());
        self.noise.load(sde);
    }

    fn noise_net(&self) -> Option<&Chain<T>> {
        match &self.noise {
            Noise::Net { chain, .. } => Some(chain),
            _ => None,
        }
    }

    pub fn tape(&self, points: usize) -> FieldTape<T> {
        let new = |chain: &Chain<T>| PointTape::new(chain, points);
        FieldTape { drift: new(&self.drift), noise: self.noise_net().map(new) }
    }

    /// Roughly.
    pub fn tape_bytes(&self, points: usize) -> usize {
        let bytes = |chain: &Chain<T>| chain.point_tape_bytes(points);
        bytes(&self.drift) + self.noise_net().map_or(0, bytes)
    }

    pub fn work(&self, points: usize) -> FieldWork<T> {
        let new = |chain: &Chain<T>| (PointBars::new(chain, points), chain.grad());
        FieldWork {
            drift: new(&self.drift),
            noise: self.noise_net().map(new),
            scale_bar: self.noise.scale_bar(),
        }
    }

    /// Whether there is any noise at all.
    pub fn is_noisy(&self) -> bool {
        !matches!(self.noise, Noise::None)
    }

    /// The columns of row `i` of `L` that may differ from zero.
    pub fn columns(&self, i: usize) -> Range<usize> {
        match self.noise {
            Noise::None => 0..0,
            Noise::Net { full: false, .. } | Noise::Constant { full: false, .. } => i..i + 1,
            Noise::Net { .. } | Noise::Constant { .. } => 0..i + 1,
        }
    }

    /// The rows of `L` whose column `c` may differ from zero.
    pub fn rows(&self, c: usize) -> Range<usize> {
        match self.noise {
            Noise::None => 0..0,
            Noise::Net { full: false, .. } | Noise::Constant { full: false, .. } => c..c + 1,
            Noise::Net { .. } | Noise::Constant { .. } => c..self.state,
        }
    }

    /// Evaluates both networks at the points `x`, `[points, D]` dense; masks for the drift first.
    pub fn eval(&self, tape: &mut FieldTape<T>, x: &[f64], u: &[f64], mut masks: Masks<'_>) {
        fill(&mut tape.drift, x, u, self.state);
        self.drift.eval_with(&mut tape.drift, &mut masks);
        if let (Some(chain), Some(tape)) = (self.noise_net(), &mut tape.noise) {
            fill(tape, x, u, self.state);
            chain.eval_with(tape, &mut masks);
        }
    }

    /// `f` at point `p`.
    pub fn drift<'a>(&self, tape: &'a FieldTape<T>, p: usize) -> &'a [T] {
        tape.drift.end().row(p)
    }

    /// Writes those [`columns`](Self::columns) of `L` at point `p` into a dense matrix.
    pub fn noise(&self, tape: &FieldTape<T>, p: usize, l: &mut [f64]) {
        let d = self.state;
        match (&self.noise, &tape.noise) {
            (Noise::Net { full, .. }, Some(tape)) => {
                let row = tape.end().row(p);
                for i in 0..d {
                    if *full {
                        for c in 0..=i {
                            l[i * d + c] = row[triangle(i, c)].f64();
                        }
                    } else {
                        l[i * d + i] = row[i].f64();
                    }
                }
            }
            (Noise::Constant { scale, .. }, _) => {
                for i in 0..d {
                    for c in self.columns(i) {
                        l[i * d + c] = scale[i * d + c];
                    }
                }
            }
            _ => {}
        }
    }

    /// Sets the cotangent of `f` at point `p`.
    pub fn set_drift_bar(&self, w: &mut FieldWork<T>, p: usize, bar: impl Iterator<Item = f64>) {
        for (to, from) in w.drift.0.end().row_mut(p).iter_mut().zip(bar) {
            *to = T::of(from);
        }
    }

    /// Sets the cotangent of `L` at point `p` from those columns of a dense matrix.
    pub fn set_noise_bar(&self, w: &mut FieldWork<T>, p: usize, l_bar: &[f64]) {
        let d = self.state;
        match (&self.noise, &mut w.noise) {
            (Noise::Net { full, .. }, Some((bars, _))) => {
                let row = bars.end().row_mut(p);
                for i in 0..d {
                    if *full {
                        for c in 0..=i {
                            row[triangle(i, c)] = T::of(l_bar[i * d + c]);
                        }
                    } else {
                        row[i] = T::of(l_bar[i * d + i]);
                    }
                }
            }
            (Noise::Constant { .. }, _) => {
                for i in 0..d {
                    for c in self.columns(i) {
                        w.scale_bar[i * d + c] += l_bar[i * d + c];
                    }
                }
            }
            _ => {}
        }
    }

    /// Adjoint of [`eval`](Self::eval) at the tape it left, with the cotangents that were set: adds to `x_bar`.
    pub fn pull(&self, tape: &FieldTape<T>, w: &mut FieldWork<T>, x_bar: &mut [f64]) {
        let (bars, grad) = &mut w.drift;
        self.drift.eval_pull(&tape.drift, bars, grad);
        add(bars.start(), x_bar, self.state);
        if let (Some(chain), Some(tape), Some((bars, grad))) = (self.noise_net(), &tape.noise, &mut w.noise) {
            chain.eval_pull(tape, bars, grad);
            add(bars.start(), x_bar, self.state);
        }
    }

    pub fn clear_gradient(&self, w: &mut FieldWork<T>) {
        w.drift.1.fill_zero();
        if let Some((_, grad)) = &mut w.noise {
            grad.fill_zero();
        }
        w.scale_bar.fill(0.0);
    }

    pub fn add_gradient(&self, w: &FieldWork<T>, flat: &mut [f64]) {
        let rest = w.drift.1.add_to(flat);
        if let Some((_, grad)) = &w.noise {
            grad.add_to(rest);
        } else {
            self.noise.add_scale_gradient(&w.scale_bar, rest);
        }
    }
}

/// Rows `[x, u]`, as far as the network reads; or `x` alone, and `u` once for all of them.
fn fill<T: Single>(tape: &mut PointTape<T>, x: &[f64], u: &[f64], state: usize) {
    tape.drive().iter_mut().zip(u).for_each(|(to, u)| *to = T::of(*u));
    for (p, x) in x.chunks_exact(state).enumerate() {
        for (to, from) in tape.start().row_mut(p).iter_mut().zip(x.iter().chain(u)) {
            *to = T::of(*from);
        }
    }
}

fn add<T: Single>(from: &Mat<T>, x_bar: &mut [f64], state: usize) {
    for (p, x_bar) in x_bar.chunks_exact_mut(state).enumerate() {
        for (to, from) in x_bar.iter_mut().zip(from.row(p)) {
            *to += from.f64();
        }
    }
}
