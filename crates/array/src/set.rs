//! What all members of one owner have in common: who fails, who is waited for, what has to be on record.

use core::cell::{Cell, OnceCell};
use std::rc::{Rc, Weak};

use brindle_io::{Io, OpError, Slice};
use brindle_volume::{VolumeError, ZeroOptions};

use crate::door::{Done, Door, Moved};
use crate::events::Cause;
use crate::flushes::Flushes;
use crate::members::{Device, Members, Ties};
use crate::owner::{Owner, Recording};
use crate::patience::{Patience, Ration};
use crate::scratch::Scratch;

/// Bytes of zeroes that are written at a time where a member has no other way.
const ZEROES: usize = 256 << 10;

/// The members of one owner, with all that is needed to ask them for something.
pub(crate) struct MemberSet {
    pub(crate) io: Io,
    pub(crate) members: Rc<Members>,
    pub(crate) ties: Ties,
    pub(crate) patience: Patience,
    /// Members without room stay in use: what finds none is refused.
    pub(crate) waits_for_room: bool,
    /// Memory for what is computed of members' bytes.
    pub(crate) scratch: Scratch,
    /// What answering reads early may still cost.
    pub(crate) ration: Ration,
    pub(crate) flushes: Rc<Flushes>,
    /// Nobody looks at the members any more.
    pub(crate) ended: Cell<bool>,
    /// Whoever owns them is told of all changes that they are sent.
    observed: bool,
    /// Zeroes to be written, once there was need of them.
    zeroes: OnceCell<Slice>,
    owner: Weak<dyn Owner>,
}

/// How members are treated.
pub(crate) struct Treatment {
    /// What their bytes are to each other.
    pub(crate) ties: Ties,
    /// How long they may take.
    pub(crate) patience: Patience,
    /// See [`MemberSet::waits_for_room`].
    pub(crate) waits_for_room: bool,
    /// See [`MemberSet::is_observed`].
    pub(crate) observed: bool,
    /// Bytes of memory for what is computed of their bytes.
    pub(crate) scratch: usize,
}

impl MemberSet {
    /// Members of `owner`, which need not be there yet.
    pub(crate) fn new(
        io: &Io,
        members: Rc<Members>,
        flushes: Rc<Flushes>,
        how: &Treatment,
        owner: Weak<dyn Owner>,
    ) -> Self {
        let Treatment { ties, patience, waits_for_room, observed, scratch } = *how;
        Self {
            io: io.clone(),
            scratch: Scratch::new(io, scratch, members.len()),
            members,
            ties,
            patience,
            waits_for_room,
            ration: Ration::default(),
            flushes,
            ended: Cell::new(false),
            observed,
            zeroes: OnceCell::new(),
            owner,
        }
    }

    /// Who owns them; an error if that ends just now.
    pub(crate) fn owner(&self) -> Result<Rc<dyn Owner>, VolumeError> {
        self.owner.upgrade().ok_or(VolumeError::Stopping)
    }

    /// Whether the owner is told of all changes that members are sent.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.observed
    }

    /// All that success relies on is on record when this returns.
    pub(crate) async fn recorded(&self) -> Result<(), VolumeError> {
        match self.owner()?.unrecorded() {
            None => Ok(()),
            Some(recording) => recording.await,
        }
    }

    /// Whether a device is large enough for `len` bytes of data.
    pub(crate) fn has_room(&self, device: Device, len: u64) -> bool {
        let end = device.data_offset.saturating_add(len);
        self.io.member_info(device.id).is_some_and(|info| info.size >= end)
    }

    /// The way to the members. `moved` is where they have the data of whoever asks, if that is not where they say.
    #[inline]
    pub(crate) fn door<'a>(&'a self, moved: Option<&'a Moved>) -> Door<'a> {
        Door::new(self, moved)
    }

    /// The member stays in use although it did not take a write.
    pub(crate) fn is_kept(&self, role: u16, error: OpError) -> bool {
        let silent = error == OpError::TimedOut && self.ties.redundant;
        self.waits_for_room(error) || silent && self.members.writable(role).is_some()
    }

    /// A member that gives this error stays in use.
    pub(crate) fn waits_for_room(&self, error: OpError) -> bool {
        error == OpError::NoSpace && self.waits_for_room && self.ties.redundant
    }

    /// Whether every member in use can make zeroes without being sent them.
    pub(crate) fn zeroes_fast(&self) -> bool {
        let devices = (0..self.members.len()).filter_map(|role| self.members.writable(role));
        let mut infos = devices.filter_map(|device| self.io.member_info(device.id));
        infos.all(|info| info.write_zeroes)
    }

    /// Refuses zeroes that would have to be sent where that is not wanted.
    pub(crate) fn check_zeroes(&self, options: ZeroOptions) -> Result<(), VolumeError> {
        if options.fast_only && !self.zeroes_fast() { Err(VolumeError::Unsupported) } else { Ok(()) }
    }

    /// Zeroes to be written; made when first asked for, and kept.
    pub(crate) fn zeroes(&self) -> &Slice {
        self.zeroes.get_or_init(|| {
            // A pool of its own: a step that holds scratch must not wait for more.
            let pool = self.io.pool(ZEROES);
            let buf = pool.try_alloc(ZEROES).unwrap_or_else(|| unreachable!("a new pool has room"));
            buf.bytes_mut().fill(0);
            buf.all()
        })
    }
}

