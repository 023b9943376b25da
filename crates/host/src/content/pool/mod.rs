//! A pool that is served: its volumes, each an export of its own, and the orders that it carries out.

mod export;
mod grow;
mod members;
mod scrub;
mod spares;
mod volumes;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use brindle_export::Rates;
use brindle_io::sync::{Either, race};
use brindle_io::{Duration, Instant, Io, MemberId};
use brindle_members::events::{Cause, Event as Happening};
use brindle_members::turn::Turns;
use brindle_pool::{Pool, PoolEvent, PoolVolume};

use members::Replacing;
use scrub::Speeds;

use super::stop::ContentStop;
use super::{Content, Host, Placed, Seen, SharesSpares, all_of, not_for};
use crate::answers::{Effects, RequestOutcome};
use crate::any::Any;
use crate::control::{Ask, Author};
use crate::error::HostError;
use crate::events::{Listener, News};
use crate::limits::RateLimits;
use crate::names::Names;
use crate::offered::Offered;
use crate::opening::Tuning;
use crate::status::{
    DoorStatus, DriveStatus, EventStatus, HistoryReport, LeftOut, PoolDoors, PoolFacts, PoolStatus, Report,
    VolumeFacts,
};
use crate::world::Pending;

/// Time for recording a failure before it is reported as not recorded yet.
const RECORD_PATIENCE: Duration = Duration::from_millis(500);
/// Events that the status shows.
const SHOWN: usize = 100;

/// A pool that runs, with the devices that it was opened on.
pub struct HostedPool {
    /// The pool's name, which is the first part of its exports' names.
    pub name: String,
    /// The pool.
    pub pool: Pool,
    /// Names of the members in use, by number.
    pub members: Vec<Option<String>>,
    /// Devices that were named and are done without.
    pub left_out: Vec<LeftOut>,
    /// All devices that were opened for it, with their names.
    pub devices: Vec<(String, MemberId)>,
    /// Members that were in use and are missing, for which it waits, as `VDEV.ROLE`; until then it is for reading alone.
    pub waits_for: Vec<String>,
    /// Bytes of memory for the maps of all pools of its host.
    pub map_memory: u64,
    /// The group of arrays and pools with which it shares spares.
    pub spare_group: Option<String>,
}

/// A pool that is served.
pub struct ServedPool {
    hosted: HostedPool,
    /// Names of the members by number, and all devices that are open for it: as they are now.
    members: RefCell<Vec<Option<String>>>,
    devices: RefCell<Vec<(String, MemberId)>>,
    /// Members that are being replaced,
    replacing: RefCell<Vec<Replacing>>,
    /// and devices that are done without.
    left_out: RefCell<Vec<LeftOut>>,
    /// Drives of devices by their names, each looked at once.
    drives: RefCell<BTreeMap<String, Option<DriveStatus>>>,
    /// The name of now. One that was given up stays in memory: reports hand names out by reference, and a pool is seldom renamed.
    name: Cell<&'static str>,
    /// The name that it is about to have: no other content gets it meanwhile.
    next_name: RefCell<Option<String>>,
    /// Changes of the pool and its volumes are made one behind the other.
    changes: Turns,
    placed: Placed,
    io: Io,
    listener: Listener,
    /// The number of the last event that was passed on.
    reported: Cell<u64>,
    /// Names of members concerned, by the numbers of events that were passed on, as they were called then.
    concerned: RefCell<BTreeMap<u64, Option<String>>>,
    stop: ContentStop,
    /// A stop before this moment gives the pool away.
    exports_until: Cell<Option<Instant>>,
    /// Speeds of scrubs that are yet to come.
    speeds: Cell<Speeds>,
}

