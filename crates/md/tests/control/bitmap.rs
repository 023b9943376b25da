//! The write-intent bitmap: what is in doubt after a crash, when bits are cleared, and which bitmaps can't be kept.

use std::num::NonZeroU64;

use brindle_array::{Access, Array, OpenConfig, RoleState, StateChange, SyncMode};
use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapSuper};
use brindle_format::md::{DeviceRole, Endian, Uuid, Version};
use brindle_io::sim::{BadRange, Model, Sim};
use brindle_io::{Duration, OpClass};
use brindle_layout::Level;
use brindle_md::OpenError;
use brindle_md::create::{CreateError, CreateSpec, NewBitmap, plan};
use brindle_volume::Volume;

use crate::common::*;

const REDUNDANT: [(Level, usize); 5] =
    [(Level::Raid1, 3), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)];

const CHUNK: u64 = 64 << 10;

fn marked(level: Level, members: usize, version: Version) -> CreateSpec {
    CreateSpec { bitmap: NewBitmap::Internal { chunk: Some(CHUNK) }, ..spec(level, members, version) }
}

/// The bitmap on a member, as it is on "disk" now: superblock, and the numbers of the bits that are set.
pub(crate) fn on_disk<B: Bench>(world: &World<B>, member: usize) -> (BitmapSuper, Vec<u64>) {
    let image = world.image(member);
    let sb = world.superblock(member);
    let start = sb.super_offset.checked_add_signed(sb.bitmap_offset.unwrap()).unwrap() as usize;
    let head = BitmapSuper::parse(&image[start..]).unwrap();
    let bits = &image[start + BITMAP_SUPER_BYTES..];
    let set = (0..head.bits()).filter(|bit| bits[(bit / 8) as usize] >> (bit % 8) & 1 == 1).collect();
    (head, set)
}

/// Changes the superblock of a member's bitmap.
fn change_head(world: &World, member: usize, edit: impl FnOnce(&mut BitmapSuper)) {
    let sb = world.superblock(member);
    let (mut head, _) = on_disk(world, member);
    edit(&mut head);
    let start = sb.super_offset.checked_add_signed(sb.bitmap_offset.unwrap()).unwrap();
    world.bench.poke(world.ids[member], start, &head.encode().unwrap());
}

fn mismatches<B: Bench>(world: &World<B>, array: &Array) -> u64 {
    world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap().mismatch_sectors
}

/// Bytes that members have been read.
fn read_so_far(world: &World) -> u64 {
    world.ids.iter().map(|&id| world.io.counters(id).bytes_read).sum()
}

/// An array whose bits are all clear.
fn clean(spec: &CreateSpec) -> World {
    let world = World::create(spec);
    let array = world.open();
    world.write(&array, 0, &[1; 4096]).unwrap();
    world.stop(&array);
    drop(array);
    let found = world.reboot();
    for member in 0..found.ids.len() {
        let (head, set) = on_disk(&found, member);
        assert!(set.is_empty(), "{}: {set:?}", spec.level);
        assert_eq!(head.events, found.superblock(member).events);
    }
    found
}

