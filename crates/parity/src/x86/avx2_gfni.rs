//! 32 bytes at a time; every multiplication by a constant is one affine map over GF(2).
//!
//! GFNI's own multiplication has AES's polynomial; its affine map is free of any.

use core::arch::x86_64::*;

use crate::gf;
use crate::pass::{self, Operands, Pass};
use crate::simd::Simd;

/// Proof that the CPU has GFNI and AVX2.
#[derive(Clone, Copy)]
struct Avx2Gfni(());

impl Simd for Avx2Gfni {
    type Vector = __m256i;
    /// The matrix of the multiplication, once for each eight bytes.
    type Factor = __m256i;
    const BYTES: usize = 32;
    const UNROLL: usize = 4;

    #[inline(always)]
    fn zero(self) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    fn double_xor(self, a: __m256i, b: __m256i) -> __m256i {
        self.xor(self.times(a, self.factor(2)), b)
    }
    #[inline(always)]
    fn quadruple_xor(self, a: __m256i, b: __m256i) -> __m256i {
        self.xor(self.times(a, self.factor(4)), b)
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_set1_epi64x(gf::affine(constant) as i64) }
    }
    #[inline(always)]
    fn times(self, a: __m256i, factor: __m256i) -> __m256i {
        // SAFETY: the token proves GFNI.
        unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(a, factor) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> __m256i {
        // SAFETY: the token proves AVX2; readable by the caller's promise.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8, a: __m256i) {
        // SAFETY: the token proves AVX2; writable by the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), a) }
    }
}

/// # Safety
/// The CPU has GFNI and AVX2; otherwise as [`pass::run`].
#[target_feature(enable = "gfni,avx2")]
pub(crate) unsafe fn run<P: Pass>(job: &Operands<'_>) {
    // SAFETY: the caller's promise, of which the token is the proof, is passed on.
    unsafe { pass::run::<Avx2Gfni, P>(Avx2Gfni(()), job) }
}
