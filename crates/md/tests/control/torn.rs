//! Superblocks are written one by one: whatever part of them a crash lets through, the array must be found right.

use brindle_format::md::{DeviceRole, Endian, SUPERBLOCK_BYTES, Superblock, Version};
use brindle_io::sim::{Model, Sim, When};
use brindle_layout::Level;
use brindle_md::assembly::{AssembleOptions, Assembly, Candidate, DeviceUse, LeftOut, Limitation, assemble};

use crate::common::*;

const REDUNDANT: [(Level, usize); 4] =
    [(Level::Raid1, 3), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)];

/// Assembles every mixture of superblocks before and after a change; `judge` gets a bit per member with the new one.
fn mixtures(level: Level, before: &[Superblock], after: &[Superblock], judge: impl Fn(u32, &Assembly)) {
    for mixture in 0..1u32 << before.len() {
        let pick = |n: usize| if mixture >> n & 1 == 1 { &after[n] } else { &before[n] };
        let found: Vec<_> =
            (0..before.len()).map(|n| candidate(&format!("disk{n}"), pick(n), 3 * MIB)).collect();
        let array = assemble(&found, AssembleOptions { force: true, partial: false });
        judge(mixture, &array.unwrap_or_else(|error| panic!("{level} {mixture:b}: {error}")));
    }
}

fn each(test: impl Fn(Level, &World)) {
    for (level, members) in REDUNDANT {
        for version in VERSIONS {
            let mut spec = spec(level, members, version);
            spec.roles.iter_mut().flatten().for_each(|member| member.info.size = 3 * MIB);
            test(level, &World::create(&spec));
        }
    }
}

#[test]
fn a_torn_mark_of_dirty_or_clean_leaves_the_array_whole() {
    each(|level, world| {
        let states = [
            world.superblocks(),
            {
                let array = world.open();
                world.write(&array, 0, &pattern(1, 65536)).unwrap();
                let dirty = world.superblocks();
                world.stop(&array);
                dirty
            },
            world.superblocks(),
        ];
        // The first mark of a run without a bitmap is written twice: who has its file gives it later.
        let between = one_change_earlier(&states[1]);
        mixtures(level, &states[0], &between, |new, array| {
            assert!(array.degraded().is_empty());
            assert_eq!(array.is_clean(), new == 0, "any newer superblock says dirty");
        });
        mixtures(level, &between, &states[1], |_, array| {
            assert!(array.degraded().is_empty() && !array.is_clean());
        });
        mixtures(level, &states[1], &states[2], |new, array| {
            assert!(array.degraded().is_empty());
            assert_eq!(array.is_clean(), new != 0, "whoever says clean was written after a flush of all");
        });
    });
}

/// The superblocks before the last change, which only raised the event count: a failure is written twice, so that the
/// failed member is two behind.
fn one_change_earlier(after: &[Superblock]) -> Vec<Superblock> {
    let newest = after.iter().map(|sb| sb.events).max();
    let mut between = after.to_vec();
    between.iter_mut().filter(|sb| Some(sb.events) == newest).for_each(|sb| sb.events -= 1);
    between
}

#[test]
fn a_torn_record_of_a_failure_never_brings_the_member_back() {
    each(|level, world| {
        let array = world.open();
        world.write(&array, 0, &pattern(1, 65536)).unwrap();
        let before = world.superblocks();
        world.bench.kill(world.ids[1]);
        world.write(&array, 0, &pattern(2, 4 * 65536)).unwrap();
        let after = world.superblocks();
        assert_eq!(before[1], after[1]);
        let between = one_change_earlier(&after);
        mixtures(level, &before, &between, |new, array| {
            let recorded = new & !0b10 != 0;
            assert_eq!(array.missing(), if recorded { vec![1] } else { vec![] }, "{level} {new:b}");
        });
        mixtures(level, &between, &after, |new, array| {
            assert_eq!(array.missing(), [1], "{level} {new:b}");
        });
    });
}

#[test]
fn a_torn_table_is_made_whole_by_the_next_run() {
    // Member 0 alone knows that 1 has failed: the next change must tell the others.
    let world = World::create(&spec(Level::Raid6, 5, Version::V1_2));
    let array = world.open();
    world.io.block_on(array.fail(1)).unwrap();
    let reported = &one_change_earlier(&world.superblocks())[0];
    drop(array);
    let world = World::create(&spec(Level::Raid6, 5, Version::V1_2));
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    reported.encode(&mut bytes).unwrap();
    world.bench.poke(world.ids[0], 4096, &bytes);
    let array = world.open();
    assert_eq!(array.detail().degraded, 1);
    world.write(&array, 0, &pattern(1, 4096)).unwrap();
    let sbs = world.superblocks();
    assert!([0, 2, 3, 4].iter().all(|&n| sbs[n].roles == sbs[0].roles && sbs[n].events == 4));
    assert!(sbs[3].device_in_role(1).is_none());
    world.stop(&array);
}

