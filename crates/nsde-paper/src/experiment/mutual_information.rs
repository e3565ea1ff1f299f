//! Fig. 2: mutual information between the activations of two hidden layers, over their width.

use super::Experiment;
use crate::cells::{Done, Order};
use crate::ksg::{Sample, jitter, mutual_information};
use crate::outcome::{Outcome, number};
use crate::points::{forward, fresh, generator, normals, steps};
use crate::run::Run;
use crate::statistics::{deviation, mean};
use anyhow::Result;
use nsde::{Layer, Network};
use nsde_report::{LineSeries, Lines, lines};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mutual-information",
    paper: "Fig. 2",
    about: "mutual information of activations within a layer and across layers, over the width",
    run,
};

const KEEP: f64 = 0.8;
/// Places of the two ReLUs in linear, ReLU, dropout, linear, ReLU.
const LAYERS: [usize; 2] = [1, 4];
/// Width of the example.
const EXAMPLE: usize = 16;

#[derive(Serialize)]
struct Settings {
    points: usize,
    /// Most pairs of a block that are estimated; beyond, as many are drawn.
    pairs: usize,
}

/// How many dimensions `x` has; the paper does not say.
#[derive(Clone, Copy, PartialEq, Serialize)]
enum Input {
    /// As many as a layer has units.
    Width,
    /// Two.
    Two,
}

impl Input {
    const ALL: [Input; 2] = [Input::Width, Input::Two];

    fn name(self) -> &'static str {
        match self {
            Input::Width => "wide",
            Input::Two => "two",
        }
    }

    fn dim(self, width: usize) -> usize {
        match self {
            Input::Width => width,
            Input::Two => 2,
        }
    }
}

#[derive(Clone, Copy, Serialize)]
struct Place {
    width: usize,
    input: Input,
    repetition: u64,
}

/// Means over the blocks, in nats: A the diagonal, B pairs within a layer, C pairs across layers.
#[derive(Serialize, Deserialize)]
struct Blocks([f64; 3]);

const BLOCKS: [&str; 3] = ["A: an activation with itself", "B: within a layer", "C: across layers"];

fn run(run: &Run) -> Result<()> {
    let widths: &[usize] = run.size(&[4, 8, 16, 32, 64, 128], &[4, 16]);
    let settings = Settings { points: run.size(1000, 200), pairs: run.size(256, 20) };
    let repetitions = run.repetitions(100, 2) as u64;
    let mut cells = Vec::new();
    for input in Input::ALL {
        for width in widths {
            for repetition in 0..repetitions {
                let name = format!("{}-width-{width}-run-{repetition}", input.name());
                cells.push((name, Place { width: *width, input, repetition }));
            }
        }
    }
    let done = run.cells(Order::Together, &settings, &cells, |place| blocks(&settings, run.seed, place))?;
    let example = Place { width: EXAMPLE, input: Input::Width, repetition: 0 };
    let example = [("example".to_string(), example)];
    let matrix = run.cells(Order::InTurn, &settings, &example, |place| all(&settings, run.seed, place))?;
    report(run, &settings, widths, &cells, &done, &matrix[0].value)
}

/// The two layers of a random network on random points, twice with different jitter: an activation is compared
/// with its own twin.
fn activations(settings: &Settings, seed: u64, place: &Place) -> Result<[Vec<Sample>; 2]> {
    let input = place.input.dim(place.width);
    let variant = u64::from(place.input == Input::Two);
    let rng = &mut generator(seed, place.repetition + ((place.width as u64) << 32) + (variant << 62));
    let net = Network::perceptron(input, &[place.width; 2], 1, Layer::Relu, KEEP, rng)?;
    let x = normals(settings.points, input, rng);
    let all = forward(&steps(&net)?, &x, |_, keep, points| fresh(keep, points, rng));
    let mut twin = || -> Vec<Sample> {
        let columns = LAYERS.iter().flat_map(|l| all[*l].columns().into_iter());
        let sample = |column: ndarray::ArrayView1<'_, f32>| {
            let mut values: Vec<f64> = column.iter().map(|a| f64::from(*a)).collect();
            jitter(&mut values, rng);
            Sample::new(values)
        };
        columns.map(sample).collect()
    };
    Ok([twin(), twin()])
}

