//! The channels of one reactor.

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use brindle_io::{Io, Loan, MemberId};
use brindle_volume::Ticket;

use super::settling::to_home;
use super::state::{Channel, Gone};
use crate::channels::shared::{Ask, Seed, Tell};

/// The channels that a reactor beside home has, one of each array.
pub struct ChannelTable {
    io: Io,
    channels: RefCell<BTreeMap<u64, Weak<Channel>>>,
    /// Homes that listen to channels which are not here yet.
    listening: RefCell<BTreeMap<u64, Loan>>,
    /// Channels that have ended, or will not come, of which home does not know so yet.
    gone: Gone,
    requests: Arc<AtomicU64>,
}

impl ChannelTable {
    /// A reactor without channels, which answers home. No other task of it may take questions.
    pub fn new(io: &Io) -> Rc<Self> {
        let table = Rc::new(Self {
            io: io.clone(),
            channels: RefCell::default(),
            listening: RefCell::default(),
            gone: Gone::default(),
            requests: Arc::default(),
        });
        drop(io.spawn(Rc::clone(&table).answer_all()));
        table
    }

    /// Requests that its channels have carried out so far.
    pub fn requests(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.requests)
    }

    /// Devices, by the numbers of their home, that have not answered so many operations which were given up: writes among them may still land.
    pub fn unanswered(&self) -> Vec<(MemberId, usize)> {
        let channels: Vec<Rc<Channel>> = self.channels.borrow().values().filter_map(Weak::upgrade).collect();
        channels.iter().flat_map(|channel| channel.unanswered()).collect()
    }

    /// The channel of an array; `None` if the ticket is none of an array's.
    pub(super) fn open(&self, ticket: &Ticket) -> Option<Rc<Channel>> {
        let seed = ticket.downcast_ref::<Seed>()?;
        let number = seed.shared.number;
        let mut channels = self.channels.borrow_mut();
        channels.retain(|_, channel| channel.strong_count() > 0);
        let place = channels.entry(number).or_default();
        if let Some(channel) = place.upgrade() {
            return Some(channel);
        }
        let (all, gone) = (self.requests(), Rc::clone(&self.gone));
        let channel = Channel::new(&self.io, seed.clone(), all, gone, to_home);
        *place = Rc::downgrade(&channel);
        if self.gone.borrow_mut().remove(&number) {
            channel.telling.tell(Tell::Gone);
        }
        let listening = self.listening.borrow_mut().remove(&number);
        listening.into_iter().for_each(|loan| channel.listen(loan));
        Some(channel)
    }

    /// Does as homes ask. Other tasks find either what was before a question, or what is after it.
    async fn answer_all(self: Rc<Self>) {
        loop {
            let loan = self.io.next_loan().await;
            let [what, number, ..] = loan.question();
            let channel = self.channels.borrow().get(&number).and_then(Weak::upgrade);
            match (Ask::of(what), channel) {
                (Some(what), Some(channel)) => answer(&channel, what, loan),
                (Some(what), None) => self.answer_without(number, what, loan),
                (None, _) => loan.answer(0),
            }
        }
    }

    /// The answer of a channel that is not here.
    fn answer_without(&self, number: u64, what: Ask, loan: Loan) {
        let is_over = what == Ask::Look && loan.question()[2] != 0;
        if what == Ask::Listen {
            if self.gone.borrow_mut().remove(&number) {
                loan.answer(Tell::Gone.word());
            } else {
                self.listening.borrow_mut().insert(number, loan);
            }
            return;
        }
        loan.answer(0);
        if is_over {
            let listening = self.listening.borrow_mut().remove(&number);
            match listening {
                Some(listening) => listening.answer(Tell::Gone.word()),
                None => drop(self.gone.borrow_mut().insert(number)),
            }
        }
    }
}

fn answer(channel: &Rc<Channel>, what: Ask, loan: Loan) {
    let [.., one, two] = loan.question();
    let answer = match what {
        Ask::Look => {
            channel.look();
            if one != 0 {
                channel.is_over();
            }
            0
        }
        Ask::Listen => return channel.listen(loan),
        Ask::Lease => u64::from(channel.lease(one, two)),
        Ask::GiveBack => return channel.give_back(loan),
        Ask::GiveUp => {
            channel.give_up(one);
            0
        }
        Ask::Hurry => {
            channel.hurry(one);
            0
        }
        Ask::Settled => {
            channel.settlements.settled(one as u32, two == 1);
            0
        }
    };
    loan.answer(answer);
}
