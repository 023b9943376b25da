//! Faults of a drive, and how long they last.

use core::ops::Range;

use crate::op::PathTarget;

/// The faults of one drive. A test changes them through [`super::Sim::afflict`] or, to come later,
/// [`super::Sim::schedule`]; the world counts down those that pass. Ranges are bytes on the drive.
///
/// Faults outlast a restart: what a power cycle mends, the test mends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Every operation fails with [`crate::OpError::Gone`].
    pub gone: bool,
    /// How a drive that is gone answers: as the kernel answers for a disk that was pulled. Its size is 0, writes find no space, reads
    /// end early, zeroes and discards are unknown, and flushes succeed where there is no cache.
    pub pulled: bool,
    /// No operation ends until this is taken back, not even those that are under way.
    pub hangs: bool,
    /// Operations that begin now take this many times as long. 0 and 1: as the model says.
    pub slowness: u32,
    /// Reads that touch a range fail with [`crate::OpError::Medium`] and leave rubbish in their memory.
    pub unreadable: Vec<BadRange>,
    /// Writes, write-zeroes and discards that touch a range fail with [`crate::OpError::Medium`]. They may have taken
    /// effect in part, as every change that fails.
    pub unwritable: Vec<BadRange>,
    /// As many of the next flushes fail with [`crate::OpError::Medium`]. A drive that fails one forgets what it had not
    /// made stable, and takes the next. It takes some time until it says so; flushes that succeed meanwhile make nothing
    /// stable.
    pub failing_flushes: u32,
    /// There is no room for sectors in the range that were never written: [`crate::OpError::NoSpace`].
    pub full: Option<Range<u64>>,
    /// A write to any sector of this range finds no space, also to one written before, as on a file system that
    /// copies on write.
    pub full_on_write: Option<Range<u64>>,
    /// Write-zeroes fail with [`crate::OpError::Unsupported`], which its description does not tell.
    pub no_write_zeroes: bool,
    /// Discards fail with [`crate::OpError::Unsupported`].
    pub no_discard: bool,
    /// As many of the next writes are acknowledged and lost.
    pub losing_writes: u32,
    /// As many of the next writes are acknowledged and torn: part of their tear units is as before.
    pub tearing_writes: u32,
    /// As many of the next writes are acknowledged and land elsewhere: [`Faults::misdirection`] further on.
    pub misdirected_writes: u32,
    /// Bytes, whole logical blocks; the drive's first byte follows its last.
    pub misdirection: u64,
    /// The answer of [`crate::Io::probe`] for the drive's name.
    pub place: PathTarget,
    /// Where the drive holds other bytes than it was given, and says nothing: lost, torn and misdirected writes and
    /// [`super::Sim::rot`] note it here, whole writes over it take it away.
    pub silent: Vec<Range<u64>>,
}

/// A range that gives errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRange {
    /// Bytes on the drive.
    pub range: Range<u64>,
    /// Until when.
    pub lasts: Lasts,
}

/// How long an error stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// For as many operations that touch the range.
    Times(u32),
    /// Until the place has been written to, byte by byte.
    UntilWritten,
    /// For good.
    Forever,
}

impl BadRange {
    /// A range that gives errors until it has been written to.
    pub fn until_written(range: Range<u64>) -> Self {
        Self { range, lasts: Lasts::UntilWritten }
    }

    /// A range that gives errors for as many operations.
    pub fn times(range: Range<u64>, times: u32) -> Self {
        Self { range, lasts: Lasts::Times(times) }
    }

    /// A range that gives errors for good, whatever is written to it.
    pub fn forever(range: Range<u64>) -> Self {
        Self { range, lasts: Lasts::Forever }
    }
}

impl Faults {
    /// Whether an operation on the range meets one of `bad`; counts it.
    pub(super) fn strikes(bad: &mut Vec<BadRange>, offset: u64, len: u64) -> bool {
        let mut struck = false;
        bad.retain_mut(|bad| {
            if bad.range.end <= offset || offset + len <= bad.range.start {
                return true;
            }
            struck = true;
            match &mut bad.lasts {
                Lasts::Times(left) => {
                    *left = left.saturating_sub(1);
                    *left > 0
                }
                _ => true,
            }
        });
        struck
    }

    /// The range has been written.
    pub(super) fn written(&mut self, offset: u64, len: u64) {
        if self.unreadable.is_empty() && self.silent.is_empty() {
            return;
        }
        let gone = offset..offset + len;
        let unreadable = core::mem::take(&mut self.unreadable);
        self.unreadable = unreadable
            .into_iter()
            .flat_map(|bad| match bad.lasts {
                Lasts::UntilWritten => without(&bad.range, &gone).map(|range| BadRange { range, ..bad }),
                _ => [bad.clone(), BadRange { range: 0..0, ..bad }],
            })
            .filter(|bad| !bad.range.is_empty())
            .collect();
        let silent = core::mem::take(&mut self.silent);
        self.silent =
            silent.into_iter().flat_map(|range| without(&range, &gone)).filter(|r| !r.is_empty()).collect();
    }

    /// Counts one of the next silent write faults down. True if there was one.
    pub(super) fn take(count: &mut u32) -> bool {
        let any = *count > 0;
        *count = count.saturating_sub(1);
        any
    }
}

/// The parts of a range on either side of another; either may be empty.
fn without(range: &Range<u64>, gone: &Range<u64>) -> [Range<u64>; 2] {
    [range.start..range.end.min(gone.start), range.start.max(gone.end)..range.end]
}
