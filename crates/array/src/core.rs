//! What every array has, whatever its level: members, the keeper of its state, memory, and the limits of requests.
//!
//! The families of levels (`data`) stand on it; it knows none of them, nor where a byte lives.

use core::cell::{Cell, OnceCell};
use std::rc::{Rc, Weak};

use brindle_io::{Io, Slice};
use brindle_volume::{Limits, VolumeError};

use crate::config::OpenConfig;
use crate::copies::Copies;
use crate::hooks::Change;
use crate::intent::{Intent, Upkeep, Writing};
use crate::keeper::Keeper;
use crate::members::{Members, Ties};
use crate::patience::Ration;
use crate::scratch::Scratch;

/// The part of a running array that knows no level.
pub(crate) struct Core {
    pub(crate) io: Io,
    pub(crate) members: Rc<Members>,
    pub(crate) keeper: Rc<Keeper>,
    pub(crate) intent: Intent,
    pub(crate) config: OpenConfig,
    pub(crate) limits: Limits,
    pub(crate) ties: Ties,
    pub(crate) scratch: Scratch,
    /// Memory for copies of what others change, once there was need of some.
    pub(crate) copies: OnceCell<Copies>,
    /// Requests of clients so far.
    pub(crate) requests: Cell<u64>,
    /// Stopped: nobody looks at the members any more.
    pub(crate) ended: Cell<bool>,
    /// What answering reads early may still cost.
    pub(crate) ration: Ration,
    /// Zeroes to be written, once there was need of them.
    pub(crate) zeroes: OnceCell<Slice>,
    /// What is done as soon as something is to be made true for which there was no room.
    pub(crate) when_cramped: OnceCell<Box<dyn Fn()>>,
    /// For tasks that must not keep the array alive.
    pub(crate) me: Weak<Self>,
}

impl Core {
    /// Of an array whose state `keeper` keeps, with `scratch` bytes of memory for parity and reconstruction.
    pub(crate) fn new(
        io: &Io,
        members: Rc<Members>,
        keeper: Rc<Keeper>,
        intent: Intent,
        config: OpenConfig,
        limits: Limits,
        ties: Ties,
        scratch: usize,
    ) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            io: io.clone(),
            scratch: Scratch::new(io, scratch, members.len()),
            copies: OnceCell::new(),
            requests: Cell::new(0),
            ended: Cell::new(false),
            ration: Ration::default(),
            zeroes: OnceCell::new(),
            when_cramped: OnceCell::new(),
            me: me.clone(),
            members,
            keeper,
            intent,
            config,
            limits,
            ties,
        })
    }

    /// The same as [`Core::begin`] where nothing has to be waited for, else `None`.
    #[inline(always)]
    pub(crate) fn begin_at_once(&self, offset: u64, len: u64) -> Option<Writing<'_>> {
        Writing::begin_at_once(&self.intent, &self.keeper, offset..offset + len)
    }

    /// A change of `len` bytes of the array begins: returns once members may be changed.
    #[inline]
    pub(crate) fn begin(
        &self,
        offset: u64,
        len: u64,
    ) -> impl Future<Output = Result<Writing<'_>, VolumeError>> {
        Writing::begin(&self.intent, &self.keeper, offset..offset + len)
    }

    /// Members are about to get what they should hold already: returns once they may be changed.
    pub(crate) fn upkeep(&self, change: Change) -> impl Future<Output = Result<Upkeep<'_>, VolumeError>> {
        Upkeep::begin(&self.intent, &self.keeper, change)
    }

    /// Refuses what no member could do.
    #[inline]
    pub(crate) fn check(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.request_begins()?;
        self.limits.check(offset, len)
    }

    /// The same for memory that begins at `offset`: its bytes in all.
    #[inline]
    pub(crate) fn check_list(&self, offset: u64, list: &[Slice]) -> Result<u64, VolumeError> {
        self.request_begins()?;
        self.limits.check_list(offset, list)
    }

    /// The same of what changes bytes.
    #[inline]
    pub(crate) fn check_change(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.limits.check_change()?;
        self.check(offset, len)
    }

    #[inline]
    fn request_begins(&self) -> Result<(), VolumeError> {
        self.requests.set(self.requests.get() + 1);
        if self.keeper.is_stopping() { Err(VolumeError::Stopping) } else { Ok(()) }
    }
}
