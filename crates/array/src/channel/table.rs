//! The channels of one reactor.

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use brindle_io::Io;
use brindle_volume::Ticket;

use super::reads::Channel;
use crate::channels::shared::{LOOK, Seed};

/// The channels that a reactor beside home has, one of each array.
pub struct ChannelTable {
    io: Io,
    channels: RefCell<BTreeMap<u64, Weak<Channel>>>,
    reads: Arc<AtomicU64>,
}

impl ChannelTable {
    /// A reactor without channels, which answers home. No other task of it may take questions.
    pub fn new(io: &Io) -> Rc<Self> {
        let table = Rc::new(Self { io: io.clone(), channels: RefCell::default(), reads: Arc::default() });
        drop(io.spawn(Rc::clone(&table).answer()));
        table
    }

    /// Reads that its channels have carried out so far.
    pub fn reads(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.reads)
    }

    /// The channel of an array; `None` if the ticket is none of an array's.
    pub(super) fn open(&self, ticket: &Ticket) -> Option<Rc<Channel>> {
        let seed = ticket.downcast_ref::<Seed>()?;
        let mut channels = self.channels.borrow_mut();
        channels.retain(|_, channel| channel.strong_count() > 0);
        let place = channels.entry(seed.shared.number).or_default();
        if let Some(channel) = place.upgrade() {
            return Some(channel);
        }
        let channel = Channel::new(&self.io, seed.clone(), Arc::clone(&self.reads));
        *place = Rc::downgrade(&channel);
        Some(channel)
    }

    /// Does as home asks. Other tasks find either what was before a question, or what is after it.
    async fn answer(self: Rc<Self>) {
        loop {
            let loan = self.io.next_loan().await;
            let [kind, number, ..] = loan.question();
            let channel = self.channels.borrow().get(&number).and_then(Weak::upgrade);
            if let Some(channel) = channel.filter(|_| kind == LOOK) {
                channel.look();
            }
            loan.answer(0);
        }
    }
}
