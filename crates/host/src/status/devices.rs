//! Devices of a running array.

use brindle_array::{Array, Cause, DeviceDetail, DeviceState, Failed, SyncReport};
use brindle_io::MemberCounters;
use serde::{Deserialize, Serialize};

use super::ReportWord;
use super::drive::DriveStatus;
use super::facts::{flags, left_out};
use super::findings::Bounds;

/// A device of a running array.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceStatus {
    /// The role that it fills, or filled.
    pub role: Option<u16>,
    /// The name that was given.
    pub path: String,
    /// The drive's identity when the device was opened; none for files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveStatus>,
    /// The reason why its drive is called failing by SMART, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<String>,
    /// `in-sync`, `failed` and so on.
    pub state: ReportWord,
    /// Why it failed in this run.
    pub failure: Option<FailureStatus>,
    /// Places that a recovery could not rebuild.
    pub bad_blocks: Option<BadBlocks>,
    /// `write-mostly`, `failfast`.
    pub flags: Vec<ReportWord>,
    /// Time of its answers as a multiple of most others'.
    pub slower: Option<u64>,
    /// Read errors that count now.
    pub read_errors: Option<u32>,
    /// Operations and how they were answered.
    pub io: IoStatus,
}

/// Why and when a device failed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FailureStatus {
    /// Seconds since 1970.
    pub at: u64,
    /// `write`, `command` and so on.
    pub operation: Option<ReportWord>,
    /// Byte of the device.
    pub offset: Option<u64>,
    /// The device's answer.
    pub error: Option<String>,
    /// The whole in words.
    pub why: String,
}

/// Places of a member that can't be read until they are rewritten.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BadBlocks {
    /// The sum of the ranges, in bytes.
    pub bytes: u64,
    /// The first ones.
    pub places: Vec<BadPlaces>,
}

/// A run of bad blocks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BadPlaces {
    /// In the member's data area.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Bytes of the array in these ranges.
    pub array: Vec<Bounds>,
}

/// Operations of one member in this run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in MemberCounters")]
pub struct IoStatus {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub other: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub errors: u64,
    /// Places that were rewritten after they could not be read.
    pub corrected: u64,
    /// How often others began to answer in its place.
    pub slow: u64,
    pub given_up: u64,
    pub late: u64,
    pub in_flight: usize,
    /// Seconds.
    pub oldest: Option<f64>,
    /// Counts of latencies by powers of two, from a microsecond.
    pub read_latency: Vec<u64>,
    /// Latencies of its writes, as above.
    pub write_latency: Vec<u64>,
}

impl DeviceStatus {
    /// The status of a device of `array`, with its counts of operations, corrections and slow answers.
    pub(crate) fn of(
        array: &Array,
        device: &DeviceDetail,
        counters: &MemberCounters,
        corrected: u64,
        slow: u64,
    ) -> Self {
        let in_use = matches!(device.state, DeviceState::InSync | DeviceState::Recovering { .. });
        let in_use = device.role.filter(|_| in_use);
        Self {
            role: device.role,
            path: device.label.clone(),
            drive: None,
            failing: None,
            state: state_word(device).into(),
            failure: device.failure.as_ref().map(FailureStatus::of),
            bad_blocks: in_use.and_then(|role| BadBlocks::of(array, role)),
            flags: flags(device.flags).into_iter().map(ReportWord::from).collect(),
            slower: device.slower,
            read_errors: in_use.map(|role| array.read_errors(role)),
            io: IoStatus::of(counters, corrected, slow),
        }
    }
}

impl FailureStatus {
    fn of(failed: &Failed) -> Self {
        let cause: Cause = failed.cause;
        Self {
            at: failed.at,
            operation: cause.operation.map(|operation| operation.name().into()),
            offset: cause.offset,
            error: cause.error.map(|error| error.to_string()),
            why: cause.to_string(),
        }
    }
}

impl BadBlocks {
    /// None if all of a member in use can be read.
    fn of(array: &Array, role: u16) -> Option<Self> {
        let bad = array.bad_blocks(role);
        if bad.is_empty() {
            return None;
        }
        let places = bad.iter().take(SyncReport::PLACES).map(|range| BadPlaces {
            offset: range.start,
            length: range.end - range.start,
            array: Bounds::held(array, role, range.clone()),
        });
        let places = places.collect();
        Some(Self { bytes: bad.iter().map(|range| range.end - range.start).sum(), places })
    }
}

impl IoStatus {
    pub(crate) fn of(counters: &MemberCounters, corrected: u64, slow: u64) -> Self {
        Self {
            reads: counters.reads,
            writes: counters.writes,
            flushes: counters.flushes,
            other: counters.other,
            bytes_read: counters.bytes_read,
            bytes_written: counters.bytes_written,
            errors: counters.errors,
            corrected,
            slow,
            given_up: counters.given_up,
            late: counters.late,
            in_flight: counters.in_flight,
            oldest: counters.oldest.map(|age| age.as_nanos() as f64 / 1e9),
            read_latency: counters.read_latency.buckets.to_vec(),
            write_latency: counters.write_latency.buckets.to_vec(),
        }
    }
}

fn state_word(device: &DeviceDetail) -> &'static str {
    match device.state {
        DeviceState::InSync => "in-sync",
        DeviceState::Recovering { .. } => "recovering",
        DeviceState::Replacement { .. } => "replacement",
        DeviceState::Failed => "failed",
        DeviceState::Spare => "spare",
        DeviceState::Journal => "journal",
        DeviceState::LeftOut(why) => left_out(why),
    }
}
