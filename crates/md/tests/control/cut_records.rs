//! Reshapes whose first or last record stands on some members only: such sets are read whole, by the side that is true.

use brindle_array::{Access, OpenConfig};
use brindle_format::md::{DeviceRole, Endian, Features, Reshape, Superblock, Version};
use brindle_layout::Level;
use brindle_md::OpenError;
use brindle_md::assembly::{AssembleOptions, AssemblyError, Limitation};
use brindle_volume::Volume;

use crate::common::*;

/// The changes of a reshape.
#[derive(Clone, Copy)]
struct To {
    members: u32,
    layout: u32,
    chunk: u64,
    shift: i64,
}

/// There is room before the data, so that a reshape moves them.
fn has_room(version: Version) -> bool {
    matches!(version, Version::V1_1 | Version::V1_2)
}

/// A superblock that says that a reshape is under way, from the shape that it has.
fn begins(sb: &mut Superblock, to: To, backwards: bool, position: u64) {
    let delta = to.members as i32 - sb.raid_disks as i32;
    let shift = (to.shift != 0 && has_room(sb.version)).then_some(to.shift);
    sb.reshape = Some(Reshape {
        position,
        new_level: sb.level,
        new_layout: to.layout,
        new_chunk: to.chunk,
        delta_disks: delta,
        new_offset: shift,
    });
    sb.raid_disks = to.members;
    let features =
        sb.features.with(Features::RESHAPE_ACTIVE, true).with(Features::NEW_OFFSET, shift.is_some());
    sb.features = features.with(Features::RESHAPE_BACKWARDS, backwards && delta == 0);
}

/// A superblock that says that a reshape is under way, to the shape that it has.
fn ends(sb: &mut Superblock, from: To, position: u64) {
    let to = To { members: sb.raid_disks, layout: sb.layout, chunk: sb.chunk, shift: from.shift };
    (sb.raid_disks, sb.layout, sb.chunk) = (from.members, from.layout, from.chunk);
    if has_room(sb.version) {
        sb.data_offset = sb.data_offset.strict_add_signed(-from.shift);
        sb.data_size = sb.data_size.strict_add_signed(from.shift);
    }
    begins(sb, to, false, position);
    sb.events -= 1;
}

const VERSIONS: [Version; 4] = [Version::V1_2, Version::V1_1, Version::V1_0, Version::V0_90(Endian::Little)];
const LEVELS: [Level; 4] = [Level::Raid5, Level::Raid6, Level::Raid4, Level::Raid10];

/// Bytes of each member that hold data: eight rows, so that each member has had each place of a row.
const SIZE: u64 = 512 << 10;

/// An array that holds a pattern, at event 30.
fn full(level: Level, members: usize, version: Version) -> (World, Vec<u8>) {
    let mut spec = spec(level, members, version);
    // There is room for what is moved before the data, or behind.
    spec.roles = (0..members).map(|n| Some(new_member(n, 2 * MIB))).collect();
    spec.size = Some(SIZE);
    if has_room(version) {
        spec.data_offset = Some(MIB);
    }
    let world = World::create(&spec);
    let array = world.open();
    let content = pattern(5, array.limits().size as usize);
    for at in (0..content.len()).step_by(MIB as usize) {
        world.write(&array, at as u64, &content[at..content.len().min(at + MIB as usize)]).unwrap();
    }
    world.stop(&array);
    (0..members).for_each(|n| world.change(n, |sb| sb.events = 30));
    (world, content)
}

