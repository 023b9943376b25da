//! Whether a client takes anything at all of its replies, counted in rounds.
//!
//! A send under way tells little, since it ends when all of it has found room in the socket. Small replies that the
//! client does not read make it look idle. A large reply that it takes drop by drop makes it look deaf. So what the
//! socket holds is looked at. A client is thought deaf only if that did not change in either direction, and nothing
//! was added: as something is added, the same amount as before says that something was taken.
//!
//! One that goes on asking and reads nothing is not thought deaf before its socket is full, or it has asked for as many
//! requests as it may. A client that reads is never taken to be deaf, as far as the kernel reports its reads (see
//! [`brindle_io::Io::untaken`]).

use core::cell::Cell;

use super::client_progress::Motion;

#[derive(Default)]
pub(super) struct Unread {
    /// Sends so far, and the bytes in the socket, at the last look.
    last: Cell<(u32, u64)>,
    rounds: Cell<u32>,
}

impl Unread {
    /// A round is over: bytes being sent, and bytes that the other end has not taken.
    pub(super) fn look(&self, taking: &Motion, untaken: Option<u64>) {
        let now = (taking.begun(), untaken.unwrap_or(0));
        let unmoved = self.last.replace(now) == now;
        let waiting = untaken.is_some_and(|bytes| bytes > 0 || taking.is_awaited());
        self.rounds.set(if unmoved && waiting { self.rounds.get().saturating_add(1) } else { 0 });
    }

    /// Whole rounds in which nothing was taken though something is there.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.get()
    }
}
