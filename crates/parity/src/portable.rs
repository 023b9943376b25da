//! The kernel of every CPU: four machine words at a time, which a compiler turns into whatever
//! vectors its target is sure to have (SSE2 on x86-64).

use crate::pass::{self, Job, Pass};
use crate::simd::{Simd, Word};

/// Four words in a row.
#[derive(Clone, Copy)]
struct Words;

const WORDS: usize = 4;

impl Simd for Words {
    type Vector = [u64; WORDS];
    type Factor = [u64; 8];
    const BYTES: usize = 8 * WORDS;
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
pub(crate) unsafe fn run<P: Pass>(job: &Job<'_>) {
    // SAFETY: the caller's promise is passed on.
    unsafe { pass::run::<Words, P>(Words, job) }
}
