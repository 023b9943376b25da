//! Recovery that meets places which the others can't give: it goes on, and nobody is given what was never written.

use std::ops::Range;

use brindle_array::{Array, BadPlace, Device, EventKind, OpenConfig, Recovery, RoleState, SyncMode};
use brindle_format::md::{Endian, Features, Version};
use brindle_io::Duration;
use brindle_io::sim::{BadRange, Model, Sim, When};
use brindle_layout::{Family, Level};
use brindle_volume::Volume;

use crate::common::*;

const LEVELS: [(Level, usize); 5] =
    [(Level::Raid1, 2), (Level::Raid4, 3), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 4)];

/// Bytes of a member's data area that can't be read.
const ROT: Range<u64> = 5 * 4096 + 512..5 * 4096 + 2048;

/// An array with a spare that has lost what it can lose, and whose members hold a place that none of the others make up for;
/// with what it holds, and the roles that are lost.
fn rotten(level: Level, members: usize, version: Version) -> (World<Sim>, Array, Vec<u8>, Vec<u16>) {
    let spares = if level == Level::Raid6 { 2 } else { 1 };
    let shape = Shape { rows: 32, spares, ..Shape::new(level, members) }.metadata(version, 0);
    let world = World::in_sim(&shape, Model::nvme(), 7);
    let array = world.open();
    let content = pattern(5, array.limits().size as usize);
    world.write(&array, 0, &content).unwrap();
    let lost: Vec<u16> = if level == Level::Raid6 { vec![1, 3] } else { vec![1] };
    for &role in &lost {
        world.io.block_on(array.fail(role)).unwrap();
    }
    let start = shape.data_offset();
    let rot = BadRange::forever(start + ROT.start..start + ROT.end);
    world.bench.afflict(world.ids[0], |faults| faults.unreadable.push(rot));
    (world, array, content, lost)
}

fn recover(world: &World<Sim>, array: &Array, lost: &[u16]) -> Result<(), brindle_array::ProcessError> {
    let devices: Vec<(u16, Device)> = lost.iter().copied().zip(array.spares()).collect();
    world.io.block_on(array.recover_all(&devices, |_| ()))
}

/// Bytes of the array that can't be read, sector by sector; all others are as they were written.
fn unreadable(world: &World<Sim>, array: &Array, content: &[u8]) -> Vec<u64> {
    let mut bad = Vec::new();
    for (at, sector) in (0..).step_by(512).zip(content.chunks(512)) {
        match world.read(array, at, 512) {
            Ok(read) => assert!(read == sector, "byte {at} is what was never written"),
            Err(_) => bad.push(at),
        }
    }
    bad
}

/// Bytes of the array that a place of a member holds.
fn in_array(array: &Array, role: u16) -> Vec<u64> {
    array.array_ranges(role, ROT).into_iter().flat_map(|range| range.step_by(512)).collect()
}

#[test]
fn a_recovery_goes_on_past_what_nobody_can_give_and_says_what_is_lost() {
    for (level, members) in LEVELS {
        let (world, array, content, lost) = rotten(level, members, Version::V1_2);
        recover(&world, &array, &lost).unwrap();
        let found = array.last_outcome().unwrap();
        let len = ROT.end - ROT.start;
        let expected = lost.iter().map(|&role| BadPlace { role, offset: ROT.start, len, mended: false });
        assert_eq!(found.report.bad_places, expected.collect::<Vec<_>>(), "{level}");
        assert_eq!((array.detail().degraded, found.result), (0, Ok(())), "{level}");
        assert!(lost.iter().all(|&role| array.bad_blocks(role) == [ROT]), "{level}");
        let reported = array.events_since(0).into_iter().filter(|event| event.kind == EventKind::Unrebuilt);
        let reported: Vec<_> = reported.map(|event| (event.role, event.range, event.array)).collect();
        let place = |&role: &u16| {
            let held = array.array_ranges(role, ROT).into_iter().next();
            (Some(role), Some(ROT), held)
        };
        assert_eq!(reported, lost.iter().map(place).collect::<Vec<_>>(), "{level}");

        // Nobody is given what was never written there: neither now nor in the next run, nor through a check.
        let mut bad: Vec<u64> = [0].iter().chain(&lost).flat_map(|&role| in_array(&array, role)).collect();
        bad.sort_unstable();
        bad.dedup();
        assert_eq!(unreadable(&world, &array, &content), bad, "{level}");
        world.stop(&array);
        drop(array);
        let world = world.restart(8);
        let spare = members;
        assert!(world.superblock(spare).features.contains(Features::BAD_BLOCKS), "{level}");
        let array = world.open();
        assert!(lost.iter().all(|&role| array.bad_blocks(role) == [ROT]), "{level}");
        assert_eq!(unreadable(&world, &array, &content), bad, "{level}");
        let check = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
        assert_eq!((check.mismatch_sectors, check.unreadable > 0), (0, true), "{level}");

        // Data that are rewritten can be read and are no longer bad, in this run and in the next.
        world.bench.afflict(world.ids[0], |faults| faults.unreadable.clear());
        world.write(&array, 0, &content).unwrap();
        assert!(lost.iter().all(|&role| array.bad_blocks(role).is_empty()), "{level}");
        drop(array);
        let world = world.restart(9);
        assert!(!world.superblock(spare).features.contains(Features::BAD_BLOCKS), "{level}");
        let array = world.open();
        assert_eq!(unreadable(&world, &array, &content), [0u64; 0], "{level}");
        world.stop(&array);
    }
}

