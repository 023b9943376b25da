//! An array that is served: its status, and the orders that it takes.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_array::{Array, BitmapError, DeviceDetail, DeviceState, RoleState};
use brindle_export::iscsi::TargetStats;
use brindle_export::{Gate, Rates};
use brindle_io::sync::{Either, Notify, race};
use brindle_io::{Duration, Io, MemberId};
use brindle_layout::Level;
use brindle_volume::Volume;

use crate::background::{self, Last, Speeds};
use crate::control::{DeviceFlag, RateLimits, Word};
use crate::error::HostError;
use crate::events::Listener;
use crate::hosted::Hosted;
use crate::names::Names;
use crate::running::RunningArray;
use crate::servers::DoorStats;
use crate::status::{ClientStatus, ExportStatus, LeftOut, TargetStatus};

/// Time for recording a failure before it is reported as not recorded yet.
const RECORD_PATIENCE: Duration = Duration::from_millis(500);
/// Time that a change of the bitmap may take, all of which is written first. It is shorter than the patience of the
/// client that asks.
const BITMAP_PATIENCE: Duration = Duration::from_secs(8);

/// Where an array stands in its host, and how clients find it.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// NBD URIs.
    pub addresses: Vec<String>,
    /// iSCSI URIs.
    pub targets: Vec<String>,
    /// The name of its server, if that serves several.
    pub server: Option<String>,
    /// The group of arrays with which it shares spares.
    pub group: Option<String>,
    /// The folder of the process.
    pub folder: Option<PathBuf>,
    /// The way in for clients, by whichever server.
    pub gate: Rc<Gate>,
}

/// An array that is served, with its addresses and its events.
pub struct Exported {
    pub(crate) hosted: Hosted,
    placed: Placed,
    served: RunningArray,
    nested: Vec<RunningArray>,
    io: Io,
    last_action: Last,
    stopping: Cell<bool>,
    stopped: RefCell<Option<Result<(), HostError>>>,
    changed: Notify,
}

impl Exported {
    /// Begins to watch the array. Of a server of several, its status and events name it.
    pub fn new(io: &Io, hosted: Hosted, placed: Placed, listener: &Listener) -> Rc<Self> {
        let of = placed.server.is_some().then(|| hosted.name.clone());
        let running = |label: Option<String>, array: &Array, assembly| {
            RunningArray::new(io, of.clone(), label, array, assembly, &hosted.files, Rc::clone(listener))
        };
        let nested = hosted.nested.iter();
        let nested =
            nested.map(|nested| running(Some(nested.label.clone()), &nested.array, &nested.assembly));
        Rc::new(Self {
            nested: nested.collect(),
            served: running(None, &hosted.array, &hosted.assembly),
            io: io.clone(),
            last_action: Last::default(),
            stopping: Cell::new(false),
            stopped: RefCell::default(),
            changed: Notify::new(io),
            hosted,
            placed,
        })
    }

    /// NBD URIs.
    pub fn addresses(&self) -> &[String] {
        &self.placed.addresses
    }

    /// iSCSI URIs.
    pub fn targets(&self) -> &[String] {
        &self.placed.targets
    }

    /// The way in for clients.
    pub(crate) fn gate(&self) -> &Rc<Gate> {
        &self.placed.gate
    }

    /// Offers the array to clients again, or with other limits.
    pub(crate) fn export(&self, limits: Option<RateLimits>) {
        if let Some(limits) = limits {
            self.gate().set_rates(&self.io, limits.into());
        }
        self.gate().withdraw(false);
    }

    /// The name of its iSCSI target, if it is one.
    pub(crate) fn target(&self) -> Option<&str> {
        let path = self.placed.targets.first()?.strip_suffix("/0")?;
        path.rsplit('/').next()
    }

    /// The array that is served.
    pub fn array(&self) -> &Array {
        &self.hosted.array
    }

    /// The identity of the array.
    pub(crate) fn assembly_uuid(&self) -> brindle_format::md::Uuid {
        self.hosted.assembly.uuid
    }

