//! Ranges that are given back: which pages go as a whole, and which are cut.

use super::tree::AtKey;
use super::{ENDLESS, Key, LAST, Map, Page};

/// The next thing to do for a range that is zeroes from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GiveStep {
    /// This page has to be read first.
    Unread(Page),
    /// A branch holds nothing else: it is to be closed, step by step.
    Fold { level: usize, at: Key },
    /// A leaf, or a branch that is closed, holds nothing else.
    GiveUp { at: Key, next: u64 },
    /// A leaf holds other blocks, too.
    Cut { at: Key, next: u64 },
    /// There are no blocks any more.
    Nothing,
}

impl Map {
    /// The next step for a range of a volume, up to a key; it goes on from `next`. If all the rest of the volume is meant, that is the key of the
    /// next volume: no page in between is read to see where its blocks end. It may be lost, which must not keep a volume from being
    /// destroyed.
    pub(crate) fn step_of(&self, (volume, from): Key, stop: Key) -> GiveStep {
        let tree = &self.tree;
        let to = if stop.0 == volume { stop.1 } else { ENDLESS };
        let holds = |(at, place): &(Key, &AtKey)| at.0 == volume || matches!(place, AtKey::Closed(_));
        let first = tree.place((volume, from)).filter(holds);
        let behind =
            || tree.places.range((volume, from)..(volume, to)).next().map(|(&at, place)| (at, place));
        let Some((at, place)) = first.or_else(behind) else { return GiveStep::Nothing };
        let begins = at >= (volume, from);
        if let Some(level) = (1..=tree.height()).rev().find(|&level| {
            let is_whole = begins && tree.end(level, at) <= stop;
            is_whole && tree.branch(level, at).is_some_and(|own| own.is_open && !own.dirty)
        }) {
            return GiveStep::Fold { level, at };
        }
        let behind = tree.next(at).unwrap_or(LAST);
        let next = Some(behind).filter(|next| next.0 == volume).map_or(ENDLESS, |next| next.1);
        match place {
            AtKey::Closed(level) => {
                if begins && behind <= stop {
                    return GiveStep::GiveUp { at, next };
                }
                tree.closed_page(*level, at).map_or(GiveStep::Nothing, GiveStep::Unread)
            }
            AtKey::Leaf(_) if begins && next <= to => GiveStep::GiveUp { at, next },
            AtKey::Leaf(slot) => match slot.pointer.filter(|_| slot.content.is_none()) {
                Some(pointer) => GiveStep::Unread(Page { level: 0, at, pointer }),
                None => GiveStep::Cut { at, next },
            },
        }
    }

    /// The key up to which a range goes, if all volumes that there are have a page.
    #[cfg(test)]
    pub(super) fn stop_of(&self, volume: u32, to: u64) -> Key {
        let next = self.tree.places.keys().find(|next| next.0 > volume);
        if to < ENDLESS { (volume, to) } else { next.map_or(LAST, |next| (next.0, 0)) }
    }

    /// Goes on with closing a branch; true once it is closed.
    pub(crate) fn fold(&mut self, level: usize, at: Key) -> bool {
        self.tree.fold(level, at)
    }
}
