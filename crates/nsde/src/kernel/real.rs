//! The scalar of the kernels: a sealed trait over `f32` and `f64`, with its SIMD vector.

use pulp::Simd;
use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// `f32` or `f64`. What users hold is `f64`; this parameter stays inside the crate.
pub trait Real:
    sealed::Sealed
    + Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + MulAssign
    + std::iter::Sum
{
    /// The vector register of an instruction set.
    type Vector<S: Simd>: Copy + Debug;
    const ZERO: Self;
    const ONE: Self;

    fn of(x: f64) -> Self;
    fn f64(self) -> f64;

    fn as_simd<S: Simd>(x: &[Self]) -> &[Self::Vector<S>];
    fn as_simd_mut<S: Simd>(x: &mut [Self]) -> &mut [Self::Vector<S>];
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    fn vadd<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn vmul<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a·b + c`, fused where the machine fuses.
    fn vfma<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    fn vsum<S: Simd>(simd: S, a: Self::Vector<S>) -> Self;
    /// Rows and columns of a block that [`flip`](Real::flip) transposes: a vector of 32 bytes.
    const SIDE: usize = 32 / size_of::<Self>();
    /// Transposes a block whose rows are `across` apart into one whose rows are `down` apart.
    #[cfg(target_arch = "x86_64")]
    fn flip(simd: pulp::x86::V3, from: &[Self], across: usize, to: &mut [Self], down: usize);
}

macro_rules! real {
    ($t:ty, $v:ident, $as:ident, $as_mut:ident, $splat:ident, $add:ident, $mul:ident, $fma:ident, $sum:ident, $flip:ident) => {
        impl Real for $t {
            type Vector<S: Simd> = S::$v;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn as_simd<S: Simd>(x: &[Self]) -> &[S::$v] {
                S::$as(x).0
            }
            #[inline(always)]
            fn as_simd_mut<S: Simd>(x: &mut [Self]) -> &mut [S::$v] {
                S::$as_mut(x).0
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$v {
                simd.$splat(x)
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
            #[inline(always)]
            fn vsum<S: Simd>(simd: S, a: S::$v) -> Self {
                simd.$sum(a)
            }
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn flip(simd: pulp::x86::V3, from: &[Self], across: usize, to: &mut [Self], down: usize) {
                super::transpose::wide::$flip(simd, from, across, to, down)
            }
        }
    };
}

real!(
    f32,
    f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    splat_f32s,
    add_f32s,
    mul_f32s,
    mul_add_e_f32s,
    reduce_sum_f32s,
    flip_f32
);
real!(
    f64,
    f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    splat_f64s,
    add_f64s,
    mul_f64s,
    mul_add_e_f64s,
    reduce_sum_f64s,
    flip_f64
);
