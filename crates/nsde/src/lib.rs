//! Calibrated forecast distributions from neural stochastic differential equations, without sampling.
//!
//! A neural SDE `dx = f(x) dt + L(x) dw` has networks for drift and diffusion. This crate carries a
//! mean and a full covariance through the layers of the networks and along the time steps
//! (*bidimensional moment matching*, BMM), deterministically and with gradients.
//!
//! # The method in one page
//!
//! One step of size `Δt` from `x ~ N(μ, Σ)`:
//!
//! ```text
//! a = E[f]    J = E[∂f/∂x]    R = Cov[f] − J Σ Jᵀ    Q = E[L Lᵀ]
//! μ' = μ + Δt a
//! Σ' = (I + Δt J) Σ (I + Δt J)ᵀ + Δt² R + Δt Q
//! ```
//!
//! `a`, `J` and `R` come from one pass down the layers. For an activation `u` of `h ~ N(m, s)`, let
//! `c_n = E[u⁽ⁿ⁾(h)]`; then the mean is `c_0`, the Jacobian `c_1`, and
//! `Cov[u(h_i), u(h_j)] = Σ_n B_ijⁿ/n! · c_n(i) c_n(j)`, a series of positive semi-definite terms.
//!
//! # Example
//!
//! ```
//! use nsde::{Diffusion, Gaussian, Layer, Linear, NeuralSde, Network, Options, Rollout, Solver};
//!
//! // dx = −x dt + 0.5 dw, an Ornstein–Uhlenbeck process written as a network.
//! let drift = Network::new(1, vec![Layer::Linear(Linear::new(1, 1, vec![-1.0], vec![0.0])?)])?;
//! let sde = NeuralSde::new(1, 0, drift, Diffusion::ConstantDiagonal(vec![0.5]))?;
//! let solver = Solver::new(&sde, Options::default())?;
//!
//! let start = Gaussian::isotropic(vec![2.0], 0.0)?;
//! let dts = [0.01; 300];
//! let path = &solver.solve(&[Rollout { start: &start, dts: &dts, inputs: &[] }])?[0];
//! assert!((path.mean(299)[0] - 2.0 * (-3.0_f64).exp()).abs() < 2e-3);
//! assert!((path.cov(299)[0] - 0.125).abs() < 2e-3); // stationary variance 0.5²/2
//! # Ok::<(), nsde::Error>(())
//! ```

pub mod calibrate;
pub mod data;
pub mod head;
pub mod metric;
pub mod mixture;
pub mod simulate;
pub mod train;

mod ensemble;
mod error;
mod flow;
mod gaussian;
mod kernel;
mod layer;
mod model;
mod network;
mod points;
mod random;
mod sde;
mod solver;

pub use ensemble::Ensemble;
pub use error::{Error, Result};
pub use gaussian::{Gaussian, mahalanobis, nll, nll_pull};
pub use layer::{Layer, Linear, Moments};
pub use model::{Model, Scaling, Tensor};
pub use network::{Network, NetworkMoments};
pub use sde::{Diffusion, NeuralSde};
pub use solver::{
    CovarianceForm, Gradient, Method, Options, Precision, Predictor, Rollout, Solver, Stats, Trajectory,
    Unscented,
};
