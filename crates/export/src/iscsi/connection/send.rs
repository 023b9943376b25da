//! The sender: all PDUs that are ready go out with one send.

use core::cell::Cell;
use std::rc::Rc;

use brindle_io::{Buf, Io, Slice};

use super::Connection;
use super::task::Open;
use crate::iscsi::login::Agreed;
use crate::iscsi::pdu::{BHS, FINAL, Header, digest, response};
use crate::session::{PIECE, Replies, STRETCHES, Ticket};

/// The most data of a PDU that go with its header. Bytes.
pub(super) const SMALL: usize = 1024;
/// The longest header, with such data and digests.
const LONGEST: usize = BHS + 4 + SMALL + 4;

/// An answer to be sent.
pub(super) struct Answer {
    pub(super) body: Body,
    pub(super) ticket: Option<Ticket>,
    pub(super) open: Option<Open>,
}

pub(super) enum Body {
    /// A PDU with a little data, which has a number of its own or not.
    Pdu { header: Header, data: Vec<u8>, counts: bool },
    /// A PDU with the ticket's memory as its data.
    Long { header: Header, len: usize },
    /// Data that were read, in as many PDUs as it takes; the last one has the status GOOD.
    Data { task: u32, len: usize, residual: (u8, u32) },
    /// Closes the connection after everything queued before.
    Close,
}

/// PDUs that wait for the sender.
pub(super) struct Outgoing {
    pub(super) queue: Replies<Answer>,
    /// Some are being sent.
    busy: Cell<bool>,
    /// The number of the next status.
    status: Cell<u32>,
}

/// Most answers without commands that wait; beyond that nothing is received until some have been sent.
pub(super) const MOST_WAITING: usize = 256;

impl Outgoing {
    pub(super) fn new(io: &Io, status: u32) -> Self {
        Self { queue: Replies::new(io), busy: Cell::new(false), status: Cell::new(status) }
    }

    #[inline]
    pub(super) fn push(&self, answer: Answer) {
        self.queue.push(answer);
    }

    /// A PDU that belongs to no command.
    pub(super) fn push_pdu(&self, header: Header, data: Vec<u8>, counts: bool) {
        self.push(Answer { body: Body::Pdu { header, data, counts }, ticket: None, open: None });
    }

    /// All that was to be sent has been.
    pub(super) fn is_quiet(&self) -> bool {
        !self.busy.get() && self.queue.is_empty()
    }
}

/// Data of which part has been sent.
struct Rest {
    answer: Answer,
    task: u32,
    len: usize,
    residual: (u8, u32),
    done: usize,
    number: u32,
}

/// The PDUs that go out with one send.
struct Batch {
    agreed: Agreed,
    headers: Buf,
    used: usize,
    stretches: Vec<Slice>,
    bytes: usize,
    sent: Vec<Answer>,
    rest: Option<Rest>,
    closes: bool,
}

/// Sends until there will be nothing more. Once the link is closed, answers are dropped.
pub(super) async fn run<V>(connection: Rc<Connection<V>>, headers: Buf) {
    let Connection { link, replies, agreed, .. } = &*connection;
    let mut batch = Batch {
        agreed: *agreed,
        headers,
        used: 0,
        stretches: Vec::with_capacity(STRETCHES),
        bytes: 0,
        sent: Vec::with_capacity(STRETCHES),
        rest: None,
        closes: false,
    };
    while batch.rest.is_some() || replies.queue.wait().await {
        replies.busy.set(true);
        if link.is_closed() {
            batch.rest = None;
            replies.queue.drop_all();
        } else {
            batch.collect(&connection);
        }
        if !batch.stretches.is_empty() {
            link.reply(&batch.stretches).await;
        }
        batch.stretches.clear();
        batch.sent.clear();
        replies.busy.set(batch.rest.is_some());
        replies.queue.changed.notify();
        if core::mem::take(&mut batch.closes) {
            link.close();
        }
    }
}

impl Batch {
    fn has_room(&self) -> bool {
        self.bytes < PIECE
            && self.stretches.len() + 3 <= STRETCHES
            && self.used + LONGEST + 8 <= self.headers.len()
    }

