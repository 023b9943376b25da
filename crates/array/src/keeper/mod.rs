//! Keeps the array's state true on disk: dirty before the first write, clean after idle time, failures recorded before
//! anything relies on them.

mod record;
mod truth;

use core::cell::Cell;
use core::ops::Range;
use std::rc::{Rc, Weak};

use brindle_io::sync::Event;
use brindle_io::{Io, MemberId, OpError};

use crate::members::{Members, RoleState};
use crate::volume::VolumeError;
pub(crate) use record::{Keeping, Kept, Record};
pub(crate) use truth::Truth;

/// Whether every byte survives the loss of these roles.
pub(crate) type CanLose = Box<dyn Fn(&[u16]) -> bool>;

/// Why the array takes no writes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
    No,
    /// More is lost than redundancy makes up for. Superblocks stay as they are, so that the array can be assembled
    /// once its members are back.
    Broken,
    Stopping,
}

/// What the data path tells the keeper, and must wait for.
pub(crate) struct Keeper {
    /// For the task that marks the array clean: it must not keep the array alive.
    me: Weak<Self>,
    members: Rc<Members>,
    can_lose: CanLose,
    /// `None`: state lives in memory only.
    record: Option<Record>,
    /// Redundancy exists, so that dirty and clean mean something.
    redundant: bool,
    /// Marked dirty, and open: writes may begin without waiting.
    ready: Cell<bool>,
    closed: Cell<Closed>,
    stopping: Cell<bool>,
    /// Writes under way, and begun in all.
    writes: Cell<u32>,
    begun: Cell<u64>,
    /// Windows of a resync under way.
    syncs: Cell<u32>,
    drained: Option<Event>,
    /// Failures that are being recorded.
    recording: Cell<u32>,
    recorded: Option<Event>,
    truth: Truth,
}

/// Counts a failure as recorded when it is, or when whoever records it gives up.
struct Recording(Rc<Keeper>);

impl Recording {
    fn begin(keeper: Rc<Keeper>) -> Self {
        keeper.recording.set(keeper.recording.get() + 1);
        Self(keeper)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.0.recording.set(self.0.recording.get() - 1);
        if let Some(recorded) = &self.0.recorded {
            recorded.notify();
        }
    }
}

/// A window of a resync under way: stopping waits for its end.
pub(crate) struct Syncing<'a>(&'a Keeper);

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        self.0.syncs.set(self.0.syncs.get() - 1);
        self.0.notify_drained();
    }
}

impl Keeper {
    /// A keeper without superblocks: state lives in memory only.
    pub(crate) fn volatile(members: Rc<Members>, can_lose: CanLose, truth: Truth) -> Self {
        Self {
            me: Weak::new(),
            members,
            can_lose,
            record: None,
            redundant: true,
            ready: Cell::new(false),
            closed: Cell::new(Closed::No),
            stopping: Cell::new(false),
            writes: Cell::new(0),
            begun: Cell::new(0),
            syncs: Cell::new(0),
            drained: None,
            recording: Cell::new(0),
            recorded: None,
            truth,
        }
    }