impl ServedPool {
    /// Begins to watch the pool.
    pub fn new(io: &Io, mut hosted: HostedPool, placed: Placed, listener: &Listener) -> Rc<Self> {
        let pooled = Rc::new(Self {
            name: Cell::new(hosted.name.clone().leak()),
            next_name: RefCell::default(),
            changes: Turns::new(io),
            members: RefCell::new(core::mem::take(&mut hosted.members)),
            devices: RefCell::new(core::mem::take(&mut hosted.devices)),
            replacing: RefCell::default(),
            left_out: RefCell::new(core::mem::take(&mut hosted.left_out)),
            drives: RefCell::default(),
            hosted,
            placed,
            io: io.clone(),
            listener: Rc::clone(listener),
            reported: Cell::new(0),
            concerned: RefCell::default(),
            stop: ContentStop::new(io),
            exports_until: Cell::new(None),
            speeds: Cell::default(),
        });
        pooled.resume();
        let this = Rc::clone(&pooled);
        io.spawn(async move {
            let pool = this.hosted.pool.clone();
            while let Either::First(event) =
                race(pool.next_event(this.reported.get()), this.stop.ended()).await
            {
                this.tell(&event);
            }
        });
        pooled
    }

    /// The same with what is printed on the drives of its members.
    fn with_drives(&self, mut facts: PoolFacts) -> PoolFacts {
        let mut drives = self.drives.borrow_mut();
        for device in &mut facts.devices {
            let Some(path) = &device.path else { continue };
            if !drives.contains_key(path) {
                let folder = self.placed.folder.as_deref().unwrap_or(Path::new(""));
                drives.insert(path.clone(), DriveStatus::of(&folder.join(path)));
            }
            device.drive = drives.get(path).cloned().flatten();
        }
        facts
    }

    /// The pool that is served.
    pub fn pool(&self) -> &Pool {
        &self.hosted.pool
    }

    /// All devices that were opened for it, with their names.
    pub fn named_devices(&self) -> Vec<(String, MemberId)> {
        self.devices.borrow().clone()
    }

    /// The export of a volume.
    fn offered(&self, volume: &str) -> Option<Offered> {
        let of = self.hosted.pool.volume(volume)?;
        Some(Offered {
            name: self.export_of(volume),
            description: format!("volume of pool {}", self.name()),
            uuid: self.uuid_of(&of),
            identity: format!("brindle:{}/{volume}", self.uuid()),
            volume: Rc::new(Any::Pool(of)),
        })
    }

