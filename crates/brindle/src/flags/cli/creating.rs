//! Flags of `brindle create`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Bitmap;
use crate::base::units::Bytes;

/// Flags of `brindle create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Name of the array (metadata 1.x); `HOST:NAME` names the home host too
    #[arg(long, short = 'N')]
    pub(crate) name: Option<String>,
    /// linear, 0, 1, 4, 5, 6, 10, or raid0 and so on
    #[arg(long, short = 'l')]
    pub(crate) level: String,
    /// Parity layout (left-symmetric, ddf-zero-restart, left-symmetric-6, ...), n2, f2, o2 and so on for RAID 10,
    /// original or alternate for RAID 0 over members of different sizes
    #[arg(long, short = 'p')]
    pub(crate) layout: Option<String>,
    /// Chunk size [default: 512K]; a plain number counts KiB, as with mdadm
    #[arg(long, short = 'c', value_name = "SIZE", value_parser = Bytes::parse_kib)]
    pub(crate) chunk: Option<Bytes>,
    /// Where and how the metadata is kept
    #[arg(long, short = 'e', default_value = "1.2", value_name = "VERSION")]
    pub(crate) metadata: Metadata,
    /// Write-intent bitmap: after a crash only chunks that were being written are resynced. It stands beside each superblock
    /// (internal), or in a new file, with a '/' in its name, which must be given whenever the array is assembled.
    /// [default: internal if more than 100 GiB of each member are used, as with mdadm]
    #[arg(long, short = 'b', value_name = "internal|none|FILE")]
    pub(crate) bitmap: Option<Bitmap>,
    /// Bytes to a bit of the bitmap, a power of two [default: as mdadm chooses]; a plain number counts KiB. A write that finds its bit clear
    /// waits until that is stable. On NVMe drives for desktops, whose cache is lost with the power, that is 3 ms, and 6 with md: random writes
    /// fell from 20,600 a second to 174 (five 980 PRO, 64M). With 1G or 2G most bits are set all the while: see brindle simulate --bitmap-chunk
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse_power)]
    pub(crate) bitmap_chunk: Option<Bytes>,
    /// Bytes of each member to use [default: all]; a plain number counts KiB
    #[arg(long, short = 'z', value_parser = Bytes::parse_kib)]
    pub(crate) size: Option<Bytes>,
    /// Where the data begins on each member [default: as mdadm chooses]; a plain number counts KiB
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse_kib)]
    pub(crate) data_offset: Option<Bytes>,
    /// Take redundancy to be in sync already, without a first resync; correct only if all members are zeroes or agree otherwise
    #[arg(long)]
    pub(crate) assume_clean: bool,
    /// Number of members, to be checked against the names
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) raid_devices: Option<u16>,
    /// The last COUNT of the named members become spares
    #[arg(long, short = 'x', default_value_t = 0, value_name = "COUNT")]
    pub(crate) spares: u16,
    /// A member that is read only when no other can answer (RAID 1); may be given several times
    #[arg(long, value_name = "MEMBER")]
    pub(crate) write_mostly: Vec<PathBuf>,
    /// Acknowledge up to COUNT writes before write-mostly members have them (RAID 1 with a bitmap, which names the writes that they lack
    /// after a crash). A flush waits for all
    #[arg(long, value_name = "COUNT", num_args = 0..=1, require_equals = true, default_missing_value = "256")]
    pub(crate) write_behind: Option<u32>,
    /// A member that is given up sooner when it does not answer, and fails at its first read error, if the other
    /// copies can replace it (RAID 1 and 10); may be given several times
    #[arg(long, value_name = "MEMBER")]
    pub(crate) failfast: Vec<PathBuf>,
    /// Overwrite file systems, partition tables and other arrays on the members, and a file that is there for the bitmap
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Disks, partitions or files; `missing` leaves a role empty; A+B+C is the array that A, B and C form, as a member
    #[arg(required = true, value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
}

/// Metadata versions that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Metadata {
    /// The old format, at the end; at most 27 members, no name
    #[value(name = "0.90", alias = "0")]
    V0_90,
    /// At the end of the member
    #[value(name = "1.0")]
    V1_0,
    /// At the start of the member
    #[value(name = "1.1")]
    V1_1,
    /// 4 KiB from the start of the member
    #[value(name = "1.2", alias = "1")]
    V1_2,
}
