//! Copies that need not be the same: whoever reads a place gets one answer, whichever way it is asked for.

use brindle_array::{Array, OpenConfig, ReadPolicy, Recovery};
use brindle_format::md::Features;
use brindle_io::sim::Model;
use brindle_layout::Level;
use brindle_volume::Volume;

use crate::common::*;

/// All that the array holds, read in pieces of so many bytes.
fn in_pieces(world: &World<brindle_io::sim::Sim>, array: &Array, len: usize) -> Vec<u8> {
    let size = array.limits().size as usize;
    let read = |at: usize| world.read(array, at as u64, len.min(size - at)).unwrap();
    (0..size).step_by(len).flat_map(read).collect()
}

/// A member that is being rebuilt can be read up to some place: what crosses that place is answered by the copy that answers for
/// its parts.
#[test]
fn a_range_across_the_border_of_a_member_that_is_being_rebuilt_is_answered_as_its_parts() {
    for (level, members) in [(Level::Raid1, 3), (Level::Raid10, 4)] {
        for policy in [ReadPolicy::LeastOutstanding, ReadPolicy::RoundRobin, ReadPolicy::First] {
            let what = format!("{level} {policy:?}");
            // New drives hold anything, and redundancy was never brought in sync.
            let shape = Shape { rows: 64, in_sync: false, ..Shape::new(level, members) };
            let world = World::in_sim(&shape, Model::nvme(), 7);
            world.change(0, |sb| {
                sb.recovery_offset = Some(10 * 4096 + 1024);
                sb.features = sb.features.with(Features::RECOVERY_OFFSET, true);
            });
            let config = OpenConfig { recovery: Recovery::Manual, read_policy: policy, ..patient() };
            let array = world.try_open(world.assembly().unwrap(), config).unwrap();
            assert!(array.needs_resync() && array.detail().degraded == 1, "{what}");
            let once = whole(&world, &array);
            for len in [512, 1024, 4096, 12 << 10, 64 << 10] {
                assert!(in_pieces(&world, &array, len) == once, "{what}: in pieces of {len}");
            }
            // The resync settles on the content that reads returned.
            world.io.block_on(array.resync(|_| ())).unwrap();
            assert!(whole(&world, &array) == once, "{what}: after the resync");
        }
    }
}
