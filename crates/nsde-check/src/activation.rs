//! Scalar activation functions with derivative and kinks, as a textbook writes them.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Every name that [`by_name`] knows; `leaky_relu` also takes its slope, as in `leaky_relu(0.2)`.
pub const NAMES: [&str; 11] =
    ["relu", "leaky_relu", "elu", "gelu", "silu", "tanh", "sigmoid", "softplus", "sin", "exp", "identity"];

/// Slope of `leaky_relu` on the left if the name does not say another.
pub const LEAKY_SLOPE: f64 = 0.01;

/// A function of one variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `x` on the right of 0, `slope · x` on the left.
    LeakyRelu {
        /// Slope on the left of 0.
        slope: f64,
    },
    /// `x` on the right of 0, `eˣ − 1` on the left.
    Elu,
    /// `x Φ(x)`.
    Gelu,
    /// `x / (1 + e⁻ˣ)`.
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// `log(1 + eˣ)`.
    Softplus,
    /// Sine.
    Sin,
    /// Exponential.
    Exp,
    /// `x`.
    Identity,
}

/// The activation of that name, or `None`.
pub fn by_name(name: &str) -> Option<Activation> {
    Some(match name {
        "relu" => Activation::Relu,
        "leaky_relu" => Activation::LeakyRelu { slope: LEAKY_SLOPE },
        "elu" => Activation::Elu,
        "gelu" => Activation::Gelu,
        "silu" => Activation::Silu,
        "tanh" => Activation::Tanh,
        "sigmoid" => Activation::Sigmoid,
        "softplus" => Activation::Softplus,
        "sin" => Activation::Sin,
        "exp" => Activation::Exp,
        "identity" => Activation::Identity,
        _ => {
            let slope = name.strip_prefix("leaky_relu(")?.strip_suffix(')')?.trim().parse().ok()?;
            Activation::LeakyRelu { slope }
        }
    })
}

impl Activation {
    /// `u(x)`.
    pub fn value(self, x: f64) -> f64 {
        match self {
            Self::Relu => x.max(0.0),
            Self::LeakyRelu { slope } => {
                if x > 0.0 {
                    x
                } else {
                    slope * x
                }
            }
            Self::Elu => {
                if x > 0.0 {
                    x
                } else {
                    x.exp_m1()
                }
            }
            Self::Gelu => x * normal_cdf(x),
            Self::Silu => x * sigmoid(x),
            Self::Tanh => x.tanh(),
            Self::Sigmoid => sigmoid(x),
            Self::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            Self::Sin => x.sin(),
            Self::Exp => x.exp(),
            Self::Identity => x,
        }
    }

    /// `u'(x)`; at a kink the value on the left.
    pub fn derivative(self, x: f64) -> f64 {
        match self {
            Self::Relu => {
                if x > 0.0 {
                    1.0
                } else {
                    0.0
                }
            }
            Self::LeakyRelu { slope } => {
                if x > 0.0 {
                    1.0
                } else {
                    slope
                }
            }
            Self::Elu => {
                if x > 0.0 {
                    1.0
                } else {
                    x.exp()
                }
            }
            Self::Gelu => normal_cdf(x) + x * normal_density(x),
            Self::Silu => sigmoid(x) * (1.0 + x * sigmoid(-x)),
            Self::Tanh => x.cosh().powi(-2),
            Self::Sigmoid => sigmoid(x) * sigmoid(-x),
            Self::Softplus => sigmoid(x),
            Self::Sin => x.cos(),
            Self::Exp => x.exp(),
            Self::Identity => 1.0,
        }
    }

    /// Where `u` or one of its derivatives jumps.
    pub fn kinks(self) -> &'static [f64] {
        match self {
            Self::Relu | Self::LeakyRelu { .. } | Self::Elu => &[0.0],
            _ => &[],
        }
    }
}

/// `Φ(x)`, accurate in both tails.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// `φ(x)`.
pub fn normal_density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

/// `1 / (1 + e⁻ˣ)`; far on the left the quotient is `1/∞ = 0`.
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differences::{assert_close_abs, directional};

    #[test]
    fn every_name_is_known_and_no_other() {
        assert!(NAMES.iter().all(|name| by_name(name).is_some()));
        assert_eq!(by_name("leaky_relu(0.2)"), Some(Activation::LeakyRelu { slope: 0.2 }));
        assert_eq!(by_name("swish"), None);
        assert_eq!(by_name("leaky_relu()"), None);
    }

    #[test]
    fn derivatives_match_differences() {
        for u in NAMES.iter().filter_map(|name| by_name(name)) {
            for x in [-7.3, -2.0, -0.6, 0.4, 1.7, 6.1] {
                let slope = directional(|t| u.value(x + t), 1e-3);
                assert_close_abs(slope, u.derivative(x), 1e-11 * (1.0 + u.value(x).abs()));
            }
        }
    }

    #[test]
    fn far_arguments_stay_finite() {
        for u in NAMES.iter().filter_map(|name| by_name(name)).filter(|&u| u != Activation::Exp) {
            for x in [-1e3, 1e3] {
                assert!(u.value(x).is_finite() && u.derivative(x).is_finite(), "{u:?} at {x}");
            }
        }
        assert_eq!(Activation::Softplus.value(-1e3), 0.0);
        assert_eq!(Activation::Softplus.value(1e3), 1e3);
    }

    #[test]
    fn known_values_are_met() {
        assert_close_abs(Activation::Gelu.value(1.0), 0.841_344_746_068_542_9, 1e-15);
        assert_close_abs(Activation::Silu.value(1.0), 0.731_058_578_630_004_9, 1e-15);
        assert_close_abs(Activation::Softplus.value(0.0), std::f64::consts::LN_2, 1e-15);
        assert_close_abs(normal_cdf(-10.0) / 7.619_853_024_160_527e-24, 1.0, 1e-14);
    }
}
