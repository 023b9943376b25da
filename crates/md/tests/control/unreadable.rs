//! Places that can't be read: a resync and a check go on, name them, and say what is left.

use brindle_array::{Access, Array, BadPlace, EventKind, OpenConfig, SyncMode, SyncReport};
use brindle_format::md::{Endian, Features, Superblock, Version};
use brindle_io::OpError;
use brindle_layout::{Family, Level, ParityRows};
use brindle_md::assembly::Candidate;
use brindle_volume::Volume;

use crate::common::*;

const CHUNK: u64 = 64 << 10;
const PARITY: [(Level, usize); 3] = [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 5)];
const MIRRORS: [(Level, usize); 2] = [(Level::Raid1, 3), (Level::Raid10, 4)];

/// Members of `size` bytes of an array that was killed while it was written to; with where their data begins.
fn crashed(level: Level, members: usize, size: u64) -> (World, u64) {
    let mut spec = spec(level, members, Version::V1_2);
    spec.roles.iter_mut().flatten().for_each(|member| member.info.size = size);
    let world = World::create(&spec);
    let array = world.open();
    for at in (0..4 * MIB).step_by(1 << 20) {
        world.write(&array, at, &pattern(7, 1 << 20)).unwrap();
    }
    drop(array);
    (world, planned(&spec).data_offset)
}

fn rows(array: &Array) -> ParityRows {
    match array.geometry().family() {
        Family::Parity(map) => map.clone(),
        _ => unreachable!("levels with parity"),
    }
}

fn resync(world: &World, array: &Array) -> SyncReport {
    let mut last = None;
    let report = world.io.block_on(array.resync(|progress| last = Some(progress.position))).unwrap();
    assert_eq!(last, Some(array.sync_len()), "it has come to its end");
    report
}

/// 64 KiB of a member that no write helps, once in a row that a write has brought in sync, once where nothing is known.
#[test]
fn a_resync_goes_on_past_what_can_not_be_read() {
    for (level, members) in PARITY {
        for victim in 0..members {
            let (world, data) = crashed(level, members, 8 * MIB);
            let array = world.open();
            let map = rows(&array);
            let row_bytes = map.row_data_bytes();
            world.write(&array, 5 * row_bytes, &pattern(5, row_bytes as usize)).unwrap();
            let places = [5, 9].map(|row| map.row_offset(row));
            for place in places {
                world.bench.wear_out(world.ids[victim], data + place, CHUNK);
            }
            let report = resync(&world, &array);
            let role = victim as u16;
            let bad = places.map(|offset| BadPlace { role, offset, len: CHUNK, mended: false });
            assert_eq!(report.bad_places, bad, "{level} {victim}");
            assert_eq!((report.unreadable, report.unverified), (2 * CHUNK, 2 * CHUNK), "{level} {victim}");
            assert_eq!(array.detail().degraded, 0, "in doubt as the array is, nobody is failed");

            // It has ended, and what could not be made redundant is told.
            let detail = array.detail();
            assert_eq!((detail.process, detail.resync_offset), (None, Some(places[1])), "{level} {victim}");
            let reported =
                array.events_since(0).into_iter().filter(|event| event.kind == EventKind::Unprotected);
            let reported: Vec<_> = reported.map(|event| (event.role, event.range)).collect();
            let expected = places.map(|offset| (Some(role), Some(offset..offset + CHUNK)));
            assert_eq!(reported, expected, "{level} {victim}");

            // All the rest is protected: of the other rows, a member can be lost.
            let before = world.read(&array, 20 * row_bytes, row_bytes as usize).unwrap();
            world.io.block_on(array.fail((role + 1) % members as u16)).unwrap();
            assert_eq!(world.read(&array, 20 * row_bytes, row_bytes as usize).unwrap(), before);
            world.stop(&array);
            let left = (victim + 2) % members;
            assert_eq!(world.superblock(left).resync_offset, Some(places[1]), "{level} {victim}");
        }
    }
}

