//! Damage to blocks since the pool was opened: counts by member, ranges of volumes that are beyond repair, and those of both that no event
//! has told yet.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use brindle_format::pool::{BLOCK, Entry, EntryKind};

/// Ranges of lost blocks that are listed. Blocks beyond these are only counted.
const LISTED: usize = 1024;
/// Ranges that no event has told yet, at most.
const UNTOLD: usize = 16;
/// Places that are wrong still which are remembered, so that each counts once.
const PLACES: usize = 1024;

/// Damage to blocks of members since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Blocks that were not what the map says, or could not be read.
    pub found: u64,
    /// Of these, those that were rebuilt and written in place.
    pub mended: u64,
    /// Blocks of volumes that no member has any more, each as often as it was lost.
    pub lost: u64,
}

/// A range of a volume that is beyond repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// The volume's name.
    pub volume: String,
    /// Its first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Blocks of volumes, as ranges that neither overlap nor touch; no more than there is room for.
#[derive(Debug)]
pub(crate) struct Blocks {
    most: usize,
    /// Where each begins, and its end.
    ranges: BTreeMap<(u32, u64), u64>,
    /// Blocks that there was no room for.
    beyond: u64,
}

impl Blocks {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, ranges: BTreeMap::new(), beyond: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.beyond == 0
    }

    /// Blocks that there was no room for. One that was added twice counts twice.
    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u32, Range<u64>)> {
        self.ranges.iter().map(|(&(volume, from), &to)| (volume, from..to))
    }

    /// Blocks of a range that are not among these.
    fn missing(&self, volume: u32, blocks: &Range<u64>) -> u64 {
        let before = self.ranges.range(..=(volume, blocks.start)).next_back();
        let inside =
            self.ranges.range((volume, blocks.start + 1)..(volume, blocks.end.max(blocks.start + 1)));
        let common = |(&(of, from), &to): (&(u32, u64), &u64)| {
            let common = to.min(blocks.end).saturating_sub(from.max(blocks.start));
            if of == volume { common } else { 0 }
        };
        blocks.end - blocks.start - before.into_iter().chain(inside).map(common).sum::<u64>()
    }

    /// Adds blocks; gives how many were not among these.
    pub(crate) fn add(&mut self, volume: u32, blocks: Range<u64>) -> u64 {
        let new = if blocks.is_empty() { 0 } else { self.missing(volume, &blocks) };
        if new == 0 {
            return 0;
        }
        let (mut from, mut to) = (blocks.start, blocks.end);
        let mut joined = Vec::new();
        for (&(of, begin), &end) in self.ranges.range(..=(volume, to)).rev() {
            if of != volume || end < from {
                break;
            }
            (from, to) = (from.min(begin), to.max(end));
            joined.push((of, begin));
        }
        if joined.is_empty() && self.ranges.len() >= self.most {
            self.beyond += new;
            return new;
        }
        for key in &joined {
            self.ranges.remove(key);
        }
        self.ranges.insert((volume, from), to);
        new
    }

    /// Takes blocks out.
    pub(crate) fn remove(&mut self, volume: u32, blocks: &Range<u64>) {
        while let Some((&(of, from), &to)) = self.ranges.range(..(volume, blocks.end)).next_back() {
            if of != volume || to <= blocks.start {
                break;
            }
            self.ranges.remove(&(of, from));
            if to > blocks.end {
                self.ranges.insert((of, blocks.end), to);
            }
            if from < blocks.start {
                self.ranges.insert((of, from), blocks.start);
            }
        }
        // A hole makes two of one: the list stays bounded.
        while self.ranges.len() > self.most {
            if let Some(((_, from), to)) = self.ranges.pop_last() {
                self.beyond += to - from;
            }
        }
    }
}

/// The end of a block that was found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrongBlock {
    /// It was rebuilt, and written in place.
    Mended,
    /// It was rebuilt, and stands there as it was.
    Stays,
    /// No member has it any more.
    Lost,
}

/// Damage to the blocks of one member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemberDamage {
    pub(crate) found: u64,
    pub(crate) mended: u64,
}

/// Blocks of a member that no event has told yet.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    pub(crate) blocks: u64,
    /// They lie in these bytes of its data area.
    pub(crate) range: Option<Range<u64>>,
}

/// All that is known of damage.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) total: Damage,
    pub(crate) members: BTreeMap<u16, MemberDamage>,
    pub(crate) lost: Blocks,
    /// Blocks that were found lost since a scrub began that is under way.
    fresh: Option<Blocks>,
    /// Places that are wrong still.
    places: BTreeSet<(u16, u64)>,
    /// Blocks of members that no event has told yet, by whether they were mended.
    untold: BTreeMap<(u16, bool), Untold>,
    untold_lost: Blocks,
    /// A task tells what has been found, after a while.
    pub(crate) telling: bool,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            total: Damage::default(),
            members: BTreeMap::new(),
            lost: Blocks::new(LISTED),
            fresh: None,
            places: BTreeSet::new(),
            untold: BTreeMap::new(),
            untold_lost: Blocks::new(UNTOLD),
            telling: false,
        }
    }
}

