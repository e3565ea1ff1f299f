//! Layers (Sec. 4): the type they share, and the list of them.

pub(crate) mod activation;
pub(crate) mod drive;
pub(crate) mod dropout;
mod elu;
pub(crate) mod exp;
mod gelu;
mod leaky_relu;
pub(crate) mod linear;
mod rectified;
mod relu;
pub(crate) mod residual;
mod sigmoid;
mod sigmoidal;
mod silu;
mod sin;
pub(crate) mod smoothed;
mod softplus;
mod tabled;
mod tanh;
mod units;

pub use linear::Linear;
pub(crate) use linear::LinearOp;

use crate::network::Network;
use smoothed::Smoothed;

/// One layer of a network: what it computes on a point, and with it its moments, its expected
/// Jacobian and the adjoints of both.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Layer {
    /// `W h + b`.
    Linear(Linear),
    /// `h ⊙ β / keep` with fresh Bernoulli(`keep`) masks `β`.
    Dropout {
        /// The probability to keep a unit; a dropout *rate* is `1 − keep`.
        keep: f64,
    },
    /// `h`.
    Identity,
    /// `max(0, h)`.
    Relu,
    /// `h` above zero, `slope·h` below.
    LeakyRelu {
        /// Slope on the negative side, in `[0, 1]`.
        slope: f64,
    },
    /// `h` above zero, `eʰ − 1` below.
    Elu,
    /// `h Φ(h)`, the exact one.
    Gelu,
    /// `h / (1 + e^{−h})`.
    Silu,
    /// `tanh h`.
    Tanh,
    /// `1 / (1 + e^{−h})`.
    Sigmoid,
    /// `ln(1 + eʰ)`.
    Softplus,
    /// `sin h`.
    Sin,
    /// `eʰ`.
    Exp,
    /// `h + g(h)` with a network `g`.
    Residual(Network),
}

impl Layer {
    /// The name used in model files.
    pub fn kind(&self) -> &'static str {
        match self {
            Layer::Linear(_) => "linear",
            Layer::Dropout { .. } => "dropout",
            Layer::Identity => "identity",
            Layer::Relu => "relu",
            Layer::LeakyRelu { .. } => "leaky_relu",
            Layer::Elu => "elu",
            Layer::Gelu => "gelu",
            Layer::Silu => "silu",
            Layer::Tanh => "tanh",
            Layer::Sigmoid => "sigmoid",
            Layer::Softplus => "softplus",
            Layer::Sin => "sin",
            Layer::Exp => "exp",
            Layer::Residual(_) => "residual",
        }
    }

    /// Names of the activations that need no parameter of their own.
    pub const ACTIVATIONS: [&str; 9] =
        ["relu", "elu", "gelu", "silu", "tanh", "sigmoid", "softplus", "sin", "exp"];

    /// The activation of this name, as in [`Layer::ACTIVATIONS`].
    pub fn activation(name: &str) -> Option<Layer> {
        Some(match name {
            "relu" => Layer::Relu,
            "elu" => Layer::Elu,
            "gelu" => Layer::Gelu,
            "silu" => Layer::Silu,
            "tanh" => Layer::Tanh,
            "sigmoid" => Layer::Sigmoid,
            "softplus" => Layer::Softplus,
            "sin" => Layer::Sin,
            "exp" => Layer::Exp,
            _ => return None,
        })
    }

    /// The smoothed form of an activation; `None` for the layers that are not elementwise.
    pub(crate) fn smoothed(&self) -> Option<Box<dyn Smoothed>> {
        Some(match self {
            Layer::Relu => Box::new(relu::Relu),
            Layer::LeakyRelu { slope } => Box::new(leaky_relu::LeakyRelu { slope: *slope }),
            Layer::Elu => Box::new(elu::Elu),
            Layer::Gelu => Box::new(gelu::Gelu),
            Layer::Silu => Box::new(silu::Silu),
            Layer::Tanh => Box::new(tanh::Tanh),
            Layer::Sigmoid => Box::new(sigmoid::Sigmoid),
            Layer::Softplus => Box::new(softplus::Softplus),
            Layer::Sin => Box::new(sin::Sin),
            Layer::Exp => Box::new(exp::Exp),
            Layer::Linear(_) | Layer::Dropout { .. } | Layer::Identity | Layer::Residual(_) => return None,
        })
    }
}

/// How the covariance of activations is computed; means, variances and Jacobians are exact in all
/// three ways.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moments {
    /// Smoothed derivatives, cut after this many terms (at least 1); always positive semi-definite.
    Series {
        /// Number of terms `N`.
        terms: usize,
    },
    /// Exact integrals where there are any, else a long series.
    Exact,
    /// The paper's ReLU formula, corrected; other activations as in the series with eight terms.
    /// May lose positive semi-definiteness.
    Paper,
}

impl Moments {
    /// Terms of the default series.
    pub const DEFAULT_TERMS: usize = 8;
    /// Most terms that can be asked for.
    pub const MAX_TERMS: usize = 64;
}

impl Default for Moments {
    fn default() -> Self {
        Moments::Series { terms: Moments::DEFAULT_TERMS }
    }
}
