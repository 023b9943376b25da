//! The superblocks of a running array: in memory, and written to its members.
//!
//! What must hold, for a crash at any moment and another while that one is being recovered from ([`Record::sound`]
//! asserts what of it can be seen here):
//!
//! 1. The event count grows by one with each update, and an update begins only when every living member has a whole
//!    superblock of the present count. Whoever lags after a crash is brought up first, in a step of its own. So the
//!    counts of living members never differ by more than one, which md and this program take for a crash in an update.
//! 2. Two superblocks of one count say the same of the array, the time of the update included: laggards are given what is
//!    recorded, not what is wanted.
//! 3. A device that has failed, or that the newest superblock calls faulty, is never written to. Before anything relies
//!    on its absence, the count of all living members is two ahead of any that it may have, and was raised in two steps.
//! 4. A superblock of one sector is old or new after a crash. Of one that changes in several sectors, but one role
//!    changes beyond the first sector, so that its first sector tells what became of it ([`Superblock::parse_torn`]);
//!    and such ones are never in flight on more members than the array can lose.
//! 5. Clean, or a position up to which redundancy is true, is recorded only after a flush of all living members.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_format::md::{DeviceRole, SUPERBLOCK_BYTES, Superblock, Uuid, Version};
use brindle_io::sync::Event;
use brindle_io::{Buf, Duration, Failure, Instant, Io, MemberId, OpClass, OpError, Pending, Pool};

use crate::assembly::{AssembledDevice, Assembly, DeviceUse, Limitation, Recorded};
use crate::config::OnFull;
use crate::events::Cause;
use crate::patience::Patience;

/// A device of the array, whatever it is in it.
pub(crate) struct Kept {
    pub(crate) label: String,
    pub(crate) id: MemberId,
    pub(crate) usage: DeviceUse,
    /// Its superblock is kept up to date: it has not failed, and was not left out.
    pub(crate) alive: bool,
    /// Why it is not, if it failed in this run.
    pub(crate) failure: Option<Failed>,
    pub(super) superblock: Superblock,
    pub(super) super_offset: u64,
    /// What stands on the device, as far as is known.
    pub(super) image: Box<[u8; SUPERBLOCK_BYTES]>,
    /// The event count that stands there, if the superblock there is whole.
    pub(super) count: Option<u64>,
    pub(super) buf: Option<Buf>,
}

impl Kept {
    /// The role that it fills.
    pub(super) fn role(&self) -> Option<u16> {
        match self.usage {
            DeviceUse::Active { role } | DeviceUse::Recovering { role, .. } => Some(role),
            _ => None,
        }
    }
}

/// Why and when a device failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Why.
    pub cause: Cause,
    /// Seconds since 1970.
    pub at: u64,
}

/// What the array is, as far as it never changes while it runs.
pub(crate) struct Identity {
    pub(crate) uuid: Uuid,
    pub(crate) name: String,
    pub(crate) version: Version,
    pub(crate) component_size: u64,
    pub(crate) limits: Vec<Limitation>,
}

/// How the record is kept.
pub(crate) struct Keeping {
    /// Seconds since 1970.
    pub(crate) wall_clock: Rc<dyn Fn() -> u64>,
    /// Time without writes after which the array is marked clean.
    pub(crate) idle: Duration,
    /// Superblocks are written at all.
    pub(crate) writable: bool,
    /// What a member is to do that has no room.
    pub(crate) on_full: OnFull,
    /// How long devices may take.
    pub(crate) patience: Patience,
}

