//! Vdevs and members that a running pool gets, and copies that leave it.

use brindle_format::pool::VdevKind;
use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Io, MemberId};
use brindle_pool::{How, MemberError, Pool, PoolCreateError, Replacement};
use brindle_testkit::pools::house::{House, Kind, MEMBER};
use brindle_testkit::pools::reader;
use brindle_volume::Volume as _;
use uuid::Uuid;

use super::members::{BLOCKS, holds, is_sound, made, opened, out, resilvered, write, write_all};
use super::resilver::{KINDS, patient, with};

fn device(id: MemberId, n: u128) -> Replacement {
    Replacement { name: format!("device {n}"), id, uuid: Uuid::from_u128(0xd000 + n) }
}

fn blank(sim: &Sim, count: u128) -> Vec<Replacement> {
    (0..count).map(|n| device(sim.add_blank_drive(Model::sata_ssd(), MEMBER), n)).collect()
}

/// A second reader finds what the pool says, on all devices.
fn reads_from_outside(sim: &Sim, house: &House) {
    let peek = |device: usize, at: u64| {
        let mut bytes = vec![0; 4096];
        sim.peek(house.ids[device], at, &mut bytes);
        Some(bytes)
    };
    let read = reader::read(&vec![MEMBER; house.ids.len()], &peek).expect("a second reader reads it");
    assert!(read.miscounted.is_empty(), "{:?}", read.miscounted);
}

#[test]
fn a_vdev_that_is_added_takes_its_part_of_what_is_written() {
    let added = [(VdevKind::Mirror, 1, 2), (VdevKind::Raidz, 1, 3), (VdevKind::Plain, 0, 1)];
    for (kind, (new, parity, count)) in
        KINDS.into_iter().chain([Kind::Plain(1)]).zip(added.into_iter().cycle())
    {
        let (sim, mut house) = made(81, kind);
        let devices = blank(&sim, count);
        with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            let before = pool.status();
            pool.add(new, parity, devices.clone()).await.expect("it is added");
            let status = pool.status();
            assert!(status.capacity > before.capacity, "{kind:?}: {status:?}");
            assert_eq!(status.members.len(), before.members.len() + devices.len());
            let more = status.capacity - status.sold;
            pool.create_volume("two", more).await.expect("all room can be had at once");
            let written = io.counters(devices[0].id).bytes_written;
            for fill in 2..5 {
                write_all(io, &pool, fill).await;
            }
            assert!(io.counters(devices[0].id).bytes_written > written + (64 << 12), "{kind:?}");
            fill(io, &pool, "two", 7).await;
            is_sound(&pool).await;
            holds(io, &pool, &[4]).await;
            pool.stop().await.expect("stopped");
        });
        house.ids.extend(devices.iter().map(|device| device.id));
        let sim = sim.restart(5);
        reads_from_outside(&sim, &house);
        with(&sim, async |io| {
            let pool = opened(io, &house, &[], How::writing(4)).await.expect("it opens");
            assert!(out(&pool).is_empty());
            holds(io, &pool, &[4]).await;
            holds_all(io, &pool, "two", 7).await;
            pool.stop().await.expect("stopped");
        });
    }
}

/// Writes each block of a volume.
async fn fill(io: &Io, pool: &Pool, name: &str, with: u8) {
    let volume = pool.volume(name).expect("it is there");
    for block in 0..volume.limits().size >> 12 {
        write(io, &volume, block, with).await.expect("written");
    }
}

async fn holds_all(io: &Io, pool: &Pool, name: &str, with: u8) {
    let volume = pool.volume(name).expect("it is there");
    let buf = io.pool(4096).alloc(4096).await;
    for block in 0..volume.limits().size >> 12 {
        volume.read(block * 4096, buf.all()).await.expect("read");
        assert!(buf.bytes().iter().all(|&byte| byte == with), "block {block}");
    }
}

