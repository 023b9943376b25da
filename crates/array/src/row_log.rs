//! Logs of rows: records that are written before bytes of an array change, beside the dirty mark.

use core::fmt;
use core::future::Future;
use core::ops::Range;
use core::pin::Pin;
use std::rc::Rc;

use brindle_io::{Io, MemberId, OpError};
use brindle_layout::Geometry;
use brindle_members::change::MemberChange;
use brindle_members::members::Members;
use brindle_volume::VolumeError;

/// Something that is being put on record.
pub type OnRecord<'a> = Pin<Box<dyn Future<Output = Result<(), VolumeError>> + 'a>>;

/// The array of a log: the members whose changes it records, and a way to fail one.
pub trait LogHost {
    /// Asks the members.
    fn io(&self) -> &Io;

    /// The members by role, with the place of each one's data.
    fn members(&self) -> &Members;

    /// Fails members that could not take the log's record, as if they had refused a superblock. Their failure is on
    /// record when this returns. The log goes on without them, and asks those that are in use again.
    ///
    /// # Errors
    /// If the array can't do without one of them, or one has no room. The change must not be sent then.
    fn refused<'a>(&'a self, refused: &'a [(MemberId, OpError)]) -> OnRecord<'a>;
}

/// A log of changes. A write-intent bitmap, a partial parity log and a journal are such.
///
/// Every change of members' data has two moments and an end. It [begins](RowLog::begins) with its range, after the array was
/// marked dirty and before a member is touched. In levels with parity, the new blocks have been
/// [computed](RowLog::computed), and no member has been given them. Last, the change [ends](RowLog::ends).
///
/// Logs are asked in their order. Each answers at once if there is nothing to be waited for, and else with a future that does
/// not need the log: a request may drop it, and the log may go meanwhile.
pub trait RowLog {
    /// Records that a change begins. Members are written once the record succeeded, and not at all if it failed. The
    /// call itself notes what must be noted at once.
    fn begins<'a>(&self, change: &Change, host: &'a dyn LogHost) -> Option<OnRecord<'a>> {
        let _ = (change, host);
        None
    }

    /// The new blocks of a window of rows with parity have been computed. Members are written once the record stands,
    /// and not at all if it fails. Nothing else writes these rows meanwhile. A window may come again before its
    /// change ends: for instance when its write is taken back for lack of space.
    fn computed<'a>(&self, rows: &Computed, host: &'a dyn LogHost) -> Option<OnRecord<'a>> {
        let _ = (rows, host);
        None
    }

    /// A change has ended: called once for each call of [`RowLog::begins`], with any outcome.
    fn ends(&self, change: &Change);
}

/// A change of members' data, as it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Bytes of the array change, by a request: which.
    Bytes(Range<u64>),
    /// Redundancy is brought in sync, and no byte of the array changes: in a range that is counted as
    /// [`Array::sync_len`](crate::Array::sync_len) is.
    Redundancy(Range<u64>),
    /// A role's member gets rebuilt data: in a recovery, or for a place that it could not read.
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

type Make = dyn Fn(&Io, &Geometry) -> Rc<dyn RowLog>;

/// How a log is made for an array of a geometry, each time that one is opened.
#[derive(Clone)]
pub struct MakeRowLog(Rc<Make>);

impl MakeRowLog {
    /// The log is made by `make`, which is given the array's own reactor.
    pub fn new(make: impl Fn(&Io, &Geometry) -> Rc<dyn RowLog> + 'static) -> Self {
        Self(Rc::new(make))
    }

    /// For an array of this geometry.
    pub(crate) fn make(&self, io: &Io, geometry: &Geometry) -> Rc<dyn RowLog> {
        (self.0)(io, geometry)
    }
}

impl fmt::Debug for MakeRowLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeRowLog")
    }
}
