//! A RAID 6 that lacks a member, was not stopped, and is started by force: P and Q need not agree about what that member held.

use std::collections::BTreeMap;

use brindle_array::{Array, OpenConfig, Recovery, RoleState, SyncMode, SyncReport};
use brindle_format::md::{DeviceRole, Version};
use brindle_layout::{Family, Layout, Level, ParityRows};
use brindle_md::assembly::{AssembleOptions, AssemblyError, Limitation};
use brindle_volume::Volume;

use crate::common::*;

const FORCE: AssembleOptions = AssembleOptions { force: true, partial: false };

fn map(array: &Array) -> ParityRows {
    match array.geometry().family() {
        Family::Parity(map) => map.clone(),
        _ => panic!("no rows"),
    }
}

/// An array full of a pattern whose Q, in every third row, is of another moment; dirty, and without the member of one role. Gives
/// its content.
fn torn(members: usize, layout: &str, chunk: u64, lost: usize, from: u64) -> (World, Vec<u8>) {
    let mut spec = spec(Level::Raid6, members, Version::V1_2);
    spec.layout = Some(Layout::parse(Level::Raid6, layout).unwrap());
    (spec.chunk, spec.size) = (Some(chunk), Some(2 * MIB));
    let world = World::create(&spec);
    let array = world.open();
    let content = pattern(9, array.limits().size as usize);
    for at in (0..content.len()).step_by(MIB as usize) {
        world.write(&array, at as u64, &content[at..content.len().min(at + MIB as usize)]).unwrap();
    }
    world.stop(&array);
    let (map, start) = (map(&array), world.superblock(0).data_offset);
    for row in (0..map.rows()).filter(|row| row % 3 == 0 && map.row_offset(*row) >= from) {
        let role = usize::from(map.row(row).q().unwrap());
        world.bench.poke(world.ids[role], start + map.row_offset(row) + 512, &pattern(row + 40, 1024));
    }
    (0..members).for_each(|n| world.change(n, |sb| sb.resync_offset = Some(from)));
    (world.reboot().without(&[lost]), content)
}

fn forced(world: &World) -> Array {
    forced_if(world, true)
}

/// Where nothing but parity is lost, no force is needed.
fn forced_if(world: &World, is_needed: bool) -> Array {
    assert_eq!(matches!(world.assembly(), Err(AssemblyError::DirtyDegraded { .. })), is_needed);
    world.try_open(world.assembly_with(FORCE).unwrap(), patient()).unwrap()
}

/// Parts of blocks, whole rows, and what crosses both.
fn change(world: &World, array: &Array, content: &mut [u8]) {
    let row = array.geometry().row_bytes() as usize;
    for (n, (at, len)) in
        [(4096, 4096), (row - 512, 1024), (3 * row, row), (6 * row + 1024, 2 * row), (9 * row, 512)]
            .into_iter()
            .enumerate()
    {
        let new = pattern(70 + n as u64, len);
        content[at..at + len].copy_from_slice(&new);
        world.write(array, at as u64, &new).unwrap();
    }
}

#[test]
fn what_it_goes_on_with_is_kept_when_a_second_member_goes() {
    for (members, layout, chunk, lost) in [
        (4, "left-symmetric", 64 << 10, 1),
        (5, "left-symmetric", 64 << 10, 0),
        (5, "right-asymmetric", 16 << 10, 4),
        (6, "left-symmetric-6", 4 << 10, 2),
        (6, "left-symmetric-6", 32 << 10, 5),
        (5, "ddf-N-continue", 64 << 10, 3),
    ] {
        for from in [0, MIB] {
            let (world, mut content) = torn(members, layout, chunk, lost, from);
            // The last member of such a layout has all Q.
            let has_data = layout != "left-symmetric-6" || lost != 5;
            let array = forced_if(&world, has_data);
            assert!(array.needs_resync() && array.detail().resync_offset == Some(from));
            assert!(
                whole(&world, &array) == content,
                "{members} {layout}: nothing that is lost was being written"
            );
            change(&world, &array, &mut content);
            assert!(whole(&world, &array) == content, "{members} {layout}");
            let check = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
            let differs =
                |report: &SyncReport| (report.mismatch_sectors > 0) == has_data && report.unverified == 0;
            assert!(differs(&check), "{check:?}");

            // Stopped before the resync, it is not called clean.
            world.stop(&array);
            assert!(world.superblocks().iter().all(|sb| sb.resync_offset.is_some()));
            let world = world.reboot();
            let array = forced_if(&world, has_data);
            assert!(whole(&world, &array) == content);
            let report = world.io.block_on(array.resync(|_| ())).unwrap();
            assert!(differs(&report) && !array.needs_resync());
            world.stop(&array);
            assert!(world.superblocks().iter().all(|sb| sb.is_clean()));
            for second in (0..members).filter(|&second| second != lost) {
                let gone = usize::from(second > lost);
                let world = world.reboot().without(&[second - gone]);
                let array = world.open();
                assert!(whole(&world, &array) == content, "{members} {layout}: without {lost} and {second}");
            }
        }
    }
}

