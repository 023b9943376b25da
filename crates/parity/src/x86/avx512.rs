//! 64 bytes at a time, without GFNI: as with AVX2, doubling looks up the polynomial, other constants both halves of each byte.

use core::arch::x86_64::*;

use crate::gf;
use crate::pass::{self, Operands, Pass};
use crate::simd::Simd;

/// Proof that the CPU has AVX-512 F, BW and VL.
#[derive(Clone, Copy)]
struct Avx512(());

/// The truth table of `a ^ b ^ c` for `vpternlog`.
const XOR3: i32 = 0x96;

impl Simd for Avx512 {
    type Vector = __m512i;
    /// The products of the constant with all low and all high halves of a byte.
    type Factor = [__m512i; 2];
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
    fn start(self, doublings: usize) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_set1_epi8(gf::start(doublings) as i8) }
    }
    #[inline(always)]
    fn double_xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe {
            // The polynomial where the high bit is clear, so there is one too many everywhere.
            let reduction = _mm512_shuffle_epi8(_mm512_set1_epi8(gf::POLYNOMIAL as i8), a);
            _mm512_ternarylogic_epi64::<XOR3>(_mm512_add_epi8(a, a), b, reduction)
        }
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> [__m512i; 2] {
        // SAFETY: the token proves AVX-512; each table has 16 bytes.
        gf::nibbles(constant)
            .each_ref()
            .map(|table| unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())) })
    }
    #[inline(always)]
    fn times(self, a: __m512i, [low, high]: [__m512i; 2]) -> __m512i {
        // SAFETY: the token proves AVX-512.
        unsafe {
            let mask = _mm512_set1_epi8(0x0f);
            let low = _mm512_shuffle_epi8(low, _mm512_and_si512(a, mask));
            let high = _mm512_shuffle_epi8(high, _mm512_and_si512(_mm512_srli_epi64::<4>(a), mask));
            _mm512_xor_si512(low, high)
        }
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
/// The CPU has AVX-512 F, BW and VL; otherwise as [`pass::run`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn run<P: Pass>(job: &Operands<'_>) {
    // SAFETY: the caller's promise, of which the token is the proof, is passed on.
    unsafe { pass::run::<Avx512, P>(Avx512(()), job) }
}
