//! A pool that grows beside the load: by a vdev, by a member of one that it has, or by a spare.

use std::cell::Cell;

use brindle_format::pool::VdevKind;
use brindle_io::{Duration, Io, MemberId};
use brindle_pool::{MemberError, Pool, Replacement};
use uuid::Uuid;

use super::house::House;
use super::plan::PoolPlan;
use crate::random::Random;

/// Devices that a pool may get.
pub(super) const DEVICES: usize = 3;

/// Grows by some of the devices that are kept for that and are none of the pool yet. Where members are struck by faults, it may be refused.
///
/// # Errors
/// It was refused.
pub(super) async fn grow(
    pool: &Pool,
    io: &Io,
    (house, plan): (&House, &PoolPlan),
    are_struck: bool,
    seed: u64,
    (growing, done): (&Cell<bool>, &Cell<bool>),
) -> Result<(), String> {
    let mut random = Random::stream(seed, 0x6772_6f77);
    while !done.get() {
        io.sleep(Duration::from_micros(random.below(30_000))).await;
        let is_free = |id: &MemberId| !pool.status().members.iter().any(|member| member.device == Some(*id));
        let free: Vec<MemberId> = house.more.iter().copied().filter(is_free).collect();
        if done.get() || free.is_empty() {
            break;
        }
        growing.set(true);
        let grown = grow_by(pool, plan, &free, &mut random).await;
        growing.set(false);
        match grown {
            Err(MemberError::Widest { .. }) => break,
            // It is a spare that has just got a role.
            Err(MemberError::Coming(_) | MemberError::IsMember { .. }) => {}
            Err(why) if !are_struck => return Err(format!("it does not grow: {why}")),
            _ => {}
        }
    }
    Ok(())
}

async fn grow_by(
    pool: &Pool,
    plan: &PoolPlan,
    free: &[MemberId],
    random: &mut Random,
) -> Result<(), MemberError> {
    let mut device = |id| Replacement {
        name: "one more".to_owned(),
        id,
        uuid: Uuid::from_u128(u128::from(random.next()) << 64 | u128::from(random.next())),
    };
    let devices: Vec<Replacement> = free.iter().map(|&id| device(id)).collect();
    let [one, ..] = &devices[..] else { return Ok(()) };
    match random.below(4) {
        // Members that turn are given seats by number, which a spare does not know.
        0 if !plan.turns => pool.add_spare(one.clone()).await,
        0 | 1 if devices.len() > 1 => pool.add(VdevKind::Mirror, 1, devices[..2].to_vec()).await,
        _ => pool.attach(0, one.clone()).await,
    }
}
