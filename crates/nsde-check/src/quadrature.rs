//! Adaptive Gauss–Kronrod quadrature on an interval, split where the caller knows of a kink.

pub use crate::normal::normal_expectation;
pub use crate::pair::{covariance_2d, normal_expectation_2d};

/// Positive nodes of the 21-point Kronrod rule on [−1, 1]; the odd positions are those of the 10-point Gauss rule.
const NODES: [f64; 10] = [
    0.995_657_163_025_808_1,
    0.973_906_528_517_171_7,
    0.930_157_491_355_708_2,
    0.865_063_366_688_984_5,
    0.780_817_726_586_416_9,
    0.679_409_568_299_024_4,
    0.562_757_134_668_604_7,
    0.433_395_394_129_247_2,
    0.294_392_862_701_460_2,
    0.148_874_338_981_631_22,
];
/// Kronrod weights of [`NODES`].
const KRONROD: [f64; 10] = [
    0.011_694_638_867_371_874,
    0.032_558_162_307_964_725,
    0.054_755_896_574_351_995,
    0.075_039_674_810_919_96,
    0.093_125_454_583_697_6,
    0.109_387_158_802_297_64,
    0.123_491_976_262_065_84,
    0.134_709_217_311_473_34,
    0.142_775_938_577_060_09,
    0.147_739_104_901_338_49,
];
/// Kronrod weight of the node 0.
const KRONROD_CENTRE: f64 = 0.149_445_554_002_916_9;
/// Gauss weights of the odd positions of [`NODES`].
const GAUSS: [f64; 5] = [
    0.066_671_344_308_688_14,
    0.149_451_349_150_580_6,
    0.219_086_362_515_982_04,
    0.269_266_719_309_996_35,
    0.295_524_224_714_752_87,
];

/// Estimated error that ends the refinement, relative to the integral of the absolute value.
const RELATIVE: f64 = 1e-14;
/// Most panels per integral: ends the refinement of an integrand that is only noise.
const MAX_PANELS: usize = 300;
/// Estimated relative error beyond which an integral is refused with a panic.
const REFUSED: f64 = 1e-9;

/// Value and scale of an integrand at one point; rounding and tolerances are relative to the scale.
pub(crate) type Scaled = (f64, f64);

/// One interval and what the two rules say about it.
struct Panel {
    from: f64,
    to: f64,
    value: f64,
    size: f64,
    error: f64,
}

/// Both rules on one interval; the error is scaled as in QUADPACK.
fn panel(from: f64, to: f64, f: &mut impl FnMut(f64) -> Scaled) -> Panel {
    let (centre, half) = (0.5 * (from + to), 0.5 * (to - from));
    let middle = f(centre);
    let (mut kronrod, mut gauss) = (KRONROD_CENTRE * middle.0, 0.0);
    let mut size = KRONROD_CENTRE * middle.1;
    let mut seen = [(KRONROD_CENTRE, middle.0); 21];
    for i in 0..10 {
        let (a, b) = (f(centre - half * NODES[i]), f(centre + half * NODES[i]));
        kronrod += KRONROD[i] * (a.0 + b.0);
        size += KRONROD[i] * (a.1 + b.1);
        if i % 2 == 1 {
            gauss += GAUSS[i / 2] * (a.0 + b.0);
        }
        seen[2 * i] = (KRONROD[i], a.0);
        seen[2 * i + 1] = (KRONROD[i], b.0);
    }
    let spread: f64 = seen.iter().map(|(w, v)| w * (v - 0.5 * kronrod).abs()).sum();
    let apart = (kronrod - gauss).abs();
    let error = if apart == 0.0 || spread == 0.0 {
        apart
    } else {
        spread * (200.0 * apart / spread).powf(1.5).min(1.0)
    };
    Panel { from, to, value: half * kronrod, size: half * size, error: half * error }
}

