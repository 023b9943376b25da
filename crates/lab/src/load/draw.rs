//! Places of random requests, as numbers of blocks.

use super::cover::Cover;
use super::permutation::Permutation;
use super::random::Chance;
use super::skew::{Zipf, pareto};
use crate::job::{DIRECTIONS, Direction, Distribution, Each, Job, JobExtent, Zone};

/// Stretches of blocks, each with its weight.
type Stretches = Vec<(u64, u64, u64)>;

/// How places are drawn.
#[derive(Clone, Debug)]
pub(super) enum Draw {
    /// Every block once, all of one size.
    Once { order: Permutation, next: u64 },
    /// Every block once, of several sizes.
    Cover(Box<Cover>),
    /// Any block.
    Uniform,
    /// Ranks, and where the block of a rank is.
    Zipf(Zipf, Permutation),
    /// Places by a Pareto distribution, then permuted.
    Pareto(f64, Permutation),
    /// Places by zones.
    Zoned(Box<Each<Stretches>>),
}

impl Draw {
    /// For a range of `blocks`, each of `block` bytes.
    pub(super) fn new(job: &Job, blocks: u64, block: u64, one_size: bool, seed: u64) -> Self {
        let order = Permutation::new(blocks, seed);
        match &job.distribution {
            Distribution::Zipf(exponent) => Self::Zipf(Zipf::new(blocks, *exponent), order),
            Distribution::Pareto(power) => Self::Pareto(*power, order),
            Distribution::Zoned(zones) => {
                Self::Zoned(Box::new(DIRECTIONS.map(|of| stretches(&zones[of.index()], blocks, block))))
            }
            Distribution::Uniform if job.repeats() => Self::Uniform,
            Distribution::Uniform if one_size => Self::Once { order, next: 0 },
            Distribution::Uniform => Self::Cover(Box::new(Cover::new(blocks))),
        }
    }

    /// The first block of a request and how many it has, no more than `most`; none once all blocks have come. It may go
    /// beyond the end where blocks may come again.
    pub(super) fn next(
        &mut self,
        chance: &mut Chance,
        of: Direction,
        blocks: u64,
        most: u64,
    ) -> Option<(u64, u64)> {
        let first = match self {
            Self::Once { order, next } => {
                let place = *next;
                *next += 1;
                return (place < blocks).then(|| (order.at(place), 1));
            }
            Self::Cover(cover) => return cover.take(chance, most),
            Self::Uniform => chance.below(blocks),
            Self::Zipf(zipf, order) => order.at(zipf.draw(chance)),
            Self::Pareto(power, order) => order.at(pareto(chance, blocks, *power)),
            Self::Zoned(zones) => {
                let zones = &zones[of.index()];
                let (first, count, _) = zones[chance.weighted(zones.iter().map(|zone| zone.2))];
                first + chance.below(count)
            }
        };
        Some((first, most))
    }
}

/// Where zones are; those of no block, and those beyond the range, are left out.
fn stretches(zones: &[Zone], blocks: u64, block: u64) -> Stretches {
    let mut first = 0;
    let mut end = 0u64;
    let mut list = Stretches::new();
    let bytes = blocks.saturating_mul(block);
    for zone in zones {
        end = end.saturating_add(match zone.extent {
            JobExtent::Percent(_) => zone.extent.of(bytes),
            JobExtent::Bytes(bytes) => bytes,
        });
        let last = (end / block).min(blocks);
        if last > first && zone.share > 0 {
            list.push((first, last - first, zone.share));
        }
        first = last.max(first);
    }
    if list.is_empty() {
        list.push((0, blocks, 1));
    }
    list
}
