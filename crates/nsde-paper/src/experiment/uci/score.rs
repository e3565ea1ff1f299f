//! Scores of predictions on the test rows, and Fig. 6: the same model predicted by particles.

use super::table::Split;
use crate::particles::{Judge, moments};
use anyhow::Result;
use nsde::head::{Head, LinearHead, SdeLayer};
use nsde::metric::{Mixture, regression};
use nsde::{Gaussian, Options, Rollout, Solver};
use serde::{Deserialize, Serialize};

/// Scores on the test rows, in the units of the data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Flow time, if there is one.
    pub flow: Option<f64>,
    /// Particles of Fig. 6: those of a prediction by sampling.
    pub particles: Option<usize>,
    /// Negative log-likelihood; none if it is infinite.
    pub nll: Option<f64>,
    /// Root of the mean squared error.
    pub rmse: f64,
    /// Error of the coverage.
    pub ecpe: f64,
}

/// Scores Gaussians given by mean and variance in standard units.
pub fn scored(flow: Option<f64>, mean: &[f64], var: &[f64], split: &Split) -> Result<Line> {
    let s = split.scale;
    let units = |x: &[f64]| x.iter().map(|v| v * s).collect::<Vec<_>>();
    let var: Vec<f64> = var.iter().map(|v| v * s * s).collect();
    let found = regression::evaluate(&units(mean), &var, &units(&split.test.y))?;
    let nll = Some(found.nll).filter(|x| x.is_finite());
    Ok(Line { flow, particles: None, nll, rmse: found.rmse, ecpe: found.ecpe })
}

/// Scores Gaussians.
pub fn gaussians(flow: Option<f64>, laws: &[Gaussian], split: &Split) -> Result<Line> {
    let pick = |f: fn(&Gaussian) -> f64| laws.iter().map(f).collect::<Vec<_>>();
    scored(flow, &pick(|l| l.mean[0]), &pick(|l| l.cov[0]), split)
}

/// Scores mixtures; the coverage is that of the Gaussians with their moments.
pub fn mixtures(laws: &[Mixture], split: &Split) -> Result<Line> {
    let mut judge = Judge::default();
    for (law, y) in laws.iter().zip(&split.test.y) {
        judge.mixture(law, &[*y])?;
    }
    let s = judge.scored();
    Ok(Line {
        flow: None,
        particles: None,
        nll: s.nll.filter(|x| x.is_finite()).map(|x| x + split.scale.ln()),
        rmse: s.mse.sqrt() * split.scale,
        ecpe: s.ecpe.unwrap_or(1.0),
    })
}

/// Fig. 6: the same model, predicted by Euler–Maruyama with more and more particles.
pub fn sampled(
    flow: f64,
    layer: &SdeLayer<LinearHead>,
    split: &Split,
    particles: &[usize],
    seed: u64,
) -> Result<Vec<Line>> {
    let most = particles.last().copied().unwrap_or(2);
    let method = nsde::Method::MonteCarlo { samples: most, seed: seed ^ (1 << 44) };
    let solver = Solver::new(&layer.sde, Options { method, ..Options::default() })?;
    let linear = layer.head.linear();
    let dts = vec![layer.dt; layer.steps];
    let mut judges = vec![Judge::default(); particles.len()];
    for (i, y) in split.test.y.iter().enumerate() {
        let x = split.test.x[i * split.dim..(i + 1) * split.dim].to_vec();
        let start = Gaussian::isotropic(x, layer.init_var)?;
        let path = solver.sample(i, Rollout { start: &start, dts: &dts, inputs: &[] })?;
        let end = &path[(layer.steps - 1) * most * split.dim..];
        let value =
            |x: &[f64]| linear.bias()[0] + linear.weight().iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
        let cloud: Vec<f64> = end.chunks(split.dim).map(value).collect();
        for (judge, samples) in judges.iter_mut().zip(particles) {
            judge.gaussian(&moments(&cloud, 1, *samples), &[*y])?;
        }
    }
    let line = |(judge, samples): (&Judge, &usize)| {
        let s = judge.scored();
        Line {
            flow: Some(flow),
            particles: Some(*samples),
            nll: s.nll.filter(|x| x.is_finite()).map(|x| x + split.scale.ln()),
            rmse: s.mse.sqrt() * split.scale,
            ecpe: s.ecpe.unwrap_or(1.0),
        }
    };
    Ok(judges.iter().zip(particles).map(line).collect())
}
