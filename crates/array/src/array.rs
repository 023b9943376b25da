//! The array: a volume over its members.

use core::cell::{Cell, RefCell};
use core::ops::Range;
use std::rc::Rc;

use crate::events::{Event, Events};
use crate::process::{Process, ProcessError, ProcessKind};
use brindle_io::{Instant, Io, Slice};
use brindle_layout::{Geometry, Level, Place};
use brindle_members::direct::{read_alone, write_alone};
use brindle_members::door::Moved;
use brindle_members::members::{Dependence, Device, Members, RoleState};
use brindle_members::process::Speeds;
use brindle_volume::{Allocation, Limits, Ticket, Volume, VolumeError, Wanted, ZeroOptions};

use crate::channels::Channels;
use crate::config::{Access, OpenConfig};
use crate::core::Core;
use crate::data::report::SyncReport;
use crate::intent::Intent;
use crate::keeper::{CanLose, Keeper, KeptRecord, SyncMap};
use crate::ledger::{Ledger, State};
use crate::lineage::Lineage;
use crate::placement::{Family, Placement, Split, write_copied};

/// More than the number of any stream of writes in one shape of an array, or an open channel.
pub(crate) const STREAMS: usize = 1 << 16;

/// A running array. A handle: cloning gives the same array, also when that has got [another shape](Array::grow).
///
/// Requests must be driven to their end (as tasks of their own, for instance): one that is dropped on its way may
/// have changed some members and not others.
#[derive(Clone)]
pub struct Array(pub(crate) Lineage<Running>);

/// The part of an array on the other side of the reshape position: bytes that have moved are where the new geometry has them, the
/// others where the old one has.
pub struct Border {
    /// Byte of the array at which the border stands.
    pub position: u64,
    /// True if the other side lies before the border; false if it lies from the border on.
    pub before: bool,
    /// Where the other side's bytes live,
    pub geometry: Geometry,
    /// and where the members have its data.
    pub moved: Moved,
}

/// All that an array is opened with.
pub struct Opening {
    /// Where its bytes live; while it is being reshaped, the geometry that has all members.
    pub geometry: Geometry,
    /// The other side, while it is being reshaped.
    pub border: Option<Border>,
    /// Its members, in the states that the record has them.
    pub members: Members,
    /// The record, which has the write-intent bitmap too.
    pub ledger: Box<dyn Ledger>,
}

/// All that a run begins with, or goes on with in another shape.
pub(crate) struct Beginning {
    pub(crate) geometry: Geometry,
    pub(crate) border: Option<Border>,
    pub(crate) members: Members,
    pub(crate) ledger: Rc<dyn Ledger>,
    /// From where on redundancy is in doubt.
    pub(crate) in_doubt: Option<u64>,
    pub(crate) events: Rc<Events>,
    pub(crate) channels: Rc<Channels>,
}

/// A core, and where on its members the array's bytes live.
pub(crate) struct Running {
    pub(crate) core: Rc<Core>,
    pub(crate) placement: Placement,
    /// While the array is being reshaped: the geometry that has all members.
    pub(crate) geometry: Geometry,
    /// While data are being moved: where those are that have not.
    pub(crate) earlier_geometry: Option<Geometry>,
    /// The process that is under way.
    pub(crate) process: RefCell<Option<Process>>,
    /// Speeds of processes that begin.
    pub(crate) speeds: Cell<Speeds>,
    /// The last automatic process that ended.
    pub(crate) outcome: RefCell<Option<Outcome>>,
    /// How often what had ended before its end was to begin again.
    pub(crate) resumed: Cell<u32>,
    /// The array is being given another shape: no process begins.
    pub(crate) growing: Cell<bool>,
    /// How many shapes it had before.
    pub(crate) shapes: usize,
}

/// The outcome of a resync, a recovery or a replacement.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The kind of the process.
    pub kind: ProcessKind,
    /// The process's report. For a recovery it counts places that could not be rebuilt, in the failed members' data
    /// areas, and places of other members that were mended on the way.
    pub report: SyncReport,
    /// When it ended, on the reactor's clock.
    pub ended: Instant,
    /// Whether it came to its end.
    pub result: Result<(), ProcessError>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing will change any more: tasks that wait for a change of the members must wake up and end.
        self.core.members.changed().notify();
    }
}

