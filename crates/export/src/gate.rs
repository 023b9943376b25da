//! How the doors of one volume let clients in: who may use it at all, and whether those without reservations may write while an
//! initiator holds it.

use core::cell::Cell;

use crate::access::{AccessList, Client, Right};

/// Shared by the doors of one volume.
#[derive(Debug, Default)]
pub struct Gate {
    closed: Cell<bool>,
    /// It stays open, whoever holds the volume.
    shared: bool,
    /// The clients that may use the volume; `None` for all that come.
    access: Option<AccessList>,
}

impl Gate {
    /// One that stays open: writers share the volume.
    pub fn shared() -> Self {
        Self { shared: true, ..Self::default() }
    }

    /// The same for those clients only that a list lets in.
    pub fn for_those(self, access: Option<AccessList>) -> Self {
        Self { access, ..self }
    }

    /// The right of a client.
    pub fn right(&self, client: &Client) -> Option<Right> {
        self.access.as_ref().map_or(Some(Right::Write), |access| access.right(client))
    }

    /// Others hold the volume, or nobody does any more.
    pub(crate) fn set(&self, closed: bool) {
        self.closed.set(closed && !self.shared);
    }

    /// Nothing may be written.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }
}
