//! Superblocks after a power cut, as a table that is gone through whole. After every step of every change each
//! member's superblock is old, new or, where it has several sectors, torn in every way. If the array starts before
//! and after the step, it starts from each of these states, without force and without leaving out a member that
//! neither leaves out. Each cut is repeated while that state is being recovered from.

use std::cell::Cell;
use std::rc::Rc;

use brindle_array::{EventKind, OpenConfig};
use brindle_format::md::{DeviceRole, Endian, SUPERBLOCK_BYTES, Superblock, Version};
use brindle_layout::Level;
use brindle_md::assembly::{AssembleOptions, Assembly, AssemblyError, DeviceUse, assemble};
use brindle_testkit::skip::is_long;
use brindle_volume::VolumeError;

use crate::common::*;

pub(crate) const SIZE: u64 = 3 * MIB;
const SECTOR: usize = 512;

pub(crate) type Block = [u8; SUPERBLOCK_BYTES];
/// The superblocks of all members.
pub(crate) type State = Vec<Block>;

/// How superblocks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 4 KiB, all of which is in use.
    V0,
    /// 1.2 with a table of 128 entries: one sector.
    Narrow,
    /// 1.2 with 384 entries, and members at their end: two sectors.
    Wide,
}

impl Kind {
    fn version(self) -> Version {
        if self == Self::V0 { Version::V0_90(Endian::Little) } else { Version::V1_2 }
    }

    fn superblock_offset(self) -> u64 {
        self.version().superblock_offset(SIZE).unwrap()
    }
}

/// The change made to an array.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Nothing: it is opened and stopped.
    Nothing,
    /// Written to and stopped.
    Write,
    /// A member is failed by the operator while the array is clean.
    Fail,
    /// The last member dies under a write.
    Die,
    /// Redundancy is brought in sync.
    Resync,
}

const WORKS: [Work; 5] = [Work::Nothing, Work::Write, Work::Fail, Work::Die, Work::Resync];

fn world(level: Level, members: usize, kind: Kind) -> World {
    let mut spec = spec(level, members, kind.version());
    spec.roles.iter_mut().flatten().for_each(|member| member.info.size = SIZE);
    let world = World::create(&spec);
    if kind == Kind::Wide {
        for n in 0..members {
            world.change(n, |sb| {
                sb.roles = vec![DeviceRole::Spare; 384];
                sb.device_number = 200 + n as u32;
                (0..members).for_each(|n| sb.roles[200 + n] = DeviceRole::Active(n as u16));
            });
        }
    }
    world
}

pub(crate) fn state(world: &World, kind: Kind) -> State {
    let offset = kind.superblock_offset();
    let read = |id| {
        let mut block = [0; SUPERBLOCK_BYTES];
        world.bench.peek(id, offset, &mut block);
        block
    };
    world.ids.iter().copied().map(read).collect()
}

pub(crate) fn put(world: &World, kind: Kind, state: &State) {
    let offset = kind.superblock_offset();
    world.ids.iter().zip(state).for_each(|(&id, block)| world.bench.poke(id, offset, block));
}

fn found(kind: Kind, members: &[(usize, Block)]) -> Result<Assembly, AssemblyError> {
    let offset = kind.superblock_offset();
    let candidates: Vec<_> = members
        .iter()
        .map(|(n, block)| device(&format!("disk{n}"), SIZE, &[(offset, block.to_vec())]))
        .collect();
    assemble(&candidates, AssembleOptions::default())
}

fn array(kind: Kind, state: &State) -> Result<Assembly, AssemblyError> {
    found(kind, &state.iter().copied().enumerate().collect::<Vec<_>>())
}

