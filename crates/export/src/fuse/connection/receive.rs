//! The receiver: messages to calls.

use core::convert::Infallible;
use std::rc::Rc;

use brindle_io::sync::{Either, race};
use brindle_io::{Buf, PAGE};
use brindle_volume::Volume;

use super::Mount;
use super::perform::{FileRequest, Performed};
use super::send::Reply;
use crate::fuse::folder::Node;
use crate::fuse::proto::{
    Agreement, Answer, Call, CallHeader, LARGEST, NoCall, Room, WRITTEN_AT, error, mode, open, parse,
};
use crate::session::{End, Moves, dispatch};

/// Where a message begins in its buffer: the data of a write then begin with a page.
const BEGIN: usize = PAGE - WRITTEN_AT;

/// Bytes of the buffer for messages.
pub(crate) const INBOX: usize = PAGE + LARGEST as usize;

impl<V: Volume + 'static> Mount<V> {
    /// Takes calls until there is a reason not to.
    pub(super) async fn receive(self: &Rc<Self>, inbox: Buf) -> End {
        match self.calls(&inbox).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn calls(self: &Rc<Self>, inbox: &Buf) -> Result<Infallible, End> {
        let into = inbox.slice(BEGIN..INBOX);
        loop {
            let received = race(self.account.io.recv(self.port, &into), self.account.interruption());
            let len = match received.await {
                Either::First(Ok(0)) => {
                    self.account.hangs_up();
                    return Err(End::Orderly);
                }
                Either::First(Ok(len)) => len,
                // It is unmounted, or its connection was ended.
                Either::First(Err(_)) => return Err(End::Broken),
                Either::Second(end) => return Err(end),
            };
            let (header, call) = {
                let bytes = into.bytes();
                let (header, call) = parse(&bytes[..len]).map_err(|_| End::Garbage)?;
                match self.sort(header, call) {
                    Sorted::Unanswered => continue,
                    Sorted::Ends => return Err(End::Orderly),
                    Sorted::Answered(answer) => (header, Err(answer)),
                    Sorted::Asked(request) => (header, Ok(request)),
                }
            };
            match call {
                Err(answer) => {
                    let ticket = self.memory.admit(&self.account, 0).await?;
                    self.replies.push(Reply { unique: header.unique, answer, data: 0..0, ticket });
                }
                Ok(job) => self.take(header, job, inbox).await?,
            }
        }
    }

    /// Admits a call and has it carried out.
    async fn take(self: &Rc<Self>, header: CallHeader, job: FileRequest, inbox: &Buf) -> Result<(), End> {
        let moves = job.moves();
        if self.export.gate.is_paced() {
            self.account.due(&self.export.gate, moves.read + moves.written).await?;
        }
        let holds = job.memory(self.limits.block);
        let ticket = self.memory.admit(&self.account, holds).await?;
        if let FileRequest::Write { at, len, .. } = job {
            // Bytes for a part of a block lie where they lie in it. More may have come than the file has room for.
            let (start, len) = ((at % u64::from(self.limits.block)) as usize, len as usize);
            ticket.memory().bytes_mut()[start..start + len].copy_from_slice(&inbox.bytes()[PAGE..PAGE + len]);
        }
        dispatch(self, Performed { unique: header.unique, job, ticket });
        Ok(())
    }
}

/// The course of a call.
enum Sorted {
    /// It has no answer.
    Unanswered,
    /// The kernel takes its leave.
    Ends,
    /// It needs nothing of the volume.
    Answered(Answer),
    /// It is to be carried out.
    Asked(FileRequest),
}

/// An error as an answer.
fn failed(number: i32) -> Sorted {
    Sorted::Answered(Answer::Failed(number))
}