#[test]
fn only_chunks_that_were_being_written_are_resynced_after_a_crash() {
    for (level, members) in REDUNDANT {
        for version in [Version::V0_90(Endian::Little), Version::V1_2] {
            let world = clean(&marked(level, members, version));
            let array = world.open();
            let far = array.limits().size - 5000;
            for offset in [0, far] {
                world.write(&array, offset - offset % 512, &pattern(offset, 1024)).unwrap();
            }
            drop(array); // killed
            let data = world.superblock(0).data_offset;
            let (head, set) = on_disk(&world, 0);
            assert!((2..=4).contains(&set.len()), "{level} {version}: {set:?}");
            assert!((0..members).all(|member| on_disk(&world, member).1 == set));
            // Damage that a half-done write leaves, and damage in a chunk that was not written, which a resync by
            // bits must not find.
            let damage = |world: &World, at: u64| {
                world.bench.poke(world.ids[1], data + at, &pattern(9, 2000));
            };
            damage(&world, 0);
            damage(&world, 20 * CHUNK);
            let found = world.reboot();
            let array = found.open();
            assert!(array.needs_resync(), "{level}");
            let before = read_so_far(&found);
            found.io.block_on(array.resync(|_| ())).unwrap();
            let read = read_so_far(&found) - before;
            assert!(read <= set.len() as u64 * head.chunk * members as u64, "{level} {version}: {read}");
            assert!(read > 0 && !array.needs_resync());
            assert!(mismatches(&found, &array) > 0, "{level}: the clean chunk was not looked at");
            let repaired = found.io.block_on(array.check(SyncMode::Repair, |_| ())).unwrap();
            let apart = repaired.places.iter().all(|place| place.offset >= 10 * CHUNK);
            assert!(apart, "{level}: {:?}", repaired.places);
            found.stop(&array);
            assert!(on_disk(&found, 0).1.is_empty() && found.superblock(0).is_clean());
        }
    }
}

#[test]
fn a_bitmap_that_is_behind_the_superblocks_counts_for_nothing() {
    let world = clean(&marked(Level::Raid5, 4, Version::V1_2));
    let array = world.open();
    world.write(&array, 0, &[2; 4096]).unwrap();
    drop(array);
    let events = world.superblock(0).events;
    (0..4).for_each(|member| change_head(&world, member, |head| head.events = events - 1));
    let found = world.reboot();
    let array = found.open();
    let before = read_so_far(&found);
    found.io.block_on(array.resync(|_| ())).unwrap();
    assert_eq!(read_so_far(&found) - before, 4 * array.sync_len(), "all is in doubt");
    found.write(&array, 0, &[3; 512]).unwrap();
    let (head, set) = on_disk(&found, 3);
    assert_eq!((set.len() as u64, head.events), (head.bits(), found.superblock(3).events));
    assert_eq!(head.events_cleared, events);
}

#[test]
fn copies_are_joined_and_a_copy_that_is_none_is_written_anew() {
    let world = clean(&marked(Level::Raid6, 5, Version::V1_2));
    let array = world.open();
    world.write(&array, 0, &[2; 512]).unwrap();
    world.write(&array, 40 * CHUNK, &[2; 512]).unwrap();
    drop(array);
    // Of one bit a member has nothing yet, and another has nothing at all.
    let (_, set) = on_disk(&world, 0);
    assert_eq!(set.len(), 2);
    world.bench.poke(world.ids[1], 8192 + BITMAP_SUPER_BYTES as u64 + set[1] / 8, &[0]);
    world.bench.poke(world.ids[2], 8192, &[0; 4096]);
    change_head(&world, 3, |head| head.events -= 1);
    let found = world.reboot();
    let array = found.open();
    let detail = array.detail().bitmap.unwrap();
    assert_eq!((detail.chunk, detail.dirty), (CHUNK, 2));
    found.write(&array, 0, &[3; 512]).unwrap();
    for member in 0..5 {
        assert_eq!(on_disk(&found, member).1, set, "{member}");
    }
}

#[test]
fn bits_are_cleared_at_the_count_of_the_superblocks_though_a_cut_left_bitmaps_ahead() {
    let world = World::create(&marked(Level::Raid5, 3, Version::V1_2));
    (1..3).for_each(|member| change_head(&world, member, |head| head.events += 1));
    let array = world.open();
    world.stop(&array);
    for member in 0..3 {
        let (head, set) = on_disk(&world, member);
        let events = world.superblock(member).events;
        assert!(set.is_empty() && (head.events, head.events_cleared) == (events, events), "{head:?}");
    }
}

