//! An array that is served: its status, and the work that it does by itself.

mod background;
mod bitmap_file;
mod description;
mod devices;
mod growth;
mod hosted;
mod orders;
pub(crate) mod policy;
mod running;
mod spares;
mod watched;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_array::{Array, BitmapError, DeviceDetail, DeviceState, RoleState};
use brindle_export::Rates;
use brindle_io::sync::{Either, race};
use brindle_io::{Duration, Io, MemberId};
use brindle_layout::Level;
use brindle_volume::Volume;

use super::stop::ContentStop;
use super::{Content, Host, Placed, Seen, SharesSpares};
use crate::answers::RequestOutcome;
use crate::any::Any;
use crate::control::{Ask, Author, DeviceFlag, RateLimits, Word};
use crate::error::HostError;
use crate::events::Listener;
use crate::names::Names;
use crate::offered::Offered;
use crate::status::{ExportDoors, ExportStatus, LeftOut, Report};
use crate::world::Pending;
use background::{Last, Speeds};
use running::RunningArray;

pub use description::{ArrayDescription, BitmapDescription, DescribedDevice};
pub use devices::{DETACHED, FAILED, not_replaced, removal};
pub use hosted::{Hosted, Nested, stop_stack};
pub use policy::{take_again, take_those_that_return};

/// Time for recording a failure before it is reported as not recorded yet.
const RECORD_PATIENCE: Duration = Duration::from_millis(500);
/// Time that a change of the bitmap may take, all of which is written first. It is shorter than the patience of the
/// client that asks.
const BITMAP_PATIENCE: Duration = Duration::from_secs(8);

/// An array that is served, with its events.
pub struct ServedArray {
    hosted: Hosted,
    placed: Placed,
    served: RunningArray,
    nested: Vec<RunningArray>,
    io: Io,
    last_action: Last,
    stop: ContentStop,
}

impl ServedArray {
    /// Begins to watch the array. Of a server of several, its status and events name it.
    pub fn new(io: &Io, hosted: Hosted, placed: Placed, listener: &Listener) -> Rc<Self> {
        let of = placed.server.is_some().then(|| hosted.name.clone());
        let running = |label: Option<String>, array: &Array, description| {
            RunningArray::new(io, of.clone(), label, array, description, &hosted.files, Rc::clone(listener))
        };
        let nested = hosted.nested.iter();
        let nested =
            nested.map(|nested| running(Some(nested.label.clone()), &nested.array, &nested.description));
        Rc::new(Self {
            nested: nested.collect(),
            served: running(None, &hosted.array, &hosted.description),
            io: io.clone(),
            last_action: Last::default(),
            stop: ContentStop::new(io),
            hosted,
            placed,
        })
    }

    /// The array that is served.
    pub fn array(&self) -> &Array {
        &self.hosted.array
    }

    /// The name of the array and its export.
    pub(crate) fn name(&self) -> &str {
        &self.hosted.name
    }

    /// The beginning of its messages: its name, if its server serves several.
    fn prefix(&self) -> String {
        if self.placed.server.is_some() { format!("{}: ", self.name()) } else { String::new() }
    }

    /// The file of a device of the array that is served, as it was when that came.
    pub(crate) fn file(&self, label: &str) -> Option<PathBuf> {
        self.served.file(label)
    }

    /// The array that is served, and those that are its members.
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.running().map(|running| &running.array)
    }

    /// The members, as they were named.
    pub(crate) fn members(&self) -> Vec<String> {
        self.running().flat_map(RunningArray::members).collect()
    }

    /// The devices of the array that is served, as they were named.
    fn device_names(&self) -> Vec<String> {
        self.served.devices()
    }

    /// The device of that name of the array that is served, or in the role of that number.
    pub(crate) fn device(&self, name: &str) -> Option<MemberId> {
        self.served.device(name)
    }

    /// How devices were named that the array which is served has had, or was to have, and has not now.
    pub(crate) fn former_names(&self) -> Vec<PathBuf> {
        let has = self.device_names();
        let left_out = self.hosted.left_out.iter().map(|left_out: &LeftOut| left_out.path.clone());
        let mut names: Vec<String> = self.served.labels().into_iter().chain(left_out).collect();
        names.retain(|name| !has.contains(name));
        names.into_iter().map(PathBuf::from).collect()
    }

    /// Whether its write-intent bitmap is in a file that was named so.
    fn has_bitmap_in(&self, label: &str) -> bool {
        let file = self.hosted.array.detail().bitmap.and_then(|bitmap| bitmap.file);
        file.is_some_and(|file| file.label == label)
    }

    /// A device has come to the array that is served, whose file is this when all links are followed.
    pub(crate) fn came(&self, label: &str, file: Option<PathBuf>) {
        self.served.came(label, file);
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

    /// The full status at this moment.
    fn status(&self, seen: &Seen<'_>) -> ExportStatus {
        let uses = seen.uses(self);
        let first = uses.first().cloned().unwrap_or_default();
        let gate = &self.placed.gate;
        ExportStatus {
            name: self.name().to_owned(),
            pid: std::process::id(),
            folder: self.placed.folder.clone(),
            doors: ExportDoors::of(uses),
            array: self.served.report(),
            arrays: self.nested.iter().map(RunningArray::report).collect(),
            left_out: self.hosted.left_out.clone(),
            spare_group: self.hosted.spare_group.clone(),
            connections: first.connections,
            requests: first.requests,
            bytes_read: first.bytes_read,
            bytes_written: first.bytes_written,
            errors: first.errors,
            read_latency: first.read_latency,
            write_latency: first.write_latency,
            exported: !gate.is_withdrawn(),
            device: seen.device(self.name()),
            limits: Some(gate.rates()).filter(Rates::limit).map(RateLimits::from),
            clients: seen.clients(self),
            refused: seen.stats.refused,
            events: self.running().flat_map(|running| running.watched.report()).collect(),
            last_action: self.last_action.report(&self.hosted.array),
            stale_for: None,
            server: self.placed.server.clone(),
        }
    }
}

