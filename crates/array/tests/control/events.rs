//! What has happened is kept and told: the reason of every failure, and the way of a resync.

use brindle_array::{Cause, EventKind, Operation, RoleState};
use brindle_format::md::Version;
use brindle_io::OpError;
use brindle_layout::Level;
use brindle_volume::VolumeError;

use crate::common::*;

#[test]
fn every_failure_is_kept_with_its_reason() {
    let world = World::create(&spec(Level::Raid6, 5, Version::V1_2));
    let array = world.open();
    assert!(array.events_since(0).is_empty());
    world.write(&array, 0, &pattern(1, 4096)).unwrap();
    world.bench.refuse_writes(world.ids[2]);
    world.write(&array, 0, &pattern(2, 1 << 20)).unwrap();
    world.io.block_on(array.fail(0)).unwrap();
    let events = array.events_since(0);
    assert_eq!(events.len(), 2);
    let why = events[0].cause.unwrap();
    assert_eq!((events[0].kind, events[0].role), (EventKind::MemberFailed, Some(2)));
    assert!((NOW..NOW + 100).contains(&events[0].at));
    assert!(matches!((why.operation, why.error), (Some(Operation::Write), Some(OpError::Medium(_)))));
    assert_eq!(events[0].label.as_deref(), Some("member2"));
    assert_eq!((events[1].role, events[1].cause), (Some(0), Some(Cause::COMMAND)));
    assert_eq!(array.events_since(1), events[1..]);
    let devices = array.detail().devices;
    assert!(devices[2].failure.is_some_and(|failed| failed.cause == why && failed.at >= NOW));
    assert_eq!(devices[0].failure.map(|failed| failed.cause), Some(Cause::COMMAND));
    assert_eq!(devices[1].failure, None);

    // One more is one too many: that is told too, once.
    world.bench.kill(world.ids[1]);
    assert_eq!(world.write(&array, 0, &pattern(3, 1 << 20)), Err(VolumeError::TooManyLost));
    assert_eq!(world.write(&array, 0, &pattern(3, 1 << 20)), Err(VolumeError::TooManyLost));
    let broken = world.io.block_on(array.next_event(2));
    assert_eq!((broken.kind, broken.role), (EventKind::Broken, Some(1)));
    assert_eq!(broken.cause.and_then(|why| why.error), Some(OpError::Gone));
    assert!(array.events_since(3).is_empty());
}

#[test]
fn a_member_that_is_gone_is_told_of_where_nothing_makes_up_for_it() {
    for level in [Level::Raid0, Level::Linear] {
        let world = World::create(&spec(level, 2, Version::V1_2));
        let array = world.open();
        world.write(&array, 0, &pattern(1, 1 << 20)).unwrap();
        world.bench.kill(world.ids[0]);
        assert!(world.read(&array, 0, 1 << 20).is_err(), "{level}");
        let broken = world.io.block_on(array.next_event(0));
        assert_eq!((broken.kind, broken.role), (EventKind::Broken, Some(0)), "{level}");
        let why = broken.cause.unwrap();
        assert_eq!((why.operation, why.error), (Some(Operation::Read), Some(OpError::Gone)), "{level}");
        assert_eq!(array.state(0), RoleState::Failed, "{level}");
        assert!(world.read(&array, 0, 1 << 20).is_err(), "{level}");
        assert_eq!(array.events_since(0).len(), 1, "{level}: told once");
    }
}

#[test]
fn a_superblock_or_flush_that_a_member_refuses_is_named_as_the_reason() {
    let world = World::create(&spec(Level::Raid1, 3, Version::V1_2));
    let array = world.open();
    world.bench.refuse_writes(world.ids[1]);
    world.write(&array, 0, &pattern(1, 4096)).unwrap();
    world.bench.kill(world.ids[0]);
    world.stop(&array);
    let causes = array.events_since(0).into_iter().map(|event| (event.role, event.cause.unwrap().operation));
    let named = [(Some(1), Some(Operation::Superblock)), (Some(0), Some(Operation::Flush))];
    assert_eq!(causes.collect::<Vec<_>>(), named);
}

#[test]
fn a_resync_is_told_from_its_beginning_to_its_end() {
    let world = World::create(&spec(Level::Raid5, 3, Version::V1_2));
    let array = world.open();
    world.write(&array, 0, &pattern(1, 4096)).unwrap();
    drop(array);
    let world = world.reboot();
    let array = world.open();
    world.io.block_on(array.resync(|_| ())).unwrap();
    let events = array.events_since(0);
    assert_eq!(
        events.iter().map(|e| e.kind).collect::<Vec<_>>(),
        [EventKind::ResyncBegun, EventKind::ResyncEnded]
    );
    assert!(events.iter().all(|event| event.range == Some(0..array.sync_len())));
}
