//! Levels that keep data as it is: how many operations requests become, and what copies do when members fail.

use brindle_array::{OpenConfig, ReadPolicy};
use brindle_layout::{Layout, Level, Raid10Layout};
use brindle_volume::VolumeError;

use crate::world::{self, Running};

const MIB: usize = 1 << 20;

fn raid10(layout: Raid10Layout, members: usize) -> Running {
    world::start(Level::Raid10, Layout::Raid10(layout), 65536, members, 4 * MIB as u64)
}

#[test]
fn a_large_read_is_one_operation_per_member() {
    let near = Layout::Raid10(Raid10Layout::near(2));
    let far = Layout::Raid10(Raid10Layout::far(2));
    let cases = [
        (Level::Raid0, Layout::None, 4),
        (Level::Raid1, Layout::None, 4),
        (Level::Raid10, near, 4),
        (Level::Raid10, far, 4),
    ];
    for (level, layout, members) in cases {
        let world = world::start(level, layout, 65536, members, 4 * MIB as u64);
        let counts = world.counted(async |w| drop(w.read(0, MIB).await.unwrap()));
        assert_eq!(counts, vec![(1, 0); members], "{level} {layout}");
    }
}

#[test]
fn a_write_reaches_every_copy_once() {
    let world = world::start(Level::Raid1, Layout::None, 0, 3, MIB as u64);
    // The first write marks the array dirty.
    world.run(async |w| w.write(65536, &[1; 512]).await).unwrap();
    let counts = world.counted(async |w| w.write(4096, &[7; 8192]).await.unwrap());
    assert_eq!(counts, [(0, 1); 3]);
    for &id in &world.ids {
        let mut bytes = [0; 8192];
        world.bench.peek(id, world::DATA_OFFSET + 4096, &mut bytes);
        assert_eq!(bytes, [7; 8192]);
    }
}

#[test]
fn a_bad_range_is_answered_from_another_copy_and_mended() {
    for world in
        [raid10(Raid10Layout::near(2), 4), world::start(Level::Raid1, Layout::None, 0, 2, MIB as u64)]
    {
        world.run(async |w| w.write(0, &world::pattern(1, 512 << 10)).await).unwrap();
        for &id in &world.ids {
            world.bench.spoil(id, world::DATA_OFFSET + 8192 * (1 + u64::from(id.0)), 512);
        }
        let seen = world.run(async |w| w.read(0, 512 << 10).await).unwrap();
        assert!(seen == world::pattern(1, 512 << 10));
        // Read what the first round's choice of copies left bad, then count: all is mended, nobody failed.
        for _ in 0..2 {
            world.run(async |w| w.read(0, 512 << 10).await).unwrap();
        }
        world.run(async |w| w.write(0, &world::pattern(2, 4096)).await).unwrap();
        assert_eq!(world.array.state(0), brindle_array::RoleState::InSync);
    }
}

#[test]
fn the_last_copy_is_never_given_up_and_lost_bytes_are_an_error() {
    let world = world::start(Level::Raid1, Layout::None, 0, 2, MIB as u64);
    world.run(async |w| w.write(0, &[1; 4096]).await).unwrap();
    world.bench.kill(world.ids[0]);
    world.run(async |w| w.write(0, &[2; 4096]).await).unwrap();
    assert_eq!(world.array.state(0), brindle_array::RoleState::Failed);
    world.bench.refuse_writes(world.ids[1]);
    assert_eq!(world.run(async |w| w.write(0, &[3; 4096]).await), Err(VolumeError::TooManyLost));
    assert_eq!(world.run(async |w| w.read(0, 4096).await).unwrap(), [2; 4096]);
    world.bench.kill(world.ids[1]);
    assert!(matches!(world.run(async |w| w.read(0, 4096).await), Err(VolumeError::Member(_))));
}

#[test]
fn the_read_policy_pins_the_first_copy() {
    let config = OpenConfig { read_policy: ReadPolicy::First, ..world::config() };
    let world = Running::of(&world::shape(Level::Raid1, Layout::None, 0, 3, MIB as u64), config);
    let counts = world.counted(async |w| {
        for _ in 0..8 {
            w.read(0, MIB / 2).await.unwrap();
        }
    });
    assert_eq!(counts, [(8, 0), (0, 0), (0, 0)]);
}

#[test]
fn small_reads_are_spread_over_the_copies() {
    let world = world::start(Level::Raid1, Layout::None, 0, 3, MIB as u64);
    let counts = world.counted(async |w| {
        for _ in 0..30 {
            w.read(0, 4096).await.unwrap();
        }
    });
    assert_eq!(counts, [(10, 0); 3]);
}

#[test]
fn bad_requests_are_refused() {
    let world = world::start(Level::Raid0, Layout::None, 65536, 2, MIB as u64);
    let size = world.size();
    let run = |offset| world.run(async |w| w.read(offset, 512).await.map(drop));
    assert_eq!(run(size), Err(VolumeError::OutOfRange));
    assert_eq!(run(u64::MAX - 511), Err(VolumeError::OutOfRange));
    assert_eq!(run(7), Err(VolumeError::Unaligned));
    assert_eq!(run(size - 512), Ok(()));
}
