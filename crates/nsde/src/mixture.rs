//! Forecasts of several modes without sampling: a Gaussian that bends is split, Gaussians that look alike are
//! merged. Not in the paper, which clusters the data and fits a model per mode (Sec. 5.4).
//!
//! ```text
//! p(x_k) ≈ Σ_i w_i N(μ_i, Σ_i)        one step of the kernel per component
//! ```
//!
//! A component is split along its widest direction into three, whose mixture has the same mean and
//! covariance. Under a linear drift the three would keep their distances and widths in proportion; how far
//! they do not is the *bend* of the step. It adds up, and a component that has bent too far is replaced by
//! its parts. When there are more than allowed, the pair whose union loses least is merged (Runnalls' bound
//! on the relative entropy), again with mean and covariance kept.

use crate::error::{Error, Result};
use crate::gaussian::Gaussian;
use crate::kernel::cholesky::factor_strict;
use crate::metric::Mixture;
use crate::solver::{Rollout, Solver, Stats};

/// How a mixture grows and is kept small.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Splitting {
    /// Most components after a step, at least 1.
    pub most: usize,
    /// The bend, summed over steps, at which a component is split; dimensionless and positive.
    pub tolerance: f64,
}

impl Default for Splitting {
    fn default() -> Self {
        Splitting { most: 32, tolerance: 0.05 }
    }
}

/// Weight of each outer part, and the deviation of all three, of a standard normal split in three: close to
/// the best in the integrated square for parts this narrow.
const OUTER: f64 = 0.225_224_624_9;
const NARROW: f64 = 0.671_566_288_7;
/// A lighter component is not split any further.
const LIGHT: f64 = 1e-4;
/// Iterations for the widest direction; any direction close to it serves as well.
const POWER: usize = 60;

/// A component on its way.
#[derive(Clone, Debug)]
struct Part {
    weight: f64,
    law: Gaussian,
    bend: f64,
}

/// The law after each step of `rollout`, by the kernel of `solver`, which should be a deterministic one.
///
/// Costs up to `4 · most` single steps per step.
pub fn rollout(solver: &Solver, rollout: Rollout<'_>, how: Splitting) -> Result<Vec<Mixture>> {
    Ok(rollout_with_stats(solver, rollout, how)?.0)
}

/// Like [`rollout`], with the guards that acted.
pub fn rollout_with_stats(
    solver: &Solver,
    rollout: Rollout<'_>,
    how: Splitting,
) -> Result<(Vec<Mixture>, Stats)> {
    if how.most == 0 || how.tolerance.is_nan() || how.tolerance <= 0.0 {
        let what = "components or tolerance of a mixture".into();
        return Err(Error::Range { what, value: how.tolerance.min(how.most as f64), must: "positive" });
    }
    let inputs = rollout.inputs.len() / rollout.dts.len().max(1);
    let mut parts = vec![Part { weight: 1.0, law: rollout.start.clone(), bend: 0.0 }];
    let mut laws = Vec::with_capacity(rollout.dts.len());
    let mut stats = Stats::default();
    for k in 0..rollout.dts.len() {
        let dts = &rollout.dts[k..=k];
        let inputs = &rollout.inputs[k * inputs..(k + 1) * inputs];
        parts = step(solver, &parts, dts, inputs, how, &mut stats).map_err(|error| match error {
            Error::NonFinite { .. } => Error::NonFinite { trajectory: 0, step: k },
            other => other,
        })?;
        reduce(&mut parts, how.most);
        let weights = parts.iter().map(|p| p.weight).collect();
        laws.push(Mixture::new(weights, parts.iter().map(|p| p.law.clone()).collect())?);
    }
    Ok((laws, stats))
}

