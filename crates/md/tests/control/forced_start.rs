//! A dirty, degraded array that was forced: what its members say is told until the run records something else.

use brindle_format::md::{DeviceRole, Features, Superblock, Version};
use brindle_layout::Level;
use brindle_md::assembly::{AssembleOptions, AssemblyError, DeviceUse, Limitation, assemble};

use crate::common::*;

#[test]
fn after_reads_only_the_array_is_not_called_clean_while_its_members_say_otherwise() {
    for position in [0, MIB] {
        let world = World::create(&spec(Level::Raid5, 3, Version::V1_2));
        (0..3).for_each(|n| world.change(n, |sb| sb.resync_offset = Some(position)));
        let world = world.without(&[2]);
        let assembly = world.assembly_with(AssembleOptions { force: true, partial: false }).unwrap();
        let array = world.try_open(assembly, patient()).unwrap();
        world.read(&array, 0, 65536).unwrap();
        let reported = array.detail();
        assert_eq!((reported.forced_offset, reported.resync_offset), (Some(position), None));
        assert_eq!(reported.state_words(), "clean, degraded, resync pending");
        assert!(!array.needs_resync(), "there is nothing to resync from");

        // Nothing was changed, nothing is recorded: the missing member may turn up yet.
        world.stop(&array);
        assert!(world.superblocks().iter().all(|sb| sb.resync_offset == Some(position) && sb.events == 1));
        let assembly = world.assembly_with(AssembleOptions { force: true, partial: false }).unwrap();
        let array = world.try_open(assembly, patient()).unwrap();
        world.write(&array, 0, &pattern(1, 4096)).unwrap();
        assert_eq!(array.detail().state_words(), "active, degraded");
        world.stop(&array);
        assert_eq!(
            (array.detail().forced_offset, array.detail().state_words()),
            (None, "clean, degraded".into())
        );
        assert!(world.superblocks().iter().all(|sb| sb.is_clean()));
    }
}

#[test]
fn a_half_recovered_member_of_an_array_that_is_forced_is_recovered_from_its_start() {
    let all = edited(&spec(Level::Raid6, 4, Version::V1_2), |n, sb| {
        sb.resync_offset = Some(0);
        sb.recovery_offset = (n == 1).then_some(MIB);
        sb.features = sb.features.with(Features::RECOVERY_OFFSET, n == 1);
    });
    assert!(matches!(assemble(&all, AssembleOptions::default()), Err(AssemblyError::DirtyDegraded { .. })));
    let forced = assemble(&all, AssembleOptions { force: true, partial: false }).unwrap();
    assert_eq!(forced.devices[1].usage, DeviceUse::Recovering { role: 1, upto: 0 });
}

#[test]
fn forced_a_member_that_never_was_whole_or_was_replaced_is_not_used() {
    let spec = spec(Level::Raid5, 3, Version::V1_2);
    // Two members lack writes: one would do.
    let found = |edit: &dyn Fn(&mut Superblock, &mut Superblock)| {
        let mut all = superblocks(&spec);
        all[0].events = 30;
        let [newest, _, last] = &mut all[..] else { panic!("three") };
        (last.events, newest.roles[2]) = (20, DeviceRole::Faulty);
        edit(newest, last);
        all[1].events = 4;
        all[0].roles[1] = DeviceRole::Faulty;
        let named = all
            .iter()
            .enumerate()
            .map(|(n, sb)| candidate(&format!("disk{n}"), sb, spec.roles[n].as_ref().unwrap().info.size));
        assemble(&named.collect::<Vec<_>>(), AssembleOptions { force: true, partial: false })
    };
    let used = |edit: &dyn Fn(&mut Superblock, &mut Superblock)| match found(edit).unwrap().limits.remove(0) {
        Limitation::Stale { labels } => labels,
        other => panic!("{other}"),
    };
    assert_eq!(used(&|_, _| ()), ["disk2"], "the newest");
    assert_eq!(used(&|_, last| last.recovery_offset = Some(MIB)), ["disk1"], "half recovered");
    assert_eq!(used(&|newest, _| newest.roles[5] = DeviceRole::Active(2)), ["disk1"], "another had its role");
}

#[test]
fn forced_a_member_of_a_whole_mirror_is_not_used() {
    let spec = spec(Level::Raid10, 4, Version::V1_2);
    let mut all = superblocks(&spec);
    all.iter_mut().zip([30, 20, 9, 4]).for_each(|(sb, events)| sb.events = events);
    (1..4).for_each(|n| all[0].roles[n] = DeviceRole::Faulty);
    let named: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(n, sb)| candidate(&format!("disk{n}"), sb, spec.roles[n].as_ref().unwrap().info.size))
        .collect();
    let forced = assemble(&named, AssembleOptions { force: true, partial: false }).unwrap();
    assert_eq!(forced.limits, [Limitation::Stale { labels: vec!["disk2".into()] }]);
    assert_eq!(forced.missing(), [1, 3]);
}
