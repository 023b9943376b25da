//! Members that can't read, refuse to write, or vanish, at every moment of a run of writes.

use brindle_array::{Array, Config, Device, RoleState, SyncMode, Volume, VolumeError};
use brindle_io::{MemberInfo, OpError};
use brindle_layout::{Layout, Level, ParityLayout, Raid10Layout};

use crate::world::{self, DATA_OFFSET, Random, World};

const CHUNK: u64 = 8192;
const ROWS: u64 = 6;

/// What happens to a member.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Vanishes,
    RefusesWrites,
}

/// An array whose members fail as told: after how many operations, which, how.
fn struck(shape: (Level, Layout, usize), faults: &[(u64, usize, Fault)]) -> World {
    let (level, layout, members) = shape;
    let world = World::new(level, layout, CHUNK, members, ROWS * CHUNK);
    for &(after, role, fault) in faults {
        world.memory.strike_after(after, world.ids[role], matches!(fault, Fault::RefusesWrites));
    }
    world
}

/// What a range of the array may hold: what was acknowledged last, or any write since that was not.
struct Expected {
    acknowledged: Vec<u8>,
    doubtful: Vec<(usize, Vec<u8>)>,
}

impl Expected {
    fn explains(&self, at: usize, sector: &[u8]) -> bool {
        let doubtful = self.doubtful.iter().any(|(start, bytes)| {
            at.checked_sub(*start)
                .and_then(|from| bytes.get(from..from + 512))
                .is_some_and(|new| new == sector)
        });
        doubtful || self.acknowledged[at..at + 512] == *sector
    }
}

/// The same writes every time: small, across chunks, full rows.
fn writes(size: u64) -> Vec<(u64, Vec<u8>)> {
    let mut random = Random::new(77);
    let lens = [4096, 512, 20 << 10, 48 << 10, 4096, 9 << 10];
    let write = |&len: &usize| {
        let len = len.min(size as usize);
        let offset = random.below((size - len as u64) / 512 + 1) * 512;
        let offset = if len == 48 << 10 { offset / (16 << 10) * (16 << 10) } else { offset };
        (offset, world::pattern(random.next(), len))
    };
    lens.iter().map(write).collect()
}

/// Fills the array, does the writes, and tells what to expect of it.
async fn write_through(world: &World) -> (Expected, Vec<Result<(), VolumeError>>) {
    let size = world.array.limits().size as usize;
    let content = world::pattern(5, size);
    let mut expected = Expected { acknowledged: vec![0; size], doubtful: Vec::new() };
    let mut results = Vec::new();
    for (offset, bytes) in core::iter::once((0, content)).chain(writes(size as u64)) {
        let result = world.write(offset, &bytes).await;
        let at = offset as usize;
        if result.is_ok() {
            expected.acknowledged[at..at + bytes.len()].copy_from_slice(&bytes);
        } else {
            expected.doubtful.push((at, bytes));
        }
        results.push(result);
    }
    (expected, results)
}

/// Every sector gives what may be there, or an error; how many gave an error.
async fn check_sectors(world: &World, expected: &Expected) -> usize {
    let mut errors = 0;
    for at in (0..expected.acknowledged.len()).step_by(512) {
        match world.read(at as u64, 512).await {
            Ok(sector) => assert!(expected.explains(at, &sector), "sector at {at} was never written so"),
            Err(_) => errors += 1,
        }
    }
    errors
}

fn raid5() -> (Level, Layout, usize) {
    (Level::Raid5, Layout::Parity(ParityLayout::LeftSymmetric), 4)
}

fn raid6() -> (Level, Layout, usize) {
    (Level::Raid6, Layout::Parity(ParityLayout::LeftSymmetric), 5)
}

fn mirrors() -> [(Level, Layout, usize); 2] {
    [(Level::Raid1, Layout::None, 2), (Level::Raid10, Layout::Raid10(Raid10Layout::near(2)), 5)]
}

fn operations(shape: (Level, Layout, usize)) -> u64 {
    let world = struck(shape, &[]);
    world.run(async |w| assert!(write_through(w).await.1.iter().all(Result::is_ok)));
    let counts = world.ids.iter().map(|&id| world.memory.op_counts(id));
    counts.map(|(reads, writes)| reads + writes).sum()
}

#[test]
fn no_write_fails_and_none_is_lost_while_redundancy_suffices() {
    let shapes = [raid5(), raid6()].into_iter().chain(mirrors());
    for shape in shapes {
        let last = operations(shape);
        for fault in [Fault::Vanishes, Fault::RefusesWrites] {
            for at in 0..last {
                let victim = (at as usize) % shape.2;
                let world = struck(shape, &[(at, victim, fault)]);
                world.run(async |w| {
                    let (expected, results) = write_through(w).await;
                    assert!(results.iter().all(Result::is_ok), "{shape:?} {fault:?} at {at}: {results:?}");
                    assert!(
                        w.read_all().await.unwrap() == expected.acknowledged,
                        "{shape:?} {fault:?} at {at}"
                    );
                });
            }
        }
    }
}

#[test]
fn raid_6_survives_two_members_that_fail_at_any_moment() {
    let last = operations(raid6());
    for at in 0..last {
        for gap in [0, 1, 2, 5] {
            let (first, second) = (at as usize % 5, (at as usize + 1 + gap as usize) % 5);
            if first == second {
                continue;
            }
            let faults = [(at, first, Fault::RefusesWrites), (at + gap, second, Fault::Vanishes)];
            let world = struck(raid6(), &faults);
            world.run(async |w| {
                let (expected, results) = write_through(w).await;
                assert!(results.iter().all(Result::is_ok), "at {at} and {gap} later: {results:?}");
                assert!(w.read_all().await.unwrap() == expected.acknowledged, "at {at} and {gap} later");
            });
        }
    }
}