/// Carries every part over one step, whole or split.
fn step(
    solver: &Solver,
    parts: &[Part],
    dts: &[f64],
    inputs: &[f64],
    how: Splitting,
    stats: &mut Stats,
) -> Result<Vec<Part>> {
    let mut starts = Vec::with_capacity(4 * parts.len());
    let mut directions = Vec::with_capacity(parts.len());
    for part in parts {
        let widest = widest(&part.law);
        starts.push(part.law.clone());
        if how.most > 1 && part.weight > LIGHT && widest.iter().any(|x| *x != 0.0) {
            starts.extend(split(&part.law, &widest));
            directions.push(Some(widest));
        } else {
            directions.push(None);
        }
    }
    let batch: Vec<Rollout<'_>> = starts.iter().map(|start| Rollout { start, dts, inputs }).collect();
    let (ends, acted) = solver.solve_with_stats(&batch)?;
    stats.add(acted);
    let mut out = Vec::with_capacity(starts.len());
    let mut at = 0;
    for (part, direction) in parts.iter().zip(&directions) {
        let whole = ends[at].gaussian(0);
        at += 1;
        let Some(direction) = direction else {
            out.push(Part { law: whole, ..part.clone() });
            continue;
        };
        let children = [0, 1, 2].map(|c| ends[at + c].gaussian(0));
        at += 3;
        let bend = part.bend + bend(&whole, &children, direction);
        if bend > how.tolerance {
            for (law, share) in children.into_iter().zip([OUTER, 1.0 - 2.0 * OUTER, OUTER]) {
                out.push(Part { weight: share * part.weight, law, bend: 0.0 });
            }
        } else {
            out.push(Part { law: whole, bend, ..*part });
        }
    }
    Ok(out)
}

/// The direction of the largest variance, as long as its deviation; zero for a point.
fn widest(law: &Gaussian) -> Vec<f64> {
    let d = law.dim();
    let top = (0..d).max_by(|i, j| law.cov[i * d + i].total_cmp(&law.cov[j * d + j])).unwrap_or(0);
    let mut v = law.cov[top * d..(top + 1) * d].to_vec();
    let mut variance = 0.0;
    for _ in 0..POWER {
        let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        if length == 0.0 || !length.is_finite() {
            return vec![0.0; d];
        }
        v.iter_mut().for_each(|x| *x /= length);
        let next: Vec<f64> = (0..d).map(|i| (0..d).map(|j| law.cov[i * d + j] * v[j]).sum()).collect();
        variance = next.iter().zip(&v).map(|(a, b)| a * b).sum();
        v = next;
    }
    let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
    if length == 0.0 {
        return vec![0.0; d];
    }
    v.iter().map(|x| x / length * variance.sqrt()).collect()
}

/// Three parts along `widest` whose mixture has the mean and covariance of `law`.
///
/// ```text
/// μ ± m·widest, μ      Σ − (1 − s²)·widest widestᵀ      2 w m² = 1 − s²
/// ```
fn split(law: &Gaussian, widest: &[f64]) -> [Gaussian; 3] {
    let d = law.dim();
    let lost = 1.0 - NARROW * NARROW;
    let offset = (lost / (2.0 * OUTER)).sqrt();
    let mut cov = law.cov.clone();
    for i in 0..d {
        for j in 0..d {
            cov[i * d + j] -= lost * widest[i] * widest[j];
        }
    }
    [-offset, 0.0, offset].map(|m| Gaussian {
        mean: law.mean.iter().zip(widest).map(|(x, w)| x + m * w).collect(),
        cov: cov.clone(),
    })
}

/// How much one step has bent a component: the middle of the outer means off the inner one in deviations
/// of the whole, and the relative difference of the parts' deviations along the split.
fn bend(whole: &Gaussian, parts: &[Gaussian; 3], direction: &[f64]) -> f64 {
    let d = direction.len();
    let length = direction.iter().map(|x| x * x).sum::<f64>();
    let along = |law: &Gaussian| {
        let row = |i: usize| (0..d).map(|j| law.cov[i * d + j] * direction[j]).sum::<f64>();
        (0..d).map(|i| direction[i] * row(i)).sum::<f64>() / length
    };
    let off = |i: usize| parts[0].mean[i] + parts[2].mean[i] - 2.0 * parts[1].mean[i];
    let sagged = (0..d).map(|i| off(i).powi(2)).sum::<f64>().sqrt();
    let widths = [along(&parts[0]), along(&parts[1]), along(&parts[2])];
    let (low, high) = widths.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
    sagged / along(whole).sqrt() + (high - low) / (2.0 * widths[1])
}

