//! Members that failed one after the other and come back together, in any order; and halves that were used apart.

use brindle_array::{AddError, Array, NotTaken, SyncMode};
use brindle_format::md::{DeviceRole, Superblock};
use brindle_io::MemberId;
use brindle_io::sim::Sim;
use brindle_layout::Level;

use crate::common::*;
use crate::former::{automatic, manual, marked, open, shape, whole_again, write_some};

/// Arrays, and two roles of each that it can do without.
const CASES: [(Level, usize, [usize; 2]); 4] = [
    (Level::Raid1, 3, [0, 1]),
    (Level::Raid6, 5, [1, 3]),
    (Level::Raid10, 4, [0, 2]),
    (Level::Raid1, 4, [3, 1]),
];

/// Two members fail, one after the other; the array is written to after each.
fn two_away(world: &World<Sim>, array: &Array, roles: [usize; 2], content: &mut [u8]) {
    for role in roles {
        world.io.block_on(array.fail(role as u16)).unwrap();
        write_some(world, array, content);
    }
}

fn named(world: &World<Sim>, roles: [usize; 2]) -> [(MemberId, String); 2] {
    roles.map(|role| (world.ids[role], format!("m{role}")))
}

/// Members come back one after the other, and then the array is whole.
fn all_come_back(world: &World<Sim>, array: &Array, order: [usize; 2], content: &[u8], what: &str) {
    let devices = named(world, order);
    let judged = world.io.block_on(array.judge_together(&devices));
    assert_eq!(judged, [Ok(()), Ok(())], "{what}");
    for ((id, label), role) in devices.iter().zip(order) {
        assert_eq!(world.io.block_on(array.add_again(*id, label)), Ok(role as u16), "{what}");
    }
    whole_again(world, array);
    let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
    assert_eq!(report.mismatch_sectors, 0, "{what}");
    assert!(world.read(array, 0, content.len()).unwrap() == content, "{what}");
}

#[test]
fn members_that_failed_one_after_the_other_come_back_in_any_order() {
    for (level, members, [first, second]) in CASES {
        for order in [[first, second], [second, first]] {
            let what = format!("{level} {order:?}");
            let (world, array, mut content) = marked(&shape(level, members), automatic());
            two_away(&world, &array, [first, second], &mut content);
            all_come_back(&world, &array, order, &content, &what);
            world.stop(&array);
        }
    }
}

#[test]
fn the_same_holds_for_members_that_the_array_was_opened_without() {
    for (level, members, [first, second]) in CASES {
        for order in [[first, second], [second, first]] {
            let what = format!("{level} {order:?}");
            let (mut world, array, mut content) = marked(&shape(level, members), manual());
            two_away(&world, &array, [first, second], &mut content);
            world.stop(&array);
            drop(array);
            world = world.restart(9);
            let array = open(&world, automatic());
            assert_eq!(array.detail().degraded, 2, "{what}");
            all_come_back(&world, &array, order, &content, &what);
            world.stop(&array);
        }
    }
}

#[test]
fn one_that_was_rebuilt_meanwhile_keeps_nobody_away() {
    let (world, array, mut content) = marked(&shape(Level::Raid1, 3), automatic());
    two_away(&world, &array, [0, 1], &mut content);
    assert_eq!(world.io.block_on(array.add_again(world.ids[0], "m0")), Ok(0));
    while array.detail().degraded > 1 || array.process().is_some() {
        idle(&world, brindle_io::Duration::from_millis(1));
    }
    write_some(&world, &array, &mut content);
    assert_eq!(world.io.block_on(array.add_again(world.ids[1], "m1")), Ok(1), "it knows that m0 had failed");
    whole_again(&world, &array);
    assert!(world.read(&array, 0, content.len()).unwrap() == content);
}

/// The first to leave is rebuilt, by its bits or anew, and the array is stopped: of the next run's members nothing tells that it was
/// away when the second one left.
#[test]
fn one_that_was_rebuilt_in_an_earlier_run_keeps_nobody_away() {
    for (level, members, [first, second]) in CASES {
        let what = format!("{level} {first} {second}");
        let (mut world, array, mut content) = marked(&shape(level, members), manual());
        two_away(&world, &array, [first, second], &mut content);
        world.stop(&array);
        drop(array);
        world = world.restart(9);
        let array = open(&world, automatic());
        assert_eq!(world.io.block_on(array.add_again(world.ids[first], "it")), Ok(first as u16), "{what}");
        while array.detail().degraded > 1 || array.process().is_some() {
            idle(&world, brindle_io::Duration::from_millis(1));
        }
        write_some(&world, &array, &mut content);
        world.stop(&array);
        drop(array);
        world = world.restart(10);
        let array = open(&world, automatic());
        assert_eq!(array.detail().degraded, 1, "{what}");
        let again = world.io.block_on(array.add_again(world.ids[second], "it"));
        assert_eq!(again, Ok(second as u16), "{what}: it knows that the other had failed");
        whole_again(&world, &array);
        let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
        assert_eq!(report.mismatch_sectors, 0, "{what}");
        assert!(world.read(&array, 0, content.len()).unwrap() == content, "{what}");
        world.stop(&array);
    }
}

