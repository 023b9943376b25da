//! Members that go and come back, or are replaced, get what they lack in place and no more; a loss moves nothing at once.

use brindle_format::pool::MemberState;
use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Duration, Io, MemberId};
use brindle_pool::{
    How, MemberError, Pool, PoolConfig, PoolOpenError, Replacement, choose, look, open_chosen,
};
use brindle_testkit::pools::house::{House, Kind, MEMBER};
use brindle_testkit::pools::reader;
use uuid::Uuid;

use super::members::{BLOCKS, chosen, holds, is_sound, made, opened, out, resilvered, write, write_all};

pub(super) const KINDS: [Kind; 5] =
    [Kind::Raidz(1, 3), Kind::Raidz(2, 5), Kind::Mirror(2), Kind::Mirror(3), Kind::Two];
/// The identity of a device that comes.
pub(super) const NEW: Uuid = Uuid::from_u128(0xabcd);

pub(super) fn with<T>(sim: &Sim, work: impl AsyncFnOnce(&Io) -> T) -> T {
    let io = Io::new(Box::new(sim.clone()));
    let done = io.block_on(work(&io));
    io.shutdown();
    done
}

fn waiting(house: &House) -> PoolConfig {
    PoolConfig { raise_after: Duration::from_secs(900), ..house.config() }
}

/// The pool on all devices but these; what a loss leaves behind stays for a while.
pub(super) async fn patient(io: &Io, house: &House, without: &[usize], opening: u64) -> Pool {
    let chosen = chosen(io, house, without).await;
    open_chosen(io, chosen, How::degraded(opening), waiting(house)).await.expect("it opens").0
}

pub(super) fn replacement(id: MemberId) -> Replacement {
    Replacement { name: "a device".to_owned(), id, uuid: NEW }
}

pub(super) fn written(io: &Io, id: MemberId) -> u64 {
    io.counters(id).bytes_written
}

#[test]
fn a_loss_moves_nothing_before_its_time() {
    for kind in KINDS {
        let (sim, house) = made(51, kind);
        with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            write_all(io, &pool, 2).await;
            pool.flush().await.expect("flushed");
            let before = pool.status().written.moved;
            sim.afflict(house.ids[1], |faults| faults.gone = true);
            pool.fail(1).await.expect("it can do without");
            let told = pool.status().raises_in.expect("it is told when");
            assert!(told <= Duration::from_secs(900) && told > Duration::from_secs(890), "{told:?}");
            io.sleep(Duration::from_secs(800)).await;
            let status = pool.status();
            assert_eq!(status.written.moved, before, "{kind:?}");
            assert!(status.thin > 0 && !status.busy.raising, "{kind:?}: {status:?}");
            write_all(io, &pool, 3).await;
            io.sleep(Duration::from_secs(200)).await;
            let status = pool.status();
            assert_eq!((status.raises_in, status.busy.raising), (None, false));
            holds(io, &pool, &[3]).await;
            is_sound(&pool).await;
            pool.stop().await.expect("stopped");
        });
    }
    // Five of which three hold data have room for all parity without one of them.
    let (sim, house) = made(52, Kind::Raidz(2, 5));
    with(&sim, async |io| {
        let pool = patient(io, &house, &[], 2).await;
        pool.checkpoint().await.expect("it stands");
        pool.fail(1).await.expect("it can do without");
        io.sleep(Duration::from_secs(899)).await;
        assert_eq!(pool.status().written.moved, 0);
        io.sleep(Duration::from_secs(60)).await;
        assert!(pool.status().written.moved > 0, "{:?}", pool.status());
        pool.stop().await.expect("stopped");
    });
}

/// It has all that was written before it left; addresses of blocks stay what they are.
#[test]
fn a_member_that_was_offline_gets_what_it_lacks_and_no_more() {
    for kind in KINDS {
        let (sim, house) = made(53, kind);
        with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            write_all(io, &pool, 2).await;
            pool.offline(1).await.expect("it can do without");
            let status = pool.status();
            assert!(status.members[1].is_offline && out(&pool) == [1] && status.raises_in.is_none());
            assert_eq!(pool.label().members[1].state, MemberState::Offline);
            assert!(matches!(pool.offline(1).await, Err(MemberError::NotInUse(_))));
            io.sleep(Duration::from_secs(1000)).await;
            let volume = pool.volume("one").expect("it is there");
            for block in 0..BLOCKS / 4 {
                write(io, &volume, block, 3).await.expect("written");
            }
            pool.flush().await.expect("flushed");
            assert_eq!(pool.status().written.moved, 0, "{kind:?}");
            let before = written(io, house.ids[1]);
            pool.online(Some(1), "its device", house.ids[1]).await.expect("it comes back");
            resilvered(io, &pool).await;
            assert_eq!((out(&pool).len(), pool.label().members[1].state), (0, MemberState::InUse));
            is_sound(&pool).await;
            holds(io, &pool, &[2, 3]).await;
            // Labels, pages of the map, and what is written anew since narrow segments have less parity.
            let more = written(io, house.ids[1]) - before;
            assert!(more < 1200 << 10, "{kind:?}: {more}");
            pool.stop().await.expect("stopped");
        });
        let sim = sim.restart(5);
        with(&sim, async |io| {
            let pool = opened(io, &house, &[0], How::degraded(4)).await.expect("another is lost");
            holds(io, &pool, &[2, 3]).await;
        });
    }
}

