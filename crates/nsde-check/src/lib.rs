//! References that judge `nsde` in its tests: short, obviously right, and sharing no code with what they judge.
//!
//! The crate is not published and does not know `nsde`. It speaks slices (matrices are row-major), closures and plain
//! structs, so that every crate of the workspace may use it as a dev-dependency.
//!
//! | to check | use |
//! | --- | --- |
//! | a moment of an activation | [`normal_expectation`], [`covariance_2d`] with an [`Activation`] |
//! | a layer, a network, one step of BMM | [`plain`] |
//! | a whole solve | [`linear`]: the linear SDE, Euler and exact |
//! | an adjoint | [`directional`] |
//! | positive definiteness | [`psd_ratio`] |
//! | a Monte Carlo estimate | [`sample_moments`] with [`standard_errors`] |
//!
//! # Example
//! The covariance of two rectified Gaussians, and the same out of a plain layer:
//!
//! ```
//! use nsde_check::{Flow, assert_close, covariance_2d, plain};
//!
//! let relu = |x: f64| x.max(0.0);
//! let cov = covariance_2d([0.5, -0.3], [1.0, 1.0], 0.6, &[0.0], relu, relu);
//! assert_close(cov, 0.182_365_68, 1e-7);
//!
//! let h = Flow::start(&[0.5, -0.3], &[1.0, 0.6, 0.6, 1.0]);
//! assert_close(plain::elementwise(&h, "relu").cov_rows()[1], cov, 1e-14);
//! ```
//!
//! # Tolerances
//! Quadrature is good to about 1e-13 of the absolute integral, differences to 1e-9 or so of the slope at
//! `eps = 1e-3`, eigenvalues to 1e-15 of the largest. Samples deserve five standard errors and a fixed seed.
//!
//! Broken input panics, with the place of the caller: in a test that is the message one wants.

pub mod activation;
pub mod differences;
pub mod eigen;
pub mod flow;
pub mod linear;
pub mod normal;
pub mod pair;
pub mod plain;
pub mod quadrature;
pub mod sampling;

pub use activation::{Activation, by_name};
pub use differences::{assert_close, assert_close_abs, assert_slices_close, directional, relative_error};
pub use eigen::{psd_ratio, symmetric_eigenvalues};
pub use flow::Flow;
pub use normal::normal_expectation;
pub use pair::{covariance_2d, normal_expectation_2d};
pub use quadrature::integrate;
pub use sampling::{Random, random_spd, random_vec, sample_moments, seeded, standard_errors};
