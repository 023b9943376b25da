//! Keeps the record of the array's state up to date: dirty before the first write, clean after idle time, failures
//! recorded before anything relies on them. The [`Ledger`] decides what the record is, and where.

pub(crate) mod change;
mod commit;
mod exposed;
mod form;
mod presumed;
mod roles;
mod stop;
mod sync_map;

use core::cell::Cell;
use core::ops::Range;
use std::rc::{Rc, Weak};

use crate::events::{EventKind, Events, Note};
use brindle_io::sync::Notify;
use brindle_io::{Io, MemberId, OpClass, OpError, Pending};
use brindle_members::events::Cause;
use brindle_members::flushes::Flushes;
use brindle_members::members::{Dependence, Members, RoleState};
use brindle_members::turn::{Turns, in_turn};
use brindle_volume::VolumeError;

use crate::channels::Channels;
use crate::config::OpenConfig;
use crate::home::Home;
use crate::ledger::{Failed, Ledger, State};
use crate::no_space::ranges::AwaitingSpace;
use crate::row_log::{LogHost, OnRecord};
use change::Changing;
pub use change::StateChange;
pub(crate) use form::Recast;
use presumed::Presumed;
pub(crate) use stop::MaintenanceGuard;
use stop::StopPhase;
pub(crate) use sync_map::SyncMap;

/// Whether every byte survives the loss of these roles.
pub(crate) type CanLose = Box<dyn Fn(&[u16]) -> bool>;

/// A record, and how the array is by it.
pub(crate) struct KeptRecord {
    pub(crate) ledger: Rc<dyn Ledger>,
    /// The state on record.
    pub(crate) found: State,
    /// Where redundancy is in sync.
    pub(crate) sync_map: SyncMap,
    pub(crate) events: Rc<Events>,
    pub(crate) channels: Rc<Channels>,
    /// Of a channel: the reactor that has the array.
    pub(crate) home: Option<Rc<dyn Home>>,
}

/// Why the array takes no writes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
    No,
    /// More is lost than redundancy makes up for. The record stays as it is, so that the array can be assembled once
    /// its members are back.
    Broken,
    Stopping,
}

/// The state of an array that the data path reports to, and waits for before it acknowledges.
pub(crate) struct Keeper {
    /// For tasks that must not keep the array alive.
    me: Weak<Self>,
    io: Io,
    pub(crate) members: Rc<Members>,
    can_lose: CanLose,
    pub(crate) ledger: Rc<dyn Ledger>,
    config: OpenConfig,
    /// Redundancy exists, so that dirty and clean mean something, and members may be written to: changes of the state are
    /// put on record.
    pub(crate) recorded: bool,
    dependence: Dependence,
    /// The event that a crash makes the array need force has been noted.
    exposed_noted: Cell<bool>,
    /// The state to be put on record. `dirty` is this run's; an earlier run's is part of the position.
    state: Cell<State>,
    /// The state on record, as of the last change that came to its end.
    on_record: Cell<State>,
    turns: Turns,
    /// Marked dirty, and open: writes may begin without waiting.
    ready: Cell<bool>,
    closed: Cell<Closed>,
    stop_phase: Cell<StopPhase>,
    /// Writes under way, and begun in all.
    pub(crate) writes: Cell<u32>,
    begun: Cell<u64>,
    /// Maintenance of members under way: windows of a resync, rounds that clear bits, places that are mended.
    maintenance: Cell<u32>,
    drained: Notify,
    /// The change to dirty or clean that is being written.
    changing: Cell<Option<StateChange>>,
    pub(crate) sync_map: SyncMap,
    pub(crate) presumed: Presumed,
    events: Rc<Events>,
    flushes: Rc<Flushes>,
    pub(crate) awaiting_space: AwaitingSpace,
    /// Reactors that read the array beside this one. Who relies on a loss waits until none of them reads by what was before.
    pub(crate) channels: Rc<Channels>,
    /// Of a channel: the reactor that has the array, which decides and records.
    pub(crate) home: Option<Rc<dyn Home>>,
}

