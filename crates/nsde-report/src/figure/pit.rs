//! The PIT histogram: where in the forecast distribution the truth fell, flat if the forecast is calibrated.

use super::{WIDE, or, percent};
use crate::axis::Axis;
use crate::chart::Chart;
use crate::layer::{DASHED, DOTTED, Layer, Shape};
use crate::plot::Plot;
use crate::theme::{BANDS, Ink};

/// Probability of the sampling band of one bar.
const LEVEL: f64 = 0.95;

/// Counts of probability integral transforms `F(y)` in bins of equal width over `[0, 1]`.
#[derive(Clone, Debug, Default)]
pub struct PitHistogram {
    /// Title; "PIT histogram" if empty.
    pub title: String,
    /// How many values fell into each bin.
    pub counts: Vec<f64>,
    /// How many of the values count as independent, for the sampling band; none: all of them. Values at
    /// neighbouring steps of one trajectory move together, and a band that ignores it is too narrow.
    pub independent: Option<f64>,
}

impl PitHistogram {
    /// Counts `values` in `bins` bins; what lies outside `[0, 1]` or is NaN is left out.
    pub fn from_values(values: &[f64], bins: usize) -> Self {
        let mut counts = vec![0.0; bins];
        for v in values.iter().filter(|v| (0.0..=1.0).contains(*v)) {
            if let Some(count) = counts.get_mut(((v * bins as f64) as usize).min(bins.saturating_sub(1))) {
                *count += 1.0;
            }
        }
        PitHistogram { counts, ..PitHistogram::default() }
    }
}

/// Bars of density, with the uniform level and the band that holds 95 % of the bars of a calibrated forecast.
///
/// Highest in the middle: too careful; highest at both ends: too sure; leaning to one side: biased.
pub fn pit_histogram(data: &PitHistogram) -> Chart {
    let usable = |c: f64| if c.is_finite() { c.max(0.0) } else { 0.0 };
    let total: f64 = data.counts.iter().map(|&c| usable(c)).sum();
    let bins = data.counts.len() as f64;
    let mut layers = Vec::new();
    if total > 0.0 {
        let effective = data.independent.filter(|n| n.is_finite() && *n >= 1.0).unwrap_or(total);
        let [lower, upper] = sampling_band(effective, bins);
        let label = format!("{} of bars, if uniform", percent(LEVEL));
        let band = Shape::Band(vec![[0.0, lower, upper], [1.0, lower, upper]]);
        layers.push(Layer::new(band, Ink::Grid).label(&label));
        let bar = |(i, &c): (usize, &f64)| {
            let (left, right) = (i as f64 / bins, (i as f64 + 1.0) / bins);
            [left, right, usable(c) * bins / total]
        };
        let bars = data.counts.iter().enumerate().map(bar).collect();
        layers.push(Layer::new(Shape::Bars(bars), Ink::Band(BANDS - 1)).label("forecast").rank(-1));
        for edge in [lower, upper] {
            let line = Layer::new(Shape::Line(vec![[0.0, edge], [1.0, edge]]), Ink::Text);
            layers.push(line.width(1.25).dash(DOTTED).label(&label));
        }
        let level = Layer::new(Shape::Line(vec![[0.0, 1.0], [1.0, 1.0]]), Ink::Text);
        layers.push(level.width(1.75).dash(DASHED).label("uniform").rank(-1));
    }
    Plot {
        name: "pit-histogram",
        title: or(&data.title, "PIT histogram"),
        x: Axis { range: Some([0.0, 1.0]), ..Axis::new("probability integral transform") },
        y: Axis { include: vec![0.0], ..Axis::new("density") },
        layers,
        height: WIDE,
        ..Plot::default()
    }
    .draw()
}

/// Ends of the central interval for the density of one bin: quantiles of a binomial of `n` trials at `1/bins`.
fn sampling_band(n: f64, bins: f64) -> [f64; 2] {
    let n = n.round();
    let p = 1.0 / bins;
    if p >= 1.0 {
        return [1.0, 1.0];
    }
    let tail = 0.5 * (1.0 - LEVEL);
    let to_density = bins / n;
    // Beyond this the exact sum is long, and the normal quantile is right to the width of a line.
    if n > 1e6 {
        let spread = 1.959_964 * (n * p * (1.0 - p)).sqrt();
        return [(n * p - spread) * to_density, (n * p + spread) * to_density];
    }
    let (mut log_mass, mut total, mut lower) = (n * (1.0 - p).ln(), 0.0, None);
    for k in 0..=n as u64 {
        let k = k as f64;
        total += log_mass.exp();
        if lower.is_none() && total >= tail {
            lower = Some(k);
        }
        if total >= 1.0 - tail {
            return [lower.unwrap_or(k) * to_density, k * to_density];
        }
        log_mass += ((n - k) / (k + 1.0) * p / (1.0 - p)).ln();
    }
    [lower.unwrap_or(0.0) * to_density, bins]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sampling_band_holds_the_binomial_quantiles() {
        // Binomial(100, 1/10): P(X ≤ 4) = 0.0237, P(X ≤ 5) = 0.0576; P(X ≤ 15) = 0.9601, P(X ≤ 16) = 0.9794.
        assert_eq!(sampling_band(100.0, 10.0), [0.5, 1.6]);
        let [lower, upper] = sampling_band(1e6, 10.0);
        let normal = 1.96 * (9.0 / 1e6_f64).sqrt();
        assert!(
            (lower - (1.0 - normal)).abs() < 1e-4 && (upper - (1.0 + normal)).abs() < 1e-4,
            "{lower} {upper}"
        );
    }

    #[test]
    fn values_are_counted_in_their_bins() {
        let counted = PitHistogram::from_values(&[0.0, 0.24, 0.25, 1.0, f64::NAN, 1.5, -0.1], 4);
        assert_eq!(counted.counts, [2.0, 1.0, 0.0, 1.0]);
        assert!(PitHistogram::from_values(&[0.5], 0).counts.is_empty());
    }
}
