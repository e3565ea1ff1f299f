//! A folder with models, and the program run in it.

use nsde::{Diffusion, Layer, Linear, Model, Network, NeuralSde};
use std::path::PathBuf;

/// A temporary folder that holds `model.safetensors` (two dimensions, named) and `driven.safetensors`
/// (one dimension, one input, `dx = u dt`).
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        model().save(folder.path("model.safetensors")).unwrap();
        let drift = Network::new(2, vec![linear(1, 2, &[0.0, 1.0], &[0.0])]).unwrap();
        let sde = NeuralSde::new(1, 1, drift, Diffusion::None).unwrap();
        Model::new(sde, 0.5).unwrap().save(folder.path("driven.safetensors")).unwrap();
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }
}

fn linear(output: usize, input: usize, weight: &[f64], bias: &[f64]) -> Layer {
    Layer::Linear(Linear::new(input, output, weight.to_vec(), bias.to_vec()).unwrap())
}

fn model() -> Model {
    let weights =
        |n: usize, phase: f64| -> Vec<f64> { (0..n).map(|i| (1.7 * i as f64 + phase).sin() / 2.0).collect() };
    let drift = vec![
        linear(6, 2, &weights(12, 0.1), &weights(6, 0.2)),
        Layer::Relu,
        linear(2, 6, &weights(12, 0.3), &weights(2, 0.4)),
    ];
    let noise = vec![linear(2, 2, &weights(4, 0.5), &[-1.0, -2.0]), Layer::Softplus];
    let (drift, noise) = (Network::new(2, drift).unwrap(), Network::new(2, noise).unwrap());
    let mut model =
        Model::new(NeuralSde::new(2, 0, drift, Diffusion::Diagonal(noise)).unwrap(), 0.05).unwrap();
    model.columns = Some(vec!["prey".into(), "predator".into()]);
    model.extra.insert("notes".into(), "kept".into());
    model
}

/// Exit status, standard output and standard error of the program.
pub fn run(folder: &Folder, args: &[&str]) -> (i32, String, String) {
    let output = std::process::Command::new(assert_cmd::cargo::cargo_bin!("nsde"))
        .args(args)
        .current_dir(folder.path(""))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}
