//! A member that is still there is copied to the device that takes its place, and answers until then.

use brindle_io::Duration;
use brindle_io::sim::{BadRange, Lasts, Model};
use brindle_io::sync::{Either, race};
use brindle_pool::{How, MemberError, PoolEvent};
use brindle_testkit::pools::house::{Kind, MEMBER};

use super::members::{BLOCKS, holds, is_sound, made, opened, out, reads, resilvered, write, write_all};
use super::resilver::{KINDS, NEW, patient, replacement, with};

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
        let generation = pool.label().generation;
        let copied = pool.clone();
        let task = io.spawn(async move { copied.replace(1, replacement(new)).await });
        while !pool.status().busy.resilvering {
            io.sleep(Duration::from_micros(50)).await;
        }
        sim.afflict(new, |faults| faults.gone = true);
        let refused = task.await;
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!((out(&pool).len(), pool.label().generation), (0, generation));
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
            while !pool.status().busy.resilvering {
                io.sleep(Duration::from_micros(50)).await;
            }
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

#[test]
fn changes_of_one_member_do_not_overlap() {
    let (sim, house) = made(75, Kind::Raidz(2, 5));
    let new = [0, 1].map(|_| sim.add_blank_drive(Model::sata_ssd(), MEMBER));
    with(&sim, async |io| {
        let pool = patient(io, &house, &[], 2).await;
        write_all(io, &pool, 2).await;
        let copied = pool.clone();
        let task = io.spawn(async move { copied.replace(1, replacement(new[0])).await });
        while !pool.status().busy.resilvering {
            io.sleep(Duration::from_micros(50)).await;
        }
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
