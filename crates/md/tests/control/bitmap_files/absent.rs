//! Files that are not given when the array is opened, and are given again later.

use std::num::NonZeroU64;

use brindle_array::{Device, RoleState};
use brindle_format::md::Features;
use brindle_io::sim::When;
use brindle_md::assembly::AssembleOptions;

use super::*;

/// Opens the array with the file or without, has writes begin, and cuts the power so many steps later.
fn cut_while_writing(world: &World<Sim>, file: Option<MemberId>, steps: u64) {
    let array = file.map_or_else(|| open(world), |file| open_with(world, file));
    world.bench.cut_power_at(When::Step(world.bench.steps() + steps));
    let writers = write_about(world, &array, 4);
    world.io.block_on(world.bench.until_end(&world.io, join_all(writers)));
    if !world.bench.has_ended() {
        world.bench.cut_power();
    }
}

/// A cut between the file and the superblocks of its count leaves it one ahead of them: a run without it must not come to the same count.
#[test]
fn a_file_that_was_not_given_for_a_run_is_stale_wherever_the_power_went_before() {
    for (level, members) in REDUNDANT {
        for first in 1..24 {
            for second in (4..40).step_by(4) {
                let (world, array, file) = filed(&shape(level, members));
                world.stop(&array);
                drop(array);
                let world = world.restart(4);
                cut_while_writing(&world, Some(file), first);
                let world = world.restart(first);
                cut_while_writing(&world, None, second);
                let world = world.restart(first * 100 + second);
                judge_after_cut(&world, &[file], members, &format!("{level}, cut {first}, {second}"));
            }
        }
    }
}

/// It holds all but what bits tell of, and those are not here: what it was said to hold before counts for nothing.
#[test]
fn a_member_that_came_back_begins_anew_where_the_file_is_not_given() {
    for (level, members) in REDUNDANT {
        let (world, array, _) = filed(&shape(level, members));
        let content = pattern(5, array.limits().size as usize);
        world.io.block_on(array.fail(1)).unwrap();
        world.write(&array, 0, &content).unwrap();
        world.io.block_on(array.add_again(world.ids[1], "it")).unwrap();
        let device = Device { id: world.ids[1], data_offset: world.superblock(1).data_offset };
        let recovery = world.io.spawn(array.recover(1, device, |_| ()));
        let process = array.process().unwrap();
        process.set_pace(NonZeroU64::new(array.geometry().member_size() / 10));
        while world.superblock(1).recovery_offset.is_none_or(|upto| upto == 0) {
            idle(&world, Duration::from_millis(10));
        }
        let sb = world.superblock(1);
        assert!(sb.features.contains(Features::RECOVERY_BITMAP) && !sb.is_clean(), "{level}");
        process.pause();
        world.bench.cut_power();
        drop((recovery, array));
        let world = world.restart(4);
        // Parity that lacks a member starts by force only.
        let assembly = world.assembly_with(AssembleOptions { force: true, partial: false }).unwrap();
        let array = world.try_open(assembly, quickly()).unwrap();
        assert_eq!(array.state(1), RoleState::Recovering(0), "{level}");
        world.write(&array, 0, &content[..512]).unwrap();
        let sb = world.superblock(1);
        assert!(!sb.features.contains(Features::RECOVERY_BITMAP), "{level}: no bit tells any more");
        assert_eq!(sb.recovery_offset, Some(0), "{level}");
        world.stop(&array);
    }
}
