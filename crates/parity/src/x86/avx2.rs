//! 32 bytes at a time; multiplication by a constant looks up both halves of each byte.

use core::arch::x86_64::*;

use crate::gf;
use crate::pass::{self, Operands, Pass};
use crate::simd::Simd;

/// Proof that the CPU has AVX2.
#[derive(Clone, Copy)]
struct Avx2(());

impl Simd for Avx2 {
    type Vector = __m256i;
    /// The products of the constant with all low and all high halves of a byte.
    type Factor = [__m256i; 2];
    const BYTES: usize = 32;
    const UNROLL: usize = 2;

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
    fn double_xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe {
            let carried = _mm256_cmpgt_epi8(_mm256_setzero_si256(), a);
            let reduction = _mm256_and_si256(carried, _mm256_set1_epi8(gf::POLYNOMIAL as i8));
            _mm256_xor_si256(_mm256_xor_si256(_mm256_add_epi8(a, a), b), reduction)
        }
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> [__m256i; 2] {
        // SAFETY: the token proves AVX2; each table has 16 bytes.
        gf::nibbles(constant)
            .each_ref()
            .map(|table| unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())) })
    }
    #[inline(always)]
    fn times(self, a: __m256i, [low, high]: [__m256i; 2]) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe {
            let mask = _mm256_set1_epi8(0x0f);
            let low = _mm256_shuffle_epi8(low, _mm256_and_si256(a, mask));
            let high = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi64::<4>(a), mask));
            _mm256_xor_si256(low, high)
        }
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
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8, a: __m256i) {
        // SAFETY: the token proves AVX2; writable and aligned by the caller's promise; `pass::run`
        // fences before it returns.
        unsafe { _mm256_stream_si256(to.cast(), a) }
    }
    #[inline(always)]
    fn fence(self) {
        // SAFETY: every x86-64 CPU has the instruction.
        unsafe { _mm_sfence() }
    }
    #[inline(always)]
    fn prefetch(self, from: *const u8) {
        // SAFETY: every x86-64 CPU has the instruction, and it never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
    }
}

/// # Safety
/// The CPU has AVX2; otherwise as [`pass::run`].
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn run<P: Pass>(job: &Operands<'_>) {
    // SAFETY: the caller's promise, of which the token is the proof, is passed on.
    unsafe { pass::run::<Avx2, P>(Avx2(()), job) }
}