#[test]
fn beyond_tolerance_there_are_errors_but_never_wrong_bytes() {
    for (shape, count) in [(raid5(), 2), (raid6(), 3), (mirrors()[0], 2), (mirrors()[1], 3)] {
        let last = operations(shape);
        for fault in [Fault::Vanishes, Fault::RefusesWrites] {
            for at in 0..last {
                let first = at as usize % shape.2;
                let faults: Vec<_> =
                    (0..count).map(|n| (at + n as u64 * (at % 3), (first + n) % shape.2, fault)).collect();
                let world = struck(shape, &faults);
                world.run(async |w| {
                    let (expected, _) = write_through(w).await;
                    check_sectors(w, &expected).await;
                });
            }
        }
    }
}

#[test]
fn bad_ranges_are_mended_in_place() {
    for shape in [raid5(), raid6()].into_iter().chain(mirrors()) {
        let world = struck(shape, &[]);
        let content = world::pattern(3, world.array.limits().size as usize);
        world.run(async |w| w.write_all(&content).await).unwrap();
        // One bad place in each row, on a member after the other.
        for row in 0..ROWS {
            let member = world.ids[row as usize % shape.2];
            world.memory.spoil(member, DATA_OFFSET + row * CHUNK + 512 * row, 512);
        }
        let seen = world.run(async |w| w.read_all().await).unwrap();
        assert!(seen == content, "{shape:?}");
        let report = world.run(async |w| w.scrub(SyncMode::Check).await).unwrap();
        assert_eq!(report.mismatch_sectors, 0);
        for (role, &id) in (0..).zip(&world.ids) {
            assert_eq!(world.array.state(role), RoleState::InSync);
            assert!(world.readable(id, DATA_OFFSET, (ROWS * CHUNK) as usize), "{shape:?} member {role}");
        }
    }
}

#[test]
fn writes_over_bad_ranges_mend_what_they_need() {
    for shape in [raid5(), raid6()] {
        for member in 0..shape.2 {
            let world = struck(shape, &[]);
            let mut content = world::pattern(3, world.array.limits().size as usize);
            world.run(async |w| w.write_all(&content).await).unwrap();
            for row in 0..ROWS {
                world.memory.spoil(world.ids[member], DATA_OFFSET + row * CHUNK + 1024, 2048);
            }
            for start in (0..content.len() - 4096).step_by(6 << 10) {
                let bytes = world::pattern(start as u64, 3072);
                world.run(async |w| w.write(start as u64, &bytes).await).unwrap();
                content[start..start + 3072].copy_from_slice(&bytes);
            }
            assert!(world.run(async |w| w.read_all().await).unwrap() == content, "{shape:?} member {member}");
            for lost in 0..shape.2 as u16 {
                let degraded = world.without(&[lost]);
                assert!(degraded.run(async |w| w.read_all().await).unwrap() == content);
            }
        }
    }
}

#[test]
fn a_bad_range_without_redundancy_is_an_error_and_the_rest_is_read() {
    let whole = struck(raid5(), &[]);
    let content = world::pattern(3, whole.array.limits().size as usize);
    whole.run(async |w| w.write_all(&content).await).unwrap();
    let world = whole.without(&[1]);
    whole.memory.spoil(whole.ids[0], DATA_OFFSET + 512, 512);
    let expected = Expected { acknowledged: content, doubtful: Vec::new() };
    let errors = world.run(async |w| check_sectors(w, &expected).await);
    assert!((1..=2).contains(&errors), "the bad sector and what is rebuilt from it: {errors}");
    assert_eq!(world.array.state(0), RoleState::InSync);
}

/// A member that knows no flush, beside one that fails to.
#[test]
fn a_member_without_flush_does_not_go_with_one_that_fails_to_flush() {
    for (shape, tolerated) in
        [(raid5(), true), (mirrors()[0], true), ((Level::Raid0, Layout::None, 2), false)]
    {
        let world = struck(shape, &[]);
        let served = |error: OpError| {
            let served = world.io.serve_member(MemberInfo { size: 1 << 20, ..INFO });
            let member = served.member();
            drop(world.io.spawn(async move {
                loop {
                    let request = served.next().await;
                    request.complete(Err(error));
                }
            }));
            member
        };
        let (without, failing) = (served(OpError::Unsupported), served(OpError::Medium(5)));
        let ids = [vec![without, failing], world.ids[2..].to_vec()].concat();
        let devices = ids.iter().map(|&id| Some(Device { id, data_offset: DATA_OFFSET })).collect();
        let array = Array::volatile(&world.io, world.array.geometry().clone(), devices, Config::default());
        let result = world.io.block_on(array.flush());
        assert_eq!(result.is_ok(), tolerated, "{shape:?}: {result:?}");
        assert_eq!(array.state(0), RoleState::InSync);
        assert_eq!(array.state(1) == RoleState::Failed, tolerated);
        drop(array);
        world.io.shutdown();
    }
}

const INFO: MemberInfo = MemberInfo {
    size: 0,
    logical_block: 512,
    physical_block: 512,
    rotational: false,
    discard: false,
    write_zeroes: false,
};