/// All pairs of a block if they are few, else as many random ones as are wanted.
fn choose(all: Vec<[usize; 2]>, most: usize, rng: &mut impl Rng) -> Vec<[usize; 2]> {
    if all.len() <= most {
        return all;
    }
    (0..most).map(|_| all[(rng.next_u64() % all.len() as u64) as usize]).collect()
}

fn blocks(settings: &Settings, seed: u64, place: &Place) -> Result<Blocks> {
    let [units, twins] = activations(settings, seed, place)?;
    let w = place.width;
    let rng = &mut generator(seed, (1 << 63) + place.repetition + ((w as u64) << 32));
    let itself = (0..2 * w).map(|i| [i, i]).collect();
    let within = (0..2 * w).flat_map(|i| (i / w * w..i).map(move |j| [i, j])).collect();
    let across = (0..w).flat_map(|i| (w..2 * w).map(move |j| [i, j])).collect();
    let block = |pairs: Vec<[usize; 2]>, most: usize, rng: &mut rand_chacha::ChaCha8Rng| {
        let chosen = choose(pairs, most, rng);
        let each = chosen.iter().map(|[i, j]| mutual_information(&units[*i], &twins[*j]));
        mean(&each.collect::<Vec<_>>())
    };
    Ok(Blocks([
        block(itself, settings.pairs, rng),
        block(within, settings.pairs, rng),
        block(across, settings.pairs, rng),
    ]))
}

/// The whole matrix.
fn all(settings: &Settings, seed: u64, place: &Place) -> Result<Vec<f64>> {
    let [units, twins] = activations(settings, seed, place)?;
    let n = units.len();
    let mut matrix = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            matrix[i * n + j] = mutual_information(&units[i], &twins[j]);
            matrix[j * n + i] = matrix[i * n + j];
        }
    }
    Ok(matrix)
}