#[test]
fn what_the_others_can_give_again_is_rebuilt_when_it_is_read() {
    for (level, members) in LEVELS {
        let (world, array, content, lost) = rotten(level, members, Version::V1_2);
        recover(&world, &array, &lost).unwrap();
        world.bench.afflict(world.ids[0], |faults| faults.unreadable.clear());
        if level == Level::Raid6 {
            // P and Q make up for two, if it is known which.
            assert_eq!(unreadable(&world, &array, &content), [0u64; 0]);
        }
        let repair = world.io.block_on(array.check(SyncMode::Repair, |_| ())).unwrap();
        assert_eq!((repair.mismatch_sectors, repair.unreadable), (0, 0), "{level}");
        assert!(lost.iter().all(|&role| array.bad_blocks(role).is_empty()), "{level}");
        assert_eq!(array.detail().degraded, 0, "{level}: a place on record is no new error of the medium");
        world.io.block_on(array.fail(0)).unwrap();
        assert_eq!(unreadable(&world, &array, &content), [0u64; 0], "{level}");
    }
}

#[test]
fn a_spare_that_can_not_record_what_it_lacks_fails_as_with_md() {
    let (world, array, content, lost) = rotten(Level::Raid5, 3, Version::V0_90(Endian::Little));
    recover(&world, &array, &lost).unwrap_err();
    assert_eq!((array.state(1), array.detail().degraded), (RoleState::Failed, 1));
    let reported = array.events_since(0).into_iter().map(|event| event.kind);
    assert!(
        reported.clone().any(|kind| kind == EventKind::NoBadBlockLog),
        "{:?}",
        reported.collect::<Vec<_>>()
    );
    let mut bad = [in_array(&array, 0), in_array(&array, 1)].concat();
    bad.sort_unstable();
    assert_eq!(unreadable(&world, &array, &content), bad, "what can be had is read from the others");
}

/// The power goes before every so-many-th step of a recovery, of a write over all of it, and of a stop.
#[test]
fn a_cut_at_any_step_leaves_no_bad_place_that_is_taken_for_good() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        for cut in (0..).step_by(5) {
            let (world, array, before, lost) = rotten(level, members, Version::V1_2);
            world.stop(&array);
            drop(array);
            let world = world.restart(cut + 1);
            let (array, after) = (world.open(), pattern(6, before.len()));
            let bad = [in_array(&array, 0), in_array(&array, 1)].concat();
            world.bench.cut_power_at(When::Step(world.bench.steps() + cut));
            let devices: Vec<(u16, Device)> = lost.iter().copied().zip(array.spares()).collect();
            let life = async {
                array.recover_all(&devices, |_| ()).await.unwrap();
                write(&world.pool, &array, 0, &after).await.unwrap();
                array.stop().await.unwrap();
            };
            let ended = world.io.block_on(world.bench.until_end(&world.io, life)).is_some();
            drop(array);
            let found = World::over(world.bench.restart(cut + 2), world.ids.clone(), Version::V1_2);
            let config = OpenConfig { recovery: Recovery::Automatic, ..patient() };
            let array = found.try_open(found.assembly().unwrap(), config).unwrap();
            found.io.block_on(async {
                while array.detail().degraded > 0 {
                    found.io.sleep(Duration::from_millis(1)).await;
                }
            });
            for at in (0..before.len()).step_by(512) {
                let sector = at..at + 512;
                match found.read(&array, at as u64, 512) {
                    Ok(read) => assert!(
                        read == after[sector.clone()] || read == before[sector] && !ended,
                        "{level}, cut {cut}: byte {at} is what was never written"
                    ),
                    Err(_) => assert!(bad.contains(&(at as u64)), "{level}, cut {cut}: byte {at}"),
                }
            }
            if ended {
                assert!(cut > 100, "{level}: {cut}");
                break;
            }
        }
    }
}

/// After a start by force parity need not agree with what the others give, and a place that can't be read at first may be read later.
#[test]
fn parity_is_brought_in_sync_where_a_member_could_not_read_at_first() {
    for times in 1..=4 {
        let shape = Shape { rows: 32, spares: 1, ..Shape::new(Level::Raid6, 5) };
        let world = World::in_sim(&shape, Model::nvme(), 7);
        let array = world.open();
        world.write(&array, 0, &pattern(5, array.limits().size as usize)).unwrap();
        let Family::Parity(map) = array.geometry().family() else { unreachable!("RAID 6") };
        let roles = map.row(ROT.start / map.chunk());
        let (lost, bad, stale) = (roles.data_member(0), roles.data_member(1), roles.q().unwrap());
        world.io.block_on(array.fail(lost)).unwrap();
        let (start, stale) = (shape.data_offset(), world.ids[usize::from(stale)]);
        let mut byte = [0];
        world.bench.peek(stale, start + ROT.end + 100, &mut byte);
        world.bench.poke(stale, start + ROT.end + 100, &[!byte[0]]);
        let rot = BadRange::times(start + ROT.start..start + ROT.end, times);
        world.bench.afflict(world.ids[usize::from(bad)], |faults| faults.unreadable.push(rot));
        recover(&world, &array, &[lost]).unwrap();
        let check = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
        assert_eq!(check.mismatch_sectors, 0, "{times}: {check:?}");
    }
}
