//! The course of a request that is carried out in pieces.

use core::cell::Cell;

use brindle_io::sync::{Either, race};

use super::account::Account;
use crate::gate::Gate;
use crate::pieces::{Charge, Course, Ended};

/// The course of a request of a client that ends with the client.
pub(super) struct AccountCourse<'a> {
    account: &'a Account,
    gate: &'a Gate,
    /// A piece has been carried out.
    begun: Cell<bool>,
}

impl<'a> AccountCourse<'a> {
    pub(super) fn of(account: &'a Account, gate: &'a Gate) -> Self {
        Self { account, gate, begun: Cell::new(false) }
    }
}

impl Course for AccountCourse<'_> {
    fn is_paced(&self) -> bool {
        self.gate.is_paced()
    }

    async fn next(&self, charge: Charge) -> Result<(), Ended> {
        if self.gate.is_paced()
            && charge != Charge::default()
            && let Either::Second(()) = race(self.gate.pace(charge), self.account.over()).await
        {
            return Err(Ended);
        }
        if !self.begun.replace(true) {
            return Ok(()); // a request of one piece that is due is carried out
        }
        // A volume may answer without waiting for anything.
        self.account.io.yield_now().await;
        if self.account.is_over() { Err(Ended) } else { Ok(()) }
    }
}