    /// A keeper of the state in superblocks.
    pub(crate) fn recorded(
        io: &Io,
        members: Rc<Members>,
        can_lose: CanLose,
        redundant: bool,
        record: Record,
        truth: Truth,
    ) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            redundant,
            record: Some(record),
            drained: Some(Event::new(io)),
            recorded: Some(Event::new(io)),
            ..Self::volatile(members, can_lose, truth)
        })
    }

    pub(crate) fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// The record, if changes of state are to be written.
    fn written_record(&self) -> Option<&Record> {
        self.record.as_ref().filter(|record| self.redundant && record.keeping.writable)
    }

    /// A write is about to touch members: returns once the array is marked dirty. Each success is matched by one
    /// [`Keeper::write_ends`].
    #[inline]
    pub(crate) async fn write_begins(&self) -> Result<(), VolumeError> {
        while !self.ready.get() {
            self.make_ready().await?;
        }
        self.writes.set(self.writes.get() + 1);
        self.begun.set(self.begun.get() + 1);
        Ok(())
    }

    /// A write has touched its last member.
    #[inline]
    pub(crate) fn write_ends(&self) {
        let left = self.writes.get() - 1;
        self.writes.set(left);
        if left == 0 && self.closed.get() != Closed::No {
            self.notify_drained();
        }
    }

    fn notify_drained(&self) {
        if let Some(drained) = &self.drained {
            drained.notify();
        }
    }

    #[cold]
    async fn make_ready(&self) -> Result<(), VolumeError> {
        self.refuse_if_closed()?;
        if self.written_record().is_none() {
            self.ready.set(true);
            return Ok(());
        }
        self.change(async |keeper, record| keeper.mark_dirty(record).await).await
    }

    /// Carries out a change of the superblocks with the turn, in a task of its own: once begun it is written to its
    /// end, whatever becomes of who waits. Until then the devices own the superblocks' buffers, and a later change
    /// must not overtake it. Without superblocks there is nothing to change.
    async fn change<T: Default + 'static>(
        &self,
        work: impl AsyncFnOnce(&Self, &Record) -> Result<T, VolumeError> + 'static,
    ) -> Result<T, VolumeError> {
        let (Some(me), Some(record)) = (self.me.upgrade(), self.written_record()) else {
            return Ok(T::default());
        };
        let task = async move {
            let Some(record) = me.written_record() else { return Ok(T::default()) };
            let _turn = record.turn().await;
            work(&me, record).await
        };
        record.io.spawn(task).await
    }

    /// Whoever calls has the turn.
    async fn mark_dirty(&self, record: &Record) -> Result<(), VolumeError> {
        if self.ready.get() {
            return Ok(());
        }
        self.refuse_if_closed()?;
        // Written even if the last run left the array dirty: the failed and the missing must be recorded.
        record.dirty.set(true);
        self.commit(record).await?;
        self.ready.set(self.closed.get() == Closed::No);
        drop(record.io.spawn(clean_when_idle(self.me.clone(), record.io.clone(), record.keeping.idle)));
        Ok(())
    }

    fn refuse_if_closed(&self) -> Result<(), VolumeError> {
        match self.closed.get() {
            Closed::No => Ok(()),
            Closed::Broken => Err(VolumeError::TooManyLost),
            Closed::Stopping => Err(VolumeError::Stopping),
        }
    }

    /// A member failed: returns once that is recorded in the surviving superblocks, so that a write which relies on
    /// its absence may be acknowledged.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] if the array can't live without it: then nothing is recorded, and the array takes
    /// no writes any more.
    pub(crate) async fn member_failed(&self, role: u16, _why: OpError) -> Result<(), VolumeError> {
        if matches!(self.members.state(role), RoleState::Failed | RoleState::Missing) {
            return self.failures_recorded().await;
        }
        self.lose(&[role])?;
        let Some(me) = self.me.upgrade() else { return Ok(()) };
        let recording = Recording::begin(me);
        self.change(async move |keeper, record| {
            let _recording = recording;
            keeper.commit(record).await
        })
        .await
    }

    /// Every failure that [`Keeper::member_failed`] was told of is recorded: a write that left a failed member out
    /// waits for this before it is acknowledged, since another request may be the one that reported the failure.
    pub(crate) async fn failures_recorded(&self) -> Result<(), VolumeError> {
        if self.recording.get() > 0
            && let Some(recorded) = &self.recorded
        {
            recorded.until(|| (self.recording.get() == 0).then_some(())).await;
        }
        if self.closed.get() == Closed::Broken { Err(VolumeError::TooManyLost) } else { Ok(()) }
    }

    /// Whether the array could do without these roles too.
    fn can_lose(&self, roles: &[u16]) -> bool {
        let out = |role: &u16| roles.contains(role) || self.members.state(*role) != RoleState::InSync;
        let lost: Vec<u16> = (0..self.members.len()).filter(out).collect();
        (self.can_lose)(&lost)
    }

    /// Takes members out of use, if the array can live without them; else the array takes no writes any more.
    fn lose(&self, roles: &[u16]) -> Result<(), VolumeError> {
        if !self.can_lose(roles) {
            if self.record.is_some() {
                self.closed.set(Closed::Broken);
                self.ready.set(false);
            }
            return Err(VolumeError::TooManyLost);
        }
        for &role in roles {
            self.members.set_state(role, RoleState::Failed);
            if let Some(record) = &self.record {
                record.disown(role);
            }
        }
        Ok(())
    }

    /// Writes the state until every living member has taken it, and no other can be taken for one of them. Whoever calls
    /// has the turn.
    async fn commit(&self, record: &Record) -> Result<(), VolumeError> {
        loop {
            if self.closed.get() == Closed::Broken {
                return Err(VolumeError::TooManyLost);
            }
            let refused = record.write().await;
            self.lose_devices(record, &refused)?;
            if refused.is_empty() && !record.must_move_on() {
                return Ok(());
            }
        }
    }

    /// Takes devices out of use that refused what they must not refuse.
    fn lose_devices(&self, record: &Record, refused: &[(MemberId, OpError)]) -> Result<(), VolumeError> {
        let holds = |id: &MemberId, role: u16| self.members.device(role).is_some_and(|d| d.id == *id);
        let role_of = |id: &MemberId| (0..self.members.len()).find(|&role| holds(id, role));
        let roles: Vec<u16> = refused.iter().filter_map(|(id, _)| role_of(id)).collect();
        for (id, _) in refused.iter().filter(|(id, _)| role_of(id).is_none()) {
            record.forget(*id);
        }
        if roles.is_empty() { Ok(()) } else { self.lose(&roles) }
    }

    /// Marks the array clean if nothing is being written: its members are flushed first, so that what the mark says
    /// is true of stable storage.
    ///
    /// False if there was nothing to mark, or somebody writes. Whoever calls has the turn.
    async fn mark_clean(&self, record: &Record) -> Result<bool, VolumeError> {
        let nothing_new = !record.dirty.get() && record.resync.get() == self.resync_offset();
        if self.writes.get() != 0 || nothing_new || self.closed.get() == Closed::Broken {
            return Ok(false);
        }
        // Whoever wants to write from here on waits for the turn.
        self.ready.set(false);
        self.settle(record, self.resync_offset()).await?;
        Ok(true)
    }

    /// Records on flushed members that the array is clean up to `position`. Whoever calls has the turn.
    async fn settle(&self, record: &Record, position: Option<u64>) -> Result<(), VolumeError> {
        let refused = record.flush().await;
        self.lose_devices(record, &refused)?;
        record.resync.set(position);
        record.dirty.set(false);
        self.commit(record).await
    }

    /// Redundancy is known true below this position (bytes of the member's data area; of the array for mirrors);
    /// `u64::MAX` when all is. At and above it mirrors are read from their first readable copy, and parity is trusted
    /// where [`Keeper::is_true`] says so.
    #[inline]
    pub(crate) fn synced_to(&self) -> u64 {
        self.truth.upto()
    }

    /// Whether redundancy is known true in the whole range.
    #[inline]
    pub(crate) fn is_true(&self, range: &Range<u64>) -> bool {
        self.truth.holds(range)
    }

    /// Whether redundancy is known true at the start of the range, and where within it that changes.
    pub(crate) fn true_run(&self, range: &Range<u64>) -> (bool, u64) {
        self.truth.run(range)
    }

    /// Redundancy has been made true in a range; see [`Truth::add`].
    #[inline]
    pub(crate) fn made_true(&self, range: Range<u64>, needed: bool) {
        self.truth.add(range, needed);
    }

    /// From here on redundancy is not known true.
    pub(crate) fn doubt(&self, from: u64) {
        self.truth.doubt(from);
    }

    /// A window of a resync begins.
    ///
    /// # Errors
    /// If the array is stopping or broken.
    pub(crate) fn sync_begins(&self) -> Result<Syncing<'_>, VolumeError> {
        self.refuse_if_closed()?;
        self.syncs.set(self.syncs.get() + 1);
        Ok(Syncing(self))
    }

    /// Records how far redundancy is known true, unless the array is dirty: then that happens when it is marked clean.
    pub(crate) async fn save_position(&self) -> Result<(), VolumeError> {
        self.change(async move |keeper, record| {
            let position = keeper.resync_offset();
            let nothing_new = record.resync.get() == position;
            if record.dirty.get() || nothing_new { Ok(()) } else { keeper.settle(record, position).await }
        })
        .await
    }

    /// Where redundancy stops being known true.
    pub(crate) fn resync_offset(&self) -> Option<u64> {
        self.truth.position()
    }

    /// Refuses new writes, waits for those under way, and marks the array clean.
    pub(crate) async fn stop(&self) -> Result<(), VolumeError> {
        self.stopping.set(true);
        if self.closed.get() == Closed::No {
            self.closed.set(Closed::Stopping);
        }
        self.ready.set(false);
        let Some(record) = self.record() else { return Ok(()) };
        if let Some(drained) = &self.drained {
            let empty = || self.writes.get() == 0 && self.syncs.get() == 0;
            drained.until(|| empty().then_some(())).await;
        }
        if !record.keeping.writable {
            return Ok(());
        }
        if self.redundant && self.change(async |keeper, record| keeper.mark_clean(record).await).await? {
            return Ok(());
        }
        let refused = record.flush().await;
        if self.is_broken() {
            return Err(VolumeError::TooManyLost);
        }
        refused.first().map_or(Ok(()), |&(_, error)| Err(VolumeError::Member(error)))
    }

    /// Fails a member because the operator says so.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] if the array can't live without it: then nothing changes.
    pub(crate) async fn fail(&self, role: u16) -> Result<(), VolumeError> {
        if self.can_lose(&[role]) {
            self.member_failed(role, OpError::Gone).await
        } else {
            Err(VolumeError::TooManyLost)
        }
    }

    /// The array is stopping.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// More is lost than redundancy makes up for.
    pub(crate) fn is_broken(&self) -> bool {
        self.closed.get() == Closed::Broken
    }

    /// Writes are under way, or were just now.
    pub(crate) fn is_active(&self) -> bool {
        self.ready.get()
    }
}

/// Marks the array clean when no write has begun for a while; ends then, or with the array.
async fn clean_when_idle(keeper: Weak<Keeper>, io: Io, idle: brindle_io::Duration) {
    let mut seen = None;
    loop {
        io.sleep(idle).await;
        let Some(keeper) = keeper.upgrade() else { return };
        let begun = Some(keeper.begun.get());
        if keeper.writes.get() != 0 || seen != begun {
            seen = begun;
            continue;
        }
        if keeper.closed.get() != Closed::No {
            return;
        }
        // An error has closed the array: there is nothing left to do, and nobody to tell.
        let marked = keeper.change(async |keeper, record| keeper.mark_clean(record).await).await;
        if marked.unwrap_or(true) {
            return;
        }
    }
}
