//! Slots: the tasks that carry out requests. They are made when needed, kept, and allocate nothing per request.

use core::cell::Cell;
use std::rc::Rc;

use brindle_io::sync::Notify;
use brindle_io::{OpError, Slice};
use brindle_volume::{Allocation, Volume, VolumeError, ZeroOptions};

use super::Transmission;
use super::admitted::{Admitted, Slot};
use super::course::RequestCourse;
use super::send::{Answer, Body};
use crate::nbd::proto::{BASE_ALLOCATION_ID, Command, Errno, StatusExtent, merge_extent};
use crate::pieces::{Unfinished, discard, write_zeroes};
use crate::session::{Counters, Latencies};

/// Memory in which a slot's block status requests are put together.
#[derive(Default)]
struct Scratch {
    found: Vec<Allocation>,
    extents: Vec<StatusExtent>,
}

impl<V: Volume + 'static> Transmission<V> {
    /// Gives a job to an idle slot, or to a new one: there are never more than tickets.
    pub(super) fn dispatch(self: &Rc<Self>, job: Admitted) {
        let idle = self.idle.borrow_mut().pop();
        if let Some(slot) = idle {
            slot.job.set(Some(job));
            slot.wake.notify();
            return;
        }
        let io = &self.link.io;
        let slot = Rc::new(Slot { job: Cell::new(Some(job)), wake: Notify::new(io) });
        let task = io.spawn(run(Rc::clone(self), slot));
        self.tasks.borrow_mut().push(task);
    }

    /// Carries out a request, and counts it.
    async fn carry_out(&self, job: &mut Admitted, scratch: &mut Scratch) -> Body {
        let begun = Latencies::begin(&self.link.io, &self.export.tally);
        let result = self.asked(job, scratch).await;
        if let Some(begun) = begun {
            let changes = !matches!(job.command, Command::Read { .. } | Command::BlockStatus { .. });
            self.export.latencies.end(&self.link.io, begun, changes);
        }
        let moved =
            if matches!(result, Ok(Body::Data { .. }) | Ok(Body::Done)) { moved(job) } else { (0, 0) };
        for tally in self.tallies() {
            tally.add(|counters: &mut Counters| {
                counters.requests += 1;
                counters.read_bytes += moved.0;
                counters.written_bytes += moved.1;
                counters.errors += u64::from(result.is_err());
            });
        }
        result.unwrap_or_else(Body::Failed)
    }

    async fn asked(&self, job: &mut Admitted, scratch: &mut Scratch) -> Result<Body, Errno> {
        let volume = &self.export.volume;
        let memory = || job.ticket.memory().clone();
        let changes =
            matches!(job.command, Command::Write { .. } | Command::Trim { .. } | Command::WriteZeroes { .. });
        if changes && self.export.gate.is_closed() {
            return Err(Errno::Perm);
        }
        match job.command {
            Command::Read { offset, .. } => {
                let mut read = volume.read(offset, memory()).await;
                while read == Err(VolumeError::Again) {
                    job.ticket.renew().await.map_err(|_| Errno::Shutdown)?;
                    read = volume.read(offset, job.ticket.memory().clone()).await;
                }
                return read.map(|()| Body::Data { offset }).map_err(|error| errno(error, Errno::Invalid));
            }
            Command::BlockStatus { offset, len, one } => {
                let bytes = self.status(offset, len, one, &memory(), scratch).await?;
                return Ok(Body::Status { bytes });
            }
            Command::Write { offset, fua, .. } => {
                volume.write(offset, memory(), fua).await.map_err(|error| errno(error, Errno::NoSpace))?;
            }
            Command::Flush => volume.flush().await.map_err(|error| errno(error, Errno::Invalid))?,
            Command::Trim { offset, len, fua } => self.trim(offset, u64::from(len), fua).await?,
            Command::WriteZeroes { offset, len, options } => {
                self.write_zeroes(offset, u64::from(len), options).await?;
            }
            Command::Disconnect => {} // never dispatched
        }
        Ok(Body::Done)
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), Errno> {
        let course = RequestCourse::of(self);
        let zeroed = write_zeroes(&*self.export.volume, (offset, len), options, &course).await;
        zeroed.map_err(|why| match why {
            Unfinished::Ended => Errno::Shutdown,
            // Only clients that asked for speed get this error: others were promised zeroes.
            Unfinished::Volume(VolumeError::Unsupported) if options.fast_only => Errno::NotSupported,
            Unfinished::Volume(error) => errno(error, Errno::NoSpace),
        })
    }

    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), Errno> {
        let volume = &self.export.volume;
        discard(&**volume, (offset, len), &RequestCourse::of(self)).await.map_err(|why| match why {
            Unfinished::Ended => Errno::Shutdown,
            Unfinished::Volume(error) => errno(error, Errno::Invalid),
        })?;
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
        into: &Slice,
        scratch: &mut Scratch,
    ) -> Result<usize, Errno> {
        let most = if one { 1 } else { (into.len() - 4) / StatusExtent::BYTES };
        scratch.found.clear();
        scratch.extents.clear();
        let allocation = self.export.volume.allocation(offset, u64::from(len), &mut scratch.found);
        allocation.await.map_err(|error| errno(error, Errno::Invalid))?;
        let mut left = len;
        for found in &scratch.found {
            // REQ_ONE forbids extents beyond the range that was asked for.
            let len = found.len.min(u64::from(left)) as u32;
            let next = StatusExtent { len, hole: found.hole, zero: found.zero };
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
        for (to, extent) in bytes[4..].chunks_exact_mut(StatusExtent::BYTES).zip(&scratch.extents) {
            to.copy_from_slice(&extent.encode());
        }
        Ok(4 + scratch.extents.len() * StatusExtent::BYTES)
    }
}

async fn run<V: Volume + 'static>(transmission: Rc<Transmission<V>>, slot: Rc<Slot>) {
    let mut scratch = Scratch::default();
    loop {
        let look = || match slot.job.take() {
            Some(job) => Some(Some(job)),
            None => transmission.finished.get().then_some(None),
        };
        let Some(mut job) = slot.wake.until(look).await else { return };
        let body = transmission.carry_out(&mut job, &mut scratch).await;
        // Idle first: the ticket that goes with the answer stands for this slot too.
        transmission.idle.borrow_mut().push(Rc::clone(&slot));
        transmission.replies.push(Answer { cookie: job.cookie, body, ticket: job.ticket });
        transmission.link.carried_out();
    }
}

/// Bytes that a request which succeeded has read and written.
fn moved(job: &Admitted) -> (u64, u64) {
    match job.command {
        Command::Read { len, .. } => (u64::from(len), 0),
        Command::Write { len, .. } => (0, u64::from(len)),
        _ => (0, 0),
    }
}

/// The protocol's error for a volume's error; `beyond` if the range was not within the volume.
fn errno(error: VolumeError, beyond: Errno) -> Errno {
    match error {
        VolumeError::OutOfRange => beyond,
        VolumeError::Unaligned => Errno::Invalid,
        VolumeError::ReadOnly => Errno::Perm,
        VolumeError::NoSpace | VolumeError::Member { error: OpError::NoSpace, .. } => Errno::NoSpace,
        VolumeError::TooManyLost
        | VolumeError::Member { .. }
        | VolumeError::Again
        | VolumeError::Unsupported
        | VolumeError::Reshaping => Errno::Io,
        VolumeError::Stopping => Errno::Shutdown,
    }
}
