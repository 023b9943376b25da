//! Memory that others change while it is read and written.

use brindle_io::PAGE;
use brindle_io::sync::{Either, race};
use brindle_volume::Volume;

use super::Subject;
use crate::guest::Guest;

impl<V: Volume> Subject<'_, V> {
    /// Requests with memory that others change meanwhile. A write of such memory leaves a mix of the contents that it
    /// had, and that mix stays. A read fills such memory. Both have such memory and stable memory in one list.
    pub(super) async fn memory_of_others_may_change(&self) {
        let block = self.block() as usize;
        let blocks = (self.size() as usize).next_multiple_of(PAGE) / block;
        let guest = Guest::new(self.io, block as u32, blocks);
        for round in 0..24 {
            let (offset, len) = self.range();
            let first = self.below((blocks - len / block + 1) as u64) as usize;
            let (all, own) = (first..first + len / block, self.memory(0..len).await);
            // In odd rounds a part in the middle is of the volume's user.
            let third = if round % 2 == 1 { len / block / 3 } else { 0 };
            let middle = first + third..first + 2 * third;
            let stays = (middle.start - first) * block..(middle.end - first) * block;
            let list = [
                guest.slice(all.start..middle.start),
                own.slice(stays.clone()),
                guest.slice(middle.end..all.end),
            ];
            guest.forget();
            let written = self.volume.write(offset, &list, round % 4 == 0);
            let written = match race(Box::pin(written), guest.restless(self.io, all.clone())).await {
                Either::First(written) => written,
                Either::Second(never) => never,
            };
            written.unwrap_or_else(|error| panic!("{}: write {round}: {error}", self.name));
            let found = self.get(offset, len).await;
            assert!(found[stays.clone()] == own.bytes()[stays], "{}: write {round}: what stays", self.name);
            for (n, found) in all.zip(found.chunks(block)).filter(|(n, _)| !middle.contains(n)) {
                let mixed = guest.has_held(n, found);
                assert!(mixed, "{}: write {round}: block {n} was never written", self.name);
            }
            self.model.borrow_mut()[offset as usize..offset as usize + len].copy_from_slice(&found);
        }
        self.read_into(&guest, blocks).await;
        self.holds().await;
    }

    async fn read_into(&self, guest: &Guest, blocks: usize) {
        let block = self.block() as usize;
        for round in 0..8 {
            let (offset, len) = self.range();
            let first = self.below((blocks - len / block + 1) as u64) as usize;
            let (all, cut) = (first..first + len / block, first + len / block / 2);
            guest.fill(all.clone());
            let into = [guest.slice(all.start..cut), guest.slice(cut..all.end)];
            let read = self.volume.read(offset, &into).await;
            read.unwrap_or_else(|error| panic!("{}: read {round}: {error}", self.name));
            let model = self.model.borrow();
            let expected = &model[offset as usize..offset as usize + len];
            assert!(guest.content(all) == expected, "{}: read {round}", self.name);
        }
    }
}
