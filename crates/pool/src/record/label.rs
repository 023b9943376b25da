//! The label of a pool as its members have it now.

use core::cell::RefCell;
use std::rc::Rc;

use brindle_format::pool::Label;

/// A label, and which one it is of all that the pool has had.
struct Generation {
    number: u64,
    label: Rc<Label>,
}

/// The cell that a label stands behind: a pool gets another one when its members come or go. Nothing keeps a label for longer than it
/// takes to look something up.
pub(crate) struct CurrentLabel(RefCell<Generation>);

impl CurrentLabel {
    /// The label that was found on the members.
    pub(crate) fn found(label: Label) -> Self {
        Self(RefCell::new(Generation { number: 0, label: Rc::new(label) }))
    }

    /// The label of now.
    pub(crate) fn get(&self) -> Rc<Label> {
        Rc::clone(&self.0.borrow().label)
    }

    /// Its generation.
    pub(crate) fn generation(&self) -> u64 {
        self.0.borrow().number
    }
}
