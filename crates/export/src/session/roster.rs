//! The connections of a server, as all that watches over them sees them.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_io::Io;
use brindle_io::sync::Notify;

use super::config::{Config, VISITS};
use super::link::Link;
use super::memory::Memory;

pub(super) struct Roster {
    pub(super) io: Io,
    pub(super) config: Config,
    pub(super) memory: Rc<Memory>,
    /// Indexed by number, oldest first.
    pub(super) links: RefCell<BTreeMap<u64, Rc<Link>>>,
    pub(super) patrolled: Cell<bool>,
    /// A connection has ended.
    pub(super) gone: Notify,
}

impl Roster {
    pub(super) fn new(io: &Io, config: Config) -> Rc<Self> {
        Rc::new(Self {
            io: io.clone(),
            config,
            memory: Rc::new(Memory::new(io, &config)),
            links: RefCell::default(),
            patrolled: Cell::new(false),
            gone: Notify::new(io),
        })
    }

    /// Whether there is a place for one more connection.
    pub(super) fn has_place(&self) -> bool {
        self.links.borrow().values().filter(|link| !link.is_visit()).count() < self.config.connections
    }

    /// Waits until there are no connections.
    pub(super) async fn emptied(&self) {
        self.gone.until(|| self.links.borrow().is_empty().then_some(())).await;
    }
}

/// The places of clients that only want to learn of exports.
pub(crate) struct Visits(pub(super) Rc<Roster>);

impl Visits {
    /// Gives a client one of these places; if there are too many, the one makes room that has been silent for longest.
    pub(crate) fn enter(&self, link: &Link) {
        link.visits();
        let links = self.0.links.borrow();
        let visits = || links.values().filter(|link| link.is_visit() && !link.is_closed());
        if visits().count() > VISITS {
            visits().min_by_key(|link| link.last_heard()).into_iter().for_each(|link| link.close());
        }
        // Its other place is free.
        self.0.gone.notify();
    }
}
