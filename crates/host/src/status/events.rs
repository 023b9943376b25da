//! Events of a running array.

use core::ops::Range;

use brindle_array::Event;
use brindle_members::events::{self as members, Kind};
use serde::{Deserialize, Serialize};

use super::ReportWord;
use super::drive::DriveStatus;
use super::findings::Bounds;
use super::pools::DamagedStatus;

/// Something that happened to an array.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EventStatus {
    /// From 1 in each run.
    pub number: u64,
    /// Seconds since 1970.
    pub at: u64,
    /// `member-failed` and so on.
    pub kind: ReportWord,
    /// The array that is a member, as it was named, if it happened there.
    pub array: Option<String>,
    /// The member's role.
    pub role: Option<u16>,
    /// The member, as it was named.
    pub member: Option<String>,
    /// The member's drive; none of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveStatus>,
    /// `write`, `command` and so on.
    pub operation: Option<ReportWord>,
    /// Byte of the device.
    pub offset: Option<u64>,
    /// The device's answer.
    pub error: Option<String>,
    /// The event in words.
    pub text: String,
    /// Bytes of the member's data area.
    pub range: Option<Bounds>,
    /// Bytes of the array.
    pub array_range: Option<Bounds>,
    /// Sectors of 512 bytes that disagreed.
    pub mismatch_cnt: Option<u64>,
    /// Blocks of 4096 bytes concerned, of pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// The range of a volume that is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<DamagedStatus>,
}

impl EventStatus {
    /// The status of a pool's event, with the name of the member concerned.
    pub(crate) fn of_member<K: Kind>(
        event: &members::Event<K>,
        kind: &'static str,
        member: Option<String>,
    ) -> Self {
        let cause = event.cause;
        let bounds = |range: &Range<u64>| Bounds { from: range.start, to: range.end };
        Self {
            number: event.number,
            at: event.at,
            kind: kind.into(),
            array: None,
            role: event.role,
            member,
            drive: None,
            operation: cause.and_then(|cause| cause.operation).map(|operation| operation.name().into()),
            offset: cause.and_then(|cause| cause.offset),
            error: cause.and_then(|cause| cause.error).map(|error| error.to_string()),
            text: event.to_string(),
            range: event.range.as_ref().filter(|_| event.role.is_some()).map(bounds),
            array_range: None,
            mismatch_cnt: None,
            blocks: event.blocks,
            damaged: damaged_range(event),
        }
    }

    /// The status of an array's event; `array` names the array if it is nested in the served one.
    pub(crate) fn of(event: &Event, label: Option<&String>) -> Self {
        let cause = event.cause;
        let bounds = |range: &Range<u64>| Bounds { from: range.start, to: range.end };
        Self {
            number: event.number,
            at: event.at,
            kind: event.kind.name().into(),
            array: label.cloned(),
            role: event.role,
            member: event.label.clone(),
            drive: None,
            operation: cause.and_then(|cause| cause.operation).map(|operation| operation.name().into()),
            offset: cause.and_then(|cause| cause.offset),
            error: cause.and_then(|cause| cause.error).map(|error| error.to_string()),
            text: event.to_string(),
            range: event.range.as_ref().map(bounds),
            array_range: event.array.as_ref().map(bounds),
            mismatch_cnt: event.mismatch_sectors,
            blocks: None,
            damaged: None,
        }
    }
}

/// The range of a volume that an event is about: such an event names no member.
fn damaged_range<K>(event: &members::Event<K>) -> Option<DamagedStatus> {
    let (range, volume) = (event.range.as_ref()?, event.label.clone()?);
    let damaged = DamagedStatus { volume, offset: range.start, length: range.end - range.start };
    event.role.is_none().then_some(damaged)
}
