//! Spares that go from an array that needs none to one that does, and where they are whenever the power goes.

use brindle_array::assembly::{AssembleOptions, Assembly, DeviceUse, assemble};
use brindle_array::{AddError, Array, EventKind, HandOverError, RemoveError, RoleState, SyncMode};
use brindle_format::md::{Uuid, Version};
use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Io, MemberId};
use brindle_layout::Level;
use brindle_testkit::world::candidates;

use crate::common::*;

const UUID: Uuid = Uuid::from_u128(0x77);

/// Two arrays on one reactor: a RAID 5 that lacks nothing yet, and a mirror with a spare.
struct Two {
    world: World<Sim>,
    mirror: Vec<MemberId>,
    spare: MemberId,
}

impl Two {
    /// The mirror's devices have so many bytes, its spare so many.
    fn new(size: u64, spare: u64) -> Self {
        let needy = spec(Level::Raid5, 3, Version::V1_2);
        let mut giver = spec(Level::Raid1, 2, Version::V1_2);
        giver.uuid = Uuid::from_u128(0xbeef);
        giver.roles = (3..5).map(|n| Some(new_member(n, size))).collect();
        giver.spares = vec![new_member(5, spare)];
        let sim = Sim::new(7);
        let [ids, mirror] = [needy, giver].map(|spec| {
            let ids: Vec<_> =
                given(&spec).iter().map(|new| sim.add_drive(Model::nvme(), new.info.size)).collect();
            for write in planned(&spec).writes() {
                sim.poke(ids[write.device], write.offset, &write.bytes);
            }
            ids
        });
        let spare = mirror[2];
        Self { world: World::over(sim, ids, Version::V1_2), mirror, spare }
    }

    fn io(&self) -> &Io {
        &self.world.io
    }

    /// What these devices form.
    fn formed(&self, ids: &[MemberId]) -> Assembly {
        let found = self.io().block_on(candidates(self.io(), &self.world.pool, ids)).unwrap();
        assemble(&found, AssembleOptions::default()).unwrap_or_else(|error| panic!("{ids:?}: {error}"))
    }

    /// The RAID 5, and the mirror.
    fn open(&self) -> (Array, Array) {
        let mirror = self.formed(&self.mirror);
        let mirror = self.io().block_on(Array::open(self.io(), mirror, &self.mirror, patient())).unwrap();
        (self.world.open(), mirror)
    }

    /// The array that the spare says it belongs to, and that is one of its devices by all that its members know: `None` if it
    /// can't be told whose it is.
    fn owner(&self) -> Option<Uuid> {
        let found = self.io().block_on(candidates(self.io(), &self.world.pool, &[self.spare])).unwrap();
        let uuid = found[0].superblock().ok().map(|(superblock, _)| superblock.set_uuid)?;
        let members = if uuid == UUID_OF_NEEDY { &self.world.ids } else { &self.mirror[..2].to_vec() };
        let all: Vec<_> = members.iter().copied().chain([self.spare]).collect();
        match self.formed(&all).devices.pop().unwrap().usage {
            DeviceUse::Spare => Some(uuid),
            DeviceUse::LeftOut { .. } => None,
            usage => panic!("{usage:?} of {uuid:?}"),
        }
    }
}

/// As [`spec`] has it.
const UUID_OF_NEEDY: Uuid = Uuid::from_u128(0xabcd);

