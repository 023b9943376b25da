//! Numbers of devices: as md has them in 0.90, however often members are replaced, and whatever a power cut leaves of the
//! records that change them.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use brindle_array::{Array, Removal};
use brindle_format::md::{DeviceRole, Endian, Superblock, Uuid, Version};
use brindle_io::MemberId;
use brindle_layout::Level;
use brindle_testkit::skip::is_long;

use crate::common::*;
use crate::power_cuts::{Kind, SIZE, State, judge, put, state, whole_again};

const V0: [Version; 2] = [Version::V0_90(Endian::Little), Version::V0_90(Endian::Big)];

fn with_spares(level: Level, members: usize, spares: usize, version: Version) -> World {
    let mut spec = spec(level, members, version);
    spec.roles.iter_mut().flatten().for_each(|member| member.info.size = SIZE);
    spec.spares = (members..members + spares).map(|n| new_member(n, SIZE)).collect();
    World::create(&spec)
}

async fn replace(array: &Array, role: u16) {
    array.fail(role).await.unwrap();
    let spare = *array.spares().last().unwrap();
    array.recover(role, spare, |_| ()).await.unwrap();
}

/// md's rule for a table of 0.90: each device in sync at the number of its role, all others behind those.
fn judge_table(sb: &Superblock) {
    let roles = sb.raid_disks as usize;
    for (number, role) in sb.roles.iter().enumerate() {
        match role {
            DeviceRole::Active(role) => assert_eq!(usize::from(*role), number, "{:?}", sb.roles),
            DeviceRole::Spare => assert!(number >= roles, "{:?}", sb.roles),
            _ => {}
        }
    }
    // Entries without a device are zero, but those of roles, which are faulty and removed.
    let mut bytes = [0; 4096];
    sb.encode(&mut bytes).unwrap();
    for number in 0..27 {
        let entry = &bytes[512 + 128 * number..][..128];
        match sb.roles.get(number) {
            None => assert!(entry.iter().all(|&byte| byte == 0), "{number}"),
            Some(DeviceRole::Vacant) if number >= roles => assert!(entry.iter().all(|&byte| byte == 0)),
            Some(DeviceRole::Vacant) => assert_eq!(entry[16..20].iter().sum::<u8>(), 9),
            Some(_) => {}
        }
    }
    assert!(!sb.is_mixed(), "{:?}", sb.roles);
}

#[test]
fn a_device_that_took_the_place_of_a_member_has_the_number_of_its_role() {
    for version in V0 {
        let world = with_spares(Level::Raid5, 3, 1, version);
        let array = world.open();
        world.io.block_on(array.fail(1)).unwrap();
        let failed = world.superblock(0);
        assert_eq!((failed.roles[1], failed.roles[3]), (DeviceRole::Faulty, DeviceRole::Spare));
        world.io.block_on(array.recover(1, array.spares()[0], |_| ())).unwrap();
        let rebuilt = world.superblock(3);
        assert_eq!((rebuilt.device_number, rebuilt.role()), (1, DeviceRole::Active(1)));
        for n in [0, 2, 3] {
            let sb = world.superblock(n);
            assert_eq!((sb.roles[1], sb.roles[3]), (DeviceRole::Active(1), DeviceRole::Faulty), "{n}");
            judge_table(&sb);
        }
        world.io.block_on(array.remove(Removal::Device(world.ids[1]))).unwrap();
        assert_eq!(world.superblock(0).roles.len(), 3, "nobody has the number any more");
        judge_table(&world.superblock(0));
        world.stop(&array);
        let found = world.without(&[1]).assembly().unwrap();
        assert!(found.degraded().is_empty() && found.is_clean());
    }
}

