//! Pure arithmetic: where each byte of an array lives. No I/O, no clock, no allocation per call.
//!
//! A [`Geometry`] is made once from a level, a layout, a chunk size and the sizes of the members. From then on it
//! maps bytes in a few nanoseconds and without allocating: bytes of the array to their places ([`Geometry::family`]),
//! and bytes of a member to their use ([`Geometry::place`]). Every formula places bytes exactly where Linux md places
//! them.
//!
//! ```
//! use brindle_layout::{Extent, Family, Geometry, Layout, Level, Place};
//!
//! let layout = Layout::parse(Level::Raid10, "f2")?;
//! let array = Geometry::new(Level::Raid10, layout, 64 << 10, &[1 << 30; 4])?;
//! assert_eq!(array.size(), 2 << 30);
//! assert!(array.can_lose(&[0, 2]) && !array.can_lose(&[0, 1]));
//!
//! let Family::Mirrored(copies) = array.family() else { panic!("RAID 10 keeps copies") };
//! let second = copies.locate(70_000, 1);
//! assert_eq!(second, Extent { member: 2, offset: (512 << 20) + 4464, len: 61_072 });
//! assert_eq!(array.place(2, second.offset), Place::Data { array_offset: 70_000, copy: 1 });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All sizes and offsets are bytes; offsets on a member count from the start of its data area (md's data
//! offset).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod build;
mod divide;
mod error;
mod geometry;
mod layout;
mod level;
mod map;
mod mirrored;
mod parity_layout;
mod parity_rows;
mod place;
mod raid10_layout;
mod row;
mod size;
mod striped;

pub use error::{GeometryError, UnknownLayout, UnknownLevel};
pub use geometry::{Family, Geometry};
pub use layout::{Layout, Raid0Layout};
pub use level::Level;
pub use mirrored::Mirrored;
pub use parity_layout::ParityLayout;
pub use parity_rows::{ParityRows, Position};
pub use place::{Extent, Place};
pub use raid10_layout::{FarSets, Raid10Layout};
pub use row::{Row, RowRole};
pub use size::Size;
pub use striped::Striped;

/// The most members that any geometry accepts: the roles that fit behind a version-1 superblock.
pub const MAX_MEMBERS: u16 = 1920;

/// The most members of a RAID 6: the generator of Q has 255 distinct powers, and md refuses wider syndromes.
pub const MAX_RAID6_MEMBERS: u16 = 255;

/// The smallest chunk of a striped level, and what every chunk is a multiple of.
pub const MIN_CHUNK: u64 = 4096;

/// The largest chunk.
pub const MAX_CHUNK: u64 = 64 << 20;
