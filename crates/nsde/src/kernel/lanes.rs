//! Packs of numbers, one for each of several trajectories: 32 bytes, a vector of AVX2 and half of one of AVX-512.
//!
//! A batch of small matrices fills vectors badly: rows of 50 have ragged ends, and half of the time goes into
//! transposes and copies. With trajectories side by side in the lanes of a vector there are no ends, and every
//! kernel that is written in vectors (products, series, activations) works as it stands: one entry of a matrix
//! *is* a vector, as if the vectors of the machine had a single lane, or two with AVX-512. (Packs as long as its
//! vectors would leave half of the cores without work in a batch of sixteen.)
//!
//! Only for AVX2 and FMA; on other machines trajectories are computed one by one ([`supported`]).

use super::dispatch::{arch, dispatch_narrow};
use super::real::{Real, exponent_f32, exponent_f64};
use super::{elementary, paper};
use bytemuck::{Pod, Zeroable, cast, cast_slice, cast_slice_mut};
use pulp::{Arch, Simd, WithSimd};
use std::ops::{Add, AddAssign, Mul, Neg, Sub};

/// Whether this machine has the vectors.
pub(crate) fn supported() -> bool {
    cfg!(target_arch = "x86_64") && !matches!(arch(), Arch::Scalar)
}

/// With vectors of one pack or of two.
#[inline(always)]
fn dispatch<W: WithSimd>(op: W) -> W::Output {
    match arch() {
        #[cfg(target_arch = "x86_64")]
        Arch::V4(simd) => Simd::vectorize(simd, op),
        #[cfg(target_arch = "x86_64")]
        Arch::V3(simd) => Simd::vectorize(simd, op),
        _ => unreachable!("nobody makes packs where they are not supported"),
    }
}

