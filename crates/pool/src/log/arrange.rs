//! The order of a batch's blocks. Its entries go stripe by stripe; neighbours of a volume are to lie on one member, one behind the
//! other. So a *group* of them, 64 KiB that begin where such a group of the volume does, gets rows of one slot: neither the summary nor what comes
//! before shifts it, nor where the batch begins. All others fill what is left, slot by slot.

use smallvec::SmallVec;

use crate::log::queue::Item;
use crate::store::space::{Grant, group};

/// Items for which no memory is taken: more than a batch has.
const MOST: usize = 256;
/// The place of an item of which none is known yet.
const NOWHERE: u16 = u16::MAX;

/// Blocks of a slot that lie one behind the other on a member, within a chunk: those that can have items.
#[derive(Clone, Copy)]
struct Column {
    slot: u32,
    /// Counted from the first stripe of the batch.
    first: u32,
    end: u32,
}

impl Column {
    /// All of them, chunk by chunk: without the summary, and what is behind the last of so many blocks.
    fn all(grant: Grant, count: u32) -> impl Iterator<Item = Self> + Clone {
        let (high, data) = (grant.shape.high(), u32::from(grant.shape.data()));
        let (begin, end) = (grant.stripe, grant.stripe + grant.stripes);
        (begin / high..end.div_ceil(high)).flat_map(move |chunk| {
            let first = (chunk * high).max(begin) - begin;
            let end = ((chunk + 1) * high).min(end) - begin;
            (0..data).map(move |slot| {
                let first = first + u32::from(first + slot == 0);
                let filled = (count + data - slot) / data;
                Self { slot, first, end: end.min(filled).max(first) }
            })
        })
    }

    /// Whole groups that it has room for: they stand at its end.
    fn groups(self, group: u32) -> u32 {
        (self.end - self.first) / group
    }

    /// The first rows of these.
    fn begins(self, group: u32) -> impl Iterator<Item = (u32, u32)> + Clone {
        let count = self.groups(group);
        (0..count).map(move |n| (self.slot, self.end - (count - n) * group))
    }

    /// The same without so many of its groups.
    fn without(self, groups: u32, group: u32) -> [Self; 2] {
        let begin = self.end - self.groups(group) * group;
        let before = if groups > 0 { begin } else { self.end };
        [Self { end: before, ..self }, Self { first: (begin + groups * group).max(before), ..self }]
    }

    /// Its blocks, by their numbers in the batch.
    fn blocks(self, data: u32) -> impl Iterator<Item = u32> {
        (self.first..self.end).map(move |stripe| stripe * data + self.slot)
    }
}

/// A whole group of neighbours begins with this item, where one of the volume does.
fn is_group(items: &[Item], group: u32) -> bool {
    let Some(first) = items.first().filter(|item| item.block.is_multiple_of(group.into())) else {
        return false;
    };
    let follows = |(n, item): (u64, &Item)| {
        item.kind.has_block() && item.volume == first.volume && item.block == first.block + n
    };
    items.len() >= group as usize && (0..).zip(items).take(group as usize).all(follows)
}