impl MemberSet {
    /// Fails a member that is in use: recorded before anything relies on its absence.
    ///
    /// # Errors
    /// If the array can't live without it. It is then taken out of use all the same where `for_good`: its bytes are
    /// not what they should be, and without its redundancy an answer from it could be one that was never written.
    pub(crate) async fn fail_member(
        &self,
        role: u16,
        why: impl Into<Cause>,
        for_good: bool,
    ) -> Result<(), VolumeError> {
        let why = why.into();
        // Who does not answer is judged by `patience`, together with all others.
        if why.error == Some(OpError::TimedOut)
            && !self.is_served(role)
            && self.members.writable(role).is_some()
        {
            return Err(VolumeError::of_member(role, OpError::TimedOut));
        }
        self.begin_failing(role, why, for_good)?.await
    }

    /// As [`MemberSet::fail_member`]: from now on nothing is asked of the member; the future is done when that is recorded,
    /// and need not be awaited for it.
    pub(crate) fn begin_failing(
        &self,
        role: u16,
        why: Cause,
        for_good: bool,
    ) -> Result<Recording, VolumeError> {
        let recording = self.owner()?.begin_failing(role, why);
        if recording.is_err() && for_good {
            self.members.fail(role);
        }
        recording
    }

    /// The role's member is an array of this process.
    fn is_served(&self, role: u16) -> bool {
        self.members.device(role).is_some_and(|device| device.id.is_served())
    }

    /// What to tell the reader whose memory a member that was given up may still write to; `None` if none does.
    pub(crate) fn lent(&self, into: impl AsRef<[Slice]>, done: &Done) -> Option<VolumeError> {
        if !into.as_ref().iter().any(Slice::is_lent) {
            return None;
        }
        let avoided = |role: u16| {
            self.members.is_slow(role) || self.members.writable(role).is_none() || self.is_served(role)
        };
        // Who is in use still, and silent, would be asked again.
        let silent = done.refused().iter().find(|r| r.error == OpError::TimedOut && !avoided(r.role));
        Some(silent.map_or(VolumeError::Again, |silent| VolumeError::of_member(silent.role, silent.error)))
    }

    /// Waits until a slow member has answered, or is out of use; or is asked by everybody again, since what answering for
    /// it may cost is spent.
    ///
    /// # Errors
    /// If the array can't do without it, however long it takes.
    pub(crate) async fn answered(&self, role: u16) -> Result<(), VolumeError> {
        let waits = |device: Device| self.io.orphans(device.id) > 0;
        while self.members.writable(role).is_some_and(waits) {
            if !self.members.is_slow(role) {
                let given_up = Err(VolumeError::of_member(role, OpError::TimedOut));
                return if self.ration.is_left() { given_up } else { Ok(()) };
            }
            self.io.sleep(self.patience.read / 4).await;
        }
        Ok(())
    }

    /// Fails every member that refused a write of this group; with none, costs nothing. Returns once a success may
    /// be acknowledged.
    #[inline]
    pub(crate) async fn settle_writes(&self, outcome: &Done, for_good: bool) -> Result<(), VolumeError> {
        if outcome.is_ok() && self.members.all_settled() {
            return Ok(());
        }
        self.settle_failed_writes(outcome, for_good).await
    }

    #[cold]
    pub(crate) async fn settle_failed_writes(
        &self,
        outcome: &Done,
        for_good: bool,
    ) -> Result<(), VolumeError> {
        let mut result = self.recorded().await;
        for refused in outcome.refused().iter().filter(|refused| refused.is_of(&self.members)) {
            let failed = if self.waits_for_room(refused.error) {
                Err(VolumeError::of_member(refused.role, refused.error))
            } else {
                self.fail_member(refused.role, refused, for_good).await
            };
            result = result.and(failed);
        }
        result
    }
}
