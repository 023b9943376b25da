//! Flags of `brindle cat`.

use std::path::PathBuf;

use clap::Args;

use super::{Assuming, Tuning};
use crate::base::units::Bytes;

/// Flags of `brindle examine`.
#[derive(Debug, Args)]
pub(crate) struct Examine {
    /// Look through all of each device for members that end before it does, as a member does that was copied onto a larger disk, or whose
    /// partition is in no table any more. Without it that is done only where nothing else is found on a device of 1 GiB at most
    #[arg(long)]
    pub(crate) search: bool,
    /// Keep the metadata of a disk of Intel's RAID, and nothing else, in a new file, which commands take in the place of the disk
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scan", "json", "search"])]
    pub(crate) dump: Option<PathBuf>,
    /// Without names and serial numbers
    #[arg(long, requires = "dump")]
    pub(crate) anonymous: bool,
    /// Print a line of mdadm.conf for each array: of the devices and folders that are named, or of all disks and partitions
    #[arg(long, short = 's', conflicts_with_all = ["search", "json"])]
    pub(crate) scan: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Disks, partitions or files
    #[arg(required_unless_present = "scan", value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
}

/// Flag of commands that only read members.
#[derive(Debug, Args)]
pub(crate) struct Searching {
    /// Look through all of each device that is not a member itself for members that end before it does, as examine --search does. Without
    /// it that is done only where nothing else is found on a device of 1 GiB at most
    #[arg(long)]
    pub(crate) search: bool,
}

/// Flags of commands that read volumes of Intel's containers.
#[derive(Debug, Args)]
pub(crate) struct OfContainer {
    /// Of disks of Intel's RAID: the volume that is meant, by its name or number
    #[arg(long, value_name = "NAME|NUMBER")]
    pub(crate) volume: Option<String>,
    /// Of disks of Intel's RAID: all disks by their numbers in the container, where neither serial numbers nor names of files tell which is
    /// which: A,B,missing,...
    #[arg(long, value_name = "LIST")]
    pub(crate) disks: Option<String>,
}

/// Flags of `brindle cat`.
#[derive(Debug, Args)]
pub(crate) struct Cat {
    /// File or block device to write to, in the place of standard output; a new file is sparse where the array has zeroes
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Map of the parts that have been read, in GNU ddrescue's form [default: the output's name with .map]
    #[arg(long, value_name = "FILE", requires = "output")]
    pub(crate) map: Option<PathBuf>,
    /// Write over an output that is there already
    #[arg(long, requires = "output")]
    pub(crate) overwrite: bool,
    /// Only this partition of the array
    #[arg(long, value_name = "NUMBER")]
    pub(crate) partition: Option<u32>,
    /// First byte
    #[arg(long, default_value = "0", value_parser = Bytes::parse)]
    pub(crate) offset: Bytes,
    /// Bytes [default: to the end]
    #[arg(long, short = 'l', value_parser = Bytes::parse)]
    pub(crate) length: Option<Bytes>,
    /// Read an array that lacks more members than it can do without, as far as those go that are there: the rest is zeroes in the output,
    /// and in the map as not read. The exit status is 8 then. With --force and --output that is done where nothing else helps
    #[arg(long, requires = "output")]
    pub(crate) partial: bool,
    /// Read an array of which some bytes may be wrong: dirty and degraded, with writes left in its journal, in a reshape
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) container: OfContainer,
    #[command(flatten)]
    pub(crate) assuming: Assuming,
    #[command(flatten)]
    pub(crate) searching: Searching,
    #[command(flatten)]
    pub(crate) tuning: Tuning,
    /// The array's members, in any order; A+B+C is the array that A, B and C form, as a member. DISK#3 is the third partition of DISK,
    /// A+B+C#1 the first of that array, as is NAME#1 before the members of the array NAME. Of a pool POOL/VOLUME, then its members
    #[arg(required_unless_present = "assume", value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
}