#[test]
fn a_spare_goes_to_the_array_that_lacks_a_member_and_makes_it_whole() {
    let two = Two::new(8 * MIB, 9 * MIB);
    let (needy, giver) = two.open();
    let content = pattern(1, 1 << 20);
    two.world.write(&needy, 0, &content).unwrap();
    assert!(!needy.lacks_a_spare() && !giver.lacks_a_spare());
    assert_eq!((giver.spares_to_give(), needy.spares_to_give()), (vec![two.spare], vec![]));
    two.io().block_on(needy.fail(1)).unwrap();
    assert!(needy.lacks_a_spare() && needy.has_use_for(two.spare));
    two.io().block_on(giver.hand_over(two.spare, &needy, UUID)).unwrap();
    assert!(!needy.lacks_a_spare() && giver.spares_to_give().is_empty());
    assert!(giver.detail().devices.iter().all(|device| device.id != two.spare), "one array's only");
    let told = |array: &Array| {
        let last = array.events_since(0).pop().unwrap();
        (last.kind, last.label, last.role)
    };
    let label = Some(two.spare.to_string());
    assert_eq!(told(&giver), (EventKind::SpareGiven, label.clone(), None));
    assert_eq!(told(&needy), (EventKind::SpareTaken, label, None));

    two.io().block_on(needy.recover(1, needy.spares()[0], |_| ())).unwrap();
    assert_eq!(two.io().block_on(needy.check(SyncMode::Check, |_| ())).unwrap().mismatch_sectors, 0);
    two.world.bench.kill(two.world.ids[0]);
    assert!(two.world.read(&needy, 0, content.len()).unwrap() == content);
    assert_eq!(needy.state(1), RoleState::InSync);
    // What lacks a member gives nothing, and what is in use is nobody else's.
    assert!(needy.spares_to_give().is_empty());
    let refused = two.io().block_on(needy.hand_over(two.spare, &giver, UUID)).unwrap_err();
    assert!(matches!(refused, HandOverError::Remove(RemoveError::InUse { .. })), "{refused:?}");
    two.world.stop(&giver);
    assert_eq!(two.formed(&two.mirror[..2]).degraded(), [], "the mirror is what it was");
}

#[test]
fn a_spare_that_is_too_small_or_dies_on_the_way_stays_or_is_told_of() {
    let two = Two::new(4 * MIB, 4 * MIB);
    let (needy, giver) = two.open();
    two.io().block_on(needy.fail(1)).unwrap();
    assert!(needy.lacks_a_spare() && !needy.has_use_for(two.spare), "too small");
    assert!(two.io().block_on(giver.hand_over(two.spare, &needy, UUID)).is_err());
    assert_eq!(giver.spares_to_give(), [two.spare]);
    assert_eq!(two.owner(), Some(Uuid::from_u128(0xbeef)));

    let two = Two::new(8 * MIB, 8 * MIB);
    let (needy, giver) = two.open();
    two.io().block_on(needy.fail(1)).unwrap();
    two.world.bench.refuse_writes(two.spare);
    let refused = two.io().block_on(giver.hand_over(two.spare, &needy, UUID)).unwrap_err();
    assert!(matches!(refused, HandOverError::Add(AddError::Device { .. })), "{refused:?}");
    assert!(needy.lacks_a_spare() && needy.events_since(0).iter().all(|e| e.kind != EventKind::SpareTaken));
    two.world.write(&needy, 0, &pattern(2, 4096)).unwrap();
    two.world.write(&giver, 0, &pattern(3, 4096)).unwrap();
}

#[test]
fn whenever_the_power_goes_a_spare_is_one_arrays_or_none() {
    let (mut givers, mut nobodys, mut steps) = (0, 0, 0);
    loop {
        let mut two = Two::new(8 * MIB, 8 * MIB);
        let (needy, giver) = two.open();
        two.io().block_on(needy.fail(1)).unwrap();
        let sim = two.world.bench.clone();
        sim.cut_power_at(When::Step(sim.steps() + steps));
        let io = two.io().clone();
        let done = io.block_on(async {
            sim.until_end(&io, giver.hand_over(two.spare, &needy, UUID)).await.map(|handed| handed.unwrap())
        });
        drop((needy, giver));
        two.world = two.world.restart(8);
        // Either array starts without it, and one of them, at most, with it.
        assert_eq!(two.formed(&two.mirror[..2]).degraded(), [], "step {steps}");
        assert_eq!(two.formed(&two.world.ids).degraded(), [1], "step {steps}");
        match two.owner() {
            Some(UUID_OF_NEEDY) => {}
            Some(_) => {
                assert!(done.is_none(), "step {steps}");
                givers += 1;
            }
            None => {
                assert!(done.is_none(), "step {steps}");
                nobodys += 1;
            }
        }
        if done.is_some() {
            break;
        }
        steps += 1;
    }
    assert!(givers > 3 && nobodys > 3, "{givers} and {nobodys} of {steps}");
}