impl Keeper {
    /// A keeper of a record. `dependence` says whether there is redundancy.
    pub(crate) fn new(
        io: &Io,
        members: Rc<Members>,
        can_lose: CanLose,
        dependence: Dependence,
        record: KeptRecord,
        config: OpenConfig,
    ) -> Rc<Self> {
        let KeptRecord { ledger, found, sync_map, events, channels, home } = record;
        let presumed = Presumed::of(ledger.presumed());
        let keeper = Rc::new_cyclic(|me: &Weak<Self>| Self {
            me: me.clone(),
            io: io.clone(),
            events,
            flushes: Flushes::new(io),
            awaiting_space: AwaitingSpace::default(),
            members,
            can_lose,
            recorded: dependence.redundant && !config.is_read_only(),
            dependence,
            exposed_noted: Cell::new(false),
            state: Cell::new(found),
            on_record: Cell::new(found),
            turns: Turns::new(io),
            ledger,
            config,
            ready: Cell::new(false),
            closed: Cell::new(Closed::No),
            stop_phase: Cell::new(StopPhase::No),
            writes: Cell::new(0),
            begun: Cell::new(0),
            maintenance: Cell::new(0),
            drained: Notify::new(io),
            changing: Cell::new(None),
            sync_map,
            presumed,
            channels,
            home,
        });
        let me = Rc::downgrade(&keeper);
        keeper.ledger.when_lost(Rc::new(move |device, why| {
            if let Some(keeper) = me.upgrade() {
                keeper.lost_elsewhere(device, why);
            }
        }));
        keeper
    }

    /// Where the state is on record.
    pub(crate) fn ledger(&self) -> &dyn Ledger {
        &*self.ledger
    }

    /// Marked dirty by this run, or about to be.
    pub(crate) fn is_dirty(&self) -> bool {
        self.state.get().dirty
    }

    pub(crate) fn flushes(&self) -> &Rc<Flushes> {
        &self.flushes
    }

    pub(crate) fn events(&self) -> &Rc<Events> {
        &self.events
    }

    /// Remembers that something happened to the member of a role.
    pub(crate) fn note_member(
        &self,
        role: u16,
        kind: EventKind,
        cause: impl Into<Option<Cause>>,
        range: Option<Range<u64>>,
    ) {
        let note = Note { role: Some(role), label: self.label(role), cause: cause.into(), ..Note::of(kind) };
        self.note(Note { range, ..note });
    }

    /// Remembers that something happened to a place of the member of a role, and which bytes of the array that are.
    pub(crate) fn note_place(
        &self,
        role: u16,
        kind: EventKind,
        range: Range<u64>,
        array: Option<Range<u64>>,
    ) {
        let note = Note { role: Some(role), label: self.label(role), ..Note::of(kind) };
        self.note(Note { range: Some(range), array, ..note });
    }

    /// How messages name the member of a role.
    pub(crate) fn label(&self, role: u16) -> Option<String> {
        self.members
            .device(role)
            .map(|device| self.ledger.label(device.id).unwrap_or_else(|| device.id.to_string()))
    }

    /// Remembers that something happened.
    pub(crate) fn note(&self, note: Note) {
        self.events.note((self.config.wall_clock)(), note);
    }

    /// A write is about to touch members: returns once the array is marked dirty. Each success is matched by one
    /// [`Keeper::write_ends`].
    #[inline]
    pub(crate) async fn write_begins(&self) -> Result<(), VolumeError> {
        while !self.write_begins_at_once() {
            self.make_ready().await?;
        }
        Ok(())
    }

    /// Begins a write if the state need not be recorded first; else no write has begun.
    #[inline]
    pub(crate) fn write_begins_at_once(&self) -> bool {
        if !self.ready.get() {
            return false;
        }
        debug_assert!(!self.recorded || self.on_record.get().dirty, "dirty is not on record");
        self.writes.set(self.writes.get() + 1);
        self.begun.set(self.begun.get() + 1);
        true
    }