/// All of the new room can be sold and written at once: what lies in narrow stripes makes way.
#[test]
fn a_vdev_of_rows_that_gets_a_member_has_its_room_at_once() {
    for kind in [Kind::Raidz(1, 3), Kind::Raidz(2, 5), Kind::Two, Kind::Raidz(1, 2)] {
        let (sim, mut house) = made(82, kind);
        let new = blank(&sim, 1).remove(0);
        with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            let before = pool.status();
            pool.create_volume("two", before.capacity - before.sold).await.expect("room");
            fill(io, &pool, "two", 6).await;
            pool.attach(0, new.clone()).await.expect("it is attached");
            let status = pool.status();
            assert!(status.capacity > before.capacity, "{kind:?}: {status:?}");
            pool.create_volume("three", status.capacity - status.sold)
                .await
                .expect("all room can be had at once");
            fill(io, &pool, "three", 7).await;
            fill(io, &pool, "two", 8).await;
            is_sound(&pool).await;
            holds(io, &pool, &[1]).await;
            holds_all(io, &pool, "two", 8).await;
            holds_all(io, &pool, "three", 7).await;
            pool.stop().await.expect("stopped");
        });
        house.ids.push(new.id);
        let sim = sim.restart(5);
        reads_from_outside(&sim, &house);
        let last = house.ids.len() - 1;
        for lost in [0, last] {
            with(&sim, async |io| {
                let pool = opened(io, &house, &[lost], How::ReadOnly).await.expect("one may be lost");
                holds(io, &pool, &[1]).await;
                holds_all(io, &pool, "three", 7).await;
                pool.stop().await.expect("stopped");
            });
        }
    }
}

/// A single device becomes a mirror, and a mirror gets a copy more: nothing that stands changes its place.
#[test]
fn a_copy_that_is_attached_is_resilvered() {
    for kind in [Kind::Plain(1), Kind::Mirror(2), Kind::Mirror(3)] {
        let (sim, mut house) = made(83, kind);
        let new = blank(&sim, 1).remove(0);
        with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            write_all(io, &pool, 2).await;
            pool.flush().await.expect("flushed");
            let before = pool.status();
            pool.attach(0, new.clone()).await.expect("it is attached");
            resilvered(io, &pool).await;
            let status = pool.status();
            assert_eq!((status.capacity, status.thin), (before.capacity, 0), "{kind:?}: {status:?}");
            assert_eq!((pool.label().vdevs[0].kind, status.written.moved), (VdevKind::Mirror, 0));
            is_sound(&pool).await;
            for member in 0..house.ids.len() as u16 {
                pool.fail(member).await.expect("the new one has all");
            }
            holds(io, &pool, &[2]).await;
            write_all(io, &pool, 3).await;
            pool.stop().await.expect("stopped");
        });
        let former = house.ids.len();
        house.ids.push(new.id);
        let sim = sim.restart(5);
        reads_from_outside(&sim, &house);
        with(&sim, async |io| {
            let without: Vec<usize> = (0..former).collect();
            let pool = opened(io, &house, &without, How::writing(4)).await.expect("it has all");
            holds(io, &pool, &[3]).await;
            pool.stop().await.expect("stopped");
        });
    }
}