/// Does work on an array, and looks at its superblocks whenever anything may have been written.
fn steps(world: &World, kind: Kind, work: Work) -> Vec<State> {
    let mut states = vec![state(world, kind)];
    let config = OpenConfig { scratch_bytes: 0, ..patient() };
    let array = world.try_open(world.assembly().unwrap(), config).unwrap();
    let done = Rc::new(Cell::new(false));
    world.io.block_on(async {
        let ended = Rc::clone(&done);
        let (pool, victim) = (world.pool.clone(), *world.ids.last().unwrap());
        let bench = world.bench.clone();
        drop(world.io.spawn(async move {
            match work {
                Work::Nothing => {}
                Work::Write => write(&pool, &array, 0, &[1; 4096]).await.unwrap(),
                Work::Fail => {
                    let _ = array.fail(0).await;
                }
                Work::Die => {
                    let _ = write(&pool, &array, 0, &[1; 65536]).await;
                    bench.kill(victim);
                    let _ = write(&pool, &array, 0, &[2; 65536]).await;
                }
                Work::Resync => drop(array.resync(|_| ()).await.unwrap()),
            }
            // An array that has lost too much stays as it is.
            match array.stop().await {
                Ok(()) | Err(VolumeError::TooManyLost) => ended.set(true),
                Err(error) => panic!("{error}"),
            }
        }));
        while !done.get() {
            world.io.yield_now().await;
            let now = state(world, kind);
            if states.last() != Some(&now) {
                states.push(now);
            }
        }
    });
    states
}

/// Every way in which the write of a block can be cut: old, new, and each mixture of the sectors that differ.
fn cuts(old: &Block, new: &Block) -> Vec<Block> {
    let sector = |n: usize| n * SECTOR..(n + 1) * SECTOR;
    let differ: Vec<usize> =
        (0..SUPERBLOCK_BYTES / SECTOR).filter(|&n| old[sector(n)] != new[sector(n)]).collect();
    let mixture = |bits: u32| {
        let mut block = *old;
        for (_, &n) in differ.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1) {
            block[sector(n)].copy_from_slice(&new[sector(n)]);
        }
        block
    };
    (0..1u32 << differ.len()).map(mixture).collect()
}

/// Everything that a cut between two states can leave.
fn mixtures(old: &State, new: &State) -> Vec<State> {
    let mut all = vec![Vec::new()];
    for (old, new) in old.iter().zip(new) {
        let next = cuts(old, new);
        all =
            all.iter().flat_map(|state| next.iter().map(|block| [&state[..], &[*block]].concat())).collect();
    }
    all
}

/// Goes through a table row: gives what a cut within each step leaves, after the judgement.
pub(crate) fn judge(kind: Kind, states: &[State], who: &str) -> Vec<State> {
    let mut left = Vec::new();
    for pair in states.windows(2) {
        let (before, after) = (array(kind, &pair[0]), array(kind, &pair[1]));
        let several = in_flight_in_several_sectors(kind, pair);
        let (Ok(before), Ok(after)) = (before, after) else { continue };
        assert!(
            several <= 1 || before.geometry.can_lose(&(0..several as u16).collect::<Vec<_>>()),
            "{who}: {several} superblocks of several sectors in flight"
        );
        for mixture in mixtures(&pair[0], &pair[1]) {
            let mixed = array(kind, &mixture).unwrap_or_else(|error| panic!("{who}: {error}"));
            let neither = |role: &u16| !before.missing().contains(role) && !after.missing().contains(role);
            let thrown_out: Vec<u16> = mixed.missing().into_iter().filter(neither).collect();
            assert!(thrown_out.is_empty(), "{who}: {thrown_out:?} thrown out");
            left.push(mixture);
        }
    }
    left
}

/// Spares don't count: no role lacks one.
fn in_flight_in_several_sectors(kind: Kind, pair: &[State]) -> usize {
    let is_spare = |block: &Block| {
        let role = Superblock::parse(kind.version(), block, SIZE).map(|sb| sb.role());
        role == Ok(DeviceRole::Spare)
    };
    let written = pair[0].iter().zip(&pair[1]).filter(|(_, new)| !is_spare(new));
    written.filter(|(old, new)| cuts(old, new).len() > 2).count()
}

