//! Elementary functions in a form that the compiler turns into vectors: no branch, no table, no call.

use super::Real;
use crate::gaussian::special::INV_SQRT_2PI;
use pulp::Simd;
use std::f64::consts::LOG2_E;

/// `a·b + c`, fused where the instruction set `S` fuses.
#[inline(always)]
pub(crate) fn fma<S: Simd>(a: f64, b: f64, c: f64) -> f64 {
    if S::IS_SCALAR { a * b + c } else { a.mul_add(b, c) }
}

#[inline(always)]
pub(crate) fn polynomial<S: Simd, const N: usize>(x: f64, coefficients: &[f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    for k in (0..N - 1).rev() {
        sum = fma::<S>(sum, x, coefficients[k]);
    }
    sum
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
    polynomial::<S, 14>(r, &TAYLOR) * f64::from_bits(shifted.to_bits() << 52)
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

/// Beyond this many standard deviations the density is taken as zero.
pub(crate) const FAR: f64 = 37.5;

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

/// `φ(x)` and `Φ(−x)` for `0 ≤ x ≤ FAR`.
#[inline(always)]
pub(crate) fn density_and_tail<S: Simd>(x: f64) -> (f64, f64) {
    let density = INV_SQRT_2PI * exp::<S>(-0.5 * x * x);
    let inverse = 1.0 / ((x + 1.0) * (x + 4.0));
    let u = fma::<S>(MILLS_SCALE * x * (x + 1.0), inverse, -1.0);
    let mills = polynomial::<S, 24>(u, &MILLS) * (x + 4.0) * inverse;
    (density, density * mills)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaussian::special::{cdf, pdf};
    use crate::kernel::Single;
    use pulp::WithSimd;

    struct Check;

    impl WithSimd for Check {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            for k in 0..20_000 {
                let x = -708.0 + 0.0704 * k as f64;
                assert!((exp::<S>(x) / x.exp() - 1.0).abs() < 1e-15, "exp({x})");
                let x = FAR * k as f64 / 20_000.0;
                let (density, tail) = density_and_tail::<S>(x);
                // The argument x²/2 itself is rounded.
                let rounding = 1e-15 + 1.2e-16 * x * x;
                assert!((density / pdf(x) - 1.0).abs() < rounding, "density at {x}");
                assert!((tail / cdf(-x) - 1.0).abs() < 2.0 * rounding, "tail at {x}");
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
