//! Events are kept and told: the reason of every failure, and the course of a resync.

use brindle_array::{Access, Array, Cause, EventKind, OpenConfig, Operation, RoleState, SyncMode};
use brindle_format::md::Version;
use brindle_io::OpError;
use brindle_io::sim::Model;
use brindle_layout::Level;
use brindle_md::assembly::{AssembleOptions, AssemblyError};
use brindle_volume::{Volume, VolumeError};

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
    // That members are lost for which parity stands is told beside the first.
    assert_eq!(array.events_since(1)[0].kind, EventKind::Exposed);
    let mut events = array.events_since(0);
    events.retain(|event| event.kind != EventKind::Exposed);
    assert_eq!(events.len(), 2);
    let why = events[0].cause.unwrap();
    assert_eq!((events[0].kind, events[0].role), (EventKind::MemberFailed, Some(2)));
    assert!((NOW..NOW + 100).contains(&events[0].at));
    assert!(matches!((why.operation, why.error), (Some(Operation::Write), Some(OpError::Medium(_)))));
    assert_eq!(events[0].label.as_deref(), Some("member2"));
    assert_eq!((events[1].role, events[1].cause), (Some(0), Some(Cause::COMMAND)));
    assert_eq!(array.events_since(2), events[1..]);
    let devices = array.detail().devices;
    assert!(devices[2].failure.is_some_and(|failed| failed.cause == why && failed.at >= NOW));
    assert_eq!(devices[0].failure.map(|failed| failed.cause), Some(Cause::COMMAND));
    assert_eq!(devices[1].failure, None);

    // One more is one too many: that is told too, once.
    world.bench.kill(world.ids[1]);
    assert_eq!(world.write(&array, 0, &pattern(3, 1 << 20)), Err(VolumeError::TooManyLost));
    assert_eq!(world.write(&array, 0, &pattern(3, 1 << 20)), Err(VolumeError::TooManyLost));
    let broken = world.io.block_on(array.next_event(3));
    assert_eq!((broken.kind, broken.role), (EventKind::Broken, Some(1)));
    assert_eq!(broken.cause.and_then(|why| why.error), Some(OpError::Gone));
    assert!(array.events_since(4).is_empty());
}

#[test]
fn what_a_check_finds_and_a_repair_writes_is_reported_with_its_place() {
    use EventKind::{CheckEnded, Mismatch, RepairEnded, Rewritten, Wrong};
    // In row 0 the data of role 0 stand at byte 0 of RAID 5; P and Q of RAID 6 tell that it is wrong.
    let cases = [
        (Level::Raid6, SyncMode::Check, [Wrong, CheckEnded]),
        (Level::Raid6, SyncMode::Locate, [Rewritten, RepairEnded]),
        (Level::Raid5, SyncMode::Check, [Mismatch, CheckEnded]),
        (Level::Raid5, SyncMode::Locate, [Mismatch, RepairEnded]),
        (Level::Raid5, SyncMode::Repair, [Rewritten, RepairEnded]),
    ];
    for (level, mode, kinds) in cases {
        let world = World::create(&spec(level, 5, Version::V1_2));
        let array = world.open();
        world.bench.poke(world.ids[1], world.superblock(1).data_offset + 5, &[1]);
        world.io.block_on(array.check(mode, |_| ())).unwrap();
        let events = array.events_since(0);
        assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), kinds, "{level} {mode:?}");
        assert!(
            events[0].range.as_ref().is_some_and(|range| range.start == 0 && range.end <= 4096),
            "{events:?}"
        );
        let located = level == Level::Raid6;
        assert_eq!(events[0].role == Some(1), located, "{events:?}");
        assert_eq!(events[0].array.is_some(), located, "parity is none of the array's bytes: {events:?}");
        assert_eq!(events[1].mismatch_sectors, Some(8), "{events:?}");
        world.stop(&array);
    }
}

