//! Labels that are damaged: a pool does with the others, names them, and an opening for writing writes them anew.

use brindle_format::pool::{CONFIG_BYTES, CONFIGS, LABEL, Label, PoolError, checksum, second_label};
use brindle_io::sim::{Model, Sim};
use brindle_io::{Io, MemberId};
use brindle_pool::{Chosen, How, PoolOpenError, Replacement, choose, look, open_chosen};
use brindle_testkit::pools::house::{House, Kind, MEMBER};
use uuid::Uuid;

fn config_of(sim: &Sim, id: MemberId, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; CONFIG_BYTES];
    sim.peek(id, at, &mut bytes);
    bytes
}

async fn chosen(io: &Io, house: &House) -> Chosen {
    let mut looked = Vec::new();
    for &id in &house.ids {
        looked.push(look(io, "a member", id).await.expect("one label is enough"));
    }
    choose(&looked, None).expect("all are there")
}

async fn damaged(io: &Io, house: &House) -> Vec<(MemberId, u64)> {
    let wrong = chosen(io, house).await.wrong;
    assert!(wrong.iter().all(|label| label.damaged));
    wrong.into_iter().map(|label| (label.id, label.at)).collect()
}

async fn open(io: &Io, house: &House, how: How) {
    let chosen = chosen(io, house).await;
    let (pool, recovered) = open_chosen(io, chosen, how, house.config()).await.expect("it opens");
    assert_eq!(recovered.lost, 0);
    pool.stop().await.expect("stopped");
}

#[test]
fn damaged_labels_are_named_and_written_anew_by_an_opening_for_writing_alone() {
    let places = [LABEL, second_label(MEMBER)];
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let sim = Sim::new(11);
        let house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(house.create(&io));
        io.block_on(async {
            assert_eq!(damaged(&io, &house).await, []);
            let sound: Vec<Vec<u8>> = house.ids.iter().map(|&id| config_of(&sim, id, LABEL)).collect();
            // The whole label with its ring, and a bit of the config.
            sim.poke(house.ids[0], places[first], &[0x5a; 200 << 10]);
            sim.poke(house.ids[2], places[second] + 600, &[sound[2][600] ^ 1]);
            let told = [(house.ids[0], places[first]), (house.ids[2], places[second])];
            assert_eq!(damaged(&io, &house).await, told);
            open(&io, &house, How::ReadOnly).await;
            assert_eq!(damaged(&io, &house).await, told, "reading changes nothing");
            open(&io, &house, How::writing(7)).await;
            assert_eq!(damaged(&io, &house).await, []);
            for (&id, sound) in house.ids.iter().zip(&sound) {
                assert!(places.iter().all(|&at| config_of(&sim, id, at) == *sound));
            }
            // Either label alone is enough, with all that was written since.
            sim.poke(house.ids[0], places[1 - first], &[0xa5; 200 << 10]);
            open(&io, &house, How::ReadOnly).await;
        });
        io.shutdown();
    }
}

#[test]
fn a_device_that_is_smaller_than_it_was_is_named() {
    let sim = Sim::new(12);
    let house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let small = sim.add_blank_drive(Model::sata_ssd(), MEMBER / 2);
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(house.create(&io));
    let mut bytes = vec![0; 224 << 10];
    sim.peek(house.ids[1], LABEL, &mut bytes);
    sim.poke(small, LABEL, &bytes);
    let looked = io.block_on(look(&io, "small", small));
    let (have, need) = (MEMBER / 2, MEMBER);
    assert_eq!(looked.err(), Some(PoolOpenError::TooSmall { device: "small".into(), have, need }));
    io.shutdown();
}

