//! Clients that were refused: each is told of once, up to a number of them, and all are counted.

use core::cell::{Cell, RefCell};
use core::net::IpAddr;
use std::collections::BTreeSet;

use crate::access::Client;

/// The most peers that are told of one by one.
const MOST_TOLD: usize = 1024;

/// Refusals of a server.
#[derive(Default)]
pub(crate) struct Refusals {
    count: Cell<u64>,
    /// Peers that have been told of; `None` for those on this machine.
    told: RefCell<BTreeSet<Option<IpAddr>>>,
    /// It has been said that no more are told of.
    full: Cell<bool>,
}

impl Refusals {
    /// A client is refused; `true` if that was told.
    pub(crate) fn refused(&self, client: &Client, why: &str) -> bool {
        self.count.set(self.count.get() + 1);
        let mut told = self.told.borrow_mut();
        if told.contains(&client.address) {
            return false;
        }
        if told.len() >= MOST_TOLD {
            if !self.full.replace(true) {
                tracing::warn!(
                    "clients of {MOST_TOLD} addresses were refused: further ones are only counted"
                );
            }
            return false;
        }
        told.insert(client.address);
        let peer = client.address.map_or_else(|| "a client of this machine".to_owned(), |at| at.to_string());
        tracing::warn!("{peer} was refused: {why}; from now on its refusals are only counted");
        true
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_1024_peers_is_told_of_once_and_all_are_counted() {
        let refusals = Refusals::default();
        let client = |n: u32| Client { address: Some(IpAddr::V4(n.into())), proved: None };
        for round in 0..2 {
            for n in 0..2000 {
                let told = refusals.refused(&client(n), "a test");
                assert_eq!(told, round == 0 && n < 1024, "{round} {n}");
            }
        }
        assert_eq!(refusals.count(), 4000);
        assert!(!refusals.refused(&Client::default(), "a test"));
    }
}