/// All is read, by all members and with any one less, and nothing can be written.
fn is_read(
    world: &World,
    members: usize,
    content: &[u8],
    is_cut: impl Fn(&[usize]) -> Option<bool>,
    what: &str,
) {
    for lost in std::iter::once(None).chain((0..members).map(Some)) {
        let left: Vec<usize> = (0..members).filter(|n| Some(*n) != lost).collect();
        let Some(expected) = is_cut(&left) else { continue };
        let part = world.reboot().without(&Vec::from_iter(lost));
        let assembly = part.assembly().unwrap_or_else(|error| panic!("{what} without {lost:?}: {error}"));
        let began = assembly.limits.iter().find_map(|limit| match limit {
            Limitation::CutReshape { began, .. } => Some(*began),
            _ => None,
        });
        assert_eq!(began, Some(expected), "{what} without {lost:?}");
        assert!(assembly.reshaping.is_none() && !assembly.writable());
        assert!(matches!(part.try_open(assembly.clone(), patient()), Err(OpenError::ReadOnly { .. })));
        let array = part.try_open(assembly, OpenConfig::new(Access::ReadOnly, || NOW)).unwrap();
        assert!(whole(&part, &array) == content, "{what} without {lost:?}");
    }
}

#[test]
fn a_first_record_on_some_members_is_left_out_of_account() {
    for version in VERSIONS {
        for level in LEVELS {
            if version != Version::V1_2 && level != Level::Raid5 {
                continue;
            }
            let (world, content) = full(level, 4, version);
            let old = world.superblock(0);
            for ahead in [vec![2], vec![0, 1], vec![0, 1, 3]] {
                let world = world.reboot();
                let to = To { members: 5, layout: old.layout, chunk: old.chunk, shift: -(256 << 10) };
                for &n in &ahead {
                    world.change(n, |sb| {
                        begins(sb, to, false, 0);
                        sb.events += 1;
                    });
                }
                let mixed = |left: &[usize]| {
                    left.iter().any(|n| ahead.contains(n)) && left.iter().any(|n| !ahead.contains(n))
                };
                is_read(
                    &world,
                    4,
                    &content,
                    |left| mixed(left).then_some(true),
                    &format!("{level:?} {version:?} {ahead:?}"),
                );
            }
        }
    }
}

#[test]
fn a_first_record_of_a_shrink_or_of_another_chunk_or_layout_is_left_out_of_account() {
    let (world, content) = full(Level::Raid5, 4, Version::V1_2);
    let old = world.superblock(0);
    let end = 2 * SIZE;
    let layout = 3; // right-symmetric
    for (to, backwards, position) in [
        (To { members: 3, layout: old.layout, chunk: old.chunk, shift: 256 << 10 }, true, end),
        (To { members: 4, layout: old.layout, chunk: 2 * old.chunk, shift: -(256 << 10) }, false, 0),
        (To { members: 4, layout, chunk: old.chunk, shift: 256 << 10 }, true, 3 * SIZE),
    ] {
        let world = world.reboot();
        for n in [1, 3] {
            world.change(n, |sb| {
                begins(sb, to, backwards, position);
                sb.events += 1;
            });
        }
        let mixed = |left: &[usize]| (left.len() > 2).then_some(true);
        is_read(&world, 4, &content, mixed, &format!("to {} of {}", to.members, to.chunk));
        // Where something may have moved, nothing tells where which byte is.
        world.change(1, |sb| sb.reshape.as_mut().unwrap().position = SIZE / 2);
        world.change(3, |sb| sb.reshape.as_mut().unwrap().position = SIZE / 2);
        assert!(matches!(world.assembly(), Err(AssemblyError::Inconsistent { .. })));
    }
}

#[test]
fn a_last_record_that_some_members_lack_is_taken_as_theirs() {
    for version in VERSIONS {
        for level in LEVELS {
            if version != Version::V1_2 && level != Level::Raid5 {
                continue;
            }
            let (world, content) = full(level, 5, version);
            let new = world.superblock(0);
            for behind in [vec![1], vec![1, 2], vec![0, 2, 3, 4]] {
                for position in [0, 3 * SIZE / 2, 8 * SIZE] {
                    let world = world.reboot();
                    let from = To { members: 4, layout: new.layout, chunk: new.chunk, shift: -(256 << 10) };
                    behind.iter().for_each(|&n| world.change(n, |sb| ends(sb, from, position)));
                    let mixed = |left: &[usize]| {
                        left.iter().any(|n| behind.contains(n)) && left.iter().any(|n| !behind.contains(n))
                    };
                    is_read(
                        &world,
                        5,
                        &content,
                        |left| mixed(left).then_some(false),
                        &format!("{level:?} {version:?} {behind:?}"),
                    );
                }
            }
        }
    }
}

