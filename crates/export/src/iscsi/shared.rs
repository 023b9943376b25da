//! State that all connections of an iSCSI server share, and the part of it that one session may see.

use core::cell::{Cell, RefCell};
use core::net::SocketAddr;
use std::rc::Rc;

use brindle_io::Io;
use brindle_volume::Volume;

use super::login::{Chap, put};
use super::nexuses::{Nexuses, SessionEntry};
use super::target::Target;
use crate::access::Right;
use crate::scsi::{Identity, Units};
use crate::session::{Config, Exports, Link};

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

/// A portal as initiators are told of it.
pub(super) struct PortalAddress {
    /// The address that they are given; `None`: the one that each has reached.
    pub(super) given: Option<String>,
    /// The address at which it listens, if it is one of a network.
    pub(super) listens: Option<SocketAddr>,
    pub(super) group: u16,
}

impl PortalAddress {
    /// The address for an initiator that has reached this one of the portal of that group.
    fn told(&self, reached: Option<SocketAddr>, group: u16) -> Option<String> {
        if let Some(given) = &self.given {
            return Some(given.clone());
        }
        let (ip, listens) = (reached?.ip().to_canonical(), self.listens?);
        let leads_here = group == self.group || ip.is_ipv4() == listens.is_ipv4();
        leads_here.then(|| SocketAddr::new(ip, listens.port()).to_string())
    }
}

/// State that all connections share.
pub(super) struct Shared<V> {
    pub(super) io: Io,
    pub(super) config: IscsiConfig,
    /// The secrets that hold now.
    pub(super) chap: RefCell<Option<Rc<Chap>>>,
    pub(super) nexuses: Nexuses<V>,
    pub(super) targets: Exports<Target<V>>,
    /// Each is a portal group of its own.
    pub(super) portals: RefCell<Vec<PortalAddress>>,
    pub(super) next_session: Cell<u16>,
}

impl<V: Volume + 'static> Shared<V> {
    /// Whether an initiator that has proved this name, or none, may have its own with a target: it may be another's by the secrets, by
    /// a session, or by what is registered.
    pub(super) fn may_be_called(
        &self,
        target: &Rc<Target<V>>,
        initiator: &str,
        proved: Option<&str>,
    ) -> bool {
        let chap = self.chap.borrow();
        let by_secrets = match (chap.as_ref(), proved) {
            (Some(chap), Some(proved)) => chap.lets_be_called(initiator, proved),
            _ => true,
        };
        by_secrets
            && self.nexuses.belong_to(initiator, proved, target)
            && target.unit.borrow().reservations().belong_to(initiator, proved)
    }

    /// Names and addresses of the targets that a client of a link, which has come by the portal of a group, may use; of all those, unless
    /// one is named.
    pub(super) fn tell_targets(&self, link: &Link, group: u16, only: Option<&str>, text: &mut Vec<u8>) {
        let (client, reached) = (link.client(), link.io.local(link.socket));
        let reported = |target: &&Rc<Target<V>>| {
            only.is_none_or(|only| only == target.name) && target.gate.right(&client).is_some()
        };
        for target in self.targets.all().iter().filter(reported) {
            put(text, "TargetName", &target.name);
            for portal in self.portals.borrow().iter() {
                if let Some(address) = portal.told(reached, group) {
                    put(text, "TargetAddress", &format!("{address},{}", portal.group));
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
        let target = self.shared.targets.numbered(number)?;
        let right = target.gate.right(&self.entry.link.client())?;
        let allowed = target.unit.borrow().lets_copy(&self.entry.nexus, writes);
        let may = allowed && !(writes && right == Right::Read);
        may.then(|| (Rc::clone(&target.volume), u64::from(target.block)))
    }
}

impl<V: Volume + 'static> Units for Seen<'_, V> {
    fn find(&self, is_it: &dyn Fn(&Identity) -> bool) -> Option<(usize, u32)> {
        let client = self.entry.link.client();
        let seen = |target: &Target<V>| is_it(&target.identity) && target.gate.right(&client).is_some();
        self.shared.targets.find(seen).map(|target| (target.number, target.block))
    }

    fn luns(&self) -> Vec<u64> {
        vec![0]
    }

    fn ports(&self) -> Vec<u16> {
        self.shared.portals.borrow().iter().map(|portal| portal.group).collect()
    }

    fn only_reads(&self) -> bool {
        self.entry.right == Right::Read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_initiator_is_told_the_address_that_it_has_reached() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let portal = |listens: &str, group| PortalAddress { given: None, listens: Some(at(listens)), group };
        let [four, six] = [portal("0.0.0.0:3260", 1), portal("[::]:3261", 2)];
        for (reached, group, told) in [
            ("10.0.0.5:3260", 1, [Some("10.0.0.5:3260"), None]),
            ("[::ffff:10.0.0.5]:3261", 2, [Some("10.0.0.5:3260"), Some("10.0.0.5:3261")]),
            ("[fe80::1%7]:3261", 2, [None, Some("[fe80::1]:3261")]),
        ] {
            let found = [&four, &six].map(|portal| portal.told(Some(at(reached)), group));
            assert_eq!(found.each_ref().map(Option::as_deref), told, "{reached}");
        }
        assert_eq!(four.told(None, 1), None);
        let given = PortalAddress { given: Some("a:1".into()), ..four };
        assert_eq!(given.told(Some(at("10.0.0.5:1")), 2).as_deref(), Some("a:1"));
    }
}
