//! Bytes to structs and back: md superblocks, bitmaps, bad blocks, PPL, journal. No I/O.
//!
//! Everything here is a pure function from bytes to a struct or a typed error, and from a struct to bytes: no file is
//! opened, no clock is read. What comes from a disk is hostile until checked: parsers never index a slice, never do
//! arithmetic that can overflow, and never allocate more than the bytes they were given justify.
//!
//! - [`imsm`]: the metadata of Intel's containers.
//! - [`md`]: the metadata of Linux md, versions 0.90 (both byte orders), 1.0, 1.1 and 1.2.
//! - [`pool`]: the format of pools.
//! - [`alignment`]: the stripe geometry that a file system was given, and the starts of partitions.
//! - [`signature`]: what stands on a device already (file systems, partition tables, other RAID).
//! - [`table`]: the partition table of a disk that is a member of a pool.
//!
//! Sizes and offsets are bytes unless a name says sectors; a sector is 512 bytes.

#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::arithmetic_side_effects
    )
)]

pub mod alignment;
pub mod imsm;
mod kind;
pub mod md;
pub mod pool;
pub mod signature;
pub mod table;

/// Bytes in the sector that md counts in, whatever the device's own sector size.
pub const SECTOR: u64 = 512;