/// Replaces members one after the other, by the device that was removed last, and gives the highest number that was ever used.
fn replaced_often(world: &World, times: usize) -> usize {
    let members = world.ids.len() - 1;
    let array = world.open();
    let mut out: Option<MemberId> = None;
    let mut highest = 0;
    for n in 0..times {
        let role = (n * 7 % members) as u16;
        world.io.block_on(async {
            if let Some(out) = out {
                array.add(out, "it", Uuid::from_u128(0x500 + n as u128), false).await.unwrap();
            }
            let device = array.detail().roles[usize::from(role)].device.unwrap();
            let id = array.detail().devices[device].id;
            replace(&array, role).await;
            let removed = array.remove(Removal::Device(id)).await.unwrap();
            assert_eq!(removed, [id], "{n}");
            out = Some(id);
        });
        for at in (0..world.ids.len()).filter(|&at| Some(world.ids[at]) != out) {
            let sb = world.superblock(at);
            highest = highest.max(sb.device_number as usize);
            if !sb.version.is_v1() {
                judge_table(&sb);
                assert_eq!(sb.roles.len(), members, "{n}");
            }
        }
    }
    assert_eq!(array.detail().degraded, 0);
    world.stop(&array);
    highest
}

#[test]
fn two_hundred_replacements_in_a_row_use_the_same_numbers_again() {
    let [little, big] = V0;
    for (level, members, version) in
        [(Level::Raid6, 24, little), (Level::Raid1, 2, big), (Level::Raid5, 3, Version::V1_2)]
    {
        let highest = replaced_often(&with_spares(level, members, 1, version), 200);
        // In 1.x a device keeps the number that it came with.
        let most = if version.is_v1() { 2 * members } else { members - 1 };
        assert_eq!(highest, most, "{level} {version}");
    }
}

#[test]
fn a_device_that_joins_has_the_lowest_number_that_no_device_has() {
    for version in [V0[0], Version::V1_0] {
        let world = with_spares(Level::Raid1, 2, 3, version);
        let array = world.open();
        world.io.block_on(array.remove(Removal::Device(world.ids[2]))).unwrap();
        world.io.block_on(array.remove(Removal::Device(world.ids[3]))).unwrap();
        world.io.block_on(array.add(world.ids[3], "it", Uuid::from_u128(5), false)).unwrap();
        let numbers = [3, 4].map(|n| world.superblock(n).device_number);
        assert_eq!(numbers, [2, 4], "{version}");
        world.io.block_on(array.add(world.ids[2], "it", Uuid::from_u128(6), false)).unwrap();
        assert_eq!(world.superblock(2).device_number, 3, "{version}");
        world.stop(&array);
    }
}

/// An array as Brindle left it up to 0.4: the device that replaced the member of role 1 has number 3, and a spare has 4.
fn as_an_older_one_left_it(level: Level, members: usize, version: Version) -> World {
    let world = with_spares(level, members, 2, version).without(&[1]);
    let number = members as u32;
    for n in 0..world.ids.len() {
        world.change(n, |sb| {
            sb.roles[1] = DeviceRole::Faulty;
            sb.roles[members] = DeviceRole::Active(1);
            assert!(n < members - 1 || sb.device_number >= number);
        });
    }
    world
}

#[test]
fn numbers_that_an_older_brindle_left_are_put_right_where_a_device_goes() {
    for version in V0 {
        let world = as_an_older_one_left_it(Level::Raid5, 3, version);
        let array = world.open();
        let all = whole(&world, &array);
        assert_eq!(array.detail().degraded, 0);
        world.write(&array, 0, &pattern(1, 4096)).unwrap();
        assert_eq!(world.superblock(2).device_number, 3, "a write takes nobody in");
        world.io.block_on(array.remove(Removal::Device(world.ids[3]))).unwrap();
        for n in 0..3 {
            judge_table(&world.superblock(n));
            assert_eq!(world.superblock(n).roles.len(), 3);
        }
        assert_eq!(world.superblock(2).device_number, 1);
        world.stop(&array);
        let array = world.without(&[3]).reboot();
        let again = array.open();
        assert_eq!(again.detail().degraded, 0);
        assert!(whole(&array, &again)[4096..] == all[4096..]);
        array.stop(&again);
    }
}

/// Changes of an array whose last devices are spares.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// A member fails, a spare takes its place, and the failed one goes.
    Replace,
    /// The last device goes, comes again as a new one, and takes a member's place, which fails; both are listed then.
    Join,
    /// The last device goes.
    Remove,
    /// It is written to.
    Write,
}

