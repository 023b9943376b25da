//! Linux md metadata: superblocks 0.90 and 1.x and the structures beside them.
//!
//! Field meanings follow the kernel's `include/uapi/linux/raid/md_p.h` and `drivers/md/md.c`, and mdadm's `super0.c`
//! and `super1.c`. `docs/formats` draws every structure byte by byte; `tests/format/documents.rs` holds it to this code.

pub mod badblocks;
pub mod bitmap;
mod codec;
pub mod defaults;
pub mod displaced;
mod error;
mod features;
pub mod journal;
mod name;
pub mod ppl;
mod role;
mod superblock;
mod torn;
mod torn_v0;
mod units;
mod v0;
mod v1;
mod version;

pub use error::{EncodeError, SuperblockError};
pub use features::Features;
pub use name::{display_uuid, full_name, parse_uuid, split_name};
pub use role::DeviceRole;
pub use superblock::{BadBlockLog, DeviceFlags, Ppl, Reshape, Superblock, Timestamp};
pub use uuid::Uuid;
pub use version::{Endian, Probe, Version, probe_offsets};

/// First word of every md superblock, 0.90 and 1.x.
pub const MAGIC: u32 = 0xa92b_4efc;

/// Bytes that a superblock of any version occupies at most, and that are read and written at its offset.
pub const SUPERBLOCK_BYTES: usize = 4096;

/// Devices that a 0.90 superblock can describe.
pub const MAX_DEVICES_0_90: usize = 27;

/// Devices that fit in the 4 KiB of a 1.x superblock: (4096 - 256) / 2.
pub const MAX_DEVICES_1: usize = 1920;

/// Entries of the role table of a new 1.x superblock for few devices: 512 bytes in all (see [`defaults::max_dev`]).
pub const DEFAULT_MAX_DEV_1: usize = 128;
