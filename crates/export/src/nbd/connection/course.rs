//! The course of a request that is carried out in pieces.

use core::cell::Cell;

use brindle_io::sync::{Either, race};

use super::Transmission;
use crate::pieces::{Charge, Course, Ended};

/// The course of a request of a connection.
pub(super) struct RequestCourse<'a, V> {
    connection: &'a Transmission<V>,
    /// A piece has been carried out.
    begun: Cell<bool>,
}

impl<'a, V> RequestCourse<'a, V> {
    pub(super) fn of(connection: &'a Transmission<V>) -> Self {
        Self { connection, begun: Cell::new(false) }
    }
}

impl<V> Course for RequestCourse<'_, V> {
    fn is_paced(&self) -> bool {
        self.connection.export.gate.is_paced()
    }

    async fn next(&self, charge: Charge) -> Result<(), Ended> {
        let Transmission { link, export, .. } = self.connection;
        if export.gate.is_paced()
            && charge != Charge::default()
            && let Either::Second(()) = race(export.gate.pace(charge), link.over()).await
        {
            return Err(Ended);
        }
        if !self.begun.replace(true) {
            return Ok(()); // a request of one piece that is due is carried out
        }
        // A volume may answer without waiting for anything.
        link.io.yield_now().await;
        if link.is_over() { Err(Ended) } else { Ok(()) }
    }
}