    /// A write has touched its last member.
    #[inline]
    pub(crate) fn write_ends(&self) {
        let left = self.writes.get() - 1;
        self.writes.set(left);
        if left == 0 && self.closed.get() != Closed::No {
            self.drained.notify();
        }
    }

    #[cold]
    async fn make_ready(&self) -> Result<(), VolumeError> {
        self.refuse_if_closed()?;
        if !self.recorded {
            self.ready.set(true);
            return Ok(());
        }
        self.change(async |keeper| keeper.mark_dirty().await).await
    }

    /// Carries out a change of the record with the turn, in a task of its own: once begun it is written to its end, even if
    /// its waiter is dropped. Until then the devices own the record's buffers, and a later change must not overtake it.
    /// Where nothing is put on record there is nothing to change; nor is there when the run has ended.
    pub(crate) fn change<T, W>(&self, work: W) -> impl Future<Output = Result<T, VolumeError>> + use<T, W>
    where
        T: Default + 'static,
        W: AsyncFnOnce(&Self) -> Result<T, VolumeError> + 'static,
    {
        let me = self.me.upgrade().filter(|me| me.recorded);
        let task = me.map(|me| {
            in_turn(
                &self.io,
                me,
                |keeper| &keeper.turns,
                async move |keeper: &Self| {
                    keeper.refuse_if_over()?;
                    work(keeper).await
                },
            )
        });
        async move {
            match task {
                Some(task) => task.await,
                None => Ok(T::default()),
            }
        }
    }

    /// Marks the array dirty on record. The caller has the turn.
    async fn mark_dirty(&self) -> Result<(), VolumeError> {
        if self.ready.get() {
            return Ok(());
        }
        self.refuse_if_closed()?;
        let _changing = Changing::begin(&self.changing, StateChange::Dirty);
        // Written even if the last run left the array dirty: the failed and the missing must be recorded.
        self.state.set(State { dirty: true, ..self.state.get() });
        self.commit().await?;
        self.ready.set(self.closed.get() == Closed::No);
        drop(self.io.spawn(clean_when_idle(self.me.clone(), self.io.clone(), self.config.idle)));
        Ok(())
    }

    pub(crate) fn refuse_if_closed(&self) -> Result<(), VolumeError> {
        match self.closed.get() {
            Closed::No => Ok(()),
            Closed::Broken => Err(VolumeError::TooManyLost),
            Closed::Stopping => Err(VolumeError::Stopping),
        }
    }

    /// A member failed: from now on it is out of use. The future is done once that is recorded on the surviving
    /// devices, so that a write which relies on its absence may be acknowledged; it need not be awaited for that.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] if the array can't live without it: then nothing is recorded, and the array takes
    /// no writes any more.
    pub(crate) fn begin_failing(
        &self,
        role: u16,
        why: Cause,
    ) -> Result<impl Future<Output = Result<(), VolumeError>> + use<>, VolumeError> {
        let known = matches!(self.members.state(role), RoleState::Failed | RoleState::Missing);
        if !known {
            self.lose(&[(role, why)])?;
        }
        Ok(self.failures_recorded())
    }

    /// Every failure of a member is recorded, and so are writes over bad blocks. All that rely on a member's absence
    /// wait for this, since another request, a flush or the write of a superblock may have met the failure. Begins at
    /// once, and need not be awaited for that.
    ///
    /// # Errors
    /// If it could not be recorded; or if the array can't live without a member that failed.
    pub(crate) fn failures_recorded(&self) -> impl Future<Output = Result<(), VolumeError>> + use<> {
        let change = self.is_due().then(|| {
            self.change(async move |keeper| if keeper.is_due() { keeper.commit().await } else { Ok(()) })
        });
        let me = self.me.clone();
        async move {
            if let Some(change) = change {
                change.await?;
            }
            // Without a record, too.
            if let Some(channels) = me.upgrade().map(|keeper| Rc::clone(&keeper.channels)) {
                channels.taken().await;
            }
            let broken = me.upgrade().is_some_and(|keeper| keeper.is_broken());
            if broken { Err(VolumeError::TooManyLost) } else { Ok(()) }
        }
    }

