//! Requests that run at the same time, or that nobody waits for.

use core::ops::Range;

use brindle_io::sync::{Either, join_all, race};
use brindle_io::{Duration, Slice};
use brindle_volume::Volume;

use super::Subject;

impl<V: Volume> Subject<'_, V> {
    /// Each block of a range is in one of these states, each of which begins at the range's first byte.
    fn one_of(&self, found: &[u8], states: &[&[u8]], what: &str) {
        let block = self.block() as usize;
        for (n, found) in found.chunks(block).enumerate() {
            let at = n * block;
            let same = states.iter().any(|state| &state[at..at + found.len()] == found);
            assert!(same, "{}: block {n} {what}", self.name);
        }
    }

    /// After overlapping writes each block has the data of one of them. A read beside them finds each block as it was
    /// before or after.
    pub(super) async fn overlapping_writes_leave_one_or_the_other(&self) {
        for _ in 0..16 {
            let (offset, len) = self.range();
            let range = offset as usize..offset as usize + len;
            let before = self.model.borrow()[range.clone()].to_vec();
            let (a, b) = (self.memory(0..len).await, self.memory(0..len).await);
            let (one, other) = (a.bytes().to_vec(), b.bytes().to_vec());
            let into = self.memory(0..len).await;
            // The second is of the later part only.
            let skipped = len / 2 / self.block() as usize * self.block() as usize;
            let write = async |offset, from: Slice| self.volume.write(offset, from, false).await;
            let (first, read) = (write(offset, a), self.volume.read(offset, into.clone()));
            let second = write(offset + skipped as u64, b.slice(skipped..len));
            let (writes, read) = both(join_all([first, second]), read).await;
            assert_eq!(writes, [Ok(()), Ok(())], "{}", self.name);
            assert_eq!(read, Ok(()), "{}", self.name);
            self.one_of(&into.bytes(), &[&before, &one, &other], "read meanwhile");
            let found = self.get(offset, len).await;
            self.one_of(&found[..skipped], &[&one], "of one write");
            self.one_of(&found[skipped..], &[&one[skipped..], &other[skipped..]], "of two writes");
            self.model.borrow_mut()[range].copy_from_slice(&found);
        }
    }

    /// Whatever is dropped on its way, the volume goes on: blocks of a write are old or new, others as they were, and the same
    /// range can be written again. Of what is on missing members, in rows that a dropped write touched, nothing is promised
    /// until it is rewritten.
    pub(super) async fn dropped_futures_leave_it_usable(&self) {
        for round in 0..24u64 {
            let (offset, len) = self.range();
            let memory = self.memory(0..len).await;
            self.begin_and_drop(round, offset, &memory).await;
            // Writes already sent to members end first: until then each block may still change from old to new.
            self.io.sleep(Duration::from_secs(1)).await;
            let is_write = is_write(round);
            let written = if is_write { memory.bytes().to_vec() } else { Vec::new() };
            self.only_changed(offset, &written).await;
            let touched = self.rows_of(offset, len);
            let (offset, len) = if is_write {
                (touched.start, (touched.end - touched.start) as usize)
            } else {
                (offset, len)
            };
            let anew = self.memory(0..len).await;
            self.put(offset, &[anew]).await;
        }
        self.holds().await;
    }

    /// Begins a request that depends on the round, and drops it some turns later unless it has ended.
    async fn begin_and_drop(&self, round: u64, offset: u64, memory: &Slice) {
        let into = self.memory(0..memory.len()).await;
        let turns = async {
            for _ in 0..round % 7 {
                self.io.yield_now().await;
            }
        };
        let wait = async {
            match round % 3 {
                0 => self.volume.read(offset, into).await,
                1 => self.volume.flush().await,
                _ => self.volume.write(offset, memory.clone(), round.is_multiple_of(2)).await,
            }
        };
        if let Either::First(done) = race(wait, turns).await {
            assert_eq!(done, Ok(()), "{}: round {round}", self.name);
        }
    }

    /// Each block is as it was, or one of those that were being written at `offset`, or may be anything.
    async fn only_changed(&self, offset: u64, written: &[u8]) {
        let found = self.get(0, self.size() as usize).await;
        let (range, block) = (offset..offset + written.len() as u64, self.block() as usize);
        let touched = self.rows_of(offset, written.len());
        let model = self.model.borrow();
        for (n, (found, before)) in found.chunks(block).zip(model.chunks(block)).enumerate() {
            let at = (n * block) as u64;
            let is_new = || range.contains(&at) && written[(at - offset) as usize..].starts_with(found);
            let in_doubt = || touched.contains(&at) && (self.missing)(at);
            assert!(
                found == before || is_new() || in_doubt(),
                "{}: byte {at} after a dropped request",
                self.name
            );
        }
    }

    /// The whole rows that a range touches, if it is not empty; the range itself where there are none.
    fn rows_of(&self, offset: u64, len: usize) -> Range<u64> {
        let (row, end) = (self.volume.limits().optimal, offset + len as u64);
        if row == 0 || len == 0 {
            return offset..end;
        }
        offset / row * row..end.next_multiple_of(row).min(self.size())
    }
}

/// Rounds of dropped requests that are writes.
fn is_write(round: u64) -> bool {
    round % 3 == 2
}

/// Waits for both.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut first, mut second) = (None, None);
    let a = async { first = Some(a.await) };
    let b = async { second = Some(b.await) };
    let both: [core::pin::Pin<Box<dyn Future<Output = ()>>>; 2] = [Box::pin(a), Box::pin(b)];
    join_all(both).await;
    match (first, second) {
        (Some(first), Some(second)) => (first, second),
        _ => unreachable!("both were awaited"),
    }
}