impl Array {
    /// An array whose state `ledger` keeps. With a border, what lies on one side of it is elsewhere than `geometry` says;
    /// then the array is read only.
    pub(crate) fn over(io: &Io, opening: Opening, config: &OpenConfig) -> Self {
        let Opening { geometry, border, members, ledger } = opening;
        let (ledger, events): (Rc<dyn Ledger>, _) = (Rc::from(ledger), Rc::new(Events::new(io)));
        let in_doubt = ledger.in_doubt();
        let channels = Channels::new(io);
        let beginning = Beginning { geometry, border, members, ledger, in_doubt, events, channels };
        Self(Lineage::new(Running::new(io, beginning, config)))
    }
}

impl Running {
    /// The run over these members.
    pub(crate) fn new(io: &Io, beginning: Beginning, config: &OpenConfig) -> Self {
        let Beginning { geometry, border, members, ledger, in_doubt, events, channels } = beginning;
        let (members, bitmap) = (Rc::new(members), ledger.bitmap());
        let can_lose = can_lose(&geometry, border.as_ref());
        // The last copy of a mirror differs from no other, whatever is on record.
        let holds =
            |&role: &u16| !matches!(members.state(role), RoleState::Missing | RoleState::Recovering(0));
        let last = geometry.level() == Level::Raid1 && (0..members.len()).filter(holds).count() == 1;
        let sync_map = match border {
            None => SyncMap::of(&geometry, in_doubt.filter(|_| !last)),
            Some(_) => SyncMap::of_two(in_doubt.is_some()),
        };
        let undoubted = bitmap.iter().flat_map(|bitmap| bitmap.undoubted());
        undoubted.for_each(|range| sync_map.add(range, true));
        let dependence =
            Dependence { redundant: geometry.level().is_redundant(), coupled: has_parity(&geometry) };
        let found = State { dirty: false, resync_offset: in_doubt };
        let record = KeptRecord { ledger, found, sync_map, events, channels, home: None };
        let keeper = Keeper::new(io, Rc::clone(&members), can_lose, dependence, record, config.clone());
        // Nothing is put on record for what does not change.
        let writes = config.access == Access::ReadWrite;
        let logs = config.logs.iter().filter(|_| writes).map(|log| log.make(io, &geometry));
        // An observer knows places by one geometry.
        let observed = writes && border.is_none();
        let observers = config.observers.iter().filter(|_| observed).map(|observer| observer.make(&geometry));
        let intent = Intent::new(bitmap, logs.collect(), observers.collect());
        let geometries = || core::iter::once(&geometry).chain(border.as_ref().map(|border| &border.geometry));
        let size = geometries().map(Geometry::size).min().unwrap_or(0);
        let limits = Limits { size, ..limits(io, &geometry, &members, config.is_read_only()) };
        let scratch = geometries().map(|geometry| Family::scratch_bytes(geometry, config.scratch_bytes));
        let scratch = scratch.max().unwrap_or(0);
        let core = Core::new(io, members, keeper, intent, config.clone(), limits, dependence, scratch);
        let family = Family::new(&core, &geometry, None);
        let is_earlier = |border: &&Border| !border.before;
        let earlier_geometry = border.as_ref().filter(is_earlier).map(|border| border.geometry.clone());
        let placement = match border {
            None => Placement::One(family),
            Some(Border { position, before, geometry, moved }) => {
                let other = Family::new(&core, &geometry, Some(moved));
                let (below, above) = if before { (other, family) } else { (family, other) };
                Placement::Split(Box::new(Split::new(&core.io, position, below, above)))
            }
        };
        let (process, outcome) = (RefCell::default(), RefCell::default());
        let (speeds, resumed) = (Cell::new(config.speeds), Cell::new(0));
        let (growing, shapes) = (Cell::new(false), 0);
        Self {
            core,
            placement,
            geometry,
            earlier_geometry,
            process,
            speeds,
            outcome,
            resumed,
            growing,
            shapes,
        }
    }
}

