//! The state of a channel, and how home changes it.

use core::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use brindle_io::sync::Notify;
use brindle_io::{Io, Loan, MemberId, OpSpan};

use super::open::OpenChannel;
use super::settlements::Settlements;
use super::telling::Telling;
use crate::channels::shared::{Seed, Tell};
use crate::home::Home;

/// An array as a reactor beside its home has it.
pub(crate) struct Channel {
    /// For tasks that must not keep it alive.
    pub(super) me: Weak<Self>,
    /// With operations of its own.
    pub(super) io: Io,
    pub(super) seed: Seed,
    /// The copy of the members' states; `None`: home does everything. It changes between two polls of other tasks, when home asks to look.
    pub(super) open: RefCell<Option<Rc<OpenChannel>>>,
    /// The last that was open: writes may be under way there after it was closed.
    pub(super) last: RefCell<Weak<OpenChannel>>,
    /// How often it was open.
    opened: Cell<usize>,
    /// A member kept a read waiting for too long, and has not answered since: home judges it, and reads all meanwhile.
    pub(super) in_doubt: Cell<bool>,
    /// Writes under way, and devices on which given up ones may still land.
    pub(super) writing: Cell<u32>,
    pub(super) orphaned: Cell<u32>,
    /// Somebody waits until no write is under way any more.
    pub(super) is_awaited: Cell<bool>,
    pub(super) written: Notify,
    pub(super) telling: Telling,
    pub(super) settlements: Settlements,
    /// A task looks how long requests take.
    pub(super) is_patrolled: Cell<bool>,
    /// The run at home ends.
    is_over: Cell<bool>,
    /// Requests of all channels of this reactor.
    all: Arc<AtomicU64>,
    /// Channels of this reactor that have ended while home did not listen.
    gone: Gone,
    to_home: ToHome,
}

/// Makes home as the core of an open channel asks it.
type ToHome = fn(Weak<Channel>, Weak<OpenChannel>) -> Rc<dyn Home>;

/// Numbers of arrays whose channels have ended, of which home does not know so yet.
pub(super) type Gone = Rc<RefCell<BTreeSet<u64>>>;

impl Channel {
    pub(super) fn new(io: &Io, seed: Seed, all: Arc<AtomicU64>, gone: Gone, to_home: ToHome) -> Rc<Self> {
        let io = io.owned();
        let channel = Rc::new_cyclic(|me| Self {
            me: me.clone(),
            seed,
            open: RefCell::default(),
            last: RefCell::default(),
            opened: Cell::default(),
            in_doubt: Cell::default(),
            writing: Cell::default(),
            orphaned: Cell::default(),
            is_awaited: Cell::default(),
            written: Notify::new(&io),
            telling: Telling::new(&io),
            settlements: Settlements::new(&io),
            is_patrolled: Cell::default(),
            is_over: Cell::default(),
            all,
            gone,
            to_home,
            io,
        });
        channel.look();
        channel
    }

    /// Acts by the newest plan from now on. No read of an older one is answered after this, and no write of an older one begins.
    pub(super) fn look(&self) {
        let plan = self.seed.shared.get();
        let present = self.open.borrow().as_ref().map(|open| Arc::as_ptr(&open.plan));
        if present.is_some() && present == plan.as_ref().map(Arc::as_ptr) {
            return;
        }
        self.close();
        let number = self.opened.replace(self.opened.get() + 1);
        let home = |open| (self.to_home)(self.me.clone(), open);
        let open = plan.and_then(|plan| OpenChannel::new(&self.io, plan, number, home));
        if let Some(open) = &open {
            *self.last.borrow_mut() = Rc::downgrade(open);
        }
        *self.open.borrow_mut() = open;
    }

    /// Hands all requests to home, reads that are under way too. Writes that are under way go on.
    fn close(&self) {
        let Some(open) = self.open.take() else { return };
        self.publish(&open);
        for port in &open.ports {
            self.io.give_up(port.id, OpSpan::Read, self.io.ran());
        }
        self.is_awaited.set(self.writing.get() > 0);
        if !self.is_awaited.get() {
            open.close();
        }
    }

    /// The run at home ends: it hears no more once nothing that was written may still land.
    pub(super) fn is_over(&self) {
        self.is_over.set(true);
        self.is_awaited.set(self.writing.get() > 0);
        self.tell_if_settled();
    }

    pub(super) fn tell_if_settled(&self) {
        if self.is_over.get() && self.writing.get() == 0 && self.orphaned.get() == 0 {
            self.telling.tell(Tell::Gone);
        }
    }

    /// Devices that have not answered so many operations which were given up.
    pub(super) fn unanswered(&self) -> Vec<(MemberId, usize)> {
        let open = self.last.borrow().upgrade();
        let ports = open.iter().flat_map(|open| &open.ports);
        let left = ports.map(|port| (port.device, self.io.orphans(port.id)));
        left.filter(|(_, left)| *left > 0).collect()
    }

    /// Home listens.
    pub(super) fn listen(&self, loan: Loan) {
        self.telling.asked(loan);
    }

    /// Counts a request that was carried out.
    #[inline]
    pub(super) fn count(&self) {
        self.seed.counts.count();
        self.all.store(self.all.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The open channel, if requests may be carried out here.
    #[inline]
    pub(super) fn now(&self) -> Option<Rc<OpenChannel>> {
        self.open.borrow().as_ref().filter(|_| !self.in_doubt.get()).map(Rc::clone)
    }

    /// Whether home has not closed since what was then open.
    #[inline]
    pub(super) fn is_still(&self, open: &Rc<OpenChannel>) -> bool {
        self.open.borrow().as_ref().is_some_and(|now| Rc::ptr_eq(now, open))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
        match self.telling.take_loan() {
            Some(loan) => loan.answer(Tell::Gone.word()),
            None => drop(self.gone.borrow_mut().insert(self.seed.shared.number)),
        }
    }
}
