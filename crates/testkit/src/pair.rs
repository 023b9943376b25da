//! A mirror of two that owns its members and keeps a record of its own of who failed: it knows no array, no level and no md.
//!
//! The record is a sector at the start of each device. What must hold, for a crash at any moment:
//!
//! 1. No member is written to before a record says that copies may differ.
//! 2. A member that failed is out of use at once. No success that relies on its absence is acknowledged before the
//!    other's record says that it is out ([`Owner::unrecorded`]).
//! 3. The record with the highest count decides who is out. A record that is older, and is not called out, was left behind by a
//!    crash: its member has all that was acknowledged. A device that comes alone is taken only if its record calls the other out.
//! 4. A member that is out comes back by [`Pair::rebuild`] only, and is called in when it has been given everything.

mod record;

use core::cell::Cell;
use core::ops::Range;
use std::rc::{Rc, Weak};

use brindle_io::{Duration, Io, MemberId, OpClass, Pool, Slice};
use brindle_members::copies::Copies;
use brindle_members::events::Cause;
use brindle_members::flushes::Flushes;
use brindle_members::lock::{Hold, RangeLock};
use brindle_members::members::{Dependence, Device, Members, RoleState};
use brindle_members::patience::Patience;
use brindle_members::process::{Process, Speeds};
use brindle_members::set::{MemberSet, Owner, Recording, Treatment};
use brindle_members::spans::Spans;
use brindle_members::turn::{Turns, in_turn};
use brindle_members::watch::watch;
use brindle_members::windows::{Windowed, Windows};
use brindle_volume::{Limits, Volume, VolumeError, ZeroOptions, stretches};

use record::Record;

/// Bytes of a device before its data.
pub const DATA_OFFSET: u64 = 4096;
/// Bytes that are copied at a time.
const WINDOW: u64 = 64 << 10;

/// How a pair is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Devices without a record are a new one's.
    New,
    /// By the rules.
    Usual,
    /// An owner that breaks the second rule, so that tests can find it.
    Hasty,
}

type Outcome = Result<(), VolumeError>;

/// A running mirror of two. A handle: cloning gives the same one.
#[derive(Clone)]
pub struct Pair(Rc<Core>);

struct Core {
    set: MemberSet,
    locks: RangeLock,
    copies: Copies,
    turns: Turns,
    limits: Limits,
    pool: Pool,
    /// The record to be written, and as of the last one the record that is.
    record: Cell<Record>,
    dirty: Cell<bool>,
    /// The record is written: writes may begin.
    ready: Cell<bool>,
    /// Copies are the same below this byte; above it the first that can be read is.
    same: Cell<u64>,
    broken: Cell<bool>,
    /// Acknowledges success before the loss is on record: the fault that a test wants.
    hasty: bool,
    me: Weak<Self>,
}

