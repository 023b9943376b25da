//! The superblocks of a running array: in memory, and written to its members.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_format::md::{DeviceRole, SUPERBLOCK_BYTES, Superblock, Timestamp, Uuid, Version};
use brindle_io::sync::Event;
use brindle_io::{Buf, Duration, Failure, Io, MemberId, OpError, Pool};

use crate::assembly::{AssembledDevice, Assembly, DeviceUse, Limitation};

/// A device of the array, whatever it is in it.
pub(crate) struct Kept {
    pub(crate) label: String,
    pub(crate) id: MemberId,
    pub(crate) usage: DeviceUse,
    /// Its superblock is kept up to date: it has not failed, and was not left out.
    pub(crate) alive: bool,
    superblock: Superblock,
    super_offset: u64,
    buf: Option<Buf>,
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
}

/// The superblocks of a running array.
pub(crate) struct Record {
    pub(crate) io: Io,
    pub(crate) identity: Identity,
    pub(crate) keeping: Keeping,
    pub(crate) devices: RefCell<Vec<Kept>>,
    pub(crate) events: Cell<u64>,
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
        let keep = |(device, &id): (AssembledDevice, &MemberId)| {
            let alive = !matches!(device.usage, DeviceUse::LeftOut { .. });
            Kept {
                label: device.label,
                id,
                usage: device.usage,
                alive,
                superblock: device.superblock,
                super_offset: device.super_offset,
                buf: if alive { pool.as_ref().and_then(take) } else { None },
            }
        };
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
            devices: RefCell::new(assembly.devices.into_iter().zip(ids).map(keep).collect()),
            events: Cell::new(assembly.events),
            left_behind: Cell::new(None),
            dirty: Cell::new(false),
            resync: Cell::new(assembly.resync_offset),
            busy: Cell::new(false),
            freed: Event::new(io),
        };
        record.adopt_newest_table();
        record.disown_absent();
        record
    }

    /// Members whose count is one behind, which md tolerates, may have an older table of roles.
    fn adopt_newest_table(&self) {
        let mut devices = self.devices.borrow_mut();
        let holds_data =
            |d: &&Kept| d.alive && matches!(d.usage, DeviceUse::Active { .. } | DeviceUse::Recovering { .. });
        let newest = devices.iter().filter(holds_data).max_by_key(|d| d.superblock.events);
        let Some(table) = newest.map(|d| d.superblock.roles.clone()) else { return };
        for device in devices.iter_mut().filter(|d| d.alive) {
            device.superblock.roles.clone_from(&table);
        }
    }

    /// Waits for the right to write superblocks.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        self.freed.until(|| (!self.busy.replace(true)).then_some(())).await;
        Turn(self)
    }

    /// Marks the roles of devices that are not here as failed, to be written with the next change.
    fn disown_absent(&self) {
        let mut devices = self.devices.borrow_mut();
        let mut here: Vec<u32> =
            devices.iter().filter(|d| d.alive).map(|d| d.superblock.device_number).collect();
        here.sort_unstable();
        for device in devices.iter_mut().filter(|d| d.alive) {
            for (number, role) in (0u32..).zip(&mut device.superblock.roles) {
                if matches!(role, DeviceRole::Active(_)) && here.binary_search(&number).is_err() {
                    *role = DeviceRole::Faulty;
                    self.left_behind.set(Some(self.events.get()));
                }
            }
        }
    }

    /// Some device that is out of use may be but one change behind. md takes it for a member in sync then when it comes
    /// back, whatever the others say of it: with 0.90 always, with 1.x up to Linux 6.7 (`super_90_validate` and
    /// `super_1_validate` in `md.c`).
    ///
    /// Its count must fall behind by two, and in two steps: a crash in the midst of one leaves living members one apart.
    pub(crate) fn must_move_on(&self) -> bool {
        self.left_behind.get().is_some_and(|count| self.events.get() < count.saturating_add(2))
    }

    /// Marks the device in `role` as failed; its own superblock is left as it is.
    pub(crate) fn disown(&self, role: u16) {
        let mut devices = self.devices.borrow_mut();
        let fills = |d: &Kept| matches!(d.usage, DeviceUse::Active { role: r } | DeviceUse::Recovering { role: r, .. } if r == role);
        let Some(number) = devices.iter_mut().find(|d| d.alive && fills(d)).map(|device| {
            device.alive = false;
            device.superblock.device_number
        }) else {
            return;
        };
        // It may yet get the state that is being written now.
        self.left_behind.set(Some(self.events.get()));
        for device in devices.iter_mut().filter(|d| d.alive) {
            if let Some(entry) = device.superblock.roles.get_mut(number as usize) {
                *entry = DeviceRole::Faulty;
            }
        }
    }

    /// Forgets a spare that can't be written to.
    pub(crate) fn forget(&self, id: MemberId) {
        if let Some(device) = self.devices.borrow_mut().iter_mut().find(|d| d.id == id) {
            device.alive = false;
        }
    }

    /// Writes the state to every living device, with the next event count, to stable storage. Returns the devices
    /// that refused. Only whoever has the turn may call it.
    pub(crate) async fn write(&self) -> Vec<(MemberId, OpError)> {
        self.events.set(self.events.get() + 1);
        let mut group = self.io.group();
        let mut failed = Vec::new();
        for device in self.devices.borrow_mut().iter_mut().filter(|d| d.alive) {
            self.bring_up_to_date(&mut device.superblock);
            let Some(buf) = &device.buf else { continue };
            // Nothing but a programmer's mistake makes this fail: open has encoded each superblock before.
            let encoded = device.superblock.encode(&mut buf.bytes_mut());
            if encoded.is_ok() {
                group.write(device.id, device.super_offset, &buf.all(), true);
            } else {
                failed.push((device.id, OpError::Unsupported));
            }
        }
        let outcome = group.submit().await;
        failed.extend(refusals(outcome.failures()));
        failed
    }

    fn bring_up_to_date(&self, sb: &mut Superblock) {
        let seconds = (self.keeping.wall_clock)();
        let most = if sb.version.is_v1() { (1 << 40) - 1 } else { u64::from(u32::MAX) };
        sb.events = self.events.get();
        sb.updated = Timestamp { seconds: seconds.min(most), micros: 0 };
        sb.resync_offset = if self.dirty.get() { Some(0) } else { self.resync.get() };
    }

    /// Makes every living device's writes stable. Returns those that could not.
    pub(crate) async fn flush(&self) -> Vec<(MemberId, OpError)> {
        let mut group = self.io.group();
        for device in self.devices.borrow().iter().filter(|d| d.alive) {
            group.flush(device.id);
        }
        let outcome = group.submit().await;
        let known = outcome.failures().iter().filter(|failure| failure.error != OpError::Unsupported);
        refusals(known)
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

fn take(pool: &Pool) -> Option<Buf> {
    pool.try_alloc(SUPERBLOCK_BYTES)
}

fn refusals<'a>(failures: impl IntoIterator<Item = &'a Failure>) -> Vec<(MemberId, OpError)> {
    let refusal = |failure: &Failure| Some((failure.kind.member()?, failure.error));
    failures.into_iter().filter_map(refusal).collect()
}
