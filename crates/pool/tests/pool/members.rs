//! Members that are missing, come back, take no writes, or have no room: none leaves a pool by mistake, and none comes back with anything old
//! on it.

use brindle_io::sim::{BadRange, Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io, OpError};
use brindle_members::members::RoleState;
use brindle_pool::{
    Chosen, How, Lacking, Pool, PoolMember, PoolOpenError, PoolVolume, choose, look, open_chosen, prepare,
};
use brindle_testkit::pools::house::{House, Kind, MEMBER};
use brindle_volume::{Volume, VolumeError};

pub(super) const BLOCKS: u64 = 400;

pub(super) async fn write(io: &Io, volume: &PoolVolume, block: u64, fill: u8) -> Result<(), VolumeError> {
    let buf = io.pool(4096).alloc(4096).await;
    buf.bytes_mut().fill(fill);
    volume.write(block * 4096, buf.all(), false).await
}

pub(super) async fn write_all(io: &Io, pool: &Pool, fill: u8) {
    let volume = pool.volume("one").expect("it is there");
    for block in 0..BLOCKS {
        write(io, &volume, block, fill).await.expect("written");
    }
}

/// Each block holds one of these, and nothing was wrong up to now.
pub(super) async fn holds(io: &Io, pool: &Pool, fills: &[u8]) {
    reads(io, pool, fills).await;
    assert_eq!(pool.status().damage.found, 0, "{:?}", pool.status().damage);
}

/// Each block holds one of these.
pub(super) async fn reads(io: &Io, pool: &Pool, fills: &[u8]) {
    let volume = pool.volume("one").expect("it is there");
    let buf = io.pool(4096).alloc(4096).await;
    for block in 0..BLOCKS {
        volume.read(block * 4096, buf.all()).await.expect("read");
        let bytes = buf.bytes();
        let first = bytes[0];
        assert!(fills.contains(&first) && bytes.iter().all(|&byte| byte == first), "block {block}: {first}");
    }
}

/// Waits until members have what they lack.
pub(super) async fn resilvered(io: &Io, pool: &Pool) {
    for _ in 0..4000 {
        if !pool.status().busy.resilvering {
            break;
        }
        io.sleep(Duration::from_millis(5)).await;
    }
    let status = pool.status();
    let is_whole = |one: &PoolMember| one.state != RoleState::InSync || one.lacks == 0;
    assert!(!status.busy.resilvering && status.members.iter().all(is_whole), "{status:?}");
}

/// All that is stored and all parity is what it should be.
pub(super) async fn is_sound(pool: &Pool) {
    let found = pool.check(|_| {}).await.expect("it can be gone over");
    let bad = (found.wrong, found.unreadable, found.lost, found.mismatches);
    assert_eq!(bad, (0, 0, 0, 0), "{found:?}");
}

pub(super) fn out(pool: &Pool) -> Vec<usize> {
    let members = pool.status().members;
    let is_out = |one: &PoolMember| one.device.is_none() || one.is_failed();
    // Numbers of devices that have no role, and had one at most for a while, are none.
    let has_role =
        |one: &PoolMember| !(one.is_spare || one.is_gone && one.role.vdev == usize::from(u16::MAX));
    (0..members.len()).filter(|&n| has_role(&members[n]) && is_out(&members[n])).collect()
}

/// The pool on all devices but these.
pub(super) async fn chosen(io: &Io, house: &House, without: &[usize]) -> Chosen {
    let mut looked = Vec::new();
    for (_, &id) in house.ids.iter().enumerate().filter(|(n, _)| !without.contains(n)) {
        looked.extend(look(io, "a member", id).await.ok());
    }
    choose(&looked, None).expect("one state is believed")
}

pub(super) async fn opened(
    io: &Io,
    house: &House,
    without: &[usize],
    how: How,
) -> Result<Pool, PoolOpenError> {
    let chosen = chosen(io, house, without).await;
    open_chosen(io, chosen, how, house.config()).await.map(|(pool, _)| pool)
}