fn report(
    run: &Run,
    settings: &Settings,
    widths: &[usize],
    cells: &[(String, Place)],
    done: &[Done<Blocks>],
    matrix: &[f64],
) -> Result<()> {
    let over = |input: Input, width: usize, block: usize| -> Vec<f64> {
        let here = cells.iter().zip(done);
        let here = here.filter(|((_, p), _)| p.input == input && p.width == width);
        here.map(|(_, d)| d.value.0[block]).collect()
    };
    let factor = |input: Input, width: usize, block: usize| {
        mean(&over(input, width, 0)) / mean(&over(input, width, block))
    };
    let mut out = Outcome::new(run);
    for (width, block, claimed, what) in [
        (16, 1, 10.0, "within a layer"),
        (64, 1, 100.0, "within a layer"),
        (16, 2, 100.0, "between layers"),
        (64, 2, 1000.0, "between layers"),
    ] {
        if !widths.contains(&width) {
            continue;
        }
        let verdict = |ours: f64| {
            if ours >= claimed / 3.0 && ours <= 3.0 * claimed {
                "confirmed within a factor of 3"
            } else if ours > claimed {
                "even smaller than claimed"
            } else {
                "contradicted"
            }
        };
        let (wide, two) = (factor(Input::Width, width, block), factor(Input::Two, width, block));
        out.claim(
            &format!("width {width}: mutual information {what} is ~{claimed} times smaller than the entropy"),
            &format!("{wide:.0} times with as many inputs as units; {two:.0} times with two inputs"),
            &format!("{} with as many inputs as units, {} with two", verdict(wide), verdict(two)),
        );
    }
    let falls = |input: Input, block: usize| {
        let all: Vec<f64> = widths.iter().map(|w| mean(&over(input, *w, block))).collect();
        all[all.len() - 1] < 0.5 * all[0]
    };
    let yes = |b: bool| if b { "falls" } else { "does not fall by half" };
    out.claim(
        "mutual information in blocks B and C decreases sharply with the width",
        &format!(
            "as many inputs as units: B {}, C {}; two inputs: B {}, C {}",
            yes(falls(Input::Width, 1)),
            yes(falls(Input::Width, 2)),
            yes(falls(Input::Two, 1)),
            yes(falls(Input::Two, 2))
        ),
        match (falls(Input::Width, 1) && falls(Input::Width, 2), falls(Input::Two, 1)) {
            (true, true) => "confirmed for both inputs",
            (true, false) => {
                "confirmed if the input grows with the layers; it is not the width alone that does it"
            }
            (false, _) => "contradicted",
        },
    );
    for input in Input::ALL {
        let x: Vec<f64> = widths.iter().map(|w| *w as f64).collect();
        let line = |block: usize| {
            let values: Vec<Vec<f64>> = widths.iter().map(|w| over(input, *w, block)).collect();
            let spread: Vec<f64> = values.iter().map(|v| deviation(v)).collect();
            LineSeries::new(BLOCKS[block], x.clone(), values.iter().map(|v| mean(v)).collect())
                .with_error(&spread)
        };
        let title = match input {
            Input::Width => "As many inputs as units",
            Input::Two => "Two inputs",
        };
        let chart = Lines {
            title: title.into(),
            x_label: "width".into(),
            y_label: "mutual information (nats)".into(),
            x_log: true,
            y_log: true,
            series: (0..3).map(line).collect(),
            ..Lines::default()
        };
        let caption =
            "Mean over the networks; bars are standard deviations (none where one reaches below zero).";
        out.chart(lines(&chart), &format!("blocks-{}", input.name()), caption)?;
    }
    let top = matrix.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
    let caption = format!(
        "All pairs of one network of width {EXAMPLE}, first layer before the line, second after it: white is 0, the \
         darkest blue {top:.2} nats. Estimates below zero, which are scatter, are red."
    );
    out.matrix(matrix, 2 * EXAMPLE, &[EXAMPLE], "example", &caption)?;
    out.heading("What the diagonal means");
    out.text(
        "The mutual information of a continuous variable with itself is infinite. What the estimator gives for a \
         variable and its twin with different jitter (1e-10) is about ψ(N) − ψ(k) for the values above zero and the \
         entropy of being zero for the rest: it grows with the logarithm of the number of points N, and so do all \
         factors that are measured by it.",
    );
    let rows: Vec<Vec<String>> = cells
        .iter()
        .zip(done)
        .map(|((_, p), d)| {
            let mut row = vec![p.input.name().into(), p.width.to_string(), p.repetition.to_string()];
            row.extend(d.value.0.map(number));
            row
        })
        .collect();
    out.data(
        "blocks",
        "means over the blocks, every network",
        &["input", "width", "run", "a", "b", "c"],
        &rows,
    )?;
    let about = format!(
        "x ~ N(0, I) passes through random networks with two hidden layers of equal width, ReLU, dropout of rate 0.2 \
         between them. The mutual information of activations (ReLU outputs, before dropout) is estimated by the KSG \
         estimator with 3 neighbours from {} points, zeros told apart by a jitter of 1e-10. Of each block at most {} \
         pairs per network are estimated, drawn at random where there are more. The dimension of x is not in the \
         paper: here it equals the width, and beside it it is 2.",
        settings.points, settings.pairs
    );
    let networks = cells.iter().filter(|(_, p)| p.input == Input::Width && p.width == widths[0]).count();
    let seconds = done.iter().map(|d| d.seconds).sum();
    out.finish(&about, &format!("{networks} random networks per width and input"), seconds)
}
