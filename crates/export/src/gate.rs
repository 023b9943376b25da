//! How the doors of one volume let clients in: who may use it at all, and whether those without reservations may write while an
//! initiator holds it.

use core::cell::{Cell, RefCell};
use core::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use brindle_io::Io;

use crate::access::{AccessList, Client, Right};
use crate::pieces::{CHARGED, Charge};
use crate::rates::{Pacer, Rates};

/// Shared by the doors of one volume.
#[derive(Default)]
pub struct Gate {
    closed: Arc<AtomicBool>,
    /// No client may use the volume for the time being.
    withdrawn: Rc<Cell<bool>>,
    pacer: Rc<RefCell<Option<Rc<Pacer>>>>,
    /// Whether there is a pacer, for other reactors.
    paced: Arc<AtomicBool>,
    /// The gate stays open, whoever holds the volume.
    shared: bool,
    /// The clients that may use the volume; `None` for all that come.
    access: Rc<RefCell<Option<AccessList>>>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { closed, withdrawn, shared, access, .. } = self;
        let mut text = f.debug_struct("Gate");
        text.field("closed", closed).field("withdrawn", withdrawn).field("shared", shared);
        text.field("access", access).field("rates", &self.rates()).finish()
    }
}

impl Gate {
    /// A gate that stays open: writers share the volume.
    pub fn shared() -> Self {
        Self { shared: true, ..Self::default() }
    }

    /// Restricts the gate to the clients of an access list.
    pub fn for_those(self, access: Option<AccessList>) -> Self {
        Self { access: Rc::new(RefCell::new(access)), ..self }
    }

    /// The gate of another volume with the same clients and limits, of which each has its own holder.
    pub fn of_another(&self) -> Self {
        let (withdrawn, pacer) = (Rc::clone(&self.withdrawn), Rc::clone(&self.pacer));
        Self {
            closed: Arc::default(),
            withdrawn,
            pacer,
            paced: Arc::clone(&self.paced),
            shared: self.shared,
            access: Rc::clone(&self.access),
        }
    }

    /// Replaces the access list. The result tells whether a client's right has changed.
    pub fn set_access(&self, access: AccessList) -> impl Fn(&Client) -> bool {
        let before = self.access.replace(Some(access.clone()));
        let right = |access: Option<&AccessList>, client: &Client| {
            access.map_or(Some(Right::Write), |access| access.right(client))
        };
        move |client| right(before.as_ref(), client) != right(Some(&access), client)
    }

    /// The right of a client.
    pub fn right(&self, client: &Client) -> Option<Right> {
        if self.withdrawn.get() {
            return None;
        }
        self.access.borrow().as_ref().map_or(Some(Right::Write), |access| access.right(client))
    }

    /// Withdraws the volume from all clients, or offers it again to those that may use it. Open connections are not ended.
    pub fn withdraw(&self, withdrawn: bool) {
        self.withdrawn.set(withdrawn);
    }

    /// Whether it is withdrawn from all clients.
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn.get()
    }

    /// The limits of its clients.
    pub fn rates(&self) -> Rates {
        self.pacer.borrow().as_ref().map(|pacer| pacer.rates).unwrap_or_default()
    }

    /// Sets other limits, which hold for waiting requests, too.
    pub fn set_rates(&self, io: &Io, rates: Rates) {
        let pacer = rates.limit().then(|| Rc::new(Pacer::new(io, rates)));
        self.paced.store(pacer.is_some(), Ordering::Relaxed);
        let old = self.pacer.replace(pacer);
        if let Some(old) = old {
            old.end();
        }
    }

    /// Whether requests have to wait until they are due.
    #[inline]
    pub(crate) fn is_paced(&self) -> bool {
        self.pacer.borrow().is_some()
    }

    /// Whether requests have to wait, for other reactors, which have each let through here then.
    pub(crate) fn paced(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.paced)
    }

    /// Waits until so much is due. Bytes are charged part by part: a wait that is dropped has used up little of what it has not had.
    pub(crate) async fn pace(&self, charge: Charge) {
        let mut left = charge;
        loop {
            let Some(pacer) = self.pacer.borrow().clone() else { return };
            let part = Charge { bytes: left.bytes.min(CHARGED), ..left };
            if !pacer.take(part).await {
                continue;
            }
            left = Charge::bytes(left.bytes - part.bytes);
            if left.bytes == 0 {
                return;
            }
        }
    }

    /// Other clients hold the volume, or none does any more.
    pub(crate) fn set(&self, closed: bool) {
        self.closed.store(closed && !self.shared, Ordering::Relaxed);
    }

    /// Whether writes are forbidden, for other reactors: these look when a request begins.
    pub(crate) fn closed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.closed)
    }

    /// Whether writes are forbidden.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}
