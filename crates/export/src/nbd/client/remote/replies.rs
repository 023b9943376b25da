//! The server's replies to requests, in any order.

use std::io;
use std::rc::Rc;

use brindle_io::{Io, OpError, Slice, SocketId};
use brindle_volume::VolumeError;

use super::Shared;
use crate::nbd::client::error::{Breach, ClientError};
use crate::nbd::client::wire::{Head, MAX_SMALL_CHUNK, Reply};
use crate::nbd::proto::{ChunkHeader, Errno, SimpleReply, StatusExtent, chunk_type, command_code as code};
use crate::session::Inbox;

pub(super) async fn more(io: &Io, socket: SocketId, inbox: &mut Inbox) -> Result<(), ClientError> {
    match inbox.receive_from(io, socket).await.map_err(broken)? {
        0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        _ => Ok(()),
    }
}

pub(super) fn broken(error: OpError) -> ClientError {
    io::Error::new(io::ErrorKind::ConnectionReset, error).into()
}

/// The volume error for an error of the protocol.
pub(super) fn volume_error(number: u32) -> VolumeError {
    const PERM: u32 = Errno::Perm as u32;
    const INVALID: u32 = Errno::Invalid as u32;
    const NO_SPACE: u32 = Errno::NoSpace as u32;
    const NOT_SUPPORTED: u32 = Errno::NotSupported as u32;
    const SHUTDOWN: u32 = Errno::Shutdown as u32;
    match number {
        PERM => VolumeError::ReadOnly,
        INVALID => VolumeError::OutOfRange,
        NO_SPACE => VolumeError::of_some_member(OpError::NoSpace),
        NOT_SUPPORTED => VolumeError::Unsupported,
        SHUTDOWN => VolumeError::Stopping,
        other => VolumeError::of_some_member(OpError::Medium(i32::try_from(other).unwrap_or(i32::MAX))),
    }
}

impl Shared {
    /// Takes replies until there is a reason not to.
    pub(super) async fn listen(&self, inbox: &mut Inbox) -> Result<core::convert::Infallible, ClientError> {
        loop {
            let decoded = Head::decode(&inbox.bytes())?;
            let Some((head, len)) = decoded else {
                more(&self.io, self.socket, inbox).await?;
                continue;
            };
            inbox.consume(len);
            let cookie = head.cookie();
            let ended = self.reply(head, inbox).await?;
            self.ended(cookie, ended);
        }
    }

    fn ended(&self, cookie: u64, ended: Result<Vec<StatusExtent>, u32>) {
        let mut open = self.open.borrow_mut();
        match open.get_mut(&cookie) {
            Some(request) if !request.abandoned => request.ended = Some(ended),
            _ => drop(open.remove(&cookie)),
        }
        drop(open);
        self.changed.notify();
    }

    /// Takes the bytes after a reply's head.
    async fn reply(
        &self,
        head: Head,
        inbox: &mut Inbox,
    ) -> Result<Result<Vec<StatusExtent>, u32>, ClientError> {
        let (command, into) = {
            let open = self.open.borrow();
            let open = open.get(&head.cookie()).filter(|open| open.ended.is_none()).ok_or(Breach::Cookie)?;
            (open.command, Rc::clone(&open.into))
        };
        let len: usize = into.iter().map(Slice::len).sum();
        match head {
            Head::Simple(SimpleReply { error, .. }) if error != 0 => Ok(Err(error)),
            Head::Simple(_) if command == code::READ && !self.agreed.structured => {
                self.fill(&into, inbox).await?;
                Ok(Ok(Vec::new()))
            }
            Head::Simple(_) if !matches!(command, code::READ | code::BLOCK_STATUS) => Ok(Ok(Vec::new())),
            Head::Simple(_) => Err(Breach::Shape.into()),
            Head::Chunk(chunk) if command == code::READ && chunk.kind == chunk_type::OFFSET_DATA => {
                if chunk.len as usize != 8 + len {
                    return Err(Breach::Shape.into());
                }
                self.take(8, inbox).await?;
                self.fill(&into, inbox).await?;
                Ok(Ok(Vec::new()))
            }
            Head::Chunk(chunk) => self.small_chunk(&chunk, command, inbox).await,
        }
    }

    async fn small_chunk(
        &self,
        chunk: &ChunkHeader,
        command: u16,
        inbox: &mut Inbox,
    ) -> Result<Result<Vec<StatusExtent>, u32>, ClientError> {
        if chunk.len as usize > MAX_SMALL_CHUNK {
            return Err(Breach::Shape.into());
        }
        let payload = self.take(chunk.len as usize, inbox).await?;
        match Reply::of_chunk(chunk, &payload)? {
            Reply::Error { error, .. } => Ok(Err(error)),
            Reply::Status { extents, .. } if command == code::BLOCK_STATUS => Ok(Ok(extents)),
            Reply::Simple { .. } if command != code::READ => Ok(Ok(Vec::new())),
            _ => Err(Breach::Shape.into()),
        }
    }

    async fn take(&self, len: usize, inbox: &mut Inbox) -> Result<Vec<u8>, ClientError> {
        while inbox.len() < len {
            more(&self.io, self.socket, inbox).await?;
        }
        let taken = inbox.bytes()[..len].to_vec();
        inbox.consume(len);
        Ok(taken)
    }

    async fn fill(&self, into: &[Slice], inbox: &mut Inbox) -> Result<(), ClientError> {
        for slice in into {
            let got = inbox.len().min(slice.len());
            slice.put(0, &inbox.bytes()[..got]);
            inbox.consume(got);
            let mut rest = slice.slice(got..slice.len());
            while !rest.is_empty() {
                let got = self.io.recv(self.socket, &rest).await.map_err(broken)?;
                if got == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                rest = rest.slice(got..rest.len());
            }
        }
        Ok(())
    }
}
