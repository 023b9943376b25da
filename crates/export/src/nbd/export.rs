//! An export: a volume with a name, and what has been done with it.

use core::cell::Cell;
use std::rc::Rc;

use brindle_volume::Volume;

use super::handshake::Offer;
use super::proto::MAX_STRING;
use crate::access::{Client, Right};
use crate::gate::Gate;
use crate::session::{Latencies, SharedCounters};

/// Why an export could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddExportError {
    /// Name or description is longer than the protocol allows.
    #[error("name or description of export {0:?} is longer than 4096 bytes: choose a shorter one")]
    TooLong(String),
    /// There is an export of that name already.
    #[error("there is an export named {0:?} already: choose another name")]
    Duplicate(String),
}

pub(crate) struct Export<V> {
    /// As in [`Offer`].
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) volume: Rc<V>,
    pub(crate) gate: Rc<Gate>,
    pub(crate) tally: SharedCounters,
    pub(crate) latencies: Latencies,
    pub(crate) connections: Cell<usize>,
}

impl<V: Volume> Export<V> {
    pub(crate) fn new(
        number: usize,
        name: &str,
        description: &str,
        volume: Rc<V>,
        gate: Rc<Gate>,
    ) -> Result<Self, AddExportError> {
        if name.len() > MAX_STRING || description.len() > MAX_STRING {
            return Err(AddExportError::TooLong(name.to_owned()));
        }
        Ok(Self {
            number,
            name: name.to_owned(),
            description: description.to_owned(),
            volume,
            gate,
            tally: SharedCounters::default(),
            latencies: Latencies::default(),
            connections: Cell::new(0),
        })
    }

    /// The description of the export for a client; `None` if the client may not use it.
    pub(crate) fn offer(&self, is_default: bool, client: &Client) -> Option<Offer> {
        let right = self.gate.right(client)?;
        let mut limits = self.volume.limits();
        limits.read_only |= right == Right::Read;
        Some(Offer {
            number: self.number,
            is_default,
            name: self.name.clone(),
            description: self.description.clone(),
            limits,
        })
    }
}