impl Content for ServedArray {
    fn kind(&self) -> &'static str {
        "array"
    }

    fn name(&self) -> &str {
        &self.hosted.name
    }

    fn uuid(&self) -> String {
        self.served.uuid().to_owned()
    }

    fn names(&self) -> Names {
        Names {
            own: self.name().to_owned(),
            uuid: self.served.uuid().to_owned(),
            devices: self.nested.iter().chain([&self.served]).flat_map(RunningArray::devices).collect(),
        }
    }

    fn has_member(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn exports(&self) -> Vec<Offered> {
        let (description, geometry) = (&self.hosted.description, self.hosted.array.geometry());
        vec![Offered {
            name: self.name().to_owned(),
            description: format!("{} of {} members", geometry.level().name(), geometry.members()),
            uuid: description.uuid.into_bytes(),
            identity: format!("brindle:{}", self.served.uuid()),
            volume: Rc::new(Any::Array(self.hosted.array.clone())),
        }]
    }

    fn export_names(&self) -> Vec<String> {
        vec![self.name().to_owned()]
    }

    fn is_one_export(&self) -> bool {
        true
    }

    fn placed(&self) -> &Placed {
        &self.placed
    }

    fn use_of(&self, device: &str) -> Option<String> {
        if self.has_bitmap_in(device) {
            return Some(format!("the file of the bitmap of '{}' already, {device}", self.name()));
        }
        let is_its = self.running().any(|running| running.devices().iter().any(|own| own == device));
        is_its.then(|| format!("a device of '{}' already, {device}: remove it first", self.name()))
    }

    /// Also those that came later, but not those that went to another content.
    fn devices(&self, host: &dyn Host) -> Vec<MemberId> {
        let others = host.contents();
        let is_other = |other: &&Rc<dyn Content>| !std::ptr::addr_eq(Rc::as_ptr(other), self);
        let has_moved = |id: &MemberId| others.iter().filter(is_other).any(|other| other.holds(*id));
        let detail = self.array().detail();
        let came = detail.devices.iter().map(|device| device.id);
        let file = detail.bitmap.and_then(|bitmap| bitmap.file?.id);
        let first = self.hosted.devices.iter().copied().filter(|id| !has_moved(id));
        first.chain(came).chain(file).collect()
    }

    fn holds(&self, device: MemberId) -> bool {
        self.array().detail().devices.iter().any(|own| own.id == device)
    }

    fn shares_spares(&self) -> Option<&dyn SharesSpares> {
        Some(self)
    }

    fn report(&self, seen: &Seen<'_>) -> Report {
        Report::Array(Box::new(self.status(seen)))
    }

    /// Goes on with a reshape, and brings redundancy in sync where it is in doubt, behind the clients.
    fn begin(&self) {
        if self.moves_on() {
            return;
        }
        for array in self.arrays() {
            background::resync(&self.io, array, &self.prefix());
        }
    }

    fn resized(&self) -> Vec<String> {
        if self.last_action.grown.take() { self.export_names() } else { Vec::new() }
    }

    fn carry_out(
        self: Rc<Self>,
        ask: Ask,
        _: Option<Author>,
        host: Rc<dyn Host>,
    ) -> Pending<Result<RequestOutcome, HostError>> {
        Box::pin(async move { self.obey(ask, &host).await })
    }

    fn stop(self: Rc<Self>, clients: Pending<()>) -> Pending<Result<(), HostError>> {
        Box::pin(async move {
            if self.stop.begins() {
                let this = Rc::clone(&self);
                self.io.spawn(async move {
                    clients.await;
                    this.stop.ends(this.hosted.stop().await);
                });
            }
            self.stop.ended().await
        })
    }

    fn has_stopped_well(&self) -> Option<bool> {
        self.stop.has_ended_well()
    }

    fn last_words(&self) -> &'static str {
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

    fn tell_the_last_events(&self) {
        self.running().for_each(|running| running.watched.catch_up());
    }

    fn tell_no_more(&self) {
        self.running().for_each(|running| running.watched.end());
    }
}