#[test]
fn a_second_member_that_fails_before_the_resync_makes_nothing_up() {
    for (lost, second) in [(0, 1), (1, 4), (4, 2)] {
        let (world, mut content) = torn(5, "left-symmetric", 64 << 10, lost, 0);
        let array = forced(&world);
        change(&world, &array, &mut content);
        world.io.block_on(array.fail(second)).unwrap();
        let (map, mut errors) = (map(&array), BTreeMap::<bool, u64>::new());
        for at in (0..content.len()).step_by(4096) {
            let position = map.position(at as u64);
            let role = map.row(position.row).data_member(position.data_index);
            match world.read(&array, at as u64, 4096) {
                Ok(bytes) => {
                    assert!(bytes == content[at..at + 4096], "byte {at} without {lost} and {second}");
                }
                Err(_) => {
                    assert!(array.state(role) != RoleState::InSync, "what stands on a member is read");
                    *errors.entry(true).or_default() += 1;
                }
            }
        }
        assert!(!errors.is_empty() && array.needs_resync());
        // Data that were written since are there.
        assert!(world.read(&array, 4096, 4096).unwrap() == content[4096..8192]);
        world.stop(&array);
        // By force once more, with nothing left to compare: all is read, and told of.
        let world = world.reboot();
        let assembly = world.assembly_with(FORCE).unwrap();
        assert!(
            assembly
                .limits
                .contains(&Limitation::DirtyDegraded { from: assembly.overruled().unwrap(), presumed: None })
        );
        let array = world.try_open(assembly, patient()).unwrap();
        assert_eq!(whole(&world, &array).len(), content.len());
    }
}

#[test]
fn killed_again_in_the_resync_it_goes_on_from_where_that_was() {
    let (world, content) = torn(5, "left-symmetric", 64 << 10, 2, 0);
    let array = forced(&world);
    for pos in (0..array.sync_len() / 2).step_by(MIB as usize) {
        world.io.block_on(array.sync_window(pos, MIB, SyncMode::Repair)).unwrap();
    }
    drop(array);
    let world = world.reboot();
    let array = forced(&world);
    assert!(whole(&world, &array) == content);
    world.io.block_on(array.resync(|_| ())).unwrap();
    world.io.block_on(array.fail(0)).unwrap();
    assert!(whole(&world, &array) == content);
}

#[test]
fn a_spare_is_recovered_once_redundancy_is_in_sync() {
    let (mut world, content) = torn(5, "left-symmetric", 64 << 10, 3, 0);
    let array = forced(&world);
    let spare = world.bench.add_ram(64 * MIB);
    world.ids.push(spare);
    drop(array);
    let array = forced_with(&world, &content);
    assert_eq!(array.state(3), RoleState::InSync);
}

/// Forced and resynced; nothing is recovered before.
fn forced_with(world: &World, content: &[u8]) -> Array {
    let last = *world.ids.last().unwrap();
    let mut own = world.superblock(0);
    own.device_number = 5;
    own.roles[5] = DeviceRole::Spare;
    own.device_uuid = brindle_format::md::Uuid::from_u128(0x5a);
    let mut bytes = vec![0; brindle_format::md::SUPERBLOCK_BYTES];
    own.encode(&mut bytes).unwrap();
    world.bench.poke(last, own.super_offset, &bytes);
    let config = OpenConfig { recovery: Recovery::Automatic, ..patient() };
    let array = world.try_open(world.assembly_with(FORCE).unwrap(), config).unwrap();
    let settle = || world.io.block_on(world.io.sleep(brindle_io::Duration::from_millis(50)));
    settle();
    assert!(array.process().is_none() && array.spares().len() == 1, "redundancy is in doubt");
    world.io.block_on(array.resync(|_| ())).unwrap();
    for _ in 0..100 {
        settle();
    }
    assert_eq!(array.state(3), RoleState::InSync, "recovered");
    world.io.block_on(array.fail(0)).unwrap();
    world.io.block_on(array.fail(1)).unwrap();
    assert!(whole(world, &array) == content);
    array
}

#[test]
fn mirrors_that_still_have_two_copies_are_in_doubt_until_they_are_compared() {
    for (level, members) in [(Level::Raid1, 3), (Level::Raid10, 4)] {
        let world = World::create(&spec(level, members, Version::V1_2));
        let array = world.open();
        let content = pattern(3, MIB as usize);
        world.write(&array, 0, &content).unwrap();
        world.stop(&array);
        world.bench.poke(world.ids[2], world.superblock(2).data_offset + 4096, &pattern(4, 4096));
        (0..members).for_each(|n| world.change(n, |sb| sb.resync_offset = Some(0)));
        for options in [AssembleOptions::default(), FORCE] {
            let world = world.reboot().without(&[0]);
            let array = world.try_open(world.assembly_with(options).unwrap(), patient()).unwrap();
            assert!(array.needs_resync(), "{level:?}");
            let read = world.read(&array, 0, content.len()).unwrap();
            world.stop(&array);
            assert!(world.superblocks().iter().all(|sb| sb.resync_offset == Some(0)));
            let world = world.reboot();
            let array = world.try_open(world.assembly_with(options).unwrap(), patient()).unwrap();
            world.io.block_on(array.resync(|_| ())).unwrap();
            assert!(world.read(&array, 0, content.len()).unwrap() == read);
            world.stop(&array);
            assert!(world.superblocks().iter().all(|sb| sb.is_clean()));
            if level == Level::Raid1 {
                let world = world.reboot().without(&[0]);
                let array = world.open();
                assert!(world.read(&array, 0, content.len()).unwrap() == read, "by the other copy");
            }
        }
    }
}
