//! Comparing and writing in one step, beside others that write.

use brindle_io::sync::join_all;
use brindle_volume::{Volume, VolumeError, Wanted};

use super::Subject;

/// How often each of the counting clients adds 1, and the other one begins to count anew.
const ROUNDS: u32 = 12;

impl<V: Volume> Subject<'_, V> {
    /// A compare and write writes the second half of its data if the first half is there, else gives the first byte
    /// that differs; no other change comes between. Volumes that can't do it say so each time.
    pub(super) async fn compared_writes_are_one_step(&self) {
        let (block, name) = (self.block() as usize, &self.name);
        let old = self.pool.alloc(2 * block).await.all();
        let (new, scratch) = (self.memory(0..2 * block).await, self.memory(0..2 * block).await);
        let at = 2 * self.block();
        old.put(0, &self.model.borrow()[at as usize..at as usize + 2 * block]);
        let wanted = Wanted::default();
        let exchange =
            async |old, new| self.volume.compare_and_write(at, old, new, &scratch, false, &wanted).await;
        let first = exchange(&old, &new).await;
        if first == Err(VolumeError::Unsupported) {
            assert_eq!(exchange(&old, &new).await, first, "{name}");
            return;
        }
        assert_eq!(first, Ok(None), "{name}: what is there is compared as such");
        self.keep(at, core::slice::from_ref(&new));
        // One byte is another, and nothing is written.
        let differs = block + 7;
        let mut bytes = new.bytes().to_vec();
        bytes[differs] ^= 1;
        old.put(0, &bytes);
        let other = self.memory(0..2 * block).await;
        assert_eq!(exchange(&old, &other).await, Ok(Some(differs as u64)), "{name}");
        self.holds().await;
        // The write is not wanted any more once the look is over.
        old.put(0, &self.model.borrow()[at as usize..at as usize + 2 * block]);
        let unwanted = Wanted::asking(|| false);
        let given_up = self.volume.compare_and_write(at, &old, &other, &scratch, false, &unwanted).await;
        assert_eq!(given_up, Err(VolumeError::Again), "{name}: nothing is written");
        self.holds().await;
        let half = old.slice(0..block);
        assert_eq!(exchange(&old, &half).await, Err(VolumeError::Unaligned), "{name}");
        self.nobody_comes_between().await;
    }

    /// Three clients add to a number, a fourth begins it anew by a plain write: what that wrote is never lost to one who had looked
    /// before.
    async fn nobody_comes_between(&self) {
        let block = self.block() as usize;
        let zeroes = self.pool.alloc(block).await.all();
        zeroes.put(0, &vec![0; block]);
        self.put(0, &[zeroes]).await;
        let added = std::cell::Cell::new(0);
        let count = async |_client: u32| {
            for _ in 0..ROUNDS {
                self.add_one().await;
                added.set(added.get() + 1);
            }
        };
        let anew = async {
            for era in 1..=ROUNDS {
                let from = self.pool.alloc(block).await.all();
                let mut bytes = vec![0; block];
                bytes[..4].copy_from_slice(&era.to_le_bytes());
                from.put(0, &bytes);
                self.volume
                    .write(0, &from, era % 2 == 0)
                    .await
                    .unwrap_or_else(|e| panic!("{}: {e}", self.name));
                let found = self.get(0, block).await;
                assert_eq!(found[..4], era.to_le_bytes(), "{}: a plain write was lost", self.name);
            }
        };
        let clients: [std::pin::Pin<Box<dyn Future<Output = ()> + '_>>; 4] =
            [Box::pin(count(0)), Box::pin(count(1)), Box::pin(count(2)), Box::pin(anew)];
        join_all(clients).await;
        assert_eq!(added.get(), 3 * ROUNDS);
        // Alone from here on, the sum is exact.
        let before = self.number().await.1;
        join_all((0..3).map(count)).await;
        assert_eq!(self.number().await.1, before + 3 * ROUNDS, "{}: an addition was lost", self.name);
        let found = self.get(0, block).await;
        self.model.borrow_mut()[..block].copy_from_slice(&found);
    }

    /// The era, and the number.
    async fn number(&self) -> (u32, u32) {
        let found = self.get(0, self.block() as usize).await;
        let word = |at: usize| u32::from_le_bytes([found[at], found[at + 1], found[at + 2], found[at + 3]]);
        (word(0), word(4))
    }

    async fn add_one(&self) {
        let block = self.block() as usize;
        loop {
            let found = self.get(0, block).await;
            let number = u32::from_le_bytes([found[4], found[5], found[6], found[7]]) + 1;
            let (old, new, scratch) = (
                self.pool.alloc(block).await.all(),
                self.pool.alloc(block).await.all(),
                self.pool.alloc(block).await.all(),
            );
            old.put(0, &found);
            new.put(0, &found);
            new.put(4, &number.to_le_bytes());
            let wanted = Wanted::default();
            let written =
                self.volume.compare_and_write(0, &old, &new, &scratch, number % 3 == 0, &wanted).await;
            if written.unwrap_or_else(|error| panic!("{}: {error}", self.name)).is_none() {
                return;
            }
        }
    }
}