#[test]
fn bitmaps_that_cannot_be_kept_are_named_and_nothing_changes() {
    type Edit = fn(&World, usize);
    let cases: [(Edit, &str); 7] = [
        (|world, n| poke_u32(world, n, 0, 0), "no write-intent bitmap here"),
        (|world, n| poke_u32(world, n, 4, 3), "version 3, in the byte order of some host"),
        (|world, n| poke_u32(world, n, 4, 5), "version 5, for the nodes of a cluster"),
        (|world, n| poke_u32(world, n, 4, 6), "version 6, in bytes of state: a lockless one"),
        (|world, n| poke_u32(world, n, 4, 9), "unknown version 9"),
        (|world, n| poke_u32(world, n, 8, 77), "that of another array"),
        (|world, n| poke_u32(world, n, 56, 0), "or its delay is 0"),
    ];
    for (edit, why) in cases {
        let world = clean(&marked(Level::Raid1, 2, Version::V1_2));
        (0..2).for_each(|member| edit(&world, member));
        let before: Vec<_> = (0..2).map(|member| world.image(member)).collect();
        let mut assembly = world.assembly().unwrap();
        let error = world.try_open(assembly.clone(), patient()).map(|_| ()).unwrap_err();
        assert!(matches!(error, OpenError::ReadOnly { .. }));
        assert!(error.to_string().contains(why), "{error}");
        for _ in 0..2 {
            world.io.block_on(assembly.look_into_bitmap(&world.io, &world.ids));
            assert!(assembly.limits.len() == 1 && !assembly.writable());
        }
        let array = world.try_open(assembly, OpenConfig::new(Access::ReadOnly, || NOW)).unwrap();
        assert_eq!(world.read(&array, 0, 512).unwrap(), [1; 512]);
        assert!(before == (0..2).map(|member| world.image(member)).collect::<Vec<_>>());
    }
}

fn poke_u32(world: &World, member: usize, at: u64, value: u32) {
    world.bench.poke(world.ids[member], 8192 + at, &value.to_le_bytes());
}

/// Drives in the sim that carry an array with a bitmap, and the array.
fn in_sim(level: Level, members: usize) -> (World<Sim>, Array) {
    let shape = Shape { rows: 64, bitmap: Some(8192), ..Shape::new(level, members) };
    let world = World::in_sim(&shape, Model::nvme(), 5);
    let array = world.open();
    world.write(&array, 0, &[1; 4096]).unwrap();
    idle(&world, Duration::from_secs(11));
    assert!(on_disk(&world, 0).1.is_empty(), "{level}: all was in sync");
    (world, array)
}

#[test]
fn bits_are_cleared_two_rounds_after_the_last_write_and_none_while_a_member_is_missing() {
    for (level, members) in REDUNDANT {
        let (world, array) = in_sim(level, members);
        world.write(&array, 0, &[2; 4096]).unwrap();
        idle(&world, Duration::from_secs(4));
        let (head, set) = on_disk(&world, 0);
        assert!(!set.is_empty(), "{level}");
        idle(&world, Duration::from_secs(7));
        assert!(on_disk(&world, 0).1.is_empty(), "{level}");
        world.io.block_on(array.fail(1)).unwrap();
        world.write(&array, 0, &[3; 4096]).unwrap();
        idle(&world, Duration::from_secs(30));
        let (degraded, left) = on_disk(&world, 0);
        assert_eq!((degraded.events_cleared, left), (head.events_cleared, set), "{level}");
        assert!(degraded.events >= head.events + 2);
        world.io.block_on(array.stop()).unwrap();
        let (stopped, left) = on_disk(&world, 0);
        assert!(stopped.events_cleared == head.events_cleared && !left.is_empty());
        assert_eq!(stopped.events, world.superblock(0).events);
        // A member that comes back with the event count of then lacks only chunks whose bits are set.
        assert!(world.superblock(1).events >= stopped.events_cleared, "{level}");
    }
}