/// Two members of a row can't read the same sector; parity was known to be in sync there.
#[test]
fn what_redundancy_does_not_make_up_for_ends_neither_resync_nor_check() {
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 4)] {
        let (world, data) = crashed(level, members, 8 * MIB);
        let array = world.open();
        resync(&world, &array);
        assert!(!array.needs_resync());
        let map = rows(&array);
        let start = map.row_offset(11);
        for member in [0, 2] {
            world.bench.spoil(world.ids[member], data + start + 4096, 1024);
            world.bench.spoil(world.ids[member], data + start + CHUNK + 8192 * (1 + member as u64), 512);
        }
        let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
        let bad = [0, 2].map(|role| BadPlace { role, offset: start + 4096, len: 1024, mended: false });
        let unmended: Vec<_> = report.bad_places.iter().filter(|place| !place.mended).copied().collect();
        assert_eq!(unmended, bad, "{level}");
        assert_eq!((report.mismatch_sectors, report.unverified, report.unreadable), (0, 1024, 2048));
        assert!(report.mended >= 1024, "what others make up for is mended: {report:?}");
        let reported = array.events_since(0).into_iter().filter(|event| event.kind == EventKind::Uncorrected);
        assert_eq!(reported.count(), 2, "{level}: one event a member");
    }
}

#[test]
fn a_resync_of_mirrors_goes_on_past_what_no_copy_gives() {
    for (level, members) in MIRRORS {
        let (world, data) = crashed(level, members, 8 * MIB);
        let array = world.open();
        let at = 1 << 20;
        let Family::Mirrored(map) = array.geometry().family() else { unreachable!("mirrors") };
        let copies: Vec<_> = (0..map.copies()).map(|copy| map.locate(at, copy)).collect();
        for copy in &copies {
            world.bench.spoil(world.ids[usize::from(copy.member)], data + copy.offset, 4096);
        }
        // One copy more that only one member can't give.
        world.bench.spoil(world.ids[1], data + (3 << 20), 4096);
        let report = resync(&world, &array);
        let bad = |place: &&BadPlace| !place.mended;
        let named: Vec<_> =
            report.bad_places.iter().filter(bad).map(|place| (place.role, place.offset, place.len)).collect();
        let mut expected: Vec<_> = copies.iter().map(|copy| (copy.member, copy.offset, 4096)).collect();
        expected.sort_unstable();
        assert_eq!(named, expected, "{level}");
        assert_eq!((report.unverified, report.mended), (4096, 4096), "{level}");
        assert_eq!(array.detail().resync_offset, Some(at), "{level}");
        assert!(world.read(&array, at, 4096).is_err());
        assert_eq!(world.read(&array, at + 4096, 4096).unwrap(), pattern(7, 1 << 20)[4096..8192]);
        // Writing the place anew makes it readable, and the array in sync.
        world.write(&array, at, &pattern(2, 4096)).unwrap();
        assert_eq!(world.read(&array, at, 4096).unwrap(), pattern(2, 4096));
        assert!(!array.needs_resync(), "{level}");
        world.stop(&array);
        assert!(world.superblocks().iter().all(Superblock::is_clean));
    }
}

/// Looking only: nothing is written, everything is named, and what lies behind is still compared.
#[test]
fn a_read_only_check_names_what_it_could_not_read_and_changes_nothing() {
    for (level, members) in PARITY.into_iter().chain(MIRRORS) {
        for victim in 0..members {
            let mut spec = spec(level, members, Version::V1_2);
            spec.roles.iter_mut().flatten().for_each(|member| member.info.size = 8 * MIB);
            let world = World::create(&spec);
            let data = planned(&spec).data_offset;
            let id = world.ids[victim];
            for at in [CHUNK + 512, 5 * CHUNK] {
                world.bench.spoil(id, data + at, 1024);
            }
            world.bench.poke(id, data + 40 * CHUNK, &pattern(3, 512));
            let writes = |world: &World| world.ids.iter().map(|&id| world.bench.op_counts(id).1).sum::<u64>();
            let before = writes(&world);
            let config = OpenConfig::new(Access::ReadOnly, || NOW);
            let array = world.try_open(world.assembly().unwrap(), config).unwrap();
            let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
            let role = victim as u16;
            let bad =
                [CHUNK + 512, 5 * CHUNK].map(|offset| BadPlace { role, offset, len: 1024, mended: false });
            assert_eq!(report.bad_places, bad, "{level} {victim}");
            assert_eq!(
                (report.unverified, report.unreadable, report.mended),
                (2048, 2048, 0),
                "{level} {victim}"
            );
            assert!(report.mismatch_sectors > 0, "{level} {victim}: what lies behind is compared");
            assert_eq!(array.detail().degraded, 0);
            assert_eq!(writes(&world), before);
            assert_eq!(array.corrected(role), 0);
        }
    }
}