    fn collect<V>(&mut self, connection: &Connection<V>) {
        (self.bytes, self.used) = (0, 0);
        while self.has_room() && !self.closes {
            if let Some(rest) = self.rest.take() {
                self.data(connection, rest);
                continue;
            }
            let Some(mut answer) = connection.replies.queue.next() else { break };
            if !matches!(answer.body, Body::Data { .. }) {
                // This PDU says already that one more command may come.
                answer.open = None;
            }
            match answer.body {
                Body::Pdu { header, ref data, counts } => {
                    let header = header.with_data(data.len());
                    self.small(numbered(connection, header, counts), data);
                    self.sent.push(answer);
                }
                Body::Long { header, len } => {
                    let header = numbered(connection, header.with_data(len), true);
                    let memory = answer.ticket.as_ref().map(|ticket| ticket.memory().slice(0..len));
                    self.small(header, &[]);
                    self.long(memory);
                    self.sent.push(answer);
                }
                Body::Data { task, len, residual } => {
                    self.rest = Some(Rest { answer, task, len, residual, done: 0, number: 0 });
                }
                Body::Close => self.closes = true,
            }
        }
    }

    /// Adds as many Data-In PDUs as there is room for.
    fn data<V>(&mut self, connection: &Connection<V>, mut rest: Rest) {
        let Some(memory) = rest.answer.ticket.as_ref().map(|ticket| ticket.memory().clone()) else { return };
        while rest.done < rest.len {
            if !self.has_room() {
                self.rest = Some(rest);
                return;
            }
            let in_burst = self.agreed.burst - rest.done % self.agreed.burst;
            let len = self.agreed.most_sent.min(in_burst).min(rest.len - rest.done);
            let last = rest.done + len == rest.len;
            if last {
                rest.answer.open = None;
            }
            let ends = last || len == in_burst;
            let header = Header::new(response::DATA, rest.task).with_data(len);
            let (flags, residual) = if last { rest.residual } else { (0, 0) };
            // The status comes with the last one.
            let flags = if ends { FINAL } else { 0 } | if last { flags | 0x01 } else { 0 };
            let header = header.byte(1, flags).with(20, u32::MAX).with(44, residual);
            let header = header.with(36, rest.number).with(40, rest.done as u32);
            self.small(numbered(connection, header, last), &[]);
            self.long(Some(memory.slice(rest.done..rest.done + len)));
            rest.done += len;
            rest.number += 1;
        }
        self.sent.push(rest.answer);
    }

    /// Writes to the headers' buffer; returns where that begins.
    fn put(&mut self, parts: &[&[u8]]) -> usize {
        let from = self.used;
        let mut bytes = self.headers.bytes_mut();
        for part in parts {
            bytes[self.used..self.used + part.len()].copy_from_slice(part);
            self.used += part.len();
        }
        from
    }

    fn stretch(&mut self, from: usize) {
        if from < self.used {
            self.stretches.push(self.headers.slice(from..self.used));
        }
    }

    /// A header with the data that go with it.
    fn small(&mut self, header: Header, data: &[u8]) {
        let sum = if self.agreed.header_digest { digest([&header.0[..]]).to_vec() } else { Vec::new() };
        let padding = &[0; 3][..data.len().next_multiple_of(4) - data.len()];
        let from = self.put(&[&header.0, &sum, data, padding]);
        if !data.is_empty() && self.agreed.data_digest {
            self.put(&[&digest([data, padding])]);
        }
        self.stretch(from);
    }

    /// Data from memory, behind their header.
    fn long(&mut self, memory: Option<Slice>) {
        let Some(memory) = memory else { return };
        let padding = &[0; 3][..memory.len().next_multiple_of(4) - memory.len()];
        let sum =
            if self.agreed.data_digest { digest([&*memory.bytes(), padding]).to_vec() } else { Vec::new() };
        self.bytes += memory.len();
        self.stretches.push(memory);
        let from = self.put(&[padding, &sum]);
        self.stretch(from);
    }
}

/// A header with the numbers that all have. StatSN goes on with what has a status.
fn numbered<V>(connection: &Connection<V>, header: Header, counts: bool) -> Header {
    let status = connection.replies.status.get();
    let is_data = header.opcode() == response::DATA;
    if counts {
        connection.replies.status.set(status.wrapping_add(1));
    }
    let (expected, most) = connection.numbers();
    // StatSN of a Data-In PDU counts only if the PDU has a status.
    let status = if is_data && !counts { 0 } else { status };
    header.with(24, status).with(28, expected).with(32, most)
}
