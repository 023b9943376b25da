//! The kernel of every CPU: eight words of four bytes at a time, which a compiler turns into
//! whatever vectors its target is sure to have (SSE2 on x86-64). Words of eight bytes would be half
//! as fast there: two in a vector seem too few for LLVM to bother.

use crate::pass::{self, Operands, Pass};
use crate::simd::{Simd, Word};

/// Eight words in a row.
#[derive(Clone, Copy)]
struct Words;

const WORDS: usize = 8;

impl Simd for Words {
    type Vector = [u32; WORDS];
    type Factor = [u32; 8];
    const BYTES: usize = Word::BYTES * WORDS;
    const UNROLL: usize = 1;

    #[inline(always)]
    fn zero(self) -> Self::Vector {
        [0; WORDS]
    }
    #[inline(always)]
    fn xor(self, mut a: Self::Vector, b: Self::Vector) -> Self::Vector {
        for (a, b) in a.iter_mut().zip(b) {
            *a ^= b;
        }
        a
    }
    #[inline(always)]
    fn or(self, mut a: Self::Vector, b: Self::Vector) -> Self::Vector {
        for (a, b) in a.iter_mut().zip(b) {
            *a |= b;
        }
        a
    }
    #[inline(always)]
    fn double_xor(self, mut a: Self::Vector, b: Self::Vector) -> Self::Vector {
        for (a, b) in a.iter_mut().zip(b) {
            *a = Word.double_xor(*a, b);
        }
        a
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> Self::Factor {
        Word.factor(constant)
    }
    #[inline(always)]
    fn times(self, mut a: Self::Vector, factor: Self::Factor) -> Self::Vector {
        for a in &mut a {
            *a = Word.times(*a, factor);
        }
        a
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> Self::Vector {
        // SAFETY: readable for BYTES bytes by the caller's promise; no alignment is assumed.
        unsafe { from.cast::<Self::Vector>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8, a: Self::Vector) {
        // SAFETY: writable for BYTES bytes by the caller's promise; no alignment is assumed.
        unsafe { to.cast::<Self::Vector>().write_unaligned(a) }
    }
}

/// # Safety
/// As [`pass::run`].
pub(crate) unsafe fn run<P: Pass>(job: &Operands<'_>) {
    // SAFETY: the caller's promise is passed on.
    unsafe { pass::run::<Words, P>(Words, job) }
}
