//! Changes of parts of blocks: programs write to files wherever they like, and volumes take whole blocks.
//!
//! The block is read, changed, and written if nobody has changed it meanwhile, by whichever door: else once more.

use core::ops::Range;

use brindle_io::sync::Semaphore;
use brindle_io::{Buf, Io, Pool, Slice};
use brindle_volume::{Volume, VolumeError, Wanted};

/// Bytes of memory for each of the three copies of a block.
const COPY: usize = 4096;
/// Times that memory is taken anew before a block is given up: what is in it may still be written to by a device.
const TRIES: usize = 8;

/// A range as blocks: at most a part of one before whole ones, and a part of one behind them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    before: Range<u64>,
    pub(super) whole: Range<u64>,
    behind: Range<u64>,
}

impl Parts {
    /// Those that are parts of blocks.
    pub(super) fn edges(&self) -> impl Iterator<Item = &Range<u64>> {
        [&self.before, &self.behind].into_iter().filter(|edge| !edge.is_empty())
    }
}

/// Changes parts of blocks, one at a time.
pub(super) struct Edges {
    one: Semaphore,
    memory: Pool,
    block: u64,
}

impl Edges {
    pub(super) fn new(io: &Io, block: u32) -> Self {
        Self { one: Semaphore::new(io, 1), memory: io.pool(TRIES * 4 * COPY), block: block.into() }
    }

    /// A range of bytes as blocks.
    pub(super) fn parts(&self, at: u64, len: u64) -> Parts {
        let end = at + len;
        let first = at.next_multiple_of(self.block);
        let last = end / self.block * self.block;
        if first > last {
            // All of it is in one block.
            return Parts { before: at..end, whole: end..end, behind: end..end };
        }
        Parts { before: at..first, whole: first..last, behind: last..end }
    }

    /// Changes bytes within one block, to these or to zeroes.
    pub(super) async fn put<V: Volume>(
        &self,
        volume: &V,
        bytes: Range<u64>,
        from: Option<&Slice>,
        stable: bool,
    ) -> Result<(), VolumeError> {
        let _one = self.one.acquire().await;
        let mut tries = TRIES;
        loop {
            match self.try_put(volume, bytes.clone(), from, stable).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(VolumeError::Again) if tries > 0 => tries -= 1,
                Err(why) => return Err(why),
            }
        }
    }

    /// Memory for a block.
    async fn copy(&self) -> Buf {
        self.memory.alloc(COPY).await
    }

    /// Whether it was done: not if the block has changed meanwhile.
    async fn try_put<V: Volume>(
        &self,
        volume: &V,
        bytes: Range<u64>,
        from: Option<&Slice>,
        stable: bool,
    ) -> Result<bool, VolumeError> {
        let (block, len) = (self.block as usize, (bytes.end - bytes.start) as usize);
        let copies = [self.copy().await, self.copy().await, self.copy().await];
        let [old, new, scratch] = copies.map(|copy| copy.slice(0..block));
        let (first, within) = (bytes.start / self.block * self.block, (bytes.start % self.block) as usize);
        volume.read(first, old.clone()).await?;
        {
            let mut changed = new.bytes_mut();
            changed.copy_from_slice(&old.bytes());
            let place = &mut changed[within..within + len];
            match from {
                Some(from) => place.copy_from_slice(&from.bytes()),
                None => place.fill(0),
            }
        }
        match volume.compare_and_write(first, &old, &new, &scratch, stable, &Wanted::default()).await {
            Ok(differs) => Ok(differs.is_none()),
            // A volume of another process: others may change the block in between.
            Err(VolumeError::Unsupported) => volume.write(first, new, stable).await.map(|()| true),
            Err(why) => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brindle_io::memory::Memory;

    #[test]
    fn ranges_are_cut_at_blocks() {
        let io = Io::new(Box::new(Memory::new()));
        let edges = Edges::new(&io, 512);
        for (range, before, whole, behind) in [
            (0..1024, 0..0, 0..1024, 1024..1024),
            (1..1024, 1..512, 512..1024, 1024..1024),
            (0..1025, 0..0, 0..1024, 1024..1025),
            (100..1100, 100..512, 512..1024, 1024..1100),
            (100..200, 100..200, 200..200, 200..200),
            (100..512, 100..512, 512..512, 512..512),
            (511..513, 511..512, 512..512, 512..513),
        ] {
            let parts = edges.parts(range.start, range.end - range.start);
            assert_eq!(parts, Parts { before, whole, behind }, "{range:?}");
        }
        drop(edges);
        io.shutdown();
    }
}
