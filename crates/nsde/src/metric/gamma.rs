//! The regularised incomplete gamma functions `P(a, x)` and `Q(a, x) = 1 − P(a, x)`.

/// A sum or a fraction ends when a term changes it by less than this share.
const CONVERGED: f64 = 1e-16;

/// Terms after which a sum or a fraction ends anyway; at `a = 5e5` about six thousand are needed.
const MAX_TERMS: usize = 1_000_000;

/// Stands for a zero denominator in the continued fraction (Lentz).
const TINY: f64 = 1e-300;

/// Both tails of the gamma law at a point; the smaller one keeps its relative accuracy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tails {
    /// `P(a, x)`.
    pub lower: f64,
    /// `Q(a, x)`.
    pub upper: f64,
    /// `∂P/∂ log x = xᵃ e⁻ˣ / Γ(a)`.
    pub slope: f64,
}

/// `P(a, x) = 1/Γ(a) ∫₀ˣ tᵃ⁻¹ e⁻ᵗ dt` with its complement, for `a > 0` and `x ≥ 0`.
///
/// ```text
/// x < a + 1:   P = s/a · (1 + x/(a+1) + x²/((a+1)(a+2)) + …)                    s = xᵃ e⁻ˣ / Γ(a)
/// otherwise:   Q = s · 1/(x+1−a − 1(1−a)/(x+3−a − 2(2−a)/(x+5−a − …)))
/// ```
///
/// # Accuracy
/// The exponent of `s` cancels `a log a` against itself: about `a · 1e-15` relative, 1e-12 at `a = 500`.
pub(super) fn tails(a: f64, x: f64) -> Tails {
    if x == 0.0 {
        return Tails { lower: 0.0, upper: 1.0, slope: 0.0 };
    }
    if x == f64::INFINITY {
        return Tails { lower: 1.0, upper: 0.0, slope: 0.0 };
    }
    let slope = (a * x.ln() - x - libm::lgamma(a)).exp();
    if x < a + 1.0 {
        let lower = (slope / a * series(a, x)).min(1.0);
        Tails { lower, upper: 1.0 - lower, slope }
    } else {
        let upper = (slope * fraction(a, x)).min(1.0);
        Tails { lower: 1.0 - upper, upper, slope }
    }
}

fn series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 1..MAX_TERMS {
        term *= x / (a + n as f64);
        sum += term;
        if term < CONVERGED * sum {
            break;
        }
    }
    sum
}

fn fraction(a: f64, x: f64) -> f64 {
    let nonzero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / nonzero(b);
    let mut value = d;
    for n in 1..MAX_TERMS {
        let n = n as f64;
        let numerator = -n * (n - a);
        b += 2.0;
        d = 1.0 / nonzero(numerator * d + b);
        c = nonzero(b + numerator / c);
        value *= d * c;
        if (d * c - 1.0).abs() < 2.0 * f64::EPSILON {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::{assert_close, integrate};

    #[test]
    fn both_tails_match_quadrature() {
        for a in [0.5, 1.0, 1.5, 3.0, 7.5, 40.0] {
            let density = |t: f64| ((a - 1.0) * t.ln() - t - libm::lgamma(a)).exp();
            for factor in [0.05, 0.4, 0.9, 1.0, 1.1, 1.5, 3.0] {
                let x = factor * (a + 1.0);
                // Substituting t = u² removes the singularity at zero of a = 1/2.
                let lower = integrate(0.0, x.sqrt(), &[], 0.0, |u| 2.0 * u * density(u * u));
                let upper = integrate(x, x + 400.0, &[x + 1.0, x + 10.0, x + 50.0], 0.0, density);
                let got = tails(a, x);
                assert_close(got.lower, lower, 1e-12);
                assert_close(got.upper, upper, 1e-12);
                assert_close(got.slope, x * density(x), 1e-13);
            }
        }
    }

    #[test]
    fn whole_numbers_have_a_finite_sum() {
        // Q(n, x) = e⁻ˣ Σ_{k<n} xᵏ/k!
        for (n, x) in [(1, 0.3), (4, 2.0), (4, 9.0), (12, 30.0)] {
            let (mut term, mut sum) = (1.0, 0.0);
            for k in 0..n {
                sum += term;
                term *= x / (k + 1) as f64;
            }
            assert_close(tails(n as f64, x).upper, sum * (-x).exp(), 1e-13);
        }
    }

    #[test]
    fn the_ends_are_exact() {
        assert_eq!((tails(2.0, 0.0).lower, tails(2.0, 0.0).upper), (0.0, 1.0));
        let end = tails(2.0, f64::INFINITY);
        assert_eq!((end.lower, end.upper), (1.0, 0.0));
        assert_eq!(tails(0.5, 1e6).upper, 0.0);
    }

    #[test]
    fn the_two_forms_meet() {
        for a in [0.5, 5.0, 500.0] {
            let (below, above) = (tails(a, (a + 1.0) * (1.0 - 1e-15)), tails(a, a + 1.0));
            assert_close(below.lower, above.lower, 3e-12);
            assert_close(below.upper, above.upper, 3e-12);
        }
    }
}