/// Puts items of a batch into the order of its entries.
pub(crate) fn arrange(grant: Grant, items: &mut [Item]) {
    let group = group(grant.shape);
    if group < 2 {
        return;
    }
    let data = u32::from(grant.shape.data());
    let count = items.iter().filter(|item| item.kind.has_block()).count() as u32;
    let mut places: SmallVec<[u16; MOST]> = SmallVec::from_elem(NOWHERE, items.len());
    let mut whole = Column::all(grant, count).flat_map(|column| column.begins(group));
    let (mut used, mut at) = (0, 0);
    while at < items.len() {
        if is_group(&items[at..], group)
            && let Some((slot, first)) = whole.next()
        {
            for row in first..first + group {
                // The summary is the first block of all.
                places[at] = (row * data + slot) as u16 - 1;
                at += 1;
            }
            used += 1;
        } else {
            at += 1;
        }
    }
    let rests = |column: Column| {
        let own = column.groups(group).min(used);
        used -= own;
        column.without(own, group)
    };
    let mut left = Column::all(grant, count).flat_map(rests).flat_map(|column| column.blocks(data));
    let mut behind = count as u16..;
    for (place, item) in places.iter_mut().zip(items.iter()).filter(|(place, _)| **place == NOWHERE) {
        let next = if item.kind.has_block() { left.next().map(|n| n as u16 - 1) } else { behind.next() };
        *place = next.unwrap_or(NOWHERE);
    }
    debug_assert!(places.iter().all(|place| usize::from(*place) < items.len()), "each item has a place");
    for at in 0..items.len() {
        while usize::from(places[at]) != at && usize::from(places[at]) < items.len() {
            let to = usize::from(places[at]);
            items.swap(at, to);
            places.swap(at, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use brindle_format::pool::EntryKind;
    use brindle_format::pool::place::Shape;
    use brindle_io::Io;
    use brindle_io::memory::Memory;

    use super::*;
    use crate::log::queue::{Source, Ticket};

    fn shape(members: u32, parity: u8, chunk: u8) -> Shape {
        Shape { members: (1 << members) - 1, rows: 256, stripe: members as u8, parity, chunk, turn: 0 }
    }

    /// Groups of a volume of which blocks in this order lie one behind the other on a member; and of these all blocks are there.
    fn in_one(grant: Grant, blocks: &[u64]) -> usize {
        let io = Io::new(Box::new(Memory::new()));
        let ticket = Ticket::new(&io, blocks.len());
        let item = |&block: &u64| {
            let (kind, ticket) = (EntryKind::Data, ticket.clone());
            Item { kind, volume: 1, node: 1, block, count: 1, source: Source::None, fua: false, ticket }
        };
        let mut items: Vec<Item> = blocks.iter().map(item).collect();
        arrange(grant, &mut items);
        let mut groups: BTreeMap<u64, Vec<(u64, u32)>> = BTreeMap::new();
        for (n, item) in (1..).zip(&items) {
            let place = grant.address(n).place();
            groups.entry(item.block / 16).or_default().push((item.block, place));
        }
        let mut found: Vec<u64> = items.iter().map(|item| item.block).collect();
        let mut all = blocks.to_vec();
        found.sort_unstable();
        all.sort_unstable();
        assert_eq!(found, all, "each is there once");
        let lies_in_one = |blocks: &mut Vec<(u64, u32)>| {
            blocks.sort_unstable();
            let one = |pair: &[(u64, u32)]| {
                let spots = [pair[0].1, pair[1].1].map(|place| {
                    let (stripe, slot) = grant.shape.slot(place).expect("a place");
                    grant.shape.spot(grant.shape.spot_number(stripe, slot))
                });
                spots[0].member == spots[1].member && spots[0].row + 1 == spots[1].row
            };
            blocks.len() == 16 && blocks.windows(2).all(one)
        };
        groups.values_mut().filter_map(|blocks| lies_in_one(blocks).then_some(())).count()
    }

    #[test]
    fn groups_of_a_volume_lie_on_one_member_each_wherever_the_batch_begins() {
        let all = [(4, 1, 48), (6, 2, 32), (2, 1, 160), (12, 2, 16)];
        for ((members, parity, stripes), (chunk, stripe)) in
            all.into_iter().flat_map(|one| [(16, 64), (128, 64), (128, 3), (128, 77)].map(|at| (one, at)))
        {
            let shape = shape(members, parity, chunk);
            let stripe = if members == 2 { 64 } else { stripe };
            let grant = Grant { segment: 3, shape, stripe, stripes };
            let count = u64::from(grant.blocks()) - 1;
            for begin in 0..40 {
                let blocks: Vec<u64> = (begin..begin + count).collect();
                // Fifteen blocks lie beside the summary, and all others in whole groups.
                assert_eq!(in_one(grant, &blocks), count as usize / 16, "{shape:?} from {begin}");
            }
            let backwards: Vec<u64> = (0..count).rev().collect();
            let _mixed = in_one(grant, &backwards);
        }
    }

    #[test]
    fn a_batch_of_no_whole_groups_keeps_those_together_that_it_has_room_for() {
        let of =
            |chunk| move |stripe, stripes| Grant { segment: 0, shape: shape(4, 1, chunk), stripe, stripes };
        let grant = of(16);
        let some = |count: u64| (0..count).collect::<Vec<u64>>();
        assert_eq!(in_one(grant(16, 22), &some(64)), 2);
        // Behind a short one, and up to the end of a chunk.
        assert_eq!(in_one(grant(6, 42), &some(125)), 6);
        assert_eq!(in_one(grant(6, 6), &some(16)), 0);
        assert_eq!(in_one(grant(0, 34), &some(100)), 5);
        // No chunk ends, wherever it begins.
        for begin in [0, 5, 22, 64] {
            assert_eq!(in_one(of(128)(begin, 22), &some(64)), 3);
            assert_eq!(in_one(of(128)(begin, 48), &some(143)), 8);
        }
        assert_eq!(in_one(of(128)(112, 22), &some(64)), 2);
    }
}
