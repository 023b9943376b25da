//! The connections of a server, as all that watches over them sees them.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_io::Io;
use brindle_io::sync::Notify;

use super::config::Config;
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

    /// Waits until there are no connections.
    pub(super) async fn emptied(&self) {
        self.gone.until(|| self.links.borrow().is_empty().then_some(())).await;
    }
}