#[test]
fn a_raid5_that_is_about_to_be_a_raid6_is_one_by_the_newest_record() {
    let (world, content) = full(Level::Raid5, 4, Version::V1_2);
    let is_six =
        |sb: &mut Superblock| (sb.level, sb.layout, sb.raid_disks) = (6, sb.layout + 16, sb.raid_disks + 1);
    for ahead in [vec![2], vec![0, 1], vec![0, 1, 3]] {
        let world = world.reboot();
        for &n in &ahead {
            world.change(n, |sb| {
                is_six(sb);
                sb.events += 1;
            });
        }
        let assembly = world.assembly().unwrap_or_else(|error| panic!("{ahead:?}: {error}"));
        assert_eq!((assembly.level(), assembly.missing()), (Level::Raid6, vec![4]), "{ahead:?}");
        assert!(assembly.writable() && assembly.limits.is_empty(), "{ahead:?}");
        let array = world.open();
        assert!(whole(&world, &array) == content, "{ahead:?}");
        world.write(&array, 0, &content[..4096]).unwrap();
        world.stop(&array);
        let events: Vec<u64> = world.superblocks().iter().map(|sb| sb.events).collect();
        assert!(events.iter().all(|&count| count == events[0]), "{ahead:?}: {events:?}");
        assert!(world.superblocks().iter().all(|sb| sb.level == 6), "{ahead:?}");
    }
}

#[test]
fn other_shapes_that_differ_are_refused_as_before() {
    let (world, _) = full(Level::Raid5, 4, Version::V1_2);
    let old = world.superblock(0);
    let to = To { members: 5, layout: old.layout, chunk: old.chunk, shift: -(256 << 10) };
    let edits: [&dyn Fn(&mut Superblock); 5] = [
        // Of one event count, nothing tells which came first.
        &|sb| begins(sb, to, false, 0),
        &|sb| {
            begins(sb, to, false, 0);
            (sb.events, sb.chunk) = (31, sb.chunk * 2);
        },
        &|sb| {
            begins(sb, to, false, 65536 * 4);
            sb.events += 1;
        },
        &|sb| {
            (sb.level, sb.layout, sb.raid_disks, sb.events) = (6, sb.layout, 5, 31);
        },
        &|sb| {
            ends(sb, To { members: 5, layout: sb.layout, chunk: sb.chunk * 2, shift: 0 }, SIZE / 2);
            sb.reshape.as_mut().unwrap().new_chunk *= 4;
        },
    ];
    for (n, edit) in edits.into_iter().enumerate() {
        let world = world.reboot();
        world.change(2, edit);
        let refused = world.assembly_with(AssembleOptions { force: false, partial: false }).map(|_| ());
        assert!(matches!(refused, Err(AssemblyError::Inconsistent { .. })), "{n}: {refused:?}");
    }
    // A disk that was to come did not take the record, which all others get after it: it is missing, and nothing has moved.
    let (world, _) = full(Level::Raid5, 4, Version::V1_2);
    for n in [0, 3] {
        world.change(n, |sb| {
            begins(sb, to, false, 0);
            (sb.events, sb.roles[4]) = (31, DeviceRole::Active(4));
        });
    }
    let assembly = world.assembly().unwrap();
    assert_eq!((assembly.missing(), assembly.geometry.members()), (vec![4], 4));
    assert_eq!(assembly.reshaping.map(|reshaping| reshaping.position), Some(0));
}
