//! Levels that keep data as it is: how many operations requests become, and what copies do when members fail.

use brindle_array::{OpenConfig, ReadPolicy};
use brindle_io::OpError;
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_layout::{Layout, Level, Raid10Layout};
use brindle_testkit::world::World;
use brindle_volume::VolumeError;

use crate::world::{self, Running};

const MIB: usize = 1 << 20;
/// Larger reads are split into parts of at least so many bytes.
const PART: usize = 64 << 10;

fn raid10(layout: Raid10Layout, members: usize) -> Running {
    world::start(Level::Raid10, Layout::Raid10(layout), 65536, members, 4 * MIB as u64)
}

#[test]
fn a_large_read_is_one_operation_per_member() {
    let near = Layout::Raid10(Raid10Layout::near(2));
    let far = Layout::Raid10(Raid10Layout::far(2));
    let both = Layout::Raid10(Raid10Layout { near: 2, ..Raid10Layout::far(2) });
    let cases = [
        (Level::Raid0, Layout::None, 4),
        (Level::Raid1, Layout::None, 4),
        (Level::Raid10, near, 4),
        (Level::Raid10, far, 4),
        (Level::Raid10, both, 4),
    ];
    for (level, layout, members) in cases {
        let world = world::start(level, layout, 65536, members, 4 * MIB as u64);
        let counts = world.counted(async |w| drop(w.read(0, MIB).await.unwrap()));
        assert_eq!(counts, vec![(1, 0); members], "{level} {layout}");
    }
}

