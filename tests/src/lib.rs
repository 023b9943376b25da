//! The common ground of tests that cross crates.
//!
//! - [`tools`]: other people's programs, and what a test does when one is missing.
//! - [`program`]: the program itself, as its users run it.
//! - [`files`]: members, contents and hashes.
//! - [`loops`]: files as block devices.
//! - [`mdadm`]: what mdadm prints, as tables.
//! - [`nbd`], [`load`]: a client that writes in parallel, and what the content may be afterwards.
//! - [`vm`]: a stock Debian kernel in QEMU with members as its disks.
//! - [`golden`]: arrays that md itself made and wrote.
//! - [`report`]: golden files of the program's reports.
//! - [`imsm`]: containers of Intel's that mdadm made.
//! - [`features`]: arrays that md made with bitmaps, journals, logs and work unfinished.
//! - [`states`]: arrays that md left degraded, half-resynced and so on.

pub mod features;
pub mod files;
pub mod golden;
pub mod imsm;
pub mod load;
pub mod loops;
pub mod mdadm;
pub mod nbd;
pub mod program;
pub mod report;
pub mod states;
pub mod tools;
pub mod vm;
