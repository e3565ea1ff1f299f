//! The χ² law: how far from the mean a Gaussian in `dof` dimensions reaches (Sec. 6.1, Eq. 38).

use super::gamma::tails;
use super::normal::normal_quantile;

/// Newton ends with a step this small in the logarithm of the quantile: what is left is about its square.
const LAST_STEP: f64 = 1e-9;

/// Steps after which the search ends anyway; it takes about five.
const MAX_STEPS: usize = 200;

/// Below this base the cube of Wilson and Hilferty is no good start, and the power law at zero is.
const SMALL_BASE: f64 = 0.3;

/// `F(x) = P(dof/2, x/2)`, the probability that the squared Mahalanobis distance of a draw from its own
/// `dof`-dimensional Gaussian is at most `x`. Zero for `x ≤ 0`.
///
/// # Panics
/// If `dof` is zero or `x` is NaN.
#[track_caller]
pub fn chi_squared_cdf(x: f64, dof: usize) -> f64 {
    assert!(dof > 0, "a χ² law needs a degree of freedom");
    assert!(!x.is_nan(), "χ² distribution of NaN");
    tails(0.5 * dof as f64, 0.5 * x.max(0.0)).lower
}

/// `χ²_dof(p) = F⁻¹(p)` of [`chi_squared_cdf`]: the squared radius of the ellipsoid with probability `p`.
///
/// ```text
/// (x − μ)ᵀ Σ⁻¹ (x − μ) ≤ χ²_D(p)                                                     Sec. 6.1, Eq. 38
/// ```
///
/// Zero at `p = 0`, infinite at `p = 1`.
///
/// # Accuracy
/// Newton on the logarithm of the smaller tail, kept in a bracket. Within 1e-13 relative of 50-digit
/// values for `dof` from 1 to 1000 and `p` from 1e-10 to 1 − 1e-10.
///
/// # Panics
/// If `dof` is zero or `p` is outside `[0, 1]`.
#[track_caller]
pub fn chi_squared_quantile(p: f64, dof: usize) -> f64 {
    assert!(dof > 0, "a χ² law needs a degree of freedom");
    assert!((0.0..=1.0).contains(&p), "a probability is {p}");
    if p == 0.0 || p == 1.0 {
        return if p == 0.0 { 0.0 } else { f64::INFINITY };
    }
    let a = 0.5 * dof as f64;
    let is_lower = p < 0.5;
    let target = if is_lower { p.ln() } else { (-p).ln_1p() };
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut x = start(p, a);
    for _ in 0..MAX_STEPS {
        let at = tails(a, x);
        // `excess` grows with x; `slope` is its derivative in log x.
        let (excess, slope) = if is_lower {
            (at.lower.ln() - target, at.slope / at.lower)
        } else {
            (target - at.upper.ln(), at.slope / at.upper)
        };
        if excess > 0.0 {
            high = x;
        } else {
            low = x;
        }
        let step = -excess / slope;
        let next = x * step.exp();
        if step.abs() <= LAST_STEP {
            return 2.0 * next;
        }
        x = if next > low && next < high {
            next
        } else if high == f64::INFINITY {
            2.0 * low
        } else if low == 0.0 {
            0.5 * high
        } else {
            (low * high).sqrt()
        };
        if x == low || x == high {
            break;
        }
    }
    2.0 * x
}

