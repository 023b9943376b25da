//! Devices that make no zeroes and discard nothing, and say so only when they are asked: as well as others, whatever seat of a
//! role they have.

use brindle_array::{Array, DeviceState, EventKind, RoleState, SyncMode};
use brindle_io::sim::{BadRange, Model, Sim};
use brindle_io::{Duration, MemberId};
use brindle_layout::Level;
use brindle_volume::{Volume, VolumeError, ZeroOptions};

use crate::common::*;

const LEVELS: [(Level, usize); 5] =
    [(Level::Raid1, 2), (Level::Raid4, 3), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 4)];
/// The role whose member is replaced.
const ROLE: u16 = 1;

struct Run {
    world: World<Sim>,
    array: Array,
    content: Vec<u8>,
}

impl Run {
    /// An array with a spare, whose members in these places are not able.
    fn new(level: Level, members: usize, unable: &[usize]) -> Self {
        let shape = Shape { rows: 64, spares: 1, ..Shape::new(level, members) };
        let world = World::in_sim(&shape, Model::nvme(), 7);
        for &device in unable {
            world.bench.afflict(world.ids[device], |faults| {
                (faults.no_write_zeroes, faults.no_discard) = (true, true);
            });
        }
        let array = world.open();
        let content = pattern(5, array.limits().size as usize);
        world.write(&array, 0, &content).unwrap();
        Self { world, array, content }
    }

    fn spare(&self) -> MemberId {
        self.world.ids[self.world.ids.len() - 1]
    }

    fn replace(&self) -> Result<(), VolumeError> {
        let old = self.world.ids[usize::from(ROLE)];
        self.world.io.block_on(self.array.replace(old, self.spare()))
    }

    fn zero(&mut self, at: usize, len: usize) {
        let zeroes = self.array.write_zeroes(at as u64, len as u64, ZeroOptions::default());
        self.world.io.block_on(zeroes).unwrap();
        self.content[at..at + len].fill(0);
    }

    fn count(&self, kind: EventKind) -> usize {
        self.array.events_since(0).iter().filter(|event| event.kind == kind).count()
    }

    /// The spare is the member, and all that is held is what was written.
    fn judge(self, who: &str) {
        self.world.io.block_on(self.array.copy_replacement(ROLE, |_| ())).unwrap();
        let detail = self.array.detail();
        assert_eq!(detail.roles[usize::from(ROLE)].device, Some(self.world.ids.len() - 1), "{who}");
        assert_eq!(detail.degraded, 0, "{who}");
        let report = self.world.io.block_on(self.array.check(SyncMode::Check, |_| ())).unwrap();
        assert_eq!(report.mismatch_sectors, 0, "{who}");
        self.world.io.block_on(self.array.fail(0)).unwrap();
        assert!(whole(&self.world, &self.array) == self.content, "{who}");
        self.world.stop(&self.array);
    }
}

/// Each device that may lack the ability: the replacement, the member that it replaces, or both.
fn each(test: impl Fn(Run, &str)) {
    for (level, members) in LEVELS {
        for unable in [vec![members], vec![usize::from(ROLE)], vec![usize::from(ROLE), members]] {
            test(Run::new(level, members, &unable), &format!("{level}, {unable:?} unable"));
        }
    }
}

#[test]
fn a_replacement_that_makes_no_zeroes_is_sent_them() {
    each(|mut run, who| {
        run.replace().unwrap();
        run.zero(0, 40_960);
        // From now on it is known.
        let fast = ZeroOptions { fast_only: true, ..ZeroOptions::default() };
        let refused = run.world.io.block_on(run.array.write_zeroes(0, 40_960, fast));
        assert_eq!(refused, Err(VolumeError::Unsupported), "{who}");
        run.zero(65_536 + 512, 30_720);
        assert_eq!(run.count(EventKind::MemberFailed), 0, "{who}");
        run.judge(who);
    });
}

#[test]
fn a_replacement_that_discards_nothing_stays() {
    each(|mut run, who| {
        run.replace().unwrap();
        run.world.io.block_on(run.array.discard(0, 40_960)).unwrap();
        assert_eq!(run.count(EventKind::MemberFailed), 0, "{who}");
        let bytes = pattern(6, 40_960);
        run.world.write(&run.array, 0, &bytes).unwrap();
        run.content[..bytes.len()].copy_from_slice(&bytes);
        run.judge(who);
    });
}

/// Zeroes that a replacement is sent one by one are there when the member fails meanwhile.
#[test]
fn a_member_may_fail_while_its_replacement_is_sent_zeroes() {
    for (level, members) in LEVELS {
        for after in (0..400).step_by(20).map(Duration::from_micros) {
            let who = format!("{level}, after {after:?}");
            let mut run = Run::new(level, members, &[members]);
            run.replace().unwrap();
            let (array, failing, io) = (run.array.clone(), run.array.clone(), run.world.io.clone());
            let zeroes = run
                .world
                .io
                .spawn(async move { array.write_zeroes(0, 40_960, ZeroOptions::default()).await });
            run.world.io.block_on(async {
                io.sleep(after).await;
                failing.fail(ROLE).await.unwrap();
                zeroes.await.unwrap();
            });
            run.content[..40_960].fill(0);
            assert_eq!(run.array.state(ROLE), RoleState::Recovering(0), "{who}");
            let spare = run.array.detail().roles[usize::from(ROLE)].device.unwrap();
            let data_offset = run.world.superblock(spare).data_offset;
            let device = brindle_array::Device { id: run.spare(), data_offset };
            run.world.io.block_on(run.array.recover(ROLE, device, |_| ())).unwrap();
            run.world.io.block_on(run.array.fail(0)).unwrap();
            assert!(whole(&run.world, &run.array) == run.content, "{who}");
        }
    }
}

/// A spare that fails before it is on record as what replaces a member: an event tells why, and it is no spare any more.
#[test]
fn a_replacement_that_fails_before_it_is_on_record_is_reported() {
    for (level, members) in LEVELS {
        let run = Run::new(level, members, &[]);
        // Its superblock can't be written any more.
        run.world.bench.afflict(run.spare(), |faults| {
            faults.unwritable.push(BadRange::forever(0..u64::MAX));
        });
        let (array, pool, bytes) = (run.array.clone(), run.world.pool.clone(), pattern(6, 16_384));
        let (old, spare) = (run.world.ids[usize::from(ROLE)], run.spare());
        // A write made meanwhile meets it first.
        let begun = run.world.io.block_on(async {
            let writing = array.clone();
            let replacing = run.world.io.spawn(async move { array.replace(old, spare).await });
            run.world.io.yield_now().await;
            write(&pool, &writing, 0, &bytes).await.unwrap();
            replacing.await
        });
        assert!(begun.is_err(), "{level}");
        let reported = run.array.events_since(0);
        let failed: Vec<_> = reported.iter().filter(|event| event.kind == EventKind::MemberFailed).collect();
        assert_eq!(failed.len(), 1, "{level}: {reported:?}");
        assert_eq!(failed[0].label.as_ref(), Some(&run.array.detail().devices[members].label), "{level}");
        assert_eq!(run.array.detail().devices[members].state, DeviceState::Failed, "{level}");
        assert!(run.array.spares().is_empty(), "{level}");
        assert_eq!(run.array.state(ROLE), RoleState::InSync, "{level}");
    }
}
