//! Requests that may take long are carried out in pieces. Before each piece its bytes are charged to the limits of the volume, and the
//! request may end: its client has aborted it or is gone, or the server stops.

use brindle_volume::{Volume, VolumeError, ZeroOptions};

/// The most that is charged at a time, so that one that ends has not used up more than that. Bytes.
pub(crate) const CHARGED: u64 = 1 << 20;
/// Bytes of a piece of zeroes that are sent to members, where there are no limits.
const SENT: u64 = 16 << 20;
/// Bytes of a piece that devices zero or discard by themselves: of the first one, in which it is seen whether they can, and at most.
const MADE: (u64, u64) = (1 << 20, 256 << 20);

/// An amount of work, as the limits of a volume count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    /// Requests.
    pub(crate) requests: u64,
    /// Bytes that are sent to members, or read from them.
    pub(crate) bytes: u64,
}

impl Charge {
    /// Bytes of a request that has been charged as such.
    pub(crate) fn bytes(bytes: u64) -> Self {
        Self { requests: 0, bytes }
    }

    /// A request of so many bytes.
    pub(crate) fn request(bytes: u64) -> Self {
        Self { requests: 1, bytes }
    }
}

/// A request is to end before all of it has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended;

/// The reason why a request was not done to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Its client is gone, or the server stops.
    Ended,
    /// The volume's answer.
    Volume(VolumeError),
}

impl From<Ended> for Unfinished {
    fn from(Ended: Ended) -> Self {
        Self::Ended
    }
}

/// For a client that is told an error of the volume.
impl From<Unfinished> for VolumeError {
    fn from(why: Unfinished) -> Self {
        match why {
            Unfinished::Ended => Self::Stopping,
            Unfinished::Volume(error) => error,
        }
    }
}

impl From<VolumeError> for Unfinished {
    fn from(error: VolumeError) -> Self {
        Self::Volume(error)
    }
}

/// The course of a request.
pub(crate) trait Course {
    /// Whether there are limits.
    fn is_paced(&self) -> bool;

    /// Waits until the next piece is due; an error if there is to be none.
    async fn next(&self, charge: Charge) -> Result<(), Ended>;
}

/// The end of the piece that begins at `at` of a range that ends at `end`: at a multiple of `unit`, if it gets as far.
fn piece(at: u64, end: u64, most: u64, unit: u64) -> u64 {
    let last = end / unit * unit;
    match at % unit {
        0 if at < last => last.min(at + (most / unit).max(1) * unit),
        0 => end,
        within => end.min(at - within + unit),
    }
}

/// Bytes at whose multiples a volume is best cut.
fn unit(volume: &impl Volume) -> u64 {
    let limits = volume.limits();
    let unit = if limits.optimal > 0 { limits.optimal } else { u64::from(limits.preferred) };
    unit.max(u64::from(limits.block))
}

/// Makes a range read as zeroes. What devices make by themselves is not charged, since that is one request.
pub(crate) async fn write_zeroes<V: Volume>(
    volume: &V,
    (offset, len): (u64, u64),
    options: ZeroOptions,
    course: &impl Course,
) -> Result<(), Unfinished> {
    // Those that must be fast are made as a whole, or not at all.
    if options.fast_only || len <= SENT && !course.is_paced() {
        return Ok(volume.write_zeroes(offset, len, options).await?);
    }
    let (unit, end) = (unit(volume), offset.saturating_add(len));
    let sent = if course.is_paced() { CHARGED } else { SENT };
    let (mut at, mut made) = (offset, MADE.0);
    while at < end {
        if at > offset {
            course.next(Charge::default()).await?;
        }
        let stop = piece(at, end, made, unit);
        let fast = ZeroOptions { fast_only: true, ..options };
        let zeroed = volume.write_zeroes(at, stop - at, fast).await;
        at = if zeroed == Err(VolumeError::Unsupported) {
            let stop = piece(at, end, sent, unit);
            course.next(Charge::bytes(stop - at)).await?;
            volume.write_zeroes(at, stop - at, options).await?;
            stop
        } else {
            zeroed?;
            made = MADE.1.min(made * 16);
            stop
        };
    }
    Ok(())
}

/// Discards a range: a hint, so that a volume that can't is none the worse for it.
pub(crate) async fn discard<V: Volume>(
    volume: &V,
    (offset, len): (u64, u64),
    course: &impl Course,
) -> Result<(), Unfinished> {
    let (unit, end) = (unit(volume), offset.saturating_add(len));
    let mut at = offset;
    loop {
        // The last piece has what is left, so that rows that a cut would part are discarded as well.
        let stop =
            if at % unit == 0 { piece(at, end, MADE.1, unit) } else { end.min(at + MADE.1) / unit * unit };
        let stop = if stop <= at { end } else { stop };
        match volume.discard(at, stop - at).await {
            Err(VolumeError::Unsupported) => return Ok(()),
            done => done?,
        }
        at = stop;
        if at >= end {
            return Ok(());
        }
        course.next(Charge::default()).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_at_rows_and_cover_all() {
        for (from, end, most, unit) in
            [(0, 100, 16, 10), (3, 100, 1, 10), (95, 99, 50, 10), (7, 7777, 1000, 192)]
        {
            let mut at = from;
            while at < end {
                let stop = piece(at, end, most, unit);
                assert!(stop > at && stop <= end && stop - at <= most.max(unit), "{at} {stop}");
                assert!(stop == end || stop.is_multiple_of(unit), "{at} {stop}");
                at = stop;
            }
            assert_eq!(at, end);
        }
    }
}