/// A pool with a volume that holds ones, stopped.
pub(super) fn made(seed: u64, kind: Kind) -> (Sim, House) {
    let sim = Sim::new(seed);
    let house = House::new(kind, |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        house.create(&io).await;
        let pool = house.open(&io, 1).await;
        pool.create_volume("one", BLOCKS * 4096).await.expect("room");
        write_all(&io, &pool, 1).await;
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
    (sim.restart(seed), house)
}

/// All of a member's bytes that are not zeroes.
fn content(sim: &Sim, house: &House) -> Vec<(usize, u64, Vec<u8>)> {
    let mut all = Vec::new();
    for (n, &id) in house.ids.iter().enumerate() {
        for at in (0..MEMBER).step_by(4096) {
            let mut bytes = vec![0; 4096];
            sim.peek(id, at, &mut bytes);
            if bytes.iter().any(|&byte| byte != 0) {
                all.push((n, at, bytes));
            }
        }
    }
    all
}

#[test]
fn an_opening_for_writing_without_a_member_that_was_in_use_asks_and_changes_nothing() {
    let (sim, house) = made(21, Kind::Raidz(2, 4));
    let io = Io::new(Box::new(sim.clone()));
    let before = content(&sim, &house);
    io.block_on(async {
        let refused = opened(&io, &house, &[1, 3], How::writing(2)).await.err().expect("it asks");
        assert_eq!(refused, PoolOpenError::Degraded { missing: "0.1, 0.3".into() });
        let few = How::Writing { opening: 2, lacking: Lacking::AtMost(1) };
        assert!(opened(&io, &house, &[1, 3], few).await.is_err());
        // Those that only want to know.
        let pool = opened(&io, &house, &[1, 3], How::ReadOnly).await.expect("nobody is asked for reading");
        holds(&io, &pool, &[1]).await;
        pool.stop().await.expect("stopped");
        let prepared = prepare(&io, chosen(&io, &house, &[1]).await, How::degraded(2), house.config()).await;
        let Ok(prepared) = prepared else { panic!("it can be opened") };
        assert!(prepared.pool().check_create("two", 1 << 40).is_err());
        prepared.give_up();
    });
    assert!(content(&sim, &house) == before, "something was written");
    io.block_on(async {
        let pool = opened(&io, &house, &[1], How::degraded(3)).await.expect("it was said");
        pool.stop().await.expect("stopped");
        // It is on record: nobody is asked twice.
        let pool = opened(&io, &house, &[1], How::writing(4)).await.expect("it is out of use");
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

#[test]
fn a_member_that_was_late_is_taken_again_and_counts_for_all_it_has() {
    for kind in [Kind::Raidz(1, 3), Kind::Raidz(2, 5), Kind::Mirror(2), Kind::Mirror(3), Kind::Two] {
        for writes in [false, true] {
            let (sim, house) = made(22, kind);
            let io = Io::new(Box::new(sim));
            io.block_on(async {
                let pool = opened(&io, &house, &[1], How::degraded(2)).await.expect("it was said");
                if writes {
                    write_all(&io, &pool, 2).await;
                }
                pool.stop().await.expect("stopped");
                let fills = [if writes { 2 } else { 1 }];
                let pool = opened(&io, &house, &[], How::writing(3)).await.expect("all are there");
                assert_eq!(out(&pool), [] as [usize; 0], "{kind:?}");
                let names: Vec<_> = pool.events(0).iter().map(|event| event.kind.name()).collect();
                assert_eq!(names, ["member-returned"]);
                is_sound(&pool).await;
                holds(&io, &pool, &fills).await;
                // Parity is raised again where it was less meanwhile.
                for _ in 0..400 {
                    if pool.status().thin == 0 && !pool.status().busy.cleaning {
                        break;
                    }
                    io.sleep(Duration::from_millis(50)).await;
                }
                assert_eq!(pool.status().thin, 0, "{kind:?}");
                pool.stop().await.expect("stopped");
                let pool = opened(&io, &house, &[0], How::degraded(4)).await.expect("another is lost");
                holds(&io, &pool, &fills).await;
            });
            io.shutdown();
        }
    }
}

/// A member that fails in the middle of writes lacks some of segments that count: it gets these before it is believed.
#[test]
fn a_member_that_lacks_writes_of_open_segments_gets_them_before_it_is_believed() {
    for (kind, boot) in [(Kind::Raidz(1, 3), 0), (Kind::Mirror(2), 1), (Kind::Raidz(2, 5), 2), (Kind::Two, 3)]
    {
        for stops in [false, true] {
            let (mut sim, house) = made(23 + boot, kind);
            let io = Io::new(Box::new(sim.clone()));
            io.block_on(async {
                let pool = opened(&io, &house, &[], How::writing(2)).await.expect("all are there");
                let volume = pool.volume("one").expect("it is there");
                for block in 0..BLOCKS {
                    if block == BLOCKS / 2 {
                        sim.afflict(house.ids[1], |faults| faults.gone = true);
                    }
                    write(&io, &volume, block, 2).await.expect("it can do without one");
                }
                assert_eq!(out(&pool), [1]);
                volume.flush().await.expect("flushed");
                if stops {
                    pool.stop().await.expect("stopped");
                }
            });
            sim.cut_power();
            io.shutdown();
            sim = sim.restart(7);
            sim.afflict(house.ids[1], |faults| faults.gone = false);
            let io = Io::new(Box::new(sim.clone()));
            io.block_on(async {
                let pool = opened(&io, &house, &[], How::writing(3)).await.expect("all are there");
                assert_eq!(out(&pool), [] as [usize; 0], "{kind:?}");
                is_sound(&pool).await;
                holds(&io, &pool, &[2]).await;
                resilvered(&io, &pool).await;
                is_sound(&pool).await;
                pool.stop().await.expect("stopped");
                let pool = opened(&io, &house, &[0], How::degraded(4)).await.expect("another is lost");
                holds(&io, &pool, &[2]).await;
            });
            io.shutdown();
        }
    }
}

/// The member's old blocks are sound by themselves: a copy of a mirror has a checksum of its own, and so has its summary.
#[test]
fn a_member_that_can_not_be_brought_up_stays_out() {
    let (mut sim, house) = made(31, Kind::Mirror(2));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        let pool = opened(&io, &house, &[], How::writing(2)).await.expect("all are there");
        sim.afflict(house.ids[1], |faults| faults.gone = true);
        write_all(&io, &pool, 2).await;
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
    sim = sim.restart(8);
    sim.afflict(house.ids[1], |faults| {
        faults.gone = false;
        faults.unwritable.push(BadRange::forever(0..MEMBER));
    });
    let io = Io::new(Box::new(sim));
    io.block_on(async {
        let pool = opened(&io, &house, &[], How::writing(3)).await.expect("it does without");
        assert_eq!(out(&pool), [1]);
        holds(&io, &pool, &[2]).await;
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

#[test]
fn a_member_that_refuses_all_writes_is_done_without() {
    for kind in [Kind::Raidz(1, 3), Kind::Mirror(2), Kind::Two] {
        let refuses = |sim: &Sim, house: &House, n: usize| {
            sim.afflict(house.ids[n], |faults| faults.unwritable.push(BadRange::forever(0..MEMBER)));
        };
        // Under load, and as the pool is opened.
        for early in [false, true] {
            let (sim, house) = made(24, kind);
            let io = Io::new(Box::new(sim.clone()));
            io.block_on(async {
                if early {
                    refuses(&sim, &house, 1);
                }
                let pool = opened(&io, &house, &[], How::writing(2)).await.expect("it opens");
                if !early {
                    write_all(&io, &pool, 2).await;
                    refuses(&sim, &house, 1);
                }
                write_all(&io, &pool, 3).await;
                pool.flush().await.expect("flushed");
                assert_eq!(out(&pool), [1], "{kind:?}");
                holds(&io, &pool, &[3]).await;
                pool.stop().await.expect("stopped");
            });
            io.shutdown();
        }
        // Two at once, of which one can be done without: nothing is broken.
        let (sim, house) = made(30, kind);
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            let pool = opened(&io, &house, &[], How::writing(2)).await.expect("it opens");
            let data = (1 << 20)..MEMBER - (1 << 20);
            for n in [0, 1] {
                sim.afflict(house.ids[n], |faults| faults.unwritable.push(BadRange::forever(data.clone())));
            }
            let volume = pool.volume("one").expect("it is there");
            for block in 0..BLOCKS / 8 {
                let _refused = write(&io, &volume, block, 9).await;
            }
            assert!(!pool.status().broken && out(&pool).len() < 2, "{kind:?} {:?}", pool.status());
            holds(&io, &pool, &[1, 9]).await;
        });
        io.shutdown();
        // The last one that there may not be: writes are refused, and nothing is broken.
        let (sim, house) = made(25, kind);
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            let pool = opened(&io, &house, &[1], How::degraded(2)).await.expect("it was said");
            refuses(&sim, &house, 0);
            let volume = pool.volume("one").expect("it is there");
            let refused = write(&io, &volume, 0, 9).await;
            let medium = matches!(refused, Err(VolumeError::Member { error: OpError::Medium(_), .. }));
            assert!(medium || refused.is_ok() && kind == Kind::Two, "{kind:?} {refused:?}");
            holds(&io, &pool, &[1, 9]).await;
        });
        io.shutdown();
    }
}

#[test]
fn nothing_is_acknowledged_once_a_failure_can_not_be_recorded() {
    let mut broke = 0;
    for seed in 40..60 {
        let (sim, house) = made(seed, Kind::Raidz(1, 3));
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            let pool = opened(&io, &house, &[], How::writing(2)).await.expect("it opens");
            // One member takes no data. Another takes that, and not the record of it.
            let data = (1 << 20)..MEMBER - (1 << 20);
            sim.afflict(house.ids[1], |faults| faults.unwritable.push(BadRange::forever(data)));
            let rings = [64 << 10..256 << 10, MEMBER - (224 << 10)..MEMBER - (32 << 10)];
            sim.afflict(house.ids[2], |faults| faults.unwritable.extend(rings.map(BadRange::forever)));
            let volume = pool.volume("one").expect("it is there");
            let (io, pool, volume) = (&io, &pool, &volume);
            let one = |block| async move {
                io.sleep(Duration::from_micros(block * 3)).await;
                let done = write(io, volume, block, 9).await;
                assert!(done.is_err() || !pool.status().broken, "seed {seed}, block {block}");
            };
            join_all((0..32).map(one).collect::<Vec<_>>()).await;
            broke += u32::from(pool.status().broken);
        });
        io.shutdown();
    }
    assert!(broke > 0, "the record was never refused while writes were under way");
}

/// Gives members room, or takes it.
fn room(sim: &Sim, house: &House, members: &[usize], there: bool) {
    for &n in members {
        sim.afflict(house.ids[n], |faults| faults.full = (!there).then_some(0..MEMBER));
    }
}

#[test]
fn members_without_room_stay_and_the_pool_goes_on_when_there_is_some() {
    for (kind, full) in [
        (Kind::Raidz(1, 3), vec![2]),
        (Kind::Raidz(1, 3), vec![0, 1, 2]),
        (Kind::Mirror(2), vec![0, 1]),
        (Kind::Plain(2), vec![0, 1]),
        (Kind::Two, vec![0, 4]),
    ] {
        let sim = Sim::new(26);
        let house = House::new(kind, |size| sim.add_blank_drive(Model::sata_ssd(), size));
        let io = Io::new(Box::new(sim.clone()));
        let all: Vec<usize> = (0..house.ids.len()).collect();
        io.block_on(async {
            house.create(&io).await;
            let pool = house.open(&io, 1).await;
            let volume = pool.create_volume("one", BLOCKS * 4096).await.expect("room");
            for block in 0..BLOCKS / 4 {
                write(&io, &volume, block, 1).await.expect("written");
            }
            room(&sim, &house, &full, false);
            let mut refused = 0;
            for round in 0..4 {
                for block in 0..BLOCKS {
                    match write(&io, &volume, block, 2).await {
                        Ok(()) => {}
                        Err(VolumeError::Member { error: OpError::NoSpace, .. }) => refused += 1,
                        Err(other) => panic!("{kind:?}: {other:?}"),
                    }
                }
                pool.flush().await.expect("what was written is stable");
                io.sleep(Duration::from_millis(1500 * (round % 2))).await;
            }
            assert!(refused > 100, "{kind:?}: {refused}");
            let status = pool.status();
            assert!(!status.broken && out(&pool).is_empty(), "{kind:?}: {status:?}");
            holds(&io, &pool, &[0, 1, 2]).await;
            let full_events =
                pool.events(0).iter().filter(|event| event.kind.name() == "member-full").count();
            assert!((1..=full.len()).contains(&full_events), "{:?}", pool.events(0));
            // Stopped and opened again while there is no room: nothing is lost by that.
            pool.stop().await.expect("what was written is stable");
            let opened_full = opened(&io, &house, &[], How::writing(2)).await;
            if let Ok(pool) = &opened_full {
                pool.stop().await.expect("stopped");
            }
            room(&sim, &house, &all, true);
            let pool = opened(&io, &house, &[], How::writing(3)).await.expect("there is room");
            assert_eq!(out(&pool), [] as [usize; 0]);
            holds(&io, &pool, &[0, 1, 2]).await;
            // And without that.
            room(&sim, &house, &full, false);
            let volume = pool.volume("one").expect("it is there");
            for block in 0..BLOCKS {
                let _refused = write(&io, &volume, block, 3).await;
            }
            room(&sim, &house, &all, true);
            io.sleep(Duration::from_millis(1100)).await;
            write_all(&io, &pool, 4).await;
            holds(&io, &pool, &[4]).await;
            is_sound(&pool).await;
            pool.stop().await.expect("stopped");
        });
        io.shutdown();
    }
}

/// Uberblocks are written in place, at a time when nothing else may be: they need no room.
#[test]
fn a_failure_is_on_record_though_there_is_no_room_left() {
    let sim = Sim::new(27);
    let house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        house.create(&io).await;
        let pool = house.open(&io, 1).await;
        room(&sim, &house, &[0, 1, 2], false);
        pool.fail(2).await.expect("it is on record");
        let status = pool.status();
        assert!(!status.broken && out(&pool) == [2], "{status:?}");
        assert!(chosen(&io, &house, &[]).await.head.is_out(2));
    });
    io.shutdown();
}

