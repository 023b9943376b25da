//! Finds the chunk size for a load by trying some in the simulator.

use brindle_planner::{Configuration, Scheme};

use super::drives::Kind;
use super::simulated::{one, shared};
use crate::base::failure::Failure;
use crate::lab::predict::load::AskedLoad;

/// Sizes that are tried. Bytes.
const SIZES: [u64; 7] = [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
/// Sizes that come so close to the best are as good.
const CLOSE: f64 = 0.99;

/// The result.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    /// The largest of those that are as good as the best. Bytes.
    pub(super) best: u64,
    /// Each size, with bytes and requests a second of the load.
    pub(super) tried: Vec<(u64, f64, f64)>,
}

/// Tries all; none where there is no chunk, or no model of the drives. Of a stripe of groups one group is tried, at its share of
/// the load.
pub(super) fn choose(
    configuration: &Configuration,
    kind: &Kind,
    asked: &AskedLoad,
) -> Result<Option<Chosen>, Failure> {
    let ([part], Some(model)) = (configuration.parts.as_slice(), &kind.known.model) else { return Ok(None) };
    if part.scheme == Scheme::Mirror && part.groups == 1 {
        return Ok(None);
    }
    let job = shared(&asked.job, part.groups);
    let groups = f64::from(part.groups);
    let mut tried = Vec::new();
    for size in SIZES {
        let found = one(part, model, size, job.clone())?;
        tried.push((size, found.bandwidth() * groups, found.iops() * groups));
    }
    let most = tried.iter().map(|(_, rate, _)| *rate).fold(0.0, f64::max);
    let good = tried.iter().rev().find(|(_, rate, _)| *rate >= most * CLOSE);
    Ok(good.map(|(best, ..)| Chosen { best: *best, tried: tried.clone() }))
}
