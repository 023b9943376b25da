//! Discards, which are hints: they reach the members that they concern, and nothing beside them.

use brindle_array::{Array, SyncMode};
use brindle_io::MemberInfo;
use brindle_io::sim::{Hostility, Model, Overlaps};
use brindle_layout::Level;
use brindle_volume::{Volume, ZeroOptions};

use crate::common::*;

/// A full array on members in RAM, which forget at once what is discarded; `change` says what they can do.
fn started(level: Level, members: usize, change: impl Fn(&mut MemberInfo)) -> (World, Array, Vec<u8>) {
    let world = World::of(&Shape { rows: 64, ..Shape::new(level, members) });
    world.ids.iter().for_each(|&id| world.bench.set_info(id, &change));
    let array = world.open();
    let content = pattern(5, array.limits().size as usize);
    world.write(&array, 0, &content).unwrap();
    (world, array, content)
}

fn has_parity(level: Level) -> bool {
    matches!(level, Level::Raid4 | Level::Raid5 | Level::Raid6)
}

#[test]
fn every_member_forgets_what_is_discarded_and_nothing_else() {
    for (level, members) in EVERY_LEVEL {
        let (world, array, mut content) = started(level, members, |_| ());
        let size = content.len();
        for (at, len) in [(512, size / 2), (size / 2 + 1536, size / 4), (size - 512, 512), (0, size)] {
            world.io.block_on(array.discard(at as u64, len as u64)).unwrap();
            // Of parity only whole rows.
            let row = if has_parity(level) { array.geometry().row_bytes() as usize } else { 1 };
            let (from, to) = (at.next_multiple_of(row), (at + len) / row * row);
            content[from..to.max(from)].fill(0);
            assert!(whole(&world, &array) == content, "{level}: {len} at {at}");
            let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
            assert_eq!(report.mismatch_sectors, 0, "{level}: {len} at {at}");
        }
        for member in 0..members {
            let (from, used) = (DATA_OFFSET as usize, array.geometry().member_size() as usize);
            let image = world.image(member);
            assert!(image[from..from + used].iter().all(|&byte| byte == 0), "{level}: member {member}");
        }
    }
}

#[test]
fn nothing_is_asked_of_members_that_discard_nothing_nor_of_rows_that_zeroes_would_have_to_be_sent_to() {
    for (level, members) in EVERY_LEVEL {
        for (discard, write_zeroes) in [(false, true), (false, false), (true, false)] {
            if discard && !has_parity(level) {
                continue;
            }
            let can = |info: &mut MemberInfo| (info.discard, info.write_zeroes) = (discard, write_zeroes);
            let (world, array, content) = started(level, members, can);
            world.io.block_on(array.discard(0, content.len() as u64)).unwrap();
            assert!(whole(&world, &array) == content, "{level}: {discard} {write_zeroes}");
        }
    }
}

#[test]
fn copies_are_not_zeroed_or_discarded_while_they_are_written() {
    for zeroes in [true, false] {
        for first in [true, false] {
            let shape = Shape { rows: 64, in_sync: false, ..Shape::new(Level::Raid1, 2) };
            let world = World::in_sim(&shape, Model::nvme(), 7);
            world.bench.set_hostility(Hostility { overlaps: Overlaps::Reported, ..Hostility::default() });
            let array = open_in_sync(&world);
            let (one, pool) = (array.clone(), world.pool.clone());
            let writing = async move { write(&pool, &one, 0, &pattern(1, 65536)).await };
            let other = array.clone();
            let changing = async move {
                if zeroes {
                    other.write_zeroes(0, 65536, ZeroOptions::default()).await
                } else {
                    other.discard(0, 65536).await
                }
            };
            let tasks = if first {
                [world.io.spawn(changing), world.io.spawn(writing)]
            } else {
                let writing = world.io.spawn(writing);
                [writing, world.io.spawn(changing)]
            };
            tasks.into_iter().for_each(|task| world.io.block_on(task).unwrap());
            assert_eq!(world.bench.overlaps(), [], "zeroes: {zeroes}, before the write: {first}");
        }
    }
}
