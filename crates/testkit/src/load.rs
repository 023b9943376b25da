//! Requests of clients to a volume, from a seed.

use core::cell::Cell;
use std::rc::Rc;

use crate::random::Random;
use crate::stamp::SECTOR;

/// One request. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read a range.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Write a range.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// To stable storage.
        fua: bool,
    },
    /// Make a range read as zeroes.
    Zeroes {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// To stable storage.
        fua: bool,
        /// The range stays allocated.
        keep: bool,
    },
    /// Give a range up.
    Discard {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Make all that was written stable.
    Flush,
}

/// How often each kind comes, in proportion to one another, and how large requests are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Reads.
    pub reads: u64,
    /// Writes; one in four with FUA.
    pub writes: u64,
    /// Write-zeroes.
    pub zeroes: u64,
    /// Discards.
    pub discards: u64,
    /// Flushes.
    pub flushes: u64,
    /// Most bytes of a request; many are much smaller.
    pub most: u64,
    /// Half of the requests fall into this many bytes at the start.
    pub crowd: u64,
    /// The unit of requests: they begin and end at multiples of it.
    pub block: u64,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            reads: 6,
            writes: 10,
            zeroes: 1,
            discards: 0,
            flushes: 2,
            most: 48 << 10,
            crowd: u64::MAX,
            block: SECTOR as u64,
        }
    }
}

/// Requests without end, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Load {
    random: Random,
    mix: Mix,
    size: u64,
    /// The end of the stream that its writes continue.
    stream: Option<Rc<Cell<u64>>>,
}

impl Load {
    /// For a volume of `size` bytes.
    pub fn new(random: Random, size: u64, mix: Mix) -> Self {
        Self { random, mix, size, stream: None }
    }

    /// Its writes follow each other, and those of all that share `end`; the stream begins anew where the volume ends.
    #[must_use]
    pub fn following(self, end: &Rc<Cell<u64>>) -> Self {
        Self { stream: Some(Rc::clone(end)), ..self }
    }

    /// The next request.
    pub fn next_request(&mut self) -> Request {
        let Mix { reads, writes, zeroes, discards, flushes, .. } = self.mix;
        let mut kind = self.random.below(reads + writes + zeroes + discards + flushes);
        let (offset, len) = self.range();
        let mut is = |count: u64| {
            let hit = kind < count;
            kind = kind.saturating_sub(count);
            hit
        };
        if is(reads) {
            Request::Read { offset, len }
        } else if is(writes) {
            let offset = self.stream.as_deref().map_or(offset, |end| follow(end, len, self.size));
            Request::Write { offset, len, fua: self.random.one_in(4) }
        } else if is(zeroes) {
            Request::Zeroes { offset, len, fua: self.random.one_in(4), keep: self.random.one_in(2) }
        } else if is(discards) {
            Request::Discard { offset, len }
        } else {
            Request::Flush
        }
    }

    /// Small, about a chunk, or many rows; anywhere, or in the crowd.
    fn range(&mut self) -> (u64, u64) {
        let block = self.mix.block;
        let within = if self.random.one_in(2) { self.size } else { self.size.min(self.mix.crowd) };
        let most = self.mix.most >> *self.random.pick(&[0, 2, 4, 6]);
        let len = block * (1 + self.random.below((most / block).max(1)));
        let len = len.min(within);
        (self.random.below((within - len) / block + 1) * block, len)
    }
}

/// The place of the next write of a stream.
fn follow(end: &Cell<u64>, len: u64, size: u64) -> u64 {
    let offset = if end.get() + len <= size { end.get() } else { 0 };
    end.set(offset + len);
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_within_the_volume_and_a_seed_repeats() {
        let mix = Mix { discards: 1, most: 1 << 20, crowd: 64 << 10, block: 4096, ..Mix::default() };
        let all = |seed| {
            let mut load = Load::new(Random::new(seed), 256 << 10, mix);
            (0..500).map(|_| load.next_request()).collect::<Vec<_>>()
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
        let mut kinds = [0; 5];
        for request in all(1) {
            let (kind, offset, len) = match request {
                Request::Read { offset, len } => (0, offset, len),
                Request::Write { offset, len, .. } => (1, offset, len),
                Request::Zeroes { offset, len, .. } => (2, offset, len),
                Request::Discard { offset, len } => (3, offset, len),
                Request::Flush => (4, 0, 4096),
            };
            kinds[kind] += 1;
            assert!((offset | len) % 4096 == 0 && len > 0 && offset + len <= 256 << 10, "{request:?}");
        }
        assert!(kinds.iter().all(|&count| count > 10), "{kinds:?}");
    }
}