#[test]
fn hot_writes_cost_no_write_of_the_bitmap() {
    let (world, array) = in_sim(Level::Raid5, 3);
    let metadata =
        || -> u64 { world.ids.iter().map(|&id| world.bench.operations_of(id, OpClass::Metadata)).sum() };
    world.write(&array, 0, &[1; 4096]).unwrap();
    let before = metadata();
    for n in 0..1000 {
        world.write(&array, n % 2 * 4096, &[n as u8; 4096]).unwrap();
    }
    assert_eq!(metadata(), before);
    // Of many that begin at once, all but the first share a flight.
    let writes = (0..8).map(|n| write(&world.pool, &array, 32768 + n * 16384, &[7; 512]));
    let written = world.io.block_on(brindle_io::sync::join_all(writes.collect::<Vec<_>>()));
    assert!(written.iter().all(Result::is_ok));
    assert!(metadata() - before <= 2 * 3, "{}", metadata() - before);
}

#[test]
fn writes_that_need_bits_share_flights_however_they_come() {
    const LANES: u64 = 7;
    const ROUNDS: u64 = 4;
    let (world, array) = in_sim(Level::Raid1, 2);
    let now = || world.io.now().as_nanos();
    world.write(&array, 0, &[1; 512]).unwrap();
    let began = now();
    world.write(&array, 8192, &[1; 512]).unwrap();
    let one = now() - began;
    let began = now();
    let lane = |lane: u64| {
        let (pool, array) = (&world.pool, &array);
        async move {
            for round in 0..ROUNDS {
                write(pool, array, (2 + round * LANES + lane) * 8192, &[7; 512]).await.unwrap();
            }
        }
    };
    world.io.block_on(brindle_io::sync::join_all((0..LANES).map(lane).collect::<Vec<_>>()));
    // A flight that has begun without the bit, the next one, and the write.
    let took = now() - began;
    assert!(took < 3 * ROUNDS * one, "{took} ns, one by itself: {one}");
}

#[test]
fn a_member_that_does_not_take_its_bits_is_failed_before_data_is_written() {
    let (world, array) = in_sim(Level::Raid5, 3);
    let data = world.superblock(1).data_offset as usize;
    world.write(&array, 0, &[1; 512]).unwrap();
    let before = world.image(1)[data..].to_vec();
    world.bench.afflict(world.ids[1], |faults| faults.unwritable.push(BadRange::forever(8192..12288)));
    // The chunk lies on this member. What it refuses may be on its medium all the same, so that its bits tell nothing.
    world.write(&array, 100 << 10, &[4; 4096]).unwrap();
    assert_eq!(array.detail().degraded, 1);
    assert!(world.image(1)[data..] == before[..], "data was written");
    assert_eq!(world.read(&array, 100 << 10, 4096).unwrap(), [4; 4096]);
    assert_eq!(on_disk(&world, 0).1, on_disk(&world, 2).1);
    assert_eq!(on_disk(&world, 0).1.len(), 2);
}

#[test]
fn a_bit_that_a_lost_member_lacks_counts_only_once_that_member_is_on_record_as_lost() {
    for (level, members) in REDUNDANT {
        let (world, array) = in_sim(level, members);
        let data = world.superblock(0).data_offset;
        let role = members as u16 - 1;
        let lost = world.ids[usize::from(role)];
        world.write(&array, 0, &[1; 4096]).unwrap();
        world.bench.afflict(lost, |faults| faults.unwritable.push(BadRange::forever(data..u64::MAX)));
        let far = array.limits().size - 8192;
        let holds = || (0..members - 1).map(|n| world.image(n)[data as usize + CHUNK as usize..].to_vec());
        let before: Vec<_> = holds().collect();
        let on_record =
            || (0..members - 1).all(|n| !world.superblock(n).roles.contains(&DeviceRole::Active(role)));
        world.io.block_on(async {
            let (first, second) = (array.clone(), array.clone());
            let (pool, other) = (world.pool.clone(), world.pool.clone());
            let first = world.io.spawn(async move { write(&pool, &first, 0, &[2; 12288]).await });
            while array.state_change() != Some(StateChange::Failure) {
                world.io.sleep(Duration::from_micros(1)).await;
            }
            assert!(!on_record(), "{level}: it is being recorded");
            let second = world.io.spawn(async move { write(&other, &second, far, &[3; 8192]).await });
            while holds().eq(before.iter().cloned()) {
                world.io.sleep(Duration::from_micros(1)).await;
            }
            assert!(on_record(), "{level}: nobody who takes the lost member must find that without a bit");
            first.await.unwrap();
            second.await.unwrap();
        });
    }
}