#[test]
fn by_policy_a_member_without_room_fails_if_the_pool_can_do_without_it() {
    let (sim, house) = made(28, Kind::Raidz(1, 3));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        let config = brindle_pool::PoolConfig { waits_for_space: false, ..house.config() };
        let chosen = chosen(&io, &house, &[]).await;
        let (pool, _) = open_chosen(&io, chosen, How::writing(2), config).await.expect("all are there");
        sim.afflict(house.ids[1], |faults| faults.full_on_write = Some(0..MEMBER));
        write_all(&io, &pool, 2).await;
        assert_eq!(out(&pool), [1]);
        // Of the last one nothing has a copy.
        for n in [0, 2] {
            sim.afflict(house.ids[n], |faults| faults.full_on_write = Some(1 << 20..MEMBER - (1 << 20)));
        }
        let volume = pool.volume("one").expect("it is there");
        let refused = write(&io, &volume, 0, 9).await;
        assert!(matches!(refused, Err(VolumeError::Member { error: OpError::NoSpace, .. })), "{refused:?}");
        assert!(!pool.status().broken && out(&pool) == [1], "{:?}", pool.status());
    });
    io.shutdown();
}

/// Where a file system copies on write, a record may find no room all the same: it is written once there is some.
#[test]
fn a_record_without_room_waits_for_it() {
    let (sim, house) = made(29, Kind::Raidz(1, 3));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        let pool = opened(&io, &house, &[], How::writing(2)).await.expect("all are there");
        sim.afflict(house.ids[0], |faults| faults.full_on_write = Some(0..MEMBER));
        let (other, spawned) = (pool.clone(), io.clone());
        let failing = io.spawn(async move { other.fail(2).await });
        io.sleep(Duration::from_secs(5)).await;
        assert!(pool.status().busy.failing && !pool.status().broken);
        holds(&spawned, &pool, &[1]).await;
        sim.afflict(house.ids[0], |faults| faults.full_on_write = None);
        failing.await.expect("it is on record");
        assert_eq!(out(&pool), [2]);
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}
