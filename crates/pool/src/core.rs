//! State that all parts of a running pool share.

use core::cell::{Cell, RefCell};
use core::ops::Range;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use brindle_format::pool::{BLOCK, Host, VolumeRecord};
use brindle_io::sync::Notify;
use brindle_io::{Duration, MemberId};
use brindle_members::events::{Cause, Events, Note};
use brindle_members::lock::RangeLock;
use brindle_members::patience::Patience;
use brindle_members::scratch::Scratch;
use brindle_members::set::MemberSet;

use crate::damage::{Blocks, DamagedRange, Known};
use crate::events::PoolEvent;
use crate::log::crew::Crew;
use crate::log::refusals::Refusals;
use crate::log::state::Log;
use crate::opening::look::PoolOpenError;
use crate::record::label::CurrentLabel;
use crate::record::state::Record;
use crate::role::{Role, mask_of, members_of};
use crate::run::Run;
use crate::spares::Spares;
use crate::store::history::PoolHistory;
use crate::store::map::{Key, Map};
use crate::store::space::Space;
use crate::store::volumes::VolumeList;
use crate::upkeep::checkpoints::Checkpoints;
use crate::upkeep::cleaner::Cleaner;
use crate::upkeep::resilvering::Resilvering;
use crate::upkeep::scrubs::Scrubs;

/// Seconds after which damage is told that was found since some was told last: more each time, up to the latter.
const FIRST_WAIT: u64 = 1;
const LONGEST_WAIT: u64 = 64;

/// How a pool runs.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// How long members may take.
    pub patience: Patience,
    /// Changes of the map in memory after which a checkpoint is due.
    pub changes: usize,
    /// Batches after which one is due.
    pub batches: u64,
    /// Bytes of memory for the map: its pages, changes that no page has yet, and what a checkpoint needs to bring these together.
    pub map_memory: usize,
    /// Bytes of these that changes may take, with the pages that they change, after which a checkpoint is due: fewer where branches take much.
    /// More than twice as many are never taken.
    pub dirty_memory: usize,
    /// Bytes of memory for requests.
    pub memory: usize,
    /// A member without room for a write stays in use, and the write is refused; else it fails, if the pool can do without it.
    pub waits_for_space: bool,
    /// After a member was lost, the time that a replacement has before what stands is moved to get all the parity that it can have.
    pub raise_after: Duration,
    /// The time, in seconds since 1970.
    pub clock: fn() -> u64,
    /// The host that opens pools.
    pub host: Host,
    /// It takes pools that another host has not given away: that one may have them open.
    pub takes_over: bool,
}

impl PoolConfig {
    /// The usual values.
    pub fn new(clock: fn() -> u64) -> Self {
        Self {
            patience: Patience { answer: Duration::from_secs(20), ..Patience::default() },
            changes: 1 << 20,
            batches: 512 << 10,
            map_memory: 128 << 20,
            dirty_memory: Self::dirty_of(128 << 20),
            memory: 32 << 20,
            waits_for_space: true,
            raise_after: Duration::from_secs(15 * 60),
            clock,
            host: Host::NONE,
            takes_over: false,
        }
    }

    /// The usual part of the map's memory that changes may take.
    pub const fn dirty_of(map_memory: usize) -> usize {
        map_memory / 4
    }
}

/// Bytes written to members, by what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Blocks that clients wrote.
    pub client: u64,
    /// Blocks that cleaning moved.
    pub moved: u64,
    /// Summaries, and what fills stripes up.
    pub summaries: u64,
    /// Pages.
    pub pages: u64,
    /// Parity of all of these.
    pub parity: u64,
}

pub(crate) struct Core {
    pub(crate) set: MemberSet,
    pub(crate) label: CurrentLabel,
    pub(crate) config: PoolConfig,
    pub(crate) read_only: bool,
    /// Locks of blocks, by [`crate::store::map::lock_of`].
    pub(crate) locks: RangeLock,
    pub(crate) space: RefCell<Space>,
    pub(crate) map: RefCell<Map>,
    /// Bytes of memory for the map, and those of them that changes may take: others that share it come and go.
    pub(crate) map_memory: Cell<usize>,
    pub(crate) dirty_memory: Cell<usize>,
    pub(crate) log: Rc<Log>,
    pub(crate) crew: Crew,
    /// Pages of the map that are being read, by their keys.
    pub(crate) loading: RefCell<BTreeMap<Key, Rc<Notify>>>,
    /// Memory of batches and of windows, and of reads. A task that holds memory of batches may wait for memory of reads, not the other way.
    pub(crate) batches: Scratch,
    pub(crate) reads: Scratch,
    pub(crate) run: Run,
    pub(crate) record: Record,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) cleaner: Cleaner,
    pub(crate) resilvering: Resilvering,
    /// Members that are being taken out, brought back or replaced.
    pub(crate) changing: RefCell<Vec<u16>>,
    /// Devices that are about to come into use.
    pub(crate) coming: RefCell<Vec<MemberId>>,
    pub(crate) spares: Spares,
    pub(crate) scrubs: Scrubs,
    /// Writes that members refused.
    pub(crate) refusals: Refusals,
    pub(crate) volumes: VolumeList,
    pub(crate) history: PoolHistory,
    /// Room has become free, or a checkpoint has ended.
    pub(crate) room: Notify,
    /// The next checkpoint may have no room for its pages.
    pub(crate) room_unsure: Cell<bool>,
    /// The reason why it is open for reading alone, if it was not opened so.
    pub(crate) shut: RefCell<Option<PoolOpenError>>,
    pub(crate) damage: RefCell<Known>,
    pub(crate) written: Cell<Written>,
    /// Requests of clients since it was opened.
    pub(crate) requests: Cell<u64>,
    pub(crate) events: Events<PoolEvent>,
    pub(crate) me: Weak<Core>,
}

