//! State that all connections of an iSCSI server share, and the part of it that one session may see.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::Io;
use brindle_volume::Volume;

use super::login::{Chap, put};
use super::nexuses::{Nexuses, SessionEntry};
use super::target::Target;
use crate::access::{Client, Right};
use crate::scsi::{Identity, Units};
use crate::session::Config;

/// Fills with bytes.
pub type Chance = Box<dyn Fn(&mut [u8])>;

/// The choices of the program that starts a server.
pub struct IscsiConfig {
    /// Memory, connections and times.
    pub session: Config,
    /// The secrets by which initiators authenticate; `None` if they need not.
    pub chap: Option<Chap>,
    /// Fills with bytes that nobody can guess.
    pub random: Chance,
}

/// State that all connections share.
pub(super) struct Shared<V> {
    pub(super) io: Io,
    pub(super) config: IscsiConfig,
    pub(super) nexuses: Nexuses<V>,
    pub(super) targets: RefCell<Vec<Rc<Target<V>>>>,
    /// Addresses as initiators are given them, with their portal groups.
    pub(super) portals: RefCell<Vec<(Option<String>, u16)>>,
    pub(super) next_session: Cell<u16>,
    /// Targets that were ever added.
    pub(super) added: Cell<usize>,
}

impl<V: Volume + 'static> Shared<V> {
    /// The target of a number, if it is still there.
    pub(super) fn target(&self, number: usize) -> Option<Rc<Target<V>>> {
        self.targets.borrow().iter().find(|target| target.number == number).cloned()
    }

    /// Names and addresses of the targets that a client may use; of all those, unless one is named.
    pub(super) fn tell_targets(&self, client: &Client, only: Option<&str>, text: &mut Vec<u8>) {
        let reported = |target: &&Rc<Target<V>>| {
            only.is_none_or(|only| only == target.name) && target.gate.right(client).is_some()
        };
        for target in self.targets.borrow().iter().filter(reported) {
            put(text, "TargetName", &target.name);
            for (address, group) in self.portals.borrow().iter() {
                if let Some(address) = address {
                    put(text, "TargetAddress", &format!("{address},{group}"));
                }
            }
        }
    }
}

/// All units, as one session may see them.
pub(super) struct Seen<'a, V> {
    pub(super) shared: &'a Shared<V>,
    pub(super) entry: &'a SessionEntry<V>,
}

impl<V: Volume + 'static> Seen<'_, V> {
    /// The volume of a target and its logical block, if the session's initiator may read it, or write to it.
    pub(super) fn volume(&self, number: usize, writes: bool) -> Option<(Rc<V>, u64)> {
        let target = self.shared.target(number)?;
        let right = target.gate.right(&self.entry.link.client())?;
        let allowed = target.unit.borrow().lets_copy(&self.entry.nexus, writes);
        let may = allowed && !(writes && right == Right::Read);
        may.then(|| (Rc::clone(&target.volume), u64::from(target.block)))
    }
}

impl<V: Volume + 'static> Units for Seen<'_, V> {
    fn find(&self, is_it: &dyn Fn(&Identity) -> bool) -> Option<(usize, u32)> {
        let (targets, client) = (self.shared.targets.borrow(), self.entry.link.client());
        let seen = |target: &&Rc<Target<V>>| is_it(&target.identity) && target.gate.right(&client).is_some();
        targets.iter().find(seen).map(|target| (target.number, target.block))
    }

    fn luns(&self) -> Vec<u64> {
        vec![0]
    }

    fn ports(&self) -> Vec<u16> {
        self.shared.portals.borrow().iter().map(|(_, group)| *group).collect()
    }

    fn only_reads(&self) -> bool {
        self.entry.right == Right::Read
    }
}
