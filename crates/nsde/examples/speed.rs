//! Times one batch on the configurations of `bench/`, forward and forward + backward, as JSON lines:
//! `cargo run --release -p nsde --example speed -- [A B …] [--moments series|paper|exact] [--precision
//! f32|f64] [--threads N] [--seconds S] [--runs N]`. Each time is the median, and the shortest (`_min`), of as many
//! runs as fit into `--seconds`, at least `--runs`.
//!
//! - `--dim D --width H`: one free configuration in place of A … G, two hidden layers of `H` for the drift
//!   and one for the diffusion. `--steps K` and `--batch B` change any configuration. Each line ends with
//!   the peak memory of the process so far.
//! - `--dump MODEL`: no timing; a model file in, moments and gradient as JSON out, for a comparison of numbers.
//! - `--peak`: no timing of the library; the multiply-add peak of the machine in both precisions.

use nsde::{
    Diffusion, Gaussian, Layer, Model, Moments, Network, NeuralSde, Options, Precision, Rollout, Solver,
    Trajectory,
};
use pulp::{Simd, WithSimd};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// One line of the table: hidden layers are ReLU followed by dropout (keep 0.8).
#[derive(Clone)]
struct Config {
    name: &'static str,
    dim: usize,
    inputs: usize,
    drift: Hidden,
    /// Hidden layers of a diagonal diffusion; `None`: a constant one.
    diffusion: Option<Hidden>,
    batch: usize,
    steps: usize,
}

/// Widths of hidden layers.
type Hidden = std::borrow::Cow<'static, [usize]>;

const fn config(
    name: &'static str,
    (dim, inputs): (usize, usize),
    drift: &'static [usize],
    diffusion: Option<&'static [usize]>,
    (batch, steps): (usize, usize),
) -> Config {
    let diffusion = match diffusion {
        Some(hidden) => Some(Hidden::Borrowed(hidden)),
        None => None,
    };
    Config { name, dim, inputs, drift: Hidden::Borrowed(drift), diffusion, batch, steps }
}

static CONFIGS: [Config; 7] = [
    config("A", (2, 0), &[50, 50], Some(&[50]), (16, 10)),
    config("B", (34, 0), &[100, 100], Some(&[100]), (16, 10)),
    config("C", (9, 3), &[50, 50], Some(&[50]), (16, 16)),
    config("D", (9, 0), &[40], Some(&[10]), (32, 16)),
    config("E", (128, 0), &[128, 128, 128], None, (1, 1)),
    config("F", (32, 28), &[50, 50], Some(&[50]), (10, 28)),
    config("G", (512, 0), &[512], None, (1, 100)),
];

impl Config {
    fn sde(&self) -> nsde::Result<NeuralSde> {
        let rng = &mut ChaCha8Rng::seed_from_u64(1);
        let (d, input) = (self.dim, self.dim + self.inputs);
        let drift = Network::perceptron(input, &self.drift, d, Layer::Relu, 0.8, rng)?;
        let diffusion = match &self.diffusion {
            Some(hidden) => {
                Diffusion::Diagonal(Network::perceptron(input, hidden, d, Layer::Relu, 0.8, rng)?)
            }
            None => Diffusion::ConstantDiagonal(vec![0.3; d]),
        };
        NeuralSde::new(d, self.inputs, drift, diffusion)
    }
}

/// How long to repeat a run, and how often at least.
#[derive(Clone, Copy)]
struct Budget {
    time: Duration,
    runs: usize,
}

/// What repeated runs took, in milliseconds.
struct Times {
    shortest: f64,
    median: f64,
    /// 99th percentile.
    late: f64,
}

/// Times repeated runs. The first one warms up, unless it takes more than the whole budget: then it counts.
fn time(budget: Budget, mut run: impl FnMut()) -> Times {
    let mut timed = || {
        let one = Instant::now();
        run();
        one.elapsed()
    };
    let first = timed();
    let mut all = if first > budget.time { vec![1e3 * first.as_secs_f64()] } else { Vec::new() };
    let began = Instant::now();
    while (first <= budget.time && began.elapsed() < budget.time) || all.len() < budget.runs {
        all.push(1e3 * timed().as_secs_f64());
    }
    all.sort_by(f64::total_cmp);
    Times { shortest: all[0], median: all[all.len() / 2], late: all[all.len() * 99 / 100] }
}

/// Additions that wait for each other and touch no memory: whatever makes some of these runs late is the machine's.
fn bare(additions: usize) {
    let mut sum = black_box(0.0_f64);
    (0..additions).for_each(|_| sum = black_box(sum) + 1.0);
    black_box(sum);
}