/// Merges pairs until `most` are left.
fn reduce(parts: &mut Vec<Part>, most: usize) {
    if parts.len() <= most {
        return;
    }
    let mut sizes: Vec<f64> = parts.iter().map(|p| log_det(&p.law)).collect();
    let n = parts.len();
    let mut loss = vec![f64::INFINITY; n * n];
    let price = |parts: &[Part], sizes: &[f64], i: usize, j: usize| {
        let (a, b) = (&parts[i], &parts[j]);
        let weight = a.weight + b.weight;
        let grown = weight * log_det(&merge(a, b).law) - a.weight * sizes[i] - b.weight * sizes[j];
        if grown.is_nan() { f64::INFINITY } else { grown }
    };
    for i in 0..n {
        for j in 0..i {
            loss[i * n + j] = price(parts, &sizes, i, j);
        }
    }
    let mut alive: Vec<usize> = (0..n).collect();
    while alive.len() > most {
        // Ties, and singular covariances that have no bound, fall to the last pair.
        let mut best = (alive[alive.len() - 1], alive[alive.len() - 2], f64::INFINITY);
        for (place, i) in alive.iter().enumerate() {
            for j in &alive[..place] {
                if loss[i * n + j] < best.2 {
                    best = (*i, *j, loss[i * n + j]);
                }
            }
        }
        let (gone, kept, _) = best;
        parts[kept] = merge(&parts[kept], &parts[gone]);
        sizes[kept] = log_det(&parts[kept].law);
        alive.retain(|i| *i != gone);
        for other in alive.iter().filter(|o| **o != kept) {
            let (i, j) = (kept.max(*other), kept.min(*other));
            loss[i * n + j] = price(parts, &sizes, i, j);
        }
    }
    *parts = alive.iter().map(|i| parts[*i].clone()).collect();
}

/// The Gaussian with the mean and covariance of both.
fn merge(a: &Part, b: &Part) -> Part {
    let weight = a.weight + b.weight;
    let (p, q) = (a.weight / weight, b.weight / weight);
    let d = a.law.dim();
    let mean = a.law.mean.iter().zip(&b.law.mean).map(|(x, y)| p * x + q * y).collect();
    let apart: Vec<f64> = a.law.mean.iter().zip(&b.law.mean).map(|(x, y)| x - y).collect();
    let mut cov = vec![0.0; d * d];
    for i in 0..d {
        for j in 0..d {
            let k = i * d + j;
            cov[k] = p * a.law.cov[k] + q * b.law.cov[k] + p * q * apart[i] * apart[j];
        }
    }
    Part { weight, law: Gaussian { mean, cov }, bend: p * a.bend + q * b.bend }
}

