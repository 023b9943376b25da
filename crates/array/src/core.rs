//! The parts that arrays of all levels have: members, the keeper of its state, memory, and the limits of requests.
//!
//! The families of levels (`data`) stand on it; it knows none of them, nor where a byte lives.

use core::cell::{Cell, OnceCell};
use core::ops::{Deref, Range};
use std::rc::{Rc, Weak};

use brindle_io::{Duration, Io, Slice};
use brindle_members::change::MemberChange;
use brindle_members::copies::Copies;
use brindle_members::events::Cause;
use brindle_members::members::{Dependence, Members};
use brindle_members::set::{MemberSet, Treatment};
use brindle_members::set::{Noticed, Owner, Recording};
use brindle_members::watch::watch;
use brindle_volume::{Limits, VolumeError};

use crate::channels::leases::Quiet;
use crate::claims::{Claim, Claims};
use crate::config::{OnFull, OpenConfig};
use crate::home::{self, Home};
use crate::intent::{Intent, Maintenance, Writing};
use crate::keeper::Keeper;
use crate::row_log::Change;

/// The part of a running array that knows no level.
pub(crate) struct Core {
    set: MemberSet,
    pub(crate) keeper: Rc<Keeper>,
    pub(crate) intent: Intent,
    /// Changes under way, and ranges that requests have for themselves.
    pub(crate) claims: Claims,
    pub(crate) config: OpenConfig,
    pub(crate) limits: Limits,
    /// Memory for copies of what others change, once there was need of some.
    pub(crate) copies: OnceCell<Copies>,
    /// The array has another shape by now, and goes on with a core of that.
    pub(crate) superseded: Cell<bool>,
    /// Requests of clients so far.
    pub(crate) requests: Cell<u64>,
    /// Called as soon as something is to be brought in sync for which there was no room.
    pub(crate) on_no_space: OnceCell<Box<dyn Fn()>>,
    /// Called when reads of a role's member are given up, with the time that they had waited.
    pub(crate) when_given_up: OnceCell<Box<dyn Fn(u16, Duration)>>,
    /// For tasks that must not keep the array alive.
    me: Weak<Self>,
}

impl Deref for Core {
    type Target = MemberSet;

    #[inline]
    fn deref(&self) -> &MemberSet {
        &self.set
    }
}

/// The owner of the members of a core.
fn owner(core: &Weak<Core>, is_channel: bool) -> Weak<dyn Owner> {
    if is_channel { home::nobody() } else { core.clone() }
}

impl Core {
    /// An engine core of an array whose state `keeper` keeps, with `scratch` bytes of memory for parity and
    /// reconstruction.
    pub(crate) fn new(
        io: &Io,
        members: Rc<Members>,
        keeper: Rc<Keeper>,
        intent: Intent,
        config: OpenConfig,
        limits: Limits,
        dependence: Dependence,
        scratch: usize,
    ) -> Rc<Self> {
        let how = Treatment {
            dependence,
            patience: config.patience,
            waits_for_space: config.on_full == OnFull::Wait,
            observed: intent.is_observed(),
            scratch,
        };
        Rc::new_cyclic(|me: &Weak<Self>| Self {
            set: MemberSet::new(
                io,
                members,
                Rc::clone(keeper.flushes()),
                &how,
                owner(me, keeper.home.is_some()),
            ),
            claims: Claims::new(io),
            copies: OnceCell::new(),
            superseded: Cell::new(false),
            requests: Cell::new(0),
            on_no_space: OnceCell::new(),
            when_given_up: OnceCell::new(),
            me: me.clone(),
            keeper,
            intent,
            config,
            limits,
        })
    }

    /// The reactor that decides for this one, where this is the core of a channel.
    #[inline]
    pub(crate) fn home(&self) -> Option<&dyn Home> {
        self.keeper.home.as_deref()
    }

    /// Members that don't answer are given up from now on.
    pub(crate) fn watch(&self) {
        drop(self.io.spawn(watch(self.me.clone(), self.io.clone(), self.patience)));
    }

    /// Begins a request as [`Core::begin`] does if it need not wait; else `None`.
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

    /// Claims a range: returns once nothing is under way that may change it, here and in channels.
    pub(crate) async fn claim(&self, range: Range<u64>) -> (Quiet<'_>, Claim<'_>) {
        let quiet = self.keeper.channels.quiet().await;
        (quiet, self.claims.claim(range).await)
    }

    /// Members are about to get what they should hold already: returns once they may be changed.
    pub(crate) fn maintenance(
        &self,
        change: Change,
    ) -> impl Future<Output = Result<Maintenance<'_>, VolumeError>> {
        Maintenance::begin(&self.intent, &self.keeper, change)
    }

    /// Refuses to go on with a read that has waited for others to its place: since the array has another shape by now, changes
    /// of that place do not wait for it. The read begins anew.
    #[inline]
    pub(crate) fn refuse_if_superseded(&self) -> Result<(), VolumeError> {
        if self.superseded.get() { Err(VolumeError::Stopping) } else { Ok(()) }
    }

    /// Refuses a request that no member could carry out.
    #[inline]
    pub(crate) fn check(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.request_begins()?;
        self.limits.check(offset, len)
    }

    /// Checks a request for the memory in `list` from `offset` on; gives its length in bytes.
    #[inline]
    pub(crate) fn check_list(&self, offset: u64, list: &[Slice]) -> Result<u64, VolumeError> {
        self.request_begins()?;
        self.limits.check_list(offset, list)
    }

    /// Checks the range and alignment of a change.
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

impl Owner for Core {
    fn set(&self) -> &MemberSet {
        &self.set
    }

    fn can_lose(&self, roles: &[u16]) -> bool {
        self.keeper.can_lose(roles)
    }

    fn begin_failing(&self, role: u16, why: Cause) -> Result<Recording, VolumeError> {
        Ok(Box::pin(self.keeper.begin_failing(role, why)?))
    }

    fn unrecorded(&self) -> Option<Recording> {
        self.keeper.is_record_pending().then(|| Box::pin(self.keeper.failures_recorded()) as Recording)
    }

    fn second_failed(&self, role: u16, why: Cause) {
        self.keeper.second_failed(role, why);
    }

    fn notice(&self, role: u16, what: Noticed, why: Option<Cause>) {
        self.keeper.note_member(role, what.into(), why, None);
    }

    fn note_no_space(&self, range: Range<u64>, members: &[(u16, Cause)]) {
        if self.keeper.note_no_space(range, members) {
            self.on_no_space.get().into_iter().for_each(|begin| begin());
        }
    }

    fn full(&self, role: u16, why: Cause) {
        self.keeper.report_full(role, why);
    }

    fn sent(&self, changes: &[MemberChange]) {
        self.intent.sent(changes);
    }

    fn is_stopping(&self) -> bool {
        self.keeper.is_stopping()
    }

    fn answers_for_members(&self) -> bool {
        self.dependence().redundant && self.keeper.synced_to() == u64::MAX
    }

    fn gave_up_reads(&self, role: u16, age: Duration) {
        self.when_given_up.get().into_iter().for_each(|tell| tell(role, age));
    }

    fn gave_up_elsewhere(&self, role: u16) {
        let device = self.set.members.device(role);
        device.into_iter().for_each(|device| self.keeper.channels.give_up(device.id));
    }

    fn looked(&self) {
        self.copies.get().into_iter().for_each(Copies::renew_if_pinned);
        self.keeper.channels.look(true);
    }
}
