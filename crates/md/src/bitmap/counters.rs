//! Counts the writes under way in each chunk, and notes recent ones.

/// Chunks per page of counters. A page exists only while one of its counters is not zero.
const PAGE: usize = 2048;
/// Most writes under way that are counted. The counter stays there: the bit of such a chunk is not cleared any more
/// in this run.
const MOST: u16 = 0x7fff;
/// A write began since the last round.
const TOUCHED: u16 = 0x8000;

/// Sixteen bits for each chunk, as md has, in pages.
pub(super) struct Counters(Vec<Option<Box<[u16; PAGE]>>>);

impl Counters {
    pub(super) fn new(chunks: u64) -> Self {
        Self((0..chunks.div_ceil(PAGE as u64)).map(|_| None).collect())
    }

    /// A write begins in a chunk.
    #[inline]
    pub(super) fn begin(&mut self, chunk: u64) {
        let (page, at) = (chunk as usize / PAGE, chunk as usize % PAGE);
        let counter = &mut self.0[page].get_or_insert_with(|| Box::new([0; PAGE]))[at];
        let count = *counter & MOST;
        *counter = TOUCHED | if count == MOST { MOST } else { count + 1 };
    }

    /// Notes that a write to the chunk has ended.
    #[inline]
    pub(super) fn end(&mut self, chunk: u64) {
        let (page, at) = (chunk as usize / PAGE, chunk as usize % PAGE);
        if let Some(counter) = self.0[page].as_mut().map(|page| &mut page[at])
            && !matches!(*counter & MOST, 0 | MOST)
        {
            *counter -= 1;
        }
    }

    /// No write is under way in the chunk, nor has one begun since the last round.
    pub(super) fn is_idle(&self, chunk: u64) -> bool {
        self.0[chunk as usize / PAGE].as_ref().is_none_or(|page| page[chunk as usize % PAGE] == 0)
    }

    /// Begins a round: writes that begin from now on are new. Counters of unused pages are freed.
    pub(super) fn next_round(&mut self) {
        for page in &mut self.0 {
            let Some(counters) = page else { continue };
            counters.iter_mut().for_each(|counter| *counter &= MOST);
            if counters.iter().all(|&counter| counter == 0) {
                *page = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_idle_a_round_after_its_last_write() {
        let mut counters = Counters::new(5000);
        counters.begin(4999);
        counters.begin(4999);
        counters.end(4999);
        counters.next_round();
        assert!(!counters.is_idle(4999) && counters.is_idle(4998) && counters.is_idle(0));
        counters.end(4999);
        assert!(counters.is_idle(4999), "it was touched before the round");
        counters.begin(4999);
        counters.end(4999);
        assert!(!counters.is_idle(4999), "it was touched since");
        counters.next_round();
        assert!(counters.is_idle(4999) && counters.0.iter().all(Option::is_none));
    }

    #[test]
    fn a_counter_that_is_full_stays_full() {
        let mut counters = Counters::new(1);
        (0..70_000).for_each(|_| counters.begin(0));
        (0..70_000).for_each(|_| counters.end(0));
        counters.next_round();
        assert!(!counters.is_idle(0));
    }
}
