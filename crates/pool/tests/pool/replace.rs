//! A member that is still there is copied to the device that takes its place, and answers until then.

use brindle_format::pool::{LABEL, second_label};
use brindle_io::sim::{BadRange, Lasts, Model, Sim};
use brindle_io::sync::{Either, race};
use brindle_io::{Duration, Io, MemberId};
use brindle_pool::{How, MemberError, Pool, PoolEvent, Replacement, choose, look};
use brindle_testkit::pools::house::{Kind, MEMBER};
use uuid::Uuid;

use super::members::{BLOCKS, holds, is_sound, made, opened, out, reads, resilvered, write, write_all};
use super::resilver::{KINDS, NEW, patient, replacement, with, written};

/// Waits until a copy is under way.
async fn copying(io: &Io, pool: &Pool) {
    while !pool.status().busy.resilvering {
        io.sleep(Duration::from_micros(50)).await;
    }
}

#[test]
fn a_member_in_use_is_replaced_while_clients_write() {
    for kind in KINDS {
        let (sim, mut house) = made(71, kind);
        let new = sim.add_blank_drive(Model::sata_ssd(), MEMBER + (8 << 10));
        with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            write_all(io, &pool, 2).await;
            pool.flush().await.expect("flushed");
            let (copied, going) = (pool.clone(), pool.clone());
            let task = io.spawn(async move { copied.replace(1, replacement(new)).await });
            let (mut seen, volume) = (false, going.volume("one").expect("it is there"));
            for block in 0..BLOCKS {
                write(io, &volume, block, 3).await.expect("written");
                seen |= going.status().busy.resilvering && out(&going).is_empty();
            }
            task.await.expect("it is replaced");
            assert!(seen, "{kind:?}: it is in use while it is copied");
            resilvered(io, &pool).await;
            let status = pool.status();
            assert_eq!((status.members[1].device, out(&pool).len()), (Some(new), 0), "{kind:?}");
            assert_eq!(pool.label().members[1].id, NEW);
            is_sound(&pool).await;
            holds(io, &pool, &[3]).await;
            pool.stop().await.expect("stopped");
        });
        house.ids[1] = new;
        with(&sim.restart(5), async |io| {
            let pool = opened(io, &house, &[0], How::degraded(5)).await.expect("another is lost");
            holds(io, &pool, &[3]).await;
        });
    }
}

/// Nothing of what a device was before is found by those who look for superblocks, file systems or tables of partitions.
#[test]
fn a_newcomer_keeps_nothing_of_what_it_was_and_neither_does_a_spare_that_leaves() {
    let (sim, house) = made(76, Kind::Raidz(1, 3));
    let [new, spare] = [0, 1].map(|_| sim.add_blank_drive(Model::sata_ssd(), MEMBER));
    // ext4, md of 1.2, ZFS, md of 0.90 and 1.0, a backup of a table.
    let signs = [1 << 10, 4 << 10, 16 << 10, MEMBER - (256 << 10), MEMBER - (64 << 10), MEMBER - 512];
    let kept = |id| signs.iter().any(|&at| peeked(&sim, id, at) == [0x5a; 512]);
    for id in [new, spare] {
        signs.iter().for_each(|&at| sim.poke(id, at, &[0x5a; 512]));
    }
    assert!(kept(new) && kept(spare));
    with(&sim, async |io| {
        let pool = patient(io, &house, &[], 2).await;
        write_all(io, &pool, 2).await;
        pool.replace(1, replacement(new)).await.expect("it is replaced");
        resilvered(io, &pool).await;
        let device = Replacement { name: "spare".to_owned(), id: spare, uuid: Uuid::from_u128(9) };
        pool.add_spare(device).await.expect("a spare");
        assert_ne!(peeked(&sim, spare, LABEL), [0; 512], "it has a label");
        let number = pool.status().members.iter().position(|member| member.is_spare).expect("it is there");
        assert!(!kept(new) && !kept(spare));
        pool.detach(number as u16).await.expect("it leaves");
        assert!([LABEL, second_label(MEMBER)].iter().all(|&at| peeked(&sim, spare, at) == [0; 512]));
        holds(io, &pool, &[2]).await;
        pool.stop().await.expect("stopped");
    });
}

fn peeked(sim: &Sim, id: MemberId, at: u64) -> [u8; 512] {
    let mut bytes = [0; 512];
    sim.peek(id, at, &mut bytes);
    bytes
}

/// All that others have lost in places is copied from the member that goes.
#[test]
fn places_that_others_lost_are_copied_from_the_member_that_goes() {
    for kind in [Kind::Raidz(1, 3), Kind::Mirror(2)] {
        let (sim, house) = made(72, kind);
        let new = sim.add_blank_drive(Model::sata_ssd(), MEMBER);
        with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            write_all(io, &pool, 2).await;
            pool.flush().await.expect("flushed");
            for at in (64..MEMBER >> 16).map(|n| n << 16) {
                let range = at..at + (8 << 10);
                sim.afflict(house.ids[0], |faults| {
                    faults.unreadable.push(BadRange { range: range.clone(), lasts: Lasts::UntilWritten });
                });
            }
            pool.replace(1, replacement(new)).await.expect("it is replaced");
            resilvered(io, &pool).await;
            reads(io, &pool, &[2]).await;
            let damage = pool.status().damage;
            assert!(damage.found > 0 && damage.lost == 0, "{kind:?}: {damage:?}");
            pool.stop().await.expect("stopped");
        });
    }
}

