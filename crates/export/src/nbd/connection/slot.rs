//! Slots: the tasks that carry out requests. They are made when needed, kept, and allocate nothing per request.

use core::cell::Cell;
use std::rc::Rc;

use brindle_array::{Allocation, Volume, VolumeError, ZeroOptions};
use brindle_io::sync::Event;
use brindle_io::{Buf, OpError};

use super::send::{Answer, Body};
use super::{Session, Ticket};
use crate::nbd::proto::{BASE_ALLOCATION_ID, Errno, Extent, merge_extent};

/// What is to be done, with the memory for it.
pub(super) enum Work {
    Read { offset: u64, into: Buf },
    Write { offset: u64, from: Buf, fua: bool },
    Flush,
    Trim { offset: u64, len: u32, fua: bool },
    Zeroes { offset: u64, len: u32, options: ZeroOptions },
    Status { offset: u64, len: u32, one: bool, into: Buf },
}

pub(super) struct Job {
    pub(super) cookie: u64,
    pub(super) work: Work,
    pub(super) ticket: Ticket,
}

/// Where a slot's task finds its next job.
pub(super) struct Slot {
    job: Cell<Option<Job>>,
    pub(super) wake: Event,
}

/// What a slot's block status requests are put together in.
#[derive(Default)]
struct Scratch {
    found: Vec<Allocation>,
    extents: Vec<Extent>,
}

impl<V: Volume + 'static> Session<V> {
    /// Gives a job to an idle slot, or to a new one: there are never more than tickets.
    pub(super) fn dispatch(self: &Rc<Self>, job: Job) {
        let idle = self.idle.borrow_mut().pop();
        if let Some(slot) = idle {
            slot.job.set(Some(job));
            slot.wake.notify();
            return;
        }
        let io = &self.link.io;
        let slot = Rc::new(Slot { job: Cell::new(Some(job)), wake: Event::new(io) });
        let task = io.spawn(run(Rc::clone(self), slot));
        self.tasks.borrow_mut().push(task);
    }

    async fn carry_out(&self, work: Work, scratch: &mut Scratch) -> Body {
        let volume = &self.export.volume;
        let tally = |change: fn(&mut crate::nbd::Counters, u64), bytes: u64| {
            for tally in self.tallies() {
                tally.add(|counters| {
                    counters.requests += 1;
                    change(counters, bytes);
                });
            }
        };
        let result = match work {
            Work::Read { offset, into } => {
                let read = volume.read(offset, into.all()).await;
                if read.is_ok() {
                    tally(|t, bytes| t.read_bytes += bytes, into.len() as u64);
                    return Body::Data { offset, data: into };
                }
                read.map_err(|error| errno(error, Errno::Invalid))
            }
            Work::Write { offset, from, fua } => {
                let written = volume.write(offset, from.all(), fua).await;
                if written.is_ok() {
                    tally(|t, bytes| t.written_bytes += bytes, from.len() as u64);
                    return Body::Done;
                }
                written.map_err(|error| errno(error, Errno::NoSpace))
            }
            Work::Flush => volume.flush().await.map_err(|error| errno(error, Errno::Invalid)),
            Work::Trim { offset, len, fua } => self.trim(offset, u64::from(len), fua).await,
            Work::Zeroes { offset, len, options } => {
                let zeroed = volume.write_zeroes(offset, u64::from(len), options).await;
                zeroed.map_err(|error| match error {
                    // Told only to those who asked for speed: others were promised zeroes.
                    VolumeError::Unsupported if options.fast_only => Errno::NotSupported,
                    error => errno(error, Errno::NoSpace),
                })
            }
            Work::Status { offset, len, one, into } => {
                match self.status(offset, len, one, &into, scratch).await {
                    Ok(bytes) => {
                        tally(|_, _| {}, 0);
                        return Body::Status { data: into, bytes };
                    }
                    Err(error) => Err(error),
                }
            }
        };
        match result {
            Ok(()) => {
                tally(|_, _| {}, 0);
                Body::Done
            }
            Err(error) => {
                tally(|t, _| t.errors += 1, 0);
                Body::Failed(error)
            }
        }
    }

    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), Errno> {
        let volume = &self.export.volume;
        match volume.discard(offset, len).await {
            Ok(()) | Err(VolumeError::Unsupported) => {} // a hint only
            Err(error) => return Err(errno(error, Errno::Invalid)),
        }
        if fua {
            volume.flush().await.map_err(|error| errno(error, Errno::Invalid))?;
        }
        Ok(())
    }

    /// Fills `into` with a block status chunk's payload; returns its bytes.
    async fn status(
        &self,
        offset: u64,
        len: u32,
        one: bool,
        into: &Buf,
        scratch: &mut Scratch,
    ) -> Result<usize, Errno> {
        let most = if one { 1 } else { (into.len() - 4) / Extent::BYTES };
        scratch.found.clear();
        scratch.extents.clear();
        let allocation = self.export.volume.allocation(offset, u64::from(len), &mut scratch.found);
        allocation.await.map_err(|error| errno(error, Errno::Invalid))?;
        let mut left = len;
        for found in &scratch.found {
            // Never beyond what was asked, which REQ_ONE forbids.
            let len = found.len.min(u64::from(left)) as u32;
            let next = Extent { len, hole: found.hole, zero: found.zero };
            if len == 0 || !merge_extent(&mut scratch.extents, next, most) {
                break;
            }
            left -= len;
        }
        if scratch.extents.is_empty() {
            return Err(Errno::Io);
        }
        let mut bytes = into.bytes_mut();
        bytes[..4].copy_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
        for (to, extent) in bytes[4..].chunks_exact_mut(Extent::BYTES).zip(&scratch.extents) {
            to.copy_from_slice(&extent.encode());
        }
        Ok(4 + scratch.extents.len() * Extent::BYTES)
    }
}

async fn run<V: Volume + 'static>(session: Rc<Session<V>>, slot: Rc<Slot>) {
    let mut scratch = Scratch::default();
    loop {
        let look = || match slot.job.take() {
            Some(job) => Some(Some(job)),
            None => session.finished.get().then_some(None),
        };
        let Some(job) = slot.wake.until(look).await else { return };
        let body = session.carry_out(job.work, &mut scratch).await;
        // Idle first: the ticket that goes with the answer stands for this slot too.
        session.idle.borrow_mut().push(Rc::clone(&slot));
        session.link.answer(Answer { cookie: job.cookie, body, ticket: job.ticket });
    }
}

/// What a client is told of a volume's error; `beyond` if the range was not within the volume.
fn errno(error: VolumeError, beyond: Errno) -> Errno {
    match error {
        VolumeError::OutOfRange => beyond,
        VolumeError::Unaligned => Errno::Invalid,
        VolumeError::ReadOnly => Errno::Perm,
        VolumeError::Member(OpError::NoSpace) => Errno::NoSpace,
        VolumeError::TooManyLost
        | VolumeError::Member(_)
        | VolumeError::Unsupported
        | VolumeError::Reshaping => Errno::Io,
        VolumeError::Stopping => Errno::Shutdown,
    }
}