/// How many additions take as long as `wanted` (ms).
fn as_long_as(wanted: f64) -> usize {
    let sample = 10_000;
    let budget = Budget { time: Duration::from_millis(20), runs: 3 };
    (wanted / time(budget, || bare(sample)).shortest * sample as f64) as usize
}

/// The sum of all moments after the last step: the scalar whose gradient is timed and dumped.
fn last(_: usize, t: &Trajectory, bar: &mut Trajectory) -> nsde::Result<f64> {
    let k = t.steps() - 1;
    bar.at_mut(k).0.fill(1.0);
    bar.at_mut(k).1.fill(1.0);
    Ok(t.mean(k).iter().chain(t.cov(k)).sum())
}

fn measure(c: &Config, options: Options, budget: Budget) -> nsde::Result<String> {
    let solver = Solver::new(&c.sde()?, options)?;
    let start = Gaussian::isotropic(vec![0.3; c.dim], 0.1)?;
    let dts = vec![0.05; c.steps];
    let inputs = vec![0.1; c.steps * c.inputs];
    let batch = vec![Rollout { start: &start, dts: &dts, inputs: &inputs }; c.batch];
    let mut paths = Vec::new();
    let forward = time(budget, || drop(solver.solve_into(&batch, &mut paths)));
    let both = time(budget, || drop(solver.gradient(&batch, last)));
    // One trajectory, one step, in the allocation-free predictor.
    let mut predictor = solver.predictor();
    let mut out = Trajectory::zeros(c.dim, 1);
    let one = Rollout { start: &start, dts: &dts[..1], inputs: &inputs[..c.inputs] };
    let half = Budget { time: budget.time / 2, ..budget };
    let step = time(half, || drop(predictor.predict(one, &mut out)));
    let additions = as_long_as(step.shortest);
    let idle = time(half, || bare(additions));
    Ok(format!(
        "\"forward_ms\": {:.4}, \"gradient_ms\": {:.4}, \"forward_min_ms\": {:.4}, \"gradient_min_ms\": {:.4}, \
         \"step_us\": {:.2}, \"step_min_us\": {:.2}, \"step_p99_us\": {:.2}, \"bare_us\": {:.2}, \"bare_p99_us\": {:.2}",
        forward.median,
        both.median,
        forward.shortest,
        both.shortest,
        1e3 * step.median,
        1e3 * step.shortest,
        1e3 * step.late,
        1e3 * idle.median,
        1e3 * idle.late
    ))
}

/// Largest resident memory of this process so far, in megabytes; `NaN` where `/proc` does not say.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kb| kb / 1024.0)
}

/// Where trajectory `b` of a dump starts: no two alike, and written down again in `bench/bmm_torch.py`.
fn dump_start(b: usize, dim: usize) -> nsde::Result<Gaussian> {
    Gaussian::isotropic((0..dim).map(|i| 0.3 + 0.1 * ((b + i) as f64).sin()).collect(), 0.1)
}

/// Moments after every step, and the gradient of [`last`] by parameter, for the model in `path`.
fn dump(path: &str, steps: usize, batch: usize, options: Options) -> nsde::Result<serde_json::Value> {
    let sde = Model::load(path)?.sde;
    let solver = Solver::new(&sde, options)?;
    let starts = (0..batch).map(|b| dump_start(b, sde.state())).collect::<nsde::Result<Vec<_>>>()?;
    let (dts, inputs) = (vec![0.05; steps], vec![0.1; steps * sde.inputs()]);
    let rollouts: Vec<_> = starts.iter().map(|start| Rollout { start, dts: &dts, inputs: &inputs }).collect();
    let paths = solver.solve(&rollouts)?;
    let gradient = solver.gradient(&rollouts, last)?;
    let (mut by_name, mut rest) = (serde_json::Map::new(), gradient.parameters.as_slice());
    sde.visit(&mut |name, _, values| {
        let (here, after) = rest.split_at(values.len());
        by_name.insert(name, here.into());
        rest = after;
    });
    let all = |of: fn(&Trajectory, usize) -> &[f64]| -> Vec<Vec<Vec<f64>>> {
        paths.iter().map(|p| (0..steps).map(|k| of(p, k).to_vec()).collect()).collect()
    };
    Ok(serde_json::json!({
        "mean": all(Trajectory::mean),
        "cov": all(Trajectory::cov),
        "value": gradient.value,
        "gradient": by_name,
    }))
}

/// Independent accumulators of the peak loop: enough to hide the latency of two multiply-add units, few
/// enough for sixteen registers.
const CHAINS: usize = 12;

/// Rounds of the peak loop between two looks at the clock.
const ROUNDS: usize = 100_000;

/// One burst of register-resident multiply-adds; gives its number of flops.
struct Burst {
    single: bool,
}

