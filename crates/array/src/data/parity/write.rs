//! Writes of parity arrays, cut into parts of rows and runs of full rows.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use brindle_io::{Duration, Slice};
use brindle_layout::ParityRows;
use brindle_members::lock::{Hold, RangeGuard};
use brindle_volume::{VolumeError, bytes};

use super::Parity;
use super::batch::{Open, Part};
use super::streams::{ANSWER, Hope, InStream, LONGEST};
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

/// The time by which a row that others have waited for is at members before the full rows behind it.
const HEAD_START: Duration = Duration::from_micros(1);

/// Turns of the executor that a write waits for others to join, as long as they do.
const MOST_TURNS: usize = 8;

impl Parity {
    /// A write is being received; gives what [`Parity::came`] is told when it has been, or is not any more.
    pub(crate) fn comes(&self, offset: u64, len: u64) -> Option<usize> {
        self.streams.comes(offset, len)
    }

    /// See [`Parity::comes`].
    pub(crate) fn came(&self, stream: usize) {
        self.streams.came(&self.core.io, stream);
    }

    #[inline]
    pub(crate) async fn write(&self, offset: u64, from: &[Slice], fua: bool) -> Result<(), VolumeError> {
        let len = bytes(from);
        let _writing = self.core.begin(offset, len).await?;
        let _counted = self.writers.enter();
        let stream = self.streams.enter(offset, len);
        let cuts = Cuts::of(&self.map, offset, len);
        if cuts.full + cuts.tail == 0 {
            return self.write_part(offset, from, fua, &stream).await;
        }
        if cuts.head + cuts.tail == 0 {
            return self.write_full_rows(offset / self.map.row_data_bytes(), from, fua, &stream).await;
        }
        Box::pin(self.write_cuts(offset, from, fua, &cuts, &stream)).await
    }

    /// Writes both edges and the full rows between them side by side.
    async fn write_cuts(
        &self,
        offset: u64,
        from: &[Slice],
        fua: bool,
        cuts: &Cuts,
        stream: &InStream<'_>,
    ) -> Result<(), VolumeError> {
        let (head, full) = (cuts.head, cuts.head + cuts.full);
        let write_head = self.write_edge(offset, part(from, 0..head), fua, stream);
        let write_full = async {
            let row = (offset + cuts.head) / self.map.row_data_bytes();
            if cuts.full == 0 {
                return Ok(());
            }
            if stream.has_filled() {
                // The row that the head has filled goes first: it is short, and the client goes on when it is written.
                self.core.io.sleep(HEAD_START).await;
            }
            self.write_full_rows(row, &part(from, head..full), fua, stream).await
        };
        let write_tail = self.write_edge(offset + full, part(from, full..full + cuts.tail), fua, stream);
        all(write_head, write_full, write_tail).await
    }

    async fn write_edge(
        &self,
        offset: u64,
        from: list::Part,
        fua: bool,
        stream: &InStream<'_>,
    ) -> Result<(), VolumeError> {
        if from.is_empty() {
            return Ok(());
        }
        self.write_part(offset, &from, fua, stream).await
    }

    /// Writes a part of one row, together with others that come for that row before its turn.
    pub(super) async fn write_part(
        &self,
        offset: u64,
        from: &[Slice],
        fua: bool,
        stream: &InStream<'_>,
    ) -> Result<(), VolumeError> {
        let (row, start) = (offset / self.map.row_data_bytes(), offset % self.map.row_data_bytes());
        let part = Part::of(start, from);
        let last = self.locks.last_over(&(row..row + 1));
        if let Some(last) = last
            && let Some(result) = self.batches.join(&self.core.io, last, &part, fua, stream).await
        {
            return result;
        }
        // A write that could not join has not waited, so that `last` is still the last holder of the row's lock.
        let held = self.locks.enter_after(row..row + 1, Hold::Exclusive, last);
        let open = self.batches.open(&self.core.io, held.key(), part, fua);
        // Where another write to the row is before this one, the rest of the row has gone without it.
        let waits = last.is_none() && stream.follows();
        let hope = if waits { self.hope(row, &open, stream) } else { None };
        if let Some(hope) = hope {
            Box::pin(self.await_rest(row, &open, &held, stream, hope)).await;
        } else if self.updates.is_free() {
            self.await_company(&open).await;
        }
        // Others may join until this write has the row, and while it waits for a permit. A write with a permit waits for no row.
        held.granted().await;
        let _permit = self.updates.acquire().await;
        if stream.follows() && open.bytes() < self.map.row_data_bytes() {
            stream.leaves(row);
        }
        let Some(batch) = open.close() else { return Err(VolumeError::Stopping) };
        let at_members = stream.at_members(&self.core.io);
        let result = self.write_batch(row, &batch).await;
        drop(at_members);
        batch.finish(result);
        result
    }

    /// Why the parts of a row should wait for the rest, if they should.
    fn hope(&self, row: u64, open: &Open<'_>, stream: &InStream<'_>) -> Option<Hope> {
        if open.is_due() || self.core.keeper.is_stopping() {
            return None;
        }
        stream.hope(row, self.map.row_data_bytes() - open.bytes())
    }

    /// Waits for the rest of a row, as [`super::streams`] has it.
    async fn await_rest(
        &self,
        row: u64,
        open: &Open<'_>,
        held: &RangeGuard<'_>,
        stream: &InStream<'_>,
        hope: Hope,
    ) {
        let io = &self.core.io;
        let (_woken, lingering) = (stream.wait(io.current_task()), io.lingers());
        held.linger();
        open.linger(Some((io.current_task(), stream.number())));
        let is_over = || open.is_due() || !held.lingers();
        let longest = io.now().after(LONGEST);
        let is_ended = loop {
            let quiet = || if is_over() { Some(None) } else { stream.came_if_quiet().map(Some) };
            let Some(Some(came)) = lingering.until(longest, quiet).await else { break is_over() };
            let moves = || stream.came_if_quiet() != Some(came);
            let goes_on = || if is_over() { Some(false) } else { moves().then_some(true) };
            match lingering.until(io.now().after(ANSWER).min(longest), goes_on).await {
                Some(true) => {}
                ended => break ended.is_some(),
            }
        };
        open.linger(None);
        if open.bytes() == self.map.row_data_bytes() {
            stream.was_filled();
        } else if !is_ended && !lingering.is_hurried() {
            stream.waited_in_vain(row, hope);
        }
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