#[test]
fn a_copy_that_is_detached_is_missed_by_nobody_and_its_role_is_given_again() {
    for kind in [Kind::Mirror(2), Kind::Mirror(3)] {
        let (sim, mut house) = made(84, kind);
        let new = blank(&sim, 1).remove(0);
        with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            write_all(io, &pool, 2).await;
            pool.detach(0).await.expect("others have all");
            let status = pool.status();
            assert!(status.members[0].is_gone && status.thin == 0, "{kind:?}: {status:?}");
            let back = pool.online(Some(0), "it", house.ids[0]).await;
            assert!(matches!(back, Err(MemberError::Stranger { .. })), "{back:?}");
            write_all(io, &pool, 3).await;
            is_sound(&pool).await;
            let found = pool.check(|_| {}).await.expect("it can be gone over");
            assert!(found.is_complete(), "{kind:?}: {found:?}");
            if kind == Kind::Mirror(2) {
                let last = pool.detach(1).await;
                assert!(matches!(last, Err(MemberError::LastCopy(_))), "{last:?}");
            }
            pool.stop().await.expect("stopped");
        });
        let sim = sim.restart(5);
        with(&sim, async |io| {
            let pool = opened(io, &house, &[], How::writing(3)).await.expect("it is not missed");
            assert_eq!((out(&pool), pool.status().thin), (vec![0], 0));
            holds(io, &pool, &[3]).await;
            pool.attach(0, new.clone()).await.expect("it is attached");
            resilvered(io, &pool).await;
            let status = pool.status();
            assert_eq!((out(&pool).len(), status.members.len(), status.thin), (0, house.ids.len(), 0));
            for member in 1..house.ids.len() as u16 {
                pool.fail(member).await.expect("the new one has all");
            }
            holds(io, &pool, &[3]).await;
            pool.stop().await.expect("stopped");
        });
        house.ids[0] = new.id;
        let sim = sim.restart(7);
        with(&sim, async |io| {
            let pool = opened(io, &house, &[], How::degraded(4)).await.expect("it opens");
            holds(io, &pool, &[3]).await;
            pool.stop().await.expect("stopped");
        });
    }
}

/// A spare takes the role of a member that is lost, at once or when the pool is opened without the member.
#[test]
fn a_spare_takes_the_role_of_a_member_that_is_lost() {
    for (kind, at_opening) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let (sim, mut house) = made(87, kind);
        let new = blank(&sim, 1).remove(0);
        with(&sim, async |io| {
            let pool = patient(io, &house, &[], 2).await;
            let before = pool.status();
            pool.add_spare(new.clone()).await.expect("it is added");
            let status = pool.status();
            let spare = &status.members[house.ids.len()];
            assert!(spare.is_spare && spare.device == Some(new.id), "{status:?}");
            assert_eq!((status.capacity, status.thin), (before.capacity, before.thin));
            let taken = pool.replace(1, new.clone()).await;
            assert!(matches!(taken, Err(MemberError::IsSpare { .. })), "{taken:?}");
            let number = house.ids.len() as u16;
            let offline = pool.offline(number).await;
            assert!(matches!(offline, Err(MemberError::NoRole(_))), "{offline:?}");
            write_all(io, &pool, 2).await;
            is_sound(&pool).await;
            if !at_opening {
                pool.fail(1).await.expect("it can do without");
                is_spared(io, &pool, new.id).await;
            }
            pool.stop().await.expect("stopped");
        });
        house.ids.push(new.id);
        let sim = sim.restart(5);
        with(&sim, async |io| {
            let pool = patient(io, &house, &[1], 3).await;
            is_spared(io, &pool, new.id).await;
            holds(io, &pool, &[2]).await;
            pool.fail(0).await.expect("the spare has all");
            holds(io, &pool, &[2]).await;
            pool.stop().await.expect("stopped");
        });
    }
}

async fn is_spared(io: &Io, pool: &Pool, spare: MemberId) {
    for _ in 0..2000 {
        if pool.status().members[1].device == Some(spare) {
            break;
        }
        io.sleep(brindle_io::Duration::from_millis(5)).await;
    }
    resilvered(io, pool).await;
    let status = pool.status();
    assert_eq!(status.members[1].device, Some(spare), "{status:?}");
    assert!(status.members.iter().all(|member| !member.is_spare) && status.written.moved == 0, "{status:?}");
    is_sound(pool).await;
}

