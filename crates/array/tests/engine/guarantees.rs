//! Guarantees that hold when members are lost, before a write or in the midst of it, and requests that are refused
//! then.

use brindle_array::ledger::Nothing;
use brindle_array::{Array, Device, ProcessError, RoleState};
use brindle_layout::{Layout, Level, ParityLayout, Raid10Layout};
use brindle_testkit::world::write;
use brindle_volume::VolumeError;

use crate::world::{self, DATA_OFFSET, Running};

const CHUNK: u64 = 8192;
const ROWS: u64 = 6;

type Shape = (Level, Layout, usize);

const RAID5: Shape = (Level::Raid5, Layout::Parity(ParityLayout::LeftSymmetric), 4);
/// Row 0 has its data on the first members.
const RAID6: Shape = (Level::Raid6, Layout::Parity(ParityLayout::ParityLast), 5);

fn filled((level, layout, members): Shape) -> (Running, Vec<u8>) {
    let run = world::start(level, layout, CHUNK, members, ROWS * CHUNK);
    let content = world::pattern(3, run.size() as usize);
    run.run(async |run| run.write_all(&content).await).unwrap();
    (run, content)
}

/// The array of which nobody knows whether parity agrees with the data.
fn doubted(shape: Shape) -> (Running, Vec<u8>) {
    let (run, content) = filled(shape);
    (world::doubted(&run, 0), content)
}

#[test]
fn nothing_is_read_of_a_member_before_it_is_rebuilt() {
    let near = Layout::Raid10(Raid10Layout::near(2));
    let shapes = [RAID5, RAID6, (Level::Raid1, Layout::None, 3), (Level::Raid10, near, 4)];
    for shape in shapes {
        for role in 0..shape.2 as u16 {
            let (whole, mut content) = filled(shape);
            let world = whole.recovering(role);
            let garbage = world::pattern(9, (ROWS * CHUNK) as usize);
            world.bench.poke(world.ids[usize::from(role)], DATA_OFFSET, &garbage);
            for at in (0..content.len()).step_by(512) {
                let read = world.run(async |w| w.read(at as u64, 512).await).unwrap();
                assert!(read == content[at..at + 512], "{shape:?} role {role} at {at}");
            }
            world.run(async |w| w.write(512, &[7; 512]).await).unwrap();
            content[512..1024].fill(7);
            assert!(world.run(async |w| w.read_all().await).unwrap() == content, "{shape:?} role {role}");
        }
    }
}

#[test]
fn a_member_that_does_not_take_what_is_rebuilt_is_failed() {
    for shape in [RAID5, RAID6, (Level::Raid1, Layout::None, 3)] {
        let (whole, content) = filled(shape);
        let world = whole.recovering(1);
        world.bench.refuse_writes(world.ids[1]);
        let recovered = world.run(async |w| w.recovery(1, w.ids[1]).await);
        let refused =
            matches!(recovered, Err(ProcessError::Volume(VolumeError::Member { role: Some(1), .. })));
        assert!(refused, "{shape:?}: {recovered:?}");
        assert_eq!(world.array.state(1), RoleState::Failed, "{shape:?}");
        assert!(world.run(async |w| w.read_all().await).unwrap() == content, "{shape:?}");
    }
}

#[test]
fn a_write_is_not_acknowledged_that_only_a_member_lost_meanwhile_and_no_parity_holds() {
    let (world, _) = doubted(RAID6);
    world.run(async |w| {
        w.array.fail(1).await.unwrap();
        // The array is marked dirty by this: what fails below is the write itself.
        w.write(w.size() - 512, &[1; 512]).await.unwrap();
    });
    world.bench.refuse_writes(world.ids[0]);
    let written = world.run(async |w| w.write(0, &[7; 512]).await);
    assert_eq!(written, Err(VolumeError::TooManyLost));
    assert_eq!(world.array.state(0), RoleState::Failed);
}

/// No member was lost in this run, so that the array is not closed: each write looks for itself.
#[test]
fn whole_rows_are_refused_that_lack_more_than_their_parity_can_replace() {
    let (run, content) = filled(RAID5);
    // Data and the parity of row 0; two blocks of data of row 1.
    let there = |(role, &id)| (role != 0 && role != 3).then_some(Device { id, data_offset: DATA_OFFSET });
    let devices = run.ids.iter().enumerate().map(there).collect();
    let geometry = run.array.geometry().clone();
    let array = Array::kept(&run.io, geometry, devices, Box::new(Nothing), &world::config());
    let row = run.array.geometry().row_bytes();
    for number in 0..2 {
        let bytes = &content[..row as usize];
        let written = run.run(async |run| write(&run.pool, &array, number * row, bytes).await);
        assert_eq!(written, Err(VolumeError::TooManyLost), "row {number}");
    }
}

#[test]
fn a_write_that_parity_could_not_stand_for_changes_nothing() {
    let (world, content) = doubted(RAID6);
    world.run(async |w| {
        w.array.fail(0).await.unwrap();
        w.array.fail(1).await.unwrap();
        // One of the two that are lost, and a block that is there.
        let chunk = CHUNK as usize;
        assert_eq!(w.write(CHUNK, &vec![7; 2 * chunk]).await, Err(VolumeError::TooManyLost));
        assert!(w.read(2 * CHUNK, chunk).await.unwrap() == content[2 * chunk..3 * chunk]);
    });
}

#[test]
fn beside_an_unwritable_sector_all_that_is_written_is_made_redundant() {
    let (world, _) = doubted(RAID5);
    world.bench.wear_out(world.ids[1], DATA_OFFSET + 1024, 512);
    world.run(async |w| {
        w.write(0, &[7; CHUNK as usize]).await.unwrap();
        w.array.fail(0).await.unwrap();
        for at in (0..CHUNK).step_by(512) {
            let read = w.read(at, 512).await;
            assert_eq!(read.is_ok_and(|bytes| bytes == [7; 512]), at != 1024, "at {at}");
        }
    });
}

/// A member that is shorter than it was does not give what it was given; one that is gone may come back as it was.
#[test]
fn the_last_member_that_counts_goes_for_good_only_if_its_bytes_are_others() {
    for (truncated, state) in [(true, RoleState::Failed), (false, RoleState::InSync)] {
        let (whole, _) = filled(RAID5);
        let world = whole.without(&[1]);
        world.run(async |w| w.write(w.size() - 512, &[1; 512]).await).unwrap();
        if truncated {
            world.bench.truncate(world.ids[0], DATA_OFFSET);
        } else {
            world.bench.kill(world.ids[0]);
        }
        assert!(world.run(async |w| w.write(0, &[7; 512]).await).is_err());
        assert_eq!(world.array.state(0), state);
    }
}