impl Core {
    /// This, to be kept by a task.
    pub(crate) fn kept(&self) -> Option<Rc<Self>> {
        self.me.upgrade()
    }

    /// The role of a member.
    pub(crate) fn role_of(&self, member: u16) -> Role {
        Role::of(&self.label.get(), member)
    }

    /// The members of each vdev that are in use, a bit each.
    pub(crate) fn present(&self) -> Vec<u64> {
        let is_in = |member: u16| self.set.members.writable(member).is_some();
        let label = self.label.get();
        (0..label.vdevs.len()).map(|vdev| mask_of(&members_of(&label, vdev), is_in)).collect()
    }

    pub(crate) fn happened(&self, kind: PoolEvent, role: Option<u16>, cause: Option<Cause>) {
        let label = role.map(|member| self.label_of(member));
        self.note(Note { role, label, cause, ..Note::of(kind) });
    }

    /// Something has happened to the pool as a whole.
    pub(crate) fn happened_to_all(&self, kind: PoolEvent) {
        let label = Some(self.label.get().name.clone());
        self.note(Note { label, ..Note::of(kind) });
    }

    fn label_of(&self, member: u16) -> String {
        let label = self.label.get();
        format!("{} {}", label.name, Role::of(&label, member))
    }

    fn note(&self, note: Note<PoolEvent>) {
        let event = self.events.note((self.config.clock)(), note);
        if event.kind.goes_down() {
            self.went_so(&event.to_string());
        }
    }

    /// A client asks for something: background work makes room.
    pub(crate) fn asked(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    pub(crate) fn tally(&self, count: impl FnOnce(&mut Written)) {
        let mut written = self.written.get();
        count(&mut written);
        self.written.set(written);
    }

    /// Blocks of a volume are lost, as a read finds out.
    pub(crate) fn lost(&self, volume: u32, blocks: Range<u64>) {
        let new = self.damage.borrow_mut().lost(volume, blocks);
        if new {
            self.tell_damage();
        }
    }

    /// Tells damage at once, and that which comes soon after it together: a member that rots has thousands of bad places.
    pub(crate) fn tell_damage(&self) {
        if core::mem::replace(&mut self.damage.borrow_mut().telling, true) {
            return;
        }
        self.tell_untold();
        let (core, io) = (self.me.clone(), self.set.io.clone());
        drop(self.set.io.spawn(async move {
            let mut wait = FIRST_WAIT;
            loop {
                io.sleep(Duration::from_secs(wait)).await;
                let Some(core) = core.upgrade() else { return };
                if !core.tell_untold() {
                    core.damage.borrow_mut().telling = false;
                    return;
                }
                wait = (2 * wait).min(LONGEST_WAIT);
            }
        }));
    }

    /// Notes events of all damage that none has told yet; whether there was any.
    pub(crate) fn tell_untold(&self) -> bool {
        let (members, lost) = self.damage.borrow_mut().take_untold();
        let any = !members.is_empty() || !lost.is_empty();
        for ((role, mended), untold) in members {
            let kind = if mended { PoolEvent::Mended } else { PoolEvent::Wrong };
            let (label, blocks) = (Some(self.label_of(role)), Some(untold.blocks));
            self.note(Note { role: Some(role), label, range: untold.range, blocks, ..Note::of(kind) });
        }
        for range in self.damaged(&lost) {
            let bytes = range.offset..range.offset + range.length;
            let label = Some(format!("{}/{}", self.label.get().name, range.volume));
            self.note(Note { label, range: Some(bytes), ..Note::of(PoolEvent::Lost) });
        }
        if lost.beyond() > 0 {
            let (label, blocks) = (Some(self.label.get().name.clone()), Some(lost.beyond()));
            self.note(Note { label, blocks, ..Note::of(PoolEvent::Lost) });
        }
        any
    }

    /// Ranges of blocks, by the names of their volumes. Volumes that are gone are left out.
    pub(crate) fn damaged(&self, blocks: &Blocks) -> Vec<DamagedRange> {
        let named = |(id, blocks): (u32, Range<u64>)| {
            let name_and_size = |record: &VolumeRecord| (record.name.clone(), record.size);
            let (volume, size) = self.volumes.find(|record| record.id == id, name_and_size)?;
            let bytes = blocks.start.saturating_mul(BLOCK as u64)..blocks.end.saturating_mul(BLOCK as u64);
            let length = bytes.end.min(size).saturating_sub(bytes.start);
            (length > 0).then_some(DamagedRange { volume, offset: bytes.start, length })
        };
        blocks.ranges().filter_map(named).collect()
    }
}
