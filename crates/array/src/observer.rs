//! Observers of changes: they see each change, and neither hold it up nor refuse it.

use core::fmt;
use std::rc::Rc;

use brindle_layout::Geometry;

pub use brindle_members::change::{Content, MemberChange};

use crate::row_log::{Change, Computed};

/// Sees changes of members' data. An array may have several. Each sees every change, in the order in which they were
/// set.
pub trait Observer {
    /// A change begins: no member has been touched.
    fn begins(&self, change: &Change) {
        let _ = change;
    }

    /// The new blocks of a window of rows have been computed, and no member has been given them: as of
    /// [`RowLog::computed`](crate::row_log::RowLog::computed).
    fn computed(&self, rows: &Computed) {
        let _ = rows;
    }

    /// A member is about to be sent a change of its data.
    fn sent(&self, change: &MemberChange) {
        let _ = change;
    }

    /// A change has ended: called once for each that began, with any outcome.
    fn ends(&self, change: &Change) {
        let _ = change;
    }
}

type Make = dyn Fn(&Geometry) -> Rc<dyn Observer>;

/// How an observer is made for an array of a geometry, each time that one is opened.
#[derive(Clone)]
pub struct MakeObserver(Rc<Make>);

impl MakeObserver {
    /// The observer is made by `make`.
    pub fn new(make: impl Fn(&Geometry) -> Rc<dyn Observer> + 'static) -> Self {
        Self(Rc::new(make))
    }

    /// For an array of this geometry.
    pub(crate) fn make(&self, geometry: &Geometry) -> Rc<dyn Observer> {
        (self.0)(geometry)
    }
}

impl fmt::Debug for MakeObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeObserver")
    }
}