impl WithSimd for Burst {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        macro_rules! burst {
            ($splat:ident, $mul_add:ident, $vector:ty, $scalar:ty) => {{
                let (scale, shift) = (simd.$splat(black_box(0.999)), simd.$splat(black_box(0.001)));
                let mut sum: [$vector; CHAINS] = [simd.$splat(black_box(1.0)); CHAINS];
                for _ in 0..ROUNDS {
                    for s in &mut sum {
                        *s = simd.$mul_add(*s, scale, shift);
                    }
                }
                black_box(sum);
                (2 * CHAINS * ROUNDS * (size_of::<$vector>() / size_of::<$scalar>())) as f64
            }};
        }
        if self.single {
            burst!(splat_f32s, mul_add_f32s, S::f32s, f32)
        } else {
            burst!(splat_f64s, mul_add_f64s, S::f64s, f64)
        }
    }
}

/// Best multiply-add rate of any burst within `budget`, all threads of `pool` together, in GFLOP/s.
fn peak(pool: &rayon::ThreadPool, single: bool, budget: Duration) -> f64 {
    let arch = pulp::Arch::new();
    let rates = pool.broadcast(|_| {
        let (began, mut best) = (Instant::now(), 0.0_f64);
        while began.elapsed() < budget {
            let one = Instant::now();
            let flops = arch.dispatch(Burst { single });
            best = best.max(1e-9 * flops / one.elapsed().as_secs_f64());
        }
        best
    });
    rates.iter().sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut names, mut moments, mut precision) = (Vec::new(), "series".to_string(), "f32".to_string());
    let (mut threads, mut seconds, mut runs) = (0, 1.0, 3);
    let (mut dim, mut width, mut steps, mut batch) = (None, None, None, None);
    let (mut dumped, mut only_peak) = (None, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--moments" => moments = value()?,
            "--precision" => precision = value()?,
            "--threads" => threads = value()?.parse()?,
            "--seconds" => seconds = value()?.parse()?,
            "--runs" => runs = value()?.parse()?,
            "--dim" => dim = Some(value()?.parse()?),
            "--width" => width = Some(value()?.parse()?),
            "--steps" => steps = Some(value()?.parse()?),
            "--batch" => batch = Some(value()?.parse()?),
            "--dump" => dumped = Some(value()?),
            "--peak" => only_peak = true,
            name if CONFIGS.iter().any(|c| c.name == name) => names.push(name.to_string()),
            other => return Err(format!("`{other}` is neither a configuration (A … G) nor a flag").into()),
        }
    }
    let options = Options {
        moments: match moments.as_str() {
            "series" => Moments::default(),
            "paper" => Moments::Paper,
            "exact" => Moments::Exact,
            other => return Err(format!("`{other}` is not series, paper or exact").into()),
        },
        precision: match precision.as_str() {
            "f32" => Precision::F32,
            "f64" => Precision::F64,
            other => return Err(format!("`{other}` is not f32 or f64").into()),
        },
        ..Options::default()
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let budget = Budget { time: Duration::from_secs_f64(seconds), runs };
    if only_peak {
        for (name, single) in [("f32", true), ("f64", false)] {
            let rate = peak(&pool, single, budget.time);
            println!(
                "{{\"peak\": \"{name}\", \"threads\": {}, \"gflops\": {rate:.1}}}",
                pool.current_num_threads()
            );
        }
        return Ok(());
    }
    if let Some(path) = dumped {
        let shown = pool.install(|| dump(&path, steps.unwrap_or(5), batch.unwrap_or(3), options))?;
        println!("{shown}");
        return Ok(());
    }
    let mut configs: Vec<Config> =
        CONFIGS.iter().filter(|c| names.is_empty() || names.iter().any(|n| n == c.name)).cloned().collect();
    if dim.is_some() || width.is_some() {
        let hidden = width.unwrap_or(64);
        configs = vec![Config {
            name: "free",
            dim: dim.unwrap_or(8),
            inputs: 0,
            drift: vec![hidden; 2].into(),
            diffusion: Some(vec![hidden].into()),
            batch: 16,
            steps: 10,
        }];
    }
    for mut c in configs {
        c.steps = steps.unwrap_or(c.steps);
        c.batch = batch.unwrap_or(c.batch);
        let line = pool.install(|| measure(&c, options, budget))?;
        println!(
            "{{\"config\": \"{}\", \"moments\": \"{moments}\", \"precision\": \"{precision}\", \
             \"threads\": {}, {line}, \"steps\": {}, \"batch\": {}, \"peak_mb\": {:.1}}}",
            c.name,
            pool.current_num_threads(),
            c.steps,
            c.batch,
            peak_memory()
        );
    }
    Ok(())
}
