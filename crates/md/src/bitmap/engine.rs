//! The bitmap as the engine's trait has it: it logs the ranges that change, and clears their bits later.

use core::future::Future;
use core::ops::Range;
use core::pin::Pin;

use brindle_io::{OpClass, OpError};

use super::{Bitmap, Counted};
use brindle_array::bitmap::{BitmapFile, Flight, IntentBitmap, Refusals};
use brindle_array::row_log::{Change, LogHost, OnRecord, RowLog};

/// Chunks that are looked at at a time.
const LOOKED_AT: u64 = 1 << 16;

impl RowLog for Bitmap {
    // Counted from now on. There is nothing to be waited for if all of its bits stand on all members.
    #[inline]
    fn begins<'a>(&self, change: &Change, host: &'a dyn LogHost) -> Option<OnRecord<'a>> {
        let Change::Bytes(range) = change else { return None };
        let state = &mut *self.state.borrow_mut();
        let mut stable = true;
        for chunk in self.chunks.of_bytes(range) {
            state.counters.begin(chunk);
            stable &= state.image.is_stable(chunk);
        }
        if stable { None } else { self.sets(&mut state.image, range, host) }
    }

    #[inline]
    fn ends(&self, change: &Change) {
        let Change::Bytes(range) = change else { return };
        let state = &mut *self.state.borrow_mut();
        for chunk in self.chunks.of_bytes(range) {
            state.counters.end(chunk);
        }
    }
}

impl IntentBitmap for Bitmap {
    // In a task of its own: once begun it comes to its end.
    fn fly(&self) -> Flight {
        let Some(me) = self.me.upgrade() else { return Box::pin(core::future::ready(Refusals::new())) };
        Box::pin(self.io.spawn_as(OpClass::Metadata, async move { me.flight(&[]).await }))
    }

    fn is_whole(&self) -> bool {
        self.whole.get()
    }

    fn retire(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async {
            self.retired.set(true);
            self.landed.until(|| (!self.flying.get()).then_some(())).await;
        })
    }

    fn next_round(&self) -> Vec<u64> {
        if self.stays_set {
            return Vec::new();
        }
        let Counted { counters, image } = &mut *self.state.borrow_mut();
        let idle = image.set_chunks().filter(|&chunk| counters.is_idle(chunk)).collect();
        counters.next_round();
        idle
    }

    fn is_idle(&self, chunk: u64) -> bool {
        self.state.borrow().counters.is_idle(chunk)
    }

    fn covers(&self, chunk: u64) -> Range<u64> {
        self.chunks.covers(chunk)
    }

    fn will_clear(&self) {
        let image = &mut self.state.borrow_mut().image;
        let now = image.superblock().events;
        if image.superblock().events_cleared < now {
            image.change(|superblock| superblock.events_cleared = now);
        }
    }

    fn clear(&self, chunk: u64) {
        self.state.borrow_mut().image.clear(chunk);
    }

    fn marked_run(&self, range: &Range<u64>) -> (bool, u64) {
        let state = self.state.borrow();
        let (first, count) = (self.chunks.at(range.start), self.chunks.count());
        if first >= count {
            return (false, range.end);
        }
        let marked = state.image.is_set(first);
        let last = (first + 1..count.min(first + LOOKED_AT)).find(|&chunk| {
            self.chunks.covers(chunk).start >= range.end || state.image.is_set(chunk) != marked
        });
        let end = self.chunks.covers(last.unwrap_or(count.min(first + LOOKED_AT)) - 1).end;
        (marked, end.min(range.end))
    }

    fn is_marked(&self, range: &Range<u64>) -> bool {
        let state = self.state.borrow();
        self.chunks.of_bytes(range).any(|chunk| state.image.is_set(chunk))
    }

    fn undoubted(&self) -> Vec<Range<u64>> {
        let state = self.state.borrow();
        let (mut ranges, mut next) = (Vec::new(), 0);
        for set in state.image.set_chunks().chain([self.chunks.count()]) {
            if set > next {
                ranges.push(self.covers(next).start..self.covers(set - 1).end);
            }
            next = set + 1;
        }
        ranges
    }

    fn daemon_sleep(&self) -> u32 {
        self.state.borrow().image.superblock().daemon_sleep
    }

    fn write_behind(&self) -> u32 {
        self.state.borrow().image.superblock().write_behind
    }

    fn set_write_behind(&self, count: u32) {
        self.state.borrow_mut().image.change(|superblock| superblock.write_behind = count);
    }

    fn tell(&self) -> (u64, u64, u64) {
        let image = &self.state.borrow().image;
        (image.superblock().chunk, self.chunks.count(), image.set_chunks().count() as u64)
    }

    fn written(&self) -> u64 {
        self.written.get()
    }

    fn file(&self) -> Option<&BitmapFile> {
        self.file.as_ref()
    }

    fn has_failed(&self) -> bool {
        self.file.is_some() && self.targets.borrow().is_empty()
    }

    fn refusal(&self) -> OpError {
        self.refusal.get().unwrap_or(OpError::Gone)
    }
}
