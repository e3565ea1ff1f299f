//! The second moment of the diffusion, `Q = E[L Lᵀ]` (Eq. 12), and its adjoint.
//!
//! The paper calls `Q` central; it is a raw second moment. A diagonal `L` needs only the diagonal of
//! the diffusion network's covariance, a full one `Q_ij = Σ_c E[L_ic L_jc]`.

use super::driver::At;
use super::{CovarianceForm, Stats};
use crate::flow::{Base, Covariance, Shape, Variance};
use crate::kernel::product::Part;
use crate::kernel::{Mat, Real};
use crate::layer::Moments;
use crate::network::{Chain, ChainGrad, Network, Room, Tape};
use crate::sde::{Diffusion, NeuralSde};

pub(crate) enum Noise<T: Real> {
    Net {
        chain: Chain<T>,
        full: bool,
    },
    /// `L` itself, row-major `[D, D]`; `full` says whether its triangle is free.
    Constant {
        scale: Vec<f64>,
        /// `L Lᵀ`.
        second: Vec<f64>,
        full: bool,
    },
    None,
}

/// Where entry `(i, c)`, `c ≤ i`, of a lower-triangular matrix stands when written row by row.
pub(crate) fn triangle(i: usize, c: usize) -> usize {
    i * (i + 1) / 2 + c
}

/// `L Lᵀ` of a lower triangle, or of a diagonal.
fn square(scale: &[f64], d: usize, full: bool, out: &mut [f64]) {
    for i in 0..d {
        for j in if full { 0..=i } else { i..=i } {
            let q: f64 = (0..=j).map(|c| scale[i * d + c] * scale[j * d + c]).sum();
            out[i * d + j] = q;
            out[j * d + i] = q;
        }
    }
}

/// What a step leaves behind for its adjoint; nothing where there is no network.
pub(crate) struct NoiseTape<T: Real>(Option<(Tape<T>, Entries<T>)>);

/// Cotangents and the gradient.
pub(crate) struct NoiseWork<T> {
    net: Option<NetWork<T>>,
    scale_bar: Vec<f64>,
    pub stats: Stats,
}

struct NetWork<T> {
    room: Room<T>,
    grad: ChainGrad<T>,
    entries: EntriesRoom<T>,
    /// `∂ℓ/∂Σ` through the network.
    base_bar: Mat<T>,
}

/// Second moments of the entries of `L`.
enum Entries<T> {
    /// A diagonal `L`: their variances.
    Diagonal(Variance<T>),
    /// A triangle: their covariance.
    Full(Mat<T>),
}

/// Scratch.
enum EntriesRoom<T> {
    /// Cotangents of the variances, and room for `diag(var_bar) J`.
    Diagonal(Vec<T>, Mat<T>),
    /// The cotangent of the covariance.
    Full(Covariance<T>, Mat<T>),
}

impl<T: Real> Noise<T> {
    /// With networks made by `chain`.
    pub fn new(sde: &NeuralSde, chain: impl FnOnce(&Network) -> Chain<T>) -> Self {
        let d = sde.state();
        match sde.diffusion() {
            Diffusion::Diagonal(net) => Noise::Net { chain: chain(net), full: false },
            Diffusion::Full(net) => Noise::Net { chain: chain(net), full: true },
            Diffusion::ConstantDiagonal(s) => {
                let mut scale = vec![0.0; d * d];
                for i in 0..d {
                    scale[i * d + i] = s[i];
                }
                Noise::constant(scale, d, false)
            }
            Diffusion::ConstantFull(s) => Noise::constant(s.clone(), d, true),
            Diffusion::None => Noise::None,
        }
    }

    fn constant(scale: Vec<f64>, d: usize, full: bool) -> Self {
        let mut second = vec![0.0; d * d];
        square(&scale, d, full, &mut second);
        Noise::Constant { scale, second, full }
    }

    pub fn load(&mut self, sde: &NeuralSde) {
        match (self, sde.diffusion()) {
            (Noise::Net { chain, .. }, Diffusion::Diagonal(net) | Diffusion::Full(net)) => chain.load(net),
            (Noise::Constant { scale, second, full }, Diffusion::ConstantDiagonal(s)) => {
                for (i, s) in s.iter().enumerate() {
                    scale[i * sde.state() + i] = *s;
                }
                square(scale, sde.state(), *full, second);
            }
            (Noise::Constant { scale, second, full }, Diffusion::ConstantFull(s)) => {
                scale.copy_from_slice(s);
                square(scale, sde.state(), *full, second);
            }
            _ => {}
        }
    }

