//! Flags of the commands that talk to a running server.

use std::path::{Path, PathBuf};

use brindle_host::control::{DeviceFlag, Word};
use brindle_host::opening::SpareGroup;
use clap::Args;

use brindle_layout::Level;

use super::{Bitmap, Given, MemberSize, Save};
use crate::base::units::{Bytes, Span};

/// A word of the control protocol, said on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said<T>(pub(crate) T);

/// Where control sockets are.
#[derive(Clone, Debug, Args)]
pub(crate) struct Runtime {
    /// Folder of the control sockets [default: $XDG_RUNTIME_DIR/brindle, or /run/brindle for root]
    #[arg(long, env = "BRINDLE_RUNTIME_DIR", value_name = "FOLDER")]
    pub(crate) runtime_dir: Option<PathBuf>,
}

impl Runtime {
    /// The folder, if one was said.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.runtime_dir.as_deref()
    }
}

/// Flags of `brindle status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit as mdadm --detail --test does: 0 whole, 1 degraded, 2 too many members are lost, 4 nothing is known. It
    /// is 8 more if members had read errors or wrong blocks that count still, 16 more if blocks of a pool are lost. Of several arrays it is the
    /// sum of the different ones
    #[arg(long, short = 't')]
    pub(crate) test: bool,
    /// Name of the array, its UUID or one of its members [default: all that run]
    pub(crate) array: Option<String>,
}

/// Flags of `brindle fail`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct Fail {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) stopped: Stopped,
    #[command(flatten)]
    pub(crate) given: Given,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, or its UUID [default: the one that has the member]
    pub(crate) array: Option<String>,
    /// The member, as it was named to `serve`, or its role's number
    pub(crate) member: String,
}

/// Flags of `brindle add`.
#[derive(Debug, Args)]
#[command(
    override_usage = "brindle add [OPTIONS] ARRAY DEVICE...|missing\n       brindle add [OPTIONS] --array MEMBER... -- DEVICE...|missing"
)]
pub(crate) struct Add {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) stopped: Stopped,
    #[command(flatten)]
    pub(crate) given: Given,
    /// Overwrite file systems, partition tables and other arrays on the devices
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Take the devices only as the members that they were: failed ones of the array too, and ones that it was started without;
    /// `missing` stands for all that can be found
    #[arg(long, conflicts_with = "force")]
    pub(crate) re_add: bool,
    #[command(flatten)]
    pub(crate) save: Save,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID, or one of its members; then disks, partitions or files, or `missing`
    #[arg(required = true, value_name = "DEVICE")]
    pub(crate) names: Vec<String>,
}

/// Flags of `brindle remove`.
#[derive(Debug, Args)]
#[command(
    override_usage = "brindle remove [OPTIONS] ARRAY DEVICE|failed|detached...\n       brindle remove [OPTIONS] --array MEMBER... -- DEVICE..."
)]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) stopped: Stopped,
    #[command(flatten)]
    pub(crate) given: Given,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID, or one of its members; then devices as they were named to it, or `failed` or `detached`
    #[arg(required = true, value_name = "DEVICE")]
    pub(crate) names: Vec<String>,
}

/// Flags of `brindle replace`.
#[derive(Debug, Args)]
#[command(
    override_usage = "brindle replace [OPTIONS] --with <DEVICE> ARRAY MEMBER\n       brindle replace [OPTIONS] --array MEMBER... --with <DEVICE> MEMBER"
)]
pub(crate) struct Replace {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) stopped: Stopped,
    #[command(flatten)]
    pub(crate) given: Given,
    /// The device that takes its place: a spare of the array, or a disk, partition or file that becomes one
    #[arg(long, value_name = "DEVICE")]
    pub(crate) with: Option<String>,
    /// Overwrite file systems, partition tables and other arrays on that device
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID, or one of its members; then the member, as it was named to the array, or its role's number
    #[arg(required = true, value_name = "MEMBER")]
    pub(crate) names: Vec<String>,
}