#[test]
fn a_device_that_dies_while_it_is_written_leaves_the_member_in_use() {
    let (sim, house) = made(73, Kind::Raidz(1, 3));
    let new = sim.add_blank_drive(Model::sata_ssd(), MEMBER);
    with(&sim, async |io| {
        let pool = patient(io, &house, &[], 2).await;
        write_all(io, &pool, 2).await;
        pool.flush().await.expect("flushed");
        let copied = pool.clone();
        let task = io.spawn(async move { copied.replace(1, replacement(new)).await });
        copying(io, &pool).await;
        sim.afflict(new, |faults| faults.gone = true);
        let refused = task.await;
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!((out(&pool).len(), pool.label().successors().count()), (0, 0));
        assert!(pool.events(0).iter().any(|event| event.kind == PoolEvent::NotReplaced));
        pool.fail(0).await.expect("nothing was lost by it");
        holds(io, &pool, &[2]).await;
        pool.stop().await.expect("stopped");
    });
}

/// A stop waits for nothing that only another order would bring.
#[test]
fn a_pool_that_stops_while_a_member_is_copied_keeps_the_member() {
    for kind in [Kind::Raidz(1, 3), Kind::Mirror(2)] {
        let (sim, house) = made(74, kind);
        let new = sim.add_blank_drive(Model::sata_ssd(), MEMBER);
        with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            write_all(io, &pool, 2).await;
            let copied = pool.clone();
            let task = io.spawn(async move { copied.replace(1, replacement(new)).await });
            copying(io, &pool).await;
            let stopped = race(pool.stop(), io.sleep(Duration::from_secs(60))).await;
            assert!(matches!(stopped, Either::First(Ok(()))), "{kind:?}: {stopped:?}");
            assert!(task.await.is_err());
        });
        with(&sim.restart(5), async |io| {
            let pool = opened(io, &house, &[], How::writing(4)).await.expect("nothing has left");
            assert!(out(&pool).is_empty());
            holds(io, &pool, &[2]).await;
        });
    }
}

/// The identity of the member that is replaced.
const OLD: Uuid = Uuid::from_u128(2);
/// Bytes of both ends of a device that are cleared, and of its labels.
const CLEARED: u64 = (1 << 20) + (32 << 10);

/// Bytes that a device is given which takes a member's place without a break, but for what is cleared.
fn copied_at_once(kind: Kind) -> u64 {
    let (sim, house) = made(77, kind);
    let new = sim.add_blank_drive(Model::sata_ssd(), MEMBER);
    with(&sim, async |io| {
        let pool = patient(io, &house, &[], 2).await;
        write_all(io, &pool, 2).await;
        pool.checkpoint().await.expect("written");
        pool.replace(1, replacement(new)).await.expect("it is replaced");
        let all = written(io, new) - CLEARED;
        pool.stop().await.expect("stopped");
        all
    })
}

/// An opening goes on with a copy where the one before was, also if one between them did without the device, and wrote.
#[test]
fn a_copy_goes_on_with_the_segments_that_are_left() {
    for (kind, without) in
        [(Kind::Raidz(1, 3), false), (Kind::Raidz(2, 5), true), (Kind::Mirror(2), false), (Kind::Two, true)]
    {
        let (sim, mut house) = made(77, kind);
        let new = sim.add_blank_drive(Model::sata_ssd(), MEMBER);
        let first = with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            write_all(io, &pool, 2).await;
            pool.checkpoint().await.expect("written");
            let copied = pool.clone();
            let task = io.spawn(async move { copied.replace(1, replacement(new)).await });
            let begin = written(io, new);
            while written(io, new) < begin + CLEARED + (200 << 10) {
                io.sleep(Duration::from_micros(20)).await;
                assert_eq!(pool.label().members[1].id, OLD, "{kind:?}: {} bytes", written(io, new) - begin);
            }
            pool.stop().await.expect("stopped");
            assert!(task.await.is_err(), "{kind:?}: it was not done yet");
            written(io, new) - CLEARED
        });
        let mut sim = sim.restart(5);
        if without {
            with(&sim, async |io| {
                let pool = opened(io, &house, &[], How::writing(3)).await.expect("nothing has left");
                let volume = pool.volume("one").expect("it is there");
                for block in (0..BLOCKS).step_by(3) {
                    write(io, &volume, block, 2).await.expect("written");
                }
                pool.stop().await.expect("stopped");
            });
            sim = sim.restart(6);
        }
        house.ids.push(new);
        let second = with(&sim, async |io| {
            let pool = opened(io, &house, &[], How::writing(4)).await.expect("nothing has left");
            while pool.label().successors().count() > 0 {
                io.sleep(Duration::from_micros(50)).await;
            }
            assert_eq!(pool.label().members[1].id, NEW, "{kind:?}: {:?}", pool.events(0));
            let own = written(io, new);
            resilvered(io, &pool).await;
            is_sound(&pool).await;
            holds(io, &pool, &[2]).await;
            assert!(pool.events(0).iter().any(|event| event.kind == PoolEvent::MemberReplaced), "{kind:?}");
            assert_eq!((pool.status().members[1].device, pool.label().successors().count()), (Some(new), 0));
            pool.stop().await.expect("stopped");
            own
        });
        house.ids.remove(1);
        with(&sim.restart(7), async |io| {
            let pool = opened(io, &house, &[], How::writing(5)).await.expect("it needs the other no more");
            assert!(out(&pool).is_empty(), "{kind:?}");
            holds(io, &pool, &[2]).await;
        });
        let whole = copied_at_once(kind);
        assert!(without || second + first / 2 < whole, "{kind:?}: {first} bytes, then {second} of {whole}");
    }
}