impl<V: Volume + 'static> Mount<V> {
    fn sort(&self, header: CallHeader, call: Result<Call<'_>, NoCall>) -> Sorted {
        let Ok(call) = call else { return failed(error::INVALID) };
        let node = self.folder.node(header.node);
        match call {
            Call::Forget => Sorted::Unanswered,
            Call::Destroy => Sorted::Ends,
            Call::Init { version, abilities } => {
                Sorted::Answered(match Agreement::with(version, abilities, self.largest) {
                    Some(agreement) => Answer::Agreed(agreement),
                    None => Answer::Failed(error::PROTOCOL),
                })
            }
            // Each ends by itself, and soon; the kernel does not ask again.
            Call::Interrupt | Call::Unknown(_) => failed(error::UNKNOWN),
            Call::Room => Sorted::Answered(Answer::Room(Room {
                size: self.folder.size(),
                files: self.folder.len() as u64,
            })),
            Call::Close | Call::SyncFolder => Sorted::Answered(Answer::Done),
            Call::OpenFolder => Sorted::Answered(Answer::Opened(0)),
            Call::ChangesFolder => failed(error::PERMISSION),
            Call::Lookup { name } => {
                let found = self.folder.named(name).and_then(|number| self.folder.attributes(number));
                Sorted::Answered(found.map_or(Answer::Failed(error::NO_ENTRY), Answer::Entry))
            }
            Call::Attributes | Call::Change { matters: false } => {
                let found = self.folder.attributes(header.node);
                Sorted::Answered(found.map_or(Answer::Failed(error::NO_ENTRY), Answer::Attributes))
            }
            Call::Change { matters: true } => failed(error::PERMISSION),
            Call::List { from, room } => match node {
                Some(Node::Root) => Sorted::Asked(FileRequest::List { from, room }),
                _ => failed(error::INVALID),
            },
            Call::Open { .. }
            | Call::Read { .. }
            | Call::Write { .. }
            | Call::Sync
            | Call::Allocate { .. }
            | Call::Seek { .. } => match node {
                Some(Node::File(file)) => self.sort_of_file(call, file.bytes.clone()),
                Some(Node::Root) => failed(error::IS_FOLDER),
                None => failed(error::NO_ENTRY),
            },
        }
    }

    /// A call to the file that has these bytes of the volume.
    fn sort_of_file(&self, call: Call<'_>, file: core::ops::Range<u64>) -> Sorted {
        let size = file.end - file.start;
        // Bytes of the volume, as far as the file has them.
        let within = |offset: u64, len: u64| {
            let start = offset.min(size);
            let len = len.min(size - start);
            (file.start + start, len)
        };
        let refuses_writes = !self.folder.is_writable();
        match call {
            // The kernel keeps to what was agreed on.
            Call::Read { len, .. } | Call::Write { len, .. } if len > self.largest => failed(error::INVALID),
            Call::Open { writes: true } if refuses_writes => failed(error::READ_ONLY),
            Call::Open { .. } => {
                Sorted::Answered(Answer::Opened(open::DIRECT_IO | open::PARALLEL_DIRECT_WRITES))
            }
            Call::Read { offset, len } => match within(offset, len.into()) {
                (_, 0) => Sorted::Answered(Answer::Done),
                (at, len) => Sorted::Asked(FileRequest::Read { at, len: len as u32 }),
            },
            Call::Write { .. } | Call::Allocate { .. } if refuses_writes => failed(error::READ_ONLY),
            Call::Write { offset, len, stable } => match within(offset, len.into()) {
                (_, 0) if len > 0 => failed(error::NO_SPACE),
                (_, 0) => Sorted::Answered(Answer::Written(0)),
                (at, len) => Sorted::Asked(FileRequest::Write { at, len: len as u32, stable }),
            },
            Call::Sync => Sorted::Asked(FileRequest::Sync),
            Call::Allocate { offset, len, mode: how } => {
                let (at, len) = within(offset, len);
                let punches = how == mode::PUNCH_HOLE | mode::KEEP_SIZE;
                let zeroes = how & !mode::KEEP_SIZE == mode::ZERO_RANGE;
                match how {
                    _ if !punches && !zeroes => failed(error::UNSUPPORTED),
                    _ if len == 0 => Sorted::Answered(Answer::Done),
                    _ => Sorted::Asked(FileRequest::Zero { at, len, keep_allocated: zeroes }),
                }
            }
            Call::Seek { offset, whence } => match whence {
                _ if offset >= size => failed(error::NO_DATA),
                super::perform::SEEK_DATA | super::perform::SEEK_HOLE => Sorted::Asked(FileRequest::Seek {
                    at: file.start + offset,
                    file: (file.start, file.end),
                    data: whence == super::perform::SEEK_DATA,
                }),
                _ => failed(error::INVALID),
            },
            _ => failed(error::UNKNOWN),
        }
    }
}

impl FileRequest {
    /// Bytes that a call moves, as clients' requests are counted.
    pub(super) fn moves(&self) -> Moves {
        match *self {
            Self::Read { len, .. } => Moves { read: len.into(), ..Moves::default() },
            Self::Write { len, .. } => Moves { written: len.into(), changes: true, read: 0 },
            Self::Sync | Self::Zero { .. } => Moves { changes: true, ..Moves::default() },
            Self::Seek { .. } | Self::List { .. } => Moves::default(),
        }
    }

    /// Bytes of memory that it needs: whole blocks, where it moves bytes of the volume.
    fn memory(&self, block: u32) -> usize {
        let block = u64::from(block);
        match *self {
            Self::Read { at, len } | Self::Write { at, len, .. } => {
                let end = (at + u64::from(len)).next_multiple_of(block);
                (end - at / block * block) as usize
            }
            Self::List { room, .. } => room as usize,
            Self::Sync | Self::Zero { .. } | Self::Seek { .. } => 0,
        }
    }
}
