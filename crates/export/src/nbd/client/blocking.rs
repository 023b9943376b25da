//! A client over anything that reads and writes, and blocks.

use std::collections::HashMap;
use std::io::{Read, Write};

use super::error::{Breach, ClientError};
use super::handshake::{Agreed, Handshake, HandshakeStep};
use super::wire::{Head, MAX_SMALL_CHUNK, Reply};
use crate::nbd::proto::{
    ChunkHeader, Request, SimpleReply, StatusExtent, chunk_type, command_code, command_flags,
};

/// Bytes of one request of [`Client::read`] and [`Client::write`].
const PIECE: usize = 1 << 20;
/// Requests that they send ahead of their replies.
const DEPTH: usize = 8;

/// How a request of [`Client::send`] ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done; data of a read are in the memory that [`Client::receive`] was given.
    Done,
    /// The answer to a block status request.
    Status(Vec<StatusExtent>),
    /// The server refuses: a [`crate::nbd::proto::Errno`].
    Failed(u32),
}

/// A connection in its transmission phase. Requests may be sent ahead of their replies, which come in any order.
#[derive(Debug)]
pub struct Client<S> {
    stream: S,
    agreed: Agreed,
    next_cookie: u64,
    /// Command and length of each request under way.
    open: HashMap<u64, (u16, u32)>,
}

impl<S: Read + Write> Client<S> {
    /// Chooses the export of that name, or the default one if it is empty, over a fresh connection.
    ///
    /// # Errors
    /// As [`Handshake::next`]; [`ClientError::Io`] with what the stream says, or `UnexpectedEof` where it ends.
    pub fn connect(mut stream: S, name: &str) -> Result<Self, ClientError> {
        let mut handshake = Handshake::new(name, true);
        let mut step = handshake.begin();
        loop {
            match step {
                HandshakeStep::Done(agreed) => {
                    return Ok(Self { stream, agreed, next_cookie: 0, open: HashMap::new() });
                }
                HandshakeStep::Exchange { say, hear } => {
                    stream.write_all(&say)?;
                    let mut heard = vec![0; hear];
                    stream.read_exact(&mut heard)?;
                    step = handshake.next(&heard)?;
                }
            }
        }
    }

    /// The agreed size, block and abilities.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Bytes of the export.
    pub fn size(&self) -> u64 {
        self.agreed.size
    }

    /// Requests whose replies have not been received.
    pub fn under_way(&self) -> usize {
        self.open.len()
    }

    /// Sends a request, whose cookie is chosen here and returned, and the data of a write.
    ///
    /// # Errors
    /// [`ClientError::Io`]: not all of it went.
    pub fn send(&mut self, request: Request, data: &[u8]) -> Result<u64, ClientError> {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.stream.write_all(&Request { cookie, ..request }.encode())?;
        self.stream.write_all(data)?;
        if request.command != command_code::DISC {
            self.open.insert(cookie, (request.command, request.len));
        }
        Ok(cookie)
    }

