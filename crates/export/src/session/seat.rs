//! The seat of a client among all of a server.

use std::rc::Rc;

use super::account::Account;
use super::memory::Memory;
use super::patrol;
use super::roster::Roster;

/// A client's place. The patrol watches it, and the server can end it, until this is dropped: when no request of the client is left.
pub struct Seat {
    id: u64,
    account: Rc<Account>,
    roster: Rc<Roster>,
}

impl Seat {
    /// Takes a place, which the caller has found free.
    pub(super) fn take(roster: &Rc<Roster>, account: Rc<Account>) -> Self {
        let id = roster.next_id.get();
        roster.next_id.set(id + 1);
        roster.accounts.borrow_mut().insert(id, Rc::clone(&account));
        if !roster.patrolled.replace(true) {
            roster.io.spawn(patrol::run(Rc::clone(roster)));
        }
        Self { id, account, roster: Rc::clone(roster) }
    }

    /// Counts up from 0 with each client.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The client's account.
    pub fn account(&self) -> &Rc<Account> {
        &self.account
    }

    /// Where its requests get their tickets.
    pub fn memory(&self) -> &Rc<Memory> {
        &self.roster.memory
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.roster.accounts.borrow_mut().remove(&self.id);
        self.roster.gone.notify();
    }
}
