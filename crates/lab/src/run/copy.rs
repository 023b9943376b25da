//! One copy of a job: its slots, pass by pass.

use core::cell::Cell;
use core::future::Future;
use core::task::Poll;
use std::rc::Rc;

use brindle_io::{Buf, Instant, Io, Pool, Slice};
use brindle_volume::{Volume, VolumeError};

use super::outcome::{Trouble, WhyNot};
use super::work::{Mode, TargetRequest, Work};
use crate::job::Direction;
use crate::load::{BlockContent, Request};

/// The parts that all slots of a copy share.
pub(super) struct Bench<V> {
    pub(super) io: Io,
    pub(super) targets: Rc<[V]>,
    pub(super) pool: Pool,
    pub(super) work: Work,
    /// Written bytes are not kept.
    pub(super) hollow: bool,
}

/// Runs all passes of a copy to their end.
pub(super) async fn carry_out<V: Volume + 'static>(bench: &Rc<Bench<V>>) {
    let work = &bench.work;
    loop {
        work.begin(Mode::Job);
        pass(bench).await;
        if work.verifies() && work.sums.borrow().trouble.is_none() {
            work.begin(Mode::Verify);
            pass(bench).await;
        }
        if !work.next_pass(bench.io.now()) {
            break;
        }
    }
    if work.job.end_fsync {
        flush_all(bench).await;
    }
}

/// Runs all slots of a pass to its end.
async fn pass<V: Volume + 'static>(bench: &Rc<Bench<V>>) {
    let slots: Vec<_> = (0..bench.work.job.depth())
        .map(|_| {
            let bench = Rc::clone(bench);
            bench.io.clone().spawn(async move { slot(&bench).await })
        })
        .collect();
    for slot in slots {
        slot.await;
    }
}

/// The memory of one slot's requests.
struct Memory {
    buf: Buf,
    /// Bytes from the beginning that hold what every write of the job has there. fio, too, fills such memory once.
    filled: Cell<usize>,
}

impl Memory {
    async fn of<V>(bench: &Bench<V>) -> Self {
        let len = bench.work.job.largest() as usize;
        Self { buf: bench.pool.alloc(len).await, filled: Cell::default() }
    }

    /// The memory of a request, with the content that it writes.
    fn of_request<V>(&self, bench: &Bench<V>, content: &BlockContent, request: &Request) -> Slice {
        let len = request.len as usize;
        let slice = self.buf.slice(0..len);
        match request.direction {
            Direction::Read => self.filled.set(0),
            Direction::Write if !bench.hollow && self.filled.get() < len => {
                content.fill(request.offset, &mut slice.bytes_mut());
                self.filled.set(if content.is_everywhere_the_same() { len } else { 0 });
            }
            _ => {}
        }
        slice
    }
}

async fn slot<V: Volume>(bench: &Bench<V>) {
    let work = &bench.work;
    let mut memory = Memory::of(bench).await;
    while let Some(asked) = work.next(bench.io.now()) {
        if let Some(target) = work.flush_before(&asked)
            && let Err(error) = flush(bench, target).await
        {
            return work.fail(Trouble { request: asked.request, why: WhyNot::Volume(error) });
        }
        let due = work.pace.due(&asked.request, bench.io.now());
        if due > bench.io.now() {
            bench.io.sleep_until(work.until_over(due)).await;
            if work.is_cut_short(bench.io.now()) {
                work.leave(&asked);
                return;
            }
        }
        loop {
            match carry(bench, asked, &work.content(), &memory).await {
                // The memory that is short is held by tasks that give it back in time; none of them waits for more while
                // it holds some. So this slot gives its own memory back first, and asks once more.
                Err(WhyNot::Volume(VolumeError::Again)) => {
                    drop(memory);
                    memory = Memory::of(bench).await;
                }
                Err(why) => return work.fail(Trouble { request: asked.request, why }),
                Ok(()) => break,
            }
        }
    }
}

/// Carries out one request, and counts it.
async fn carry<V: Volume>(
    bench: &Bench<V>,
    asked: TargetRequest,
    content: &BlockContent,
    memory: &Memory,
) -> Result<(), WhyNot> {
    let (work, request) = (&bench.work, asked.request);
    let volume = &bench.targets[asked.target];
    let slice = memory.of_request(bench, content, &request);
    work.sent(&asked);
    let begun = bench.io.now();
    let (done, sent) = match request.direction {
        Direction::Read => timed(&bench.io, volume.read(request.offset, core::slice::from_ref(&slice))).await,
        Direction::Write => {
            timed(&bench.io, volume.write(request.offset, core::slice::from_ref(&slice), work.job.sync)).await
        }
        Direction::Trim => timed(&bench.io, volume.discard(request.offset, request.len)).await,
    };
    work.back(&asked);
    done.map_err(WhyNot::Volume)?;
    work.record(&request, [begun, sent, bench.io.now()]);
    match request.direction {
        Direction::Read => check(work, &request, content, &slice.bytes()),
        _ => Ok(()),
    }
}

fn check(work: &Work, request: &Request, content: &BlockContent, bytes: &[u8]) -> Result<(), WhyNot> {
    match work.check() {
        Some(own) => content.check(request.offset, bytes, own).map_err(WhyNot::Verify),
        None => Ok(()),
    }
}

/// The future's result, and the moment at which it had been handed over: when it first let others run.
pub(super) async fn timed<T>(io: &Io, future: impl Future<Output = T>) -> (T, Instant) {
    let mut future = core::pin::pin!(future);
    let mut sent = None;
    core::future::poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        let sent = *sent.get_or_insert_with(|| io.now());
        match polled {
            Poll::Ready(value) => Poll::Ready((value, sent)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn flush<V: Volume>(bench: &Bench<V>, target: usize) -> Result<(), VolumeError> {
    let begun = bench.io.now();
    bench.targets[target].flush().await?;
    bench.work.flushed(begun, bench.io.now());
    Ok(())
}

async fn flush_all<V: Volume>(bench: &Bench<V>) {
    for target in 0..bench.targets.len() {
        // As in fio, this flush does not count as an fsync.
        if let Err(error) = bench.targets[target].flush().await {
            let request = Request { direction: Direction::Write, offset: 0, len: 0 };
            bench.work.fail(Trouble { request, why: WhyNot::Volume(error) });
        }
    }
}