/// Every step: the pool of before, or the one that has grown.
#[test]
fn a_cut_anywhere_leaves_the_pool_of_before_or_the_one_that_has_grown() {
    for (kind, add) in [
        (Kind::Raidz(1, 3), false),
        (Kind::Mirror(2), false),
        (Kind::Raidz(1, 3), true),
        (Kind::Plain(1), false),
    ] {
        let mut came = [0, 0];
        for step in core::iter::successors(Some(0), |step| Some(step + 1 + step / 24)) {
            let (sim, mut house) = made(85, kind);
            let devices = blank(&sim, if add { 2 } else { 1 });
            let io = Io::new(Box::new(sim.clone()));
            let ended = io.block_on(sim.until_end(&io, async {
                let pool = patient(&io, &house, &[], 2).await;
                write_all(&io, &pool, 3).await;
                pool.flush().await.expect("flushed");
                sim.cut_power_at(When::Step(sim.steps() + step));
                grow(&pool, add, &devices).await;
                resilvered(&io, &pool).await;
                pool.stop().await.expect("stopped");
            }));
            sim.cut_power();
            io.shutdown();
            let sim = sim.restart(step + 7);
            let count = house.ids.len();
            house.ids.extend(devices.iter().map(|device| device.id));
            with(&sim, async |io| {
                let pool = patient(io, &house, &[], 3).await;
                let is_new = pool.label().members.len() > count;
                came[usize::from(is_new)] += 1;
                assert_eq!(
                    (out(&pool).len(), pool.status().members.len() > count),
                    (0, is_new),
                    "step {step}"
                );
                if !is_new {
                    grow(&pool, add, &devices).await;
                }
                resilvered(io, &pool).await;
                is_sound(&pool).await;
                holds(io, &pool, &[3]).await;
                let volume = pool.volume("one").expect("it is there");
                for block in 0..BLOCKS / 2 {
                    write(io, &volume, block, 3).await.expect("written");
                }
                pool.stop().await.expect("stopped");
            });
            if ended.is_some() {
                break;
            }
        }
        assert!(came[0] > 3 && came[1] > 2, "{kind:?}, {add}: {came:?}");
    }
}

async fn grow(pool: &Pool, add: bool, devices: &[Replacement]) {
    match add {
        true => pool.add(VdevKind::Mirror, 1, devices.to_vec()).await.expect("it is added"),
        false => pool.attach(0, devices[0].clone()).await.expect("it is attached"),
    }
}

#[test]
fn growth_that_can_not_be_is_refused_by_name_and_nothing_changes() {
    let (sim, house) = made(86, Kind::Two);
    let small = sim.add_blank_drive(Model::sata_ssd(), MEMBER / 4);
    with(&sim, async |io| {
        let pool = patient(io, &house, &[], 2).await;
        let (generation, capacity) = (pool.label().generation, pool.status().capacity);
        let refused = pool.attach(0, device(small, 1)).await;
        assert!(matches!(refused, Err(MemberError::TooSmall { .. })), "{refused:?}");
        let refused = pool.attach(7, device(small, 1)).await;
        assert!(matches!(refused, Err(MemberError::NoVdev(_))), "{refused:?}");
        let refused = pool.attach(0, device(house.ids[4], 1)).await;
        assert!(matches!(refused, Err(MemberError::IsMember { .. })), "{refused:?}");
        let refused = pool.add(VdevKind::Plain, 0, vec![device(small, 1)]).await;
        assert!(matches!(refused, Err(MemberError::Vdev(PoolCreateError::TooSmall { .. }))), "{refused:?}");
        let refused = pool.add(VdevKind::Raidz, 1, vec![device(house.ids[0], 1)]).await;
        assert!(matches!(refused, Err(MemberError::Vdev(PoolCreateError::TooFew { .. }))), "{refused:?}");
        let one = sim.add_blank_drive(Model::sata_ssd(), MEMBER);
        let refused = pool.add(VdevKind::Mirror, 1, vec![device(one, 1), device(one, 2)]).await;
        assert!(matches!(refused, Err(MemberError::Twice(_))), "{refused:?}");
        let refused = pool.add_spare(device(small, 1)).await;
        assert!(matches!(refused, Err(MemberError::TooSmall { .. })), "{refused:?}");
        let refused = pool.detach(1).await;
        assert!(matches!(refused, Err(MemberError::NoCopy(_))), "{refused:?}");
        assert_eq!((pool.label().generation, pool.status().capacity), (generation, capacity));
        holds(io, &pool, &[1]).await;
        pool.stop().await.expect("stopped");
    });
}
