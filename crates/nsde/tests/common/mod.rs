//! Random networks and SDEs for the tests.
#![allow(dead_code)]

use nsde::{Diffusion, Gaussian, Layer, Linear, Moments, Network, NeuralSde};
use nsde_check::{random_spd, random_vec};
use rand::Rng;

/// Every elementwise layer.
pub fn activations() -> Vec<Layer> {
    vec![
        Layer::Relu,
        Layer::LeakyRelu { slope: 0.1 },
        Layer::Elu,
        Layer::Gelu,
        Layer::Silu,
        Layer::Tanh,
        Layer::Sigmoid,
        Layer::Softplus,
        Layer::Sin,
        Layer::Exp,
    ]
}

pub const MODES: [Moments; 3] = [Moments::Series { terms: 8 }, Moments::Exact, Moments::Paper];

/// A linear layer with normal weights of deviation `scale/√input`.
pub fn linear(input: usize, output: usize, scale: f64, rng: &mut impl Rng) -> Layer {
    let s = scale / (input as f64).sqrt();
    let weight = random_vec(input * output, rng).into_iter().map(|x| s * x).collect();
    let bias = random_vec(output, rng).into_iter().map(|x| 0.3 * x).collect();
    Layer::Linear(Linear::new(input, output, weight, bias).unwrap())
}

/// `input → width → … → output` with the given activation and dropout.
pub fn network(
    input: usize,
    hidden: &[usize],
    output: usize,
    u: &Layer,
    keep: f64,
    rng: &mut impl Rng,
) -> Network {
    let mut layers = Vec::new();
    let mut width = input;
    for next in hidden {
        layers.push(linear(width, *next, 1.0, rng));
        layers.push(u.clone());
        if keep < 1.0 {
            layers.push(Layer::Dropout { keep });
        }
        width = *next;
    }
    layers.push(linear(width, output, 1.0, rng));
    Network::new(input, layers).unwrap()
}

pub fn gaussian(d: usize, scale: f64, rng: &mut impl Rng) -> Gaussian {
    let cov = random_spd(d, d, rng).into_iter().map(|x| scale * x).collect();
    Gaussian::new(random_vec(d, rng), cov).unwrap()
}

/// SDEs with every kind of diffusion.
pub fn sdes(d: usize, inputs: usize, u: &Layer, rng: &mut impl Rng) -> Vec<NeuralSde> {
    let positive = |net: Network| {
        let mut layers = net.layers().to_vec();
        layers.push(Layer::Softplus);
        Network::new(net.input(), layers).unwrap()
    };
    let kinds = vec![
        Diffusion::Diagonal(positive(network(d, &[4], d, u, 0.8, rng))),
        Diffusion::Full(network(d + inputs, &[4], d * (d + 1) / 2, u, 0.9, rng)),
        Diffusion::ConstantDiagonal(random_vec(d, rng)),
        Diffusion::ConstantFull({
            let mut l = random_vec(d * d, rng);
            (0..d).for_each(|i| (i + 1..d).for_each(|j| l[i * d + j] = 0.0));
            l
        }),
        Diffusion::None,
    ];
    kinds
        .into_iter()
        .map(|diffusion| {
            let drift = network(d + inputs, &[5, 4], d, u, 0.8, rng);
            NeuralSde::new(d, inputs, drift, diffusion).unwrap()
        })
        .collect()
}
