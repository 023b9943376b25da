//! Fields of an array that stay the same while it runs.

use brindle_array::{Flags, LeftOut};
use brindle_format::md::{Superblock, split_name};
use brindle_layout::{Layout, Level};
use serde::{Deserialize, Serialize};

use super::ReportWord;

/// An array as it was assembled.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ArrayFacts {
    /// The UUID in mdadm's format.
    pub uuid: String,
    /// `host:name` as a rule.
    pub name: String,
    /// The host in that.
    pub homehost: Option<String>,
    /// `1.2` and so on.
    pub metadata: String,
    /// `raid5` and so on.
    pub level: ReportWord,
    /// The layout by mdadm's name.
    pub layout: Option<String>,
    /// Bytes; none where the level has no chunks.
    pub chunk: Option<u64>,
    /// Bytes of the array.
    pub size: u64,
    /// Bytes used of each member.
    pub component_size: Option<u64>,
    /// Roles.
    pub raid_devices: usize,
    /// Seconds since 1970.
    pub created: u64,
    /// Seconds since 1970.
    pub updated: u64,
    /// A reshape under way.
    pub reshape: Option<ReshapeFacts>,
    /// Reasons why the array is read-only, or its content less certain.
    pub limits: Vec<String>,
}

/// A reshape under way: where it stands, and the shape that the array will have.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReshapeFacts {
    /// Byte of the array.
    pub position: u64,
    /// Bytes from the position on have been reshaped; else those before it.
    pub backwards: bool,
    /// The layout of the new shape.
    pub layout: Option<String>,
    /// The chunk of the new shape, in bytes.
    pub chunk: u64,
    /// Roles before.
    pub from_devices: u32,
    /// Roles after.
    pub to_devices: u32,
}

impl ReshapeFacts {
    /// The reshape of a superblock; `None` if there is none.
    pub fn of(sb: &Superblock) -> Option<Self> {
        let reshape = sb.reshape.as_ref()?;
        let layout = Level::from_md(reshape.new_level)
            .ok()
            .and_then(|level| Layout::from_md(level, reshape.new_layout).ok())
            .filter(|layout| *layout != Layout::None);
        Some(Self {
            position: reshape.position,
            backwards: sb.reshapes_backwards(),
            layout: layout.map(|layout| layout.name()),
            chunk: reshape.new_chunk,
            from_devices: sb.old_raid_disks(),
            to_devices: sb.raid_disks,
        })
    }
}

/// The host that an array's name says it belongs to.
pub fn homehost(name: &str) -> Option<String> {
    split_name(name).0.map(str::to_owned)
}

/// The names of a device's flags.
pub fn flags(flags: Flags) -> Vec<&'static str> {
    let known = [(flags.write_mostly, "write-mostly"), (flags.failfast, "failfast")];
    known.into_iter().filter_map(|(set, name)| set.then_some(name)).collect()
}

/// The word for a device that an array goes without.
pub fn left_out(why: LeftOut) -> &'static str {
    match why {
        LeftOut::Stale { .. } => "stale",
        LeftOut::Faulty => "faulty",
        LeftOut::Replacement => "replacement",
    }
}
