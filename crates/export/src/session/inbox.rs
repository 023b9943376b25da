//! Bytes that have come from a socket and have not been parsed yet.

use brindle_io::{Buf, Bytes, Io, OpError, Slice, SocketId};

use super::link::Link;

/// Bytes of an inbox: many requests, or the data of many small writes, come with one receive.
pub(crate) const INBOX: usize = 128 * 1024;

pub(crate) struct Inbox {
    buf: Buf,
    start: usize,
    end: usize,
}

impl Inbox {
    pub(crate) fn new(buf: Buf) -> Self {
        Self { buf, start: 0, end: 0 }
    }

    /// Puts bytes into an inbox that is empty: no more than one of its kind can have.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.buf.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        (self.start, self.end) = (0, bytes.len());
    }

    /// Bytes that are there.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The bytes that are there, as a guard: dereference and take `[..len]` of it.
    pub(crate) fn bytes(&self) -> Peeked<'_> {
        Peeked { bytes: self.buf.bytes(), start: self.start, end: self.end }
    }

    /// The first bytes, if there are as many.
    #[inline]
    pub(crate) fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        self.bytes().first_chunk().copied()
    }

    /// Forgets the first bytes.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Moves as much as is there and fits to `into`; returns the count of bytes.
    pub(crate) fn move_to(&mut self, into: &Slice) -> usize {
        let count = self.len().min(into.len());
        into.bytes_mut()[..count].copy_from_slice(&self.bytes()[..count]);
        self.consume(count);
        count
    }

    /// Receives once, after what is there; returns the count of bytes, 0 at the end of the stream.
    pub(crate) async fn receive(&mut self, link: &Link) -> Result<usize, OpError> {
        let room = self.room();
        let count = link.recv(&room).await?;
        self.end += count.min(room.len());
        Ok(count)
    }

    /// Receives from a socket that has no link.
    pub(crate) async fn receive_from(&mut self, io: &Io, socket: SocketId) -> Result<usize, OpError> {
        let room = self.room();
        let count = io.recv(socket, &room).await?;
        self.end += count.min(room.len());
        Ok(count)
    }

    /// The free room after the bytes that are there.
    fn room(&mut self) -> Slice {
        if self.start > 0 {
            if self.start < self.end {
                self.buf.bytes_mut().copy_within(self.start..self.end, 0);
            }
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.buf.slice(self.end..self.buf.len())
    }
}

/// A look at an inbox's bytes.
pub(crate) struct Peeked<'a> {
    bytes: Bytes<'a>,
    start: usize,
    end: usize,
}

impl core::ops::Deref for Peeked<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}
