//! Members that are replaced while they go on serving: copied, put on record, and found so by the next run.

use std::num::NonZeroU64;

use brindle_array::{
    Array, DeviceState, EventKind, OpenConfig, ProcessKind, Recovery, Removal, RoleState, SyncMode,
};
use brindle_format::md::{DeviceRole, Endian, Features, Version};
use brindle_io::sim::{BadRange, Model, Sim};
use brindle_io::{Duration, MemberId};
use brindle_layout::Level;
use brindle_md::assembly::{Assembly, DeviceUse};
use brindle_volume::{Volume, VolumeError};

use crate::bitmap::on_disk;
use crate::common::*;

const LEVELS: [(Level, usize); 5] =
    [(Level::Raid1, 2), (Level::Raid4, 3), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 4)];
/// The role whose member is replaced.
const ROLE: u16 = 1;

/// An array with one spare, its content, and the spare's place among the devices.
struct Replaced {
    world: World<Sim>,
    array: Array,
    content: Vec<u8>,
    spare: usize,
}

impl Replaced {
    fn new(level: Level, members: usize) -> Self {
        Self::of(&Shape::new(level, members))
    }

    fn of(shape: &Shape) -> Self {
        let shape = Shape { rows: 64, spares: 1, ..shape.clone() };
        let world = World::in_sim(&shape, Model::nvme(), 7);
        let array = world.open();
        let content = pattern(5, array.limits().size as usize);
        world.write(&array, 0, &content).unwrap();
        let spare = world.ids.len() - 1;
        Self { world, array, content, spare }
    }

    fn old(&self) -> MemberId {
        self.world.ids[usize::from(ROLE)]
    }

    fn begin(&self) -> Result<(), VolumeError> {
        self.world.io.block_on(self.array.replace(self.old(), self.world.ids[self.spare]))
    }

    fn state_of(&self, device: usize) -> DeviceState {
        self.array.detail().devices[device].state
    }

    fn write(&mut self, at: usize, seed: u64) {
        let bytes = pattern(seed, 20_480);
        self.world.write(&self.array, at as u64, &bytes).unwrap();
        self.content[at..at + bytes.len()].copy_from_slice(&bytes);
    }

    /// Copies as far as a tenth at least, and stops the array then. Gives how far.
    fn copy_a_part(&self) -> u64 {
        let copying = self.world.io.spawn(self.array.copy_replacement(ROLE, |_| ()));
        let total = self.array.geometry().member_size();
        self.array.process().unwrap().set_pace(NonZeroU64::new(total / 10));
        self.world.io.block_on(async {
            self.world.io.sleep(Duration::from_secs(5)).await;
            let DeviceState::Replacement { upto } = self.state_of(self.spare) else {
                panic!("it takes 10 s")
            };
            assert!(upto > 0 && upto < total);
            self.array.stop().await.unwrap();
            copying.await.unwrap_err();
            upto
        })
    }

    /// The next run, in which lost members are rebuilt automatically.
    fn again(self) -> Self {
        self.again_as_found().0
    }

    /// The same, and what was found.
    fn again_as_found(self) -> (Self, Assembly) {
        drop(self.array);
        let world = self.world.restart(8);
        let config = OpenConfig { recovery: Recovery::Automatic, ..patient() };
        let assembly = world.assembly().unwrap();
        let array = world.try_open(assembly.clone(), config).unwrap();
        (Self { world, array, ..self }, assembly)
    }

    /// Pauses the process of the array as soon as it has begun.
    fn pause(&self) {
        self.world.io.block_on(async {
            while self.array.process().is_none() {
                self.world.io.sleep(Duration::from_micros(1)).await;
            }
        });
        self.array.process().unwrap().pause();
    }

    /// Waits until nothing is copied or rebuilt any more.
    fn settle(&self) {
        self.world.io.block_on(async {
            let busy = || self.state_of(self.spare) != DeviceState::InSync || self.array.process().is_some();
            for _ in 0..100_000 {
                if !busy() {
                    return;
                }
                self.world.io.sleep(Duration::from_millis(1)).await;
            }
            panic!("{:?}", self.array.detail());
        });
    }

