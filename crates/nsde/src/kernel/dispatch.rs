//! Which instructions the kernels use: AVX-512, AVX2 with FMA, or plain ones, whatever is the best this machine has.
//!
//! The three give the same results up to rounding: sums run in another order, and plain code does not fuse
//! (`tests/dispatch.rs` has the tolerance). `NSDE_SIMD=avx2` or `NSDE_SIMD=portable` in the environment asks
//! for less than there is: for tests, and to get the bits of another machine.

use pulp::{Arch, Simd, WithSimd};
use std::sync::OnceLock;

/// What this process uses, decided once.
#[inline]
pub(crate) fn arch() -> Arch {
    static CHOSEN: OnceLock<Arch> = OnceLock::new();
    *CHOSEN.get_or_init(|| at_most(std::env::var("NSDE_SIMD").as_deref().unwrap_or_default()))
}

fn at_most(wanted: &str) -> Arch {
    match wanted {
        "portable" => Arch::Scalar,
        #[cfg(target_arch = "x86_64")]
        "avx2" => pulp::x86::V3::try_new().map_or(Arch::Scalar, Arch::V3),
        _ => Arch::new(),
    }
}

/// With vectors of at most 32 bytes; next to AVX-512 they have its registers, twice as many.
#[inline(always)]
pub(crate) fn dispatch_narrow<W: WithSimd>(op: W) -> W::Output {
    match arch() {
        #[cfg(target_arch = "x86_64")]
        Arch::V4(simd) => Simd::vectorize(simd, With(*simd, op)),
        other => other.dispatch(op),
    }
}

#[cfg(target_arch = "x86_64")]
struct With<W>(pulp::x86::V3, W);

#[cfg(target_arch = "x86_64")]
impl<W: WithSimd> pulp::NullaryFnOnce for With<W> {
    type Output = W::Output;

    #[inline(always)]
    fn call(self) -> W::Output {
        self.1.with_simd(self.0)
    }
}

/// The vectors of 32 bytes, where there are any.
#[cfg(target_arch = "x86_64")]
pub(crate) fn narrow() -> Option<pulp::x86::V3> {
    match arch() {
        Arch::V4(simd) => Some(*simd),
        Arch::V3(simd) => Some(simd),
        _ => None,
    }
}
