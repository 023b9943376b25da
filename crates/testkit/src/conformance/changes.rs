//! The effects of writes, zeroes and discards.

use brindle_io::Slice;
use brindle_volume::{Volume, VolumeError, ZeroOptions};

use super::Subject;

impl<V: Volume> Subject<'_, V> {
    /// Cuts memory into a list of up to eight slices of whole blocks, some of none, which are of buffers of their own or not.
    async fn cut(&self, memory: &Slice) -> Vec<Slice> {
        let (block, len) = (self.block() as usize, memory.len());
        let mut ends = Vec::new();
        for _ in 0..self.below(8) {
            ends.push(self.below((len / block) as u64 + 1) as usize * block);
        }
        ends.push(len);
        ends.sort_unstable();
        let (mut list, mut start) = (Vec::new(), 0);
        for end in ends {
            let part = memory.slice(start..end);
            let apart = self.below(2) == 0 && !part.is_empty();
            list.push(if apart {
                let copy = self.pool.alloc(part.len()).await;
                copy.bytes_mut().copy_from_slice(&part.bytes());
                copy.all()
            } else {
                part
            });
            start = end;
        }
        list
    }

    /// A list of slices is written and read as one slice of the same bytes.
    pub(super) async fn lists_are_as_one_slice(&self) {
        for round in 0..40 {
            let (offset, len) = self.range();
            let memory = self.memory(0..len).await;
            let list = self.cut(&memory).await;
            let fua = round % 4 == 0;
            let written = self.volume.write(offset, &list, fua).await;
            written.unwrap_or_else(|error| panic!("{}: write {round}: {error}", self.name));
            self.keep(offset, &list);
            let (offset, len) = self.range();
            let memory = self.memory(0..len).await;
            let into = self.cut(&memory).await;
            let read = self.volume.read(offset, &into).await;
            read.unwrap_or_else(|error| panic!("{}: read {round}: {error}", self.name));
            let read: Vec<u8> = into.iter().flat_map(|slice| slice.bytes().to_vec()).collect();
            let model = self.model.borrow();
            assert!(read == model[offset as usize..offset as usize + len], "{}: read {round}", self.name);
        }
        self.holds().await;
    }

    /// Zeroes are zeroes however they are made, and nothing beside them changes.
    pub(super) async fn zeroes_are_zeroes(&self) {
        for round in 0..16u8 {
            let (offset, len) = self.range();
            let [fua, keep_allocated, fast_only] = [1, 2, 4].map(|bit| round & bit != 0);
            let options = ZeroOptions { fua, keep_allocated, fast_only };
            match self.volume.write_zeroes(offset, len as u64, options).await {
                Ok(()) => self.model.borrow_mut()[offset as usize..offset as usize + len].fill(0),
                Err(VolumeError::Unsupported) if fast_only => {}
                Err(error) => panic!("{}: {options:?}: {error}", self.name),
            }
            self.holds().await;
        }
    }

    /// A discard changes nothing beside its range, which can be rewritten.
    pub(super) async fn discards_stay_in_their_range(&self) {
        for _ in 0..8 {
            let (offset, len) = self.range();
            let discarded = self.volume.discard(offset, len as u64).await;
            discarded.unwrap_or_else(|error| panic!("{}: discard: {error}", self.name));
            let (start, end) = (offset as usize, offset as usize + len);
            let found = self.get(0, self.size() as usize).await;
            let beside = |bytes: &[u8]| [&bytes[..start], &bytes[end..]].concat();
            assert!(beside(&found) == beside(&self.model.borrow()), "{}: beside a discard", self.name);
            let anew = self.memory(0..len).await;
            self.put(offset, &[anew]).await;
        }
        self.holds().await;
    }

    /// Stretches lie within what was asked for, begin at its start, and are zeroes where they say so.
    pub(super) async fn allocation_covers(&self) {
        for _ in 0..8 {
            let (offset, len) = self.range();
            let mut found = Vec::new();
            let reported = self.volume.allocation(offset, len as u64, &mut found).await;
            reported.unwrap_or_else(|error| panic!("{}: allocation: {error}", self.name));
            let all: u64 = found.iter().map(|stretch| stretch.len).sum();
            assert!(0 < all && all <= len as u64, "{}: {found:?} of {len}", self.name);
            let mut at = offset as usize;
            for stretch in found {
                let end = at + stretch.len as usize;
                let zero = self.model.borrow()[at..end].iter().all(|&byte| byte == 0);
                assert!(stretch.len > 0 && (zero || !stretch.zero), "{}: {stretch:?} at {at}", self.name);
                at = end;
            }
        }
    }
}
