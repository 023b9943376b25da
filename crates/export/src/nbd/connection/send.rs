//! The sender: all replies that are ready go out with one send.

use std::rc::Rc;

use brindle_io::{Buf, Slice};

use super::Transmission;
use crate::nbd::proto::{CHUNK_DONE, ChunkHeader, Errno, SimpleReply, chunk_type, error_payload};
use crate::session::{PIECE, Replies, STRETCHES, Ticket};

/// The longest header, an error chunk with its message. Bytes.
const LONGEST: usize = 128;
/// A reply on its way to the sender.
pub(super) struct Answer {
    pub(super) cookie: u64,
    pub(super) body: Body,
    pub(super) ticket: Ticket,
}

pub(crate) enum Body {
    Done,
    Failed(Errno),
    /// The ticket's memory is the content at `offset`.
    Data {
        offset: u64,
    },
    /// The payload of a block status chunk: the first `bytes` of the ticket's memory.
    Status {
        bytes: usize,
    },
}

/// The replies that go out with one send.
struct Batch {
    headers: Buf,
    structured: bool,
    stretches: Vec<Slice>,
    bytes: usize,
    tickets: Vec<Ticket>,
    /// Data that did not fit in the last send.
    rest: Option<(Slice, Ticket)>,
}

/// Sends until there will be nothing more. Once the link is closed, replies are dropped.
pub(super) async fn run<V>(transmission: Rc<Transmission<V>>, headers: Buf) {
    let Transmission { link, replies, terms, export, .. } = &*transmission;
    let mut batch = Batch {
        headers,
        structured: terms.structured,
        stretches: Vec::with_capacity(STRETCHES),
        bytes: 0,
        tickets: Vec::with_capacity(STRETCHES),
        rest: None,
    };
    while batch.rest.is_some() || replies.wait().await {
        batch.collect(replies);
        export.tell();
        if link.is_closed() {
            batch.rest = None;
        } else {
            link.reply(&batch.stretches).await;
        }
        batch.stretches.clear();
        batch.tickets.clear();
    }
}

impl Batch {
    fn collect(&mut self, replies: &Replies<Answer>) {
        self.bytes = 0;
        if let Some((rest, ticket)) = self.rest.take() {
            self.data(rest, ticket);
        }
        let mut used = 0;
        while self.rest.is_none()
            && self.bytes < PIECE
            && self.stretches.len() + 2 <= STRETCHES
            && used + LONGEST <= self.headers.len()
        {
            let Some(Answer { cookie, body, ticket }) = replies.next() else { break };
            let data = match body {
                Body::Done | Body::Failed(_) => None,
                Body::Data { .. } => Some(ticket.memory().clone()),
                Body::Status { bytes } => Some(ticket.memory().slice(0..bytes)),
            };
            let len = self.header(used, cookie, &body, data.as_ref().map_or(0, Slice::len));
            self.stretch(self.headers.slice(used..used + len));
            used += len;
            match data {
                None => self.tickets.push(ticket),
                Some(data) => self.data(data, ticket),
            }
        }
    }

    fn stretch(&mut self, slice: Slice) {
        self.bytes += slice.len();
        self.stretches.push(slice);
    }

    fn data(&mut self, data: Slice, ticket: Ticket) {
        if data.len() <= PIECE {
            self.stretch(data);
            self.tickets.push(ticket);
        } else {
            self.stretch(data.slice(0..PIECE));
            self.rest = Some((data.slice(PIECE..data.len()), ticket));
        }
    }

    /// Writes the header of a reply with `len` bytes of data at `at` of the outbox; returns the header's bytes.
    fn header(&self, at: usize, cookie: u64, body: &Body, len: usize) -> usize {
        let mut bytes = self.headers.bytes_mut();
        let mut end = at;
        let mut put = |part: &[u8]| {
            bytes[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        };
        if !self.structured || matches!(body, Body::Done) {
            let error = if let Body::Failed(error) = body { *error as u32 } else { 0 };
            put(&SimpleReply { error, cookie }.encode());
            return end - at;
        }
        let chunk =
            |kind, len: usize| ChunkHeader { flags: CHUNK_DONE, kind, cookie, len: len as u32 }.encode();
        match body {
            Body::Failed(error) => {
                let message = error.message().as_bytes();
                put(&chunk(chunk_type::ERROR, 6 + message.len()));
                put(&error_payload(*error));
                put(message);
            }
            Body::Data { offset } => {
                put(&chunk(chunk_type::OFFSET_DATA, 8 + len));
                put(&offset.to_be_bytes());
            }
            Body::Status { .. } => put(&chunk(chunk_type::BLOCK_STATUS, len)),
            Body::Done => {}
        }
        end - at
    }
}
