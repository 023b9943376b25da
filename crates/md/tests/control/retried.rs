//! Ranges whose writes failed for lack of space are brought in sync once there is some, wherever they begin and end.

use brindle_array::{DeviceState, OpenConfig, Recovery, SyncMode};
use brindle_layout::Level;
use brindle_volume::{Volume, ZeroOptions};

use crate::common::*;
use crate::full::{full, room, wait, world_of};

#[test]
fn all_that_found_no_space_is_brought_in_sync_wherever_it_begins_and_ends() {
    let shapes = [
        // A chunk wider than what windows begin at.
        Shape { chunk: 256 << 10, rows: 6, ..Shape::new(Level::Raid5, 3) },
        // Members that end between two such places.
        Shape { rows: 33, ..Shape::new(Level::Raid1, 2) },
        Shape { rows: 33, ..Shape::new(Level::Raid5, 3) },
        // More than one window.
        Shape { rows: 2500, ..Shape::new(Level::Raid1, 2) },
    ];
    for shape in shapes {
        for (part, of) in [(0, 1), (1, 3), (9, 10)] {
            let world = world_of(&shape);
            let array = world.open();
            let size = array.limits().size;
            let (start, step) = (size * part / of / 4096 * 4096, 1 << 20);
            let who = format!("{shape}, chunk of {}, {} rows: from {start} on", shape.chunk, shape.rows);
            // The last has none: mirrors are read from the first that took it.
            let last = [shape.members - 1];
            room(&world, &last, false);
            for at in (start..size).step_by(step as usize) {
                let bytes = pattern(at, step.min(size - at) as usize);
                assert_eq!(world.write(&array, at, &bytes), full(last[0]), "{who}");
            }
            assert!(array.needs_resync(), "{who}");
            wait(&world, 4);
            room(&world, &last, true);
            wait(&world, 60);
            assert!(!array.needs_resync(), "{who}: {:?}", array.detail().resync_offset);
            let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
            assert_eq!((report.mismatch_sectors, report.unverified), (0, 0), "{who}");
            world.stop(&array);
        }
    }
}

#[test]
fn what_waited_until_redundancy_is_in_sync_begins_then() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 5), (Level::Raid10, 4)] {
        let world = world_of(&Shape { rows: 64, spares: 1, ..Shape::new(level, members) });
        let config = OpenConfig { recovery: Recovery::Automatic, ..patient() };
        let array = world.try_open(world.assembly().unwrap(), config).unwrap();
        room(&world, &[0], false);
        world.write(&array, 0, &pattern(1, 4096)).unwrap_err();
        world.io.block_on(array.replace(world.ids[1], world.ids[members])).unwrap();
        assert!(array.needs_resync(), "{level}: nothing is copied yet");
        room(&world, &[0], true);
        wait(&world, 60);
        let detail = array.detail();
        assert!(!array.needs_resync(), "{level}");
        assert_eq!(detail.devices[members].state, DeviceState::InSync, "{level}: {detail:?}");
        world.stop(&array);
    }
}

#[test]
fn zeroes_that_find_no_space_leave_their_range_in_doubt_and_nothing_before_it() {
    let world = world_of(&Shape { rows: 64, ..Shape::new(Level::Raid1, 2) });
    let array = world.open();
    let size = array.limits().size;
    let full = |is: bool| {
        let range = is.then_some(DATA_OFFSET..DATA_OFFSET + size);
        world.bench.afflict(world.ids[0], |faults| faults.full_on_write = range);
    };
    full(true);
    let (from, len) = (size / 2, size / 4);
    world.write(&array, from - 4096, &pattern(1, 8192)).unwrap_err();
    full(false);
    wait(&world, 60);
    assert!(!array.needs_resync());
    world.write(&array, from, &pattern(1, len as usize)).unwrap();
    full(true);
    let zeroes = world.io.block_on(array.write_zeroes(from, len, ZeroOptions::default()));
    assert_eq!(zeroes, crate::full::full(0));
    assert_eq!(array.detail().resync_offset, Some(from));
    full(false);
    wait(&world, 60);
    assert!(!array.needs_resync());
    let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
    assert_eq!(report.mismatch_sectors, 0);
}