/// The states of the superblocks, one after the other, while that is done.
fn steps(world: &World, work: Work) -> Vec<State> {
    let mut states = vec![state(world, Kind::V0)];
    let Ok(assembly) = world.assembly() else { return states };
    let opened = world.try_open(assembly, patient());
    let array = opened.unwrap_or_else(|error| panic!("{work:?}: {error}"));
    let done = Rc::new(Cell::new(false));
    world.io.block_on(async {
        let ended = Rc::clone(&done);
        let (pool, last) = (world.pool.clone(), *world.ids.last().unwrap());
        drop(world.io.spawn(async move {
            match work {
                Work::Replace => {
                    let first = array.detail().roles[0].device.map(|at| array.detail().devices[at].id);
                    let _ = array.fail(0).await;
                    if let Some(&spare) = array.spares().first() {
                        let _ = array.recover(0, spare, |_| ()).await;
                    }
                    if let Some(first) = first {
                        let _ = array.remove(Removal::Device(first)).await;
                    }
                }
                Work::Join => {
                    array.remove(Removal::Device(last)).await.unwrap();
                    array.add(last, "new", Uuid::from_u128(7), false).await.unwrap();
                    array.fail(0).await.unwrap();
                    array.recover(0, array.spares()[0], |_| ()).await.unwrap();
                    write(&pool, &array, 0, &[1; 4096]).await.unwrap();
                }
                Work::Remove => drop(array.remove(Removal::Device(last)).await),
                Work::Write => drop(write(&pool, &array, 0, &[1; 4096]).await),
            }
            array.stop().await.unwrap();
            ended.set(true);
        }));
        while !done.get() {
            world.io.yield_now().await;
            let now = state(world, Kind::V0);
            if states.last() != Some(&now) {
                states.push(now);
            }
        }
    });
    states
}

/// Each way in which the power can go in each step, and again while that is recovered from.
fn cut_everywhere(make: impl Fn() -> World, work: Work) {
    let who = format!("{work:?}");
    let left = judge(Kind::V0, &steps(&make(), work), &who);
    assert!(left.len() > 20, "{who}: {}", left.len());
    let mut seen = BTreeSet::new();
    let left = left.into_iter().filter(|left| seen.insert(left.concat()));
    for (at, left) in left.enumerate() {
        // One work of three; `make test-long` does all.
        let works = [Work::Write, Work::Remove, Work::Replace];
        let (from, stride) = if is_long() { (0, 1) } else { (at % 3, 3) };
        for &then in works.iter().skip(from).step_by(stride) {
            let world = make();
            put(&world, Kind::V0, &left);
            let who = format!("{who}, then {then:?}");
            let states = steps(&world, then);
            judge(Kind::V0, &states, &who);
            whole_again(Kind::V0, states.last().unwrap(), &who);
        }
    }
}

#[test]
fn the_power_may_go_whenever_a_device_takes_a_place() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        cut_everywhere(|| with_spares(level, members, 1, V0[0]), Work::Replace);
    }
}

/// The bytes of a device before it was added tell nothing: its superblock is as it was last written in this run. Torn at any
/// sector it is read again, with the failed member described as the others describe it.
#[test]
fn the_power_may_go_whenever_the_superblock_of_an_added_device_is_written() {
    for version in V0 {
        for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
            let world = with_spares(level, members, 1, version);
            let states = steps(&world, Work::Join);
            let who = format!("{level} {version}");
            let left = if version == V0[0] { judge(Kind::V0, &states, &who).len() } else { states.len() };
            assert!(left > 10, "{who}: {left}");
            // Entries of all devices, as all of them have it: only what a device says of itself differs.
            let tables: Vec<_> =
                states.last().unwrap()[1..].iter().map(|block| block[512..3968].to_vec()).collect();
            assert!(tables.windows(2).all(|pair| pair[0] == pair[1]), "{who}");
        }
    }
}

#[test]
fn the_power_may_go_whenever_numbers_are_put_right() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        cut_everywhere(|| as_an_older_one_left_it(level, members, V0[0]), Work::Remove);
    }
}