impl Known {
    /// A block of a member was wrong, or could not be read. Whether that is news of the member.
    pub(crate) fn wrong(&mut self, role: u16, offset: u64, outcome: WrongBlock) -> bool {
        let (was, mended) = (self.places.contains(&(role, offset)), outcome == WrongBlock::Mended);
        if mended {
            self.places.remove(&(role, offset));
        } else if self.places.len() < PLACES {
            self.places.insert((role, offset));
        }
        let member = self.members.entry(role).or_default();
        let counts =
            [(&mut self.total.found, &mut self.total.mended), (&mut member.found, &mut member.mended)];
        for (found, made) in counts {
            *found += u64::from(!was);
            *made += u64::from(mended);
        }
        if was && !mended {
            return false;
        }
        if outcome != WrongBlock::Lost {
            let untold = self.untold.entry((role, mended)).or_default();
            untold.blocks += 1;
            let (from, to) = (offset, offset + BLOCK as u64);
            let range = untold.range.take().unwrap_or(from..to);
            untold.range = Some(range.start.min(from)..range.end.max(to));
        }
        true
    }

    /// Blocks of a volume are lost; whether that is new.
    pub(crate) fn lost(&mut self, volume: u32, blocks: Range<u64>) -> bool {
        if let Some(fresh) = &mut self.fresh {
            fresh.add(volume, blocks.clone());
        }
        let new = self.lost.add(volume, blocks.clone());
        self.total.lost += new;
        new > 0 && self.untold_lost.add(volume, blocks) > 0
    }

    /// Blocks are something else by now, or nothing.
    pub(crate) fn written(&mut self, entries: &[Entry]) {
        if self.lost.ranges.is_empty() {
            return;
        }
        for entry in entries {
            let blocks = match entry.kind {
                EntryKind::Data => entry.block..entry.block + 1,
                EntryKind::Zeroes => entry.block..entry.block + u64::from(entry.count),
                EntryKind::Destroyed => 0..u64::MAX,
                EntryKind::Lost | EntryKind::Page => continue,
            };
            let lists = [Some(&mut self.lost), self.fresh.as_mut()];
            lists.into_iter().flatten().for_each(|list| list.remove(entry.volume, &blocks));
        }
    }

    /// A scrub begins.
    pub(crate) fn scrub_begins(&mut self) {
        self.fresh = Some(Blocks::new(LISTED));
    }

    /// It has ended. One that looked at everything knows better what is lost than was known before; another does not.
    pub(crate) fn scrub_ends(&mut self, complete: bool) {
        if let Some(fresh) = self.fresh.take().filter(|_| complete) {
            self.lost = fresh;
        }
    }

    /// Takes out all that no event has told.
    pub(crate) fn take_untold(&mut self) -> (BTreeMap<(u16, bool), Untold>, Blocks) {
        let lost = core::mem::replace(&mut self.untold_lost, Blocks::new(UNTOLD));
        (core::mem::take(&mut self.untold), lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(blocks: &Blocks) -> Vec<(u32, Range<u64>)> {
        blocks.ranges().collect()
    }

    #[test]
    fn ranges_of_blocks_are_joined_and_cut() {
        let mut blocks = Blocks::new(8);
        assert_eq!([blocks.add(1, 5..6), blocks.add(1, 7..9), blocks.add(2, 0..4)], [1, 2, 4]);
        assert_eq!((blocks.add(1, 6..7), blocks.add(1, 4..9), blocks.add(1, 5..9)), (1, 1, 0));
        assert_eq!(all(&blocks), [(1, 4..9), (2, 0..4)]);
        blocks.remove(1, &(6..7));
        assert_eq!(all(&blocks), [(1, 4..6), (1, 7..9), (2, 0..4)]);
        blocks.remove(1, &(0..u64::MAX));
        assert_eq!((all(&blocks), blocks.add(2, 2..10)), (vec![(2, 0..4)], 6));
        blocks.remove(2, &(0..u64::MAX));
        assert!(blocks.is_empty());
    }

    #[test]
    fn the_list_is_bounded_and_says_how_much_is_not_on_it() {
        let mut blocks = Blocks::new(2);
        assert!([0, 10, 20, 30].iter().all(|&at| blocks.add(1, at..at + 3) == 3));
        assert_eq!((all(&blocks), blocks.beyond()), (vec![(1, 0..3), (1, 10..13)], 6));
        // One that grows needs no more room; a hole does.
        assert_eq!((blocks.add(1, 13..14), blocks.beyond()), (1, 6));
        blocks.remove(1, &(1..2));
        assert_eq!((all(&blocks), blocks.beyond()), (vec![(1, 0..1), (1, 2..3)], 10));
    }

    #[test]
    fn a_scrub_that_looked_at_everything_says_what_is_lost() {
        let mut known = Known::default();
        assert!(known.lost(1, 3..5) && known.lost(1, 9..10));
        for complete in [false, true] {
            known.scrub_begins();
            let _news = known.lost(1, 9..10);
            let (kind, count, node, checksum) = (EntryKind::Data, 1, 1, 0);
            known.written(&[Entry { kind, volume: 1, node, block: 4, count, checksum }]);
            known.scrub_ends(complete);
            let left = if complete { vec![(1, 9..10)] } else { vec![(1, 3..4), (1, 9..10)] };
            assert_eq!(all(&known.lost), left);
        }
    }

    #[test]
    fn a_place_that_stays_wrong_counts_once() {
        let mut known = Known::default();
        assert!(known.wrong(1, 4096, WrongBlock::Stays) && !known.wrong(1, 4096, WrongBlock::Lost));
        assert!(known.wrong(1, 4096, WrongBlock::Mended) && known.wrong(1, 12288, WrongBlock::Mended));
        assert_eq!((known.total.found, known.total.mended, known.members[&1].found), (2, 2, 2));
        let (untold, _) = known.take_untold();
        let mended = &untold[&(1, true)];
        assert_eq!((mended.blocks, mended.range.clone()), (2, Some(4096..16384)));
    }
}
