//! 32 bytes at a time; multiplication by a constant looks up both halves of each byte, and doubling the polynomial.

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
    fn start(self, doublings: usize) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe { _mm256_set1_epi8(gf::start(doublings) as i8) }
    }
    #[inline(always)]
    fn double_xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe {
            // The polynomial where the high bit is clear, so there is one too many everywhere.
            let reduction = _mm256_shuffle_epi8(_mm256_set1_epi8(gf::POLYNOMIAL as i8), a);
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
    fn prefetch_to_write(self, to: *const u8) {
        // SAFETY: the instruction never faults and changes no memory. All CPUs with AVX2 have it or ignore it; the
        // compiler's own prefetch would ask for the line to read it.
        unsafe {
            core::arch::asm!("prefetchw [{}]", in(reg) to, options(nostack, preserves_flags, readonly));
        }
    }
}

/// # Safety
/// The CPU has AVX2; otherwise as [`pass::run`].
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn run<P: Pass>(job: &Operands<'_>) {
    // SAFETY: the caller's promise, of which the token is the proof, is passed on.
    unsafe { pass::run::<Avx2, P>(Avx2(()), job) }
}
