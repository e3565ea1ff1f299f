//! A solver that is kept from one update to the next, so that its memory is asked for and cleared once.

use crate::error::Result;
use crate::sde::NeuralSde;
use crate::solver::{Options, Solver};
use std::sync::{Mutex, PoisonError};

/// At most one solver. Those who come while it is lent out get one of their own.
#[derive(Default)]
pub(super) struct Kept(Mutex<Option<(Options, Solver)>>);

impl Kept {
    /// Does `work` with a solver of `sde`, which differs from call to call in its parameters only.
    pub fn with<R>(
        &self,
        sde: &NeuralSde,
        options: Options,
        work: impl FnOnce(&Solver) -> Result<R>,
    ) -> Result<R> {
        let kept = self.lock().take().filter(|(of, _)| *of == options);
        let solver = match kept {
            Some((_, mut solver)) => {
                solver.load(sde)?;
                solver
            }
            None => Solver::new(sde, options)?,
        };
        let result = work(&solver);
        *self.lock() = Some((options, solver));
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Options, Solver)>> {
        // What is in it is whole at all times.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaussian::Gaussian;
    use crate::layer::Layer;
    use crate::network::Network;
    use crate::sde::Diffusion;
    use crate::solver::{Precision, Rollout, Trajectory};
    use nsde_check::seeded;

    fn sde(seed: u64) -> NeuralSde {
        let rng = &mut seeded(seed);
        let drift = Network::perceptron(2, &[9, 9], 2, Layer::Relu, 0.8, rng).unwrap();
        let mut noise = Network::perceptron(2, &[5], 2, Layer::Relu, 0.8, rng).unwrap().layers().to_vec();
        noise.push(Layer::Softplus);
        NeuralSde::new(2, 0, drift, Diffusion::Diagonal(Network::new(2, noise).unwrap())).unwrap()
    }

    /// Batches of different sizes and lengths, other weights each time, another precision in between.
    #[test]
    fn a_kept_solver_gives_the_bits_of_a_new_one() {
        let kept = Kept::default();
        let start = Gaussian::isotropic(vec![0.3, -0.2], 0.1).unwrap();
        let dts = [0.1; 7];
        let sum = |_: usize, t: &Trajectory, bar: &mut Trajectory| {
            bar.at_mut(t.steps() - 1).1.fill(1.0);
            Ok(t.cov(t.steps() - 1).iter().sum())
        };
        for (seed, (count, steps)) in [(9, 7), (1, 3), (17, 5), (8, 7), (8, 2)].into_iter().enumerate() {
            let precision = if seed == 3 { Precision::F64 } else { Precision::F32 };
            let (sde, options) = (sde(seed as u64), Options { precision, ..Options::default() });
            let batch = vec![Rollout { start: &start, dts: &dts[..steps], inputs: &[] }; count];
            let again = kept.with(&sde, options, |solver| solver.gradient(&batch, sum)).unwrap();
            let anew = Solver::new(&sde, options).unwrap().gradient(&batch, sum).unwrap();
            assert_eq!((again.value, again.parameters), (anew.value, anew.parameters), "update {seed}");
        }
    }
}