macro_rules! lanes {
    (
        $name:ident, $t:ty, $n:literal, $v:ident, $as:ident, $as_mut:ident, $splat:ident, $add:ident, $mul:ident,
        $fma:ident, $sub:ident, $div:ident, $min:ident, $max:ident, $sqrt:ident, $exponent:ident, $exp2:expr,
        $paper:expr
    ) => {
        #[doc = concat!("`", stringify!($t), "` of ", stringify!($n), " trajectories.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
        #[repr(C, align(32))]
        pub(crate) struct $name([$t; $n]);

        impl $name {
            const fn all<const N: usize>(x: [$t; N]) -> [$name; N] {
                let mut out = [$name([0.0; $n]); N];
                let mut k = 0;
                while k < N {
                    out[k] = $name([x[k]; $n]);
                    k += 1;
                }
                out
            }
        }

        impl Add for $name {
            type Output = Self;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                $name(std::array::from_fn(|l| self.0[l] + other.0[l]))
            }
        }

        impl Sub for $name {
            type Output = Self;
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                $name(std::array::from_fn(|l| self.0[l] - other.0[l]))
            }
        }

        impl Mul for $name {
            type Output = Self;
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                $name(std::array::from_fn(|l| self.0[l] * other.0[l]))
            }
        }

        impl Neg for $name {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                $name(self.0.map(|x| -x))
            }
        }

        impl AddAssign for $name {
            #[inline(always)]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl Real for $name {
            type One = $t;
            type Vector<S: Simd> = S::$v;
            const LANES: usize = $n;
            const ZERO: Self = $name([0.0; $n]);
            const ONE: Self = $name([1.0; $n]);

            #[inline(always)]
            fn of(x: f64) -> Self {
                $name([x as $t; $n])
            }
            #[inline(always)]
            fn lanes(mut x: impl FnMut(usize) -> f64) -> Self {
                $name(std::array::from_fn(|l| x(l) as $t))
            }
            #[inline(always)]
            fn lane(self, lane: usize) -> f64 {
                f64::from(self.0[lane])
            }
            #[inline(always)]
            fn set_lane(&mut self, lane: usize, x: f64) {
                self.0[lane] = x as $t;
            }
            #[inline(always)]
            fn total(self) -> f64 {
                self.0.iter().map(|x| f64::from(*x)).sum()
            }
            #[inline(always)]
            fn flat(x: &[Self]) -> &[$t] {
                cast_slice(x)
            }
            #[inline(always)]
            fn flat_mut(x: &mut [Self]) -> &mut [$t] {
                cast_slice_mut(x)
            }
            #[inline(always)]
            fn packs(x: &[$t]) -> &[Self] {
                cast_slice(x)
            }
            #[inline(always)]
            fn positive(self) -> Self {
                $name(self.0.map(|x| if x > 0.0 { x } else { 0.0 }))
            }
            #[inline(always)]
            fn dispatch<W: WithSimd>(op: W) -> W::Output {
                dispatch(op)
            }
            #[inline(always)]
            fn dispatch_narrow<W: WithSimd>(op: W) -> W::Output {
                dispatch_narrow(op)
            }
            #[inline(always)]
            fn spread<S: Simd>(simd: S, x: $t) -> S::$v {
                simd.$splat(x)
            }
            #[inline(always)]
            fn as_simd<S: Simd>(x: &[Self]) -> &[S::$v] {
                S::$as(cast_slice(x)).0
            }
            #[inline(always)]
            fn as_simd_mut<S: Simd>(x: &mut [Self]) -> &mut [S::$v] {
                S::$as_mut(cast_slice_mut(x)).0
            }
            #[inline(always)]
            fn splat<S: Simd>(_: S, x: Self) -> S::$v {
                if size_of::<S::$v>() == size_of::<Self>() { cast(x) } else { cast([x; 2]) }
            }
            #[inline(always)]
            fn vadd<S: Simd>(simd: S, a: S::$v, b: S::$v) -> S::$v {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn vmul<S: Simd>(simd: S, a: S::$v, b: S::$v) -> S::$v {
                simd.$mul(a, b)
            }
            #[inline(always)]
            fn vfma<S: Simd>(simd: S, a: S::$v, b: S::$v, c: S::$v) -> S::$v {
                simd.$fma(a, b, c)
            }
            /// A vector holds one entry, and there is nothing to sum, or two.
            #[inline(always)]
            fn vsum<S: Simd>(_: S, a: S::$v) -> Self {
                if size_of::<S::$v>() == size_of::<Self>() {
                    return cast(a);
                }
                let [first, second]: [Self; 2] = cast(a);
                first + second
            }
            #[inline(always)]
            fn vsub<S: Simd>(simd: S, a: S::$v, b: S::$v) -> S::$v {
                simd.$sub(a, b)
            }
            #[inline(always)]
            fn vdiv<S: Simd>(simd: S, a: S::$v, b: S::$v) -> S::$v {
                simd.$div(a, b)
            }
            #[inline(always)]
            fn vmin<S: Simd>(simd: S, a: S::$v, b: S::$v) -> S::$v {
                simd.$min(a, b)
            }
            #[inline(always)]
            fn vmax<S: Simd>(simd: S, a: S::$v, b: S::$v) -> S::$v {
                simd.$max(a, b)
            }
            #[inline(always)]
            fn vsqrt<S: Simd>(simd: S, a: S::$v) -> S::$v {
                simd.$sqrt(a)
            }
            #[inline(always)]
            fn vexponent<S: Simd>(simd: S, a: S::$v) -> S::$v {
                $exponent(simd, a)
            }
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn flip(_: pulp::x86::V3, from: &[Self], across: usize, to: &mut [Self], down: usize) {
                let (above, below) = to.split_at_mut(down);
                (above[0], above[1]) = (from[0], from[across]);
                (below[0], below[1]) = (from[1], from[across + 1]);
            }
            const SIDE: usize = 2;
            const ROUND: Self = $name([<$t as Real>::ROUND; $n]);
            const EXPONENT_MIN: Self = $name([<$t as Real>::EXPONENT_MIN; $n]);
            const EXP2: &'static [Self] = &$name::all($exp2);
            const PAPER: &'static [Self] = &$name::all($paper);
        }
    };
}

lanes!(
    F32x8,
    f32,
    8,
    f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    splat_f32s,
    add_f32s,
    mul_f32s,
    mul_add_e_f32s,
    sub_f32s,
    div_f32s,
    min_f32s,
    max_f32s,
    sqrt_f32s,
    exponent_f32,
    elementary::EXP2_F32,
    paper::POLYNOMIAL_F32
);
lanes!(
    F64x4,
    f64,
    4,
    f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    splat_f64s,
    add_f64s,
    mul_f64s,
    mul_add_e_f64s,
    sub_f64s,
    div_f64s,
    min_f64s,
    max_f64s,
    sqrt_f64s,
    exponent_f64,
    elementary::EXP2_F64,
    paper::POLYNOMIAL_F64
);
