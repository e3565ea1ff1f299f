//! The methods of Table 4 side by side: the table, its claims, and Fig. 7.

use crate::method::Method;
use crate::outcome::{Outcome, number};
use crate::particles::Scored;
use crate::protocol::{Line, Protocol};
use crate::statistics::{deviation, mean, printed, standard_error};
use anyhow::Result;
use nsde_report::{BarSeries, Bars, LineSeries, Lines, bars, lines};

/// One method in one run.
pub struct Trial<'a> {
    /// The method.
    pub method: Method,
    /// The seed of the run.
    pub seed: u64,
    /// The scores of all its ways to predict.
    pub lines: &'a [Line],
}

/// All methods in all runs.
pub struct Comparison<'a> {
    /// Name of the data.
    pub title: &'static str,
    /// What the names of its files end in, where a page has several comparisons.
    pub suffix: &'static str,
    /// What all methods share.
    pub protocol: &'a Protocol,
    /// What was found.
    pub trials: Vec<Trial<'a>>,
    /// MSE and NLL as the paper prints them.
    pub published: fn(Method) -> [&'static str; 2],
}

/// What the runs that did not diverge say about one way to train and predict.
pub struct Found {
    /// Runs, those that diverged too.
    pub runs: usize,
    /// Squared error per coordinate.
    pub mse: Vec<f64>,
    /// Negative log-likelihood.
    pub nll: Vec<f64>,
    /// Error of the coverage.
    pub ecpe: Vec<f64>,
}

/// The mean, infinite where there is nothing.
fn average(x: &[f64]) -> f64 {
    if x.is_empty() { f64::INFINITY } else { mean(x) }
}

impl Found {
    /// One of its scores: mean and standard error, or a dash, and how many runs diverged.
    fn cell(&self, x: &[f64], expected: bool) -> String {
        match x.len() {
            0 if expected => "diverged".into(),
            0 => "–".into(),
            n if n < self.runs => format!("{} ({} of {} diverged)", printed(x), self.runs - n, self.runs),
            _ => printed(x),
        }
    }

    /// Its squared error.
    pub fn mse(&self) -> String {
        self.cell(&self.mse, true)
    }

    /// Its negative log-likelihood, if it is `expected` to have one.
    pub fn nll(&self, expected: bool) -> String {
        self.cell(&self.nll, expected)
    }

    /// Its error of the coverage, if it is `expected` to have one.
    pub fn ecpe(&self, expected: bool) -> String {
        self.cell(&self.ecpe, expected)
    }
}

fn verdict(yes: bool) -> &'static str {
    if yes { "confirmed" } else { "contradicted" }
}

