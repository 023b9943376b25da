//! The state that the slots of a copy share: the next request, and the counters.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::rc::Rc;

use brindle_io::Instant;

use super::outcome::{Live, Trouble, tallies};
use super::pace::{OwnTime, Pace};
use super::written::Written;
use crate::job::{Direction, Each, Job, Kinds};
use crate::load::{BlockContent, Load, Range, Request};
use crate::measure::{Latency, Tally, Timing};

/// The purpose of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The job's own requests.
    Job,
    /// Reads that verify the blocks that the job wrote.
    Verify,
}

/// A request of a target, by its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetRequest {
    pub(super) target: usize,
    pub(super) request: Request,
}

/// Where, from which seed.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// Indexed by target.
    pub(super) ranges: Vec<Range>,
    /// The seed for the places of requests.
    pub(super) seed: u64,
    /// The seed for written content. All clones of a job share it, since they may write to the same place.
    pub(super) content: u64,
}

/// One copy of a job as it runs.
pub(super) struct Work {
    pub(super) job: Job,
    places: Places,
    pub(super) pace: Pace,
    /// Requests that complete from this time on are counted.
    counts: Instant,
    until: Option<Instant>,
    /// Requests that complete after that are not counted.
    sharp_end: bool,
    loads: RefCell<Vec<Load>>,
    pub(super) mode: Cell<Mode>,
    pass: Cell<u64>,
    content: RefCell<Rc<BlockContent>>,
    turn: Cell<usize>,
    asked: Cell<u64>,
    /// Indexed by target: requests of this pass, those of them that are not verified yet.
    drawn: RefCell<Vec<u64>>,
    /// Targets and places of requests of this pass that were never sent.
    unsent: RefCell<Vec<(usize, u64)>>,
    /// Writes of this pass, where later ones may lie over earlier ones.
    written: RefCell<Written>,
    in_flight: Cell<u32>,
    writes: Cell<u64>,
    /// The target to flush before the next request.
    flush_due: Cell<Option<usize>>,
    stop: Rc<Cell<bool>>,
    pub(super) live: Rc<Live>,
    pub(super) sums: RefCell<Sums>,
}

/// The counters.
pub(super) struct Sums {
    pub(super) tallies: Each<Tally>,
    pub(super) flushes: Latency,
    pub(super) depths: [u64; 7],
    pub(super) trouble: Option<Trouble>,
}

impl Work {
    pub(super) fn new(
        job: &Job,
        (own, sharp_end): (OwnTime, bool),
        places: Places,
        now: Instant,
        stop: Rc<Cell<bool>>,
        live: Rc<Live>,
    ) -> Self {
        let counts = now.after(job.ramp_time);
        let sums = Sums { tallies: tallies(job), flushes: Latency::default(), depths: [0; 7], trouble: None };
        Self {
            job: job.clone(),
            places,
            pace: Pace::new(job, own, now),
            counts,
            until: job.runtime.map(|runtime| counts.after(runtime)),
            sharp_end,
            loads: RefCell::default(),
            mode: Cell::new(Mode::Job),
            pass: Cell::new(0),
            content: RefCell::new(Rc::new(BlockContent::new(job, 0, 0))),
            turn: Cell::new(0),
            asked: Cell::new(0),
            drawn: RefCell::default(),
            unsent: RefCell::default(),
            written: RefCell::default(),
            in_flight: Cell::new(0),
            writes: Cell::new(0),
            flush_due: Cell::new(None),
            stop,
            live,
            sums: RefCell::new(sums),
        }
    }

    /// Begins a pass, or reads what it wrote.
    pub(super) fn begin(&self, mode: Mode) {
        self.mode.set(mode);
        let load = |range: &Range| Load::new(&self.job, *range, self.places.seed, self.pass.get()).ok();
        // The ranges have been looked at before anything began.
        *self.loads.borrow_mut() = self.places.ranges.iter().filter_map(load).collect();
        if mode == Mode::Job {
            *self.drawn.borrow_mut() = vec![0; self.places.ranges.len()];
            self.unsent.borrow_mut().clear();
            *self.written.borrow_mut() = Written::default();
        }
        let content = BlockContent::new(&self.job, self.places.content, self.pass.get());
        *self.content.borrow_mut() = Rc::new(content);
    }

    /// The content that is written in this pass.
    pub(super) fn content(&self) -> Rc<BlockContent> {
        Rc::clone(&self.content.borrow())
    }

    /// Whether passes follow one another with nothing between them.
    fn flows(&self) -> bool {
        self.mode.get() == Mode::Job && !self.verifies()
    }

    /// Whether what a pass writes is read once it is written.
    pub(super) fn verifies(&self) -> bool {
        self.job.verify.is_some() && self.job.do_verify && self.job.access.has(Direction::Write)
    }

    /// Goes on to the next pass, if there is one.
    pub(super) fn next_pass(&self, now: Instant) -> bool {
        let next = self.pass.get() + 1;
        if self.is_over(now) || !(self.job.time_based || next < self.job.loops) {
            return false;
        }
        self.pass.set(next);
        true
    }

