//! 64 bytes at a time; every multiplication by a constant is one affine map over GF(2).
//!
//! GFNI's own multiplication has AES's polynomial; its affine map is free of any.

use core::arch::x86_64::*;

use crate::gf;
use crate::pass::{self, Operands, Pass};
use crate::simd::Simd;

/// Proof that the CPU has GFNI and AVX-512 F, BW and VL.
#[derive(Clone, Copy)]
struct Gfni(());

impl Simd for Gfni {
    type Vector = __m512i;
    /// The matrix of the multiplication, once for each eight bytes.
    type Factor = __m512i;
    const BYTES: usize = 64;
    const UNROLL: usize = 4;

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    fn double_xor(self, a: __m512i, b: __m512i) -> __m512i {
        self.xor(self.times(a, self.factor(2)), b)
    }
    #[inline(always)]
    fn quadruple_xor(self, a: __m512i, b: __m512i) -> __m512i {
        self.xor(self.times(a, self.factor(4)), b)
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_set1_epi64(gf::affine(constant) as i64) }
    }
    #[inline(always)]
    fn times(self, a: __m512i, factor: __m512i) -> __m512i {
        // SAFETY: the token proves GFNI.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(a, factor) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> __m512i {
        // SAFETY: the token proves AVX-512; readable by the caller's promise.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8, a: __m512i) {
        // SAFETY: the token proves AVX-512; writable by the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast(), a) }
    }
}

/// # Safety
/// The CPU has GFNI and AVX-512 F, BW and VL; otherwise as [`pass::run`].
#[target_feature(enable = "gfni,avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn run<P: Pass>(job: &Operands<'_>) {
    // SAFETY: the caller's promise, of which the token is the proof, is passed on.
    unsafe { pass::run::<Gfni, P>(Gfni(()), job) }
}
