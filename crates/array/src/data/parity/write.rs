//! Writes of parity arrays, cut into parts of rows and runs of full rows.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use brindle_io::Slice;
use brindle_layout::ParityRows;
use brindle_members::lock::Hold;
use brindle_volume::{VolumeError, bytes};

use super::Parity;
use super::batch::{Open, Part};
use crate::data::list::{self, part};

/// Where a range cuts rows: a part of the first, full ones, a part of the last. Lengths in bytes.
pub(super) struct Cuts {
    pub(super) head: u64,
    pub(super) full: u64,
    pub(super) tail: u64,
}

impl Cuts {
    pub(super) fn of(map: &ParityRows, offset: u64, len: u64) -> Self {
        let row = map.row_data_bytes();
        let to_next = offset.next_multiple_of(row) - offset;
        if to_next > len {
            return Self { head: len, full: 0, tail: 0 };
        }
        let tail = (len - to_next) % row;
        Self { head: to_next, full: len - to_next - tail, tail }
    }
}

/// Turns of the executor that a write waits for others to join, as long as they do.
const MOST_TURNS: usize = 8;
impl Parity {
    #[inline]
    pub(crate) async fn write(&self, offset: u64, from: &[Slice], fua: bool) -> Result<(), VolumeError> {
        let len = bytes(from);
        let _writing = self.core.begin(offset, len).await?;
        let _counted = self.writers.enter();
        let cuts = Cuts::of(&self.map, offset, len);
        if cuts.full + cuts.tail == 0 {
            return self.write_part(offset, from, fua).await;
        }
        if cuts.head + cuts.tail == 0 {
            return self.write_full_rows(offset / self.map.row_data_bytes(), from, fua).await;
        }
        Box::pin(self.write_cuts(offset, from, fua, &cuts)).await
    }

    /// Writes both edges and the full rows between them side by side.
    async fn write_cuts(
        &self,
        offset: u64,
        from: &[Slice],
        fua: bool,
        cuts: &Cuts,
    ) -> Result<(), VolumeError> {
        let (head, full) = (cuts.head, cuts.head + cuts.full);
        let write_head = self.write_edge(offset, part(from, 0..head), fua);
        let write_full = async {
            let row = (offset + cuts.head) / self.map.row_data_bytes();
            if cuts.full == 0 {
                return Ok(());
            }
            self.write_full_rows(row, &part(from, head..full), fua).await
        };
        let write_tail = self.write_edge(offset + full, part(from, full..full + cuts.tail), fua);
        all(write_head, write_full, write_tail).await
    }

    async fn write_edge(&self, offset: u64, from: list::Part, fua: bool) -> Result<(), VolumeError> {
        if from.is_empty() {
            return Ok(());
        }
        self.write_part(offset, &from, fua).await
    }

    /// Writes a part of one row, together with others that come for that row before its turn.
    pub(super) async fn write_part(&self, offset: u64, from: &[Slice], fua: bool) -> Result<(), VolumeError> {
        let (row, start) = (offset / self.map.row_data_bytes(), offset % self.map.row_data_bytes());
        let part = Part::of(start, from);
        let last = self.locks.last_over(&(row..row + 1));
        if let Some(last) = last
            && let Some(result) = self.batches.join(&self.core.io, last, &part, fua).await
        {
            return result;
        }
        // A write that could not join has not waited, so that `last` is still the last holder of the row's lock.
        let held = self.locks.enter_after(row..row + 1, Hold::Exclusive, last);
        let open = self.batches.open(&self.core.io, held.key(), part, fua);
        // Writes enter both lines in one order: the first in the line for a row has a permit before those behind it.
        let _permit = match self.updates.try_acquire() {
            Some(permit) => {
                self.await_company(&open).await;
                permit
            }
            // Others may join meanwhile.
            None => self.updates.acquire().await,
        };
        held.granted().await;
        let Some(batch) = open.close() else { return Err(VolumeError::Stopping) };
        let result = self.write_batch(row, &batch).await;
        batch.finish(result);
        result
    }

    /// Lets writers that are about to reach the row join; the wait is repeated while some do.
    #[inline]
    async fn await_company(&self, open: &Open<'_>) {
        if !self.writers.expects_company() {
            return;
        }
        for _ in 0..MOST_TURNS {
            let before = open.bytes();
            self.core.io.yield_now().await;
            if open.bytes() == before || open.bytes() == self.map.row_data_bytes() {
                break;
            }
        }
    }
}

/// Waits for all three; the first error in their order.
async fn all<E: Copy>(
    a: impl Future<Output = Result<(), E>>,
    b: impl Future<Output = Result<(), E>>,
    c: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    let (mut a, mut b, mut c) = (pin!(a), pin!(b), pin!(c));
    let mut results = [None; 3];
    poll_fn(|cx| {
        if results[0].is_none()
            && let Poll::Ready(result) = a.as_mut().poll(cx)
        {
            results[0] = Some(result);
        }
        if results[1].is_none()
            && let Poll::Ready(result) = b.as_mut().poll(cx)
        {
            results[1] = Some(result);
        }
        if results[2].is_none()
            && let Poll::Ready(result) = c.as_mut().poll(cx)
        {
            results[2] = Some(result);
        }
        if results.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}
