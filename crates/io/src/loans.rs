//! Questions of other executors, with the memory that they lend: an operation in the op table of who asks, a [`crate::Loan`] where it
//! is answered.
//!
//! The answer tells whether somebody here still has some of the memory: a device that was given up, for instance. If so, who asked has
//! its answer, and its op table keeps the memory until it is told that it is free.

use core::cell::RefCell;
use core::ptr::{NonNull, with_exposed_provenance};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::arena::Arenas;
use crate::buf::{Buf, Slice};
use crate::class::OpClass;
use crate::crew::Crew;
use crate::lane::Parcel;
use crate::op::{OpError, OpKey, Segment};
use crate::store::{LentNote, Store};
use crate::task::{Scheduler, TaskId};

/// The words of a question: whoever asks and whoever answers know what they mean.
pub type Question = [u64; 4];

/// The meaning of a parcel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Question,
    /// The answer, and the memory is free.
    Answer,
    /// The answer; the memory is not free yet.
    AnswerAhead,
    /// The memory of a question that was answered ahead is free.
    Free,
}

/// An answer of another executor, for the op table.
pub(crate) enum Reply {
    /// The operation is over.
    Over(OpKey, Result<u64, OpError>),
    /// The operation has its result, and keeps its memory until it is over.
    Ahead(OpKey, Result<u64, OpError>),
}

/// Words of the parcel of a question.
pub(crate) fn question(
    key: OpKey,
    class: OpClass,
    question: Question,
    segments: &[Segment],
    shared: u64,
) -> Parcel {
    let [a, b, c, d] = question;
    let head = Sort::Question as u64 | (class as u64) << 8 | u64::from(key.0) << 32;
    [head, a, b, c, d, segments.as_ptr().expose_provenance() as u64, segments.len() as u64, shared]
}

/// The reply that a parcel is; `None` for a question.
pub(crate) fn reply(parcel: &Parcel) -> Option<Reply> {
    let (key, value) = (OpKey((parcel[0] >> 32) as u32), parcel[1]);
    let result = if parcel[2] == 0 { Ok(value) } else { Err(OpError::Cancelled) };
    match parcel[0] & 0xff {
        sort if sort == Sort::Answer as u64 => Some(Reply::Over(key, result)),
        sort if sort == Sort::AnswerAhead as u64 => Some(Reply::Ahead(key, result)),
        sort if sort == Sort::Free as u64 => Some(Reply::Over(key, Ok(0))),
        _ => None,
    }
}

/// A question that is being answered, or whose memory somebody still has.
#[derive(Clone, Copy)]
struct LoanState {
    from: usize,
    key: u32,
    /// Stretches of memory that somebody here has.
    held: u32,
    answered: bool,
}

/// The parts of the executor that has lent memory.
pub(crate) struct Here<'a> {
    pub(crate) scheduler: &'a Rc<Scheduler>,
    pub(crate) arenas: &'a Rc<Arenas>,
}

/// A question that is being answered.
pub(crate) struct Taken {
    pub(crate) number: u32,
    pub(crate) question: Question,
    pub(crate) class: OpClass,
    pub(crate) memory: Vec<Slice>,
}

/// The questions of others at an executor.
pub(crate) struct Loans {
    waiting: RefCell<VecDeque<(usize, Parcel)>>,
    idle: RefCell<Vec<TaskId>>,
    states: RefCell<Vec<LoanState>>,
    free: RefCell<Vec<u32>>,
    /// Stores of lent memory, each with the number of its loan, and the numbers of those that are free.
    stores: RefCell<Vec<(Rc<Store>, u32)>>,
    free_stores: RefCell<Vec<u32>>,
    /// Stores of which nobody has any memory any more.
    returned: Rc<RefCell<Vec<u32>>>,
    /// Lists of slices that are not in use.
    lists: RefCell<Vec<Vec<Slice>>>,
}

impl Loans {
    pub(crate) fn new() -> Self {
        Self {
            waiting: RefCell::default(),
            idle: RefCell::default(),
            states: RefCell::default(),
            free: RefCell::default(),
            stores: RefCell::default(),
            free_stores: RefCell::default(),
            returned: Rc::default(),
            lists: RefCell::default(),
        }
    }

    /// A question has come.
    pub(crate) fn add(&self, from: usize, parcel: &Parcel, scheduler: &Scheduler) {
        self.waiting.borrow_mut().push_back((from, *parcel));
        if let Some(task) = self.idle.borrow_mut().pop() {
            scheduler.wake(task);
        }
    }

