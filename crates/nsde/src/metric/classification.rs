//! Classification (Sec. 6.1, Eq. 39): accuracy, NLL, and the expected calibration error ECE.

use crate::error::{Error, Result, dimension};
use serde::Serialize;

/// Equal bins of the confidence.
pub const BINS: usize = 10;

/// The probabilities of a row may miss the sum one by this much: what `f32` leaves of a softmax.
const ROW_NOISE: f64 = 1e-4;

/// How predicted class probabilities fared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Classification {
    /// Number of samples.
    pub count: usize,
    /// Share of the samples whose most probable class (the first, if several tie) is the true one.
    pub accuracy: f64,
    /// Mean of `−log p` of the true class; infinite (`null` in JSON) if one has probability zero.
    pub nll: f64,
    /// The expected calibration error, between 0 and 1; see [`evaluate`].
    pub ece: f64,
    /// The bins behind it.
    pub reliability: Vec<ReliabilityBin>,
}

/// The samples whose confidence is in `[low, high)`, the last bin including 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReliabilityBin {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// `|B_j|`.
    pub count: usize,
    /// Share of its samples that are right; `None` if it is empty.
    pub accuracy: Option<f64>,
    /// Mean confidence of its samples; `None` if it is empty.
    pub confidence: Option<f64>,
}

/// Scores `probabilities`, row-major `[N, classes]`, against the true classes.
///
/// ```text
/// ECE = Σ_j |B_j|/N · |acc(B_j) − conf(B_j)|                                          Sec. 6.1, Eq. 39
/// ```
///
/// `B_j` are the samples whose confidence, the probability of the most probable class, is in the j-th of
/// ten bins of equal width.
///
/// Fails if the sizes differ or are zero, a label is not a class, or a row is not a distribution (to 1e-4).
///
/// # Departs from the paper
/// Eq. 39 is the standard definition and so is this function; the ECE that the paper *reports* follows
/// `1 − accuracy` in eight of nine rows, so it was probably computed otherwise. Do not compare the two.
pub fn evaluate(probabilities: &[f64], classes: usize, labels: &[usize]) -> Result<Classification> {
    let n = labels.len();
    for (what, value) in [("number of samples", n), ("number of classes", classes)] {
        if value == 0 {
            return Err(Error::Range { what: what.into(), value: 0.0, must: "positive" });
        }
    }
    dimension("class probabilities", n.saturating_mul(classes), probabilities.len())?;
    let (mut nll, mut right) = (0.0, 0);
    let mut bins = [(0, 0, 0.0); BINS];
    for (i, (row, &label)) in probabilities.chunks(classes).zip(labels).enumerate() {
        check(row, label, i)?;
        let best = (0..classes).fold(0, |best, c| if row[c] > row[best] { c } else { best });
        let is_right = best == label;
        right += usize::from(is_right);
        nll -= row[label].min(1.0).ln();
        let (count, correct, confidence) = &mut bins[((row[best] * BINS as f64) as usize).min(BINS - 1)];
        *count += 1;
        *correct += usize::from(is_right);
        *confidence += row[best];
    }
    // |B_j|/N · |acc − conf| = |correct − Σ confidence| / N
    let ece = bins.iter().map(|(_, correct, confidence)| (*correct as f64 - confidence).abs()).sum::<f64>();
    let reliability = bins.iter().enumerate().map(|(j, &(count, correct, confidence))| {
        let share = |x: f64| (count > 0).then(|| x / count as f64);
        ReliabilityBin {
            low: j as f64 / BINS as f64,
            high: (j + 1) as f64 / BINS as f64,
            count,
            accuracy: share(correct as f64),
            confidence: share(confidence),
        }
    });
    Ok(Classification {
        count: n,
        accuracy: right as f64 / n as f64,
        nll: nll / n as f64,
        ece: ece / n as f64,
        reliability: reliability.collect(),
    })
}

