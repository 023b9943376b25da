//! Copies of memory that others may change. Data that are written more than once, or used for parity, must not change
//! meanwhile.

use brindle_io::{Buf, Io, MAX_BUF, Slice};

use crate::scratch::Scratch;

/// Bytes that are copied at a time, where a row is not longer.
const STEP: u64 = 4 << 20;
/// The least number of steps for which there is memory.
const STEPS: usize = 4;

/// The memory of an array for such copies, apart from its other scratch. A task that holds some may wait for rows and
/// scratch; a task that holds those never waits for this.
pub struct Copies {
    io: Io,
    scratch: Scratch,
    /// Bytes of a row, below [`MAX_BUF`]; 0 if there are none.
    row: u64,
}

impl Copies {
    /// Memory for an array of `members` whose rows have `row` data bytes, or that has no rows. It is taken when it is
    /// needed: at most four steps of 4 MiB, or two rows.
    pub fn new(io: &Io, row: u64, members: u16) -> Self {
        let row = if row <= MAX_BUF as u64 { row } else { 0 };
        let bytes = (STEP as usize * STEPS).max(2 * (row as usize).next_power_of_two());
        Self { io: io.clone(), scratch: Scratch::new(io, bytes, members), row }
    }

    /// How much of `left` bytes at `offset` of the array is copied and written next: up to the end of a row, so that rows
    /// that are written whole stay so.
    pub fn step(&self, offset: u64, left: u64) -> u64 {
        let most = STEP.max(self.row);
        if left <= most {
            return left;
        }
        let end = offset + most;
        end - end.checked_rem(self.row).unwrap_or(0) - offset
    }

    /// Copies a list of no more than a step; waits for memory.
    pub async fn of(&self, list: &[Slice]) -> Slice {
        let len = list.iter().map(Slice::len).sum();
        if let Some(copy) = self.scratch.try_alloc(len) {
            return fill(&copy, list);
        }
        let _hurry = self.io.hurrying();
        fill(&self.scratch.alloc(len).await, list)
    }

    /// Copies a list that fits into one step, if there is memory.
    pub fn try_of(&self, list: &[Slice]) -> Option<Slice> {
        let len: usize = list.iter().map(Slice::len).sum();
        let copy = (len as u64 <= STEP).then(|| self.scratch.try_alloc(len))??;
        Some(fill(&copy, list))
    }

    /// See [`Scratch::renew_if_pinned`].
    pub fn renew_if_pinned(&self) {
        self.scratch.renew_if_pinned();
    }
}

/// Puts a list into memory of its length.
fn fill(copy: &Buf, list: &[Slice]) -> Slice {
    let mut bytes = copy.bytes_mut();
    let mut rest = &mut *bytes;
    for slice in list {
        let (place, next) = rest.split_at_mut(slice.len());
        slice.copy_to(place);
        rest = next;
    }
    drop(bytes);
    copy.all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use brindle_io::memory::Memory;

    #[test]
    fn steps_end_with_rows_and_fit_into_memory() {
        let io = Io::new(Box::new(Memory::new()));
        for row in [0, 4096, 12 << 10, 3 << 20, 5 << 20, 31 << 20, 33 << 20] {
            let copies = Copies::new(&io, row, 4);
            for start in [0, 4096, row / 2 / 512 * 512, row] {
                let (mut at, end) = (start, start + (100 << 20) + 512);
                while at < end {
                    let step = copies.step(at, end - at);
                    assert!(
                        step > 0 && step as usize <= MAX_BUF.min(copies.scratch.capacity()),
                        "{row}: {step}"
                    );
                    at += step;
                    let ends = at == end || row == 0 || row > MAX_BUF as u64 || at.is_multiple_of(row);
                    assert!(ends, "{row}: {step} up to {at}");
                }
                assert_eq!(at, end);
            }
        }
    }
}
