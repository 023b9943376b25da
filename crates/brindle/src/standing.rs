//! A running array as reports show it: the one that is served, or one that is a member of it.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_array::assembly::{Assembly, Limitation};
use brindle_array::{
    Array, Detail, DeviceDetail, DeviceState, ProcessDetail, ProcessKind, Progress, RoleDetail, RoleState,
};
use brindle_io::{Io, MemberCounters};
use serde_json::{Value, json};

use crate::events::{self, Tally, Watched};
use crate::report::{ArrayReport, left_out};

/// A running array, what never changes of it, and what happens to it.
pub(crate) struct Standing {
    /// As it was named, if it is a member: `a+b+c`.
    pub(crate) label: Option<String>,
    pub(crate) array: Array,
    io: Io,
    pub(crate) watched: Rc<Watched>,
    /// Devices by role, as they were named.
    paths: Vec<Option<String>>,
    /// Their files when all links are followed, as they were at the beginning.
    files: Vec<Option<PathBuf>>,
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
        let device = |at: usize| assembly.devices.get(at).map(|device| device.label.clone());
        let paths: Vec<Option<String>> = assembly.roles.iter().map(|at| at.and_then(device)).collect();
        let file = |path: &Option<String>| std::fs::canonicalize(path.as_ref()?).ok();
        Self {
            array: array.clone(),
            io: io.clone(),
            watched: Watched::begin(io, array, of, label.clone(), json),
            files: paths.iter().map(file).collect(),
            paths,
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
        report["sync"] = json!(detail.process.map(sync_report));
        if let Some(label) = &self.label {
            report["label"] = json!(label);
        }
        report
    }

    fn device_report(&self, device: &DeviceDetail) -> Value {
        let tally = device.role.map(|role| self.watched.tally(role)).unwrap_or_default();
        json!({
            "role": device.role,
            "path": device.label,
            "state": state_word(device),
            "failure": device.failure.as_ref().map(events::failure),
            "io": counters_report(&self.io.counters(device.id), tally),
        })
    }

    /// The members, as they were named.
    pub(crate) fn members(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().flatten().map(String::as_str)
    }

    /// The role of the member of that name.
    pub(crate) fn named(&self, member: &str) -> Option<u16> {
        role(self.paths.iter().position(|path| path.as_deref() == Some(member)))
    }

    /// The role of that number.
    pub(crate) fn numbered(&self, member: &str) -> Option<u16> {
        member.parse().ok().filter(|&role| usize::from(role) < self.paths.len())
    }

    /// The role of the member whose file has this name when all links are followed.
    pub(crate) fn same_file(&self, member: &Path) -> Option<u16> {
        role(self.files.iter().position(|file| file.as_deref() == Some(member)))
    }
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
