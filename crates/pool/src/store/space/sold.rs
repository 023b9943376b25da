//! The part of a vdev that volumes may have.

use brindle_format::pool::Vdev;

use super::grant::{chunk_of, full_of, group_of};

/// The part that a pool keeps for itself: so many in a hundred units, and so many at least, beside what summaries take.
const KEPT_PERCENT: u64 = 15;
const KEPT_UNITS: u64 = 24;

/// Units of a vdev that are not sold.
pub(super) fn kept(vdev: &Vdev) -> u64 {
    let units = u64::from(vdev.units);
    let data = u64::from(vdev.members.saturating_sub(u16::from(vdev.parity)));
    let blocks = (data << vdev.unit >> 12).max(1);
    let group = group_of(data as u32).min(chunk_of(1 << (vdev.unit - 12)).into());
    let full = u64::from(full_of(data.max(1) as u32, group)) * data.max(1);
    // Of small units summaries take more than a hundredth, and again as much where batches end with their segment.
    let summaries = (units * blocks.div_ceil(full)).div_ceil(blocks);
    (units * KEPT_PERCENT).div_ceil(100).max(KEPT_UNITS + 2 * summaries)
}

/// Bytes that a vdev sells.
pub(crate) fn sold(vdev: &Vdev) -> u64 {
    let units = u64::from(vdev.units).saturating_sub(kept(vdev));
    (units << vdev.unit) * u64::from(vdev.members.saturating_sub(u16::from(vdev.parity)))
}
