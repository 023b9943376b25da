//! The two sides of an array that is being reshaped: bytes that have moved belong to one family, the rest to the other.
//!
//! Both stand on the same core, and so on the same members and one keeper. A range of the array that is about to move is claimed
//! (`claims`): no change of it is under way when the border passes it. Reads go on, by the side that they found. They are counted
//! by the border that they began at, so that who overwrites bytes that have moved can wait for them.

use core::cell::Cell;
use core::ops::Range;

use brindle_io::sync::Notify;
use brindle_io::{Io, Slice};
use brindle_members::lock::RangeGuard;
use brindle_volume::{VolumeError, ZeroOptions, bytes};
use smallvec::SmallVec;

use super::{Family, write_copied};
use crate::core::Core;
use crate::data::list::part;
use crate::data::parity::Parity;

/// An array that is being reshaped.
pub(crate) struct Split {
    /// Byte of the array at which the border stands. An array that is read only keeps it where it is.
    border: Cell<u64>,
    pub(crate) below: Family,
    pub(crate) above: Family,
    /// Reads under way, by the count that they are in.
    readers: [Cell<u32>; 2],
    /// The count of reads that begin.
    now: Cell<usize>,
    ended: Notify,
}

/// A read under way.
struct Reader<'a> {
    split: &'a Split,
    count: usize,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let count = &self.split.readers[self.count];
        count.set(count.get() - 1);
        if count.get() == 0 {
            self.split.ended.notify();
        }
    }
}

impl Split {
    pub(crate) fn new(io: &Io, border: u64, below: Family, above: Family) -> Self {
        let (readers, now) = (Default::default(), Cell::default());
        Self { border: Cell::new(border), below, above, readers, now, ended: Notify::new(io) }
    }

    pub(crate) fn border(&self) -> u64 {
        self.border.get()
    }

    /// Bytes before `border` have moved. The caller has claimed those that have not yet, and that is on record.
    pub(crate) fn pass(&self, border: u64) {
        self.border.set(border);
    }

    /// Waits for all reads that may have begun before the border stood where it does.
    pub(crate) async fn earlier_reads_ended(&self) {
        let earlier = self.now.get();
        self.now.set(1 - earlier);
        self.ended.until(|| (self.readers[earlier].get() == 0).then_some(())).await;
    }

    fn reader(&self) -> Reader<'_> {
        let count = self.now.get();
        self.readers[count].set(self.readers[count].get() + 1);
        Reader { split: self, count }
    }

    /// The parts of a range that is not empty, each with its family: what has moved comes first.
    fn sides(&self, offset: u64, len: u64) -> SmallVec<[(&Family, u64, Range<u64>); 2]> {
        let cut = self.border.get().saturating_sub(offset).min(len);
        let sides = [(&self.below, offset, 0..cut), (&self.above, offset + cut, cut..len)];
        sides.into_iter().filter(|(.., range)| !range.is_empty()).collect()
    }

    /// Reads a range that is not empty, each side of the border by its family.
    pub(crate) async fn read(&self, offset: u64, into: &[Slice]) -> Result<(), VolumeError> {
        let _reader = self.reader();
        for (family, at, range) in self.sides(offset, bytes(into)) {
            family.read(at, &part(into, range)).await?;
        }
        Ok(())
    }

    /// Writes a range that is not claimed. Memory that others change meanwhile is copied first.
    pub(crate) async fn write(
        &self,
        core: &Core,
        offset: u64,
        from: &[Slice],
        fua: bool,
    ) -> Result<(), VolumeError> {
        let write = async |at, part: &[Slice]| self.write_sides(at, part, fua).await;
        if from.iter().any(Slice::is_shared) {
            return write_copied(core, offset, from, write).await;
        }
        write(offset, from).await
    }

    async fn write_sides(&self, offset: u64, from: &[Slice], fua: bool) -> Result<(), VolumeError> {
        for (family, at, range) in self.sides(offset, bytes(from)) {
            rows_of(family)?.write(at, &part(from, range), fua).await?;
        }
        Ok(())
    }

    /// Discards a range that is not claimed.
    pub(crate) async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        for (family, at, range) in self.sides(offset, len) {
            rows_of(family)?.discard(at, range.end - range.start).await?;
        }
        Ok(())
    }

    /// Has a range that is not claimed read as zeroes.
    pub(crate) async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        options: ZeroOptions,
    ) -> Result<(), VolumeError> {
        for (family, at, range) in self.sides(offset, len) {
            rows_of(family)?.write_zeroes(at, range.end - range.start, options).await?;
        }
        Ok(())
    }

    /// Waits until no request is under way that asks members more than once. None begins as long as the guards live.
    pub(crate) async fn quiet(&self) -> SmallVec<[RangeGuard<'_>; 2]> {
        let mut held = SmallVec::new();
        for family in [&self.below, &self.above] {
            if let Family::Parity(parity) = family {
                held.push(parity.quiet().await);
            }
        }
        held
    }
}

/// The rows of a side that is written to.
///
/// # Errors
/// [`VolumeError::Reshaping`]: arrays of other levels are only read meanwhile.
pub(crate) fn rows_of(family: &Family) -> Result<&Parity, VolumeError> {
    match family {
        Family::Parity(parity) => Ok(parity),
        Family::Stripes(_) | Family::Mirror(_) => Err(VolumeError::Reshaping),
    }
}