impl Pair {
    /// Opens what stands on two devices, or puts a new one there, if these hold the same.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] if no device that is there may be taken.
    pub async fn open(io: &Io, ids: [MemberId; 2], open: Open) -> Result<Self, VolumeError> {
        let (io, pool) = (&io.owned(), io.pool(1 << 20));
        let found = record::found(io, &pool, ids, open == Open::New).await;
        let (record, is_in) = record::newest(found).ok_or(VolumeError::TooManyLost)?;
        let device = |role: usize| Device { id: ids[role], data_offset: DATA_OFFSET };
        let members = Rc::new(Members::new(io, (0..2).map(|role| is_in[role].then(|| device(role)))));
        let infos = || ids.iter().filter_map(|&id| io.member_info(id));
        let block = infos().map(|info| info.logical_block).max().unwrap_or(512);
        let size = infos().map(|info| info.size).min().unwrap_or(0).saturating_sub(DATA_OFFSET);
        let limits = Limits { size, block, preferred: block, optimal: 0, read_only: false, discard: false };
        let [answer, flush] = [2, 4].map(Duration::from_secs);
        let patience = Patience { answer, flush, ..Patience::default() };
        let dependence = Dependence { redundant: true, coupled: false };
        let how =
            Treatment { dependence, patience, waits_for_room: false, observed: false, scratch: 1 << 20 };
        // A crash may have left them different.
        let differ = record.dirty && is_in == [true; 2];
        let core = Rc::new_cyclic(|me: &Weak<Core>| Core {
            set: MemberSet::new(io, members, Flushes::new(io), &how, me.clone()),
            locks: RangeLock::new(io),
            copies: Copies::new(io, 0, 2),
            turns: Turns::new(io),
            limits,
            pool,
            record: Cell::new(record),
            dirty: Cell::new(differ),
            ready: Cell::new(false),
            same: Cell::new(if differ { 0 } else { u64::MAX }),
            broken: Cell::new(false),
            hasty: open == Open::Hasty,
            me: me.clone(),
        });
        drop(io.spawn(watch(core.me.clone(), io.clone(), patience)));
        // A member that a crash left behind is given the present record.
        core.in_turn(async |core| core.commit().await).await?;
        Ok(Self(core))
    }

    /// The state of a role's member.
    pub fn state(&self, role: u16) -> RoleState {
        self.0.set.members.state(role)
    }

    /// Makes the copies the same.
    ///
    /// # Errors
    /// If a member is lost that the other does not make up for.
    pub async fn resync(&self) -> Result<(), VolumeError> {
        self.go_over(self.0.same.get().min(self.0.limits.size), None).await?;
        self.0.same.set(u64::MAX);
        Ok(())
    }

    /// Gives a device all that the other holds, in the place of a role's member that is out, and calls it in.
    ///
    /// # Errors
    /// If one of both fails.
    pub async fn rebuild(&self, role: u16, id: MemberId) -> Result<(), VolumeError> {
        let core = &self.0;
        let members = &core.set.members;
        core.set.io.take_back(id);
        members.set_device(role, Device { id, data_offset: DATA_OFFSET }, RoleState::Recovering(0));
        self.go_over(0, Some(role)).await?;
        let _all = core.locks.acquire(0..core.limits.size, Hold::Exclusive).await;
        core.set.flush_members().await?;
        if members.state(role) != RoleState::Recovering(core.limits.size) {
            return Err(VolumeError::TooManyLost);
        }
        members.rebuilt(role);
        core.in_turn(async |core| core.commit().await).await
    }

    /// Copies all from a byte on, window by window.
    async fn go_over(&self, from: u64, to: Option<u16>) -> Outcome {
        let (core, members) = (Rc::clone(&self.0), &self.0.set.members);
        let process = Process::new(&core.set.io, (), from, core.limits.size, Speeds::default());
        let mut windows = Windows::new(&self.0.set.io, process, from, Copying { core, to });
        while let Some((end, copied)) = windows.advance().await.map_err(|_| VolumeError::Stopping)? {
            copied?;
            match to {
                Some(role) if !matches!(members.state(role), RoleState::Recovering(_)) => break,
                Some(role) => members.recovered_to(role, end),
                None => self.0.same.set(end),
            }
        }
        Ok(())
    }

    /// Ends the run; nothing must be asked any more.
    ///
    /// # Errors
    /// As of [`Volume::flush`], or if the record can't be written.
    pub async fn stop(&self) -> Result<(), VolumeError> {
        let core = &self.0;
        core.set.flush_members().await?;
        core.dirty.set(core.same.get() != u64::MAX);
        let stopped = core.in_turn(async |core| core.commit().await).await;
        core.set.ended.set(true);
        stopped
    }
}

/// A copy of all: to the member of a role, or to the second of two that may differ.
struct Copying {
    core: Rc<Core>,
    to: Option<u16>,
}

impl Windowed for Copying {
    type Outcome = Outcome;

