//! A request is carried out, in a slot of the connection.

use brindle_io::{OpError, Slice};
use brindle_volume::{Allocation, Volume, VolumeError, ZeroOptions};

use super::Transmission;
use super::send::{Answer, Body};
use crate::nbd::proto::{BASE_ALLOCATION_ID, Command, Errno, StatusExtent, merge_extent};
use crate::pieces::Unfinished;
use crate::session::{Account, Moves, Slots, Ticket, Worker};

/// An admitted request; the ticket has the memory for it.
pub(crate) struct Admitted {
    pub(super) cookie: u64,
    pub(super) command: Command,
    pub(super) ticket: Ticket,
}

/// Memory in which a slot's block status requests are put together.
#[derive(Default)]
pub(crate) struct Scratch {
    found: Vec<Allocation>,
    extents: Vec<StatusExtent>,
}

impl<V: Volume + 'static> Worker for Transmission<V> {
    type Assigned = Admitted;
    type Carried = Body;
    type Scratch = Scratch;

    #[inline]
    fn account(&self) -> &Account {
        &self.link
    }

    #[inline]
    fn slots(&self) -> &Slots<Admitted> {
        &self.slots
    }

    async fn carry_out(&self, job: &mut Admitted, scratch: &mut Scratch) -> Body {
        let (moves, begun) = (moves(&job.command), self.export.begins(&self.link.io));
        let result = self.asked(job, scratch).await;
        self.export.ends(&self.link.io, begun, moves.changes);
        self.export.count(&self.link, moves, result.is_err());
        result.unwrap_or_else(Body::Failed)
    }

    fn reply(&self, job: Admitted, body: Body) {
        self.replies.push(Answer { cookie: job.cookie, body, ticket: job.ticket });
    }
}

impl<V: Volume + 'static> Transmission<V> {
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
        let Self { export, link, .. } = self;
        let zeroed = export.write_zeroes((offset, len), options, link).await;
        zeroed.map_err(|why| match why {
            Unfinished::Ended => Errno::Shutdown,
            // Only clients that asked for speed get this error: others were promised zeroes.
            Unfinished::Volume(VolumeError::Unsupported) if options.fast_only => Errno::NotSupported,
            Unfinished::Volume(error) => errno(error, Errno::NoSpace),
        })
    }

    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), Errno> {
        let Self { export, link, .. } = self;
        export.discard((offset, len), link).await.map_err(|why| match why {
            Unfinished::Ended => Errno::Shutdown,
            Unfinished::Volume(error) => errno(error, Errno::Invalid),
        })?;
        if fua {
            export.volume.flush().await.map_err(|error| errno(error, Errno::Invalid))?;
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

fn moves(command: &Command) -> Moves {
    match *command {
        Command::Read { len, .. } => Moves { read: u64::from(len), ..Moves::default() },
        Command::Write { len, .. } => Moves { written: u64::from(len), read: 0, changes: true },
        Command::BlockStatus { .. } => Moves::default(),
        _ => Moves { changes: true, ..Moves::default() },
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