/// The same, but the halves were used apart: nobody whom the second calls in sync is a member today.
#[test]
fn halves_that_were_used_apart_stay_apart_in_the_next_run_too() {
    for (level, members, roles) in
        [(Level::Raid1, 3, [0, 1]), (Level::Raid6, 4, [1, 3]), (Level::Raid10, 4, [0, 2])]
    {
        let (mut world, array, mut content) = marked(&shape(level, members), manual());
        two_away(&world, &array, roles, &mut content);
        world.stop(&array);
        drop(array);
        for role in roles {
            edit(&world, role, |sb| {
                sb.events += 1;
                let others = (0..members).filter(|other| !roles.contains(other));
                others.for_each(|other| sb.roles[other] = DeviceRole::Faulty);
            });
        }
        world = world.restart(9);
        let array = open(&world, manual());
        let apart = Some(NotTaken::Apart);
        assert_eq!(judged(&world, &array, roles), [apart.clone(), apart], "{level}");
    }
}

/// A member of today that another half rebuilt as its own has the role that the device knows, but another number: no witness.
#[test]
fn one_that_another_half_rebuilt_is_no_witness() {
    let (mut world, array, mut content) = marked(&Shape { spares: 1, ..shape(Level::Raid1, 3) }, manual());
    two_away(&world, &array, [1, 2], &mut content);
    // The spare becomes the member of role 2: all that 1 knows of it is that another had the role.
    world.io.block_on(array.recover(2, array.spares()[0], |_| ())).unwrap();
    world.stop(&array);
    drop(array);
    edit(&world, 1, |sb| {
        sb.events += 1;
        sb.roles[0] = DeviceRole::Faulty;
    });
    world = world.restart(9);
    let array = open(&world, manual());
    let again = world.io.block_on(array.add_again(world.ids[1], "it"));
    assert!(matches!(again, Err(AddError::NotTaken { why: NotTaken::Apart, .. })), "{again:?}");
}

fn edit(world: &World<Sim>, role: usize, edit: impl FnOnce(&mut Superblock)) {
    let mut sb = world.superblock(role);
    edit(&mut sb);
    world.bench.poke(world.ids[role], sb.super_offset, &encoded(&sb));
}

/// The judgement of devices that are named together, in both orders; nothing is written.
fn judged(world: &World<Sim>, array: &Array, roles: [usize; 2]) -> [Option<NotTaken>; 2] {
    let before = roles.map(|role| world.superblock(role));
    let judge = |roles| {
        let judged = world.io.block_on(array.judge_together(&named(world, roles)));
        let why = |judged: Result<(), AddError>| match judged {
            Err(AddError::NotTaken { why, .. }) => Some(why),
            other => {
                assert_eq!(other, Ok(()));
                None
            }
        };
        <[_; 2]>::try_from(judged.into_iter().map(why).collect::<Vec<_>>()).unwrap()
    };
    let [one, other] = judge(roles);
    assert_eq!(judge([roles[1], roles[0]]), [other.clone(), one.clone()]);
    assert_eq!(roles.map(|role| world.superblock(role)), before);
    [one, other]
}

#[test]
fn halves_that_were_used_apart_stay_apart_in_both_orders() {
    for (level, members, roles) in
        [(Level::Raid1, 3, [0, 1]), (Level::Raid6, 4, [1, 3]), (Level::Raid10, 4, [0, 2])]
    {
        let (world, array, mut content) = marked(&shape(level, members), manual());
        two_away(&world, &array, roles, &mut content);
        // They went on without the others.
        for role in roles {
            edit(&world, role, |sb| {
                sb.events += 1;
                let others = (0..members).filter(|other| !roles.contains(other));
                others.for_each(|other| sb.roles[other] = DeviceRole::Faulty);
            });
        }
        let apart = Some(NotTaken::Apart);
        assert_eq!(judged(&world, &array, roles), [apart.clone(), apart], "{level}");
    }
}

#[test]
fn one_that_is_ahead_is_not_overtaken_by_those_that_come_back_before_it() {
    let (world, array, mut content) = marked(&shape(Level::Raid6, 5), manual());
    two_away(&world, &array, [1, 3], &mut content);
    let events = array.detail().events;
    edit(&world, 3, |sb| sb.events = events + 1);
    assert_eq!(judged(&world, &array, [1, 3]), [None, Some(NotTaken::Apart)]);
}
