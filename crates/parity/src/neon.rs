//! The kernel of AArch64: 16 bytes at a time; multiplication looks up both halves of each byte.

use core::arch::aarch64::*;

use crate::gf;
use crate::pass::{self, Operands, Pass};
use crate::simd::Simd;

/// Proof that the CPU has NEON.
#[derive(Clone, Copy)]
struct Neon(());

impl Simd for Neon {
    type Vector = uint8x16_t;
    /// The products of the constant with all low and all high halves of a byte.
    type Factor = [uint8x16_t; 2];
    const BYTES: usize = 16;
    const UNROLL: usize = 4;

    #[inline(always)]
    fn zero(self) -> uint8x16_t {
        // SAFETY: the token proves NEON.
        unsafe { vdupq_n_u8(0) }
    }
    #[inline(always)]
    fn xor(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token proves NEON.
        unsafe { veorq_u8(a, b) }
    }
    #[inline(always)]
    fn or(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token proves NEON.
        unsafe { vorrq_u8(a, b) }
    }
    #[inline(always)]
    fn double_xor(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token proves NEON.
        unsafe {
            let carried = vcltzq_s8(vreinterpretq_s8_u8(a));
            let reduction = vandq_u8(carried, vdupq_n_u8(gf::POLYNOMIAL));
            veorq_u8(veorq_u8(vshlq_n_u8::<1>(a), b), reduction)
        }
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> [uint8x16_t; 2] {
        // SAFETY: the token proves NEON; each table has 16 bytes.
        gf::nibbles(constant).each_ref().map(|table| unsafe { vld1q_u8(table.as_ptr()) })
    }
    #[inline(always)]
    fn times(self, a: uint8x16_t, [low, high]: [uint8x16_t; 2]) -> uint8x16_t {
        // SAFETY: the token proves NEON.
        unsafe {
            let low = vqtbl1q_u8(low, vandq_u8(a, vdupq_n_u8(0x0f)));
            let high = vqtbl1q_u8(high, vshrq_n_u8::<4>(a));
            veorq_u8(low, high)
        }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> uint8x16_t {
        // SAFETY: the token proves NEON; readable by the caller's promise.
        unsafe { vld1q_u8(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8, a: uint8x16_t) {
        // SAFETY: the token proves NEON; writable by the caller's promise.
        unsafe { vst1q_u8(to, a) }
    }
}

/// # Safety
/// The CPU has NEON; otherwise as [`pass::run`].
#[target_feature(enable = "neon")]
pub(crate) unsafe fn run<P: Pass>(job: &Operands<'_>) {
    // SAFETY: the caller's promise, of which the token is the proof, is passed on.
    unsafe { pass::run::<Neon, P>(Neon(()), job) }
}
