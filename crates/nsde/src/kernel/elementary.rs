//! Elementary functions in a form that the compiler turns into vectors: no branch, no table, no call.

use super::{Real, Single};
use crate::gaussian::special::INV_SQRT_2PI;
use pulp::Simd;
use std::f64::consts::LOG2_E;

/// A number for plain loops over a whole layer.
pub(crate) trait Elementary: Single {
    /// Beyond this many standard deviations the density is taken as zero.
    const FAR: Self;

    fn abs(self) -> Self;
    /// `a·b + c`, fused where the instruction set `S` fuses.
    fn fma<S: Simd>(a: Self, b: Self, c: Self) -> Self;
    /// `φ(x)` and `Φ(−x)` for `0 ≤ x ≤ FAR`.
    fn density_and_tail<S: Simd>(x: Self) -> (Self, Self);
}

/// `a·b + c`, fused where the instruction set `S` fuses.
#[inline(always)]
pub(crate) fn fma<S: Simd>(a: f64, b: f64, c: f64) -> f64 {
    f64::fma::<S>(a, b, c)
}

#[inline(always)]
fn polynomial<T: Elementary, S: Simd, const N: usize>(x: T, coefficients: &[T; N]) -> T {
    let mut sum = coefficients[N - 1];
    for k in (0..N - 1).rev() {
        sum = T::fma::<S>(sum, x, coefficients[k]);
    }
    sum
}

/// The same in two chains, of even and of odd powers: half the time to wait for a long one.
#[inline(always)]
fn long_polynomial<T: Elementary, S: Simd, const N: usize>(x: T, coefficients: &[T; N]) -> T {
    let square = x * x;
    let (mut high, mut low) = (coefficients[N - 1], coefficients[N - 2]);
    for k in (0..N - 2).rev() {
        (high, low) = (low, T::fma::<S>(high, square, coefficients[k]));
    }
    T::fma::<S>(high, x, low)
}

/// `1/k!`.
const TAYLOR: [f64; 14] = {
    let mut c = [1.0; 14];
    let mut k = 1;
    while k < 14 {
        c[k] = c[k - 1] / k as f64;
        k += 1;
    }
    c
};

/// `eˣ` for `−708 ≤ x ≤ 700`, to two units in the last place.
#[inline(always)]
pub(crate) fn exp<S: Simd>(x: f64) -> f64 {
    /// `1.5·2⁵²` rounds a small number to an integer and leaves it in the last bits; 1023 is the bias
    /// of the exponent.
    const ROUND: f64 = 6_755_399_441_055_744.0 + 1023.0;
    /// `ln 2`, its first half exact in 32 bits.
    const LN_2: (f64, f64) = (0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10);
    let shifted = fma::<S>(x, LOG2_E, ROUND);
    let k = shifted - ROUND;
    let r = fma::<S>(k, -LN_2.1, fma::<S>(k, -LN_2.0, x));
    polynomial::<f64, S, 14>(r, &TAYLOR) * f64::from_bits(shifted.to_bits() << 52)
}

/// `2/(2k + 1)`.
const INVERSE_ODD: [f64; 18] = {
    let mut c = [2.0; 18];
    let mut k = 1;
    while k < 18 {
        c[k] = 2.0 / (2 * k + 1) as f64;
        k += 1;
    }
    c
};

/// `ln(1 + x)` for `0 ≤ x ≤ 1`, to three units in the last place: `2 artanh(x/(x + 2))` by its series.
#[inline(always)]
pub(crate) fn ln_1p<S: Simd>(x: f64) -> f64 {
    let s = x / (x + 2.0);
    s * polynomial::<f64, S, 18>(s * s, &INVERSE_ODD)
}

/// So many vectors go through a polynomial abreast: one alone would wait for its own results, more would
/// not fit into the registers.
pub(crate) const ABREAST: usize = 2;

/// A polynomial in vectors, its even and odd terms in two chains.
#[inline(always)]
pub(crate) fn vector_polynomial<T: Real, S: Simd>(
    simd: S,
    x: [T::Vector<S>; ABREAST],
    coefficients: &'static [T],
) -> [T::Vector<S>; ABREAST] {
    let square = x.map(|x| T::vmul(simd, x, x));
    let mut k = coefficients.len() - 1;
    let mut high = [T::splat(simd, coefficients[k]); ABREAST];
    let mut low = [T::splat(simd, coefficients[k - 1]); ABREAST];
    while k >= 3 {
        let (c, below) = (T::splat(simd, coefficients[k - 2]), T::splat(simd, coefficients[k - 3]));
        for l in 0..ABREAST {
            high[l] = T::vfma(simd, high[l], square[l], c);
        }
        for l in 0..ABREAST {
            low[l] = T::vfma(simd, low[l], square[l], below);
        }
        k -= 2;
    }
    // What is left of an even degree.
    let last = T::splat(simd, coefficients[0]);
    std::array::from_fn(|l| {
        let sum = T::vfma(simd, high[l], x[l], low[l]);
        if k == 2 { T::vfma(simd, sum, x[l], last) } else { sum }
    })
}

