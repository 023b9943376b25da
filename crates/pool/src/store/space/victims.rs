//! Segments that cleaning goes through next. They are looked for a part of all segments at a time, and others have turns in between.

use std::collections::BTreeSet;

use super::Space;

/// Segments that are looked at without a break.
const LOOKED_AT: u32 = 1 << 14;

/// The segments that cleaning looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Segments that cost least to empty, if they are worth it.
    Cheap,
    /// Segments that have less parity than what is written now.
    Thin,
}

/// The best segments that were found so far.
pub(crate) struct Victims {
    wanted: Wanted,
    /// Batches up to this one are in the map: younger ones recovery may need.
    sequence: u64,
    most: usize,
    /// The cost of each, and its number; in order.
    found: Vec<(u64, u32)>,
    next: u32,
}

/// Segments of a vdev that are written now: their parity, and the blocks that they take.
#[derive(Clone, Copy)]
struct Fresh {
    at: usize,
    parity: u8,
    blocks: u32,
}

impl Victims {
    /// None so far, of so many at most.
    pub(crate) fn new(wanted: Wanted, sequence: u64, most: usize) -> Self {
        Self { wanted, sequence, most, found: Vec::new(), next: 0 }
    }

    fn add(&mut self, cost: u64, n: u32) {
        let at = self.found.partition_point(|other| *other < (cost, n));
        if at < self.most {
            self.found.insert(at, (cost, n));
            self.found.truncate(self.most);
        }
    }

    fn has_all(&self) -> bool {
        // The first ones are as good as any of these.
        self.wanted == Wanted::Thin && self.found.len() == self.most
    }
}

impl Space {
    /// Looks at some more segments, but for those that were `tried`; false once all have been looked at that matter.
    pub(crate) fn look_for(&self, victims: &mut Victims, tried: &BTreeSet<u32>) -> bool {
        let end = victims.next.saturating_add(LOOKED_AT);
        for run in &self.runs {
            let (own, fresh) =
                (run.first_segment.max(victims.next)..run.end().min(end), self.fresh(run.vdev.into()));
            for n in own {
                if let Some(cost) = self.cost_of(n, fresh, victims).filter(|_| !tried.contains(&n)) {
                    victims.add(cost, n);
                }
            }
        }
        victims.next = end;
        (end as usize) < self.segments.len() && !victims.has_all()
    }

    /// The segments that were found and still are such, with their live blocks.
    pub(crate) fn still(&self, victims: &Victims) -> Vec<(u32, u32)> {
        let is_still = |&&(_, n): &&(u64, u32)| {
            let fresh = self.vdev_of(n).map(|at| self.fresh(at));
            fresh.is_some_and(|fresh| self.cost_of(n, fresh, victims).is_some())
        };
        let found = victims.found.iter().filter(is_still);
        found.map(|&(_, n)| (n, self.segments[n as usize].lives())).collect()
    }

    fn fresh(&self, at: usize) -> Fresh {
        Fresh { at, parity: self.parity_now(at), blocks: self.blocks_now(at) }
    }

    /// The cost of emptying a segment, if it is one that is wanted.
    fn cost_of(&self, n: u32, fresh: Fresh, victims: &Victims) -> Option<u64> {
        let segment = &self.segments[n as usize];
        if !self.is_movable(segment, victims.sequence) {
            return None;
        }
        match victims.wanted {
            Wanted::Thin => self.units[fresh.at].is_weak(segment, fresh.parity).then_some(0),
            Wanted::Cheap => {
                let (live, all) = (segment.lives(), fresh.blocks);
                // One that is narrower than what is written now gives room even if all of it is live.
                let is_narrow = self.blocks_of(n) < all;
                let worth = if is_narrow { all } else { all - all / 16 };
                (live < worth).then(|| u64::from(live) * 1024 / u64::from(all.max(1)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use brindle_format::pool::SegmentClass;

    use super::super::grant::tests::raidz1;
    use super::super::{TURNED_OVER, Use};
    use super::*;

    /// Some 40,000 segments of 768 data blocks, all closed; `live` gives how many blocks of each are.
    fn space(mut live: impl FnMut() -> u32) -> Space {
        let mut space = raidz1(40 << 30);
        for n in 0..space.segments.len() as u32 {
            let record = &mut space.segments[n as usize].record;
            (record.class, record.live) = (SegmentClass::Rows, live());
            let _was = space.units[0].free.remove(&n);
            space.becomes(n, Use::Closed);
        }
        space.audit();
        space
    }

    #[test]
    fn segments_that_cost_least_are_found_a_part_of_all_at_a_time() {
        let mut state = 7u64;
        let space = &mut space(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32 % 769
        });
        let live = |space: &Space, n: u32| space.segments[n as usize].record.live;
        let mut best: Vec<(u64, u32)> = (0..space.segments.len() as u32)
            .filter(|&n| live(space, n) > 0)
            .map(|n| (u64::from(live(space, n)) * 1024 / 768, n))
            .collect();
        best.sort_unstable();
        let tried: BTreeSet<u32> = [best[0].1, best[5].1].into();
        let best: Vec<u32> =
            best.into_iter().map(|(_, n)| n).filter(|n| !tried.contains(n)).take(8).collect();
        let (mut victims, mut turns) = (Victims::new(Wanted::Cheap, 5, 8), 1);
        while space.look_for(&mut victims, &tried) {
            turns += 1;
        }
        assert_eq!(turns, space.segments.len().div_ceil(LOOKED_AT as usize));
        let found: Vec<(u32, u32)> = best.iter().map(|&n| (n, live(space, n))).collect();
        assert_eq!(space.still(&victims), found);
        // Others have had turns since it was looked at.
        space.becomes(best[3], Use::Freeing);
        assert_eq!(space.still(&victims).len(), 7);
        // With all members there none has less parity than another.
        let mut victims = Victims::new(Wanted::Thin, 5, 8);
        while space.look_for(&mut victims, &tried) {}
        assert!(space.still(&victims).is_empty());
    }

    #[test]
    fn segments_become_free_some_at_a_time() {
        let mut space = space(|| 0);
        let all = space.segments.len();
        for rest in [all - TURNED_OVER, all - 2 * TURNED_OVER, 0] {
            space.turn_over(1, 0);
            let _gained = space.published();
            assert_eq!((space.waiting().0, space.units[0].waiting.len()), (rest, rest));
            assert_eq!(space.units[0].free.len() + space.units[0].log(), all - rest);
        }
    }
}