    /// All has been asked that is to be, or the job is [cut short](Self::is_cut_short).
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_enough = self.job.number_ios.is_some_and(|n| self.asked.get() >= n);
        (self.mode.get() == Mode::Job && is_enough) || self.is_cut_short(now)
    }

    /// The job's time is over, or something has ended it: what has been asked is not sent any more.
    pub(super) fn is_cut_short(&self, now: Instant) -> bool {
        self.stop.get()
            || self.live.is_stopping()
            || self.until.is_some_and(|until| now >= until)
            || self.sums.borrow().trouble.is_some()
    }

    /// A moment, or the end of the job's time if that comes first.
    pub(super) fn until_over(&self, due: Instant) -> Instant {
        self.until.map_or(due, |until| due.min(until))
    }

    /// The next request.
    pub(super) fn next(&self, now: Instant) -> Option<TargetRequest> {
        if self.is_over(now) {
            return None;
        }
        let asked = match self.draw() {
            None if self.flows() && self.next_pass(now) => {
                self.begin(Mode::Job);
                self.draw()
            }
            asked => asked,
        }?;
        // As fio counts: a trim and the write after it are one.
        let is_half =
            self.job.access.kinds == Kinds::TrimThenWrite && asked.request.direction == Direction::Trim;
        if self.mode.get() == Mode::Job && !is_half {
            self.asked.set(self.asked.get() + 1);
        }
        Some(asked)
    }

    /// The next request of the next target that has one.
    fn draw(&self) -> Option<TargetRequest> {
        let mut loads = self.loads.borrow_mut();
        let count = loads.len();
        for _ in 0..count {
            let target = self.turn.get() % count;
            self.turn.set(target + 1);
            if let Some(request) = self.of(target, &mut loads[target]) {
                return Some(TargetRequest { target, request });
            }
        }
        None
    }

    /// The same requests in the same order; what is read in the end is what was written: a pass may have ended early.
    fn of(&self, target: usize, load: &mut Load) -> Option<Request> {
        let drawn = &mut self.drawn.borrow_mut()[target];
        if self.mode.get() == Mode::Job {
            let request = load.next_request()?;
            *drawn += 1;
            return Some(request);
        }
        if self.job.overwrites() {
            let (offset, len) = self.written.borrow_mut().next(target)?;
            return Some(Request { direction: Direction::Read, offset, len });
        }
        loop {
            *drawn = drawn.checked_sub(1)?;
            let request = load.next_request()?;
            let unsent = self.unsent.borrow().contains(&(target, request.offset));
            if request.direction == Direction::Write && !unsent {
                return Some(Request { direction: Direction::Read, ..request });
            }
        }
    }

    /// Whether a read is verified, and whether this pass must have written what it finds.
    pub(super) fn check(&self) -> Option<bool> {
        let reads = self.job.access.kinds == Kinds::One(Direction::Read);
        match self.mode.get() {
            Mode::Verify => Some(true),
            Mode::Job => (reads && self.job.verify.is_some()).then_some(false),
        }
    }

    /// A request was asked for and is not sent: the job is over.
    pub(super) fn leave(&self, asked: &TargetRequest) {
        self.unsent.borrow_mut().push((asked.target, asked.request.offset));
    }

    /// A request is sent.
    pub(super) fn sent(&self, asked: &TargetRequest) {
        if self.keeps(asked) {
            let in_blocks = self.job.verify.is_some_and(|kind| kind.sum_len() > 0);
            let interval = self.job.verify_interval();
            self.written.borrow_mut().sent(asked.target, asked.request, interval, in_blocks);
        }
        let depth = self.in_flight.get() + 1;
        self.in_flight.set(depth);
        self.sums.borrow_mut().depths[(depth.ilog2() as usize).min(6)] += 1;
    }

    /// Whether the writes of this pass are remembered until they are verified, and this is one.
    fn keeps(&self, asked: &TargetRequest) -> bool {
        asked.request.direction == Direction::Write && self.job.overwrites() && self.verifies()
    }

    /// Counts a request as completed, with success or not.
    pub(super) fn back(&self, asked: &TargetRequest) {
        if self.keeps(asked) {
            self.written.borrow_mut().done(asked.target, asked.request);
        }
        self.in_flight.set(self.in_flight.get() - 1);
    }

    /// Records a successful request: when it began, was submitted, and ended.
    pub(super) fn record(&self, request: &Request, [begun, sent, ended]: [Instant; 3]) {
        self.live.count(request.direction, request.len);
        self.pace.completed(ended);
        if ended < self.counts || (self.sharp_end && self.until.is_some_and(|until| ended > until)) {
            return;
        }
        let timing = Timing {
            at: ended.since(self.counts),
            submission: nanos(sent.since(begun)),
            completion: nanos(ended.since(sent)),
        };
        self.sums.borrow_mut().tallies[request.direction.index()].record(timing, request.offset, request.len);
    }

    /// A request is about to be sent: the target to flush before it, if `fsync` or `fdatasync` have that. After the last request
    /// none is, as with fio.
    pub(super) fn flush_before(&self, asked: &TargetRequest) -> Option<usize> {
        let every = [self.job.fsync, self.job.fdatasync].into_iter().filter(|every| *every > 0).min();
        let every = every.filter(|_| self.mode.get() == Mode::Job)?;
        let flush_due = self.flush_due.take();
        if asked.request.direction == Direction::Write {
            self.writes.set(self.writes.get() + 1);
            self.flush_due.set(self.writes.get().is_multiple_of(every).then_some(asked.target));
        }
        flush_due
    }

    /// A flush took from one moment to another.
    pub(super) fn flushed(&self, begun: Instant, ended: Instant) {
        if ended >= self.counts {
            self.sums.borrow_mut().flushes.record(nanos(ended.since(begun)));
        }
    }

    /// The first trouble ends the job.
    pub(super) fn fail(&self, trouble: Trouble) {
        self.sums.borrow_mut().trouble.get_or_insert(trouble);
    }
}

fn nanos(span: Duration) -> u64 {
    span.as_nanos().min(u128::from(u64::MAX)) as u64
}