#[test]
fn a_member_that_is_gone_is_reported_where_nothing_makes_up_for_it() {
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
fn where_a_crash_would_ask_for_force_that_is_told_before_it() {
    let exposed = |array: &Array| {
        let reported = array.events_since(0).into_iter().filter(|event| event.kind == EventKind::Exposed);
        (array.detail().exposed, reported.count())
    };
    let levels = [
        (Level::Raid1, 3, false),
        (Level::Raid4, 3, true),
        (Level::Raid5, 3, true),
        (Level::Raid6, 4, true),
        (Level::Raid10, 4, false),
    ];
    for (level, members, asks) in levels {
        let world = World::create(&spec(level, members, Version::V1_2));
        let array = world.open();
        assert_eq!(exposed(&array), (false, 0), "{level}");
        world.io.block_on(array.fail(1)).unwrap();
        let reported = (asks, usize::from(asks));
        assert_eq!(exposed(&array), reported, "{level}");
        if level == Level::Raid6 {
            world.io.block_on(array.fail(2)).unwrap();
            assert_eq!(exposed(&array), reported, "once");
        }
        world.write(&array, 0, &pattern(1, 4096)).unwrap();
        drop(array);

        // The event was right.
        let world = world.reboot();
        let refused = matches!(world.assembly(), Err(AssemblyError::DirtyDegraded { .. }));
        assert_eq!(refused, asks, "{level}");
        let forced = world.assembly_with(AssembleOptions { force: true, partial: false }).unwrap();
        let array = world.try_open(forced, patient()).unwrap();
        assert_eq!(exposed(&array), reported, "{level}: from the beginning");
    }
}

#[test]
fn a_member_that_was_rebuilt_ends_the_exposure_and_the_next_loss_begins_another() {
    let shape = Shape { rows: 64, spares: 1, ..Shape::new(Level::Raid5, 4) };
    let world = World::in_sim(&shape, Model::nvme(), 7);
    let array = world.open();
    let reported = || {
        let reported = array.events_since(0).into_iter().map(|event| event.kind);
        reported
            .filter(|kind| matches!(kind, EventKind::Exposed | EventKind::RecoveryEnded))
            .collect::<Vec<_>>()
    };
    world.io.block_on(array.fail(0)).unwrap();
    assert!(array.detail().exposed);
    world.io.block_on(array.recover(0, array.spares()[0], |_| ())).unwrap();
    assert!(!array.detail().exposed);
    world.io.block_on(array.fail(1)).unwrap();
    assert!(array.detail().exposed);
    assert_eq!(reported(), [EventKind::Exposed, EventKind::RecoveryEnded, EventKind::Exposed]);
}

#[test]
fn what_is_only_read_is_not_exposed() {
    let world = World::create(&spec(Level::Raid5, 4, Version::V1_2)).without(&[0]);
    let config = OpenConfig::new(Access::ReadOnly, || NOW);
    let array = world.try_open(world.assembly().unwrap(), config).unwrap();
    assert_eq!((array.detail().degraded, array.detail().exposed, array.events_since(0).len()), (1, false, 0));
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

#[test]
fn a_bad_place_is_reported_with_where_it_is_and_what_became_of_it() {
    let world = World::of(&Shape { rows: 64, ..Shape::new(Level::Raid5, 4) });
    let array = world.open();
    let content = pattern(1, array.limits().size as usize);
    world.write(&array, 0, &content).unwrap();
    let (mended, worn) = (10 * 4096 + 512, 40 * 4096 + 1024);
    world.bench.spoil(world.ids[2], DATA_OFFSET + mended, 512);
    let reported = |kind: EventKind, place: u64| {
        let events = array.events_since(0);
        let [event] = &events[..] else { panic!("{events:?}") };
        assert_eq!((event.kind, event.role), (kind, Some(2)));
        let range = event.range.clone().unwrap();
        assert!(range.contains(&place) && range.end - range.start <= 4096, "{range:?}");
        let why = event.cause.unwrap();
        assert_eq!((why.operation, why.offset), (Some(Operation::Read), Some(DATA_OFFSET + range.start)));
    };
    assert!(world.read(&array, 0, content.len()).unwrap() == content);
    reported(EventKind::Corrected, mended);
    world.stop(&array);
    drop(array);

    // Nothing makes up for it any more.
    let world = world.reboot().without(&[0]);
    world.bench.wear_out(world.ids[1], DATA_OFFSET + worn, 512);
    let array = world.open();
    world.read(&array, 0, content.len()).unwrap_err();
    let events = array.events_since(0);
    let lost: Vec<_> = events.iter().map(|event| (event.kind, event.role)).collect();
    assert_eq!(lost, [(EventKind::Exposed, None), (EventKind::Uncorrected, Some(2))], "{events:?}");
    assert!(events[1].range.clone().unwrap().contains(&worn));
}