impl Comparison<'_> {
    /// The scores of one way to train and predict.
    pub fn of(&self, method: Method, prediction: &str, particles: Option<usize>) -> Found {
        let lines = self.trials.iter().filter(|t| t.method == method).flat_map(|t| t.lines);
        let scored: Vec<&Scored> = lines
            .filter(|l| l.prediction == prediction && l.particles == particles)
            .map(|l| &l.scored)
            .collect();
        Found {
            runs: self.trials.iter().filter(|t| t.method == method).count(),
            mse: scored.iter().map(|s| s.mse).collect(),
            nll: scored.iter().filter_map(|s| s.nll).collect(),
            ecpe: scored.iter().filter_map(|s| s.ecpe).collect(),
        }
    }

    /// The scores of a method as in the paper's table, with `particles` if it samples.
    fn own(&self, method: Method, particles: Option<usize>) -> Found {
        let first = method.predictions()[0];
        self.of(method, first, particles.filter(|_| first == "particles"))
    }

    /// The methods that were run, in the order of the table.
    fn methods(&self) -> impl Iterator<Item = Method> {
        Method::ALL.into_iter().filter(|m| self.trials.iter().any(|t| t.method == *m))
    }

    fn few(&self) -> Option<usize> {
        Some(self.protocol.train_particles)
    }

    fn most(&self) -> Option<usize> {
        self.protocol.test_particles.last().copied()
    }

    /// The methods of the paper from the lowest score to the highest; a method that diverged comes last,
    /// however well its other runs went.
    fn ranking(&self, particles: Option<usize>, pick: fn(&Found) -> &Vec<f64>) -> Vec<(f64, Method, String)> {
        let mut list = Vec::new();
        for method in self.methods().filter(|m| *m != Method::BmmPlus) {
            let found = self.own(method, particles);
            let x = pick(&found);
            let lost = found.runs - found.mse.len();
            if !x.is_empty() {
                let score = if lost > 0 { f64::INFINITY } else { mean(x) };
                list.push((score, method, format!("{} {}", method.name(), found.cell(x, true))));
            }
        }
        list.sort_by(|a, b| a.0.total_cmp(&b.0));
        list
    }

    /// The claims of Sec. 6.4 that are not about single numbers.
    pub fn claims(&self, out: &mut Outcome<'_>) {
        let of = if self.suffix.is_empty() { String::new() } else { format!("{}: ", self.title) };
        let words = |list: &[(f64, Method, String)]| {
            list.iter().map(|(_, _, words)| words.as_str()).collect::<Vec<_>>().join(", ")
        };
        let best = |list: &[(f64, Method, String)]| list.first().is_some_and(|l| l.1 == Method::Bmm);
        let tests = [("few test particles", self.few()), ("many test particles", self.most())];
        for (label, particles) in tests {
            let list = self.ranking(particles, |f| &f.nll);
            let claim = format!("{of}BMM has the lowest NLL of all methods ({label})");
            out.claim(&claim, &words(&list), verdict(best(&list)));
        }
        let list = self.ranking(self.few(), |f| &f.mse);
        let claim = format!("{of}BMM has the lowest MSE of all methods");
        out.claim(&claim, &words(&list), verdict(best(&list)));

        let others = self.ranking(self.most(), |f| &f.nll);
        let lowest = others.first().map_or(f64::INFINITY, |l| l.0);
        let own = self.of(Method::BmmPlus, "bmm", None);
        out.claim(
            &format!("{of}Beyond the paper: our training (BMM+), forecasts by BMM, one Gaussian per row"),
            &format!("MSE {}, NLL {}", own.mse(), own.nll(true)),
            if average(&own.nll) < lowest {
                "NLL below every method of the table, with many test particles too"
            } else {
                "NLL not below every method of the table"
            },
        );
        let mixed = self.of(Method::Bmm, "mixture", None);
        let plus = self.of(Method::BmmPlus, "mixture", None);
        let gain = average(&mixed.nll).min(average(&plus.nll)) < lowest;
        out.claim(
            &format!("{of}Beyond the paper: forecasts by a mixture whose Gaussians split"),
            &format!("NLL {} of the model trained by BMM, {} of BMM+", mixed.nll(true), plus.nll(true)),
            if gain { "below every method of the table" } else { "not below every method of the table" },
        );

        let claims = [
            ("Monte Carlo needs more than 50 particles to match BMM's ECPE", Method::Bmm, "bmm"),
            ("Beyond the paper: the same of BMM+, whose Gaussians split", Method::BmmPlus, "mixture"),
        ];
        for (claim, method, prediction) in claims {
            let found = self.of(method, prediction, None);
            let (own, mc) =
                (self.matched(method, &found.ecpe), self.matched(Method::MonteCarlo, &found.ecpe));
            out.claim(
                &format!("{of}{claim}"),
                &format!(
                    "particles of the same model: {}; of one trained by MC: {} (ECPE {})",
                    own.1,
                    mc.1,
                    found.ecpe(true)
                ),
                match (own.0, mc.0) {
                    (true, true) => "confirmed",
                    (false, true) => "confirmed for the model trained by MC, contradicted for its own",
                    (true, false) => "confirmed for its own model, contradicted for the one trained by MC",
                    (false, false) => "contradicted",
                },
            );
        }
    }

    /// How many particles of a model are calibrated as well as this, and whether that is more than 50.
    fn matched(&self, method: Method, ecpe: &[f64]) -> (bool, String) {
        let mut numbers = self.protocol.test_particles.iter();
        let found = numbers.find(|s| average(&self.of(method, "particles", Some(**s)).ecpe) <= average(ecpe));
        (found.is_none_or(|s| *s > 50), found.map_or("more than were tried".into(), |s| s.to_string()))
    }

    /// Table 4; `floor` is what the data allow.
    pub fn table(&self, out: &mut Outcome<'_>, floor: Option<[String; 3]>) {
        let mut rows = Vec::new();
        if let Some([mse, nll, ecpe]) = floor {
            let name = "floor: the best Gaussian per row".to_owned();
            rows.push(vec![name, String::new(), mse, nll, ecpe, String::new(), String::new(), String::new()]);
        }
        for method in self.methods() {
            for (place, prediction) in method.predictions().iter().enumerate() {
                let numbers = match (*prediction, place) {
                    ("particles", 0) => vec![self.few(), self.most()],
                    ("particles", _) => vec![self.most()],
                    _ => vec![None],
                };
                for (second, particles) in numbers.into_iter().enumerate() {
                    let found = self.of(method, prediction, particles);
                    let likely = *prediction != "mean";
                    let paper = if place + second == 0 { (self.published)(method) } else { ["", ""] };
                    rows.push(vec![
                        method.name().into(),
                        particles.map_or((*prediction).to_owned(), |s| format!("{s} particles")),
                        found.mse(),
                        found.nll(likely),
                        found.ecpe(likely),
                        paper[0].into(),
                        paper[1].into(),
                        found.runs.to_string(),
                    ]);
                }
            }
        }
        let header =
            ["trained as", "predicted by", "MSE", "NLL", "ECPE", "paper's MSE", "paper's NLL", "runs"];
        out.table(&header, &rows);
    }

    /// Writes the scores of every run.
    pub fn data(&self, out: &mut Outcome<'_>) -> Result<()> {
        let some = |x: Option<f64>| x.map_or(String::new(), number);
        let mut rows = Vec::new();
        for trial in &self.trials {
            for Line { prediction, particles, scored } in trial.lines {
                rows.push(vec![
                    trial.method.slug().into(),
                    prediction.clone(),
                    particles.map_or(String::new(), |p| p.to_string()),
                    trial.seed.to_string(),
                    number(scored.mse),
                    some(scored.nll),
                    some(scored.ecpe),
                    some(scored.crps),
                ]);
            }
        }
        let header = ["trained", "predicted", "particles", "seed", "mse", "nll", "ecpe", "crps"];
        out.data(&format!("scores{}", self.suffix), "every run of every method", &header, &rows)
    }

    /// Fig. 7, and the NLL of Table 4 as bars.
    pub fn charts(&self, out: &mut Outcome<'_>) -> Result<()> {
        let numbers = self.protocol.test_particles.iter().copied();
        let numbers: Vec<usize> = numbers.filter(|s| s.is_power_of_two()).collect();
        let curve = |name: &str, method: Method| {
            let all: Vec<Vec<f64>> =
                numbers.iter().map(|s| self.of(method, "particles", Some(*s)).ecpe).collect();
            let spread: Vec<f64> = all.iter().map(|e| deviation(e)).collect();
            let x = numbers.iter().map(|s| *s as f64).collect();
            LineSeries::new(name, x, all.iter().map(|e| average(e)).collect()).with_error(&spread)
        };
        let level = |name: &str, method: Method, prediction: &str| {
            (name.to_owned(), average(&self.of(method, prediction, None).ecpe))
        };
        let levels = [
            level("BMM", Method::Bmm, "bmm"),
            level("Cubature", Method::Cubature, "cubature"),
            level("BMM, mixture", Method::Bmm, "mixture"),
        ];
        let chart = Lines {
            title: format!("{}: calibration", self.title),
            x_label: "particles".into(),
            y_label: "ECPE".into(),
            x_log: true,
            series: vec![
                curve("trained by BMM, predicted by MC", Method::Bmm),
                curve("trained and predicted by MC", Method::MonteCarlo),
            ],
            levels: levels.into_iter().filter(|(_, level)| level.is_finite()).collect(),
            ..Lines::default()
        };
        let caption = "Fig. 7: ECPE, mean and standard deviation over the runs. As few particles as there are \
                       dimensions have a singular covariance, which covers nothing: 0.45.";
        out.chart(lines(&chart), &format!("calibration{}", self.suffix), caption)?;

        let own = self.methods().map(|m| (m, self.own(m, self.few()).nll));
        let own: Vec<(Method, Vec<f64>)> = own.filter(|(_, nll)| !nll.is_empty()).collect();
        let short = |m: Method| m.name().split(" (").next().unwrap_or_default().to_owned();
        let errors: Vec<f64> = own.iter().map(|(_, nll)| standard_error(nll)).collect();
        let values = own.iter().map(|(_, nll)| mean(nll)).collect();
        let chart = Bars {
            title: format!("{}: NLL of the methods with a density", self.title),
            y_label: "NLL".into(),
            categories: own.iter().map(|(m, _)| short(*m)).collect(),
            series: vec![BarSeries::new("mean and standard error", values).with_error(&errors)],
            ..Bars::default()
        };
        let caption =
            "Table 4, NLL; sampling methods are tested with as many particles as they are trained with.";
        out.chart(bars(&chart), &format!("nll{}", self.suffix), caption)
    }
}
