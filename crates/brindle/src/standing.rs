//! A running array as reports show it: the one that is served, or one that is a member of it.

use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_array::assembly::{Assembly, Limitation};
use brindle_array::{
    Array, Detail, DeviceDetail, DeviceState, ProcessDetail, ProcessKind, Progress, RoleDetail, RoleState,
    SyncReport,
};
use brindle_io::{Io, MemberCounters, MemberId};
use serde_json::{Value, json};

use crate::events::{self, Tally, Watched};
use crate::findings::Bounds;
use crate::report::{self, ArrayReport, left_out};

/// A running array, what never changes of it, and what happens to it.
pub(crate) struct Standing {
    /// As it was named, if it is a member: `a+b+c`.
    pub(crate) label: Option<String>,
    pub(crate) array: Array,
    io: Io,
    pub(crate) watched: Rc<Watched>,
    /// Names of devices and their files when all links are followed, as they were when each came.
    files: RefCell<Vec<(String, PathBuf)>>,
    fixed: Value,
}

impl Standing {
    /// Begins to watch an array; `of` is the name of the one that is served, where there are several.
    pub(crate) fn new(
        io: &Io,
        of: Option<String>,
        label: Option<String>,
        array: &Array,
        assembly: &Assembly,
        json: bool,
    ) -> Self {
        let file = |label: &String| Some((label.clone(), std::fs::canonicalize(label).ok()?));
        let files = assembly.devices.iter().filter_map(|device| file(&device.label)).collect();
        Self {
            array: array.clone(),
            io: io.clone(),
            watched: Watched::begin(io, array, of, label.clone(), json),
            files: RefCell::new(files),
            fixed: serde_json::to_value(ArrayReport::of(assembly)).unwrap_or_default(),
            label,
        }
    }

    /// How the array is now, with the fields of `brindle detail`.
    pub(crate) fn report(&self) -> Value {
        let detail = self.array.detail();
        let mut report = self.fixed.clone();
        report["state"] = json!(state_words(&detail));
        report["missing"] = json!(missing(&detail));
        report["events"] = json!(detail.events);
        report["devices"] = detail.devices.iter().map(|device| self.device_report(device)).collect();
        report["resync_offset"] = json!(resync_offset(&detail));
        report["exposed"] = json!(detail.exposed);
        // A bitmap comes and goes; a read-only array says what is on its members.
        match &detail.bitmap {
            Some(bitmap) if !bitmap.failed => report["consistency_policy"] = json!("bitmap"),
            _ if !detail.read_only && report["consistency_policy"] == "bitmap" => {
                report["consistency_policy"] = json!("resync");
            }
            _ => {}
        }
        report["bitmap"] = json!(detail.bitmap.map(|bitmap| {
            json!({
                "file": bitmap.file.map(|file| file.label),
                "failed": bitmap.failed,
                "chunk": bitmap.chunk,
                "bits": bitmap.bits,
                "dirty": bitmap.dirty,
                "writes": bitmap.writes,
                "write_behind": bitmap.write_behind,
                "lagging": bitmap.lagging,
                "most_lagging": bitmap.most_lagging,
            })
        }));
        report["sync"] = json!(detail.process.map(sync_report));
        let speeds = self.array.speeds();
        report["max_speed"] = json!(speeds.pace);
        report["min_speed"] = json!(speeds.floor);
        if let Some(label) = &self.label {
            report["label"] = json!(label);
        }
        report
    }

    fn device_report(&self, device: &DeviceDetail) -> Value {
        let in_use = role_in_use(device);
        let tally = device.role.map(|role| self.watched.tally(role)).unwrap_or_default();
        json!({
            "role": device.role,
            "path": device.label,
            "state": state_word(device),
            "failure": device.failure.as_ref().map(events::failure),
            "bad_blocks": self.bad_blocks(device),
            "flags": report::flags(device.flags),
            "slower": device.slower,
            "read_errors": in_use.map(|role| self.array.read_errors(role)),
            "io": counters_report(&self.io.counters(device.id), tally),
        })
    }

    /// What of a member in use can't be read since it could not be rebuilt; null if there is nothing of that.
    fn bad_blocks(&self, device: &DeviceDetail) -> Value {
        let Some(role) = role_in_use(device) else { return Value::Null };
        let bad = self.array.bad_blocks(role);
        if bad.is_empty() {
            return Value::Null;
        }
        let place = |range: &Range<u64>| {
            let array = Bounds::held(&self.array, role, range.clone());
            json!({"offset": range.start, "length": range.end - range.start, "array": array})
        };
        json!({
            "bytes": bad.iter().map(|range| range.end - range.start).sum::<u64>(),
            "places": bad.iter().take(SyncReport::PLACES).map(place).collect::<Vec<_>>(),
        })
    }

    /// The members, as they were named.
    pub(crate) fn members(&self) -> Vec<String> {
        let detail = self.array.detail();
        let label = |role: &RoleDetail| Some(detail.devices[role.device?].label.clone());
        detail.roles.iter().filter_map(label).collect()
    }

    /// All devices, as they were named.
    pub(crate) fn devices(&self) -> Vec<String> {
        self.array.detail().devices.into_iter().map(|device| device.label).collect()
    }