    pub fn tape(&self, state: usize, moments: Moments, form: CovarianceForm, turned: bool) -> NoiseTape<T> {
        let Noise::Net { chain, full } = self else { return NoiseTape(None) };
        let out = chain.widths[chain.widths.len() - 1];
        NoiseTape(Some(if *full {
            let entries = Entries::Full(Mat::zeros(out, out));
            (chain.tape(state, moments, form.hidden(), Shape::Full, turned), entries)
        } else {
            let entries = Entries::Diagonal(Variance::zeros(out, state));
            (chain.tape(state, moments, form.hidden(), Shape::Diagonal, turned), entries)
        }))
    }

    /// Roughly.
    pub fn tape_bytes(&self, state: usize) -> usize {
        match self {
            Noise::Net { chain, .. } => chain.tape_bytes(state),
            _ => 0,
        }
    }

    pub fn work(&self, tape: &NoiseTape<T>, state: usize) -> NoiseWork<T> {
        let net = match (self, &tape.0) {
            (Noise::Net { chain, full }, Some((tape, _))) => {
                let out = chain.widths[chain.widths.len() - 1];
                Some(NetWork {
                    room: chain.room(tape, state),
                    grad: chain.grad(),
                    entries: if *full {
                        EntriesRoom::Full(Covariance::zeros(out, state), Mat::zeros(out, out))
                    } else {
                        EntriesRoom::Diagonal(vec![T::ZERO; out], Mat::zeros(out, state))
                    },
                    base_bar: Mat::zeros(state, state),
                })
            }
            _ => None,
        };
        NoiseWork { net, scale_bar: self.scale_bar(), stats: Stats::default() }
    }

    /// A zero cotangent of the constant `L`, dense.
    pub fn scale_bar(&self) -> Vec<f64> {
        match self {
            Noise::Constant { scale, .. } => vec![0.0; scale.len()],
            _ => Vec::new(),
        }
    }

    /// Pushes `x ~ N(mean, Σ)` through the network, if there is one.
    pub fn push(
        &self,
        tape: &mut NoiseTape<T>,
        work: &mut NoiseWork<T>,
        mean: &[T],
        base: Base<'_, T>,
        at: At<'_>,
        moments: Moments,
    ) {
        if let (
            Noise::Net { chain, .. },
            Some((tape, entries)),
            Some(NetWork { room, entries: scratch, .. }),
        ) = (self, &mut tape.0, &mut work.net)
        {
            chain.start(tape, mean, base, |i| at.input(i));
            chain.push(base, tape, room, moments, &mut work.stats);
            match (entries, scratch) {
                (Entries::Full(second), EntriesRoom::Full(covariance, _)) => {
                    covariance.push(second, tape.end(), base, Part::Symmetric);
                }
                (Entries::Diagonal(variance), _) => variance.push(tape.end(), base),
                _ => {}
            }
        }
    }

    /// Adds `Δt Q` of what was pushed to `cov`.
    pub fn add(&self, tape: &NoiseTape<T>, at: At<'_>, cov: &mut Mat<T>) {
        let d = cov.rows;
        match (self, &tape.0) {
            (Noise::Net { .. }, Some((tape, entries))) => {
                let out = tape.end();
                let dt = T::lanes(|lane| at.dt(lane));
                match entries {
                    Entries::Full(second) => {
                        for i in 0..d {
                            for j in 0..=i {
                                let mut q = T::ZERO;
                                for c in 0..=j {
                                    let (a, b) = (triangle(i, c), triangle(j, c));
                                    q += second.at(a, b) + out.mean[a] * out.mean[b];
                                }
                                *cov.at_mut(i, j) += dt * q;
                                if i != j {
                                    *cov.at_mut(j, i) += dt * q;
                                }
                            }
                        }
                    }
                    Entries::Diagonal(variance) => {
                        for i in 0..d {
                            let q = variance.var[i] + out.mean[i] * out.mean[i];
                            *cov.at_mut(i, i) += dt * q;
                        }
                    }
                }
            }
            (Noise::Constant { second, full: false, .. }, _) => {
                for i in 0..d {
                    *cov.at_mut(i, i) += T::lanes(|lane| at.dt(lane) * second[i * d + i]);
                }
            }
            (Noise::Constant { second, .. }, _) => {
                for i in 0..d {
                    for (to, q) in cov.row_mut(i).iter_mut().zip(&second[i * d..(i + 1) * d]) {
                        *to += T::lanes(|lane| at.dt(lane) * q);
                    }
                }
            }
            _ => {}
        }
    }

