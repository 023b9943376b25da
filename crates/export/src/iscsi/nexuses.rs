//! Connections in full feature phase: whose commands are where, and how they are aborted.

use core::cell::RefCell;
use std::rc::Rc;

use brindle_io::Io;
use brindle_io::sync::Notify;

use super::connection::task::{Abort, Command};
use super::target::Target;
use crate::access::Right;
use crate::scsi::reservation::Nexus;
use crate::session::Link;

/// A session, as others see it.
pub(super) struct SessionEntry<V> {
    pub(super) id: u64,
    pub(super) nexus: Nexus,
    /// With its target.
    pub(super) right: Right,
    /// `None` for discovery.
    pub(super) target: Option<Rc<Target<V>>>,
    pub(super) link: Rc<Link>,
    /// Commands that have not been answered.
    pub(super) commands: RefCell<Vec<Rc<Command>>>,
}

/// All sessions of a server.
pub(super) struct Nexuses<V> {
    entries: RefCell<Vec<Rc<SessionEntry<V>>>>,
    gone: Notify,
}

impl<V> Nexuses<V> {
    pub(super) fn new(io: &Io) -> Self {
        Self { entries: RefCell::default(), gone: Notify::new(io) }
    }

    pub(super) fn add(&self, entry: &Rc<SessionEntry<V>>) {
        self.entries.borrow_mut().push(Rc::clone(entry));
    }

    pub(super) fn remove(&self, entry: &Rc<SessionEntry<V>>) {
        self.entries.borrow_mut().retain(|one| !Rc::ptr_eq(one, entry));
        self.gone.notify();
    }

    /// The session of an initiator port with a target, if there is one.
    pub(super) fn find(&self, nexus: &Nexus, target: &Rc<Target<V>>) -> Option<Rc<SessionEntry<V>>> {
        let same = |entry: &&Rc<SessionEntry<V>>| {
            entry.nexus == *nexus && entry.target.as_ref().is_some_and(|one| Rc::ptr_eq(one, target))
        };
        self.entries.borrow().iter().find(same).cloned()
    }

    /// Whether one who has proved this name, or none, may have a session of an initiator with a target beside those that there are.
    pub(super) fn belong_to(&self, initiator: &str, proved: Option<&str>, target: &Rc<Target<V>>) -> bool {
        let own = |entry: &Rc<SessionEntry<V>>| {
            entry.nexus.initiator_name() != initiator || entry.nexus.owner.as_deref() == proved
        };
        self.of(target).iter().all(own)
    }

    /// Ends a session, and waits until nothing of it is left.
    pub(super) async fn end(&self, entry: &Rc<SessionEntry<V>>) {
        entry.link.close();
        let left = || !self.entries.borrow().iter().any(|one| Rc::ptr_eq(one, entry));
        self.gone.until(|| left().then_some(())).await;
    }

    /// The sessions with a target.
    pub(super) fn of(&self, target: &Rc<Target<V>>) -> Vec<Rc<SessionEntry<V>>> {
        let with =
            |entry: &&Rc<SessionEntry<V>>| entry.target.as_ref().is_some_and(|one| Rc::ptr_eq(one, target));
        self.entries.borrow().iter().filter(with).cloned().collect()
    }

    /// Aborts all commands of a target's sessions for which `which`; those of nexuses other than `by` end with a
    /// status. Returns them.
    pub(super) fn abort(
        &self,
        target: &Rc<Target<V>>,
        by: &Nexus,
        which: impl Fn(&SessionEntry<V>) -> bool,
    ) -> Vec<Rc<Command>> {
        let mut aborted = Vec::new();
        for entry in self.of(target).iter().filter(|entry| which(entry)) {
            let how = if entry.nexus == *by { Abort::Silently } else { Abort::WithStatus };
            for command in entry.commands.borrow().iter() {
                command.abort(how);
                aborted.push(Rc::clone(command));
            }
        }
        aborted
    }
}
