//! Stripes of an open segment for a batch, and how large batches are.

use brindle_format::pool::place::{Address, Shape};

use super::{BATCH_BLOCKS, Open, Space};

/// The most rows that go down one member before the next has its turn. More than the largest batch has, so that few of them are cut
/// into two by the end of a chunk: a batch that is no whole number of groups shifts those behind it.
const CHUNK: u32 = 128;
/// Neighbours of a volume that are to lie one behind the other on a member: 64 KiB.
const GROUP: u32 = 16;

/// Stripes to write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) segment: u32,
    pub(crate) shape: Shape,
    pub(crate) stripe: u32,
    pub(crate) stripes: u32,
}

impl Grant {
    /// Data blocks of the stripes.
    pub(crate) fn blocks(&self) -> u32 {
        self.stripes * u32::from(self.shape.data())
    }

    /// Where the `n`th data block is; the summary is the first.
    pub(crate) fn address(&self, n: u32) -> Address {
        Address::new(self.segment, self.shape.data_place(self.stripe, n))
    }

    /// The number of that block in memory, where all blocks of a stripe are in the order of slots.
    pub(crate) fn in_memory(&self, n: u32) -> u32 {
        let data = u32::from(self.shape.data());
        n / data * u32::from(self.shape.stripe) + n % data
    }

    /// Pages that fill it.
    pub(crate) fn room(&self) -> usize {
        self.blocks() as usize - 1
    }

    /// Where these stand.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> impl Iterator<Item = Address> {
        (1..self.blocks()).map(|n| self.address(n))
    }
}

impl Space {
    /// The rest of an open segment, up to what is wanted; none where that is too little for a summary and a block.
    pub(super) fn grant(&mut self, open: Open, blocks: u32) -> Option<Grant> {
        let record = &mut self.segments[open.segment as usize].record;
        let shape = record.shape();
        let data = u32::from(shape.data());
        let left = shape.stripes().saturating_sub(open.next);
        // More blocks than a summary has entries for would be a batch that can't be written.
        let most = (BATCH_BLOCKS / data).max(1);
        let wanted = blocks.div_ceil(data);
        let mut stripes = wanted.min(left).min(most);
        if wanted >= full_stripes(shape) {
            stripes = whole_groups(shape, open.next, stripes);
        }
        if stripes * data < 2 {
            return None;
        }
        record.stripes = open.next + stripes;
        self.touched.mark(open.segment);
        Some(Grant { segment: open.segment, shape, stripe: open.next, stripes })
    }
}

/// Of so many stripes from one on those that make whole groups, beginning anew where a chunk does: so batches behind that begin with one.
/// A batch gets no more than what was asked for, since so much its cost allows, and all of it where that is less than a group.
fn whole_groups(shape: Shape, next: u32, stripes: u32) -> u32 {
    let (group, high) = (group(shape), shape.high());
    let begin = next.next_multiple_of(high);
    let (before, behind) = match (next + stripes).checked_sub(begin) {
        Some(behind) if begin > next => (begin - next, behind),
        _ => (0, stripes),
    };
    let whole = before + behind / group * group;
    if whole > 0 { whole } else { stripes }
}

/// Rows of a segment that go down one member before the next has its turn.
pub(super) fn chunk_of(rows: u32) -> u8 {
    let most = CHUNK.min(rows);
    if most < 2 { 0 } else { 1 << most.ilog2() }
}

/// Neighbours of a volume that are to lie one behind the other on a member: no more than a chunk has, and the largest batch.
pub(crate) fn group(shape: Shape) -> u32 {
    group_of(shape.data().into()).min(shape.high())
}

/// The same by data blocks of a stripe, where chunks are high enough.
pub(super) fn group_of(data: u32) -> u32 {
    1 << GROUP.min(BATCH_BLOCKS / data.max(1)).max(1).ilog2()
}

/// Stripes of the largest batch that is made of whole groups.
pub(super) fn full_stripes(shape: Shape) -> u32 {
    full_of(shape.data().into(), group(shape))
}

/// The same by data blocks of a stripe, and the stripes of a group.
pub(super) fn full_of(data: u32, group: u32) -> u32 {
    let most = (BATCH_BLOCKS / data).max(1);
    let whole = most / group.max(1) * group.max(1);
    if whole > 0 { whole } else { most }
}

#[cfg(test)]
pub(super) mod tests {
    use brindle_format::pool::VdevKind;
    use uuid::Uuid;

    use super::*;
    use crate::opening::create::{PoolSpec, VdevSpec, plan};

    /// A raidz1 of four such members, in units of a MiB, of which nothing is written.
    pub(in super::super) fn raidz1(size: u64) -> Space {
        let spec = PoolSpec {
            name: "p".to_owned(),
            id: Uuid::nil(),
            members: vec![Uuid::nil(); 4],
            opening: 1,
            created: 0,
            vdevs: vec![VdevSpec { kind: VdevKind::Raidz, parity: 1, sizes: vec![size; 4] }],
            unit: Some(1 << 20),
        };
        let label = plan(&spec).expect("a pool");
        let count = label.segments() as usize;
        let mut space = Space::of(&label, count, &[15]);
        space.blank_next(count);
        space
    }

    /// A segment of a vdev of raidz1 with four members: batches have up to 56 stripes, and 48 of whole groups.
    fn space() -> Space {
        let mut space = raidz1(1 << 30);
        let shape = space.units[0].shape(false, 1);
        super::super::records::reshape(&mut space.segments[0].record, shape);
        space
    }

    #[test]
    fn full_batches_have_whole_groups_and_none_has_more_stripes_than_were_asked_for() {
        let mut space = space();
        assert_eq!(
            (space.segments[0].record.shape().high(), space.segments[0].record.shape().stripes()),
            (128, 256)
        );
        for (next, blocks, stripes) in [
            (0, 169, 48),
            (0, 144, 48),
            (5, 169, 48),
            (8, 144, 48),
            (8, 141, 47),
            // Beyond the end of a chunk, where those behind it begin with one again.
            (96, 169, 48),
            (101, 169, 43),
            (101, 144, 43),
            (120, 169, 56),
            (77, 169, 51),
            (250, 169, 6),
        ] {
            let grant = space.grant(Open { segment: 0, next }, blocks).expect("it has room");
            assert_eq!(grant.stripes, stripes, "{blocks} blocks from stripe {next}");
            assert!(grant.stripes <= blocks.div_ceil(3));
        }
    }
}