impl Array {
    /// Members that don't answer are given up from now on.
    pub(crate) fn watched(self) -> Self {
        let weak = self.0.downgrade();
        let tell = move |role, age| {
            let array = weak.upgrade();
            let mirrors = array.iter().flat_map(|array| array.placement.mirrors());
            mirrors.for_each(|mirror| mirror.note_given_up(role, age));
        };
        let _once = self.0.core.when_given_up.set(Box::new(tell));
        self.0.core.watch();
        self
    }

    /// The state of a role's member.
    ///
    /// # Panics
    /// If the array has no such role.
    pub fn state(&self, role: u16) -> RoleState {
        self.0.core.members.state(role)
    }

    /// How often the role's member could not read something that redundancy made up for.
    ///
    /// # Panics
    /// If the array has no such role.
    pub fn corrected(&self, role: u16) -> u64 {
        self.0.core.members.errors(role).total()
    }

    /// Read errors of the role's member that count now. One more than [`OpenConfig::read_errors`], and it is failed.
    ///
    /// # Panics
    /// If the array has no such role.
    pub fn read_errors(&self, role: u16) -> u32 {
        self.0.core.members.errors(role).counted(self.0.core.io.now())
    }

    /// Places of the role's member that hold nothing that was ever written, in bytes of its data area: a recovery could not
    /// rebuild them. A read of one is answered from redundancy or with an error, until it is rewritten.
    ///
    /// # Panics
    /// If the array has no such role.
    pub fn bad_blocks(&self, role: u16) -> Vec<Range<u64>> {
        self.0.core.members.bad(role).places().to_vec()
    }

    /// The bytes of the array that a range of a role's data area holds, in the order of the latter; none for parity.
    pub fn array_ranges(&self, role: u16, range: Range<u64>) -> Vec<Range<u64>> {
        let geometry = &self.0.geometry;
        let (mut ranges, mut at): (Vec<Range<u64>>, u64) = (Vec::new(), range.start);
        while at < range.end {
            let unit = geometry.chunk().clamp(512, 1 << 20);
            let len = (unit - at % unit).min(range.end - at);
            if let Place::Data { array_offset, .. } = geometry.place(role, at) {
                match ranges.last_mut() {
                    Some(last) if last.end == array_offset => last.end += len,
                    _ => ranges.push(array_offset..array_offset + len),
                }
            }
            at += len;
        }
        ranges
    }

    /// The outcome of the last resync, recovery or replacement that ended in this run.
    pub fn last_outcome(&self) -> Option<Outcome> {
        self.0.outcome.borrow().clone()
    }

    /// How fast processes go that begin from now on.
    pub fn speeds(&self) -> Speeds {
        self.0.speeds.get()
    }

    /// Processes that begin from now on go so fast, until the array's run ends. The one that is under way has
    /// [speeds](Process::set_pace) of its own.
    pub fn set_speeds(&self, speeds: Speeds) {
        self.0.speeds.set(speeds);
    }

    /// Devices that wait to replace a member, in the order in which they would.
    pub fn spares(&self) -> Vec<Device> {
        self.0.core.keeper.ledger().spares()
    }

    /// Where each byte lives.
    pub fn geometry(&self) -> &Geometry {
        &self.0.geometry
    }

    /// The events after the one with this number that are still remembered, oldest first; 0 gives all of them. Where
    /// numbers are missing, events were forgotten.
    pub fn events_since(&self, number: u64) -> Vec<Event> {
        self.0.core.keeper.events().since(number)
    }

    /// The first event after the one with this number that is still remembered; waits for one if there is none yet.
    pub async fn next_event(&self, number: u64) -> Event {
        self.0.core.keeper.events().next(number).await
    }
}

/// Whether every byte survives the loss of these roles, on both sides of a border.
fn can_lose(geometry: &Geometry, border: Option<&Border>) -> CanLose {
    let (here, beyond) = (geometry.clone(), border.map(|border| border.geometry.clone()));
    Box::new(move |lost| here.can_lose(lost) && beyond.as_ref().is_none_or(|beyond| beyond.can_lose(lost)))
}