    fn place(&self, at: u64, total: u64) -> (u64, u64) {
        (at, WINDOW.min(total - at))
    }

    fn carry_out(&self, at: u64, len: u64) -> impl Future<Output = Outcome> + 'static {
        let (core, to) = (Rc::clone(&self.core), self.to);
        async move { core.copy(at..at + len, to).await }
    }
}

impl Core {
    fn in_turn(&self, work: impl AsyncFnOnce(&Self) -> Outcome + 'static) -> Recording {
        match self.me.upgrade() {
            Some(me) => Box::pin(in_turn(&self.set.io, me, |me| &me.turns, work)),
            None => Box::pin(core::future::ready(Err(VolumeError::Stopping))),
        }
    }

    /// Puts on record which device is out, and whether writes may be under way. The caller has the turn.
    async fn commit(&self) -> Outcome {
        let members = &self.set.members;
        loop {
            if self.broken.get() {
                return Err(VolumeError::TooManyLost);
            }
            let is_in = |role: &u16| members.state(*role) == RoleState::InSync;
            let out = (0..2).filter(|role| !is_in(role)).fold(0, |out, role| out | 1 << role);
            let record = Record { count: self.record.get().count + 1, out, dirty: self.dirty.get() };
            self.record.set(record);
            let buf = self.pool.alloc(DATA_OFFSET as usize).await;
            buf.bytes_mut().fill(0);
            buf.bytes_mut()[..18].copy_from_slice(&record.bytes());
            let mut group = self.set.io.group_of(OpClass::Metadata);
            for device in (0..2).filter(is_in).filter_map(|role| members.device(role)) {
                group.write(device.id, 0, &buf.all(), true);
            }
            let outcome = group.submit().await;
            let refused = outcome.failures().iter().filter_map(|failure| failure.kind.member());
            for role in refused.filter_map(|id| members.role_of(id)).filter(is_in) {
                self.lose(role)?;
            }
            if outcome.is_ok() && (0..2).all(|role| is_in(&role) == (out & 1 << role == 0)) {
                members.set_change_pending(false);
                return Ok(());
            }
        }
    }

    /// A role's member is out of use from now on.
    fn lose(&self, role: u16) -> Outcome {
        if !self.can_lose(&[role]) {
            self.broken.set(true);
            return Err(VolumeError::TooManyLost);
        }
        self.set.members.fail(role);
        self.set.members.set_change_pending(true);
        Ok(())
    }

    async fn begin(&self) -> Outcome {
        if self.ready.get() && !self.broken.get() {
            return Ok(());
        }
        let begun = async |core: &Self| {
            core.dirty.set(true);
            core.commit().await.inspect(|()| core.ready.set(true))
        };
        self.in_turn(begun).await
    }

    /// Copies a range to the member of a role, or to the second of two that may differ.
    async fn copy(&self, range: Range<u64>, to: Option<u16>) -> Outcome {
        let _held = self.locks.acquire(range.clone(), Hold::Exclusive).await;
        let in_sync = || (0..2).filter(|&role| self.set.members.state(role) == RoleState::InSync);
        let Some(role) = to.or_else(|| in_sync().nth(1)) else { return Ok(()) };
        match self.copy_to(role, range).await {
            // One has failed: there is no other copy to compare with.
            Err(_) if to.is_none() && in_sync().count() < 2 => Ok(()),
            copied => copied,
        }
    }

    async fn copy_to(&self, to: u16, range: Range<u64>) -> Outcome {
        let buf = loop {
            let buf = self.set.scratch.alloc((range.end - range.start) as usize).await;
            match self.read_one(range.start, &[buf.all()], |role| role != to).await {
                Err(VolumeError::Again) => {}
                read => break read.map(|()| buf)?,
            }
        };
        self.begin().await?;
        self.write_to(&[to], range.start, &buf.all(), false).await
    }

