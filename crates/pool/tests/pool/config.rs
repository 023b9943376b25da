//! Changes of the config: a cut anywhere leaves the old one or the new one, a member that missed one gets it, and configs that can't be of one
//! pool's past are refused by name.

use brindle_format::pool::{
    BLOCK, CONFIG_BYTES, CONFIGS, LABEL, Label, MemberState, PoolError, RING, RING_SLOTS, Run, Uberblock,
    second_label,
};
use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Io, MemberId};
use brindle_pool::{How, PoolOpenError, choose, look};
use brindle_testkit::pools::house::{House, Kind, MEMBER};
use brindle_testkit::pools::reader;
use brindle_volume::Volume;
use proptest::prelude::*;

pub(super) fn built(kind: Kind, seed: u64) -> (Sim, House) {
    let sim = Sim::new(seed);
    let house = House::new(kind, |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(house.create(&io));
    io.shutdown();
    (sim.restart(seed), house)
}

pub(super) fn with<T>(sim: &Sim, work: impl AsyncFnOnce(&Io) -> T) -> T {
    let io = Io::new(Box::new(sim.clone()));
    let done = io.block_on(work(&io));
    io.shutdown();
    done
}

pub(super) fn bytes_of(sim: &Sim, id: MemberId, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    sim.peek(id, at, &mut bytes);
    bytes
}

pub(super) fn config_of(sim: &Sim, id: MemberId, label: usize, place: usize) -> Result<Label, PoolError> {
    let at = [LABEL, second_label(MEMBER)][label] + CONFIGS[place];
    Label::parse(&bytes_of(sim, id, at, CONFIG_BYTES))
}

/// The name that the second reader finds.
pub(super) fn name_read(
    sim: &Sim,
    house: &House,
    there: impl Fn(usize) -> bool,
) -> Result<(String, u64), String> {
    let peek = |device: usize, at: u64| there(device).then(|| bytes_of(sim, house.ids[device], at, BLOCK));
    reader::read(&vec![MEMBER; house.ids.len()], &peek).map(|content| content.name)
}

pub(super) async fn opened_as(
    io: &Io,
    house: &House,
    ids: &[MemberId],
    how: How,
) -> Result<String, PoolOpenError> {
    let (pool, _) = brindle_pool::open(io, ids, how, None, house.config()).await?;
    let name = pool.label().name.clone();
    pool.stop().await.expect("stopped");
    Ok(name)
}

#[test]
fn a_change_rests_in_the_first_places_of_both_labels_of_all_members() {
    let (sim, house) = built(Kind::Raidz(1, 3), 1);
    for (generation, name) in [(2, "a"), (3, "b"), (4, "c")] {
        with(&sim, async |io| {
            let pool = house.open(io, generation).await;
            pool.rename(name).await.expect("renamed");
            assert_eq!(pool.label().name, name);
            let told = pool.events(0).iter().any(|event| event.label.as_deref() == Some(name));
            assert!(told, "{:?}", pool.events(0));
            pool.stop().await.expect("stopped");
        });
        for (member, &id) in house.ids.iter().enumerate() {
            for label in [0, 1] {
                let config = config_of(&sim, id, label, 0).expect("a config");
                let found = (config.generation, config.name.as_str(), usize::from(config.member));
                assert_eq!(found, (generation, name, member));
            }
        }
        assert_eq!(name_read(&sim, &house, |_| true), Ok((name.to_owned(), generation)));
    }
}

/// Every step of a change, of each kind of pool: the second reader agrees with the engine, each member alone with those that it needs has it,
/// and the name stays.
#[test]
fn a_cut_anywhere_leaves_the_old_config_or_the_new_one() {
    for (kind, few) in [(Kind::Raidz(1, 3), 2), (Kind::Plain(1), 1), (Kind::Mirror(2), 1)] {
        let mut names = Vec::new();
        for step in 0.. {
            let (sim, house) = built(kind, step);
            let io = Io::new(Box::new(sim.clone()));
            let ended = io.block_on(sim.until_end(&io, async {
                let pool = house.open(&io, 2).await;
                sim.cut_power_at(When::Step(sim.steps() + step));
                pool.rename("other").await.map_err(|why| why.to_string())
            }));
            sim.cut_power();
            io.shutdown();
            let mut sim = sim.restart(step + 7);
            let (read, generation) = name_read(&sim, &house, |_| true).expect("one counts");
            assert_eq!(generation == 2, read == "other", "step {step}");
            assert!(ended.is_none() || read == "other", "step {step}: it was acknowledged");
            for number in [3, 4] {
                let ids = &house.ids;
                let name = with(&sim, async |io| opened_as(io, &house, ids, How::writing(number)).await);
                assert_eq!(name.as_deref(), Ok(read.as_str()), "step {step} of {kind:?}");
                sim = sim.restart(number);
            }
            // All of them have it by now, so that it does not matter which are left.
            let left = house.ids.len() - few..house.ids.len();
            let name = name_read(&sim, &house, |n| left.contains(&n)).expect("one counts").0;
            assert_eq!(name, read, "step {step} of {kind:?}");
            for &id in &house.ids {
                let configs = [0, 1].map(|label| config_of(&sim, id, label, 0).expect("a config"));
                assert!(configs.iter().all(|config| config.name == read), "step {step}: {configs:?}");
            }
            names.push(read);
            if ended.is_some() {
                break;
            }
        }
        let old = names.iter().filter(|name| *name == "tank").count();
        assert!(old > 3 && old + 3 < names.len(), "{names:?}");
    }
}

#[test]
fn a_member_that_missed_changes_gets_the_config_when_it_comes_back() {
    let (sim, house) = built(Kind::Raidz(1, 3), 3);
    with(&sim, async |io| {
        for (opening, name) in [(2, "a"), (3, "b")] {
            let (pool, _) = house.open_without(io, 1, How::degraded(opening)).await.expect("it opens");
            pool.rename(name).await.expect("renamed");
            pool.stop().await.expect("stopped");
        }
    });
    assert_eq!(config_of(&sim, house.ids[0], 0, 0).map(|config| config.name), Ok("tank".to_owned()));
    let name = with(&sim, async |io| opened_as(io, &house, &house.ids, How::ReadOnly).await);
    assert_eq!(name, Ok("b".to_owned()), "whichever was named first");
    assert_eq!(config_of(&sim, house.ids[0], 0, 0).map(|config| config.name), Ok("tank".to_owned()));
    // It has little to catch up with, so that it is taken again.
    let name = with(&sim, async |io| opened_as(io, &house, &house.ids, How::writing(4)).await);
    assert_eq!(name, Ok("b".to_owned()));
    let read = name_read(&sim, &house, |n| n != 1);
    assert_eq!(read, Ok(("b".to_owned(), 3)));
    for label in [0, 1] {
        assert_eq!(config_of(&sim, house.ids[0], label, 0).map(|config| config.name), Ok("b".to_owned()));
    }
}

/// Changes a config and makes its checksum right.
fn forge(sim: &Sim, id: MemberId, places: &[(usize, usize)], change: impl Fn(&mut Label)) {
    for &(label, place) in places {
        let mut config = config_of(sim, id, label, 0).expect("a config");
        change(&mut config);
        let at = [LABEL, second_label(MEMBER)][label] + CONFIGS[place];
        sim.poke(id, at, &config.encode().expect("it fits"));
    }
}

const BOTH: [(usize, usize); 2] = [(0, 0), (1, 0)];

#[test]
fn configs_that_contradict_each_other_are_refused_by_name_and_nothing_is_changed() {
    type Change = fn(&Sim, &House);
    let cases: [(&str, Change); 8] = [
        ("it names another member", |sim, house| {
            forge(sim, house.ids[1], &BOTH, |label| label.members[1].id = uuid::Uuid::from_u128(77));
        }),
        ("two that name each other's members", |sim, house| {
            forge(sim, house.ids[1], &BOTH, |label| {
                let (one, other) = (label.members[1].id, label.members[2].id);
                (label.members[1].id, label.members[2].id) = (other, one);
            });
        }),
        ("the same generation says something else", |sim, house| {
            forge(sim, house.ids[1], &BOTH, |label| label.name = "other".to_owned());
        }),
        ("one rests that no uberblock has named", |sim, house| {
            forge(sim, house.ids[1], &BOTH, |label| {
                label.generation = 2;
                label.name = "other".to_owned();
            });
        }),
        ("its labels name two members", |sim, house| {
            forge(sim, house.ids[1], &BOTH[1..], |label| label.member = 2);
        }),
        ("its labels are of two pools", |sim, house| {
            forge(sim, house.ids[1], &BOTH[1..], |label| label.pool = uuid::Uuid::from_u128(78));
        }),
        ("nobody has the config that counts", |sim, house| {
            for &id in &house.ids {
                forge(sim, id, &BOTH, |label| label.created += 1);
            }
        }),
        ("a role of rows that no member has", |sim, house| {
            for &id in &house.ids {
                forge(sim, id, &BOTH, |label| label.members[1].state = MemberState::Gone);
            }
        }),
    ];
    let mut told = Vec::new();
    for (what, change) in cases {
        let (sim, house) = built(Kind::Raidz(1, 3), 4);
        change(&sim, &house);
        let before: Vec<Vec<u8>> =
            house.ids.iter().map(|&id| bytes_of(&sim, id, 0, MEMBER as usize)).collect();
        let opened = with(&sim, async |io| opened_as(io, &house, &house.ids, How::degraded(3)).await);
        let why = opened.expect_err(what).to_string();
        let after = house.ids.iter().map(|&id| bytes_of(&sim, id, 0, MEMBER as usize));
        assert!(after.eq(before), "{what}: something was written");
        told.push(why);
    }
    let second = house_device(1);
    let otherwise = format!("{second}: its label says something else of the pool");
    for (why, expected) in told.iter().zip([
        otherwise.as_str(),
        &otherwise,
        &otherwise,
        &otherwise,
        "the labels of a device name different pools or members",
        "the labels of a device name different pools or members",
        "the pool's config of generation 1 counts, and is on none of these devices",
        "label has the impossible value 1 in role",
    ]) {
        assert!(why.contains(expected), "{told:#?}");
    }
}

fn house_device(n: usize) -> String {
    let (_, house) = built(Kind::Raidz(1, 3), 4);
    format!("device {}", house.ids[n].index())
}

/// Changes all uberblocks of all rings.
pub(super) fn rename_in_rings(sim: &Sim, house: &House, change: impl Fn(&mut Uberblock)) {
    let pool = house.spec().id;
    for &id in &house.ids {
        for label in [LABEL, second_label(MEMBER)] {
            for at in (0..RING_SLOTS).map(|n| label + RING + n * BLOCK as u64) {
                if let Ok(mut uberblock) = Uberblock::parse(&bytes_of(sim, id, at, BLOCK), pool) {
                    change(&mut uberblock);
                    sim.poke(id, at, &uberblock.encode().expect("it fits"));
                }
            }
        }
    }
}

/// The config of a pool of two vdevs whose members and segments take turns: one member is gone, the later units of each vdev come first, and numbers
/// of segments are left out.
fn unlike(house: &House, order: &[usize]) -> Label {
    let mut label = brindle_pool::plan(&house.spec()).expect("a pool that can be");
    let mut gone = label.members[0];
    (gone.id, gone.role, gone.state) = (uuid::Uuid::from_u128(99), None, MemberState::Gone);
    let all = label.members.clone();
    label.members = order.iter().map(|&n| all.get(n).copied().unwrap_or(gone)).collect();
    let (units, gap) = (label.runs[0].units, 37);
    let (half, rest) = (units / 2, units - units / 2);
    let run = |first_segment, first_unit, units, vdev| Run { first_segment, units, first_unit, vdev };
    let second = 2 * rest + gap;
    label.runs = vec![
        run(0, half, rest, 1),
        run(rest, half, rest, 0),
        run(second, 0, half, 0),
        run(second + half, 0, half, 1),
    ];
    label
}

#[test]
fn members_and_segments_of_a_vdev_need_not_be_numbered_next_to_each_other() {
    const BLOCKS: u64 = 600;
    let order = [3, 0, 4, 6, 1, 5, 2];
    let sim = Sim::new(5);
    let house = House::new(Kind::Two, |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let gone = sim.add_blank_drive(Model::sata_ssd(), MEMBER);
    let ids: Vec<MemberId> = order.iter().map(|&n| house.ids.get(n).copied().unwrap_or(gone)).collect();
    let content = |block: u64, round: u64| vec![(block * 7 + round) as u8 | 1; BLOCK];
    with(&sim, async |io| {
        brindle_pool::create(io, &unlike(&house, &order), 1, &ids).await.expect("made");
    });
    let open = async |io: &Io, ids: &[MemberId], how| {
        brindle_pool::open(io, ids, how, None, house.config()).await.expect("it opens").0
    };
    let mut sim = sim.restart(6);
    // Often enough that each segment has its turn.
    for round in 0..24 {
        with(&sim, async |io| {
            let pool = open(io, &ids, How::writing(2 + round)).await;
            let names: Vec<String> = pool.status().members.iter().map(|one| one.role.to_string()).collect();
            assert_eq!(names[..3], ["1.0", "0.0", "1.1"]);
            let volume = match pool.volume("one") {
                Some(volume) => volume,
                None => pool.create_volume("one", BLOCKS << 12).await.expect("room"),
            };
            let buf = io.pool(1 << 20).alloc(BLOCK).await;
            for block in 0..BLOCKS {
                buf.bytes_mut().copy_from_slice(&content(block, round));
                volume.write(block << 12, buf.all(), false).await.expect("written");
            }
            pool.stop().await.expect("stopped");
        });
        sim = sim.restart(7 + round);
    }
    for lost in [[7, 7], [1, 0], [4, 2], [6, 5]] {
        let left: Vec<MemberId> = (0..ids.len()).filter(|n| !lost.contains(n)).map(|n| ids[n]).collect();
        with(&sim, async |io| {
            let pool = open(io, &left, How::ReadOnly).await;
            let volume = pool.volume("one").expect("it is there");
            let buf = io.pool(1 << 20).alloc(BLOCK).await;
            for block in 0..BLOCKS {
                volume.read(block << 12, buf.all()).await.expect("read");
                assert!(*buf.bytes() == content(block, 23)[..], "block {block} without {lost:?}");
            }
            let checked = pool.check(|_| {}).await.expect("it can be gone over");
            assert_eq!((checked.wrong, checked.lost, checked.mismatches), (0, 0, 0));
        });
        let peek = |device: usize, at: u64| {
            left.contains(&ids[device]).then(|| bytes_of(&sim, ids[device], at, BLOCK))
        };
        let read = reader::read(&vec![MEMBER; ids.len()], &peek).expect("it is read");
        assert_eq!(read.miscounted, []);
        let (volume, _) = read.volumes["one"];
        for block in 0..BLOCKS {
            let found = read.blocks.get(&(volume, block)).cloned().flatten();
            assert!(found == Some(content(block, 23)), "block {block} without {lost:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The youngest uberblock does not depend on which configs devices have, and the config is the one that it names, wherever that stands: any
    /// place of any label of any member is enough.
    #[test]
    fn the_config_that_counts_is_found_wherever_it_stands(
        renames in 0u64..3,
        kept in proptest::collection::vec(any::<bool>(), 12),
        torn in any::<bool>(),
    ) {
        let (sim, house) = built(Kind::Raidz(1, 3), 6);
        with(&sim, async |io| {
            let pool = house.open(io, 2).await;
            for n in 0..renames {
                pool.rename(&format!("name-{n}")).await.expect("renamed");
            }
            pool.stop().await.expect("stopped");
        });
        let looked = |sim: &Sim| with(sim, async |io| {
            let mut looked = Vec::new();
            for &id in &house.ids {
                looked.push(look(io, "a member", id).await);
            }
            looked
        });
        let all: Vec<_> = looked(&sim).into_iter().map(|one| one.expect("whole")).collect();
        let whole = choose(&all, None).expect("whole");
        let mut left = 0;
        for (n, kept) in kept.iter().enumerate() {
            let (member, label, place) = (n / 4, n / 2 % 2, n % 2);
            let at = [LABEL, second_label(MEMBER)][label] + CONFIGS[place];
            let config = config_of(&sim, house.ids[member], label, place);
            let counts = config.is_ok_and(|config| config.name == whole.label.name);
            if *kept {
                left += usize::from(counts);
            } else if torn {
                sim.poke(house.ids[member], at + 5000, &[0xa5; 512]);
            } else {
                sim.poke(house.ids[member], at, &[0; CONFIG_BYTES]);
            }
        }
        let found = looked(&sim);
        for (one, before) in found.iter().zip(&all) {
            match one {
                Ok(one) => prop_assert_eq!(&one.head, &before.head),
                Err(why) => prop_assert!(matches!(why, PoolOpenError::NoLabel { .. }), "{why}"),
            }
        }
        let found: Vec<_> = found.into_iter().flatten().collect();
        match choose(&found, None) {
            Ok(chosen) => {
                prop_assert!(left > 0);
                prop_assert_eq!(chosen.head, whole.head);
                let named = Label { member: 0, ..chosen.label };
                prop_assert_eq!(named, Label { member: 0, ..whole.label });
            }
            Err(PoolOpenError::NoUberblock | PoolOpenError::NoConfig(_)) => prop_assert_eq!(left, 0),
            Err(why) => prop_assert!(false, "{why}"),
        }
    }
}