#[test]
fn a_member_that_left_in_the_middle_of_writes_comes_back_while_the_pool_runs() {
    for (kind, seed) in KINDS.into_iter().zip(60..) {
        let (sim, house) = made(seed, kind);
        with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            let volume = pool.volume("one").expect("it is there");
            for round in 2..6 {
                for block in 0..BLOCKS {
                    if block == BLOCKS / 3 {
                        sim.afflict(house.ids[1], |faults| faults.gone = true);
                    }
                    write(io, &volume, block, round).await.expect("it can do without one");
                }
                assert_eq!(out(&pool), [1], "{kind:?}");
                sim.afflict(house.ids[1], |faults| faults.gone = false);
                pool.online(Some(1), "its device", house.ids[1]).await.expect("it comes back");
                // Clients go on meanwhile.
                write_all(io, &pool, round + 100).await;
                write_all(io, &pool, round).await;
                resilvered(io, &pool).await;
                is_sound(&pool).await;
                holds(io, &pool, &[round]).await;
            }
            pool.stop().await.expect("stopped");
        });
        let sim = sim.restart(5);
        with(&sim, async |io| {
            let pool = opened(io, &house, &[0], How::degraded(4)).await.expect("another is lost");
            holds(io, &pool, &[5]).await;
        });
    }
}

#[test]
fn a_dead_member_is_replaced_in_place() {
    for kind in KINDS {
        let (sim, mut house) = made(54, kind);
        let old = house.ids[1];
        let new = sim.add_blank_drive(Model::sata_ssd(), MEMBER + (8 << 10));
        with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            write_all(io, &pool, 2).await;
            pool.fail(1).await.expect("it can do without");
            pool.replace(1, replacement(new)).await.expect("it is replaced");
            resilvered(io, &pool).await;
            let status = pool.status();
            assert_eq!((status.written.moved, status.members[1].device), (0, Some(new)), "{kind:?}");
            is_sound(&pool).await;
            write_all(io, &pool, 3).await;
            holds(io, &pool, &[3]).await;
            assert_eq!(pool.label().members[1].id, NEW);
            pool.stop().await.expect("stopped");
        });
        house.ids[1] = new;
        let sim = sim.restart(5);
        let sizes: Vec<u64> =
            house.ids.iter().map(|&id| if id == new { MEMBER + (8 << 10) } else { MEMBER }).collect();
        let peek = |device: usize, at: u64| {
            let mut bytes = vec![0; 4096];
            sim.peek(house.ids[device], at, &mut bytes);
            Some(bytes)
        };
        let read = reader::read(&sizes, &peek).expect("a second reader reads it");
        assert!(read.out.is_empty() && read.miscounted.is_empty(), "{kind:?}: {:?}", read.out);
        with(&sim, async |io| {
            // The device of before is passed over.
            let mut looked = Vec::new();
            for &id in house.ids.iter().chain([&old]) {
                looked.push(look(io, "a member", id).await.expect("a label"));
            }
            let chosen = choose(&looked, None).expect("one state is believed");
            let (pool, _) = open_chosen(io, chosen, How::writing(4), house.config()).await.expect("it opens");
            assert!(out(&pool).is_empty());
            pool.stop().await.expect("stopped");
            let pool = opened(io, &house, &[0], How::degraded(5)).await.expect("another is lost");
            holds(io, &pool, &[3]).await;
        });
    }
}