    /// Answers to questions that no task has taken that they are not.
    pub(crate) fn refuse(&self, crew: &Crew) {
        for (from, parcel) in self.waiting.borrow_mut().drain(..) {
            crew.send(from, &[Sort::Answer as u64 | parcel[0] >> 32 << 32, 0, 1, 0, 0, 0, 0, 0]);
        }
    }

    /// Tells who lent it that memory is free.
    pub(crate) fn settle(&self, crew: &Crew) {
        if self.returned.borrow().is_empty() {
            return;
        }
        let mut returned = self.returned.borrow_mut();
        let (mut states, mut free_stores) = (self.states.borrow_mut(), self.free_stores.borrow_mut());
        for store in returned.drain(..) {
            free_stores.push(store);
            let loan = self.stores.borrow()[store as usize].1;
            let state = &mut states[loan as usize];
            state.held -= 1;
            if state.held == 0 && state.answered {
                crew.send(state.from, &[Sort::Free as u64 | u64::from(state.key) << 32, 0, 0, 0, 0, 0, 0, 0]);
                self.free.borrow_mut().push(loan);
            }
        }
    }

    fn begin(&self, from: usize, key: u32) -> u32 {
        let state = LoanState { from, key, held: 0, answered: false };
        let mut states = self.states.borrow_mut();
        if let Some(at) = self.free.borrow_mut().pop() {
            states[at as usize] = state;
            return at;
        }
        states.push(state);
        (states.len() - 1) as u32
    }

    /// Begins to answer a question.
    pub(crate) fn take(&self, from: usize, parcel: &Parcel, here: &Here<'_>) -> Taken {
        let &[head, a, b, c, d, segments, count, shared] = parcel;
        let number = self.begin(from, (head >> 32) as u32);
        let mut memory = self.lists.borrow_mut().pop().unwrap_or_default();
        let first = with_exposed_provenance::<Segment>(segments as usize);
        for at in 0..count as usize {
            // SAFETY: the op table of who asks has a list of so many there, and leaves it in place and as it is until it gets the
            // answer, which is sent when the loan is answered. The lane's words came after the list was written.
            let segment = unsafe { first.add(at).read() };
            memory.extend(self.lend(number, segment, shared >> at.min(63) & 1 == 1, here));
        }
        Taken { number, question: [a, b, c, d], class: OpClass::of_number(head >> 8 & 0xff), memory }
    }

    /// Answers a question; `None`: that it is cancelled.
    pub(crate) fn answer(&self, number: u32, mut memory: Vec<Slice>, value: Option<u64>, crew: &Crew) {
        memory.clear();
        self.lists.borrow_mut().push(memory);
        self.settle(crew);
        let state = &mut self.states.borrow_mut()[number as usize];
        state.answered = true;
        let sort = if state.held == 0 { Sort::Answer } else { Sort::AnswerAhead };
        let head = sort as u64 | u64::from(state.key) << 32;
        crew.send(state.from, &[head, value.unwrap_or(0), u64::from(value.is_none()), 0, 0, 0, 0, 0]);
        if state.held == 0 {
            self.free.borrow_mut().push(number);
        }
    }

    /// The next question that no task has taken; if there is none, the task is woken for one.
    pub(crate) fn next(&self, task: TaskId) -> Option<(usize, Parcel)> {
        let next = self.waiting.borrow_mut().pop_front();
        let idle = &mut *self.idle.borrow_mut();
        match (next.is_some(), idle.iter().rposition(|&other| other == task)) {
            // One that is busy must not be woken for the next question in the place of one that is idle.
            (true, Some(at)) => drop(idle.swap_remove(at)),
            (false, None) => idle.push(task),
            _ => {}
        }
        next
    }

    /// A stretch of memory that is lent.
    fn lend(&self, loan: u32, segment: Segment, shared: bool, here: &Here<'_>) -> Option<Slice> {
        let Segment { base, len } = segment;
        let at = self.free_stores.borrow_mut().pop();
        let at = at.unwrap_or_else(|| self.add_store(here));
        let (store, of) = &mut self.stores.borrow_mut()[at as usize];
        *of = loan;
        // A free store has no other handle.
        Rc::get_mut(store)?.lend_out(NonNull::new(base)?, len, shared);
        self.states.borrow_mut()[loan as usize].held += 1;
        Some(Slice::from_parts(Buf::of_lent(store, shared), 0, len))
    }

    #[cold]
    fn add_store(&self, here: &Here<'_>) -> u32 {
        let mut stores = self.stores.borrow_mut();
        let note = LentNote { number: stores.len() as u32, returned: Rc::clone(&self.returned) };
        stores.push((Rc::new(Store::of_lent(note, Rc::clone(here.scheduler), Rc::clone(here.arenas))), 0));
        (stores.len() - 1) as u32
    }
}
