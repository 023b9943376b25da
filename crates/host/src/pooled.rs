//! A pool that is served: its volumes, each an export of its own, and the orders that it takes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use brindle_export::iscsi::TargetSpec;
use brindle_export::{Gate, Rates};
use brindle_io::sync::{Either, Notify, race};
use brindle_io::{Duration, Io, MemberId};
use brindle_members::events::Event as Happening;
use brindle_pool::{Pool, PoolEvent, PoolVolume};

use crate::any::Any;
use crate::error::HostError;
use crate::events::{Listener, News};
use crate::limits::RateLimits;
use crate::names::Names;
use crate::servers::DoorStats;
use crate::status::{ClientStatus, EventStatus, LeftOut, PoolFacts, PoolStatus, VolumeFacts};

/// Time for recording a failure before it is reported as not recorded yet.
const RECORD_PATIENCE: Duration = Duration::from_millis(500);
/// Events that the status shows.
const SHOWN: usize = 100;

/// The addresses of an export, by its name.
pub type Addresses = Rc<dyn Fn(&str) -> Vec<String>>;

/// The way in which volumes become iSCSI targets.
#[derive(Clone)]
pub struct VolumeTargets {
    /// The name of a target, by its export and UUID.
    pub name: TargetNames,
    /// The target of a volume, or the reason why it can't be one.
    pub spec: TargetMaker,
    /// URIs of a target, by its name.
    pub uris: Addresses,
}

/// Makes a target of an export, by its UUID.
pub type TargetMaker = Rc<dyn Fn(&str, [u8; 16], Rc<Any>, Rc<Gate>) -> MadeTarget>;

/// The name of an export's target, by its UUID.
pub type TargetNames = Rc<dyn Fn(&str, [u8; 16]) -> String>;

/// A target, or the reason why there is none.
pub type MadeTarget = Result<TargetSpec<Any>, String>;

/// A pool that runs, and where it stands in its host.
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
    /// NBD URIs of exports.
    pub addresses: Addresses,
    /// The way in for clients of all its volumes: each volume has one like it.
    pub gate: Rc<Gate>,
    /// Its volumes are iSCSI targets.
    pub targets: Option<VolumeTargets>,
    /// The name of its server.
    pub server: String,
    /// The folder of the process.
    pub folder: Option<PathBuf>,
}

/// A pool that is served.
pub struct Pooled {
    pub(crate) hosted: HostedPool,
    /// Names of iSCSI targets, by export.
    pub(crate) targets: RefCell<BTreeMap<String, String>>,
    io: Io,
    listener: Listener,
    /// The number of the last event that was passed on.
    reported: Cell<u64>,
    stopping: Cell<bool>,
    stopped: RefCell<Option<Result<(), HostError>>>,
    changed: Notify,
}

impl Pooled {
    /// Begins to watch the pool.
    pub fn new(io: &Io, hosted: HostedPool, listener: &Listener) -> Rc<Self> {
        let pooled = Rc::new(Self {
            hosted,
            targets: RefCell::default(),
            io: io.clone(),
            listener: Rc::clone(listener),
            reported: Cell::new(0),
            stopping: Cell::new(false),
            stopped: RefCell::default(),
            changed: Notify::new(io),
        });
        let this = Rc::clone(&pooled);
        io.spawn(async move {
            let over = || this.stopped.borrow().is_some().then_some(());
            let pool = this.hosted.pool.clone();
            while let Either::First(event) =
                race(pool.next_event(this.reported.get()), this.changed.until(over)).await
            {
                this.tell(&event);
            }
        });
        pooled
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.hosted.name
    }

    /// The pool that is served.
    pub fn pool(&self) -> &Pool {
        &self.hosted.pool
    }

    /// It is for reading alone until members are here that were in use.
    pub fn waits(&self) -> bool {
        !self.hosted.waits_for.is_empty()
    }

    /// All devices that were opened for it, with their names.
    pub fn devices(&self) -> &[(String, MemberId)] {
        &self.hosted.devices
    }

    /// Names of its exports, each with its volume.
    pub fn exports(&self) -> Vec<(String, PoolVolume)> {
        let volumes = self.hosted.pool.volumes().into_iter();
        let of = |name: String| Some((self.export_of(&name), self.hosted.pool.volume(&name)?));
        volumes.filter_map(|volume| of(volume.name)).collect()
    }

    /// NBD URIs of an export.
    pub fn addresses(&self, export: &str) -> Vec<String> {
        (self.hosted.addresses)(export)
    }

    /// iSCSI URIs of an export.
    pub fn uris(&self, export: &str) -> Vec<String> {
        let (targets, ways) = (self.targets.borrow(), self.hosted.targets.as_ref());
        targets.get(export).zip(ways).map(|(target, ways)| (ways.uris)(target)).unwrap_or_default()
    }

    /// Names of its exports, each with that of the iSCSI target that it is.
    pub(crate) fn targeted(&self) -> Vec<(String, Option<String>)> {
        let exports = self.exports().into_iter();
        exports.map(|(export, _)| (export.clone(), self.target(&export))).collect()
    }

    /// The name of the iSCSI target that an export is.
    pub(crate) fn target(&self, export: &str) -> Option<String> {
        self.targets.borrow().get(export).cloned()
    }

