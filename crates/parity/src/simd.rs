//! The operations that an instruction set must offer, and the two that every CPU has.
//!
//! A value of a type that implements [`Simd`] is proof that the CPU has the instructions: such
//! types have no safe constructor, so their arithmetic can be safe. Only memory access is not.

use crate::gf;

/// An instruction set. Every method is inlined into a function that enables the instructions.
pub(crate) trait Simd: Copy {
    /// One vector of field elements, one a byte.
    type Vector: Copy;
    /// A constant to multiply by, in the form that `times` wants.
    type Factor: Copy;
    /// Bytes in a vector.
    const BYTES: usize;
    /// How many vectors of each source the loops take at a time: enough independent work to hide
    /// the latency of one multiplication, few enough to keep all sums in registers.
    const UNROLL: usize;

    fn zero(self) -> Self::Vector;
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn or(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The value from which a sum of Horner's rule starts, so that it is right after as many doublings. Other than
    /// zero only where a doubling is cheaper if it adds a constant.
    #[inline(always)]
    fn start(self, _doublings: usize) -> Self::Vector {
        self.zero()
    }
    /// `2 * a ^ b`, with the constant that `start` makes up for: one step of Horner's rule for Q.
    fn double_xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `4 * a ^ b`, with the constants of two doublings: one step of Horner's rule for R.
    #[inline(always)]
    fn quadruple_xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        self.double_xor(self.double_xor(a, self.zero()), b)
    }
    fn factor(self, constant: u8) -> Self::Factor;
    fn times(self, a: Self::Vector, factor: Self::Factor) -> Self::Vector;

    /// # Safety
    /// `from` is readable for `BYTES` bytes, at any alignment.
    unsafe fn load(self, from: *const u8) -> Self::Vector;
    /// # Safety
    /// `to` is writable for `BYTES` bytes, at any alignment.
    unsafe fn store(self, to: *mut u8, a: Self::Vector);
    /// Asks for the cache line at `to`, which need not be mapped, so as to write to it, where that gains anything.
    #[inline(always)]
    fn prefetch_to_write(self, _to: *const u8) {}
}

/// Four field elements in a machine word ("SIMD within a register").
#[derive(Clone, Copy)]
pub(crate) struct Word;

/// Every byte of the word set to `byte`.
const fn splat(byte: u8) -> u32 {
    u32::from_ne_bytes([byte; 4])
}

#[inline(always)]
fn double(a: u32) -> u32 {
    let high = a & splat(0x80);
    // 0x100 - 0x01, which is 0xff, in each byte whose high bit is set.
    let carried = (high << 1).wrapping_sub(high >> 7);
    ((a & splat(0x7f)) << 1) ^ (carried & splat(gf::POLYNOMIAL))
}

impl Simd for Word {
    type Vector = u32;
    /// For each bit of the constant, all ones if it is set.
    type Factor = [u32; 8];
    const BYTES: usize = 4;
    const UNROLL: usize = 1;

    #[inline(always)]
    fn zero(self) -> u32 {
        0
    }
    #[inline(always)]
    fn xor(self, a: u32, b: u32) -> u32 {
        a ^ b
    }
    #[inline(always)]
    fn or(self, a: u32, b: u32) -> u32 {
        a | b
    }
    #[inline(always)]
    fn double_xor(self, a: u32, b: u32) -> u32 {
        double(a) ^ b
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> [u32; 8] {
        let mut masks = [0; 8];
        for (bit, mask) in masks.iter_mut().enumerate() {
            *mask = u32::from(constant >> bit & 1).wrapping_neg();
        }
        masks
    }
    #[inline(always)]
    fn times(self, a: u32, factor: [u32; 8]) -> u32 {
        let mut product = 0;
        let mut shifted = a;
        for mask in factor {
            product ^= shifted & mask;
            shifted = double(shifted);
        }
        product
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> u32 {
        // SAFETY: readable for 4 bytes by the caller's promise; no alignment is assumed.
        unsafe { from.cast::<u32>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8, a: u32) {
        // SAFETY: writable for 4 bytes by the caller's promise; no alignment is assumed.
        unsafe { to.cast::<u32>().write_unaligned(a) }
    }
}

/// One field element, for the last bytes of a block.
#[derive(Clone, Copy)]
pub(crate) struct Byte;

impl Simd for Byte {
    type Vector = u8;
    type Factor = u8;
    const BYTES: usize = 1;
    const UNROLL: usize = 1;

    #[inline(always)]
    fn zero(self) -> u8 {
        0
    }
    #[inline(always)]
    fn xor(self, a: u8, b: u8) -> u8 {
        a ^ b
    }
    #[inline(always)]
    fn or(self, a: u8, b: u8) -> u8 {
        a | b
    }
    #[inline(always)]
    fn double_xor(self, a: u8, b: u8) -> u8 {
        gf::multiply(a, 2) ^ b
    }
    #[inline(always)]
    fn factor(self, constant: u8) -> u8 {
        constant
    }
    #[inline(always)]
    fn times(self, a: u8, factor: u8) -> u8 {
        gf::multiply(a, factor)
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> u8 {
        // SAFETY: readable by the caller's promise.
        unsafe { from.read() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8, a: u8) {
        // SAFETY: writable by the caller's promise.
        unsafe { to.write(a) }
    }
}