/// A successor is taken off by order while it is given a copy, and its device can be used again.
#[test]
fn a_copy_ends_by_order() {
    let (sim, house) = made(78, Kind::Raidz(1, 3));
    let [new, other] = [0, 1].map(|_| sim.add_blank_drive(Model::sata_ssd(), MEMBER));
    with(&sim, async |io| {
        let pool = patient(io, &house, &[], 2).await;
        write_all(io, &pool, 2).await;
        let copied = pool.clone();
        let task = io.spawn(async move { copied.replace(1, replacement(new)).await });
        copying(io, &pool).await;
        let (number, role) = pool.label().successors().next().expect("it is on record");
        assert_eq!((role, pool.status().members[usize::from(number)].succeeds), ((0, 1), Some(1)));
        pool.detach(number).await.expect("it leaves");
        assert!(task.await.is_err());
        assert!(out(&pool).is_empty() && pool.label().successors().count() == 0);
        let with = Replacement { name: "another".to_owned(), id: other, uuid: Uuid::from_u128(77) };
        pool.replace(1, with).await.expect("it is replaced");
        resilvered(io, &pool).await;
        is_sound(&pool).await;
        holds(io, &pool, &[2]).await;
        pool.stop().await.expect("stopped");
    });
}

/// A crash left a change of the config to one device alone. The others went on from the config before, and gave its role to another.
#[test]
fn a_device_that_was_replaced_is_of_the_past_though_its_config_has_a_number_of_today() {
    let (sim, house) = made(77, Kind::Mirror(2));
    let new = sim.add_blank_drive(Model::sata_ssd(), MEMBER);
    with(&sim, async |io| {
        let mut former = look(io, "the former one", house.ids[1]).await.expect("a member");
        let pool = patient(io, &house, &[], 2).await;
        pool.fail(1).await.expect("it can do without");
        pool.replace(1, replacement(new)).await.expect("it is replaced");
        resilvered(io, &pool).await;
        pool.stop().await.expect("stopped");
        let mut looked = Vec::new();
        for id in [house.ids[0], new] {
            looked.push(look(io, "a member", id).await.expect("a member"));
        }
        let generation = looked[0].label.generation;
        let head = former.head.as_mut().expect("it was in use");
        assert!(former.label.generation < generation && head.opening == 1);
        (former.label.generation, head.config.generation) = (generation, generation);
        looked.push(former);
        let chosen = choose(&looked, None).expect("one state is believed");
        assert_eq!(chosen.members, [Some(house.ids[0]), Some(new)]);
        assert!(chosen.missing.is_empty() && chosen.returning.is_empty(), "{chosen:?}");
    });
}

#[test]
fn changes_of_one_member_do_not_overlap() {
    let (sim, house) = made(75, Kind::Raidz(2, 5));
    let new = [0, 1].map(|_| sim.add_blank_drive(Model::sata_ssd(), MEMBER));
    with(&sim, async |io| {
        let pool = patient(io, &house, &[], 2).await;
        write_all(io, &pool, 2).await;
        let copied = pool.clone();
        let task = io.spawn(async move { copied.replace(1, replacement(new[0])).await });
        copying(io, &pool).await;
        let twice = pool.replace(1, replacement(new[1])).await;
        assert!(matches!(twice, Err(MemberError::Changing(_))), "{twice:?}");
        let offline = pool.offline(1).await;
        assert!(matches!(offline, Err(MemberError::Changing(_))), "{offline:?}");
        // Another one leaves and comes back meanwhile, and is resilvered all the same.
        pool.offline(2).await.expect("two may be lost");
        write_all(io, &pool, 3).await;
        pool.online(Some(2), "its device", house.ids[2]).await.expect("it comes back");
        task.await.expect("it is replaced");
        resilvered(io, &pool).await;
        is_sound(&pool).await;
        holds(io, &pool, &[3]).await;
        pool.stop().await.expect("stopped");
    });
}
