//! A mount: one task receives calls and sorts them out, some carry them out, one sends the answers.
//!
//! Every call that has an answer holds a [`Ticket`](crate::session::Ticket) until that is sent, as requests of all protocols do.

mod edges;
mod perform;
mod receive;
mod send;

use std::rc::Rc;

use brindle_io::{Buf, Duration, SocketId};
use brindle_volume::{Limits, Volume};

use super::folder::Folder;
use crate::session::{Account, Export, Memory, Replies, Seat, Slots};
use edges::Edges;
use perform::Performed;
pub(super) use receive::INBOX;
pub(super) use send::HEADERS;
use send::Reply;

/// All that the tasks of one mount share.
pub(super) struct Mount<V> {
    account: Rc<Account>,
    memory: Rc<Memory>,
    export: Rc<Export<V>>,
    port: SocketId,
    folder: Folder,
    limits: Limits,
    /// Bytes of a read or write at most.
    largest: u32,
    grace: Duration,
    replies: Replies<Reply>,
    slots: Slots<Performed>,
    edges: Edges,
}

impl<V: Volume + 'static> Mount<V> {
    pub(super) fn new(
        seat: &Seat,
        export: Rc<Export<V>>,
        port: SocketId,
        (folder, limits): (Folder, Limits),
        (largest, grace): (u32, Duration),
    ) -> Rc<Self> {
        let (account, memory) = (Rc::clone(seat.account()), Rc::clone(seat.memory()));
        let replies = Replies::new(&account.io);
        let edges = Edges::new(&account.io, limits.block);
        let slots = Slots::default();
        Rc::new(Self { account, memory, export, port, folder, limits, largest, grace, replies, slots, edges })
    }

    /// Serves the mount to its end: when this returns the kernel has its descriptor back, and nothing of the mount is left.
    pub(super) async fn run(self: &Rc<Self>, inbox: Buf, headers: Buf) {
        let account = &self.account;
        let sender = account.io.spawn(send::run(Rc::clone(self), headers));
        let end = self.receive(inbox).await;
        account.ends();
        if end == crate::session::End::Orderly {
            self.slots.answer_the_last(account, account.drained(), self.grace).await;
        }
        account.close();
        account.drained().await;
        self.slots.end().await;
        self.replies.finish();
        sender.await;
    }
}