/// The superblocks of a running array. What they are to say next stands in `roles`, `dirty` and `resync`.
pub(crate) struct Record {
    pub(crate) io: Io,
    pub(crate) identity: Identity,
    pub(crate) keeping: Keeping,
    pub(crate) devices: RefCell<Vec<Kept>>,
    pub(crate) events: Cell<u64>,
    /// What superblocks of the present count say.
    pub(super) recorded: RefCell<Recorded>,
    /// Role of every device by number.
    pub(super) roles: RefCell<Vec<DeviceRole>>,
    /// The highest count that a device may have which was taken out of use last.
    left_behind: Cell<Option<u64>>,
    /// Marked dirty by this run. A mark of an earlier one is part of `resync`.
    pub(crate) dirty: Cell<bool>,
    /// Where redundancy stops being known true; `None`: it is true everywhere.
    pub(crate) resync: Cell<Option<u64>>,
    busy: Cell<bool>,
    freed: Event,
}

/// The right to write superblocks; one at a time.
#[must_use]
pub(crate) struct Turn<'a>(&'a Record);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.busy.set(false);
        self.0.freed.notify();
    }
}

impl Record {
    pub(crate) fn new(io: &Io, assembly: Assembly, ids: &[MemberId], keeping: Keeping) -> Self {
        let pool = keeping.writable.then(|| io.pool(ids.len().max(1) * SUPERBLOCK_BYTES));
        let behind = left_behind(&assembly);
        let devices = assembly.devices.into_iter().zip(ids);
        let record = Self {
            io: io.clone(),
            identity: Identity {
                uuid: assembly.uuid,
                name: assembly.name,
                version: assembly.version,
                component_size: assembly.component_size,
                limits: assembly.limits,
            },
            keeping,
            devices: RefCell::new(devices.map(|(device, &id)| keep(device, id, pool.as_ref())).collect()),
            events: Cell::new(assembly.events),
            roles: RefCell::new(assembly.recorded.roles.clone()),
            left_behind: Cell::new(behind),
            dirty: Cell::new(false),
            resync: Cell::new(assembly.resync_offset),
            recorded: RefCell::new(assembly.recorded),
            busy: Cell::new(false),
            freed: Event::new(io),
        };
        record.disown_absent();
        record
    }