/// `2ˣ` in vectors for `T::EXPONENT_MIN ≤ x ≤ 100`, to two units in the last place.
#[inline(always)]
pub(crate) fn vector_exp2<T: Real, S: Simd>(simd: S, x: [T::Vector<S>; ABREAST]) -> [T::Vector<S>; ABREAST] {
    let round = T::splat(simd, T::ROUND);
    let shifted = x.map(|x| T::vadd(simd, x, round));
    let rest = std::array::from_fn(|l| T::vsub(simd, x[l], T::vsub(simd, shifted[l], round)));
    let power = vector_polynomial::<T, S>(simd, rest, T::EXP2);
    std::array::from_fn(|l| T::vmul(simd, power[l], T::vexponent(simd, shifted[l])))
}

/// `2ˣ` on `[−½, ½]`: the interpolant in the Chebyshev nodes, computed to 40 digits. Relative error of
/// the polynomial 3e-9.
pub(crate) const EXP2_F32: [f32; 7] =
    [1.0, std::f32::consts::LN_2, 0.2402265, 0.05550327, 0.009618057, 0.0013400428, 0.00015461445];

/// The same for `f64`. Relative error of the polynomial 4e-18.
pub(crate) const EXP2_F64: [f64; 12] = [
    1.0,
    std::f64::consts::LN_2,
    0.24022650695910158,
    0.055504108664821625,
    0.009618129107587256,
    0.001333355814640647,
    0.00015403530463724353,
    1.5252733841556773e-05,
    1.3215432535912375e-06,
    1.0178057087733941e-07,
    7.074194297288521e-09,
    4.4558179083360645e-10,
];

/// `(x + 1) Φ(−x)/φ(x)` on `[0, 39]` as a polynomial in `u = A x/(x + 4) − 1`: its interpolant in the
/// Chebyshev nodes, computed to 50 digits. Relative error below 4e-16.
const MILLS: [f64; 24] = [
    1.2060503099427504,
    -0.22383287174338304,
    0.008653023737185432,
    0.07894412431610913,
    -0.06984530563627463,
    0.031759085580076625,
    -0.00647847690876425,
    -0.001041812064474666,
    0.0008464350475850972,
    -5.3636527332915635e-06,
    -9.557498592239679e-05,
    3.864181670084598e-06,
    1.215170951048222e-05,
    6.748610226247402e-08,
    -1.679252571274826e-06,
    -2.0276554172679496e-07,
    2.2267601410831143e-07,
    6.898997839614276e-08,
    -2.3403018314954796e-08,
    -1.570178216009218e-08,
    1.2433938331009912e-09,
    2.4802960372680192e-09,
    4.186784355691758e-11,
    -2.1006161416975407e-10,
];

/// `A` of [`MILLS`]: maps `[0, 39]` onto `[−1, 1]`.
const MILLS_SCALE: f64 = 2.205_128_205_128_205;

/// The same on `[0, 13.5]` in single precision. Relative error of the polynomial 2e-9.
const MILLS_F32: [f32; 11] = [
    1.239_394_7,
    -0.187_218_62,
    -0.026_917_959,
    0.078_885_34,
    -0.050_031_497,
    0.016_433_539,
    -0.001_841_680_2,
    -0.000_644_846_3,
    0.000_204_657_08,
    2.508_332_7e-5,
    -1.362_123_3e-5,
];

const MILLS_SCALE_F32: f32 = 2.592_592_6;

/// The argument of the polynomial, and what it must be multiplied by to give `Φ(−x)/φ(x)`.
#[inline(always)]
fn mills_argument<T: Elementary, S: Simd>(x: T, scale: T) -> (T, T) {
    let (one, four) = (x + T::ONE, x + T::of(4.0));
    let inverse = T::ONE / (one * four);
    (T::fma::<S>(scale * x * one, inverse, -T::ONE), four * inverse)
}

impl Elementary for f64 {
    const FAR: f64 = 37.5;

    #[inline(always)]
    fn abs(self) -> f64 {
        self.abs()
    }
    #[inline(always)]
    fn fma<S: Simd>(a: f64, b: f64, c: f64) -> f64 {
        if S::IS_SCALAR { a * b + c } else { a.mul_add(b, c) }
    }
    #[inline(always)]
    fn density_and_tail<S: Simd>(x: f64) -> (f64, f64) {
        let density = INV_SQRT_2PI * exp::<S>(-0.5 * x * x);
        let (u, factor) = mills_argument::<f64, S>(x, MILLS_SCALE);
        (density, density * (long_polynomial::<f64, S, 24>(u, &MILLS) * factor))
    }
}

