//! Pure arithmetic: XOR, P+Q, P+Q+R and recovery; the only SIMD in Brindle.
//!
//! Q is Linux md's: polynomial 0x11d, generator 2. R is the third parity that pools use: 4^i.
//! Every call takes whole blocks, allocates nothing, and never looks at the clock or the
//! environment. [`kernel()`] gives the best kernel of this CPU, [`available`] all that it can run.
//!
//! ```
//! let data: [&[u8]; 3] = [b"one", b"two", b"six"];
//! let (mut p, mut q) = ([0; 3], [0; 3]);
//! let kernel = brindle_parity::kernel();
//! kernel.pq(&data, &mut p, &mut q);
//!
//! let (mut two, mut six) = ([0; 3], [0; 3]);
//! kernel.recover_two(&[b"one", &[], &[]], 1, 2, &p, &q, &mut two, &mut six);
//! assert_eq!((&two, &six), (b"two", b"six"));
//! ```
//!
//! # How it is built
//!
//! A *pass* (`pass.rs`) is one loop over the blocks of a call, generic over the instruction set
//! (`simd.rs`); a kernel is a table of all passes compiled for one instruction set. Kernels are
//! statics that only detection hands out, so no safe code can hold one that the CPU lacks.

#![no_std]
#![allow(unsafe_code, reason = "SIMD intrinsics and raw blocks; each use says why it is sound")]

#[cfg(feature = "std")]
extern crate std;

mod culprit;
mod gf;
mod kernel;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pass;
mod portable;
pub mod reference;
mod select;
mod simd;
mod solve;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use culprit::{Culprit, culprit};
pub use kernel::Kernel;
pub use select::{available, kernel};

/// The most slots that Q and R can tell apart: 2 has as many distinct powers.
pub const MAX_SLOTS: usize = gf::ORDER;
