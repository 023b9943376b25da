//! Changes of superblocks by `update`, cut short after each of their writes.

use brindle_format::md::{Endian, Features, Uuid, Version};
use brindle_layout::Level;
use brindle_md::assembly::{Assembly, AssemblyError, Candidate};
use brindle_md::create::{CreateSpec, NewBitmap};
use brindle_md::update::{Updatable, Update, UpdateError, Updated, bitmap_place, update};

use crate::common::*;

const ARRAYS: [(Level, usize); 3] = [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 6)];
const NEW: Uuid = Uuid::from_u128(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);

/// The devices of a world as they are to be updated.
fn devices(world: &World) -> Vec<Updatable> {
    let see = |(n, &id)| {
        let found = world.io.block_on(Candidate::read(&world.io, &world.pool, id, format!("disk{n}")));
        let candidate: Candidate = found.unwrap();
        let bitmap = bitmap_place(&candidate).map(|at| {
            let mut page = vec![0; 4096];
            world.bench.peek(id, at, &mut page);
            page
        });
        Updatable { candidate, bitmap }
    };
    world.ids.iter().enumerate().map(see).collect()
}

fn planned(world: &World, change: &Update, force: bool) -> Result<Updated, UpdateError> {
    update(&devices(world), change, force)
}

/// The world after the first of the writes.
fn cut(world: &World, updated: &Updated, count: usize) -> World {
    let cut = world.reboot();
    for write in &updated.writes[..count] {
        cut.bench.poke(cut.ids[write.device], write.offset, &write.bytes);
    }
    cut
}

fn changed(world: &World, change: &Update) -> World {
    let updated = planned(world, change, false).unwrap_or_else(|error| panic!("{change:?}: {error}"));
    cut(world, &updated, updated.writes.len())
}

/// An array of small devices.
fn small(level: Level, members: usize, version: Version) -> CreateSpec {
    let mut spec = spec(level, members, version);
    spec.roles.iter_mut().flatten().for_each(|member| member.info.size = 2 * MIB);
    spec
}

fn each(test: impl Fn(&World, Level, usize, Version)) {
    for (level, members) in ARRAYS {
        for version in [Version::V1_2, Version::V0_90(Endian::Little)] {
            for bitmap in [NewBitmap::None, NewBitmap::Internal { chunk: Some(64 << 10) }] {
                let spec = CreateSpec { bitmap, ..small(level, members, version) };
                test(&World::create(&spec), level, members, version);
            }
        }
    }
}

/// Assembles, opens, and stops it, and gives what was assembled.
fn assembles(world: &World) -> Assembly {
    let assembly = world.assembly().unwrap_or_else(|error| panic!("{error}"));
    let array = world.try_open(assembly.clone(), patient()).unwrap_or_else(|error| panic!("{error}"));
    world.stop(&array);
    assembly
}

fn name(name: &str, homehost: Option<&str>) -> Update {
    Update::Name { name: name.to_owned(), homehost: homehost.map(str::to_owned) }
}

#[test]
fn an_array_whose_change_was_cut_short_assembles_whole() {
    each(|world, level, _, version| {
        let mut changes = vec![Update::Resync];
        if version.is_v1() {
            changes.extend([
                name("other", Some("host")),
                Update::Homehost("there".to_owned()),
                Update::NoBbl,
            ]);
        }
        for change in changes {
            let updated = planned(world, &change, false).unwrap();
            assert!(!updated.writes.is_empty(), "{change:?}");
            for count in 0..=updated.writes.len() {
                let assembly = assembles(&cut(world, &updated, count));
                assert!(assembly.degraded().is_empty(), "{level} {version} {change:?} {count}");
                if count == updated.writes.len() {
                    assert_eq!(assembly.is_clean(), change != Update::Resync, "{level} {version}");
                }
            }
        }
    });
}

#[test]
fn names_are_those_of_mdadm() {
    let world = World::create(&spec(Level::Raid1, 2, Version::V1_2));
    let is = |world: &World, name: &str| assert_eq!(world.assembly().unwrap().name, name);
    let world = changed(&world, &name("data", Some("nas")));
    is(&world, "nas:data");
    let world = changed(&world, &name("media", None));
    is(&world, "nas:media");
    let world = changed(&world, &Update::Homehost("other".to_owned()));
    is(&world, "other:media");
    is(&changed(&world, &name("a:b", None)), "a:b");
    for wrong in
        [name("", None), name(&"x".repeat(33), None), name("a\0", None), Update::Homehost("x".repeat(31))]
    {
        assert!(matches!(planned(&world, &wrong, false), Err(UpdateError::Name { .. })), "{wrong:?}");
    }
    let old = World::create(&spec(Level::Raid1, 2, Version::V0_90(Endian::Little)));
    assert_eq!(planned(&old, &name("a", None), false).unwrap_err(), UpdateError::NoName);
}

