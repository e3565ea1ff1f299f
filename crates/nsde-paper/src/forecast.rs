//! A neural SDE, or several that were trained alike, with one way to predict.

use crate::fit::Fit;
use crate::protocol::{Forecast, Forecaster};
use anyhow::{Result, bail};
use nsde::data::Series;
use nsde::metric::Mixture;
use nsde::mixture::{self, Splitting};
use nsde::{Gaussian, NeuralSde, Options, Rollout, Solver, Unscented};

/// The members, asked together.
pub struct Sde {
    name: &'static str,
    members: Vec<Solver>,
    dt: f64,
    init_var: f64,
    /// Most components of a mixture, all members together.
    components: usize,
}

impl Sde {
    /// The way to predict that is called `name`, with so many components or particles.
    pub fn new(
        name: &'static str,
        members: &[NeuralSde],
        fit: &Fit,
        components: usize,
        samples: usize,
        seed: u64,
    ) -> Result<Self> {
        let method = match name {
            "particles" => nsde::Method::MonteCarlo { samples, seed },
            "cubature" => nsde::Method::Cubature(Unscented::default()),
            _ => nsde::Method::Bmm,
        };
        let solver = |sde| Solver::new(sde, Options { method, ..Options::default() });
        let members = members.iter().map(solver).collect::<nsde::Result<_>>()?;
        Ok(Sde { name, members, dt: fit.dt, init_var: fit.init_var, components })
    }

    fn one(&self, solver: &Solver, index: usize, rollout: Rollout<'_>) -> Result<Forecast> {
        let steps = rollout.dts.len();
        if self.name == "particles" {
            return Ok(Forecast::Particles(solver.sample(index, rollout)?));
        }
        if self.name == "mixture" {
            let most = (self.components / self.members.len()).max(1);
            let how = Splitting { most, ..Splitting::default() };
            return Ok(Forecast::Mixture(mixture::rollout(solver, rollout, how)?));
        }
        let path = solver.solve(&[rollout])?.remove(0);
        Ok(match self.name {
            "mean" => Forecast::Mean((0..steps).map(|k| path.mean(k).to_vec()).collect()),
            _ => Forecast::Gaussian((0..steps).map(|k| path.gaussian(k)).collect()),
        })
    }
}

impl Forecaster for Sde {
    fn name(&self) -> &'static str {
        self.name
    }

    fn samples(&self) -> bool {
        self.name == "particles"
    }

    fn forecast(&self, index: usize, series: &Series) -> Result<Forecast> {
        let (rows, dim) = (series.rows(), series.values.len() / series.rows());
        let steps = rows - 1;
        let start = Gaussian::isotropic(series.values[..dim].to_vec(), self.init_var)?;
        let inputs = &series.inputs[..series.inputs.len() / rows * steps];
        let dts = vec![self.dt; steps];
        let rollout = Rollout { start: &start, dts: &dts, inputs };
        let mut all = Vec::with_capacity(self.members.len());
        for solver in &self.members {
            all.push(self.one(solver, index, rollout)?);
        }
        if all.len() == 1 { Ok(all.remove(0)) } else { together(&all, dim) }
    }
}

/// What members of equal weight say together: the union of their mixtures, the Gaussian with the moments of their Gaussians,
/// every particle from the next member.
fn together(all: &[Forecast], dim: usize) -> Result<Forecast> {
    let share = 1.0 / all.len() as f64;
    let (mut mixtures, mut gaussians, mut particles) = (Vec::new(), Vec::new(), Vec::new());
    for forecast in all {
        match forecast {
            Forecast::Mixture(laws) => mixtures.push(laws),
            Forecast::Gaussian(laws) => gaussians.push(laws),
            Forecast::Particles(values) => particles.push(values),
            Forecast::Mean(_) => bail!("an ensemble of forecasts without uncertainty"),
        }
    }
    if let Some(first) = mixtures.first() {
        let at = |k: usize| {
            let laws = || mixtures.iter().map(|m| &m[k]);
            let weights = laws().flat_map(|law| law.weights()).map(|w| share * w).collect();
            Mixture::new(weights, laws().flat_map(|law| law.components()).cloned().collect())
        };
        return Ok(Forecast::Mixture((0..first.len()).map(at).collect::<nsde::Result<_>>()?));
    }
    if let Some(first) = gaussians.first() {
        let at =
            |k: usize| Ok(Mixture::equal(gaussians.iter().map(|laws| laws[k].clone()).collect())?.moments());
        return Ok(Forecast::Gaussian((0..first.len()).map(at).collect::<nsde::Result<_>>()?));
    }
    let rows = particles.first().map_or(0, |p| p.len() / dim);
    let row = |n: usize| particles[n % particles.len()][n * dim..(n + 1) * dim].iter().copied();
    Ok(Forecast::Particles((0..rows).flat_map(row).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_members_are_one_wider_gaussian_and_share_the_particles() {
        let gaussian = |mean: f64| Forecast::Gaussian(vec![Gaussian { mean: vec![mean], cov: vec![2.0] }]);
        let Forecast::Gaussian(laws) = together(&[gaussian(-1.0), gaussian(1.0)], 1).unwrap() else {
            panic!()
        };
        assert!(laws[0].mean[0].abs() < 1e-15 && (laws[0].cov[0] - 3.0).abs() < 1e-15);
        let cloud = |x: f64| Forecast::Particles(vec![x; 6]);
        let Forecast::Particles(values) = together(&[cloud(1.0), cloud(2.0)], 2).unwrap() else { panic!() };
        assert_eq!(values, [1.0, 1.0, 2.0, 2.0, 1.0, 1.0]);
    }
}
