//! State that all members of one owner share: failures, patience, records that are due.

mod owner;

use core::cell::{Cell, OnceCell};
use std::rc::{Rc, Weak};

use brindle_io::{Io, OpError, Slice};
use brindle_volume::{VolumeError, ZeroOptions};

use crate::events::Cause;
use crate::flushes::Flushes;
use crate::members::{Dependence, Device, Members};
use crate::patience::{Patience, Ration};
use crate::scratch::Scratch;
pub use owner::{Noticed, Owner, Recording};

/// Bytes of zeroes that are written at a time where a member has no other way.
const ZEROES: usize = 256 << 10;

/// The members of one owner, with all that is needed to ask them for something.
pub struct MemberSet {
    /// The executor, by a handle whose operations are this owner's.
    pub io: Io,
    /// The roles and their devices.
    pub members: Rc<Members>,
    /// The relation of the members' bytes to each other.
    dependence: Cell<Dependence>,
    /// Time that members may take.
    pub patience: Patience,
    /// Members without room stay in use: a write that finds no space is refused.
    pub waits_for_space: bool,
    /// Memory for computing with members' bytes.
    pub scratch: Scratch,
    /// The remaining cost of answering reads early.
    pub ration: Ration,
    /// Flushes under way.
    pub flushes: Rc<Flushes>,
    /// True once the members are not watched any more.
    pub ended: Cell<bool>,
    /// The owner gets notice of all changes that members are sent.
    observed: bool,
    /// Zeroes to be written, once there was need of them.
    zeroes: OnceCell<Slice>,
    /// A device that should make zeroes by itself had to be sent them: those that may be holes, and those that may not.
    sent_zeroes: [Cell<bool>; 2],
    owner: Weak<dyn Owner>,
}

/// How members are treated.
pub struct Treatment {
    /// The relation of their bytes to each other.
    pub dependence: Dependence,
    /// The timeouts of members.
    pub patience: Patience,
    /// See [`MemberSet::waits_for_space`].
    pub waits_for_space: bool,
    /// See [`MemberSet::is_observed`].
    pub observed: bool,
    /// Bytes of memory for what is computed of their bytes.
    pub scratch: usize,
}

impl MemberSet {
    /// Members of `owner`, which need not be there yet.
    pub fn new(
        io: &Io,
        members: Rc<Members>,
        flushes: Rc<Flushes>,
        how: &Treatment,
        owner: Weak<dyn Owner>,
    ) -> Self {
        let Treatment { dependence, patience, waits_for_space, observed, scratch } = *how;
        Self {
            io: io.clone(),
            scratch: Scratch::new(io, scratch, members.len()),
            members,
            dependence: Cell::new(dependence),
            patience,
            waits_for_space,
            ration: Ration::default(),
            flushes,
            ended: Cell::new(false),
            observed,
            zeroes: OnceCell::new(),
            sent_zeroes: Default::default(),
            owner,
        }
    }

    /// The owner; an error if that ends just now.
    ///
    /// # Errors
    /// [`VolumeError::Stopping`].
    pub fn owner(&self) -> Result<Rc<dyn Owner>, VolumeError> {
        self.owner.upgrade().ok_or(VolumeError::Stopping)
    }

    /// The relation of the members' bytes to each other.
    pub fn dependence(&self) -> Dependence {
        self.dependence.get()
    }

    /// The owner can do without a member from now on, or can't.
    pub fn set_redundant(&self, redundant: bool) {
        self.dependence.set(Dependence { redundant, ..self.dependence.get() });
    }

    /// Whether the owner gets notice of all changes that members are sent.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.observed
    }

    /// All that success relies on is on record when this returns.
    ///
    /// # Errors
    /// If it could not be recorded, or the owner has lost more than it can do without.
    pub async fn recorded(&self) -> Result<(), VolumeError> {
        match self.owner()?.unrecorded() {
            None => Ok(()),
            Some(recording) => recording.await,
        }
    }

    /// Whether a device is large enough for `len` bytes of data.
    pub fn has_room(&self, device: Device, len: u64) -> bool {
        let end = device.data_offset.saturating_add(len);
        self.io.member_info(device.id).is_some_and(|info| info.size >= end)
    }

    /// The member stays in use although it did not take a write.
    pub fn is_kept(&self, role: u16, error: OpError) -> bool {
        let silent = error == OpError::TimedOut && self.dependence().redundant;
        self.waits_for_space(error) || silent && self.members.writable(role).is_some()
    }

    /// A member that gives this error stays in use.
    pub fn waits_for_space(&self, error: OpError) -> bool {
        error == OpError::NoSpace && self.waits_for_space && self.dependence().redundant
    }

    /// Notes that a device had to be sent zeroes.
    pub(crate) fn note_sent_zeroes(&self, options: ZeroOptions) {
        self.sent_zeroes[usize::from(options.keep_allocated)].set(true);
    }

    /// Whether every device in use can make zeroes without being sent them, as far as is known.
    pub fn zeroes_fast(&self, options: ZeroOptions) -> bool {
        if self.sent_zeroes[usize::from(options.keep_allocated)].get() {
            return false;
        }
        let firsts = (0..self.members.len()).filter_map(|role| self.members.writable(role));
        let seconds = (0..self.members.len()).filter_map(|role| self.members.second(role));
        let devices = firsts.chain(seconds.map(|second| second.device));
        let mut infos = devices.filter_map(|device| self.io.member_info(device.id));
        infos.all(|info| info.write_zeroes)
    }

    /// Refuses zeroes that would have to be sent where that is not wanted.
    ///
    /// # Errors
    /// [`VolumeError::Unsupported`].
    pub fn check_zeroes(&self, options: ZeroOptions) -> Result<(), VolumeError> {
        if options.fast_only && !self.zeroes_fast(options) { Err(VolumeError::Unsupported) } else { Ok(()) }
    }

    /// Zeroes to be written; made when first asked for, and kept.
    pub fn zeroes(&self) -> &Slice {
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
    pub async fn fail_member(
        &self,
        role: u16,
        why: impl Into<Cause>,
        for_good: bool,
    ) -> Result<(), VolumeError> {
        let why = why.into();
        // A member that does not answer is judged by `patience`, together with all others.
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
    ///
    /// # Errors
    /// As of [`Owner::begin_failing`].
    pub fn begin_failing(&self, role: u16, why: Cause, for_good: bool) -> Result<Recording, VolumeError> {
        let recording = self.owner()?.begin_failing(role, why);
        if recording.is_err() && for_good {
            self.members.fail(role);
        }
        recording
    }

    /// The role's member is an array of this process.
    pub fn is_served(&self, role: u16) -> bool {
        self.members.device(role).is_some_and(|device| device.id.is_served())
    }

    /// Waits until a slow member has answered, or is out of use; or is asked by everybody again, since what answering for
    /// it may cost is spent.
    ///
    /// # Errors
    /// If the array can't do without it, however long it takes.
    pub async fn answered(&self, role: u16) -> Result<(), VolumeError> {
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
}
