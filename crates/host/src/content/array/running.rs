//! A running array as reports show it: a served one, or one nested in it.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_array::{
    Array, BitmapDetail, Detail, DeviceDetail, ProcessDetail, ProcessKind, Progress, RoleDetail, RoleState,
};
use brindle_io::{Io, MemberId};
use brindle_layout::{Geometry, Layout, Level};

use super::description::ArrayDescription;
use super::watched::Watched;
use crate::events::Listener;
use crate::status::{ArrayFacts, ArrayStatus, BitmapStatus, DeviceStatus, SyncStatus};

/// A running array, with its constant facts and its events.
pub(crate) struct RunningArray {
    /// The name that was given, if it is a member: `a+b+c`.
    pub(crate) label: Option<String>,
    pub(crate) array: Array,
    io: Io,
    pub(crate) watched: Rc<Watched>,
    /// Names of devices and their files when all links are followed, as they were when each came.
    files: RefCell<Vec<(String, PathBuf)>>,
    facts: ArrayFacts,
    /// The shape that it was described in.
    described: Geometry,
    /// The consistency policy by its description.
    consistency: &'static str,
}

impl RunningArray {
    /// Begins to watch an array; `of` is the name of the one that is served, where there are several. `files` are names of
    /// devices, and their files when all links are followed.
    pub(crate) fn new(
        io: &Io,
        of: Option<String>,
        label: Option<String>,
        array: &Array,
        description: &ArrayDescription,
        files: &[(String, PathBuf)],
        listener: Listener,
    ) -> Self {
        let is_own = |label: &String| description.devices.iter().any(|device| device.label == *label);
        let files: Vec<_> = files.iter().filter(|(label, _)| is_own(label)).cloned().collect();
        let watched = Watched::begin(io, array, of, label.clone(), listener);
        files.iter().for_each(|(label, file)| watched.came(label, file));
        Self {
            array: array.clone(),
            io: io.clone(),
            watched,
            files: RefCell::new(files),
            facts: description.facts.clone(),
            described: description.geometry.clone(),
            consistency: description.consistency_policy,
            label,
        }
    }

    /// How the array is now.
    pub(crate) fn report(&self) -> ArrayStatus {
        let detail = self.array.detail();
        // A bitmap comes and goes; a read-only array says what is on its members.
        let consistency_policy = match &detail.bitmap {
            Some(bitmap) if !bitmap.failed => "bitmap",
            _ if !detail.read_only && self.consistency == "bitmap" => "resync",
            _ => self.consistency,
        };
        let speeds = self.array.speeds();
        ArrayStatus {
            facts: self.facts(&detail),
            state: state_words(&detail).into_iter().map(Into::into).collect(),
            consistency_policy: consistency_policy.into(),
            bitmap: detail.bitmap.as_ref().map(bitmap_status),
            events: detail.events,
            resync_offset: resync_offset(&detail),
            missing: missing(&detail),
            redundancy_left: redundancy_left(&detail, self.array.geometry()),
            devices: detail.devices.iter().map(|device| self.device_status(device)).collect(),
            exposed: detail.exposed,
            sync: detail.process.map(sync_status),
            max_speed: speeds.pace.map(NonZeroU64::get),
            min_speed: speeds.floor.map(NonZeroU64::get),
            label: self.label.clone(),
        }
    }

    /// Its facts by the shape that it has now.
    fn facts(&self, detail: &Detail) -> ArrayFacts {
        let (geometry, facts) = (self.array.geometry(), self.facts.clone());
        if *geometry == self.described {
            return facts;
        }
        let (level, layout) = (geometry.level(), geometry.layout());
        ArrayFacts {
            level: level.name().into(),
            layout: (layout != Layout::None).then(|| layout.name()),
            chunk: (!matches!(level, Level::Linear | Level::Raid1)).then(|| geometry.chunk()),
            size: detail.size,
            component_size: Some(detail.component_size),
            raid_devices: detail.roles.len(),
            ..facts
        }
    }

    /// The array's UUID, as mdadm writes it.
    pub(crate) fn uuid(&self) -> &str {
        &self.facts.uuid
    }

    fn device_status(&self, device: &DeviceDetail) -> DeviceStatus {
        let tally = device.role.map(|role| self.watched.tally(role)).unwrap_or_default();
        let (mut counters, far) = (self.io.counters(device.id), self.array.given_channels(device.id));
        counters.reads += far.reads;
        counters.bytes_read += far.bytes_read;
        counters.writes += far.writes;
        counters.bytes_written += far.bytes_written;
        let status = DeviceStatus::of(&self.array, device, &counters, tally.corrected, tally.slow);
        DeviceStatus { drive: self.watched.drive(&device.label), ..status }
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
        file.iter().for_each(|file| self.watched.came(label, file));
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

fn bitmap_status(bitmap: &BitmapDetail) -> BitmapStatus {
    BitmapStatus {
        file: bitmap.file.as_ref().map(|file| file.label.clone()),
        failed: bitmap.failed,
        chunk: bitmap.chunk,
        bits: bitmap.bits,
        dirty: bitmap.dirty,
        writes: bitmap.writes,
        write_behind: bitmap.write_behind,
        lagging: bitmap.lagging,
        most_lagging: bitmap.most_lagging,
    }
}

fn sync_status(process: ProcessDetail) -> SyncStatus {
    let Progress { position, total, .. } = process.progress;
    SyncStatus {
        action: process.kind.to_string(),
        position,
        total,
        percent: position.min(total) as f64 * 100.0 / total.max(1) as f64,
        paused: process.paused,
        pace: process.pace.map(NonZeroU64::get),
        floor: process.floor.map(NonZeroU64::get),
        speed: process.speed,
        seconds_left: process.left().map(|left| left.as_secs()),
    }
}

fn role(at: Option<usize>) -> Option<u16> {
    u16::try_from(at?).ok()
}

/// Where redundancy stops being known to be in sync. Forced, what parity gives is taken for true, but the members still say this.
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
    let also = [
        (detail.degraded > 0, "degraded"),
        (in_doubt, resync),
        (detail.reshaping, "reshaping"),
        (detail.read_only, "read-only"),
    ];
    std::iter::once(first).chain(also.into_iter().filter_map(|(on, word)| on.then_some(word))).collect()
}

/// Members that may still be lost. One that is being rebuilt counts as lost until it has all.
fn redundancy_left(detail: &Detail, geometry: &Geometry) -> Option<u16> {
    let lacks = |role: &RoleDetail| role.state != RoleState::InSync;
    let lost: Vec<u16> =
        (0..).zip(&detail.roles).filter_map(|(role, state)| lacks(state).then_some(role)).collect();
    // A member may be rebuilt in part, and data lost elsewhere may be on it.
    let left = if detail.broken { None } else { Some(geometry.redundancy_left(&lost).unwrap_or_default()) };
    let in_doubt = resync_offset(detail).is_some();
    left.map(|left| if in_doubt { 0 } else { left })
}

/// Roles without a member that works.
fn missing(detail: &Detail) -> Vec<u16> {
    let gone = |role: &RoleDetail| matches!(role.state, RoleState::Missing | RoleState::Failed);
    (0..).zip(&detail.roles).filter_map(|(role, state)| gone(state).then_some(role)).collect()
}