/// A change to a later version was cut, and the first places of both labels are damaged.
#[test]
fn a_config_of_another_version_is_told_in_whatever_place_it_stands() {
    let sim = Sim::new(13);
    let house = House::new(Kind::Plain(1), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let (io, id) = (Io::new(Box::new(sim.clone())), house.ids[0]);
    io.block_on(house.create(&io));
    let mut later = config_of(&sim, id, LABEL);
    later[8..16].copy_from_slice(&[0, 0, 0, 0, 3, 0, 0, 0]);
    let sum = checksum(&later);
    later[8..12].copy_from_slice(&sum.to_le_bytes());
    for at in [LABEL, second_label(MEMBER)] {
        sim.poke(id, at + 600, &[0x5a; 8]);
    }
    let damaged = io.block_on(look(&io, "one", id)).expect_err("it has no config");
    assert!(matches!(damaged, PoolOpenError::NoLabel { .. }), "{damaged}");
    sim.poke(id, second_label(MEMBER) + CONFIGS[1], &later);
    let why = io.block_on(look(&io, "one", id)).expect_err("it has none that is read");
    let error = PoolError::Version { what: "label", version: 3 };
    assert_eq!(why, PoolOpenError::OtherVersion { device: "one".to_owned(), error });
    let read = |at| {
        let mut bytes = vec![0; 224 << 10];
        sim.peek(id, at, &mut bytes);
        Some(bytes)
    };
    assert!(brindle_pool::pools_named(MEMBER, read).into_iter().eq([house.spec().id]));
    io.shutdown();
}

/// It lied when its past was taken away, and the power went before an uberblock named the config by which it is a member.
#[test]
fn a_newcomer_that_kept_an_uberblock_and_was_never_named_is_left_out() {
    let sim = Sim::new(14);
    let house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let new = sim.add_blank_drive(Model::sata_ssd(), MEMBER);
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(house.create(&io));
    let mut config = Label::parse(&config_of(&sim, house.ids[1], LABEL)).expect("a config");
    config.generation += 1;
    config.members[1].id = Uuid::from_u128(0xfeed);
    for at in [LABEL, second_label(MEMBER)] {
        let mut bytes = vec![0; 224 << 10];
        sim.peek(house.ids[1], at, &mut bytes);
        sim.poke(new, at, &bytes);
        sim.poke(new, at + CONFIGS[0], &config.encode().expect("it has room"));
    }
    let looked = [house.ids[0], new, house.ids[2]].map(|id| io.block_on(look(&io, "a member", id)));
    let chosen = choose(&looked.map(|one| one.expect("it has labels")), None).expect("one may be lost");
    assert_eq!(chosen.members, [Some(house.ids[0]), None, Some(house.ids[2])]);
    assert_eq!(chosen.missing, [1]);
    io.shutdown();
}

/// The power went while an opening wrote its first uberblock, which one member alone got. Another device has that member's place since.
#[test]
fn a_device_that_was_replaced_decides_nothing_when_it_is_back() {
    let sim = Sim::new(15);
    let mut house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let new = sim.add_blank_drive(Model::sata_ssd(), MEMBER);
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(house.create(&io));
    let ends = [LABEL, second_label(MEMBER)];
    let kept = |id: MemberId| {
        let label = |at| {
            let mut bytes = vec![0; 224 << 10];
            sim.peek(id, at, &mut bytes);
            bytes
        };
        ends.map(label)
    };
    let before = [1, 2].map(|member| kept(house.ids[member]));
    io.block_on(open(&io, &house, How::writing(7)));
    // The others have nothing of that opening, and go another way, without it.
    for (member, labels) in (1..).zip(&before) {
        ends.iter().zip(labels).for_each(|(&at, label)| sim.poke(house.ids[member], at, label));
    }
    let old = core::mem::replace(&mut house.ids[0], new);
    io.block_on(async {
        let mut looked = Vec::new();
        for &id in &house.ids[1..] {
            looked.push(look(&io, "a member", id).await.expect("it has labels"));
        }
        let chosen = choose(&looked, None).expect("one may be lost");
        let (pool, _) =
            open_chosen(&io, chosen, How::degraded(9), house.config()).await.expect("it opens without");
        let with = Replacement { name: "new".to_owned(), id: new, uuid: Uuid::from_u128(0xbeef) };
        pool.replace(0, with).await.expect("it is replaced");
        pool.stop().await.expect("stopped");
    });
    house.ids.push(old);
    let chosen = io.block_on(chosen(&io, &house));
    assert_eq!(chosen.members, [Some(new), Some(house.ids[1]), Some(house.ids[2])]);
    io.shutdown();
}
