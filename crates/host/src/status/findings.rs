//! Places where redundancy disagrees or can't be read: the findings of a check, a repair or a recovery.

use core::ops::Range;

use brindle_array::{Array, BadPlace, Mismatch, MismatchKind, Redundancy, SyncMode, SyncReport};
use brindle_format::md::display_uuid;
use serde::{Deserialize, Serialize};

/// The report of `brindle check --json` and `brindle repair --json`: of repair, what it found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Findings {
    /// The UUID of the array.
    pub uuid: String,
    /// The level of the array.
    pub level: String,
    /// Bytes of each member, or of the array for mirrors.
    pub checked: u64,
    /// md's unit: 512-byte sectors.
    pub mismatch_cnt: u64,
    /// Sectors of 512 bytes that disagree, of which it is not known which member is wrong.
    pub unlocated: u64,
    /// Bytes that could not be compared since members are missing, or can't be read.
    pub unverified: u64,
    /// Bytes of members that can't be read.
    pub unreadable: u64,
    /// The first places that disagree.
    pub places: Vec<FoundPlace>,
    /// The first places that can't be read.
    pub bad_places: Vec<Bad>,
    /// Redundancy was never brought in sync before: all of it was made, and nothing was located.
    #[serde(default)]
    pub resynced: bool,
}

/// A process that has ended, and its findings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// The process's findings, up to where it came.
    #[serde(flatten)]
    pub findings: Findings,
    /// `check`, `recover` and so on.
    pub action: String,
    /// The reason why the process did not complete.
    pub error: Option<String>,
}

/// A place of a member that can't be read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Bad {
    /// The role of the member.
    pub role: u16,
    /// The member, as it was named.
    pub device: Option<String>,
    /// In its data area.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Bytes of the array that stand there; none if it is parity.
    #[serde(default)]
    pub array: Vec<Bounds>,
}

/// A range of bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Bounds {
    /// The first.
    pub from: u64,
    /// Behind the last.
    pub to: u64,
}

impl Bounds {
    /// Ranges of the array that a range of a role's data area holds.
    pub fn held(array: &Array, role: u16, range: Range<u64>) -> Vec<Self> {
        let ranges = array.array_ranges(role, range).into_iter();
        ranges.map(|range| Self { from: range.start, to: range.end }).collect()
    }
}

/// A place that disagrees.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FoundPlace {
    /// The part that disagrees: p, q, copy or data.
    pub kind: String,
    /// The role of the member.
    pub role: u16,
    /// The member, as it was named.
    pub device: Option<String>,
    /// In its data area.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// This member is wrong, and no other.
    pub located: bool,
}

/// The process for a repair with --locate, which writes only blocks that are known to be wrong.
///
/// # Errors
/// Why there is none.
pub fn mode_of_locating(redundancy: Redundancy) -> Result<SyncMode, &'static str> {
    match redundancy {
        Redundancy::Made => Ok(SyncMode::Locate),
        // Redundancy was never made, as after `--assume-clean`: the wrong member can't be located.
        Redundancy::NeverMade => Ok(SyncMode::Repair),
        Redundancy::InDoubt => Err(IN_DOUBT),
    }
}

const IN_DOUBT: &str = "redundancy disagrees with the data in so much of the array that either it hardly was ever in sync, as after \
create --assume-clean, or one member was written over: nothing tells which, and nothing was changed. If one was, fail it, remove it and \
add it again; if the right members have the right roles, repair the array once without locating";

impl Findings {
    /// The findings of a process over an array.
    pub fn of(array: &Array, found: &SyncReport) -> Self {
        let detail = array.detail();
        let device = |role: u16| {
            let at = detail.roles.get(usize::from(role))?.device?;
            Some(detail.devices.get(at)?.label.clone())
        };
        let bad = |place: &BadPlace| Bad {
            role: place.role,
            device: device(place.role),
            offset: place.offset,
            length: place.len,
            array: Bounds::held(array, place.role, place.offset..place.offset + place.len),
        };
        let place = |place: &Mismatch| FoundPlace {
            kind: kind(place.kind).to_owned(),
            role: place.role,
            device: device(place.role),
            offset: place.offset,
            length: place.len,
            located: place.located,
        };
        Self {
            uuid: display_uuid(detail.uuid).to_string(),
            level: array.geometry().level().name().to_owned(),
            checked: array.sync_len(),
            mismatch_cnt: found.mismatch_sectors,
            unlocated: found.unlocated,
            unverified: found.unverified,
            unreadable: found.unreadable,
            bad_places: found.bad_places.iter().filter(|place| !place.mended).map(bad).collect(),
            places: found.places.iter().map(place).collect(),
            resynced: false,
        }
    }
}

fn kind(kind: MismatchKind) -> &'static str {
    match kind {
        MismatchKind::P => "p",
        MismatchKind::Q => "q",
        MismatchKind::Copy => "copy",
        MismatchKind::Data => "data",
    }
}
