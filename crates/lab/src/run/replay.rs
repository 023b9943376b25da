//! Replays a trace on a volume, in any world.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::rc::Rc;

use brindle_io::{Buf, Instant, Io};
use brindle_volume::{Volume, VolumeError};

use super::copy::timed;
use super::outcome::{Live, Outcome, RunError, Trouble, WhyNot, tallies};
use super::phases::Terms;
use crate::job::{Direction, Job};
use crate::load::{BlockContent, Request};
use crate::measure::{Latency, Timing};
use crate::trace::{Act, TraceError};

/// Interval at which a task that waits for a request's time checks whether the replay is to end.
const LOOK: Duration = Duration::from_millis(100);

/// The result of a replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// As a job's.
    pub outcome: Outcome,
    /// How much later than due requests were sent: one that waits for room among those in flight is late.
    pub late: Latency,
    /// Requests that began elsewhere, since the target ends before where they were.
    pub moved: u64,
    /// Requests that took whole blocks where the trace has parts.
    pub widened: u64,
    /// The error in the trace that ended it.
    pub broken: Option<TraceError>,
}

/// Replays a trace on one target, each request at its time. The job says the most in flight, and the largest request;
/// where memory is short, fewer are. With `wrap`, what goes beyond the target's end begins again at its beginning.
///
/// # Errors
/// [`RunError`], before anything is read or written.
pub async fn replay<V: Volume + Clone + 'static>(
    io: &Io,
    target: &V,
    mut job: Job,
    terms: Terms,
    wrap: bool,
    entries: impl Iterator<Item = Result<(Duration, Act), TraceError>> + 'static,
    live: &Rc<Live>,
) -> Result<Replayed, RunError> {
    let limits = target.limits();
    if job.access.changes() && limits.read_only {
        return Err(RunError::ReadOnly(job.name));
    }
    // A request that is widened to whole blocks may be two blocks longer.
    let len = (job.largest() + 2 * u64::from(limits.block)).max(4096).next_power_of_two();
    let room = terms.memory / len;
    if room < 2 {
        return Err(RunError::Memory { needed: 2 * len, there: terms.memory });
    }
    job.iodepth = u64::from(job.iodepth).min(room - 1) as u32;
    let begun = io.now();
    let replay = Rc::new(Replay {
        io: io.clone(),
        target: target.clone(),
        wrap,
        hollow: terms.hollow,
        begun,
        content: BlockContent::new(
            &Job { buffer_pattern: job.buffer_pattern.clone(), ..Job::default() },
            terms.chance,
            0,
        ),
        live: Rc::clone(live),
        in_flight: Cell::new(0),
        entries: RefCell::new(Box::new(entries)),
        sums: RefCell::new(Replayed {
            outcome: Outcome {
                tallies: tallies(&job),
                flushes: Latency::default(),
                depths: [0; 7],
                group: 0,
                began: Duration::ZERO,
                elapsed: Duration::ZERO,
                trouble: None,
                job: job.clone(),
            },
            late: Latency::default(),
            moved: 0,
            widened: 0,
            broken: None,
        }),
    });
    live.began();
    let pool = io.pool((len * (u64::from(job.iodepth) + 1)) as usize);
    let slot = |_| {
        let (replay, pool) = (Rc::clone(&replay), pool.clone());
        io.spawn(async move {
            let mut memory = pool.alloc(len as usize).await;
            while let Some((due, act)) = replay.next() {
                if !replay.wait(due).await {
                    return;
                }
                while replay.carry(act, &memory).await == Again::Yes {
                    // As with jobs: memory that is short is given back in time.
                    drop(memory);
                    memory = pool.alloc(len as usize).await;
                }
            }
        })
    };
    let slots: Vec<_> = (0..job.iodepth).map(slot).collect();
    for slot in slots {
        slot.await;
    }
    live.ended();
    let mut replayed = replay.sums.borrow().clone();
    replayed.outcome.elapsed = io.now().since(begun);
    Ok(replayed)
}

/// The requests to be sent, each with its time.
type Due = Box<dyn Iterator<Item = Result<(Duration, Act), TraceError>>>;

/// Whether a request is to be sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    Yes,
    No,
}