    /// The device of that name, or in the role of that number.
    pub(crate) fn device(&self, name: &str) -> Option<MemberId> {
        let detail = self.array.detail();
        let label = self.label_of(Path::new(name));
        let of = |wanted: &str| detail.devices.iter().find(|device| device.label == wanted);
        let in_role = || Some(&detail.devices[detail.roles[usize::from(self.numbered(name)?)].device?]);
        of(name).or_else(in_role).or_else(|| of(&label?)).map(|device| device.id)
    }

    /// A device has come, whose file is this when all links are followed.
    pub(crate) fn came(&self, label: &str, file: Option<PathBuf>) {
        self.files.borrow_mut().extend(file.map(|file| (label.to_owned(), file)));
    }

    /// The file of a device, as it was when that came.
    pub(crate) fn file(&self, label: &str) -> Option<PathBuf> {
        self.files.borrow().iter().rev().find(|(known, _)| known == label).map(|(_, file)| file.clone())
    }

    /// How devices were named that have come, also those that have gone again.
    pub(crate) fn labels(&self) -> Vec<String> {
        self.files.borrow().iter().map(|(label, _)| label.clone()).collect()
    }

    /// The role of the member of that name.
    pub(crate) fn named(&self, member: &str) -> Option<u16> {
        let detail = self.array.detail();
        let is_it = |role: &RoleDetail| role.device.is_some_and(|at| detail.devices[at].label == member);
        role(detail.roles.iter().position(is_it))
    }

    /// The role of that number.
    pub(crate) fn numbered(&self, member: &str) -> Option<u16> {
        member.parse().ok().filter(|&role| usize::from(role) < self.array.detail().roles.len())
    }

    /// The role of the member whose file has this name when all links are followed.
    pub(crate) fn same_file(&self, member: &Path) -> Option<u16> {
        self.named(&self.label_of(member)?)
    }

    /// The device that came last whose file has this name when all links are followed.
    fn label_of(&self, file: &Path) -> Option<String> {
        let files = self.files.borrow();
        files.iter().rev().find(|(_, known)| known == file).map(|(label, _)| label.clone())
    }
}

/// The role of a device that fills one.
fn role_in_use(device: &DeviceDetail) -> Option<u16> {
    let in_use = matches!(device.state, DeviceState::InSync | DeviceState::Recovering { .. });
    device.role.filter(|_| in_use)
}

fn sync_report(process: ProcessDetail) -> Value {
    let Progress { position, total, .. } = process.progress;
    json!({
        "action": process.kind.to_string(),
        "position": position,
        "total": total,
        "percent": position.min(total) as f64 * 100.0 / total.max(1) as f64,
        "paused": process.paused,
        "pace": process.pace,
        "floor": process.floor,
        "speed": process.speed,
        "seconds_left": process.left().map(|left| left.as_secs()),
    })
}

fn role(at: Option<usize>) -> Option<u16> {
    u16::try_from(at?).ok()
}

/// Where redundancy stops being known true. Forced, what parity gives is taken for true, but the members still say this.
fn resync_offset(detail: &Detail) -> Option<u64> {
    detail.resync_offset.or(detail.forced_offset)
}

/// The words of `detail`, with those that only a running array can say.
fn state_words(detail: &Detail) -> Vec<&'static str> {
    let in_doubt = resync_offset(detail).is_some();
    let first = match (detail.broken, detail.active || in_doubt) {
        (true, _) => "broken",
        (false, true) => "active",
        (false, false) => "clean",
    };
    let resyncing = detail.process.is_some_and(|process| process.kind == ProcessKind::Resync);
    let resync = if resyncing { "resyncing" } else { "needs resync" };
    let reshaping = detail.limits.iter().any(|limit| matches!(limit, Limitation::Reshape { .. }));
    let also = [
        (detail.degraded > 0, "degraded"),
        (in_doubt, resync),
        (reshaping, "reshaping"),
        (detail.read_only, "read-only"),
    ];
    std::iter::once(first).chain(also.into_iter().filter_map(|(on, word)| on.then_some(word))).collect()
}

/// Roles without a member that works.
fn missing(detail: &Detail) -> Vec<u16> {
    let gone = |role: &RoleDetail| matches!(role.state, RoleState::Missing | RoleState::Failed);
    (0..).zip(&detail.roles).filter_map(|(role, state)| gone(state).then_some(role)).collect()
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

/// What a member was asked, and how it answered.
fn counters_report(counters: &MemberCounters, tally: Tally) -> Value {
    json!({
        "reads": counters.reads,
        "writes": counters.writes,
        "flushes": counters.flushes,
        "other": counters.other,
        "bytes_read": counters.bytes_read,
        "bytes_written": counters.bytes_written,
        "errors": counters.errors,
        "corrected": tally.corrected,
        "slow": tally.slow,
        "given_up": counters.given_up,
        "late": counters.late,
        "in_flight": counters.in_flight,
        "oldest": counters.oldest.map(|age| age.as_nanos() as f64 / 1e9),
        "read_latency": counters.read_latency.buckets.to_vec(),
        "write_latency": counters.write_latency.buckets.to_vec(),
    })
}
