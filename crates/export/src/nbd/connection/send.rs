//! The sender: all replies that are ready go out with one send.

use std::rc::Rc;

use brindle_io::{Buf, Slice};

use super::{Link, Ticket};
use crate::nbd::proto::{CHUNK_DONE, ChunkHeader, Errno, SimpleReply, chunk_type, error_payload};

/// Bytes of the buffer for reply headers of one send.
pub(crate) const OUTBOX: usize = 8 * 1024;
/// The longest header, an error chunk with its message. Bytes.
const LONGEST: usize = 128;
/// No more replies are added to a send that has as many bytes, and larger data are sent piece by piece: each piece
/// that goes shows that the client is alive.
const PIECE: usize = 1 << 20;
/// The most stretches of memory in a send.
const STRETCHES: usize = 256;

/// A reply on its way to the sender.
pub(super) struct Answer {
    pub(super) cookie: u64,
    pub(super) body: Body,
    pub(super) ticket: Ticket,
}

pub(super) enum Body {
    Done,
    Failed(Errno),
    Data {
        offset: u64,
        data: Buf,
    },
    /// The payload of a block status chunk: the first `bytes` of `data`.
    Status {
        data: Buf,
        bytes: usize,
    },
}

/// What goes out with one send.
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
pub(super) async fn run(link: Rc<Link>, headers: Buf, structured: bool) {
    let mut batch = Batch {
        headers,
        structured,
        stretches: Vec::with_capacity(STRETCHES),
        bytes: 0,
        tickets: Vec::with_capacity(STRETCHES),
        rest: None,
    };
    while batch.rest.is_some() || link.work_for_sender().await {
        batch.collect(&link);
        if link.is_closed() {
            batch.rest = None;
        } else {
            link.sending_since.set(Some(link.io.now()));
            let sent = link.io.send(link.socket, &batch.stretches).await;
            link.sending_since.set(None);
            if sent.is_err() {
                link.close();
            }
        }
        batch.stretches.clear();
        batch.tickets.clear();
    }
}

impl Batch {
    fn collect(&mut self, link: &Link) {
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
            let Some(Answer { cookie, body, ticket }) = link.next_answer() else { break };
            let len = self.header(used, cookie, &body);
            self.stretch(self.headers.slice(used..used + len));
            used += len;
            match body {
                Body::Done | Body::Failed(_) => self.tickets.push(ticket),
                Body::Data { data, .. } => self.data(data.all(), ticket),
                Body::Status { data, bytes } => self.data(data.slice(0..bytes), ticket),
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

    /// Writes a reply's header at `at` of the outbox; returns its bytes.
    fn header(&self, at: usize, cookie: u64, body: &Body) -> usize {
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
            Body::Data { offset, data } => {
                put(&chunk(chunk_type::OFFSET_DATA, 8 + data.len()));
                put(&offset.to_be_bytes());
            }
            Body::Status { bytes, .. } => put(&chunk(chunk_type::BLOCK_STATUS, *bytes)),
            Body::Done => {}
        }
        end - at
    }
}
