//! The kernels of x86-64, slowest first.
//!
//! Each instruction set is a token type without a safe constructor: whoever holds one got it in a
//! `run` function, which enables the instructions and whose caller has made sure of the CPU.

pub(crate) mod avx2;
pub(crate) mod avx2_gfni;
pub(crate) mod avx512;
pub(crate) mod gfni;