    /// The array in words, for clients that ask for a list.
    pub(crate) fn description(&self) -> String {
        let assembly = &self.hosted.assembly;
        format!("{} of {} members", assembly.level().name(), assembly.roles.len())
    }

    /// Names by which it can be meant.
    pub(crate) fn names(&self) -> Names {
        Names {
            own: self.name().to_owned(),
            uuid: self.served.uuid().to_owned(),
            devices: self.nested.iter().chain([&self.served]).flat_map(RunningArray::devices).collect(),
        }
    }

    /// The name of the array and its export.
    pub fn name(&self) -> &str {
        &self.hosted.name
    }

    /// The beginning of its messages: its name, if its server serves several.
    fn prefix(&self) -> String {
        if self.placed.server.is_some() { format!("{}: ", self.name()) } else { String::new() }
    }

    /// Brings redundancy in sync, behind the clients, where it is in doubt.
    pub fn resync(&self) {
        for array in self.arrays() {
            background::resync(&self.io, array, &self.prefix());
        }
    }

    /// The group of arrays with which it shares spares, if it is in one.
    pub(crate) fn group(&self) -> Option<&str> {
        self.placed.group.as_deref()
    }

    /// The file of a device of the array that is served, as it was when that came.
    pub(crate) fn file(&self, label: &str) -> Option<PathBuf> {
        self.served.file(label)
    }