    /// The UUID of a volume: the pool's, with the volume's number in its first bytes.
    pub(crate) fn uuid_of(&self, volume: &PoolVolume) -> [u8; 16] {
        let mut uuid = self.hosted.pool.label().pool.into_bytes();
        uuid.iter_mut().zip(volume.id().to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
        uuid
    }

    pub(crate) fn export_of(&self, volume: &str) -> String {
        format!("{}/{volume}", self.name())
    }

    /// Names by which it can be meant.
    pub(crate) fn names(&self) -> Names {
        Names {
            own: self.name().to_owned(),
            uuid: self.hosted.pool.label().pool.to_string(),
            devices: self.hosted.members.iter().flatten().cloned().collect(),
        }
    }

    /// The number of the member that was named so, or is called `VDEV.ROLE`.
    pub(crate) fn member(&self, name: &str) -> Option<u16> {
        let members = &self.hosted.members;
        let named = |at: &usize| members[*at].as_deref() == Some(name);
        let status = self.hosted.pool.status();
        let called = || status.members.iter().position(|m| format!("{}.{}", m.vdev, m.role) == name);
        let file = || {
            let same = |member: &Option<String>| {
                let member = member.as_ref()?;
                let path = self.hosted.folder.as_ref().map(|folder| folder.join(member))?;
                Some(path == std::path::Path::new(name))
            };
            members.iter().position(|member| same(member) == Some(true))
        };
        (0..members.len()).find(named).or_else(called).or_else(file).map(|at| at as u16)
    }

    /// Takes a member out of service.
    pub(crate) async fn fail(&self, member: &str) -> Result<(), HostError> {
        let Some(number) = self.member(member) else {
            let known = self.hosted.members.iter().flatten().cloned().collect();
            return Err(HostError::NoMember {
                member: member.to_owned(),
                array: self.name().to_owned(),
                known,
            });
        };
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

    /// Stops the pool, once its clients are gone: `clients` waits for that. A second call waits for the same end.
    pub(crate) async fn stop(
        self: &Rc<Self>,
        clients: impl Future<Output = ()> + 'static,
    ) -> Result<(), HostError> {
        if !self.stopping.replace(true) {
            let this = Rc::clone(self);
            self.io.spawn(async move {
                clients.await;
                let stopped = this.hosted.pool.stop().await;
                this.tell_the_last_events();
                *this.stopped.borrow_mut() = Some(stopped.map_err(HostError::Stop));
                this.changed.notify();
            });
        }
        self.changed.until(|| self.stopped.borrow().clone()).await
    }

    /// Whether the pool has stopped well; `None` while it runs.
    pub(crate) fn has_stopped_well(&self) -> Option<bool> {
        self.stopped.borrow().as_ref().map(Result::is_ok)
    }

    /// The pool's end, for people.
    pub(crate) fn last_words(&self) -> &'static str {
        if self.hosted.pool.is_read_only() { "stopped, nothing was written" } else { "stopped" }
    }

    pub(crate) fn tell_the_last_events(&self) {
        self.hosted.pool.events(self.reported.get()).iter().for_each(|event| self.tell(event));
    }

    fn tell(&self, event: &Happening<PoolEvent>) {
        self.reported.set(event.number);
        match event.kind {
            PoolEvent::MemberFailed | PoolEvent::Broken | PoolEvent::Lost => {
                tracing::error!("{}: {event}", self.name());
            }
            _ => tracing::warn!("{}: {event}", self.name()),
        }
        let event = Box::new(self.event_status(event));
        (self.listener)(News::Event { name: Some(self.name().to_owned()), event });
    }

    fn event_status(&self, event: &Happening<PoolEvent>) -> EventStatus {
        let member =
            event.role.and_then(|role| self.hosted.members.get(usize::from(role)).cloned().flatten());
        EventStatus::of_member(event, event.kind.name(), member)
    }

    /// The full status at this moment.
    pub(crate) fn report(&self, stats: &DoorStats) -> PoolStatus {
        let pool = &self.hosted.pool;
        let path = |member: u16| self.hosted.members.get(usize::from(member)).cloned().flatten();
        let volumes = VolumeFacts::all(pool);
        let exports: Vec<String> = volumes.iter().map(|volume| self.export_of(&volume.name)).collect();
        let used: Vec<_> = stats.nbd.iter().filter(|stats| exports.contains(&stats.name)).collect();
        let targets: Vec<String> = self.targets.borrow().values().cloned().collect();
        let initiators: Vec<_> = stats.iscsi.iter().filter(|stats| targets.contains(&stats.name)).collect();
        let totals =
            || used.iter().map(|stats| &stats.total).chain(initiators.iter().map(|stats| &stats.total));
        let sessions: usize = initiators.iter().map(|stats| stats.initiators.len()).sum();
        let events = pool.events(0);
        let from = events.len().saturating_sub(SHOWN);
        PoolStatus {
            name: self.name().to_owned(),
            pid: std::process::id(),
            folder: self.hosted.folder.clone(),
            nbd: exports.iter().flat_map(|export| self.addresses(export)).collect(),
            iscsi: exports.iter().flat_map(|export| self.uris(export)).collect(),
            pool: PoolFacts::of(pool, path),
            volumes,
            devices: Vec::new(),
            left_out: self.hosted.left_out.clone(),
            waits_for: self.hosted.waits_for.clone(),
            clients: ClientStatus::of_exports(&stats.connections, &stats.iscsi, &self.targeted()),
            refused: stats.refused,
            connections: used.iter().map(|stats| stats.connections).sum::<usize>() + sessions,
            requests: totals().map(|total| total.requests).sum(),
            bytes_read: totals().map(|total| total.read_bytes).sum(),
            bytes_written: totals().map(|total| total.written_bytes).sum(),
            errors: totals().map(|total| total.errors).sum(),
            exported: !self.hosted.gate.is_withdrawn(),
            limits: Some(self.hosted.gate.rates()).filter(Rates::limit).map(RateLimits::from),
            events: events[from..].iter().map(|event| self.event_status(event)).collect(),
            stale_for: None,
            server: self.hosted.server.clone(),
            disconnected: None,
        }
    }
}
