//! Arrays made on paper, on RAM members and on modelled drives, for the tests.

use brindle_array::Array;
use brindle_format::md::{Endian, Superblock, Version};
use brindle_io::Duration;
use brindle_io::sim::{Model, Sim};
use brindle_layout::Level;
use brindle_md::assembly::Candidate;
use brindle_md::create::CreateSpec;
use brindle_volume::Volume;

pub(crate) use brindle_testkit::random::{Random, pattern};
pub(crate) use brindle_testkit::shape::*;
pub(crate) use brindle_testkit::world::*;

pub(crate) const MIB: u64 = 1 << 20;

/// Each level, with few members.
pub(crate) const EVERY_LEVEL: [(Level, usize); 7] = [
    (Level::Linear, 2),
    (Level::Raid0, 3),
    (Level::Raid1, 2),
    (Level::Raid10, 4),
    (Level::Raid4, 3),
    (Level::Raid5, 4),
    (Level::Raid6, 5),
];

/// Metadata, and entries of the table.
pub(crate) const METADATA: [(Version, usize); 5] = [
    (Version::V1_2, 0),
    (Version::V1_0, 0),
    (Version::V1_1, 384),
    (Version::V0_90(Endian::Little), 0),
    (Version::V0_90(Endian::Big), 0),
];

/// All that an array holds.
pub(crate) fn whole<B: Bench>(world: &World<B>, array: &Array) -> Vec<u8> {
    let size = array.limits().size;
    let piece = |at: u64| world.read(array, at, MIB.min(size - at) as usize).unwrap();
    (0..size).step_by(MIB as usize).flat_map(piece).collect()
}

/// The array's devices as candidates, in their order.
pub(crate) fn candidates(spec: &CreateSpec) -> Vec<Candidate> {
    edited(spec, |_, _| ())
}

/// The array's devices as candidates after `edit` has changed each superblock.
pub(crate) fn edited(spec: &CreateSpec, mut edit: impl FnMut(usize, &mut Superblock)) -> Vec<Candidate> {
    let mut sbs = superblocks(spec);
    sbs.iter_mut().enumerate().for_each(|(n, sb)| edit(n, sb));
    given(spec).iter().zip(&sbs).map(|(m, sb)| candidate(&m.label, sb, m.info.size)).collect()
}

/// An array on new drives, which hold anything.
pub(crate) fn on_drives(level: Level, members: usize, version: Version) -> World<Sim> {
    let shape = Shape { rows: 64, in_sync: false, ..Shape::new(level, members) };
    World::in_sim(&shape.metadata(version, 0), Model::nvme(), 7)
}

/// Opens it and brings its redundancy in sync.
pub(crate) fn open_in_sync(world: &World<Sim>) -> Array {
    let array = world.open();
    world.io.block_on(array.resync(|_| ())).unwrap();
    array
}

/// Runs for a while of virtual time.
pub(crate) fn idle(world: &World<Sim>, span: Duration) {
    world.io.block_on(world.io.sleep(span));
}