    fn is_due(&self) -> bool {
        self.members.is_change_pending() || self.members.has_unrecorded_bad()
    }

    /// A record is due before success may be acknowledged, or success may not be acknowledged any more.
    pub(crate) fn is_record_pending(&self) -> bool {
        self.is_due() || self.is_broken() || self.channels.is_untaken()
    }

    /// Another array that shares the device has lost it: this one does without it from now on, or is broken. The loss
    /// is recorded at once.
    fn lost_elsewhere(&self, device: MemberId, why: Cause) {
        let Some(role) = self.role_in_use(device) else { return };
        match self.begin_failing(role, why) {
            Ok(recording) => drop(recording),
            Err(_) => self.members.fail(role),
        }
    }

    /// Marks a change of the recorded state as under way until what this returns is dropped.
    pub(crate) fn begin_change(&self, change: StateChange) -> Changing<'_> {
        Changing::begin(&self.changing, change)
    }

    /// Whether the array could do without these roles too.
    pub(crate) fn can_lose(&self, roles: &[u16]) -> bool {
        let out = |role: &u16| {
            roles.contains(role) && !self.has_successor(*role)
                || self.members.state(*role) != RoleState::InSync
        };
        let lost: Vec<u16> = (0..self.members.len()).filter(out).collect();
        (self.can_lose)(&lost)
    }

    /// A role's second device takes its member's place if that fails.
    pub(crate) fn has_successor(&self, role: u16) -> bool {
        let devices = (self.members.device(role), self.members.second(role));
        let (Some(first), Some(second)) = devices else { return false };
        self.members.is_doubled(role) && self.ledger.replaces(first.id, second.device.id)
    }

    /// A role's second device is on record beside its member: it goes on if that fails.
    fn has_replacement(&self, role: u16) -> bool {
        let second = self.members.second(role).map(|second| second.device.id);
        second.is_some_and(|id| self.ledger.recovery_offset(id).is_some())
    }

    /// Takes a role's second device out of use, which loses the array nothing. If it was on record, the loss is
    /// recorded before the writes that it missed are acknowledged: no later run may rely on its content. If it was
    /// not on record yet, and has failed, it is no spare any more either.
    pub(crate) fn second_failed(&self, role: u16, why: Cause) {
        let Some(second) = self.members.second(role) else { return };
        let on_record = self.has_replacement(role);
        self.members.fail_second(role);
        let (id, label) = (second.device.id, self.ledger.label(second.device.id));
        if !on_record && (why.error.is_none() || label.is_none()) {
            return;
        }
        let cause = Some(why);
        self.note(Note { role: Some(role), label, cause, ..Note::of(EventKind::MemberFailed) });
        self.lose_device(id, why);
        if !on_record {
            return;
        }
        self.members.set_change_pending(self.recorded);
        drop(self.failures_recorded());
    }

    /// Takes members out of use, if the array can live without them; else the array takes no writes any more.
    pub(crate) fn lose(&self, members: &[(u16, Cause)]) -> Result<(), VolumeError> {
        let roles: Vec<u16> = members.iter().map(|(role, _)| *role).collect();
        if !self.can_lose(&roles) {
            self.close_broken(members);
            return Err(VolumeError::TooManyLost);
        }
        for &(role, why) in members {
            let device = self.members.device(role);
            self.note_member(role, EventKind::MemberFailed, why, None);
            let second = self.members.second(role);
            let (doubled, stays) = (self.has_successor(role), self.has_replacement(role));
            match (doubled, stays) {
                (true, _) => self.members.promote_second(role),
                (false, true) => self.members.fall_back(role),
                (false, false) => self.members.fail(role),
            }
            if let Some(device) = device {
                self.lose_device(device.id, why);
            }
            if let Some(second) = second.filter(|_| doubled) {
                self.ledger.take_in(role, second.device.id);
            }
        }
        self.members.set_change_pending(self.recorded);
        self.note_if_exposed();
        Ok(())
    }

    /// A device is out of use, whatever it was in the array.
    pub(crate) fn lose_device(&self, id: MemberId, cause: Cause) {
        self.ledger.lose(id, Failed { cause, at: (self.config.wall_clock)() });
    }

    /// The array can't live without members that failed.
    fn close_broken(&self, members: &[(u16, Cause)]) {
        if self.is_broken() {
            return;
        }
        self.closed.set(Closed::Broken);
        self.ready.set(false);
        self.channels.look(false);
        for &(role, why) in members {
            self.note_member(role, EventKind::Broken, why, None);
        }
    }

    /// Redundancy is known to be in sync below this position (bytes of the member's data area; of the array for mirrors);
    /// `u64::MAX` when all is. At and above it mirrors are read from their first readable copy, and parity is trusted
    /// where [`Keeper::is_in_sync`] says so.
    #[inline]
    pub(crate) fn synced_to(&self) -> u64 {
        self.sync_map.upto()
    }

    /// Whether redundancy is known to be in sync in the whole range.
    #[inline]
    pub(crate) fn is_in_sync(&self, range: &Range<u64>) -> bool {
        self.sync_map.holds(range)
    }

    /// Whether redundancy is known to be in sync at the start of the range, and where within it that changes.
    pub(crate) fn in_sync_run(&self, range: &Range<u64>) -> (bool, u64) {
        self.sync_map.run(range)
    }

    /// Redundancy has been brought in sync in a range; see [`SyncMap::add`].
    #[inline]
    pub(crate) fn note_in_sync(&self, range: Range<u64>, needed: bool) {
        let doubted = self.sync_map.position().is_some();
        self.sync_map.add(range, needed);
        if doubted && self.sync_map.position().is_none() {
            // Spares and replacements wait for this.
            self.members.changed().notify();
        }
    }

    /// Records how far redundancy is known to be in sync, unless the array is dirty: then that happens when it is marked clean.
    pub(crate) async fn save_position(&self) -> Result<(), VolumeError> {
        self.change(async |keeper| {
            let (state, position) = (keeper.state.get(), keeper.resync_offset());
            if state.dirty || state.resync_offset == position {
                Ok(())
            } else {
                keeper.settle(position).await
            }
        })
        .await
    }

    /// Where redundancy stops being known to be in sync.
    pub(crate) fn resync_offset(&self) -> Option<u64> {
        self.sync_map.position()
    }

    /// Fails a member because the operator says so.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] if the array can't live without it: then nothing changes.
    pub(crate) async fn fail(&self, role: u16) -> Result<(), VolumeError> {
        if self.can_lose(&[role]) {
            self.begin_failing(role, Cause::COMMAND)?.await
        } else {
            Err(VolumeError::TooManyLost)
        }
    }

    /// Sends flushes to all members in use.
    fn send_flushes(&self) -> Pending {
        let mut group = self.io.group_of(OpClass::Metadata);
        for role in 0..self.members.len() {
            let second = self.members.second(role).map(|second| second.device);
            for device in self.members.writable(role).into_iter().chain(second) {
                group.flush(device.id);
            }
        }
        let patience = self.config.patience.flush;
        group.submit_by(self.io.now().after(patience).after(patience))
    }

    /// The change of the state on disk that is being written, if one is; of several the failure.
    pub(crate) fn state_change(&self) -> Option<StateChange> {
        if self.members.is_change_pending() { Some(StateChange::Failure) } else { self.changing.get() }
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

impl LogHost for Keeper {
    fn io(&self) -> &Io {
        &self.io
    }

    fn members(&self) -> &Members {
        &self.members
    }

    fn refused<'a>(&'a self, refused: &'a [(MemberId, OpError)]) -> OnRecord<'a> {
        Box::pin(self.bits_refused(refused))
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
        // An error has closed the array: there is nothing left to do, and no caller to report to.
        let marked = keeper.change(async |keeper| keeper.mark_clean().await).await;
        // Marked clean by others, it leaves nothing to do either: the next write begins another such task.
        if marked.unwrap_or(true) || !keeper.is_dirty() {
            return;
        }
    }
}
