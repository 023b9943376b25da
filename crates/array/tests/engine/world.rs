//! Arrays on members in RAM, for these tests.

use brindle_array::OpenConfig;
use brindle_layout::{Layout, Level};
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{World, patient};

pub(crate) use brindle_testkit::random::{Random, pattern};
pub(crate) use brindle_testkit::running::Running;
pub(crate) use brindle_testkit::shape::DATA_OFFSET;

/// Settings with little memory, as usual for small arrays.
pub(crate) fn config() -> OpenConfig {
    OpenConfig { scratch_bytes: 1 << 20, ..patient() }
}

/// This many bytes of each member; a chunk of 0 is for levels that have none.
pub(crate) fn shape(level: Level, layout: Layout, chunk: u64, members: usize, size: u64) -> Shape {
    let chunk = if chunk == 0 { 4096 } else { chunk };
    let layout = (layout != Layout::None).then_some(layout);
    Shape { layout, chunk, rows: size / chunk, ..Shape::new(level, members) }
}

pub(crate) fn start(level: Level, layout: Layout, chunk: u64, members: usize, size: u64) -> Running {
    Running::of(&shape(level, layout, chunk, members, size), config())
}

/// The next start, which finds recorded that redundancy is not known to be in sync from a position on.
pub(crate) fn doubted(run: &Running, position: u64) -> Running {
    run.stop();
    let world: World = run.reboot();
    world.doubt(position);
    Running::start(world, config())
}