fn check(row: &[f64], label: usize, i: usize) -> Result<()> {
    let refuse = |what: String, value: f64, must: &'static str| Err(Error::Range { what, value, must });
    if label >= row.len() {
        return refuse(format!("label of sample {i}"), label as f64, "below the number of classes");
    }
    if let Some(&value) = row.iter().find(|p| !(0.0..=1.0 + ROW_NOISE).contains(*p)) {
        return refuse(format!("a probability of sample {i}"), value, "between 0 and 1");
    }
    let sum: f64 = row.iter().sum();
    if (sum - 1.0).abs() > ROW_NOISE {
        return refuse(format!("sum of the probabilities of sample {i}"), sum, "one");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::sampling::uniform;
    use nsde_check::{assert_close, assert_close_abs, seeded};

    #[test]
    fn five_samples_are_scored_by_hand() {
        let probabilities = [
            0.55, 0.45, // right
            0.52, 0.48, // wrong
            0.05, 0.95, // right
            0.5, 0.5, // the first of a tie: wrong
            1.0, 0.0, // right
        ];
        let got = evaluate(&probabilities, 2, &[0, 1, 1, 1, 0]).unwrap();
        assert_eq!(got.count, 5);
        assert_close(got.accuracy, 0.6, 1e-15);
        let product: f64 = 0.55 * 0.48 * 0.95 * 0.5;
        assert_close(got.nll, -product.ln() / 5.0, 1e-14);
        // [0.5, 0.6): one of three right at mean confidence 1.57/3; [0.9, 1]: two of two at 0.975.
        let bin = got.reliability[5];
        assert_eq!((bin.count, bin.accuracy), (3, Some(1.0 / 3.0)));
        assert_close(bin.confidence.unwrap(), 1.57 / 3.0, 1e-15);
        assert_eq!((got.reliability[9].count, got.reliability[9].accuracy), (2, Some(1.0)));
        assert_eq!((got.reliability[0].count, got.reliability[0].accuracy), (0, None));
        let ece = 0.6 * (1.0 / 3.0 - 1.57 / 3.0f64).abs() + 0.4 * (1.0 - 0.975);
        assert_close(got.ece, ece, 1e-14);
    }

    #[test]
    fn confidences_on_an_edge_belong_to_the_upper_bin() {
        for j in 5..10 {
            let p = j as f64 / 10.0;
            let got = evaluate(&[p, 1.0 - p], 2, &[0]).unwrap();
            assert_eq!(got.reliability[j].count, 1, "{p}");
        }
    }

    #[test]
    fn honest_probabilities_have_no_calibration_error_and_boasting_ones_a_known_one() {
        let (n, mut rng) = (40_000, seeded(6));
        let (mut honest, mut boasting, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..n {
            let p = uniform(0.5, 0.8, &mut rng);
            labels.push(usize::from(uniform(0.0, 1.0, &mut rng) >= p));
            honest.extend([p, 1.0 - p]);
            boasting.extend([p + 0.2, 0.8 - p]);
        }
        assert!(evaluate(&honest, 2, &labels).unwrap().ece < 0.02);
        assert_close_abs(evaluate(&boasting, 2, &labels).unwrap().ece, 0.2, 5.0 * 0.5 / (n as f64).sqrt());
    }

    #[test]
    fn a_class_held_impossible_costs_everything() {
        let got = evaluate(&[1.0, 0.0], 2, &[1]).unwrap();
        assert_eq!((got.nll, got.ece, got.accuracy), (f64::INFINITY, 1.0, 0.0));
        assert!(serde_json::to_value(&got).unwrap()["nll"].is_null());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(evaluate(&[], 2, &[]).is_err());
        assert!(evaluate(&[], 0, &[0]).is_err());
        assert!(evaluate(&[1.0], 2, &[0]).is_err());
        assert!(evaluate(&[0.5, 0.5], 2, &[2]).is_err());
        assert!(evaluate(&[0.5, 0.4], 2, &[0]).is_err());
        assert!(evaluate(&[1.5, -0.5], 2, &[0]).is_err());
        assert!(evaluate(&[f64::NAN, 0.5], 2, &[0]).is_err());
    }
}
