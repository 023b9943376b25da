//! Clients that were refused. Each is reported once, up to a number of them, and all are counted.

use core::cell::{Cell, RefCell};
use core::net::IpAddr;
use std::collections::BTreeSet;

use crate::access::Client;

/// The most peers that are reported one by one.
const MAX_REPORTED: usize = 1024;

/// Refusals of a server.
#[derive(Default)]
pub(crate) struct Refusals {
    count: Cell<u64>,
    /// Peers that have been reported; `None` for those on this machine.
    reported: RefCell<BTreeSet<Option<IpAddr>>>,
    /// The message that no more peers are reported was logged.
    full: Cell<bool>,
}

impl Refusals {
    /// Counts a client that is refused; `true` if that was reported.
    pub(crate) fn refused(&self, client: &Client, why: &str) -> bool {
        self.count.set(self.count.get() + 1);
        let mut reported = self.reported.borrow_mut();
        if reported.contains(&client.address) {
            return false;
        }
        if reported.len() >= MAX_REPORTED {
            if !self.full.replace(true) {
                tracing::warn!(
                    "clients of {MAX_REPORTED} addresses were refused: further ones are only counted"
                );
            }
            return false;
        }
        reported.insert(client.address);
        let peer = client.address.map_or_else(|| "a client of this machine".to_owned(), |at| at.to_string());
        tracing::warn!("{peer} was refused: {why}; from now on its refusals are only counted");
        true
    }

    /// The number of clients that were refused.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_1024_peers_is_reported_once_and_all_are_counted() {
        let refusals = Refusals::default();
        let client = |n: u32| Client { address: Some(IpAddr::V4(n.into())), proved: None };
        for round in 0..2 {
            for n in 0..2000 {
                let reported = refusals.refused(&client(n), "a test");
                assert_eq!(reported, round == 0 && n < 1024, "{round} {n}");
            }
        }
        assert_eq!(refusals.count(), 4000);
        assert!(!refusals.refused(&Client::default(), "a test"));
    }
}