/// Half a rough quantile: Wilson–Hilferty, or `P(a, x) ≈ xᵃ/Γ(a+1)` near zero.
fn start(p: f64, a: f64) -> f64 {
    let spread = 1.0 / (9.0 * a);
    let base = 1.0 - spread + normal_quantile(p) * spread.sqrt();
    if base > SMALL_BASE {
        a * base.powi(3)
    } else {
        ((p.ln() + libm::lgamma(a + 1.0)) / a).exp().max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsde_check::{assert_close, integrate};

    /// Bisection in 50 digits (mpmath), at the `f64` nearest to the printed probability.
    const KNOWN: [(f64, usize, f64); 37] = [
        (1e-10, 1, 1.570_796_326_794_896_7e-20),
        (0.001, 1, 1.570_797_149_262_49e-6),
        (0.05, 1, 0.003_932_140_000_019_523),
        (0.5, 1, 0.454_936_423_119_572_8),
        (0.95, 1, 3.841_458_820_694_124_5),
        (0.9999999999, 1, 41.821_456_202_982_79),
        (1e-10, 2, 2.000_000_000_1e-10),
        (0.001, 2, 0.002_001_000_667_167_067),
        (0.05, 2, 0.102_586_588_775_101_07),
        (0.5, 2, 1.386_294_361_119_890_6),
        (0.95, 2, 5.991_464_547_107_98),
        (0.9999999999, 2, 46.051_701_694_400_18),
        (1e-10, 3, 5.209_397_621_434_48e-7),
        (0.001, 3, 0.024_297_585_815_692_734),
        (0.05, 3, 0.351_846_317_749_271_4),
        (0.5, 3, 2.365_973_884_375_338),
        (0.95, 3, 7.814_727_903_251_178),
        (0.9999999999, 3, 49.542_155_758_766_43),
        (1e-10, 10, 0.052_331_065_631_905_41),
        (0.001, 10, 1.478_743_463_835_665),
        (0.05, 10, 3.940_299_136_119_06),
        (0.5, 10, 9.341_817_765_591_967),
        (0.95, 10, 18.307_038_053_275_144),
        (0.9999999999, 10, 68.167_617_951_904_13),
        (1e-10, 100, 34.399_823_909_124_82),
        (0.001, 100, 61.917_939_206_936_62),
        (0.05, 100, 77.929_465_165_017_26),
        (0.5, 100, 99.334_129_235_988_46),
        (0.95, 100, 124.342_113_404_004_07),
        (0.9999999999, 100, 217.714_202_841_204_7),
        (1e-10, 1000, 741.268_071_719_352_9),
        (0.001, 1000, 867.479_082_607_277),
        (0.05, 1000, 927.594_363_020_979),
        (0.5, 1000, 999.333_412_403_381),
        (0.95, 1000, 1_074.679_448_803_441),
        (0.9999999999, 1000, 1_311.303_007_601_155_5),
        (0.95, 4, 9.487_729_036_781_154),
    ];

    #[test]
    fn quantiles_have_their_known_values() {
        for (p, dof, want) in KNOWN {
            assert_close(chi_squared_quantile(p, dof), want, 1e-13);
        }
    }

    #[test]
    fn two_degrees_of_freedom_are_an_exponential() {
        for p in [1e-10, 1e-3, 0.2, 0.5, 0.7, 0.999, 1.0 - 1e-10] {
            assert_close(chi_squared_quantile(p, 2), -2.0 * (-p).ln_1p(), 1e-14);
            assert_close(chi_squared_cdf(-2.0 * (-p).ln_1p(), 2), p, 1e-14);
        }
    }

    #[test]
    fn the_distribution_matches_quadrature() {
        for (x, dof) in [(0.5, 1), (7.0, 5), (3.0, 4), (90.0, 100)] {
            let k = dof as f64;
            let log_scale = libm::lgamma(0.5 * k) + 0.5 * k * 2f64.ln();
            let density = |u: f64| 2.0 * ((k - 1.0) * u.ln() - 0.5 * u * u - log_scale).exp();
            let mass = integrate(0.0, f64::sqrt(x), &[], 0.0, density);
            assert_close(chi_squared_cdf(x, dof), mass, 1e-12);
        }
        assert_eq!(chi_squared_cdf(-1.0, 3), 0.0);
        assert_eq!(chi_squared_cdf(f64::INFINITY, 3), 1.0);
    }

    #[test]
    fn the_distribution_undoes_the_quantile() {
        for dof in (1..30).chain([50, 77, 128, 300, 513, 1000, 20_000]) {
            for p in [1e-10, 1e-6, 0.01, 0.1, 0.25, 0.4999, 0.5, 0.75, 0.9, 0.99] {
                let back = chi_squared_cdf(chi_squared_quantile(p, dof), dof);
                assert_close(back, p, 1e-11 * (1.0 + dof as f64 / 1000.0));
            }
        }
    }

    #[test]
    fn the_ends_are_exact_and_the_quantile_grows() {
        for dof in [1, 2, 9, 400] {
            assert_eq!(chi_squared_quantile(0.0, dof), 0.0);
            assert_eq!(chi_squared_quantile(1.0, dof), f64::INFINITY);
            let mut last = 0.0;
            for i in 1..1000 {
                let x = chi_squared_quantile(i as f64 / 1000.0, dof);
                assert!(x > last, "{i} {dof}");
                last = x;
            }
        }
    }

    #[test]
    #[should_panic(expected = "probability")]
    fn what_is_no_probability_is_refused() {
        chi_squared_quantile(f64::NAN, 2);
    }
}