/// `log det Σ`, −∞ if it is singular.
fn log_det(law: &Gaussian) -> f64 {
    let d = law.dim();
    let mut factor = law.cov.clone();
    match factor_strict(&mut factor, d) {
        Ok(()) => (0..d).map(|i| 2.0 * factor[i * d + i].ln()).sum(),
        Err(_) => f64::NEG_INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Layer, Linear};
    use crate::network::Network;
    use crate::sde::{Diffusion, NeuralSde};
    use crate::solver::{Method, Options};
    use nsde_check::assert_close_abs;

    /// `dx = 4x(1 − x²) dt + dw` with the drift as a net of ReLUs, linear between 61 knots in [−3, 3].
    fn double_well() -> NeuralSde {
        let drift = |x: f64| 4.0 * x * (1.0 - x * x);
        let knots: Vec<f64> = (0..61).map(|k| -3.0 + 0.1 * f64::from(k)).collect();
        let slope = |k: usize| (drift(knots[k] + 0.1) - drift(knots[k])) / 0.1;
        let change: Vec<f64> =
            (0..61).map(|k| if k == 0 { slope(0) } else { slope(k) - slope(k - 1) }).collect();
        let first = Linear::new(1, 61, vec![1.0; 61], knots.iter().map(|k| -k).collect()).unwrap();
        let last = Linear::new(61, 1, change, vec![drift(-3.0)]).unwrap();
        let layers = vec![Layer::Linear(first), Layer::Relu, Layer::Linear(last)];
        let drift = Network::new(1, layers).unwrap();
        NeuralSde::new(1, 0, drift, Diffusion::ConstantDiagonal(vec![1.0])).unwrap()
    }

    const DTS: [f64; 200] = [0.01; 200];

    #[test]
    fn both_wells_are_found_as_by_monte_carlo() {
        let sde = double_well();
        let start = Gaussian::isotropic(vec![0.1], 1e-6).unwrap();
        let way = Rollout { start: &start, dts: &DTS, inputs: &[] };
        let solver = Solver::new(&sde, Options::default()).unwrap();
        let laws = rollout(&solver, way, Splitting::default()).unwrap();
        let one = &solver.solve(&[way]).unwrap()[0];
        let samples = 20_000;
        let method = Method::MonteCarlo { samples, seed: 5 };
        let mc = Solver::new(&sde, Options { method, ..Options::default() }).unwrap();
        let cloud = mc.sample(0, way).unwrap();
        for k in [49, 99, 199] {
            let mut points = cloud[k * samples..(k + 1) * samples].to_vec();
            points.sort_by(f64::total_cmp);
            let single = Mixture::equal(vec![one.gaussian(k)]).unwrap();
            let score = |law: &Mixture| {
                let n = samples as f64;
                let nll: f64 = points.iter().map(|x| law.nll(&[*x]).unwrap()).sum::<f64>() / n;
                let crps: f64 = points.iter().step_by(20).map(|x| law.crps(0, *x)).sum::<f64>() * 20.0 / n;
                let far = |(i, x): (usize, &f64)| (law.cdf(0, *x) - (i as f64 + 0.5) / n).abs();
                (nll, crps, points.iter().enumerate().map(far).fold(0.0, f64::max))
            };
            let (many, few) = (score(&laws[k]), score(&single));
            assert!(many.0 < few.0 - 0.1 && many.1 < few.1, "step {k}: {many:?} {few:?}");
            assert!(many.2 < 0.03, "step {k}: {many:?} {few:?}");
            assert!(laws[k].components().len() <= 32);
        }
    }

    #[test]
    fn a_linear_drift_never_splits() {
        let drift = Linear::new(2, 2, vec![-1.0, 2.0, -2.0, -1.0], vec![0.1, 0.0]).unwrap();
        let drift = Network::new(2, vec![Layer::Linear(drift)]).unwrap();
        let sde = NeuralSde::new(2, 0, drift, Diffusion::ConstantDiagonal(vec![0.5, 0.2])).unwrap();
        let solver = Solver::new(&sde, Options::default()).unwrap();
        let start = Gaussian::new(vec![1.0, 0.0], vec![1.0, 0.3, 0.3, 0.5]).unwrap();
        let way = Rollout { start: &start, dts: &DTS, inputs: &[] };
        let laws = rollout(&solver, way, Splitting::default()).unwrap();
        let path = &solver.solve(&[way]).unwrap()[0];
        assert!(laws.iter().all(|l| l.components().len() == 1));
        assert_eq!(laws[199].components()[0], path.gaussian(199));
    }

    #[test]
    fn splitting_and_merging_keep_mean_and_covariance() {
        let law = Gaussian::new(vec![1.0, -2.0, 0.5], vec![2.0, 0.6, -0.3, 0.6, 1.0, 0.2, -0.3, 0.2, 0.5]);
        let law = law.unwrap();
        let mut parts = vec![Part { weight: 1.0, law: law.clone(), bend: 0.0 }];
        for _ in 0..2 {
            let shares = [OUTER, 1.0 - 2.0 * OUTER, OUTER];
            let children = |p: &Part| {
                let parts = split(&p.law, &widest(&p.law)).into_iter().zip(shares);
                parts.map(|(law, s)| Part { weight: s * p.weight, law, bend: 0.0 }).collect::<Vec<_>>()
            };
            parts = parts.iter().flat_map(children).collect();
        }
        for most in [9, 4, 1] {
            reduce(&mut parts, most);
            assert_eq!(parts.len(), most);
            let weights = parts.iter().map(|p| p.weight).collect();
            let whole = Mixture::new(weights, parts.iter().map(|p| p.law.clone()).collect()).unwrap();
            let moments = whole.moments();
            for (a, b) in moments.mean.iter().zip(&law.mean).chain(moments.cov.iter().zip(&law.cov)) {
                assert_close_abs(*a, *b, 1e-12);
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let sde = double_well();
        let solver = Solver::new(&sde, Options::default()).unwrap();
        let start = Gaussian::isotropic(vec![0.0], 1.0).unwrap();
        let way = Rollout { start: &start, dts: &DTS, inputs: &[] };
        assert!(rollout(&solver, way, Splitting { most: 0, tolerance: 0.1 }).is_err());
        assert!(rollout(&solver, way, Splitting { most: 2, tolerance: f64::NAN }).is_err());
    }
}
