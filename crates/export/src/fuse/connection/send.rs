//! The sender: all answers that are ready go out side by side, each a message of its own.

use core::ops::Range;
use std::rc::Rc;

use brindle_io::{Buf, Slice};

use super::Mount;
use crate::fuse::proto::{Answer, LONGEST};
use crate::session::{Replies, Ticket};

/// Answers that go out at a time.
const MOST: usize = 48;

/// Bytes of the buffer for what is no data.
pub(crate) const HEADERS: usize = MOST * PLACE;
/// Bytes from one answer in it to the next.
const PLACE: usize = LONGEST.next_multiple_of(8);

/// An answer on its way to the sender.
pub(super) struct Reply {
    pub(super) unique: u64,
    pub(super) answer: Answer,
    /// The bytes of the ticket's memory that follow it.
    pub(super) data: Range<usize>,
    pub(super) ticket: Ticket,
}

/// The answers that go out at a time.
struct Outbox {
    headers: Buf,
    stretches: Vec<Slice>,
    /// Each answer's stretches.
    messages: Vec<Range<usize>>,
    tickets: Vec<Ticket>,
}

/// Sends until there will be nothing more. Once the account is closed, answers are dropped.
pub(super) async fn run<V>(mount: Rc<Mount<V>>, headers: Buf) {
    let Mount { account, replies, port, .. } = &*mount;
    let mut out = Outbox {
        headers,
        stretches: Vec::with_capacity(2 * MOST),
        messages: Vec::with_capacity(MOST),
        tickets: Vec::with_capacity(MOST),
    };
    while replies.wait().await {
        out.collect(replies);
        if !account.is_closed() {
            let Outbox { stretches, messages, .. } = &out;
            let messages = messages.iter().map(|message| &stretches[message.clone()]);
            // Errors are of calls that nobody waits for any more, or of a mount that has ended, which the receiver learns.
            account.io.send_messages(*port, messages).await;
        }
        out.stretches.clear();
        out.messages.clear();
        out.tickets.clear();
    }
}

impl Outbox {
    fn collect(&mut self, replies: &Replies<Reply>) {
        while self.messages.len() < MOST {
            let Some(Reply { unique, answer, data, ticket }) = replies.next() else { break };
            let at = self.messages.len() * PLACE;
            let len = answer.put(unique, &mut self.headers.bytes_mut()[at..at + PLACE]);
            let first = self.stretches.len();
            self.stretches.push(self.headers.slice(at..at + len));
            if !data.is_empty() {
                self.stretches.push(ticket.memory().slice(data));
            }
            self.messages.push(first..self.stretches.len());
            self.tickets.push(ticket);
        }
    }
}