    /// Waits for the right to write superblocks.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        self.freed.until(|| (!self.busy.replace(true)).then_some(())).await;
        Turn(self)
    }

    /// Marks the roles of devices that are not here as failed, to be written with the next change.
    fn disown_absent(&self) {
        let devices = self.devices.borrow();
        let mut here: Vec<u32> =
            devices.iter().filter(|d| d.alive).map(|d| d.superblock.device_number).collect();
        here.sort_unstable();
        for (number, role) in (0u32..).zip(self.roles.borrow_mut().iter_mut()) {
            if matches!(role, DeviceRole::Active(_)) && here.binary_search(&number).is_err() {
                *role = DeviceRole::Faulty;
                self.left_behind.set(Some(self.events.get()));
            }
        }
    }

    /// Some device that is out of use may be but one change behind. md takes it for a member in sync then when it comes
    /// back, whatever the others say of it: with 0.90 always, with 1.x up to Linux 6.7 (`super_90_validate` and
    /// `super_1_validate` in `md.c`).
    ///
    /// Its count must fall behind by two, and in two steps: a crash in the midst of one leaves living members one apart.
    fn must_move_on(&self) -> bool {
        self.left_behind.get().is_some_and(|count| self.events.get() < count.saturating_add(2))
    }

    /// All that is to be recorded is, and no device out of use can be taken for one in sync.
    pub(crate) fn is_settled(&self) -> bool {
        !self.must_move_on() && self.recorded.borrow().roles == *self.roles.borrow()
    }

    /// Where superblocks say that redundancy stops being known true, if that was overruled by force, and as long as
    /// this run has not recorded otherwise.
    pub(crate) fn forced_offset(&self) -> Option<u64> {
        let forced = self.identity.limits.iter().find_map(Limitation::forced_from)?;
        let untouched = self.recorded.borrow().resync_offset == Some(forced) && !self.dirty.get();
        untouched.then_some(forced)
    }

    /// The role of a living device, if it fills one.
    pub(crate) fn role_of(&self, id: MemberId) -> Option<u16> {
        self.devices.borrow().iter().find(|d| d.alive && d.id == id)?.role()
    }

    /// How messages name a device.
    pub(crate) fn label(&self, id: MemberId) -> String {
        let devices = self.devices.borrow();
        devices.iter().find(|d| d.id == id).map_or_else(String::new, |device| device.label.clone())
    }

    fn failed(&self, cause: Cause) -> Option<Failed> {
        Some(Failed { cause, at: (self.keeping.wall_clock)() })
    }

    /// Marks the device in `role` as failed; its own superblock is left as it is.
    pub(crate) fn disown(&self, role: u16, why: Cause) {
        let mut devices = self.devices.borrow_mut();
        let Some(device) = devices.iter_mut().find(|d| d.alive && d.role() == Some(role)) else { return };
        device.alive = false;
        device.failure = self.failed(why);
        // It may yet get the state that is being written now.
        self.left_behind.set(Some(self.events.get()));
        let mut roles = self.roles.borrow_mut();
        if let Some(entry) = roles.get_mut(device.superblock.device_number as usize) {
            *entry = DeviceRole::Faulty;
        }
    }

    /// Forgets a spare that can't be written to.
    pub(crate) fn forget(&self, id: MemberId, why: Cause) {
        if let Some(device) = self.devices.borrow_mut().iter_mut().find(|d| d.alive && d.id == id) {
            device.alive = false;
            device.failure = self.failed(why);
        }
    }

    /// Sends flushes to every living device.
    pub(crate) fn flush(&self) -> Pending {
        let mut group = self.io.group_of(OpClass::Metadata);
        for device in self.devices.borrow().iter().filter(|d| d.alive) {
            group.flush(device.id);
        }
        group.submit_by(self.latest(self.keeping.patience.flush))
    }

    /// When to give up on devices that [`crate::patience`] does not look at: spares.
    pub(super) fn latest(&self, patience: Duration) -> Instant {
        self.io.now().after(patience).after(patience)
    }

    /// A superblock that was given up may still land on a device that is in use.
    pub(super) fn is_lent(&self) -> bool {
        let lent = |device: &Kept| device.alive && device.buf.as_ref().is_some_and(Buf::is_lent);
        self.devices.borrow().iter().any(lent)
    }

    /// Whether each superblock can be written as it is.
    pub(crate) fn check(&self) -> Result<(), (String, brindle_format::md::EncodeError)> {
        let mut block = [0; SUPERBLOCK_BYTES];
        for device in self.devices.borrow().iter().filter(|d| d.alive) {
            device.superblock.encode(&mut block).map_err(|why| (device.label.clone(), why))?;
        }
        Ok(())
    }
}

fn keep(device: AssembledDevice, id: MemberId, pool: Option<&Pool>) -> Kept {
    let alive = !matches!(device.usage, DeviceUse::LeftOut { .. });
    Kept {
        label: device.label,
        id,
        usage: device.usage,
        alive,
        failure: None,
        image: Box::new(*device.superblock.bytes()),
        count: (!device.torn).then_some(device.superblock.events),
        superblock: device.superblock,
        super_offset: device.super_offset,
        buf: if alive { pool.and_then(|pool| pool.try_alloc(SUPERBLOCK_BYTES)) } else { None },
    }
}

/// The highest count of a device that is here but out of use, where that could be taken for one in sync; and the
/// present one, if a torn superblock has it alone: whoever is not here may have what that one was to say.
fn left_behind(assembly: &Assembly) -> Option<u64> {
    let counts = assembly.devices.iter().filter_map(|device| match device.usage {
        DeviceUse::LeftOut { .. } => Some(device.superblock.events),
        _ if device.torn => Some(device.superblock.events),
        _ => None,
    });
    counts.max().map(|count| count.min(assembly.events))
}

pub(super) fn refusals<'a>(failures: impl IntoIterator<Item = &'a Failure>) -> Vec<(MemberId, OpError)> {
    let refusal = |failure: &Failure| Some((failure.kind.member()?, failure.error));
    failures.into_iter().filter_map(refusal).collect()
}
