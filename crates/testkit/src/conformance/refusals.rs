//! Requests that are refused, and requests of no bytes.

use brindle_io::{Io, Pool};
use brindle_volume::{Volume, VolumeError, ZeroOptions};

use super::Subject;

/// The answer of each method for a range; reads and writes get memory from `pool`. Allocation is not asked of volumes
/// that are `read_only`.
async fn answers<V: Volume>(pool: &Pool, volume: &V, offset: u64, len: u64) -> Vec<Result<(), VolumeError>> {
    let memory = pool.alloc(len.max(1) as usize).await.slice(0..len as usize);
    let mut found = Vec::new();
    vec![
        volume.read(offset, memory.clone()).await,
        volume.allocation(offset, len, &mut found).await,
        volume.write(offset, memory.clone(), false).await,
        volume.write(offset, memory, true).await,
        volume.discard(offset, len).await,
        volume.write_zeroes(offset, len, ZeroOptions::default()).await,
        volume.write_zeroes(offset, len, ZeroOptions { fua: true, ..ZeroOptions::default() }).await,
    ]
}

impl<V: Volume> Subject<'_, V> {
    /// Ranges that are unaligned or beyond the end are refused by all methods, and nothing is done.
    pub(super) async fn ranges_are_refused(&self) {
        let (block, size, name) = (self.block(), self.size(), &self.name);
        let cases = [
            (1, block, VolumeError::Unaligned),
            (block / 2, block, VolumeError::Unaligned),
            (0, block - 1, VolumeError::Unaligned),
            (block, block / 2, VolumeError::Unaligned),
            (size - block + 1, block, VolumeError::Unaligned),
            (size, block, VolumeError::OutOfRange),
            (size - block, 2 * block, VolumeError::OutOfRange),
            (!(block - 1), block, VolumeError::OutOfRange),
            (size + block, 0, VolumeError::OutOfRange),
            (1, 0, VolumeError::Unaligned),
        ];
        for (offset, len, expected) in cases {
            for (n, answer) in answers(self.pool, self.volume, offset, len).await.into_iter().enumerate() {
                assert_eq!(answer, Err(expected), "{name}: {len} at {offset}, method {n}");
            }
        }
        // A slice that ends within a block, and the rest of it.
        let buf = self.memory(0..2 * block as usize).await;
        let list = [buf.slice(0..block as usize + 1), buf.slice(block as usize + 1..2 * block as usize)];
        let unaligned = Err(VolumeError::Unaligned);
        assert_eq!(self.volume.write(0, &list, false).await, unaligned, "{name}");
        assert_eq!(self.volume.read(0, &list).await, unaligned, "{name}");
        self.holds().await;
    }

    /// Requests of no bytes succeed.
    pub(super) async fn no_bytes_are_done_at_once(&self) {
        for offset in [0, self.block(), self.size()] {
            let answers = answers(self.pool, self.volume, offset, 0).await;
            assert_eq!(answers, vec![Ok(()); answers.len()], "{}: nothing at {offset}", self.name);
        }
        let none = self.memory(0..1).await.slice(0..0);
        assert_eq!(self.volume.write(0, &[], true).await, Ok(()), "{}", self.name);
        assert_eq!(self.volume.read(0, &[none.clone(), none]).await, Ok(()), "{}", self.name);
        self.holds().await;
    }
}

/// All changes are refused, whatever their range; reads and flushes are not.
pub(super) async fn read_only<V: Volume>(name: &str, io: &Io, pool: &Pool, volume: &V) {
    let limits = volume.limits();
    assert!(limits.read_only, "{name}");
    let block = u64::from(limits.block);
    let before = crate::world::read(pool, volume, 0, limits.size as usize).await;
    for (offset, len) in [(0, block), (0, 0), (1, block), (limits.size, block)] {
        let changes = answers(pool, volume, offset, len).await.split_off(2);
        assert_eq!(changes, vec![Err(VolumeError::ReadOnly); changes.len()], "{name}: {len} at {offset}");
    }
    assert_eq!(volume.flush().await, Ok(()), "{name}");
    io.yield_now().await;
    assert!(
        before.is_ok() && before == crate::world::read(pool, volume, 0, limits.size as usize).await,
        "{name}"
    );
}
