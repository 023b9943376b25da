//! A drive's measured performance as a network of stations.
//!
//! An operation that finds a free unit spends its latency there, beside others of either kind; then it passes the one
//! station that all operations share, in the order in which they became ready, and holds it for its occupancy. With
//! one operation in flight a drive shows the sum of the two, with many the occupancy alone. A disk has a head
//! instead: one unit, which takes the nearest of the waiting requests.

use super::curve::{Curve, between};

/// The stations of one drive. Times are nanoseconds, sizes bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Stations {
    /// Operations that the drive works on at once; the others wait in the order in which they came.
    pub units: u32,
    /// Reads.
    pub read: Path,
    /// Writes.
    pub write: Path,
    /// How much longer or shorter the occupancy is in a mix: by per cent of reads, thousandths by size. Without any
    /// the factor is 1000. Between two curves it is interpolated.
    pub mixed: Vec<(u32, Curve)>,
    /// A flush. Where the cache is volatile, of a drive without a head, also what a write takes that is to be stable when it is
    /// acknowledged (FUA); those that wait at one time are made stable together.
    pub flush: u64,
    /// Bytes a second that all drives with this figure move together in either direction, where they hang on one link; 0 is
    /// no limit.
    pub uplink: u64,
    /// Completed writes may be lost at a power cut until they are flushed.
    pub volatile_cache: bool,
    /// A disk's.
    pub platter: Option<Platter>,
}

/// One kind of operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Until its bytes are ready to pass the shared station, by size.
    pub latency: Curve,
    /// Service times of an operation that begins where an earlier one of its kind ended.
    pub stream: Curve,
    /// How long it holds the shared station, by size.
    pub occupancy: Curve,
    /// The same of an operation that begins where an earlier one of its kind ended, where that is known to be another.
    pub streamed: Option<Curve>,
    /// Standard deviation of the latency, per cent of its mean; at most 28, so that none is negative.
    pub spread: u32,
}

/// A disk: its head, and where its bytes are.
#[derive(Clone, Debug, PartialEq)]
pub struct Platter {
    /// A seek, by the distance in millionths of the whole stroke.
    pub seek: Curve,
    /// One turn.
    pub rotation: u64,
    /// Bytes a second at the outer edge, where the first byte is.
    pub outer: u64,
    /// Bytes a second at the inner edge.
    pub inner: u64,
    /// Operations among which the head chooses the nearest (NCQ).
    pub queue: u32,
    /// Bytes of writes that are acknowledged before they are on the platter; 0 is none.
    pub cache: u64,
    /// Bytes that are read at once where a read goes on from another: what follows is there when it is asked for; 0 is none.
    pub look_ahead: u64,
}

/// The link that all drives of a world share: the times until which it is busy.
#[derive(Debug, Default)]
pub(super) struct Uplink {
    pub(super) read: u64,
    pub(super) write: u64,
}

impl Stations {
    /// Nanoseconds until a drive of flash has made stable what its cache holds, if the power takes that cache.
    pub fn volatile_flush(&self) -> Option<u64> {
        (self.volatile_cache && self.platter.is_none()).then_some(self.flush)
    }

    /// Occupancy at a size, in thousandths, for a mix with `reads` per cent of reads.
    pub(super) fn mix(&self, reads: u32, len: u64) -> u64 {
        let after = self.mixed.partition_point(|(percent, _)| *percent <= reads);
        let at = |of: &(u32, Curve)| (u64::from(of.0), of.1.at(len));
        match (after.checked_sub(1).map(|before| at(&self.mixed[before])), self.mixed.get(after).map(at)) {
            (Some(before), Some(after)) => between(before, after, reads.into()),
            (Some(one), None) | (None, Some(one)) => one.1,
            (None, None) => 1000,
        }
    }
}
