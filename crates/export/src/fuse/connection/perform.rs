//! A call is carried out, in a slot of the mount.

use brindle_io::OpError;
use brindle_volume::{Allocation, Volume, VolumeError, ZeroOptions};

use super::Mount;
use super::send::Reply;
use crate::fuse::proto::{Answer, DirectoryEntry, error};
use crate::pieces::Unfinished;
use crate::session::{Account, Slots, Ticket, Worker};

pub(super) const SEEK_DATA: u32 = 3;
pub(super) const SEEK_HOLE: u32 = 4;

/// A call that the volume is asked for. Bytes of the volume.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileRequest {
    Read {
        at: u64,
        len: u32,
    },
    Write {
        at: u64,
        len: u32,
        stable: bool,
    },
    Sync,
    Zero {
        at: u64,
        len: u64,
        keep_allocated: bool,
    },
    /// The next data, or the next hole, of the file between two bytes.
    Seek {
        at: u64,
        file: (u64, u64),
        data: bool,
    },
    List {
        from: u64,
        room: u32,
    },
}

/// An admitted call; the ticket has the memory for it.
pub(crate) struct Performed {
    pub(super) unique: u64,
    pub(super) job: FileRequest,
    pub(super) ticket: Ticket,
}

impl<V: Volume + 'static> Worker for Mount<V> {
    type Assigned = Performed;
    type Carried = (Answer, core::ops::Range<usize>);
    type Scratch = Vec<Allocation>;

    #[inline]
    fn account(&self) -> &Account {
        &self.account
    }

    #[inline]
    fn slots(&self) -> &Slots<Performed> {
        &self.slots
    }

    async fn carry_out(&self, job: &mut Performed, scratch: &mut Vec<Allocation>) -> Self::Carried {
        let moves = job.job.moves();
        let begun = self.export.begins(&self.account.io);
        let result = self.asked(job, scratch).await;
        self.export.ends(&self.account.io, begun, moves.changes);
        self.export.count(&self.account, moves, result.is_err());
        result.unwrap_or_else(|number| (Answer::Failed(number), 0..0))
    }

    fn reply(&self, job: Performed, (answer, data): Self::Carried) {
        self.replies.push(Reply { unique: job.unique, answer, data, ticket: job.ticket });
    }
}

