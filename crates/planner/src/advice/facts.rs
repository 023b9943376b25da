//! Facts that advice is given on. Where they come from is not known here: superblocks, sysfs, the first bytes of the array.

use brindle_format::alignment::{Partition, Striping};
use brindle_layout::{Layout, Level};

/// A member.
#[derive(Clone, Debug)]
pub struct MemberPath {
    /// The name that was given.
    pub path: String,
    /// First byte of the array's data on the member.
    pub data_offset: u64,
}

/// The array, its drives, and how the kernel runs it.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its UUID, as md writes it.
    pub uuid: String,
    /// Its level.
    pub level: Level,
    /// The name of its layout, if the level has several.
    pub layout: Option<String>,
    /// Bytes of a chunk, whether it counts or not.
    pub chunk: u64,
    /// Roles.
    pub raid_devices: usize,
    /// Bytes of users' data in a row of chunks; 0 where there is none.
    pub row: u64,
    /// Bytes of its volume.
    pub size: u64,
    /// Bytes used of each member.
    pub component: u64,
    /// Roles without a member.
    pub missing: usize,
    /// Redundancy is not known to be in sync.
    pub in_doubt: bool,
    /// Its members.
    pub members: Vec<MemberPath>,
    /// Its write-intent bitmap.
    pub bitmap: Bitmap,
    /// The array's content, or why it can't be read.
    pub content: Result<ArrayContent, String>,
    /// The layout as `Geometry` takes it, for predictions.
    pub shape: Layout,
    /// Drives of the members, in their order.
    pub drives: Vec<Drive>,
    /// The array as the kernel runs it.
    pub md: Option<Md>,
}

/// The write-intent bitmap.
#[derive(Clone, Debug)]
pub enum Bitmap {
    /// The array has no bitmap.
    None,
    /// Bytes to a bit.
    Chunk(u64),
    /// Why it can't be read.
    Unreadable(String),
}

/// The content of the array.
#[derive(Clone, Debug)]
pub struct ArrayContent {
    /// The array's partitions; without a table, the whole array as one.
    pub parts: Vec<(Partition, Option<Striping>)>,
    /// Whether there is a partition table.
    pub partitioned: bool,
    /// Names of other signatures at its start.
    pub named: Vec<String>,
}

/// An array that the kernel runs. Settings are none where sysfs does not tell.
#[derive(Clone, Debug, Default)]
pub struct Md {
    /// Its name, as in `md0`.
    pub name: String,
    /// Bytes that are read ahead.
    pub read_ahead: Option<u64>,
    /// Entries of the stripe cache.
    pub stripe_cache: Option<u64>,
    /// Bytes of a discard at most.
    pub discard_max: Option<u64>,
    /// The last action over all of the array.
    pub last_action: Option<String>,
    /// Sectors in which redundancy was wrong, of that action.
    pub mismatches: Option<u64>,
}

/// A member's device, and the settings of the disk that it is or lies on. They are none where sysfs does not tell.
#[derive(Clone, Debug, Default)]
pub struct Drive {
    /// The device, as it was named.
    pub path: String,
    /// Name of the disk.
    pub disk: Option<String>,
    /// The byte of the disk at which a partition begins; none for a whole disk.
    pub start: Option<u64>,
    /// Whether the drive has heads.
    pub rotates: Option<bool>,
    /// Schedulers, the active one in brackets.
    pub scheduler: Option<String>,
    /// Requests that the drive takes at a time.
    pub queue_depth: Option<u64>,
    /// Requests that the kernel keeps waiting for it.
    pub requests: Option<u64>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Bytes of a discard at most.
    pub discard_max: Option<u64>,
    /// The physical block of the drive, in bytes.
    pub physical_block: Option<u64>,
    /// The optimal I/O size of the drive, in bytes.
    pub optimal_io: Option<u64>,
}

impl Facts {
    /// Bytes of a chunk, where the level has chunks that count.
    pub fn chunk(&self) -> Option<u64> {
        (!matches!(self.level, Level::Linear | Level::Raid1)).then_some(self.chunk)
    }

    /// Bytes of users' data in a row of chunks.
    pub fn row(&self) -> Option<u64> {
        self.chunk().map(|_| self.row)
    }

    pub(super) fn has_parity(&self) -> bool {
        matches!(self.level, Level::Raid4 | Level::Raid5 | Level::Raid6)
    }
}

impl Drive {
    /// The model that ships for drives of its kind.
    pub fn kind(&self) -> Option<&'static str> {
        let disk = self.disk.as_deref()?;
        match self.rotates? {
            // The kernel finds a cache to write back where the drive loses it with the power: one that is protected is none to it.
            false if disk.starts_with("nvme") => match self.write_cache.as_deref().map(str::trim) {
                Some("write back") => Some("nvme-consumer"),
                _ => Some("nvme"),
            },
            false => Some("sata-ssd"),
            true => Some("hdd-7200"),
        }
    }
}