/// One cut in each step of each work.
fn first_cuts(level: Level, members: usize, kind: Kind, mut then: impl FnMut(&State, &str)) {
    for work in WORKS {
        let who = format!("{level} of {members}, {kind:?}, {work:?}");
        let base = world(level, members, kind);
        if matches!(work, Work::Resync) {
            (0..members).for_each(|n| base.change(n, |sb| sb.resync_offset = Some(0)));
        }
        let states = steps(&base, kind, work);
        for left in judge(kind, &states, &who) {
            then(&left, &who);
        }
    }
}

const LEVELS: [(Level, usize); 7] = [
    (Level::Raid1, 2),
    (Level::Raid1, 3),
    (Level::Raid10, 3),
    (Level::Raid10, 4),
    (Level::Raid4, 3),
    (Level::Raid5, 3),
    (Level::Raid6, 4),
];
const KINDS: [Kind; 3] = [Kind::V0, Kind::Narrow, Kind::Wide];

#[test]
fn the_array_starts_from_whatever_a_cut_leaves() {
    for (level, members) in LEVELS {
        for kind in KINDS {
            let mut left = 0;
            first_cuts(level, members, kind, |_, _| left += 1);
            assert!(left > 20, "{level}, {kind:?}: {left} states");
        }
    }
}

/// The same table for a second cut, while the first is recovered from.
fn second_cuts(level: Level, members: usize, kinds: &[Kind]) {
    for &kind in kinds {
        let world = world(level, members, kind);
        let image: Vec<Vec<u8>> = (0..members).map(|n| world.image(n)).collect();
        let mut seen = std::collections::BTreeSet::new();
        first_cuts(level, members, kind, |left, who| {
            // Many cuts leave the same.
            if !seen.insert(left.concat()) {
                return;
            }
            // Every other work; `make test-long` does all.
            let (from, stride) = if is_long() { (0, 1) } else { (seen.len() % 2, 2) };
            for &work in WORKS.iter().skip(from).step_by(stride) {
                let world = fresh(&image, kind);
                put(&world, kind, left);
                let states = steps(&world, kind, work);
                judge(kind, &states, &format!("{who}, then {work:?}"));
                whole_again(kind, states.last().unwrap(), &format!("{who}, then {work:?}"));
            }
        });
    }
}

/// Members with these bytes.
fn fresh(images: &[Vec<u8>], kind: Kind) -> World {
    let mut spec = spec(Level::Raid1, images.len(), kind.version());
    spec.roles.iter_mut().flatten().for_each(|member| member.info.size = SIZE);
    let world = World::create(&spec);
    for (&id, image) in world.ids.iter().zip(images) {
        // Next to nothing of a member is in use: what is not, costs no memory.
        for (n, block) in
            image.chunks(SUPERBLOCK_BYTES).enumerate().filter(|(_, b)| b.iter().any(|&x| x != 0))
        {
            world.bench.poke(id, (n * SUPERBLOCK_BYTES) as u64, block);
        }
    }
    world
}

/// Whatever the run was, it leaves the members that are in use whole and at one count.
pub(crate) fn whole_again(kind: Kind, last: &State, who: &str) {
    let Ok(assembly) = array(kind, last) else { return };
    let counts: Vec<u64> = assembly
        .devices
        .iter()
        .filter(|device| matches!(device.usage, DeviceUse::Active { .. }))
        .map(|device| {
            assert!(!device.torn, "{who}");
            device.superblock.events
        })
        .collect();
    assert!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{who}: {counts:?}");
}

#[test]
fn and_from_whatever_a_second_cut_leaves_while_the_first_is_recovered_from_raid1() {
    second_cuts(Level::Raid1, 2, &KINDS);
    second_cuts(Level::Raid1, 3, &KINDS);
}

#[test]
fn and_from_whatever_a_second_cut_leaves_while_the_first_is_recovered_from_raid10() {
    second_cuts(Level::Raid10, 3, &KINDS);
    second_cuts(Level::Raid10, 4, &[Kind::Narrow]);
}