    /// The spare is the member, holds what it should, and all superblocks say so.
    fn judge(self, who: &str) {
        let detail = self.array.detail();
        assert_eq!(detail.roles[usize::from(ROLE)].device, Some(self.spare), "{who}");
        assert_eq!((detail.degraded, self.array.state(ROLE)), (0, RoleState::InSync), "{who}");
        let report = self.world.io.block_on(self.array.check(SyncMode::Check, |_| ())).unwrap();
        assert_eq!(report.mismatch_sectors, 0, "{who}");
        self.world.io.block_on(self.array.fail(0)).unwrap();
        let read = self.world.read(&self.array, 0, self.content.len()).unwrap();
        assert!(read == self.content, "{who}");
        self.world.stop(&self.array);
        drop(self.array);
        let world = self.world.restart(9);
        let assembly = world.assembly().unwrap();
        assert_eq!((assembly.roles[1], assembly.degraded()), (Some(self.spare), vec![0]), "{who}");
        let sb = world.superblock(self.spare);
        assert!(!sb.features.intersects(Features::REPLACEMENT | Features::RECOVERY_OFFSET), "{who}");
        let old = sb.role_of(1);
        assert!(
            sb.role() == DeviceRole::Active(1) && !matches!(old, DeviceRole::Active(_)),
            "{who}: {old:?}"
        );
    }
}

#[test]
fn a_member_is_replaced_while_it_serves() {
    for (level, members) in LEVELS {
        let mut run = Replaced::new(level, members);
        run.begin().unwrap();
        let sb = run.world.superblock(run.spare);
        assert!(sb.features.contains(Features::REPLACEMENT | Features::RECOVERY_OFFSET), "{level}");
        assert_eq!(
            (sb.role(), sb.role_of(1), sb.recovery_offset),
            (DeviceRole::Active(1), DeviceRole::Active(1), Some(0))
        );
        assert!(run.begin().is_err(), "{level}: one at a time");
        // Writes go to both devices while the copy is under way.
        run.write(4096, 11);
        run.world.io.block_on(run.array.copy_replacement(ROLE, |_| ())).unwrap();
        run.write(45_056, 12);
        assert_eq!(run.state_of(usize::from(ROLE)), DeviceState::Failed, "{level}");
        let old = run.old();
        assert_eq!(run.world.io.block_on(run.array.remove(Removal::Device(old))), Ok(vec![old]), "{level}");
        run.spare -= 1;
        let spare = run.spare;
        assert_eq!(run.array.detail().roles[1].device, Some(spare), "{level}");
        run.world.stop(&run.array);
        let mut run = run.again();
        run.spare += 1;
        run.judge(&level.to_string());
    }
}

#[test]
fn a_copy_that_was_stopped_goes_on_where_its_superblock_says() {
    for (level, members) in LEVELS {
        let run = Replaced::new(level, members);
        run.begin().unwrap();
        let upto = run.copy_a_part();
        let (run, assembly) = run.again_as_found();
        let usage = assembly.devices[run.spare].usage;
        let DeviceUse::Replacement { role: ROLE, upto: found } = usage else { panic!("{level}: {usage:?}") };
        assert!(found >= upto && assembly.limits.is_empty() && assembly.degraded().is_empty(), "{level}");
        run.settle();
        let begun = run.array.events_since(0).into_iter().find(|event| event.kind == EventKind::CopyBegun);
        assert_eq!(begun.and_then(|event| event.range).map(|range| range.start), Some(found), "{level}");
        run.judge(&level.to_string());
    }
}

#[test]
fn a_replacement_keeps_step_with_the_bitmap_in_the_next_run_too() {
    for (level, members) in LEVELS {
        let run = Replaced::of(&Shape { bitmap: Some(8192), ..Shape::new(level, members) });
        run.begin().unwrap();
        run.copy_a_part();
        let mut run = run.again();
        run.pause();
        run.write(4096, 11);
        // How far the copy has come may be on its way to the members just now, and the bitmap's event count with it.
        run.world.io.block_on(async {
            while run.array.state_change().is_some() {
                run.world.io.sleep(Duration::from_micros(1)).await;
            }
        });
        let of = |member: usize| on_disk(&run.world, member);
        assert_eq!(of(run.spare), of(0), "{level}");
        run.array.process().unwrap().resume();
        run.settle();
        run.judge(&level.to_string());
    }
}