/// More bad places than a member may have, in rows whose parity is in sync: but failing the member would lose what it
/// holds in the others.
#[test]
fn nobody_is_failed_for_bad_places_while_parity_is_in_doubt_elsewhere() {
    for (level, members) in PARITY {
        let (world, data) = crashed(level, members, 8 * MIB);
        let array = world.open();
        let map = rows(&array);
        let row_bytes = map.row_data_bytes() as usize;
        let corrected = |row: u64| {
            world.bench.spoil(world.ids[0], data + map.row_offset(row), 512);
            let before = array.corrected(0);
            world.read(&array, row * row_bytes as u64, row_bytes).unwrap();
            array.corrected(0) > before
        };
        for row in 0..50 {
            world.write(&array, row * row_bytes as u64, &pattern(row, row_bytes)).unwrap();
        }
        let mended = (0..50).filter(|&row| corrected(row)).count();
        assert!(mended > 21, "{level}: {mended}, the rest is parity");
        assert_eq!(array.detail().degraded, 0, "{level}");
        // The member still gives its other blocks, which no other member holds.
        assert!(world.read(&array, 70 * row_bytes as u64, row_bytes).is_ok(), "{level}");
        resync(&world, &array);
        assert!(!array.needs_resync(), "{level}");
        assert_eq!(array.detail().degraded, 0, "{level}");
        let next = (51..60).find(|&row| corrected(row));
        assert!(next.is_some(), "{level}");
        assert_eq!(array.detail().degraded, 1, "{level}: nothing is lost with it any more");
    }
}

/// Where metadata stands at the end of a member, the places of other versions are data.
#[test]
fn a_probe_place_that_can_not_be_read_matters_only_where_no_superblock_is_found() {
    for version in [Version::V0_90(Endian::Little), Version::V1_0] {
        let world = World::create(&spec(Level::Raid5, 3, version));
        let read = |id| world.io.block_on(Candidate::read(&world.io, &world.pool, id, "member"));
        let counts = version.superblock_offset(world.io.member_info(world.ids[1]).unwrap().size).unwrap();
        for place in [0, 4096] {
            world.bench.spoil(world.ids[1], place, 512);
        }
        assert_eq!(read(world.ids[1]).unwrap().superblock().unwrap().1, counts);
        let array = world.open();
        assert_eq!(array.detail().degraded, 0, "{version}");
        world.stop(&array);
        world.bench.spoil(world.ids[1], counts, 512);
        assert!(matches!(read(world.ids[1]), Err(OpError::Medium(_))), "{version}");
        // A member that is gone is not asked again.
        world.bench.kill(world.ids[2]);
        assert!(matches!(read(world.ids[2]), Err(OpError::Gone)), "{version}");
    }
}

#[test]
fn what_is_rebuilt_of_a_member_makes_up_for_bad_places_already() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid4, 3), (Level::Raid5, 3)] {
        let world = World::of(&Shape { rows: 64, ..Shape::new(level, members) });
        let array = world.open();
        let content = pattern(1, array.limits().size as usize);
        world.write(&array, 0, &content).unwrap();
        world.stop(&array);
        drop(array);

        let world = world.reboot();
        world.change(1, |sb| {
            sb.recovery_offset = Some(32 * 4096);
            sb.features = sb.features.with(Features::RECOVERY_OFFSET, true);
        });
        // Both hold data, of rows before and behind the border.
        for row in [3, 51] {
            world.bench.spoil(world.ids[0], DATA_OFFSET + row * 4096, 512);
        }
        let array = world.open();
        let (rebuilt, rest) = content.split_at(content.len() / 2);
        assert!(world.read(&array, 0, rebuilt.len()).is_ok_and(|bytes| bytes == rebuilt), "{level}");
        world.read(&array, rebuilt.len() as u64, rest.len()).unwrap_err();
    }
}
