//! Pages of a bitmap on their way to all members.

use brindle_io::{Buf, Instant, MemberId, OpClass, OpError};

use super::image::PAGE;
use super::{Bitmap, Target};
use brindle_array::bitmap::Refusals;

/// Pages that are written at the same time.
pub(super) const TOGETHER: usize = 16;

/// The right to write pages; lasts as long as this does.
struct Flying<'a>(&'a Bitmap);

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        self.0.flying.set(false);
        self.0.landed.notify();
    }
}

impl Bitmap {
    /// Writes the event count of the next superblocks, and all other changed pages, to members except `skip`.
    /// Refusals are as in [`IntentBitmap::fly`](brindle_array::bitmap::IntentBitmap::fly).
    pub(crate) async fn record(&self, events: u64, skip: &[MemberId]) -> Refusals {
        self.state.borrow_mut().image.change(|superblock| superblock.events = events);
        self.flight(skip).await
    }

    pub(super) async fn flight(&self, skip: &[MemberId]) -> Refusals {
        self.landed.until(|| (!self.flying.replace(true)).then_some(())).await;
        self.called.set(false);
        let _flying = Flying(self);
        if self.retired.get() {
            return Refusals::new();
        }
        if let Some(id) = self.first_pinned() {
            return vec![(id, OpError::TimedOut)];
        }
        let short = self.cut_short().await;
        if !short.is_empty() {
            return self.refused(short);
        }
        let mut pages = self.state.borrow_mut().image.take_dirty();
        // Until all of it is there, no superblock must call it fresh.
        let last = if self.whole.get() { 0 } else { pages.iter().filter(|&&page| page == 0).count() };
        pages.rotate_left(last);
        let (others, heads) = pages.split_at(pages.len() - last);
        for batch in others.chunks(TOGETHER).chain(heads.chunks(1)) {
            let refused = self.put(batch, skip).await;
            if !refused.is_empty() {
                self.state.borrow_mut().image.put_back(&pages);
                return self.refused(refused);
            }
        }
        if skip.is_empty() && !self.absent.get() {
            self.whole.set(true);
        } else {
            self.state.borrow_mut().image.put_back(&pages);
        }
        Refusals::new()
    }

    /// Has members flushed before pages are written to them, as md does.
    pub(crate) fn flush_first(&self, flushes: bool) {
        self.flushes_first.set(flushes);
    }

    /// Writes pages to all members at the same time.
    async fn put(&self, pages: &[usize], skip: &[MemberId]) -> Refusals {
        let mut refused = self.flush_before(skip).await;
        let mut filled: Vec<(usize, Buf)> = Vec::new();
        for &page in pages {
            let buf = self.pool.alloc(PAGE).await;
            filled.push((page, buf));
        }
        let mut group = self.io.group_of(OpClass::Metadata);
        for (page, buf) in &filled {
            let len = self.fill(*page, buf);
            for &Target { id, offset } in self.targets.borrow().iter().filter(|t| !skip.contains(&t.id)) {
                group.write(id, offset + (page * PAGE) as u64, &buf.slice(0..len), true);
            }
        }
        self.written.set(self.written.get() + pages.len() as u64);
        let until = self.until();
        let outcome = group.submit_by(until).await;
        let failed = outcome.failures().iter();
        let failed = failed.filter_map(|failure| Some((failure.kind.member()?, failure.error)));
        refused.extend(failed);
        // Errors of members that are out of use by now don't count as refusals.
        refused.retain(|&(id, _)| self.is_target(id));
        if refused.is_empty() && skip.is_empty() && !self.absent.get() {
            let image = &mut self.state.borrow_mut().image;
            filled.iter().for_each(|(page, buf)| image.landed(*page, &buf.bytes()));
        }
        for &(id, error) in &refused {
            if error == OpError::TimedOut {
                self.pinned.borrow_mut().extend(filled.iter().map(|(_, buf)| (id, buf.all())));
            }
        }
        refused
    }

    pub(super) fn until(&self) -> Instant {
        self.io.now().after(self.patience.answer).after(self.patience.answer)
    }

    /// Flushes the members that pages are about to be written to, if that is wanted.
    async fn flush_before(&self, skip: &[MemberId]) -> Refusals {
        if !self.flushes_first.get() {
            return Refusals::new();
        }
        let mut group = self.io.group_of(OpClass::Metadata);
        for target in self.targets.borrow().iter().filter(|target| !skip.contains(&target.id)) {
            group.flush(target.id);
        }
        let outcome = group.submit_by(self.until()).await;
        let failures = outcome.failures().iter();
        let failures = failures.filter(|failure| failure.error != OpError::Unsupported);
        failures.filter_map(|failure| Some((failure.kind.member()?, failure.error))).collect()
    }

    /// Copies a page into memory to be written; its bytes.
    fn fill(&self, page: usize, buf: &Buf) -> usize {
        let image = &mut self.state.borrow_mut().image;
        let bytes = image.page(page);
        buf.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        bytes.len()
    }
}