impl Elementary for f32 {
    /// The density at 13 is the last that is no subnormal number.
    const FAR: f32 = 13.0;

    #[inline(always)]
    fn abs(self) -> f32 {
        self.abs()
    }
    #[inline(always)]
    fn fma<S: Simd>(a: f32, b: f32, c: f32) -> f32 {
        if S::IS_SCALAR { a * b + c } else { a.mul_add(b, c) }
    }
    #[inline(always)]
    fn density_and_tail<S: Simd>(x: f32) -> (f32, f32) {
        // 2ˣ of −x²/2 · log₂ e, with the rounding of the product carried along.
        let square = x * x;
        let (scale, low) = (-0.5 * std::f32::consts::LOG2_E, -0.5 * LOG2_E_LOW);
        let power = square * scale;
        let lost = f32::fma::<S>(square, scale, -power) + square * low + f32::fma::<S>(x, x, -square) * scale;
        let shifted = power + f32::ROUND;
        let rest = (power - (shifted - f32::ROUND)) + lost;
        let two = polynomial::<f32, S, 7>(rest, &EXP2_F32) * f32::from_bits(shifted.to_bits() << 23);
        let density = INV_SQRT_2PI as f32 * two;
        let (u, factor) = mills_argument::<f32, S>(x, MILLS_SCALE_F32);
        (density, density * (long_polynomial::<f32, S, 11>(u, &MILLS_F32) * factor))
    }
}

/// What `log₂ e` has beyond single precision.
const LOG2_E_LOW: f32 = (LOG2_E - std::f32::consts::LOG2_E as f64) as f32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaussian::special::{cdf, pdf};
    use pulp::WithSimd;

    struct Check;

    impl WithSimd for Check {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            for k in 0..20_000 {
                let x = -708.0 + 0.0704 * k as f64;
                assert!((exp::<S>(x) / x.exp() - 1.0).abs() < 1e-15, "exp({x})");
                let x = (k + 1) as f64 / 20_000.0;
                assert!((ln_1p::<S>(x) / x.ln_1p() - 1.0).abs() < 1e-15, "ln(1 + {x})");
                assert!(
                    (ln_1p::<S>(1e-3 * x * x) / (1e-3 * x * x).ln_1p() - 1.0).abs() < 1e-15,
                    "ln(1 + {x}²/1000)"
                );
                let x = f64::FAR * k as f64 / 20_000.0;
                let (density, tail) = f64::density_and_tail::<S>(x);
                // The argument x²/2 itself is rounded.
                let rounding = 1e-15 + 1.2e-16 * x * x;
                assert!((density / pdf(x) - 1.0).abs() < rounding, "density at {x}");
                assert!((tail / cdf(-x) - 1.0).abs() < 2.0 * rounding, "tail at {x}");
                let x = f32::FAR * k as f32 / 20_000.0;
                let (density, tail) = f32::density_and_tail::<S>(x);
                let x = f64::from(x);
                // Without fused instructions the rounding of the argument is not known.
                let rounding = if S::IS_SCALAR { 4e-7 + 1e-7 * x * x } else { 6e-7 };
                assert!((f64::from(density) / pdf(x) - 1.0).abs() < rounding, "single density at {x}");
                assert!((f64::from(tail) / cdf(-x) - 1.0).abs() < rounding, "single tail at {x}");
            }
        }
    }

    struct CheckVectors<T>(f64, std::marker::PhantomData<T>);

    impl<T: Single> WithSimd for CheckVectors<T> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let least = T::EXPONENT_MIN.f64();
            for k in 0..20_000 {
                let x = T::of(least + (100.0 - least) * k as f64 / 20_000.0);
                let power = vector_exp2::<T, S>(simd, [T::splat(simd, x); ABREAST]);
                // All lanes are the same.
                let lanes = (size_of::<T::Vector<S>>() / size_of::<T>()) as f64;
                let power =
                    T::vsum(simd, T::vmul(simd, power[ABREAST - 1], T::splat(simd, T::of(1.0 / lanes))));
                assert!((power.f64() / x.f64().exp2() - 1.0).abs() < self.0, "2^{x:?}");
            }
        }
    }

    #[test]
    fn powers_of_two_match_the_library_on_every_instruction_set() {
        let double = || CheckVectors::<f64>(4e-16, std::marker::PhantomData);
        let single = || CheckVectors::<f32>(2e-7, std::marker::PhantomData);
        pulp::Arch::new().dispatch(double());
        double().with_simd(pulp::Scalar);
        pulp::Arch::new().dispatch(single());
        single().with_simd(pulp::Scalar);
    }

    #[test]
    fn functions_match_the_library_on_every_instruction_set() {
        pulp::Arch::new().dispatch(Check);
        Check.with_simd(pulp::Scalar);
    }
}