struct Replay<V> {
    io: Io,
    target: V,
    wrap: bool,
    hollow: bool,
    begun: Instant,
    content: BlockContent,
    live: Rc<Live>,
    in_flight: Cell<u32>,
    entries: RefCell<Due>,
    sums: RefCell<Replayed>,
}

impl<V: Volume> Replay<V> {
    fn is_over(&self) -> bool {
        let sums = self.sums.borrow();
        self.live.is_stopping() || sums.outcome.trouble.is_some() || sums.broken.is_some()
    }

    fn next(&self) -> Option<(Instant, Act)> {
        if self.is_over() {
            return None;
        }
        match self.entries.borrow_mut().next()? {
            Ok((due, act)) => Some((self.begun.after(due), act)),
            Err(error) => {
                self.sums.borrow_mut().broken = Some(error);
                None
            }
        }
    }

    /// Until a request is due; false if all has ended meanwhile.
    async fn wait(&self, due: Instant) -> bool {
        while self.io.now() < due {
            if self.is_over() {
                return false;
            }
            self.io.sleep_until(due.min(self.io.now().after(LOOK))).await;
        }
        self.sums.borrow_mut().late.record(nanos(self.io.now().since(due)));
        true
    }

    async fn carry(&self, act: Act, memory: &Buf) -> Again {
        let request = match act {
            Act::Flush => return self.flush().await,
            Act::Request(request) => self.fitted(request),
        };
        let depth = self.in_flight.get() + 1;
        self.in_flight.set(depth);
        self.sums.borrow_mut().outcome.depths[(depth.ilog2() as usize).min(6)] += 1;
        let begun = self.io.now();
        let (done, sent) = self.send(request, memory).await;
        self.in_flight.set(self.in_flight.get() - 1);
        match done {
            Err(VolumeError::Again) => return Again::Yes,
            Err(why) => self.fail(request, why),
            Ok(()) => self.record(request, [begun, sent, self.io.now()]),
        }
        Again::No
    }

    async fn send(&self, request: Request, memory: &Buf) -> (Result<(), VolumeError>, Instant) {
        let (io, target) = (&self.io, &self.target);
        if request.direction == Direction::Trim {
            return timed(io, target.discard(request.offset, request.len)).await;
        }
        let slice = memory.slice(0..request.len as usize);
        let slice = core::slice::from_ref(&slice);
        if request.direction == Direction::Read {
            return timed(io, target.read(request.offset, slice)).await;
        }
        if !self.hollow {
            self.content.fill(request.offset, &mut slice[0].bytes_mut());
        }
        timed(io, target.write(request.offset, slice, false)).await
    }

    /// The request in whole blocks, within the target.
    fn fitted(&self, request: Request) -> Request {
        let limits = self.target.limits();
        let block = u64::from(limits.block);
        let begin = request.offset / block * block;
        let end = (request.offset + request.len).next_multiple_of(block);
        let mut fitted = Request { offset: begin, len: end - begin, ..request };
        let mut sums = self.sums.borrow_mut();
        if fitted != request {
            sums.widened += 1;
        }
        if self.wrap && end > limits.size {
            let size = limits.size / block * block;
            fitted.len = fitted.len.min(size);
            fitted.offset = begin % (size - fitted.len + block).max(1);
            sums.moved += 1;
        }
        fitted
    }

    async fn flush(&self) -> Again {
        let begun = self.io.now();
        match self.target.flush().await {
            Ok(()) => self.sums.borrow_mut().outcome.flushes.record(nanos(self.io.now().since(begun))),
            Err(why) => self.fail(Request { direction: Direction::Write, offset: 0, len: 0 }, why),
        }
        Again::No
    }

    fn fail(&self, request: Request, why: VolumeError) {
        let trouble = Trouble { request, why: WhyNot::Volume(why) };
        self.sums.borrow_mut().outcome.trouble.get_or_insert(trouble);
    }

    fn record(&self, request: Request, [begun, sent, ended]: [Instant; 3]) {
        self.live.count(request.direction, request.len);
        let timing = Timing {
            at: ended.since(self.begun),
            submission: nanos(sent.since(begun)),
            completion: nanos(ended.since(sent)),
        };
        let mut sums = self.sums.borrow_mut();
        sums.outcome.tallies[request.direction.index()].record(timing, request.offset, request.len);
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
