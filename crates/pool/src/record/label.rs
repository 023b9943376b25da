//! The label of a pool as its members have it now.

use core::cell::RefCell;
use std::rc::Rc;

use brindle_format::pool::Label;

/// The cell that a label stands behind: nothing keeps a label for longer than it takes to look something up.
pub(crate) struct CurrentLabel(RefCell<Rc<Label>>);

impl CurrentLabel {
    /// The label that was found on the members.
    pub(crate) fn found(label: Label) -> Self {
        Self(RefCell::new(Rc::new(label)))
    }

    /// The label of now.
    pub(crate) fn get(&self) -> Rc<Label> {
        Rc::clone(&self.0.borrow())
    }

    /// Another counts from now on.
    pub(super) fn set(&self, label: Label) {
        self.0.replace(Rc::new(label));
    }
}