    /// The array that is served, and those that are its members.
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.running().map(|running| &running.array)
    }

    /// How it has stopped: `None` if it has not, or not yet.
    pub(crate) fn has_stopped_well(&self) -> Option<bool> {
        self.stopped.borrow().as_ref().map(Result::is_ok)
    }

    /// Stops the array, once its clients are gone: `clients` waits for that. A second call waits for the same end.
    pub(crate) async fn stop(
        self: &Rc<Self>,
        clients: impl Future<Output = ()> + 'static,
    ) -> Result<(), HostError> {
        if !self.stopping.replace(true) {
            let this = Rc::clone(self);
            self.io.spawn(async move {
                clients.await;
                let stopped = this.hosted.stop().await;
                *this.stopped.borrow_mut() = Some(stopped.map_err(HostError::Stop));
                this.changed.notify();
            });
        }
        self.changed.until(|| self.stopped.borrow().clone()).await
    }

    /// The array's end, for people.
    pub(crate) fn last_words(&self) -> &'static str {
        let array = &self.hosted.array;
        if array.limits().read_only {
            "stopped, nothing was written"
        } else if array.needs_resync() && array.detail().exposed {
            "stopped; the resync goes on when it is served again, which needs --force while members are missing"
        } else if array.needs_resync() {
            "stopped; the resync goes on when it is served again"
        } else if array.detail().forced_offset.is_some() {
            "stopped, nothing was written: it was started with --force, and its members say as before that it was not stopped cleanly, so \
             that a missing one that turns up is used as it is; without that the next start needs --force, too"
        } else {
            "stopped, marked clean"
        }
    }

    /// Reports the events for which the reporting task had no turn.
    pub(crate) fn tell_the_last_events(&self) {
        self.running().for_each(|running| running.watched.catch_up());
    }

    /// Stops telling its events, for good.
    pub(crate) fn tell_no_more(&self) {
        self.running().for_each(|running| running.watched.end());
    }

    /// The members, as they were named.
    pub(crate) fn members(&self) -> Vec<String> {
        self.running().flat_map(RunningArray::members).collect()
    }

    /// The devices of the array that is served, as they were named.
    pub(crate) fn devices(&self) -> Vec<String> {
        self.served.devices()
    }

    /// The device of that name of the array that is served, or in the role of that number.
    pub(crate) fn device(&self, name: &str) -> Option<MemberId> {
        self.served.device(name)
    }

    /// How devices were named that the array which is served has had, or was to have, and has not now.
    pub(crate) fn former_names(&self) -> Vec<PathBuf> {
        let has = self.devices();
        let left_out = self.hosted.left_out.iter().map(|left_out: &LeftOut| left_out.path.clone());
        let mut names: Vec<String> = self.served.labels().into_iter().chain(left_out).collect();
        names.retain(|name| !has.contains(name));
        names.into_iter().map(PathBuf::from).collect()
    }

    /// Whether it, or an array that is its member, has a device that was named so.
    pub(crate) fn knows(&self, label: &str) -> bool {
        self.running().any(|running| running.devices().iter().any(|device| device == label))
    }

    /// Whether its write-intent bitmap is in a file that was named so.
    pub(crate) fn has_bitmap_in(&self, label: &str) -> bool {
        let file = self.hosted.array.detail().bitmap.and_then(|bitmap| bitmap.file);
        file.is_some_and(|file| file.label == label)
    }

    /// A device has come to the array that is served, whose file is this when all links are followed.
    pub(crate) fn came(&self, label: &str, file: Option<PathBuf>) {
        self.served.came(label, file);
    }

    /// Whether the array has a member of this name.
    pub(crate) fn has(&self, member: &str) -> bool {
        self.find(member).is_some()
    }

    /// Begins, halts or ends a process over the array.
    pub(crate) async fn act(&self, word: Word, speeds: Speeds) -> Result<(), HostError> {
        let acted = self.last_action.act(&self.io, &self.hosted.array, &self.prefix(), word, speeds).await;
        acted.map_err(|why| HostError::Refused { name: self.name().to_owned(), why })
    }

    /// Sets a flag of a member, or clears it.
    pub(crate) async fn flag(&self, member: &str, flag: DeviceFlag, clear: bool) -> Result<(), HostError> {
        let set = self.set_flag(member, flag, clear).await;
        set.map_err(|why| HostError::Refused { name: member.to_owned(), why })
    }

    async fn set_flag(&self, member: &str, flag: DeviceFlag, clear: bool) -> Result<(), String> {
        let (running, role) = self.find(member).ok_or_else(|| format!("no member of {}", self.name()))?;
        let array = running.array.clone();
        let detail = array.detail();
        let fills = |device: &&DeviceDetail| {
            let in_use = matches!(device.state, DeviceState::InSync | DeviceState::Recovering { .. });
            device.role == Some(role) && in_use
        };
        let device = detail.devices.iter().find(fills).ok_or("it is out of service")?;
        let (id, mut flags) = (device.id, device.flags);
        match flag {
            DeviceFlag::WriteMostly if !clear && detail.level != Level::Raid1 => {
                return Err(format!("{} can't have it write-mostly: only raid1 supports that", detail.level));
            }
            DeviceFlag::WriteMostly => flags.write_mostly = !clear,
            DeviceFlag::Failfast => flags.failfast = !clear,
        }
        let recorded = self.io.spawn(async move { array.set_flags(id, flags).await });
        match race(recorded, self.io.sleep(RECORD_PATIENCE)).await {
            Either::First(recorded) => recorded.map_err(|error| error.to_string()),
            Either::Second(()) => {
                Err("the array is busy, and does it as soon as it can; see `brindle status`".to_owned())
            }
        }
    }

    /// Runs `work`, which changes more of the array than its devices. Work that takes too long goes on in the
    /// background, and the answer says so.
    pub(crate) async fn grow(
        &self,
        work: impl Future<Output = Result<(), BitmapError>> + 'static,
    ) -> Result<(), HostError> {
        match race(self.io.spawn(work), self.io.sleep(BITMAP_PATIENCE)).await {
            Either::First(Ok(())) => Ok(()),
            Either::First(Err(source)) => Err(HostError::Bitmap { name: self.name().to_owned(), source }),
            Either::Second(()) => Err(HostError::Busy(self.name().to_owned())),
        }
    }

    /// Takes a member out of service.
    pub(crate) async fn fail(&self, member: &str) -> Result<(), HostError> {
        let Some((running, role)) = self.find(member) else {
            return Err(HostError::NoMember {
                member: member.to_owned(),
                array: self.name().to_owned(),
                known: self.members(),
            });
        };
        let array = running.array.clone();
        let recorded = self.io.spawn(async move { array.fail(role).await });
        match race(recorded, self.io.sleep(RECORD_PATIENCE)).await {
            Either::First(Ok(())) => Ok(()),
            Either::First(Err(source)) => Err(HostError::Stays { member: member.to_owned(), source }),
            // Out of service already; the other members learn of it as soon as they can.
            Either::Second(()) if running.array.state(role) == RoleState::Failed => Ok(()),
            Either::Second(()) => Err(HostError::StillInService(member.to_owned())),
        }
    }

    /// The array that is served, then those that are its members.
    fn running(&self) -> impl Iterator<Item = &RunningArray> {
        std::iter::once(&self.served).chain(&self.nested)
    }

    /// By the name that `serve` was given, by the number of a role of the array that is served, or by the real name
    /// of the file as it was then. No file system is asked, since it may be the one that hangs.
    fn find(&self, member: &str) -> Option<(&RunningArray, u16)> {
        let by = |find: &dyn Fn(&RunningArray) -> Option<u16>| {
            self.running().find_map(|running| Some((running, find(running)?)))
        };
        by(&|running| running.named(member))
            .or_else(|| Some((&self.served, self.served.numbered(member)?)))
            .or_else(|| by(&|running| running.same_file(Path::new(member))))
    }

    /// The array's iSCSI target in the status.
    fn initiators(&self, stats: &[TargetStats]) -> Option<TargetStatus> {
        let stats = stats.iter().find(|stats| Some(&*stats.name) == self.target())?;
        Some(TargetStatus {
            target: stats.name.clone(),
            addresses: self.placed.targets.clone(),
            unit: 0,
            initiators: stats.initiators.iter().map(|(_, port)| port.clone()).collect(),
            registrants: stats.registrants,
            reserved: stats.reserved,
            requests: stats.total.requests,
            bytes_read: stats.total.read_bytes,
            bytes_written: stats.total.written_bytes,
            errors: stats.total.errors,
            read_latency: stats.latency[0].buckets.to_vec(),
            write_latency: stats.latency[1].buckets.to_vec(),
        })
    }

    /// The clients that use it now, and those that ask for targets.
    fn clients(&self, stats: &DoorStats) -> Vec<ClientStatus> {
        let export = (self.name().to_owned(), self.target().map(str::to_owned));
        ClientStatus::of_exports(&stats.connections, &stats.iscsi, &[export])
    }

    /// The full status at this moment.
    pub(crate) fn report(&self, stats: &DoorStats) -> ExportStatus {
        let total = stats.nbd.iter().find(|stats| stats.name == self.name());
        let counters = total.map(|stats| stats.total).unwrap_or_default();
        ExportStatus {
            name: self.name().to_owned(),
            pid: std::process::id(),
            folder: self.placed.folder.clone(),
            nbd: self.placed.addresses.clone(),
            iscsi: self.initiators(&stats.iscsi),
            array: self.served.report(),
            arrays: self.nested.iter().map(RunningArray::report).collect(),
            left_out: self.hosted.left_out.clone(),
            spare_group: self.placed.group.clone(),
            connections: total.map_or(0, |stats| stats.connections),
            requests: counters.requests,
            bytes_read: counters.read_bytes,
            bytes_written: counters.written_bytes,
            errors: counters.errors,
            read_latency: total.map(|stats| stats.latency[0].buckets.to_vec()).unwrap_or_default(),
            write_latency: total.map(|stats| stats.latency[1].buckets.to_vec()).unwrap_or_default(),
            exported: !self.gate().is_withdrawn(),
            device: None,
            limits: Some(self.gate().rates()).filter(Rates::limit).map(RateLimits::from),
            clients: self.clients(stats),
            refused: stats.refused,
            events: self.running().flat_map(|running| running.watched.report()).collect(),
            last_action: self.last_action.report(&self.hosted.array),
            stale_for: None,
            server: self.placed.server.clone(),
        }
    }
}
