//! Writes that find no room and are taken back, while more room goes at any moment: no byte is read that was never
//! written.

use brindle_io::sim::{Sim, When};
use brindle_layout::Level;

use crate::common::*;
use crate::full::{is_full, world_of};

const CHUNK: u64 = 4096;
const SECTOR: usize = 512;

/// Makes a member's file copy-on-write and out of space from this byte of its data area on.
fn no_room(world: &World<Sim>, member: usize, from: u64) {
    world
        .bench
        .afflict(world.ids[member], |faults| faults.full_on_write = Some(DATA_OFFSET + from..u64::MAX));
}

/// A write whose last half one member has no room for. At `step` steps from its beginning another has no room at all.
/// Gives how many sectors can't be read then.
fn taken_back(
    (level, members, lost): (Level, usize, &[usize]),
    at: u64,
    first: usize,
    second: usize,
    step: u64,
) -> usize {
    let who =
        format!("{level} of {members} without {lost:?}: at {at}, {first} full, and {second} after {step}");
    let world = world_of(&Shape { rows: 2, ..Shape::new(level, members) });
    let array = world.open();
    let mut due = pattern(1, 2 * array.geometry().row_bytes() as usize);
    world.write(&array, 0, &due).unwrap();
    lost.iter().for_each(|&role| world.io.block_on(array.fail(role as u16)).unwrap());
    // The superblocks are dirty by now.
    let holds = due.clone();
    let new = pattern(2, 2048);
    due[at as usize..at as usize + 2048].copy_from_slice(&new);
    no_room(&world, first, at % CHUNK + 1024);
    let later = |faults: &mut brindle_io::sim::Faults| faults.full_on_write = Some(DATA_OFFSET..u64::MAX);
    world.bench.schedule(When::Step(world.bench.steps() + step), world.ids[second], later);
    let written = world.write(&array, at, &new);
    assert!(is_full(written) || written.is_ok(), "{who}: {written:?}");
    let mut unread = 0;
    for sector in (0..due.len()).step_by(SECTOR) {
        let Ok(found) = world.read(&array, sector as u64, SECTOR) else {
            assert!(array.needs_resync(), "{who}: unread at {sector}");
            unread += 1;
            continue;
        };
        let is = |bytes: &[u8]| bytes[sector..sector + SECTOR] == found;
        assert!(is(&due) || written.is_err() && is(&holds), "{who}: at {sector}");
    }
    unread
}

#[test]
fn what_can_not_be_taken_back_is_an_error_and_nothing_that_was_never_written() {
    let shapes: [(Level, usize, &[usize]); 4] = [
        (Level::Raid4, 4, &[0]),
        (Level::Raid5, 4, &[1]),
        (Level::Raid6, 5, &[0]),
        (Level::Raid6, 5, &[0, 1]),
    ];
    for shape in shapes {
        let rest: Vec<usize> = (0..shape.1).filter(|role| !shape.2.contains(role)).collect();
        let mut unread = 0;
        for at in [1024, CHUNK + 1024] {
            for &first in &rest {
                for &second in &rest {
                    unread += (0..32)
                        .step_by(3)
                        .map(|step| taken_back(shape, at, first, second, step))
                        .sum::<usize>();
                }
            }
        }
        assert!(unread > 0 || shape.0 == Level::Raid6, "{shape:?}: some of it can't be made good");
    }
}