fn has_parity(geometry: &Geometry) -> bool {
    matches!(geometry.level(), Level::Raid4 | Level::Raid5 | Level::Raid6)
}

fn limits(io: &Io, geometry: &Geometry, members: &Members, read_only: bool) -> Limits {
    let infos = || (0..members.len()).filter_map(|role| io.member_info(members.device(role)?.id));
    let block = infos().map(|info| info.logical_block).max().unwrap_or(512);
    let physical = infos().map(|info| info.physical_block).max().unwrap_or(block).max(block);
    Limits {
        size: geometry.size(),
        block,
        preferred: if has_parity(geometry) { geometry.chunk() as u32 } else { physical },
        optimal: geometry.row_bytes(),
        read_only,
        discard: infos().any(|info| info.discard),
    }
}

/// Whether others may change some of the memory at any time.
#[inline]
fn is_shared(list: &[Slice]) -> bool {
    list.iter().any(Slice::is_shared)
}

impl Volume for Array {
    fn limits(&self) -> Limits {
        self.0.core.limits
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let Running { core, placement, .. } = &*self.0;
        let len = core.check_list(offset, into.as_ref())?;
        // Requests that go straight to one member are awaited here. A future of the family in between would be polled
        // and dropped with each read. All others are one future behind a pointer, so that this one stays small.
        let rest = 'rest: {
            let (pending, asked) = match placement {
                _ if len == 0 => return Ok(()),
                Placement::One(Family::Stripes(stripes)) if stripes.door().reads_alone(into.as_ref()) => {
                    read_alone(stripes.door(), offset, into.as_ref(), |at| stripes.place(at))?
                }
                Placement::One(Family::Parity(parity)) if parity.reads_alone(into.as_ref()) => {
                    read_alone(parity.door(), offset, into.as_ref(), |at| parity.place(at))?
                }
                Placement::One(Family::Mirror(mirror)) => match mirror.read(offset, into.as_ref()).await {
                    Ok(()) => return Ok(()),
                    refused => {
                        break 'rest self.or_read_anew(core, async move || refused, offset, into.as_ref());
                    }
                },
                Placement::One(family) => match Box::pin(family.read(offset, into.as_ref())).await {
                    Ok(()) => return Ok(()),
                    refused => {
                        break 'rest self.or_read_anew(core, async move || refused, offset, into.as_ref());
                    }
                },
                Placement::Split(split) => {
                    let read = async || split.read(offset, into.as_ref()).await;
                    break 'rest self.or_read_anew(core, read, offset, into.as_ref());
                }
            };
            let outcome = pending.await;
            if asked.is_well(core, &outcome) {
                return Ok(());
            }
            let family = placement.one()?;
            let done = family.door().done(asked, &outcome);
            let read = async || family.read_on(offset, into.as_ref(), done).await;
            self.or_read_anew(core, read, offset, into.as_ref())
        };
        rest.await
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let Running { core, placement, .. } = &*self.0;
        core.limits.check_change()?;
        let len = core.check_list(offset, from.as_ref())?;
        let Some(_passage) = core.claims.pass_at_once() else {
            return Box::pin(self.write_once_free(offset, from.as_ref(), fua)).await;
        };
        let family = match placement {
            _ if len == 0 => return Ok(()),
            Placement::One(family) => family,
            Placement::Split(split) => return Box::pin(split.write(core, offset, from.as_ref(), fua)).await,
        };
        let stripes = match family {
            Family::Stripes(stripes) => stripes,
            Family::Mirror(mirror) if mirror.allows_write_behind() && !fua => {
                return Box::pin(self.write_behind(offset, from.as_ref())).await;
            }
            Family::Mirror(mirror) if is_shared(from.as_ref()) => {
                let write = async |at, copy: &[Slice]| mirror.write(at, copy, fua).await;
                return Box::pin(write_copied(core, offset, from.as_ref(), write)).await;
            }
            Family::Parity(parity) if is_shared(from.as_ref()) => {
                let write = async |at, copy: &[Slice]| parity.write(at, copy, fua).await;
                return Box::pin(write_copied(core, offset, from.as_ref(), write)).await;
            }
            Family::Mirror(mirror) => return mirror.write(offset, from.as_ref(), fua).await,
            Family::Parity(parity) => return parity.write(offset, from.as_ref(), fua).await,
        };
        // Each byte goes to one member, once. Sent and awaited here, as reads are.
        let _writing = match core.begin_at_once(offset, len) {
            Some(writing) => writing,
            None => core.begin(offset, len).await?,
        };
        let door = stripes.door();
        if !door.writes_alone() {
            return Box::pin(stripes.write_watched(offset, from.as_ref(), fua)).await;
        }
        let (pending, asked) =
            write_alone(door, offset, from.as_ref(), fua, |at| stripes.place_to_write(at))?;
        let outcome = pending.await;
        if asked.is_well(core, &outcome) {
            return Ok(());
        }
        Box::pin(stripes.unwritten(&stripes.door().done(asked, &outcome))).await
    }

    fn comes(&self, offset: u64, len: u64) -> Option<usize> {
        match self.0.placement.one() {
            Ok(Family::Parity(parity)) => Some(parity.comes(offset, len)? + self.0.shapes * STREAMS),
            _ => None,
        }
    }

    fn came(&self, stream: usize) {
        // A stream of the array's earlier shape has no writes any more that wait for it.
        if let Ok(Family::Parity(parity)) = self.0.placement.one()
            && stream / STREAMS == self.0.shapes
        {
            parity.came(stream % STREAMS);
        }
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        if self.0.core.members.has_write_behind() {
            Box::pin(self.caught_up()).await;
        }
        let core = &self.0.core;
        match core.flush_members().await {
            Err(VolumeError::Stopping) if core.superseded.get() => Box::pin(self.flush()).await,
            flushed => flushed,
        }
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.0.core.check_change(offset, len)?;
        let _passage = self.passage(offset, len).await?;
        match &self.0.placement {
            _ if len == 0 => Ok(()),
            Placement::One(Family::Stripes(stripes)) => stripes.discard(offset, len).await,
            Placement::One(Family::Mirror(mirror)) => mirror.discard(offset, len).await,
            Placement::One(Family::Parity(parity)) => parity.discard(offset, len).await,
            Placement::Split(split) => split.discard(offset, len).await,
        }
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        self.0.core.check_change(offset, len)?;
        let _passage = self.passage(offset, len).await?;
        match &self.0.placement {
            _ if len == 0 => Ok(()),
            Placement::One(Family::Stripes(stripes)) => stripes.write_zeroes(offset, len, options).await,
            Placement::One(Family::Mirror(mirror)) => mirror.write_zeroes(offset, len, options).await,
            Placement::One(Family::Parity(parity)) => parity.write_zeroes(offset, len, options).await,
            Placement::Split(split) => split.write_zeroes(offset, len, options).await,
        }
    }

    async fn allocation(
        &self,
        offset: u64,
        len: u64,
        found: &mut Vec<Allocation>,
    ) -> Result<(), VolumeError> {
        let Running { core, placement, .. } = &*self.0;
        core.check(offset, len)?;
        match placement {
            _ if len == 0 => {}
            Placement::One(family) => {
                let block = u64::from(core.limits.block);
                Box::pin(family.allocation(block, offset..offset + len, found)).await;
            }
            Placement::Split(_) => found.push(Allocation { len, hole: false, zero: false }),
        }
        Ok(())
    }

    fn ticket(&self, to: usize) -> Option<Ticket> {
        self.seed(to)
    }

    async fn others_ended(&self) {
        let _quiet = self.0.core.keeper.channels.quiet().await;
    }

    async fn compare_and_write(
        &self,
        offset: u64,
        expected: &Slice,
        new: &Slice,
        scratch: &Slice,
        fua: bool,
        wanted: &Wanted,
    ) -> Result<Option<u64>, VolumeError> {
        Box::pin(self.exchange(offset, expected, new, scratch, fua, wanted)).await
    }
}
