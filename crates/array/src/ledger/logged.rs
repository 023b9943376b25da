//! Parity that a log has in place of that on the members.

use std::collections::BTreeMap;

/// Blocks of parity by their place in the members' data areas: a log has them, and the members may not. Of each row there is but
/// one parity, so that a place tells the member too.
#[derive(Clone, Debug, Default)]
pub struct LoggedParity {
    blocks: BTreeMap<u64, Box<[u8]>>,
    bytes: u64,
}

impl LoggedParity {
    /// Adds what stands in the log for a place (byte of the data areas). False if there is something for a part of it already.
    pub fn add(&mut self, offset: u64, block: &[u8]) -> bool {
        let end = offset.saturating_add(block.len() as u64);
        let before = self.blocks.range(..end).next_back();
        if block.is_empty() || before.is_some_and(|(&at, known)| at + known.len() as u64 > offset) {
            return block.is_empty();
        }
        self.bytes += block.len() as u64;
        self.blocks.insert(offset, block.into());
        true
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts what the log has into bytes that were read from `offset` of a data area on.
    pub(crate) fn put(&self, offset: u64, into: &mut [u8]) {
        let end = offset + into.len() as u64;
        for (&at, block) in self.blocks.range(..end).rev() {
            let (from, to) = (at.max(offset), (at + block.len() as u64).min(end));
            if from >= to {
                return;
            }
            let own = &block[(from - at) as usize..(to - at) as usize];
            into[(from - offset) as usize..(to - offset) as usize].copy_from_slice(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_logged_is_put_where_it_belongs_and_nowhere_twice() {
        let mut logged = LoggedParity::default();
        assert!(
            logged.add(10, &[1; 4])
                && logged.add(14, &[2; 2])
                && logged.add(30, &[3; 10])
                && logged.add(12, &[])
        );
        assert!(
            !logged.add(15, &[4; 2])
                && !logged.add(8, &[4; 3])
                && !logged.add(0, &[4; 100])
                && !logged.add(39, &[4; 1])
        );
        assert_eq!(logged.bytes(), 16);
        let put = |offset, len| {
            let mut bytes = vec![0; len];
            logged.put(offset, &mut bytes);
            bytes
        };
        assert_eq!(put(9, 8), [0, 1, 1, 1, 1, 2, 2, 0]);
        assert_eq!(put(12, 3), [1, 1, 2]);
        assert_eq!(put(16, 14), [0; 14]);
        assert_eq!(put(39, 3), [3, 0, 0]);
    }
}