/// A superblock of 0.90 of which an update that disowns the last member has written the first sector only.
fn cut_short(sb: &Superblock, update: impl Fn(&mut Superblock)) -> Vec<u8> {
    let (old, mut new) = (encoded(sb), sb.clone());
    *new.roles.last_mut().unwrap() = DeviceRole::Faulty;
    update(&mut new);
    let torn = [&encoded(&new)[..512], &old[512..]].concat();
    assert!(Superblock::parse(sb.version, &torn, 8 * MIB).is_err());
    torn
}

fn torn(sb: &Superblock, update: impl Fn(&mut Superblock)) -> Candidate {
    device("torn", 8 * MIB, &[(sb.super_offset, cut_short(sb, update))])
}

#[test]
fn a_torn_superblock_decides_only_if_all_whole_ones_missed_writes() {
    let version = Version::V0_90(Endian::Little);
    // Member 2 is one behind the whole ones, two behind the torn one: nothing relies on what the latter alone says, but
    // none is used that is further behind.
    let mut found = edited(&spec(Level::Raid6, 5, version), |n, sb| {
        (sb.events, sb.resync_offset) = (if n == 2 { 9 } else { 10 }, Some(0));
    });
    let mut first = superblocks(&spec(Level::Raid6, 5, version)).remove(0);
    (first.events, first.resync_offset) = (10, Some(0));
    found[0] = torn(&first, |new| (new.events, new.resync_offset) = (11, None));
    let array = assemble(&found, AssembleOptions { force: true, partial: false }).unwrap();
    assert_eq!((array.events, array.missing()), (11, vec![2]));
    assert!(array.devices[0].torn && array.devices[4].usage == DeviceUse::Active { role: 4 });
    let why = LeftOut::Stale { events: 9 };
    assert_eq!(array.devices[2].usage, DeviceUse::LeftOut { role: Some(2), why });
    assert_eq!(
        array.limits,
        [Limitation::DirtyDegraded { from: 0, presumed: Some(2) }],
        "the whole ones say so"
    );
    // Two behind: they missed writes that the torn one's member has.
    let mut found = candidates(&spec(Level::Raid1, 3, version));
    let first = superblocks(&spec(Level::Raid1, 3, version)).remove(0);
    found[0] = torn(&first, |new| (new.events, new.resync_offset) = (3, Some(0)));
    let array = assemble(&found, AssembleOptions::default()).unwrap();
    assert_eq!((array.events, array.missing()), (3, vec![1, 2]));
    assert!(!array.is_clean(), "the torn one says so");
}

#[test]
fn a_run_without_writes_leaves_the_count_behind_that_a_torn_superblock_has() {
    let world = World::create(&spec(Level::Raid6, 5, Version::V0_90(Endian::Little)));
    let first = world.superblock(0);
    world.bench.poke(world.ids[0], first.super_offset, &cut_short(&first, |new| new.events = 2));
    // Member 3 is away: it may have all of what that one was to say.
    let world = world.without(&[3]);
    let array = world.open();
    assert!(array.detail().degraded == 1);
    world.stop(&array);
    let counts: Vec<u64> = world.superblocks().iter().map(|sb| sb.events).collect();
    assert!(counts.iter().all(|&count| count == counts[0] && count > 2), "{counts:?}");
}

/// A spare of which more roles change than one sector tells, with its superblock as it was before.
fn with_a_spare_left_behind(version: Version, seed: u64) -> (World<Sim>, u64) {
    let table = if version.is_v1() { 384 } else { 0 };
    let shape = Shape { spares: 1, ..Shape::new(Level::Raid1, 3) }.metadata(version, table);
    let world = World::in_sim(&shape, Model { flush_latency: 150_000, ..Model::sata_ssd() }, seed);
    world.change(3, |sb| {
        sb.events -= 1;
        let members = sb.roles.iter_mut().filter(|role| role.active().is_some());
        members.take(2).for_each(|role| *role = DeviceRole::Faulty);
    });
    let place = world.superblock(3).super_offset;
    (world, place)
}

#[test]
fn a_spare_that_missed_several_changes_never_keeps_the_array_from_starting() {
    for version in [Version::V1_1, Version::V0_90(Endian::Little)] {
        for (cut, seed) in (1..16).flat_map(|cut| (0..6).map(move |seed| (cut, seed))) {
            let what = format!("{version} cut {cut} seed {seed}");
            let (world, place) = with_a_spare_left_behind(version, seed);
            let array = world.open();
            world.bench.cut_power_at(When::Step(world.bench.steps() + cut));
            let write = async { write(&world.pool, &array, 0, &[1; 4096]).await.is_ok() };
            let _done = world.io.block_on(world.bench.until_end(&world.io, write));
            if !world.bench.has_ended() {
                world.bench.cut_power();
            }
            drop(array);
            let world = world.restart(seed + 1);
            let Err(error) = world.assembly() else { continue };
            // It is none of the array, rather than one whose superblock is damaged.
            let mut first = [1; 512];
            world.bench.peek(world.ids[3], place, &mut first);
            assert!(first == [0; 512], "{what}: {error}");
            world.without(&[3]).assembly().unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
}
