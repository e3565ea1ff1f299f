//! Finite differences, and assertions that say by how much they failed.

/// `f'(0)` by central differences at `eps` and `eps/2`, extrapolated to fourth order (Richardson).
///
/// ```
/// let slope = nsde_check::directional(|t| (1.0 + t).powi(3), 1e-3);
/// nsde_check::assert_close(slope, 3.0, 1e-11);
/// ```
pub fn directional(mut f: impl FnMut(f64) -> f64, eps: f64) -> f64 {
    let mut central = |e: f64| (f(e) - f(-e)) / (2.0 * e);
    let (wide, narrow) = (central(eps), central(0.5 * eps));
    (4.0 * narrow - wide) / 3.0
}

/// `|a − b|` over the larger of `|a|` and `|b|`; 0 if both are equal.
pub fn relative_error(a: f64, b: f64) -> f64 {
    if a == b { 0.0 } else { (a - b).abs() / a.abs().max(b.abs()) }
}

/// Asserts that `a` and `b` agree to the relative tolerance `rel`. NaN never agrees.
#[track_caller]
pub fn assert_close(a: f64, b: f64, rel: f64) {
    let error = relative_error(a, b);
    assert!(error <= rel, "{a:e} and {b:e} differ by {error:.2e} relative, allowed {rel:.2e}");
}

/// Asserts that `a` and `b` agree to the absolute tolerance `abs`. NaN never agrees.
#[track_caller]
pub fn assert_close_abs(a: f64, b: f64, abs: f64) {
    let error = if a == b { 0.0 } else { (a - b).abs() };
    assert!(error <= abs, "{a:e} and {b:e} differ by {error:.2e}, allowed {abs:.2e}");
}

/// Asserts `|a[i] − b[i]| ≤ abs + rel · max(|a[i]|, |b[i]|)` for every `i`, and equal lengths.
///
/// The message names the entry that exceeds its tolerance most, and how many do.
#[track_caller]
pub fn assert_slices_close(a: &[f64], b: &[f64], abs: f64, rel: f64) {
    assert_eq!(a.len(), b.len(), "slices of different lengths");
    let mut failed = 0;
    let mut worst = (0, 0.0);
    for (i, (&x, &y)) in a.iter().zip(b).enumerate() {
        if x == y {
            continue;
        }
        let (error, allowed) = ((x - y).abs(), abs + rel * x.abs().max(y.abs()));
        if error.is_nan() || error > allowed {
            failed += 1;
            let excess = if error.is_nan() { f64::INFINITY } else { error / allowed };
            if failed == 1 || excess > worst.1 {
                worst = (i, excess);
            }
        }
    }
    let (i, excess) = worst;
    assert!(
        failed == 0,
        "{failed} of {} entries differ; worst [{i}]: {:e} and {:e} by {:.2e}, {excess:.3} times the tolerance",
        a.len(),
        a[i],
        b[i],
        (a[i] - b[i]).abs(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn richardson_is_of_fourth_order() {
        let error = |eps| (directional(|t| (1.0 + t).exp(), eps) - 1f64.exp()).abs();
        assert!((error(0.4) / error(0.2)).log2() > 3.9);
    }

    #[test]
    fn equal_values_have_no_error() {
        assert_eq!(relative_error(0.0, 0.0), 0.0);
        assert_eq!(relative_error(f64::INFINITY, f64::INFINITY), 0.0);
        assert_eq!(relative_error(1.0, 0.0), 1.0);
    }

    #[test]
    fn empty_slices_are_close() {
        assert_slices_close(&[], &[], 0.0, 0.0);
    }

    #[test]
    #[should_panic(expected = "allowed")]
    fn a_nan_is_not_close() {
        assert_close(f64::NAN, f64::NAN, 1.0);
    }

    #[test]
    #[should_panic(expected = "2 of 3 entries differ; worst [2]")]
    fn the_worst_entry_is_named() {
        assert_slices_close(&[1.0, 2.0, 3.0], &[1.0, 2.1, 4.0], 1e-3, 0.0);
    }

    #[test]
    #[should_panic(expected = "worst [1]")]
    fn a_nan_is_the_worst_entry() {
        assert_slices_close(&[1.0, f64::NAN, 3.0], &[5.0, 2.0, 3.0], 1e-3, 1e-3);
    }
}
