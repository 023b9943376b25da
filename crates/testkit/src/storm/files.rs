//! Files that have write-intent bitmaps: drives of their own, which keep or forget unflushed writes as members do.

use brindle_io::MemberId;
use brindle_io::sim::Sim;

use super::plan::StormPlan;

/// Bytes of each.
pub(super) const BYTES: u64 = 8192;
/// How many there are: a bitmap may move from one to another.
const COUNT: usize = 2;

/// The files of an array whose bitmap is in one: the first has it, with all bits set; the others hold anything.
pub(super) fn make(sim: &Sim, plan: &StormPlan) -> Vec<MemberId> {
    let Some(content) = plan.shape.bitmap_file() else { return Vec::new() };
    let files: Vec<MemberId> = (0..COUNT).map(|_| sim.add_drive(plan.model, BYTES)).collect();
    sim.poke(files[0], 0, &content);
    files
}