    /// The UUID of a volume: the pool's, with the volume's number in its first bytes.
    fn uuid_of(&self, volume: &PoolVolume) -> [u8; 16] {
        let mut uuid = self.hosted.pool.label().pool.into_bytes();
        uuid.iter_mut().zip(volume.id().to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
        uuid
    }

    fn export_of(&self, volume: &str) -> String {
        format!("{}/{volume}", self.name())
    }

    /// Takes a member out of service.
    async fn fail(&self, member: &str) -> Result<(), HostError> {
        let number = self.known_member(member)?;
        self.refuse_spare(number)?;
        let pool = self.hosted.pool.clone();
        let recorded = self.io.spawn(async move { pool.fail(number).await });
        match race(recorded, self.io.sleep(RECORD_PATIENCE)).await {
            Either::First(Ok(())) => Ok(()),
            Either::First(Err(source)) => Err(HostError::Stays { member: member.to_owned(), source }),
            Either::Second(()) => {
                let is_failed = self.hosted.pool.status().members[usize::from(number)].is_failed();
                if is_failed { Ok(()) } else { Err(HostError::StillInService(member.to_owned())) }
            }
        }
    }

    /// A command has changed it: that goes down in history. Gives the work that puts it on record, which comes to its end if nobody waits, too.
    fn note(&self, by: &Author) -> Pending<()> {
        self.pool().note_command(&by.command, Some(by.user));
        // A pool that stops now puts it on record by itself.
        if self.is_exporting() {
            return Box::pin(async {});
        }
        let pool = self.pool().clone();
        let recorded = self.io.spawn(async move { pool.checkpoint().await });
        Box::pin(async move {
            // Its failure is told as the pool's.
            let _recorded = recorded.await;
        })
    }

    fn tell(&self, event: &Happening<PoolEvent>) {
        self.reported.set(event.number);
        if matches!(event.kind, PoolEvent::MemberReturned | PoolEvent::MemberReplaced) {
            self.name_members();
        }
        match event.kind {
            PoolEvent::MemberFailed if event.cause == Some(Cause::REPLACED) => {
                tracing::info!("{}: {event}", self.name());
            }
            PoolEvent::MemberFailed | PoolEvent::Broken | PoolEvent::Lost => {
                tracing::error!("{}: {event}", self.name());
            }
            PoolEvent::ScrubStarted | PoolEvent::ScrubEnded => tracing::info!("{}: {event}", self.name()),
            _ => tracing::warn!("{}: {event}", self.name()),
        }
        let event = self.event_status(event);
        let mut concerned = self.concerned.borrow_mut();
        concerned.insert(event.number, event.member.clone());
        while concerned.len() > SHOWN {
            concerned.pop_first();
        }
        drop(concerned);
        let event = Box::new(event);
        (self.listener)(News::Event { name: Some(self.name().to_owned()), event });
    }

    /// The member of an event is called as it was when that was passed on: another may have its place by now.
    fn event_status(&self, event: &Happening<PoolEvent>) -> EventStatus {
        let then = self.concerned.borrow().get(&event.number).cloned();
        let member = then.unwrap_or_else(|| event.role.and_then(|role| self.name_of(role)));
        EventStatus::of_member(event, event.kind.name(), member)
    }

    /// The full status at this moment.
    fn status(&self, seen: &Seen<'_>) -> PoolStatus {
        let (pool, gate) = (&self.hosted.pool, &self.placed.gate);
        let mut facts = PoolFacts::of(pool, |member| self.name_of(member));
        for (member, label) in self.successors() {
            let role = self.role_of(member);
            if let Some(device) = facts.devices.iter_mut().find(|device| device.member == role) {
                device.replaced_by = Some(label);
            }
        }
        let volumes = VolumeFacts::all(pool);
        let exports: Vec<String> = volumes.iter().map(|volume| self.export_of(&volume.name)).collect();
        let uses = seen.uses(self);
        let sum = |of: fn(&DoorStatus) -> u64| uses.iter().map(of).sum();
        let events = pool.events(0);
        let from = events.len().saturating_sub(SHOWN);
        PoolStatus {
            name: self.name().to_owned(),
            pid: std::process::id(),
            folder: self.placed.folder.clone(),
            pool: self.with_drives(facts),
            volumes,
            devices: exports.iter().filter_map(|of| Some((of.clone(), seen.device(of)?))).collect(),
            left_out: self.left_out.borrow().clone(),
            waits_for: self.hosted.waits_for.clone(),
            spare_group: self.hosted.spare_group.clone(),
            clients: seen.clients(self),
            refused: seen.stats.refused,
            connections: uses.iter().map(|one| one.connections).sum(),
            requests: sum(|one| one.requests),
            bytes_read: sum(|one| one.bytes_read),
            bytes_written: sum(|one| one.bytes_written),
            errors: sum(|one| one.errors),
            doors: PoolDoors::of(uses),
            exported: !gate.is_withdrawn(),
            limits: Some(gate.rates()).filter(Rates::limit).map(RateLimits::from),
            events: events[from..].iter().map(|event| self.event_status(event)).collect(),
            stale_for: None,
            server: self.placed.server.clone().unwrap_or_default(),
            disconnected: None,
            still_called: Vec::new(),
        }
    }
}

impl Content for ServedPool {
    fn kind(&self) -> &'static str {
        "pool"
    }

    fn name(&self) -> &str {
        self.name.get()
    }

    fn claims(&self, name: &str) -> bool {
        self.name() == name || self.next_name.borrow().as_deref() == Some(name)
    }

    fn uuid(&self) -> String {
        self.hosted.pool.label().pool.to_string()
    }

    fn names(&self) -> Names {
        Names {
            own: self.name().to_owned(),
            uuid: self.uuid(),
            devices: self.members.borrow().iter().flatten().cloned().collect(),
        }
    }

    /// All pools have as much memory for their maps.
    fn share(&self, host: &dyn Host) {
        let (HostedPool { pool, map_memory, .. }, pools) = (&self.hosted, all_of::<Self>(host).len());
        pool.set_map_memory(Tuning::share_of_map(*map_memory, pools));
    }

    /// A number is a member of an array, unless the pool is named.
    fn has_member(&self, name: &str) -> bool {
        let is_named = || self.members.borrow().iter().flatten().any(|own| own == name);
        is_named() || name.parse::<u16>().is_err() && self.member(name).is_some()
    }