/// Every step of a replacement and of what follows: the former state, or the new member with all that it lacks on record.
#[test]
fn a_cut_anywhere_leaves_the_former_state_or_the_new_member_with_all_that_it_lacks() {
    let kinds = [Kind::Raidz(1, 3), Kind::Mirror(2)].into_iter();
    for (kind, is_there) in kinds.flat_map(|kind| [(kind, false), (kind, true)]) {
        let mut came = [0, 0];
        for step in
            core::iter::successors(Some(0), |step| Some(step + 3 + step / if is_there { 40 } else { 16 }))
        {
            let (sim, mut house) = made(55, kind);
            let new = sim.add_blank_drive(Model::sata_ssd(), MEMBER);
            let io = Io::new(Box::new(sim.clone()));
            let ended = io.block_on(sim.until_end(&io, async {
                let pool = patient(&io, &house, &[], 2).await;
                write_all(&io, &pool, 2).await;
                if !is_there {
                    pool.fail(1).await.expect("it can do without");
                }
                write_all(&io, &pool, 3).await;
                pool.flush().await.expect("flushed");
                sim.cut_power_at(When::Step(sim.steps() + step));
                pool.replace(1, replacement(new)).await.expect("it is replaced");
                resilvered(&io, &pool).await;
                pool.stop().await.expect("stopped");
            }));
            sim.cut_power();
            io.shutdown();
            let sim = sim.restart(step + 7);
            house.ids.push(new);
            let is_new = with(&sim, async |io| {
                let pool = patient(io, &house, &[1], 3).await;
                // A successor that is on record takes the role by itself.
                while pool.status().members.iter().any(|one| one.succeeds.is_some() && one.device.is_some()) {
                    io.sleep(Duration::from_millis(1)).await;
                }
                let is_new = pool.label().members[1].id == NEW;
                assert_eq!(out(&pool).is_empty(), is_new, "step {step}");
                resilvered(io, &pool).await;
                is_sound(&pool).await;
                holds(io, &pool, &[3]).await;
                pool.stop().await.expect("stopped");
                is_new
            });
            came[usize::from(is_new)] += 1;
            if is_new {
                with(&sim.restart(9), async |io| {
                    let pool = opened(io, &house, &[0, 1], How::degraded(5)).await.expect("another is lost");
                    holds(io, &pool, &[3]).await;
                });
            }
            if ended.is_some() {
                break;
            }
        }
        assert!(came[0] > 3 && came[1] > 2, "{kind:?}, there: {is_there}: {came:?}");
    }
}

#[test]
fn two_members_are_resilvered_in_one_pass() {
    let (sim, house) = made(56, Kind::Raidz(2, 5));
    let new = [0, 1].map(|_| sim.add_blank_drive(Model::sata_ssd(), MEMBER));
    with(&sim, async |io| {
        let pool = patient(io, &house, &[], 2).await;
        write_all(io, &pool, 2).await;
        for (member, id) in [(1, new[0]), (4, new[1])] {
            pool.fail(member).await.expect("it can do without");
            let with = Replacement { uuid: Uuid::from_u128(0x100 + u128::from(member)), ..replacement(id) };
            pool.replace(member, with).await.expect("it is replaced");
        }
        resilvered(io, &pool).await;
        is_sound(&pool).await;
        for member in [0, 2] {
            pool.fail(member).await.expect("two can be lost again");
        }
        holds(io, &pool, &[2]).await;
        pool.stop().await.expect("stopped");
    });
}

#[test]
fn devices_that_can_not_be_a_member_are_refused_by_name_and_nothing_changes() {
    let (sim, house) = made(57, Kind::Raidz(1, 3));
    let small = sim.add_blank_drive(Model::sata_ssd(), MEMBER - (80 << 16) / 2);
    with(&sim, async |io| {
        let pool = patient(io, &house, &[], 2).await;
        let generation = pool.label().generation;
        let in_use = pool.online(Some(1), "d", house.ids[1]).await;
        assert!(matches!(in_use, Err(MemberError::InUse(_))), "{in_use:?}");
        pool.fail(1).await.expect("it can do without");
        let needed = pool.offline(0).await;
        assert!(matches!(needed, Err(MemberError::Needed(_))), "{needed:?}");
        let stranger = pool.online(Some(1), "d", small).await;
        assert!(matches!(stranger, Err(MemberError::Open(PoolOpenError::NoLabel { .. }))), "{stranger:?}");
        let another = pool.online(Some(1), "d", house.ids[0]).await;
        assert!(matches!(another, Err(MemberError::Another { .. })), "{another:?}");
        let used = pool.replace(1, replacement(house.ids[2])).await;
        assert!(matches!(used, Err(MemberError::Another { .. })), "{used:?}");
        let small = pool.replace(1, replacement(small)).await;
        assert!(matches!(small, Err(MemberError::TooSmall { .. })), "{small:?}");
        assert_eq!((pool.label().generation, out(&pool)), (generation, vec![1]));
        pool.stop().await.expect("stopped");
    });
}