    /// Receives the next reply and tells to which request. The data of a read go to what `place` names for its cookie,
    /// which must be as long as was asked for.
    ///
    /// # Errors
    /// A refusal of the server is an answer, no error.
    /// - [`ClientError::Io`] with what the stream says, or `UnexpectedEof` where it ends.
    /// - [`ClientError::Broken`] with [`Breach::NoReply`]; with [`Breach::Cookie`]; with [`Breach::Shape`], also if the place
    ///   of a read's data is missing or of another length.
    pub fn receive<'a>(
        &mut self,
        place: impl FnOnce(u64) -> Option<&'a mut [u8]>,
    ) -> Result<(u64, Answer), ClientError> {
        let head = self.head()?;
        let cookie = head.cookie();
        let (command, len) = self.open.remove(&cookie).ok_or(Breach::Cookie)?;
        let answer = match head {
            Head::Simple(SimpleReply { error: 0, .. }) if command == command_code::READ => {
                self.data(len, place(cookie))?;
                Answer::Done
            }
            Head::Chunk(chunk) if chunk.kind == chunk_type::OFFSET_DATA && command == command_code::READ => {
                if chunk.len as usize != 8 + len as usize {
                    return Err(Breach::Shape.into());
                }
                self.stream.read_exact(&mut [0; 8])?;
                self.data(len, place(cookie))?;
                Answer::Done
            }
            Head::Simple(SimpleReply { error: 0, .. }) => Answer::Done,
            Head::Simple(SimpleReply { error, .. }) => Answer::Failed(error),
            Head::Chunk(chunk) if chunk.len as usize > MAX_SMALL_CHUNK => return Err(Breach::Shape.into()),
            Head::Chunk(chunk) => {
                let mut payload = vec![0; chunk.len as usize];
                self.stream.read_exact(&mut payload)?;
                match Reply::of_chunk(&chunk, &payload)? {
                    Reply::Status { extents, .. } if command == command_code::BLOCK_STATUS => {
                        Answer::Status(extents)
                    }
                    Reply::Error { error, .. } => Answer::Failed(error),
                    Reply::Simple { .. } if command != command_code::READ => Answer::Done,
                    _ => return Err(Breach::Shape.into()),
                }
            }
        };
        Ok((cookie, answer))
    }

    fn head(&mut self) -> Result<Head, ClientError> {
        let mut bytes = [0; ChunkHeader::BYTES];
        let mut there = SimpleReply::BYTES;
        self.stream.read_exact(&mut bytes[..there])?;
        loop {
            if let Some((head, _)) = Head::decode(&bytes[..there])? {
                return Ok(head);
            }
            self.stream.read_exact(&mut bytes[there..])?;
            there = bytes.len();
        }
    }

    fn data(&mut self, len: u32, place: Option<&mut [u8]>) -> Result<(), ClientError> {
        let place = place.filter(|place| place.len() == len as usize).ok_or(Breach::Shape)?;
        Ok(self.stream.read_exact(place)?)
    }

    /// Fills `into` from the export's bytes at `offset`, several requests at a time. No other may be under way.
    ///
    /// # Errors
    /// [`ClientError::Failed`] with what the server refuses first; [`ClientError::Io`] and [`ClientError::Broken`] as of
    /// [`Client::receive`].
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), ClientError> {
        let flags = if self.agreed.structured { command_flags::DF } else { 0 };
        let first = self.next_cookie;
        let mut sent = 0;
        for done in 0..into.len().div_ceil(PIECE) {
            while sent * PIECE < into.len() && sent < done + DEPTH {
                let len = PIECE.min(into.len() - sent * PIECE) as u32;
                let offset = offset + (sent * PIECE) as u64;
                let request =
                    Request { flags, command: command_code::READ, offset, len, ..Request::default() };
                self.send(request, &[])?;
                sent += 1;
            }
            let (_, answer) =
                self.receive(|cookie| into.chunks_mut(PIECE).nth(cookie.checked_sub(first)? as usize))?;
            succeeded(&answer)?;
        }
        Ok(())
    }

    /// Writes `from` to the export at `offset`, several requests at a time. No other may be under way.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), ClientError> {
        for (piece, at) in from.chunks(PIECE).zip((offset..).step_by(PIECE)) {
            if self.under_way() == DEPTH {
                succeeded(&self.receive(|_| None)?.1)?;
            }
            let (command, len) = (command_code::WRITE, piece.len() as u32);
            self.send(Request { command, offset: at, len, ..Request::default() }, piece)?;
        }
        self.finish()
    }

    /// Makes all that was written stable. No other request may be under way.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.send(Request { command: command_code::FLUSH, ..Request::default() }, &[])?;
        self.finish()
    }

    /// Takes the replies to all requests that are under way, none of which reads.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn finish(&mut self) -> Result<(), ClientError> {
        while self.under_way() > 0 {
            succeeded(&self.receive(|_| None)?.1)?;
        }
        Ok(())
    }

    /// Takes leave. The stream is closed when it is dropped.
    ///
    /// # Errors
    /// [`ClientError::Io`]: it did not go.
    pub fn close(mut self) -> Result<(), ClientError> {
        self.send(Request { command: command_code::DISC, ..Request::default() }, &[])?;
        Ok(self.stream.flush()?)
    }
}

fn succeeded(answer: &Answer) -> Result<(), ClientError> {
    match answer {
        Answer::Failed(error) => Err(ClientError::Failed(*error)),
        Answer::Done | Answer::Status(_) => Ok(()),
    }
}