    /// Adjoint of [`push`](Self::push) and [`add`](Self::add), at the tape they left: adds to the gradient.
    pub fn pull(
        &self,
        tape: &mut NoiseTape<T>,
        work: &mut NoiseWork<T>,
        base: &Mat<T>,
        at: At<'_>,
        cov_bar: &Mat<T>,
    ) {
        let d = base.rows;
        match (self, &mut tape.0, &mut work.net) {
            (
                Noise::Net { chain, .. },
                Some((tape, entries)),
                Some(NetWork { room, grad, entries: scratch, base_bar }),
            ) => {
                base_bar.fill_zero();
                let dt = T::lanes(|lane| at.dt(lane));
                let (out, bar) = (tape.end(), room.end_bar());
                bar.shape = out.shape;
                bar.mean.fill(T::ZERO);
                bar.jac.fill_zero();
                bar.var.fill(T::ZERO);
                match (entries, scratch) {
                    (_, EntriesRoom::Full(covariance, second_bar)) => {
                        second_bar.fill_zero();
                        for i in 0..d {
                            for j in 0..d {
                                let q_bar = dt * cov_bar.at(i, j);
                                for c in 0..=i.min(j) {
                                    let (a, b) = (triangle(i, c), triangle(j, c));
                                    *second_bar.at_mut(a, b) += q_bar;
                                    bar.mean[a] += q_bar * out.mean[b];
                                    bar.mean[b] += q_bar * out.mean[a];
                                }
                            }
                        }
                        if out.shape == Shape::Full {
                            bar.resid.copy_from(second_bar);
                        }
                        covariance.pull(out, base, second_bar, bar, base_bar);
                    }
                    (Entries::Diagonal(variance), EntriesRoom::Diagonal(var_bar, bar_jac)) => {
                        for i in 0..d {
                            var_bar[i] = dt * cov_bar.at(i, i);
                            bar.mean[i] = var_bar[i] * (out.mean[i] + out.mean[i]);
                            bar.diag[i] = var_bar[i];
                        }
                        variance.pull(out, var_bar, bar, base_bar, bar_jac);
                    }
                    _ => {}
                }
                chain.pull(base, tape, room, base_bar, grad);
            }
            (Noise::Constant { scale, full: false, .. }, ..) => {
                for i in 0..d {
                    work.scale_bar[i * d + i] += 2.0 * over_time(cov_bar.at(i, i), at) * scale[i * d + i];
                }
            }
            (Noise::Constant { scale, .. }, ..) => {
                for i in 0..d {
                    for j in 0..d {
                        let q_bar = over_time(cov_bar.at(i, j), at);
                        for c in 0..=i.min(j) {
                            work.scale_bar[i * d + c] += q_bar * scale[j * d + c];
                            work.scale_bar[j * d + c] += q_bar * scale[i * d + c];
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds what [`pull`](Self::pull) found for mean and covariance of the state.
    pub fn add_bars(&self, work: &NoiseWork<T>, mean_bar: &mut [T], cov_bar: &mut Mat<T>) {
        if let Some(NetWork { room, base_bar, .. }) = &work.net {
            for (to, from) in mean_bar.iter_mut().zip(&room.start_bar().mean) {
                *to += *from;
            }
            cov_bar.add_assign(base_bar);
        }
    }

    pub fn clear(&self, work: &mut NoiseWork<T>) {
        if let Some(NetWork { grad, .. }) = &mut work.net {
            grad.fill_zero();
        }
        work.scale_bar.fill(0.0);
    }

    pub fn add_gradient(&self, work: &NoiseWork<T>, flat: &mut [f64]) {
        if let Some(NetWork { grad, .. }) = &work.net {
            grad.add_to(flat);
        }
        self.add_scale_gradient(&work.scale_bar, flat);
    }

    /// Adds the cotangent of the constant `L` to the flat gradient, in the shape of the parameter.
    pub fn add_scale_gradient(&self, scale_bar: &[f64], flat: &mut [f64]) {
        if let Noise::Constant { full, .. } = self {
            if *full {
                for (to, from) in flat.iter_mut().zip(scale_bar) {
                    *to += from;
                }
            } else {
                let d = flat.len();
                for (i, to) in flat.iter_mut().enumerate() {
                    *to += scale_bar[i * d + i];
                }
            }
        }
    }
}

/// `Σ Δt q̄` over the lanes.
fn over_time<T: Real>(q_bar: T, at: At<'_>) -> f64 {
    (0..T::LANES).map(|lane| at.dt(lane) * q_bar.lane(lane)).sum()
}