    /// Reads from the first member that gives it.
    async fn read_one(&self, offset: u64, into: &[Slice], may: impl Fn(u16) -> bool) -> Outcome {
        let mut last = Err(VolumeError::TooManyLost);
        // One that does not answer is asked last: it keeps the memory that it was given.
        let order = if self.set.members.is_slow(0) { [1, 0] } else { [0, 1] };
        for role in order.into_iter().filter(|&role| may(role)) {
            let Some(device) = self.set.members.readable(role, self.limits.size) else { continue };
            let mut group = self.set.door(None).ask();
            stretches(offset, into).for_each(|(at, slice)| group.read(device, at, slice));
            let done = group.submit().await;
            if done.is_ok() {
                return Ok(());
            }
            last = done.named();
            for refused in done.refused().iter().filter(|refused| refused.is_of(&self.set.members)) {
                let _judged = self.set.fail_member(role, refused, false).await;
            }
            if let Some(error) = self.set.error_if_pinned(into, &done) {
                return Err(error);
            }
        }
        last
    }

    /// Writes to those of these roles that are in use, or are rebuilt.
    async fn write_to(&self, roles: &[u16], offset: u64, from: &Slice, fua: bool) -> Outcome {
        let mut group = self.set.door(None).ask();
        for device in roles.iter().filter_map(|&role| self.set.members.writable(role)) {
            group.write(device, offset, from, fua);
        }
        let done = group.submit().await;
        self.set.settle_writes(&done, false).await
    }
}

impl Owner for Core {
    fn set(&self) -> &MemberSet {
        &self.set
    }

    fn can_lose(&self, roles: &[u16]) -> bool {
        let stays = |role| !roles.contains(&role) && self.set.members.state(role) == RoleState::InSync;
        (0..2).any(stays) || roles.iter().all(|&role| self.set.members.state(role) != RoleState::InSync)
    }

    fn begin_failing(&self, role: u16, _: Cause) -> Result<Recording, VolumeError> {
        if !matches!(self.set.members.state(role), RoleState::Failed | RoleState::Missing) {
            self.lose(role)?;
        }
        Ok(self.unrecorded().unwrap_or_else(|| Box::pin(core::future::ready(Ok(())))))
    }

    fn unrecorded(&self) -> Option<Recording> {
        if self.broken.get() {
            return Some(Box::pin(core::future::ready(Err(VolumeError::TooManyLost))));
        }
        let commit = async |core: &Self| {
            if core.set.members.is_change_pending() { core.commit().await } else { Ok(()) }
        };
        (self.set.members.is_change_pending() && !self.hasty).then(|| self.in_turn(commit))
    }

    fn answers_for_members(&self) -> bool {
        self.same.get() == u64::MAX
    }

    fn looked(&self) {
        self.copies.renew_if_pinned();
    }
}

impl Volume for Pair {
    fn limits(&self) -> Limits {
        self.0.limits
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let len = self.0.limits.check_list(offset, into.as_ref())?;
        if len == 0 { Ok(()) } else { self.0.read_one(offset, into.as_ref(), |_| true).await }
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let core = &self.0;
        core.limits.check_list(offset, from.as_ref())?;
        // It is copied, since others may change it: both get the same.
        for (at, slice) in stretches(offset, from.as_ref()) {
            let copy = core.copies.of(core::slice::from_ref(slice)).await;
            core.begin().await?;
            let _held = core.locks.acquire(at..at + copy.len() as u64, Hold::Exclusive).await;
            core.write_to(&[0, 1], at, &copy, fua).await?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.0.set.flush_members().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.0.limits.check(offset, len)
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        let core = &self.0;
        core.limits.check(offset, len)?;
        core.set.check_zeroes(options)?;
        core.begin().await?;
        let _held = core.locks.acquire(offset..offset + len, Hold::Exclusive).await;
        let both = |at, len| Spans::of(0..2, at, len);
        core.set.door(None).zero_rounds(offset, len, options, both).await
    }
}
