//! The blocks of a pass that have been drawn, for requests of several sizes.

use super::random::Chance;

/// A bit for each block.
#[derive(Clone, Debug)]
pub(super) struct Cover {
    words: Vec<u64>,
    blocks: u64,
    left: u64,
}

impl Cover {
    pub(super) fn new(blocks: u64) -> Self {
        Self { words: vec![0; blocks.div_ceil(64) as usize], blocks, left: blocks }
    }

    fn has(&self, block: u64) -> bool {
        self.words[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// Draws up to `most` blocks in a row that were not drawn before: from a random one on, or from the next free one
    /// after it, round the end. `None` once all were drawn.
    pub(super) fn take(&mut self, chance: &mut Chance, most: u64) -> Option<(u64, u64)> {
        if self.left == 0 {
            return None;
        }
        let first = self.next_free(chance.below(self.blocks));
        let mut count = 0;
        while count < most && first + count < self.blocks && !self.has(first + count) {
            let block = first + count;
            self.words[(block / 64) as usize] |= 1 << (block % 64);
            count += 1;
        }
        self.left -= count;
        Some((first, count))
    }

    /// A block is free: some is left.
    fn next_free(&self, from: u64) -> u64 {
        let mut at = from;
        while self.has(at) {
            // Words without a free block are passed at once.
            let whole = self.words[(at / 64) as usize] == u64::MAX;
            at = if whole { (at / 64 + 1) * 64 } else { at + 1 };
            if at >= self.blocks {
                at = 0;
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_block_comes_once(blocks in 1u64..500, most in 1u64..9, seed: u64) {
            let (mut cover, mut chance) = (Cover::new(blocks), Chance::new(seed));
            let mut seen = vec![0; blocks as usize];
            while let Some((first, count)) = cover.take(&mut chance, most) {
                prop_assert!(count > 0 && count <= most);
                seen[first as usize..(first + count) as usize].iter_mut().for_each(|times| *times += 1);
            }
            prop_assert!(seen.iter().all(|times| *times == 1));
        }
    }
}