/// Integral of value and of scale between the first and the last of `points`, split at all of them.
#[track_caller]
pub(crate) fn adaptive(mut points: Vec<f64>, abs_tol: f64, mut f: impl FnMut(f64) -> Scaled) -> Scaled {
    points.sort_by(f64::total_cmp);
    points.dedup();
    let mut panels: Vec<Panel> = points.windows(2).map(|p| panel(p[0], p[1], &mut f)).collect();
    loop {
        let (mut value, mut size, mut error, mut worst) = (0.0, 0.0, 0.0, 0);
        for (i, p) in panels.iter().enumerate() {
            value += p.value;
            size += p.size;
            error += p.error;
            if p.error > panels[worst].error {
                worst = i;
            }
        }
        assert!(f64::is_finite(value + size), "quadrature met a value that is not finite");
        if error <= abs_tol.max(RELATIVE * size) {
            return (value, size);
        }
        if panels.len() >= MAX_PANELS {
            assert!(error <= abs_tol.max(REFUSED * size), "quadrature stopped at {value:e} ± {error:e}");
            return (value, size);
        }
        let Panel { from, to, .. } = panels.swap_remove(worst);
        let middle = 0.5 * (from + to);
        panels.extend([panel(from, middle, &mut f), panel(middle, to, &mut f)]);
    }
}

/// `∫ f` from `from` to `to`, split at those `breaks` that lie between.
///
/// Ends when the estimated error is below `abs_tol` or below 1e-14 of `∫ |f|`, so `abs_tol = 0.0` asks for all
/// there is to have.
///
/// # Panics
/// When `f` is not finite, or when 300 panels leave a relative error of more than 1e-9.
#[track_caller]
pub fn integrate(from: f64, to: f64, breaks: &[f64], abs_tol: f64, f: impl Fn(f64) -> f64) -> f64 {
    let (low, high) = (from.min(to), from.max(to));
    let mut points = vec![low, high];
    points.extend(breaks.iter().filter(|&&b| low < b && b < high));
    let (value, _) = adaptive(points, abs_tol, |x| with_size(f(x)));
    if from <= to { value } else { -value }
}

/// A value, and its absolute value as its scale.
pub(crate) fn with_size(value: f64) -> Scaled {
    (value, value.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differences::{assert_close, assert_close_abs};

    #[test]
    fn both_rules_are_exact_for_their_degree() {
        let rule = |power| panel(-1.0, 1.0, &mut |x: f64| with_size(x.powi(power)));
        assert_close(rule(18).value, 2.0 / 19.0, 1e-15);
        assert!(rule(18).error < 1e-20);
        assert_close(rule(30).value, 2.0 / 31.0, 1e-15);
        assert_close_abs(rule(31).value, 0.0, 1e-16);
    }

    #[test]
    fn smooth_kinked_and_peaked_integrals_are_met() {
        let half_circle = integrate(-1.0, 1.0, &[], 0.0, |x| (1.0 - x * x).sqrt());
        assert_close(half_circle, std::f64::consts::FRAC_PI_2, 1e-13);
        assert_close(integrate(-1.0, 2.0, &[0.3], 0.0, |x| (x - 0.3).abs()), 2.29, 1e-15);
        assert_close(integrate(-1.0, 2.0, &[], 0.0, |x| (x - 0.3).abs()), 2.29, 1e-13);
        let peak = integrate(-1.0, 1.0, &[], 0.0, |x| 1e-4 / (x * x + 1e-8));
        assert_close(peak, 2.0 * 1e4f64.atan(), 1e-13);
    }

    #[test]
    fn the_direction_gives_the_sign() {
        assert_close(integrate(1.0, 0.0, &[0.5, 7.0], 0.0, f64::exp), 1.0 - 1f64.exp(), 1e-14);
        assert_eq!(integrate(1.0, 1.0, &[], 0.0, f64::exp), 0.0);
    }

    #[test]
    #[should_panic(expected = "not finite")]
    fn a_value_that_is_not_finite_is_refused() {
        integrate(-1.0, 1.0, &[], 0.0, |x| 1.0 / x);
    }
}
