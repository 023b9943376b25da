//! The connections of a server, as all that watches over them sees them.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_io::Io;
use brindle_io::sync::Notify;

use super::account::Account;
use super::config::{Config, VISITS};
use super::memory::Memory;

pub(super) struct Roster {
    pub(super) io: Io,
    pub(super) config: Config,
    pub(super) memory: Rc<Memory>,
    /// Indexed by number, oldest first.
    pub(super) accounts: RefCell<BTreeMap<u64, Rc<Account>>>,
    pub(super) next_id: Cell<u64>,
    pub(super) patrolled: Cell<bool>,
    /// Bytes of the memory that are held by clients of these that do not move.
    pub(super) stuck: Cell<usize>,
    /// A connection has ended.
    pub(super) gone: Notify,
}

impl Roster {
    pub(super) fn new(io: &Io, config: Config, memory: Rc<Memory>) -> Rc<Self> {
        Rc::new(Self {
            io: io.clone(),
            config,
            memory,
            stuck: Cell::new(0),
            accounts: RefCell::default(),
            next_id: Cell::new(0),
            patrolled: Cell::new(false),
            gone: Notify::new(io),
        })
    }

    /// Whether there is a place for one more connection.
    pub(super) fn has_place(&self) -> bool {
        self.accounts.borrow().values().filter(|account| !account.is_visit()).count()
            < self.config.connections
    }

    /// Waits until there are no connections.
    pub(super) async fn emptied(&self) {
        self.gone.until(|| self.accounts.borrow().is_empty().then_some(())).await;
    }
}

/// The places of clients that only want to learn of exports.
pub(crate) struct Visits(pub(super) Rc<Roster>);

impl Visits {
    /// Gives a client one of these places; if there are too many, the one makes room that has been silent for longest.
    pub(crate) fn enter(&self, account: &Account) {
        account.visits();
        let accounts = self.0.accounts.borrow();
        let visits = || accounts.values().filter(|account| account.is_visit() && !account.is_closed());
        if visits().count() > VISITS {
            visits()
                .min_by_key(|account| account.last_heard())
                .into_iter()
                .for_each(|account| account.close());
        }
        // Its other place is free.
        self.0.gone.notify();
    }
}