#[test]
fn what_the_member_can_not_read_comes_from_the_others() {
    for (level, members) in LEVELS {
        let run = Replaced::new(level, members);
        run.begin().unwrap();
        let start = run.world.superblock(1).data_offset;
        run.world.bench.afflict(run.old(), |faults| {
            faults.unreadable.push(BadRange::until_written(start..start + 65_536));
        });
        run.world.io.block_on(run.array.copy_replacement(ROLE, |_| ())).unwrap();
        let outcome = run.array.last_outcome().expect("it has ended");
        assert_eq!((outcome.kind, outcome.result), (ProcessKind::Replacement, Ok(())), "{level}");
        run.judge(&level.to_string());
    }
}

#[test]
fn what_becomes_of_a_member_that_is_replaced_is_said_as_it_is() {
    let run = Replaced::new(Level::Raid5, 4);
    run.begin().unwrap();
    run.world.io.block_on(run.array.copy_replacement(ROLE, |_| ())).unwrap();
    let mut reported = run.array.events_since(0);
    reported.retain(|event| event.kind != EventKind::Exposed);
    let said: Vec<String> = reported.iter().map(ToString::to_string).collect();
    let kinds: Vec<_> = reported.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::CopyBegun, EventKind::MemberFailed, EventKind::CopyEnded], "{said:?}");
    assert!(said[0].contains("is being copied onto the device that replaces it"), "{said:?}");
    assert!(said[1].ends_with("is not used any more: another device has taken its place"), "{said:?}");
    assert!(said[2].contains("is the member now"), "{said:?}");
    assert_ne!(reported[0].label, reported[2].label, "{said:?}");
    run.judge("as it is");
}

#[test]
fn a_member_that_fails_meanwhile_is_rebuilt_on_its_replacement() {
    for (level, members) in LEVELS {
        let run = Replaced::new(level, members);
        run.begin().unwrap();
        run.copy_a_part();
        let mut run = run.again();
        run.pause();
        run.world.bench.afflict(run.old(), |faults| faults.unwritable.push(BadRange::forever(0..u64::MAX)));
        run.write(0, 21);
        run.array.process().unwrap().resume();
        run.settle();
        run.judge(&level.to_string());
    }
}

#[test]
fn a_replacement_that_fails_is_on_record_before_what_it_missed_is_acknowledged() {
    for (level, members) in LEVELS {
        let run = Replaced::new(level, members);
        run.begin().unwrap();
        run.copy_a_part();
        let mut run = run.again();
        let spare = run.world.ids[run.spare];
        run.pause();
        run.world.bench.afflict(spare, |faults| faults.unwritable.push(BadRange::forever(0..u64::MAX)));
        run.write(0, 31);
        assert_eq!((run.array.state(ROLE), run.array.detail().degraded), (RoleState::InSync, 0), "{level}");
        // The power goes: what the array says of the device is all there is.
        run.world.bench.cut_power();
        drop(run.array);
        let world = run.world.restart(10);
        let assembly = world.assembly().unwrap();
        let usage = assembly.devices[run.spare].usage;
        assert!(matches!(usage, DeviceUse::LeftOut { .. }), "{level}: {usage:?}");
        assert!(assembly.degraded().is_empty(), "{level}");
    }
}

#[test]
fn a_copy_begins_anew_where_writes_were_under_way_when_the_power_went() {
    let run = Replaced::new(Level::Raid5, 3);
    run.begin().unwrap();
    run.copy_a_part();
    let mut run = run.again();
    run.pause();
    run.write(0, 41);
    run.world.bench.cut_power();
    drop(run.array);
    let world = run.world.restart(10);
    let assembly = world.assembly().unwrap();
    assert!(!assembly.is_clean());
    assert_eq!(assembly.devices[run.spare].usage, DeviceUse::Replacement { role: ROLE, upto: 0 });
}

#[test]
fn metadata_that_can_not_say_it_is_told_so() {
    let shape = Shape { spares: 1, ..Shape::new(Level::Raid5, 3) };
    let world = World::in_sim(&shape.metadata(Version::V0_90(Endian::Little), 0), Model::nvme(), 7);
    let array = world.open();
    let before = world.superblocks();
    let begun = world.io.block_on(array.replace(world.ids[1], world.ids[3]));
    assert_eq!((begun, world.superblocks()), (Err(VolumeError::Unsupported), before));
    assert_eq!(world.io.block_on(array.replace(world.ids[3], world.ids[1])), Err(VolumeError::Unsupported));
}
