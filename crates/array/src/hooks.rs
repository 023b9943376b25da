//! Records that are made before bytes of an array change, and notices of the writes that members are sent.

use core::fmt;
use core::future::Future;
use core::ops::Range;
use core::pin::Pin;
use std::rc::Rc;

use brindle_layout::Geometry;
use brindle_volume::VolumeError;

pub use brindle_members::change::{Content, MemberChange};

/// Something that is being put on record.
pub type OnRecord<'a> = Pin<Box<dyn Future<Output = Result<(), VolumeError>> + 'a>>;

/// Records made before bytes of an array change, beside the dirty mark. A write-intent bitmap, a partial parity log
/// and a journal are implementations. An array without hooks keeps the dirty mark only.
///
/// Every change of members' data comes by three times. It [begins](Hooks::begins) with its range, after the array was
/// marked dirty and before a member is touched. In levels with parity, the new blocks have been
/// [computed](Hooks::computed), and no member has been given them. Last, the change [ends](Hooks::ends).
pub trait Hooks {
    /// A change begins. Members are touched once that has been put on record, and not at all if it fails. What is to be
    /// noted at once is noted by the call: the future may be dropped.
    fn begins(&self, change: &Change) -> OnRecord<'_>;

    /// A change has ended: called once for each call of [`Hooks::begins`], with any outcome.
    fn ends(&self, change: &Change);

    /// The new blocks of a window of rows with parity have been computed. Members are written once the record stands,
    /// and not at all if it fails. Nothing else writes these rows meanwhile. A window may come again before its
    /// change ends: for instance when its write is taken back for lack of space.
    fn computed(&self, rows: &Computed) -> OnRecord<'_>;

    /// A member is about to be sent a change of its data. For those who watch.
    fn sent(&self, change: &MemberChange) {
        let _unwatched = change;
    }
}

/// A change of members' data, as it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Bytes of the array change, by a request: which.
    Bytes(Range<u64>),
    /// Redundancy is made true, and no byte of the array changes: in a range that is counted as
    /// [`Array::sync_len`](crate::Array::sync_len) is.
    Redundancy(Range<u64>),
    /// A role's member gets what it should hold: what was rebuilt for it, or what it could not read.
    Member {
        /// The role of the member.
        role: u16,
        /// Bytes of its data area.
        range: Range<u64>,
    },
}

/// The blocks that members are to hold in a window of rows with parity.
#[derive(Clone, Debug)]
pub struct Computed {
    /// The window on every member, in bytes of the data area: whole rows, or columns of one.
    pub range: Range<u64>,
    /// All that is written, data and parity. What does not change is left out.
    pub changes: Vec<MemberChange>,
}

type Make = dyn Fn(&Geometry) -> Rc<dyn Hooks>;

/// How hooks are made for an array of a geometry, each time that one is opened.
#[derive(Clone)]
pub struct MakeHooks(Rc<Make>);

impl MakeHooks {
    /// Hooks are made by `make`.
    pub fn new(make: impl Fn(&Geometry) -> Rc<dyn Hooks> + 'static) -> Self {
        Self(Rc::new(make))
    }

    /// For an array of this geometry.
    pub(crate) fn make(&self, geometry: &Geometry) -> Rc<dyn Hooks> {
        (self.0)(geometry)
    }
}

impl fmt::Debug for MakeHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeHooks")
    }
}
