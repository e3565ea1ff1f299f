//! The number of the kernels: `f32` or `f64`, or a pack of them, one for each of several trajectories; with
//! its SIMD vector.

use super::aligned::LINE;
use super::{elementary, paper};
use bytemuck::Pod;
use pulp::{Simd, WithSimd};
use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// In rows of so many numbers half a vector does not matter.
const MANY: usize = 128;

/// As many lanes as any number has.
pub(crate) const LANES: usize = 8;

/// A number, or a pack of [`LANES`](Real::LANES) numbers that are computed side by side. What users hold is
/// `f64`; this parameter stays inside the crate.
pub(crate) trait Real:
    Pod
    + Debug
    + Default
    + PartialEq
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + AddAssign
{
    /// What all lanes share: the weights of a network.
    type One: Single;
    /// The vector register of an instruction set.
    type Vector<S: Simd>: Pod + Debug;
    /// How many trajectories it holds.
    const LANES: usize;
    const ZERO: Self;
    const ONE: Self;

    /// The same number in all lanes.
    fn of(x: f64) -> Self;
    /// A number for each lane.
    fn lanes(x: impl FnMut(usize) -> f64) -> Self;
    fn lane(self, lane: usize) -> f64;
    fn set_lane(&mut self, lane: usize, x: f64);
    /// The sum over the lanes.
    fn total(self) -> f64;
    /// The numbers of all lanes, one after the other.
    fn flat(x: &[Self]) -> &[Self::One];
    fn flat_mut(x: &mut [Self]) -> &mut [Self::One];
    /// The other way round: the packs of lines of numbers.
    fn packs(x: &[Self::One]) -> &[Self];
    /// Zero where it is negative or not a number.
    fn positive(self) -> Self;

    /// Runs `op` with the best instruction set that has a vector for this number.
    fn dispatch<W: WithSimd>(op: W) -> W::Output;
    /// The same, with vectors of at most 32 bytes.
    fn dispatch_narrow<W: WithSimd>(op: W) -> W::Output;
    /// With the vectors that suit rows of `columns`: of 32 bytes where the last one of 64 would be half empty.
    #[inline(always)]
    fn dispatch_rows<W: WithSimd>(columns: usize, op: W) -> W::Output {
        let half = LINE / 2 / size_of::<Self>();
        if columns < MANY && columns.div_ceil(half.max(1)) % 2 == 1 && Self::LANES == 1 {
            Self::dispatch_narrow(op)
        } else {
            Self::dispatch(op)
        }
    }
    /// A shared number, in every lane of a vector.
    fn spread<S: Simd>(simd: S, x: Self::One) -> Self::Vector<S>;

    fn as_simd<S: Simd>(x: &[Self]) -> &[Self::Vector<S>];
    fn as_simd_mut<S: Simd>(x: &mut [Self]) -> &mut [Self::Vector<S>];
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    fn vadd<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn vmul<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a·b + c`, fused where the machine fuses.
    fn vfma<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    fn vsum<S: Simd>(simd: S, a: Self::Vector<S>) -> Self;
    fn vsub<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn vdiv<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn vmin<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn vmax<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn vsqrt<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S>;
    /// The number whose exponent field is the last bits of `a`: the last step of `2ˣ`.
    fn vexponent<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S>;

    /// Rows and columns of a block that [`flip`](Real::flip) transposes: a vector of 32 bytes, or a line of packs.
    const SIDE: usize;
    /// Transposes a block whose rows are `across` apart into one whose rows are `down` apart.
    #[cfg(target_arch = "x86_64")]
    fn flip(simd: pulp::x86::V3, from: &[Self], across: usize, to: &mut [Self], down: usize);

    /// Rounds a small number to an integer when added, and leaves it in the last bits, the bias of the
    /// exponent included.
    const ROUND: Self;
    /// Smallest argument of `2ˣ` that leaves room for factors before the result is subnormal.
    const EXPONENT_MIN: Self;
    /// `2ˣ` on `[−½, ½]`.
    const EXP2: &'static [Self];
    /// The function of `kernel/paper.rs` on `[0, 1]`.
    const PAPER: &'static [Self];
}

/// `f32` or `f64`.
pub(crate) trait Single: Real<One = Self> + PartialOrd + Div<Output = Self> {
    /// The distance from one to the next number.
    const EPSILON: f64;
    fn f64(self) -> f64;
    fn sqrt(self) -> Self;
}

/// Runs plain loops over numbers with the instructions of their vectors; what `run` calls must be inlined.
#[inline(always)]
pub(crate) fn in_vectors<T: Real>(run: impl FnOnce()) {
    T::dispatch(Run(run));
}

struct Run<F>(F);

impl<F: FnOnce()> WithSimd for Run<F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        (self.0)();
    }
}

/// Takes numbers, lane by lane.
#[inline(always)]
pub(crate) fn from_f64<T: Real>(to: &mut [T], from: &[f64]) {
    for (to, from) in T::flat_mut(to).iter_mut().zip(from) {
        *to = T::One::of(*from);
    }
}

/// Gives them.
#[inline(always)]
pub(crate) fn to_f64<T: Real>(to: &mut [f64], from: &[T]) {
    for (to, from) in to.iter_mut().zip(T::flat(from)) {
        *to = from.f64();
    }
}

#[inline(always)]
pub(super) fn exponent_f32<S: Simd>(simd: S, a: S::f32s) -> S::f32s {
    let bits = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(a), simd.splat_u32s(23));
    simd.transmute_f32s_u32s(bits)
}

/// A product, because there is no shift of these; the compiler knows that it is one.
#[inline(always)]
pub(super) fn exponent_f64<S: Simd>(simd: S, a: S::f64s) -> S::f64s {
    let bits = simd.mul_u64s(simd.transmute_u64s_f64s(a), simd.splat_u64s(1 << 52));
    simd.transmute_f64s_u64s(bits)
}

macro_rules! real {
    (
        $t:ty, $v:ident, $as:ident, $as_mut:ident, $splat:ident, $add:ident, $mul:ident, $fma:ident, $sum:ident,
        $sub:ident, $div:ident, $min:ident, $max:ident, $sqrt:ident, $exponent:ident,
        $flip:ident, $round:expr, $least:expr, $exp2:expr, $paper:expr
    ) => {
        impl Real for $t {
            type One = $t;
            type Vector<S: Simd> = S::$v;
            const LANES: usize = 1;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn lanes(mut x: impl FnMut(usize) -> f64) -> Self {
                x(0) as $t
            }
            #[inline(always)]
            fn lane(self, _: usize) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn set_lane(&mut self, _: usize, x: f64) {
                *self = x as $t;
            }
            #[inline(always)]
            fn total(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn flat(x: &[Self]) -> &[Self] {
                x
            }
            #[inline(always)]
            fn flat_mut(x: &mut [Self]) -> &mut [Self] {
                x
            }
            #[inline(always)]
            fn packs(x: &[Self]) -> &[Self] {
                x
            }
            #[inline(always)]
            fn positive(self) -> Self {
                if self > 0.0 { self } else { 0.0 }
            }
            #[inline(always)]
            fn dispatch<W: WithSimd>(op: W) -> W::Output {
                super::dispatch::arch().dispatch(op)
            }
            #[inline(always)]
            fn dispatch_narrow<W: WithSimd>(op: W) -> W::Output {
                super::dispatch::dispatch_narrow(op)
            }
            #[inline(always)]
            fn spread<S: Simd>(simd: S, x: Self) -> S::$v {
                simd.$splat(x)
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
            fn flip(simd: pulp::x86::V3, from: &[Self], across: usize, to: &mut [Self], down: usize) {
                super::transpose::wide::$flip(simd, from, across, to, down)
            }
            const SIDE: usize = 32 / size_of::<$t>();
            const ROUND: Self = $round;
            const EXPONENT_MIN: Self = $least;
            const EXP2: &'static [Self] = &$exp2;
            const PAPER: &'static [Self] = &$paper;
        }

        impl Single for $t {
            const EPSILON: f64 = <$t>::EPSILON as f64;
            #[inline(always)]
            fn f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                <$t>::sqrt(self)
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
    sub_f32s,
    div_f32s,
    min_f32s,
    max_f32s,
    sqrt_f32s,
    exponent_f32,
    flip_f32,
    12_582_912.0 + 127.0,
    -100.0,
    elementary::EXP2_F32,
    paper::POLYNOMIAL_F32
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
    sub_f64s,
    div_f64s,
    min_f64s,
    max_f64s,
    sqrt_f64s,
    exponent_f64,
    flip_f64,
    6_755_399_441_055_744.0 + 1023.0,
    -1000.0,
    elementary::EXP2_F64,
    paper::POLYNOMIAL_F64
);