/// Flags of `brindle grow`.
#[derive(Debug, Args)]
#[command(
    override_usage = "brindle grow [OPTIONS] --size max|SIZE ARRAY\n       brindle grow [OPTIONS] --raid-devices COUNT [--add DEVICE]... ARRAY\n       brindle grow [OPTIONS] --level 1|5|6 [--add DEVICE]... ARRAY\n       brindle grow [OPTIONS] --bitmap internal|none|FILE ARRAY\n       brindle grow [OPTIONS] --write-behind[=<COUNT>] ARRAY\n       brindle grow [OPTIONS] --size max|SIZE --array MEMBER...\n       brindle grow [OPTIONS] --raid-devices COUNT [--add DEVICE]... --array MEMBER...\n       brindle grow [OPTIONS] --bitmap internal|none|FILE --array MEMBER..."
)]
pub(crate) struct Grow {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) stopped: Stopped,
    /// Bytes that the array is to use of each member (RAID 1, 4, 5 and 6); max: as many as the smallest has room for. The new part is
    /// resynced. A smaller size needs --force, once what stands on the array has been made smaller; a plain number counts KiB
    #[arg(long, short = 'z', value_name = "max|SIZE", conflicts_with_all = ["bitmap", "bitmap_chunk", "write_behind"])]
    pub(crate) size: Option<MemberSize>,
    /// Members that the array is to have. Data of a RAID 4, 5 or 6 move into rows of more members, while it is used. New members of a RAID 1
    /// are rebuilt on spares; of fewer, those go first that are lost, then the last ones, which become spares
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["size", "bitmap", "bitmap_chunk", "write_behind", "level"])]
    pub(crate) raid_devices: Option<u16>,
    /// Level that the array is to have, by which no byte moves. 5: of a RAID 1 of two members; 1: of a RAID 5 of two; 6: of a RAID 5, with
    /// Q on a member more, in the layouts left-symmetric-6 and the like; 5: of such a RAID 6
    #[arg(long, short = 'l', value_name = "LEVEL", conflicts_with_all = ["size", "bitmap", "bitmap_chunk", "write_behind"])]
    pub(crate) level: Option<Level>,
    /// Devices that are added to the array first, for new members
    #[arg(long, value_name = "DEVICE", num_args = 1, conflicts_with_all = ["size", "bitmap", "write_behind"])]
    pub(crate) add: Vec<PathBuf>,
    /// Take the redundancy of the new part for true: members hold the same there, zeroes as a rule
    #[arg(long, requires = "size")]
    pub(crate) assume_clean: bool,
    /// Only show what would become of the array
    #[arg(long, short = 'n', conflicts_with_all = ["bitmap", "bitmap_chunk", "write_behind"])]
    pub(crate) dry_run: bool,
    /// The write-intent bitmap that the array is to have from now on. internal: beside each superblock; none; or a new file, with a '/' in
    /// its name, which is to be given whenever the array is assembled
    #[arg(long, short = 'b', value_name = "internal|none|FILE")]
    pub(crate) bitmap: Option<Bitmap>,
    /// The file that has the bitmap of an array that is not served
    #[arg(long, value_name = "FILE", requires = "stopped")]
    pub(crate) from: Option<PathBuf>,
    /// Overwrite a file that is there, also one on an NBD device; or make the array smaller
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Bytes to a bit of the bitmap, a power of two [default: as mdadm chooses for its place]; a plain number counts KiB
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse_power)]
    pub(crate) bitmap_chunk: Option<Bytes>,
    /// Acknowledge up to COUNT writes before write-mostly members have them (RAID 1), on record in the bitmap that the array is given, or
    /// has; 0 acknowledges none early [default: 256 without a number]
    #[arg(long, value_name = "COUNT", num_args = 0..=1, require_equals = true, default_missing_value = "256")]
    pub(crate) write_behind: Option<u32>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID, or one of its members [default: the only one]
    pub(crate) array: Option<String>,
}

impl std::str::FromStr for Said<SpareGroup> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, arrays) = match text.split_once('=') {
            Some((name, arrays)) => (name, arrays.split(',').map(str::to_owned).collect()),
            None => (text, Vec::new()),
        };
        if name.is_empty() || arrays.iter().any(String::is_empty) {
            return Err("give NAME, for all arrays of the server, or NAME=ARRAY,ARRAY".to_owned());
        }
        Ok(Self(SpareGroup { name: name.to_owned(), arrays }))
    }
}

/// An array that is not served, in the place of one that runs.
#[derive(Debug, Args)]
pub(crate) struct Stopped {
    /// The members of an array that is not served, in any order, instead of an array's name
    #[arg(long = "array", id = "stopped", value_name = "MEMBER", num_args = 1..)]
    pub(crate) members: Vec<PathBuf>,
}

/// A pool that is not served, to be changed.
#[derive(Debug, Args)]
pub(crate) struct StoppedPool {
    #[command(flatten)]
    pub(crate) stopped: Stopped,
    /// Change it though members are missing that were in use: they are out of use from then on
    #[arg(long, requires = "stopped")]
    pub(crate) degraded: bool,
}

/// Flags of `brindle flag`.
#[derive(Debug, Args)]
pub(crate) struct Flag {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Clear the flag
    #[arg(long)]
    pub(crate) clear: bool,
    /// Name of the array, its UUID, or one of its members
    pub(crate) array: String,
    /// The device, as it was named to `serve`, or its role's number
    pub(crate) device: String,
    /// The flag
    pub(crate) flag: Said<DeviceFlag>,
}

/// Flags of `brindle action`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct Action {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Bytes a second at most; 0 for no limit
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) max_speed: Option<Bytes>,
    /// Bytes a second at least, where members can, whatever clients ask for; without it, or with 0, more than half of
    /// the time is left to clients
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) min_speed: Option<Bytes>,
    /// Name of the array, its UUID, or one of its members [default: the only one]
    pub(crate) array: Option<String>,
    /// The action
    pub(crate) action: Said<Word>,
}

/// Flags of `brindle wait`.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Time between two lines of progress where standard error is not a terminal
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = Span::parse)]
    pub(crate) interval: Span,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID, or one of its members [default: the only one]
    pub(crate) array: Option<String>,
}

/// Flags of `brindle scrub`.
#[derive(Debug, Args)]
pub(crate) struct Scrub {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Time after which it is paused [default: none, it runs to its end]
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    pub(crate) window: Option<Span>,
    /// Days after a check before the next is due
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    pub(crate) every: u32,
    /// Most bytes a second of each member
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) max_speed: Option<Bytes>,
    /// Folder of the records [default: /var/lib/brindle/scrubs]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) state: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID, or one of its members [default: the only one]
    pub(crate) array: Option<String>,
}

/// Flags of `brindle watch`.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Time between two looks; rates are averages over it
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = Span::parse)]
    pub(crate) interval: Span,
    /// Print once, as text
    #[arg(long)]
    pub(crate) once: bool,
    /// Print once, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID, or one of its members [default: all that run]
    pub(crate) array: Option<String>,
}

/// Flags of `brindle stop`.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The whole server of the array, with all that it serves
    #[arg(long)]
    pub(crate) all: bool,
    /// Name of the array, its UUID or one of its members [default: the only server, with all that it serves]
    pub(crate) array: Option<String>,
}
