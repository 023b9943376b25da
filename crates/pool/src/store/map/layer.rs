//! Changes of the map that are in memory alone: blocks, above ranges of zeroes.

use std::collections::{BTreeMap, BTreeSet};

use super::Key;
use crate::store::leaf::Located;

#[derive(Default)]
pub(super) struct Layer {
    pub(super) blocks: BTreeMap<Key, Located>,
    /// Where each begins, and its end.
    pub(super) zeroes: BTreeMap<Key, u64>,
    /// Segments that were used again: what leaves name there is of their earlier use. This layer has another place for each of these
    /// blocks.
    pub(super) reused: BTreeSet<u32>,
}

impl Layer {
    pub(super) fn find(&self, key: Key) -> Option<Located> {
        if let Some(&found) = self.blocks.get(&key) {
            return Some(found);
        }
        self.is_zeroes(key).then_some(Located::Zeroes)
    }

    pub(super) fn is_zeroes(&self, key: Key) -> bool {
        let before = self.zeroes.range(..=key).next_back();
        before.is_some_and(|(&(volume, _), &end)| volume == key.0 && key.1 < end)
    }

    /// All of a range is zeroes; gives what was there.
    pub(super) fn clear(&mut self, volume: u32, from: u64, to: u64) -> Vec<Located> {
        let range = (volume, from)..(volume, to.max(from));
        // Whatever else has changed is not gone through for that.
        let gone = self.blocks.extract_if(range, |_, _| true).map(|(_, located)| located).collect();
        let (mut from, mut to) = (from, to);
        // Ranges that overlap or touch become one.
        while let Some((&(of, begin), &end)) = self.zeroes.range(..=(volume, to)).next_back() {
            if of != volume || end < from {
                break;
            }
            (from, to) = (from.min(begin), to.max(end));
            self.zeroes.remove(&(of, begin));
        }
        self.zeroes.insert((volume, from), to);
        gone
    }

    /// The parts of a range that are not among the ranges of zeroes.
    pub(super) fn uncovered(&self, volume: u32, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut rest = Vec::new();
        let mut at = from;
        let before = self.zeroes.range(..=(volume, from)).next_back();
        let inside =
            self.zeroes.range((volume, from.saturating_add(1))..(volume, to.max(from.saturating_add(1))));
        for (&(of, begin), &end) in before.into_iter().chain(inside) {
            if of != volume || end <= at {
                continue;
            }
            if begin > at {
                rest.push((at, begin.min(to)));
            }
            at = at.max(end);
        }
        if at < to {
            rest.push((at, to));
        }
        rest
    }
}