#[test]
fn new_arrays_have_the_bitmap_that_mdadm_gives_them() {
    let of = |level, size: u64, bitmap| {
        let mut spec = CreateSpec { bitmap, ..spec(level, 3, Version::V1_2) };
        spec.roles.iter_mut().flatten().for_each(|member| member.info.size = size);
        plan(&spec).map(|plan| plan.bitmaps.len())
    };
    let (small, large) = (90 << 30, 120 << 30);
    assert_eq!(of(Level::Raid5, small, NewBitmap::Usual), Ok(0));
    assert_eq!(of(Level::Raid5, large, NewBitmap::Usual), Ok(3));
    assert_eq!(of(Level::Raid0, large, NewBitmap::Usual), Ok(0));
    assert_eq!(of(Level::Raid5, large, NewBitmap::None), Ok(0));
    let internal = |chunk| NewBitmap::Internal { chunk };
    assert_eq!(of(Level::Raid10, small, internal(None)), Ok(3));
    assert_eq!(
        of(Level::Raid0, small, internal(None)),
        Err(CreateError::BitmapWithoutRedundancy { level: Level::Raid0 })
    );
    for chunk in [3 << 20, 4 << 10] {
        let refused = Err(CreateError::BitmapChunk { chunk: Some(chunk) });
        assert_eq!(of(Level::Raid5, small, internal(Some(chunk))), refused);
    }
    let plan = plan(&marked(Level::Raid5, 3, Version::V1_0)).unwrap();
    let bytes = &plan.bitmaps[0].bytes;
    let head = BitmapSuper::parse(bytes).unwrap();
    assert_eq!((head.chunk, head.daemon_sleep, head.sync_bytes), (CHUNK, 5, plan.component_size));
    assert!(bytes[BITMAP_SUPER_BYTES..].iter().all(|&byte| byte == 0xff));
}

/// Drives in the sim that carry an array with a bitmap and a spare, on which something stands where its bitmap is to be; and
/// the array, which has lost role 1 and was written to since. All bits were clear before.
fn with_spare(level: Level, members: usize, version: Version) -> (World<Sim>, Array, usize) {
    let shape = Shape { rows: 64, spares: 1, bitmap: Some(8192), ..Shape::new(level, members) };
    let world = World::in_sim(&shape.metadata(version, 0), Model::nvme(), 5);
    let spare = world.ids.len() - 1;
    let sb = world.superblock(spare);
    let start = sb.super_offset.checked_add_signed(sb.bitmap_offset.unwrap()).unwrap();
    world.bench.poke(world.ids[spare], start, &[0; 4096]);
    let array = world.open();
    world.write(&array, 0, &[1; 4096]).unwrap();
    idle(&world, Duration::from_secs(11));
    world.io.block_on(array.fail(1)).unwrap();
    world.write(&array, 0, &[2; 4096]).unwrap();
    (world, array, spare)
}

const PLACES: [Version; 3] = [Version::V1_2, Version::V1_0, Version::V0_90(Endian::Little)];

