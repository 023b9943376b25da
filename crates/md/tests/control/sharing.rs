//! Spares that go from an array that needs none to one that does, and where they are whenever the power goes.

use brindle_array::{AddError, Array, EventKind, RemoveError, RoleState, SyncMode};
use brindle_format::md::{Uuid, Version};
use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Io, MemberId};
use brindle_layout::Level;
use brindle_md::assembly::{AssembleOptions, Assembly, DeviceUse, assemble};
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
        giver.uuid = UUID_OF_GIVER;
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

    /// The array that these devices form.
    fn formed(&self, ids: &[MemberId]) -> Assembly {
        let found = self.io().block_on(candidates(self.io(), &self.world.pool, ids)).unwrap();
        assemble(&found, AssembleOptions::default()).unwrap_or_else(|error| panic!("{ids:?}: {error}"))
    }

    /// The RAID 5, and the mirror.
    fn open(&self) -> (Array, Array) {
        let mirror = self.formed(&self.mirror);
        let mirror =
            self.io().block_on(brindle_md::open(self.io(), mirror, &self.mirror, patient())).unwrap();
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
const UUID_OF_GIVER: Uuid = Uuid::from_u128(0xbeef);

async fn gives(giver: &Array, spare: MemberId, needy: &Array) {
    let label = giver.give_spare(spare).await.unwrap();
    needy.take_spare(spare, &label, UUID).await.unwrap();
}

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
    two.io().block_on(gives(&giver, two.spare, &needy));
    assert!(!needy.lacks_a_spare() && giver.spares_to_give().is_empty());
    assert!(giver.detail().devices.iter().all(|device| device.id != two.spare), "one array's only");
    let reported = |array: &Array| {
        let last = array.events_since(0).pop().unwrap();
        (last.kind, last.label, last.role)
    };
    let label = Some(two.spare.to_string());
    assert_eq!(reported(&giver), (EventKind::SpareGiven, label.clone(), None));
    assert_eq!(reported(&needy), (EventKind::SpareTaken, label, None));

    two.io().block_on(needy.recover(1, needy.spares()[0], |_| ())).unwrap();
    assert_eq!(two.io().block_on(needy.check(SyncMode::Check, |_| ())).unwrap().mismatch_sectors, 0);
    two.world.bench.kill(two.world.ids[0]);
    assert!(two.world.read(&needy, 0, content.len()).unwrap() == content);
    assert_eq!(needy.state(1), RoleState::InSync);
    // An array that lacks a member gives no spare away, and a device in use can't be given to another array.
    assert!(needy.spares_to_give().is_empty());
    let refused = two.io().block_on(needy.give_spare(two.spare)).unwrap_err();
    assert!(matches!(refused, RemoveError::InUse { .. }), "{refused:?}");
    two.world.stop(&giver);
    assert_eq!(two.formed(&two.mirror[..2]).degraded(), [0u16; 0], "the mirror is what it was");
}

#[test]
fn a_spare_that_is_too_small_or_dies_on_the_way_stays_or_is_reported() {
    let two = Two::new(4 * MIB, 4 * MIB);
    let (needy, giver) = two.open();
    two.io().block_on(needy.fail(1)).unwrap();
    assert!(needy.lacks_a_spare() && !needy.has_use_for(two.spare), "too small");
    assert_eq!(giver.spares_to_give(), [two.spare]);
    assert_eq!(two.owner(), Some(UUID_OF_GIVER));

    let two = Two::new(8 * MIB, 8 * MIB);
    let (needy, giver) = two.open();
    two.io().block_on(needy.fail(1)).unwrap();
    two.world.bench.refuse_writes(two.spare);
    two.io().block_on(giver.give_spare(two.spare)).unwrap();
    let refused = two.io().block_on(needy.take_spare(two.spare, "it", UUID)).unwrap_err();
    assert!(matches!(refused, AddError::Device { .. }), "{refused:?}");
    assert!(needy.lacks_a_spare() && needy.events_since(0).iter().all(|e| e.kind != EventKind::SpareTaken));
    two.world.write(&needy, 0, &pattern(2, 4096)).unwrap();
    two.world.write(&giver, 0, &pattern(3, 4096)).unwrap();
}

/// The arrays as a start finds them: the spare belongs to the one that it says.
fn reopened(two: &Two) -> (Array, Array) {
    let owner = two.owner();
    let devices = |own: &[MemberId], is_owner: bool| {
        let spare = is_owner.then_some(two.spare);
        own.iter().copied().chain(spare).collect::<Vec<_>>()
    };
    let open = |ids: Vec<MemberId>| {
        two.io().block_on(brindle_md::open(two.io(), two.formed(&ids), &ids, patient())).unwrap()
    };
    let needy = open(devices(&two.world.ids, owner == Some(UUID_OF_NEEDY)));
    (needy, open(devices(&two.mirror[..2], owner == Some(UUID_OF_GIVER))))
}

/// The spare goes where it is lacked, however far it came before; the power goes before so many steps of that are done. Gives
/// whether it has come to its end, and what the next start finds.
fn handed_over_until(mut two: Two, (needy, giver): (Array, Array), steps: u64) -> (bool, Two) {
    let (sim, io) = (two.world.bench.clone(), two.io().clone());
    let owner = two.owner();
    sim.cut_power_at(When::Step(sim.steps() + steps));
    let done = io.block_on(sim.until_end(&io, async {
        match owner {
            Some(UUID_OF_GIVER) => gives(&giver, two.spare, &needy).await,
            Some(_) => assert!(!needy.lacks_a_spare()),
            None => drop(needy.add(two.spare, "it", UUID, true).await.unwrap()),
        }
    }));
    drop((needy, giver));
    two.world = two.world.restart(8);
    // Either array starts without it, and one of them, at most, with it.
    assert_eq!(two.formed(&two.mirror[..2]).degraded(), [0u16; 0], "step {steps}");
    assert_eq!(two.formed(&two.world.ids).degraded(), [1], "step {steps}");
    let owner = two.owner();
    assert!(done.is_none() || owner == Some(UUID_OF_NEEDY), "step {steps}: {owner:?}");
    (done.is_some(), two)
}

/// The power goes before so many steps of handing a spare over are done.
fn handed_over(steps: u64) -> (bool, Two) {
    let two = Two::new(8 * MIB, 8 * MIB);
    let (needy, giver) = two.open();
    two.io().block_on(needy.fail(1)).unwrap();
    handed_over_until(two, (needy, giver), steps)
}

#[test]
fn whenever_the_power_goes_and_goes_again_a_spare_is_one_arrays_or_none() {
    let (mut givers, mut nobodys, mut again) = (0, 0, 0);
    for first in 0.. {
        let (done, two) = handed_over(first);
        if done {
            break;
        }
        match two.owner() {
            Some(UUID_OF_NEEDY) => {}
            Some(_) => givers += 1,
            None => nobodys += 1,
        }
        // And again at each step of what makes up for that.
        for second in 0.. {
            let (_, two) = handed_over(first);
            let arrays = reopened(&two);
            let (done, two) = handed_over_until(two, arrays, second);
            if done {
                assert_eq!(two.owner(), Some(UUID_OF_NEEDY), "steps {first} and {second}");
                break;
            }
            again += 1;
        }
    }
    assert!(givers > 3 && nobodys > 3 && again > 50, "{givers}, {nobodys} and {again}");
}