impl<V: Volume + 'static> Mount<V> {
    async fn asked(
        &self,
        job: &mut Performed,
        scratch: &mut Vec<Allocation>,
    ) -> Result<(Answer, core::ops::Range<usize>), i32> {
        let changes = matches!(job.job, FileRequest::Write { .. } | FileRequest::Zero { .. });
        if changes && self.export.gate.is_closed() {
            return Err(error::PERMISSION);
        }
        let answer = match job.job {
            FileRequest::Read { at, len } => return self.read((at, len), &mut job.ticket).await,
            FileRequest::Write { at, len, stable } => {
                self.write((at, len), &job.ticket, stable).await.map_err(errno)?;
                Answer::Written(len)
            }
            FileRequest::Sync => {
                self.export.volume.flush().await.map_err(errno)?;
                Answer::Done
            }
            FileRequest::Zero { at, len, keep_allocated } => {
                self.zero(at, len, keep_allocated).await?;
                Answer::Done
            }
            FileRequest::Seek { at, file, data } => {
                Answer::Place(self.seek(at, file, data, scratch).await? - file.0)
            }
            FileRequest::List { from, room } => {
                let len = self.list(from, room as usize, &job.ticket);
                return Ok((Answer::Data(len as u32), 0..len));
            }
        };
        Ok((answer, 0..0))
    }

    /// Reads whole blocks, of which some bytes are wanted.
    async fn read(
        &self,
        (at, len): (u64, u32),
        ticket: &mut Ticket,
    ) -> Result<(Answer, core::ops::Range<usize>), i32> {
        let volume = &self.export.volume;
        let before = (at % u64::from(self.limits.block)) as usize;
        let first = at - before as u64;
        let mut read = volume.read(first, ticket.memory().clone()).await;
        while read == Err(VolumeError::Again) {
            ticket.renew().await.map_err(|_| error::NOT_CONNECTED)?;
            read = volume.read(first, ticket.memory().clone()).await;
        }
        read.map_err(errno)?;
        Ok((Answer::Data(len), before..before + len as usize))
    }

    async fn write(&self, (at, len): (u64, u32), ticket: &Ticket, stable: bool) -> Result<(), VolumeError> {
        let volume = &*self.export.volume;
        let memory = ticket.memory();
        let parts = self.edges.parts(at, u64::from(len));
        let base = at / u64::from(self.limits.block) * u64::from(self.limits.block);
        let place = |at: u64| (at - base) as usize;
        for edge in parts.edges() {
            let from = memory.slice(place(edge.start)..place(edge.end));
            self.edges.put(volume, edge.clone(), Some(&from), stable).await?;
        }
        if parts.whole.is_empty() {
            return Ok(());
        }
        let whole = memory.slice(place(parts.whole.start)..place(parts.whole.end));
        volume.write(parts.whole.start, whole, stable).await
    }

    async fn zero(&self, at: u64, len: u64, keep_allocated: bool) -> Result<(), i32> {
        let parts = self.edges.parts(at, len);
        for edge in parts.edges() {
            self.edges.put(&*self.export.volume, edge.clone(), None, false).await.map_err(errno)?;
        }
        if parts.whole.is_empty() {
            return Ok(());
        }
        let range = (parts.whole.start, parts.whole.end - parts.whole.start);
        let options = ZeroOptions { keep_allocated, ..ZeroOptions::default() };
        self.export.write_zeroes(range, options, &self.account).await.map_err(|why| match why {
            Unfinished::Ended => error::NOT_CONNECTED,
            Unfinished::Volume(VolumeError::Unsupported) => error::UNSUPPORTED,
            Unfinished::Volume(why) => errno(why),
        })
    }

    /// The first byte from `at` on that is data, or in a hole: stretches that read as zeroes are holes. The end of a file is one.
    async fn seek(
        &self,
        at: u64,
        (_, end): (u64, u64),
        data: bool,
        found: &mut Vec<Allocation>,
    ) -> Result<u64, i32> {
        let block = u64::from(self.limits.block);
        let last = end.next_multiple_of(block);
        let mut next = at / block * block;
        while next < last {
            if self.account.is_over() {
                return Err(error::NOT_CONNECTED);
            }
            found.clear();
            self.export.volume.allocation(next, last - next, found).await.map_err(errno)?;
            for one in found.iter() {
                if one.zero != data {
                    return Ok(next.max(at).min(end));
                }
                next += one.len;
            }
            if found.iter().all(|one| one.len == 0) {
                return Err(error::IO);
            }
            // A volume may answer without waiting for anything.
            self.account.io.yield_now().await;
        }
        if data { Err(error::NO_DATA) } else { Ok(end) }
    }

    /// Fills memory with entries of the folder; gives their bytes.
    fn list(&self, from: u64, room: usize, ticket: &Ticket) -> usize {
        if room == 0 {
            return 0;
        }
        let mut bytes = ticket.memory().bytes_mut();
        let mut used = 0;
        for (at, (node, kind, name)) in (from + 1..).zip(self.folder.entries(from)) {
            let entry = DirectoryEntry { node, next: at, kind, name };
            if used + entry.bytes() > room {
                break;
            }
            entry.put(&mut bytes[used..]);
            used += entry.bytes();
        }
        used
    }
}

/// The error number for a volume's error.
fn errno(why: VolumeError) -> i32 {
    match why {
        VolumeError::OutOfRange => error::TOO_LARGE,
        VolumeError::Unaligned => error::INVALID,
        VolumeError::ReadOnly => error::READ_ONLY,
        VolumeError::NoSpace | VolumeError::Member { error: OpError::NoSpace, .. } => error::NO_SPACE,
        VolumeError::Unsupported => error::UNSUPPORTED,
        VolumeError::Stopping => error::NOT_CONNECTED,
        VolumeError::TooManyLost
        | VolumeError::Member { .. }
        | VolumeError::Again
        | VolumeError::Reshaping => error::IO,
    }
}