#[test]
fn a_spare_has_all_of_the_bitmap_before_it_is_a_member_and_nothing_is_cleared_before() {
    for ((level, members), version) in REDUNDANT.into_iter().zip(PLACES.into_iter().cycle()) {
        let (world, array, spare) = with_spare(level, members, version);
        let (degraded, lacking) = on_disk(&world, 0);
        let total = array.geometry().member_size();
        let recovery = world.io.spawn(array.recover(1, array.spares()[0], |_| ()));
        array.process().unwrap().set_pace(NonZeroU64::new(total / 20));
        idle(&world, Duration::from_secs(12));
        assert!(matches!(array.state(1), RoleState::Recovering(1..)), "{level}: it takes 20 s");
        let (head, set) = on_disk(&world, 0);
        assert_eq!((head.events_cleared, &set), (degraded.events_cleared, &lacking), "{level} {version}");
        let end = array.limits().size - 4096;
        world.write(&array, end, &[3; 4096]).unwrap();
        if version.is_v1() {
            assert_eq!(on_disk(&world, spare), on_disk(&world, 0), "{level} {version}: it is on record");
        }
        array.process().unwrap().set_pace(None);
        world.io.block_on(recovery).unwrap();
        let (head, set) = on_disk(&world, spare);
        assert!(set.len() > lacking.len(), "{level} {version}: nothing was cleared: {set:?}");
        assert_eq!(head.events, world.superblock(spare).events, "{level} {version}");
        assert_eq!(on_disk(&world, 0), (head, set), "{level} {version}");
        idle(&world, Duration::from_secs(11));
        let (head, set) = on_disk(&world, spare);
        assert!(set.is_empty() && head.events_cleared > degraded.events_cleared, "{level} {version}");
        // A failed member that is older than `events_cleared`: md would rebuild it whole if it came back.
        assert!(world.superblock(1).events < head.events_cleared, "{level} {version}");
        // It marks for itself what a crash leaves.
        world.write(&array, 0, &[4; 512]).unwrap();
        drop(array);
        let (_, set) = on_disk(&world, spare);
        assert!(!set.is_empty() && set == on_disk(&world, 0).1, "{level} {version}");
        let world = world.restart(6);
        let array = world.open();
        world.io.block_on(array.resync(|_| ())).unwrap();
        assert_eq!(world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap().mismatch_sectors, 0);
    }
}

#[test]
fn a_spare_that_does_not_take_the_bitmap_is_no_member() {
    for version in PLACES {
        let (world, array, spare) = with_spare(Level::Raid5, 3, version);
        let sb = world.superblock(spare);
        let start = sb.super_offset.checked_add_signed(sb.bitmap_offset.unwrap()).unwrap();
        let bitmap = BadRange::forever(start..start + 4096);
        world.bench.afflict(world.ids[spare], |faults| faults.unwritable.push(bitmap));
        world.io.block_on(array.recover(1, array.spares()[0], |_| ())).unwrap_err();
        assert!(world.superblock(spare).role() == DeviceRole::Spare && array.detail().degraded == 1);
        world.write(&array, 0, &[7; 4096]).unwrap();
        world.stop(&array);
        assert_eq!(on_disk(&world, 0).0.events, world.superblock(0).events, "{version}");
    }
}

#[test]
fn a_device_that_is_added_gets_its_bitmap_where_all_have_it() {
    for version in PLACES {
        let (mut world, array, _) = with_spare(Level::Raid1, 3, version);
        // It is larger: the ends of the members are at different places.
        let size = world.io.member_info(world.ids[0]).unwrap().size + MIB;
        let (new, number) = (world.bench.add_drive(Model::nvme(), size), world.ids.len());
        world.io.block_on(array.add(new, "new", Uuid::from_u128(7), false)).unwrap();
        world.ids.push(new);
        let sb = world.superblock(number);
        assert_eq!(sb.bitmap_offset, world.superblock(0).bitmap_offset, "{version}");
        let spares = array.spares();
        assert_eq!((spares.len(), spares[1].id), (2, new), "{version}: it has room for it");
        world.io.block_on(array.recover(1, spares[1], |_| ())).unwrap();
        assert_eq!(on_disk(&world, number), on_disk(&world, 0), "{version}");
        world.stop(&array);
        assert!(on_disk(&world, number).1.is_empty(), "{version}");
    }
}
