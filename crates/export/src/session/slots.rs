//! Slots: the tasks that carry out the requests of a client. They are made when needed, kept, and allocate nothing per request.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::sync::{Notify, race};
use brindle_io::{Duration, Task};

use super::account::Account;

/// Carries out the requests of one client.
#[allow(async_fn_in_trait, reason = "futures stay on their executor's thread, none needs to be Send")]
pub trait Worker: 'static {
    /// An admitted request.
    type Assigned: 'static;
    /// How a request has ended.
    type Carried;
    /// Memory that a slot keeps from one request to the next.
    type Scratch: Default + 'static;

    /// The client's account.
    fn account(&self) -> &Account;

    /// The client's slots.
    fn slots(&self) -> &Slots<Self::Assigned>;

    /// Carries out a request. It is lent: a future that owned it would be copied on its way, and has kilobytes.
    async fn carry_out(&self, job: &mut Self::Assigned, scratch: &mut Self::Scratch) -> Self::Carried;

    /// Hands the reply of a request on, with its ticket.
    fn reply(&self, job: Self::Assigned, carried: Self::Carried);
}

/// The slots of a client.
pub struct Slots<J> {
    idle: RefCell<Vec<Rc<Slot<J>>>>,
    tasks: RefCell<Vec<Task<()>>>,
    /// No request will come any more, and none is left.
    finished: Cell<bool>,
}

/// Where a slot's task finds its next job.
struct Slot<J> {
    job: Cell<Option<J>>,
    wake: Notify,
}

impl<J> Default for Slots<J> {
    fn default() -> Self {
        Self { idle: RefCell::default(), tasks: RefCell::default(), finished: Cell::new(false) }
    }
}

/// Gives a job to an idle slot, or to a new one: there are never more than requests were under way at a time.
pub fn dispatch<W: Worker>(work: &Rc<W>, job: W::Assigned) {
    let slots = work.slots();
    let idle = slots.idle.borrow_mut().pop();
    if let Some(slot) = idle {
        slot.job.set(Some(job));
        slot.wake.notify();
        return;
    }
    let io = &work.account().io;
    let slot = Rc::new(Slot { job: Cell::new(Some(job)), wake: Notify::new(io) });
    let task = io.spawn(run(Rc::clone(work), slot));
    slots.tasks.borrow_mut().push(task);
}

async fn run<W: Worker>(work: Rc<W>, slot: Rc<Slot<W::Assigned>>) {
    let mut scratch = W::Scratch::default();
    loop {
        let look = || match slot.job.take() {
            Some(job) => Some(Some(job)),
            None => work.slots().finished.get().then_some(None),
        };
        let Some(mut job) = slot.wake.until(look).await else { return };
        let carried = work.carry_out(&mut job, &mut scratch).await;
        // Idle first: the ticket that goes with the reply stands for this slot, too.
        work.slots().idle.borrow_mut().push(Rc::clone(&slot));
        work.reply(job, carried);
        work.account().carried_out();
    }
}

impl<J> Slots<J> {
    /// Whether nothing is being carried out.
    fn are_idle(&self) -> bool {
        self.idle.borrow().len() == self.tasks.borrow().len()
    }

    /// The orderly end of a client of which no further request is taken: waits until it has been `answered`, or its wire is closed. The client
    /// is waited for here; one that does not take its replies is a matter for the patrol. A server that stops waits for it no longer than
    /// `grace` once all has been carried out.
    pub async fn answer_the_last(
        &self,
        account: &Account,
        answered: impl Future<Output = ()>,
        grace: Duration,
    ) {
        let patience = account.out_of_patience(|| self.are_idle(), grace);
        race(answered, race(account.is_gone(), patience)).await;
    }

    /// Ends the slots once each has carried out its job. No further job may be given to them.
    pub async fn end(&self) {
        self.finished.set(true);
        for slot in self.idle.borrow().iter() {
            slot.wake.notify();
        }
        for task in self.tasks.take() {
            task.await;
        }
        self.idle.borrow_mut().clear();
    }
}