#[test]
fn a_change_of_the_uuid_that_was_cut_short_is_known_and_ended() {
    each(|world, level, members, version| {
        // One that was never used since it was made may be two that are alike by chance.
        let array = world.open();
        world.write(&array, 0, &[1; 4096]).unwrap();
        world.stop(&array);
        drop(array);
        let world = &world.reboot();
        let updated = planned(world, &Update::Uuid(NEW), false).unwrap();
        for count in 0..=updated.writes.len() {
            let cut = cut(world, &updated, count);
            let has = |n: &usize| cut.superblock(*n).set_uuid == NEW;
            let new = (0..members).filter(has).count();
            if (1..members).contains(&new) {
                let error = cut.assembly().unwrap_err();
                assert!(matches!(error, AssemblyError::HalfRenamed { .. }), "{level} {version}: {error}");
                assert!(planned(&cut, &Update::Uuid(NEW), false).is_err());
            }
            let ended = planned(&cut, &Update::Uuid(NEW), true).unwrap();
            let ended = self::cut(&cut, &ended, ended.writes.len());
            let assembly = assembles(&ended);
            assert_eq!((assembly.uuid, assembly.degraded().len()), (NEW, 0), "{level} {version} {count}");
        }
    });
    // Members of two arrays are never joined.
    let (one, mut other) = (spec(Level::Raid1, 2, Version::V1_2), spec(Level::Raid1, 2, Version::V1_2));
    other.uuid = NEW;
    let (one, other) = (World::create(&one), World::create(&other));
    let both: Vec<Updatable> = devices(&one).into_iter().chain(devices(&other)).collect();
    let refused = update(&both, &Update::Uuid(NEW), true).unwrap_err();
    assert!(matches!(refused, UpdateError::Assembly(AssemblyError::Mixed { .. })), "{refused}");
}

#[test]
fn metadata_0_90_becomes_1_0_and_counts_until_all_have_it() {
    for (level, members) in EVERY_LEVEL {
        let world = World::create(&small(level, members, Version::V0_90(Endian::Little)));
        let array = world.open();
        let content = pattern(3, 256 << 10);
        world.write(&array, 0, &content).unwrap();
        world.stop(&array);
        let change =
            Update::Metadata { name: "now".to_owned(), created: NOW + 9, devices: vec![NEW; members] };
        let updated = planned(&world, &change, false).unwrap();
        assert_eq!(updated.writes.len(), members);
        for count in 0..=members {
            let cut = cut(&world, &updated, count);
            let assembly = cut.assembly().unwrap_or_else(|error| panic!("{level} {count}: {error}"));
            let is_new = count == members;
            assert_eq!((assembly.version == Version::V1_0, assembly.degraded().is_empty()), (is_new, true));
            // It is used by the metadata that counts, and goes on counting.
            let array = cut.try_open(assembly, patient()).unwrap();
            assert!(cut.read(&array, 0, content.len()).unwrap() == content, "{level} {count}");
            cut.write(&array, 0, &pattern(4, 4096)).unwrap();
            cut.stop(&array);
            let again = cut.assembly().unwrap_or_else(|error| panic!("{level} {count}: {error}"));
            assert_eq!(
                (again.version == Version::V1_0, again.degraded().is_empty()),
                (is_new, true),
                "{level}"
            );
            if !is_new {
                let ended = changed(&cut, &change).assembly().unwrap();
                assert_eq!((ended.version, &*ended.name), (Version::V1_0, "now"));
            }
        }
    }
}

#[test]
fn a_member_with_metadata_of_before_is_out_of_date_once_the_others_were_used() {
    let world = World::create(&small(Level::Raid1, 2, Version::V0_90(Endian::Little)));
    let change = Update::Metadata { name: String::new(), created: NOW + 9, devices: vec![NEW; 2] };
    let updated = planned(&world, &change, false).unwrap();
    let half = cut(&world, &updated, 1);
    let alone = half.reboot().without(&[1]);
    let array = alone.open();
    alone.write(&array, 0, &pattern(5, 4096)).unwrap();
    alone.stop(&array);
    half.bring(&alone, &[(0, 0)]);
    match half.assembly() {
        Ok(assembly) => assert_eq!(assembly.degraded(), [1], "it lacks a write"),
        Err(error) => assert!(matches!(error, AssemblyError::Inconsistent { .. }), "{error}"),
    }
}

#[test]
fn a_place_for_bad_blocks_comes_and_goes() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        for bitmap in [NewBitmap::None, NewBitmap::Internal { chunk: Some(64 << 10) }] {
            let world = World::create(&CreateSpec { bitmap, ..spec(Level::Raid1, 2, version) });
            let without = changed(&world, &Update::NoBbl);
            assert!(without.superblocks().iter().all(|own| own.bad_block_log.is_none()));
            let again = changed(&without, &Update::Bbl);
            for own in again.superblocks() {
                let log = own.bad_block_log.unwrap();
                let start = own.super_offset.checked_add_signed(log.offset).unwrap();
                let data = own.data_offset..own.data_offset + own.component_size;
                assert!(!data.contains(&start) && !data.contains(&(start + log.size - 1)), "{version}");
                assert!(
                    start + log.size <= own.super_offset || start >= own.super_offset + 4096,
                    "{version}"
                );
            }
            assembles(&again);
        }
    }
    let world = World::create(&spec(Level::Raid1, 2, Version::V1_2));
    world.change(0, |own| own.features |= Features::BAD_BLOCKS);
    assert!(matches!(planned(&world, &Update::NoBbl, false), Err(UpdateError::Unfit { .. })));
}

#[test]
fn what_a_change_would_leave_behind_is_named() {
    let world = World::create(&spec(Level::Raid5, 3, Version::V1_2));
    let some = world.reboot().without(&[1]);
    let refused = planned(&some, &name("x", None), false).unwrap_err();
    assert_eq!(refused, UpdateError::Missing { roles: vec![1] });
    assert_eq!(planned(&some, &name("x", None), true).unwrap().writes.len(), 2);
    let striped = World::create(&spec(Level::Raid0, 2, Version::V1_2));
    assert_eq!(planned(&striped, &Update::Resync, false).unwrap_err(), UpdateError::NothingToSync);
    assert_eq!(planned(&striped, &Update::Devicesize, false).unwrap_err(), UpdateError::SizesCount);
}