    fn exports(&self) -> Vec<Offered> {
        let volumes = self.hosted.pool.volumes().into_iter();
        volumes.filter_map(|volume| self.offered(&volume.name)).collect()
    }

    /// A report needs them several times, and no volume.
    fn export_names(&self) -> Vec<String> {
        self.hosted.pool.volumes().iter().map(|volume| self.export_of(&volume.name)).collect()
    }

    fn is_one_export(&self) -> bool {
        false
    }

    fn placed(&self) -> &Placed {
        &self.placed
    }

    fn waits(&self) -> bool {
        !self.hosted.waits_for.is_empty()
    }

    fn use_of(&self, device: &str) -> Option<String> {
        let members = self.members.borrow();
        let is_it = |own: &&String| {
            let file = self.placed.folder.as_ref().map(|folder| folder.join(own));
            *own == device || file.as_deref() == Some(std::path::Path::new(device))
        };
        let own = members.iter().flatten().find(is_it)?;
        Some(format!("a device of '{}' already, {own}: name another", self.name()))
    }

    fn devices(&self, _: &dyn Host) -> Vec<MemberId> {
        self.devices.borrow().iter().map(|(_, id)| *id).collect()
    }

    fn holds(&self, device: MemberId) -> bool {
        self.devices.borrow().iter().any(|(_, own)| *own == device)
    }

    fn shares_spares(&self) -> Option<&dyn SharesSpares> {
        Some(self)
    }

    fn report(&self, seen: &Seen<'_>) -> Report {
        Report::Pool(Box::new(self.status(seen)))
    }

    fn carry_out(
        self: Rc<Self>,
        ask: Ask,
        by: Option<Author>,
        host: Rc<dyn Host>,
    ) -> Pending<Result<RequestOutcome, HostError>> {
        Box::pin(async move {
            // Not waited for: what they begin, and the answer, are more urgent.
            let noted = |this: &Self| drop(by.as_ref().map(|by| this.note(by)));
            match ask {
                Ask::Fail { member } => {
                    let failed = self.fail(&member).await;
                    host.publish();
                    failed?;
                    noted(&self);
                }
                Ask::PoolExport { force, .. } => {
                    self.export(&*host, force).await?;
                    noted(&self);
                }
                Ask::Action { action, max_speed, min_speed } => {
                    let acted = self.act(action, Speeds { max: max_speed, min: min_speed });
                    host.publish();
                    acted?;
                    noted(&self);
                }
                Ask::PoolRename { .. }
                | Ask::PoolOffline { .. }
                | Ask::PoolOnline { .. }
                | Ask::PoolReplace { .. }
                | Ask::PoolAdd { .. }
                | Ask::PoolAttach { .. }
                | Ask::PoolDetach { .. }
                | Ask::VolumeCreate { .. }
                | Ask::VolumeRename { .. }
                | Ask::VolumeDestroy { .. } => {
                    let still_called = self.change(ask, by, &host).await?;
                    return Ok(host.done(&*self, Effects { still_called, ..Effects::default() }));
                }
                Ask::PoolHistory { .. } => {
                    return Ok(RequestOutcome::History(Box::new(HistoryReport::of(self.pool()))));
                }
                ask => return Err(not_for(&*self, &ask)),
            }
            Ok(host.done(&*self, Effects::default()))
        })
    }

    fn stop(self: Rc<Self>, clients: Pending<()>) -> Pending<Result<(), HostError>> {
        Box::pin(async move {
            if self.stop.begins() {
                let (this, exports) = (Rc::clone(&self), self.is_exporting());
                self.io.spawn(async move {
                    clients.await;
                    let pool = &this.hosted.pool;
                    let stopped = if exports { pool.export().await } else { pool.stop().await };
                    this.tell_the_last_events();
                    this.stop.ends(stopped);
                });
            }
            self.stop.ended().await
        })
    }

    fn has_stopped_well(&self) -> Option<bool> {
        self.stop.has_ended_well()
    }

    fn last_words(&self) -> &'static str {
        if self.hosted.pool.is_read_only() { "stopped, nothing was written" } else { "stopped" }
    }

    fn tell_the_last_events(&self) {
        self.hosted.pool.events(self.reported.get()).iter().for_each(|event| self.tell(event));
    }
}