#[test]
fn and_from_whatever_a_second_cut_leaves_while_the_first_is_recovered_from_raid5() {
    second_cuts(Level::Raid4, 3, &KINDS);
    second_cuts(Level::Raid5, 3, &KINDS);
}

#[test]
fn and_from_whatever_a_second_cut_leaves_while_the_first_is_recovered_from_raid6() {
    second_cuts(Level::Raid6, 4, &KINDS);
}

#[test]
fn a_run_without_writes_brings_up_whom_a_cut_left_dirty() {
    for kind in KINDS {
        let base = world(Level::Raid5, 3, kind);
        let states = steps(&base, kind, Work::Write);
        let (dirty, clean) = (&states[states.len() - 2], &states[states.len() - 1]);
        for newest in 0..3 {
            let world = base.reboot();
            let mut torn = dirty.clone();
            torn[newest] = clean[newest];
            put(&world, kind, &torn);
            let array = world.open();
            world.stop(&array);
            let reported = array.events_since(0);
            assert!(reported.len() == 2 && reported.iter().all(|event| event.kind == EventKind::BroughtUp));
            let named: Vec<_> = reported.into_iter().map(|event| (event.role, event.label)).collect();
            let outdated = (0..3).filter(|&n| n != newest);
            let expected: Vec<_> =
                outdated.map(|n| (Some(n as u16), Some(world.ids[n].to_string()))).collect();
            assert_eq!(named, expected);
            // The member that alone knew it is lost.
            let rest: Vec<_> =
                state(&world, kind).into_iter().enumerate().filter(|(n, _)| *n != newest).collect();
            let assembly = found(kind, &rest).unwrap_or_else(|error| panic!("{kind:?} {newest}: {error}"));
            assert!(assembly.is_clean());
        }
    }
}

#[test]
fn who_fails_while_others_are_brought_up_is_recorded_when_the_stop_returns() {
    let shape = Shape { rows: 64, ..Shape::new(Level::Raid6, 5) };
    let world = World::in_sim(&shape, brindle_io::sim::Model::nvme(), 7);
    world.change(1, |sb| sb.events += 1);
    let array = world.open();
    world.bench.afflict(world.ids[0], |faults| faults.hangs = true);
    world.io.block_on(array.stop()).unwrap();
    for role in 1..5 {
        assert_eq!(world.superblock(role).role_of(0), DeviceRole::Faulty, "role {role}");
    }
    let events = array.events_since(0);
    let brought: Vec<_> = events.iter().filter(|e| e.kind == EventKind::BroughtUp).map(|e| e.role).collect();
    assert_eq!(brought, [Some(2), Some(3), Some(4)]);
}

#[test]
fn an_outdated_member_that_the_newest_superblock_calls_faulty_is_left_alone() {
    for kind in KINDS {
        let world = world(Level::Raid6, 4, kind);
        let array = world.open();
        world.io.block_on(array.fail(1)).unwrap();
        drop(array);
        let failed = state(&world, kind);
        // A new process: this one asks nothing more of a member that has failed.
        let world = world.reboot();
        // Its count is that of the others, and one behind.
        for behind in [0, 1, 2] {
            put(&world, kind, &failed);
            let number = |sb: &Superblock| sb.device_number;
            let events = world.superblock(0).events - behind;
            world.change(1, |sb| sb.events = events);
            let before = state(&world, kind)[1];
            let strict = world.assembly();
            let Ok(assembly) = strict else {
                assert!(matches!(strict, Err(AssemblyError::SplitBrain { .. })), "{behind}");
                continue;
            };
            assert_eq!(assembly.missing(), [1], "{kind:?} {behind} {}", number(&world.superblock(1)));
            let array = world.try_open(assembly, patient()).unwrap();
            world.write(&array, 0, &[7; 4096]).unwrap();
            assert!(world.superblock(0).events >= events + 2, "md must not take it for one in sync");
            world.stop(&array);
            assert!(state(&world, kind)[1] == before, "it is not written to");
        }
    }
}
