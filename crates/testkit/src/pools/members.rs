//! Members that are taken out, fail, come back and are replaced beside the load: each time they get what they lack.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::{Duration, Io, MemberId};
use brindle_members::members::RoleState;
use brindle_pool::{MemberError, Pool, Replacement};
use uuid::Uuid;

use super::house::House;
use super::names::Names;
use crate::random::Random;

/// Does so with some of these members until the load is done. Where members are struck by faults, orders may be refused.
///
/// # Errors
/// A promise that was broken.
pub(super) async fn change(
    pool: &Pool,
    io: &Io,
    house: &House,
    (victims, are_struck): (&[usize], bool),
    names: &Rc<RefCell<Names>>,
    seed: u64,
    done: &Cell<bool>,
) -> Result<(), String> {
    let mut random = Random::stream(seed, 0x6d65_6d62);
    let mut seats = seats_of(pool, house);
    while !done.get() {
        io.sleep(Duration::from_micros(random.below(9000))).await;
        let member = *random.pick(victims);
        names.borrow_mut().others_change();
        // A copy that was begun before a cut has come to its end meanwhile.
        for (seat, now) in seats.iter_mut().zip(pool.status().members) {
            *seat = now.device.unwrap_or(*seat);
        }
        let did = turn(pool, house, &mut seats, member, &mut random).await;
        if pool.status().broken {
            return Err(format!("member {member} broke the pool: {did:?}"));
        }
        match did {
            Err(
                why @ (MemberError::Open(_)
                | MemberError::Stranger { .. }
                | MemberError::Another { .. }
                | MemberError::WrittenElsewhere { .. }
                | MemberError::TooSmall { .. }),
            ) if !are_struck => return Err(format!("member {member}: {why}")),
            _ => {}
        }
    }
    Ok(())
}

/// The device of each member: the one that it has, else one that no other has, its own first.
fn seats_of(pool: &Pool, house: &House) -> Vec<MemberId> {
    let devices = pool.status().members.into_iter().map(|member| member.device);
    let mut seats: Vec<Option<MemberId>> = devices.collect();
    // Devices behind those are on their way into roles.
    let coming = seats.split_off(house.ids.len().min(seats.len()));
    for at in 0..seats.len() {
        let free = |id: &MemberId| !seats.contains(&Some(*id)) && !coming.contains(&Some(*id));
        seats[at] =
            seats[at].or_else(|| Some(house.ids[at]).filter(free)).or_else(|| house.seats().find(free));
    }
    seats.into_iter().flatten().collect()
}

async fn turn(
    pool: &Pool,
    house: &House,
    seats: &mut [MemberId],
    member: usize,
    random: &mut Random,
) -> Result<(), MemberError> {
    let (number, id) = (member as u16, seats[member]);
    let uuid = Uuid::from_u128(u128::from(random.next()) << 64 | u128::from(random.next()));
    let with = |id| Replacement { name: "a device".to_owned(), id, uuid };
    let other = house.seats().find(|id| !seats.contains(id)).filter(|_| random.one_in(2));
    let is_in = pool.status().members[member].state == RoleState::InSync;
    match (is_in, random.below(4)) {
        (true, 0 | 1) => pool.offline(number).await,
        (true, 2) => Ok(pool.fail(number).await?),
        (_, 3) | (false, 0) if other.is_some() || !is_in => {
            let new = other.unwrap_or(id);
            pool.replace(number, with(new)).await?;
            seats[member] = new;
            Ok(())
        }
        (true, _) => Ok(()),
        (false, _) => match pool.online(Some(number), "a member", id).await {
            // A cut in the middle of a replacement leaves a device that is no member of anything.
            Err(MemberError::Open(_) | MemberError::Stranger { .. }) => pool.replace(number, with(id)).await,
            came => came.map(drop),
        },
    }
}

/// Waits until members have what they lack.
pub(super) async fn settle(pool: &Pool, io: &Io) {
    while pool.status().busy.resilvering {
        io.sleep(Duration::from_millis(1)).await;
    }
}