#[test]
fn a_large_read_is_split_over_the_copies_that_are_left() {
    let world = world::start(Level::Raid1, Layout::None, 0, 3, MIB as u64).without(&[1]);
    let counts = world.counted(async |w| drop(w.read(0, MIB).await.unwrap()));
    assert_eq!(counts, [(1, 0), (0, 0), (1, 0)]);
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
            world.bench.spoil(id, world::DATA_OFFSET + 8192 * (1 + id.index() as u64 / 2), 512);
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
    let read = world.run(async |w| w.read(0, 4096).await);
    assert_eq!(read, Err(VolumeError::of_member(1, OpError::Gone)));
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

/// Drives, since which copy is chosen depends on how long members take: of RAM that is chance, of these it is not.
fn mirror(members: usize, read_policy: ReadPolicy) -> Running<Sim> {
    mirror_of(Model::nvme(), members, read_policy)
}

fn mirror_of(model: Model, members: usize, read_policy: ReadPolicy) -> Running<Sim> {
    let config = OpenConfig { read_policy, ..world::config() };
    let shape = world::shape(Level::Raid1, Layout::None, 0, members, MIB as u64);
    Running::start(World::in_sim(&shape, model, 3), config)
}

/// Reads of each member.
fn reads(world: &Running<Sim>) -> Vec<u64> {
    world.ids.iter().map(|&id| world.io.counters(id).reads).collect()
}

/// Reads of each member, fewest first, that are made of reads of these lengths, in flight together.
fn shares(world: &Running<Sim>, lengths: &[usize]) -> Vec<u64> {
    let before = reads(world);
    world.run(async |w| {
        let reads = lengths.iter().map(|&len| async move { w.read(0, len).await });
        assert!(join_all(reads).await.into_iter().all(|read| read.is_ok()));
    });
    let mut shares: Vec<u64> = reads(world).into_iter().zip(before).map(|(now, then)| now - then).collect();
    shares.sort_unstable();
    shares
}

#[test]
fn reads_in_flight_are_shared_by_the_work_or_in_turn() {
    const SMALL: usize = 4096;
    let together = [64 << 10, SMALL, SMALL, SMALL];
    let by_work = mirror(2, ReadPolicy::LeastOutstanding);
    assert_eq!(shares(&by_work, &together), [1, 3], "64 KiB are more work than two small reads");
    assert_eq!(shares(&mirror(2, ReadPolicy::RoundRobin), &together), [2, 2]);
    // A large read in two parts leaves the third member to small ones, until that has as much to do.
    let by_work = mirror(3, ReadPolicy::LeastOutstanding);
    assert_eq!(shares(&by_work, &[128 << 10, SMALL, SMALL, SMALL, SMALL]), [1, 2, 3]);
    assert_eq!(shares(&by_work, &[SMALL; 30]), [10, 10, 10], "what has been read is work no more");
}

/// As md does on members without heads.
#[test]
fn the_fewest_pending_are_counted_and_the_first_of_equal_copies_reads_whole() {
    let md = |members| mirror(members, ReadPolicy::FewestPending);
    let apart = md(2);
    let before = reads(&apart);
    // Each is far from where the last ended.
    for n in [9, 1, 7, 3] {
        apart.run(async |w| w.read(n << 16, 64 << 10).await).unwrap();
    }
    let grown: Vec<u64> = reads(&apart).into_iter().zip(before).map(|(now, then)| now - then).collect();
    assert_eq!(grown, [4, 0], "the first that is idle");
    // A large read is one operation, as a small one is.
    assert_eq!(shares(&md(2), &[256 << 10, 4096, 4096, 4096]), [2, 2]);
    let together = md(3);
    let before = reads(&together);
    together.run(async |w| {
        let reads = (0..6).map(|n| async move { w.read((2 * n + 1) << 12, 4096).await });
        assert!(join_all(reads).await.into_iter().all(|read| read.is_ok()));
    });
    let grown: Vec<u64> = reads(&together).into_iter().zip(before).map(|(now, then)| now - then).collect();
    assert_eq!(grown, [2; 3]);
    // A read that goes on where another ended stays with its member, however busy that is.
    let stream = md(2);
    let before = reads(&stream);
    stream.run(async |w| {
        let reads = (0..6).map(|n| async move { w.read(n << 16, 64 << 10).await });
        assert!(join_all(reads).await.into_iter().all(|read| read.is_ok()));
    });
    let mut grown: Vec<u64> = reads(&stream).into_iter().zip(before).map(|(now, then)| now - then).collect();
    grown.sort_unstable();
    assert_eq!(grown, [0, 6]);
}

#[test]
fn reads_one_after_the_other_begin_with_other_copies() {
    for len in [4096, 128 << 10] {
        let world = mirror(3, ReadPolicy::LeastOutstanding);
        let before = reads(&world);
        for _ in 0..30 {
            world.run(async |w| w.read(0, len).await).unwrap();
        }
        let parts = 30 * (len / PART).max(1) as u64;
        let grown = reads(&world).into_iter().zip(before).map(|(now, then)| now - then);
        assert_eq!(grown.collect::<Vec<_>>(), [parts / 3; 3], "{len} bytes");
    }
}

/// Transfer time is no sign of a slow member: the two members that read much are not ranked slower than the third.
#[test]
fn large_reads_make_no_member_slow() {
    let thin = Model { read_latency: 50_000, read_bandwidth: 250_000_000, jitter: 0, ..Model::nvme() };
    let world = mirror_of(thin, 3, ReadPolicy::LeastOutstanding);
    assert_eq!(shares(&world, &[188 << 10]), [0, 1, 1]);
    let before = reads(&world);
    for _ in 0..30 {
        world.run(async |w| w.read(0, 4096).await).unwrap();
    }
    let grown = reads(&world).into_iter().zip(before).map(|(now, then)| now - then);
    assert_eq!(grown.collect::<Vec<_>>(), [10; 3]);
}

#[test]
fn a_member_that_is_gone_is_failed_by_the_first_write_it_refuses() {
    let world = world::start(Level::Raid0, Layout::None, 65536, 2, MIB as u64);
    world.run(async |w| w.write(0, &[1; 4096]).await).unwrap();
    world.bench.kill(world.ids[0]);
    let written = world.run(async |w| w.write(0, &[2; 4096]).await);
    assert_eq!(written, Err(VolumeError::of_member(0, OpError::Gone)));
    assert_eq!(world.array.state(0), brindle_array::RoleState::Failed, "what it gives from now on is not it");
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

/// As md's RAID 10 did: the second chunk goes to the copy that is idle, and all that follow to where that one was sent.
#[test]
fn the_nearest_policy_sends_what_follows_to_where_the_last_was_sent() {
    let config = || OpenConfig { read_policy: ReadPolicy::Nearest, ..world::config() };
    let near = Layout::Raid10(brindle_layout::Raid10Layout::near(2));
    let shape = world::shape(Level::Raid10, near, 32 << 10, 4, MIB as u64);
    let world = Running::start(World::in_sim(&shape, Model::nvme(), 3), config());
    let bytes = |world: &Running<Sim>| -> Vec<u64> {
        world.ids.iter().map(|&id| world.io.counters(id).bytes_read).collect()
    };
    let before = bytes(&world);
    world.run(async |w| w.read(0, 512 << 10).await).unwrap();
    let mut read: Vec<u64> = bytes(&world).into_iter().zip(before).map(|(now, then)| now - then).collect();
    read.sort_unstable();
    // Of either pair's eight chunks one copy gives one, the other seven.
    assert_eq!(read, [32 << 10, 32 << 10, 224 << 10, 224 << 10]);
    let before = reads(&world);
    for _ in 0..8 {
        world.run(async |w| w.read(0, 4096).await).unwrap();
    }
    let grown: Vec<u64> = reads(&world).into_iter().zip(before).map(|(now, then)| now - then).collect();
    assert_eq!(grown, [8, 0, 0, 0], "the first that is idle");
}
