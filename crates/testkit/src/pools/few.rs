//! A pool with more members missing than it can do without, as somebody sees it who has pulled one too many. It may refuse to open, and
//! refuse blocks; what it gives is right all the same. For that a failure has to be on record before anything relies on it. Else a member
//! that came back too old stands in for one that is missing, and the end of the log is lost without a word.

use brindle_io::sim::{Model, Sim};
use brindle_io::{Io, MemberId};
use brindle_pool::{How, choose, look, open_chosen};
use brindle_volume::Volume;

use super::boot::NAME;
use super::house::House;
use super::plan::PoolPlan;
use crate::oracle::Oracle;

/// Bytes of members that are copied at a time.
const CHUNK: usize = 64 << 10;

/// The members that are left when one is pulled that was there all the time: a choice for each such member. One of these stays, at least:
/// else nobody left would know what was written last.
pub(super) fn choices(plan: &PoolPlan, house: &House) -> Vec<Vec<usize>> {
    let members = 0..house.ids.len();
    let sound: Vec<usize> = members.clone().filter(|member| !plan.victims.contains(member)).collect();
    let without = |&pulled: &usize| members.clone().filter(|&member| member != pulled).collect();
    if sound.len() < 2 { Vec::new() } else { sound.iter().map(without).collect() }
}

/// Opens copies of these members for reading alone, and judges all that they give.
///
/// # Errors
/// The bytes that are wrong.
pub(super) fn read(sim: &Sim, house: &House, left: &[usize], oracle: &Oracle) -> Result<(), String> {
    let copy = Sim::new(0);
    let mut ids = Vec::new();
    for &member in left.iter().filter(|&&member| !sim.faults(house.ids[member]).gone) {
        ids.push(copy_of(sim, house.ids[member], &copy, Model::nvme(), house.size));
    }
    // Whatever it is by now: where a member's device is of the past it is that member.
    let others = house.extra.iter().chain(&house.more);
    ids.extend(others.map(|&id| copy_of(sim, id, &copy, Model::nvme(), house.size)));
    let io = Io::new(Box::new(copy));
    let judged = io.block_on(async {
        let mut looked = Vec::new();
        for id in ids {
            looked.extend(look(&io, "a member", id).await.ok());
        }
        let Ok(chosen) = choose(&looked, None) else { return Ok(()) };
        let Ok((pool, _)) = open_chosen(&io, chosen, How::ReadOnly, house.config()).await else {
            return Ok(());
        };
        let judged = match pool.volume(NAME) {
            Some(volume) => judge(&io, &volume, oracle).await,
            None => Ok(()),
        };
        let _stopped = pool.stop().await;
        judged
    });
    io.shutdown();
    judged.map_err(|why| format!("members {left:?} alone: {why}"))
}

/// A drive of another world that holds what a member does.
pub(super) fn copy_of(sim: &Sim, member: MemberId, copy: &Sim, model: Model, size: u64) -> MemberId {
    let id = copy.add_blank_drive(model, size);
    let mut bytes = vec![0; CHUNK];
    for at in (0..size).step_by(CHUNK) {
        sim.peek(member, at, &mut bytes);
        if bytes.iter().any(|&byte| byte != 0) {
            copy.poke(id, at, &bytes);
        }
    }
    id
}

async fn judge(io: &Io, volume: &impl Volume, oracle: &Oracle) -> Result<(), String> {
    // A block in doubt may be otherwise where all members are.
    let mut oracle = oracle.clone();
    let buf = io.pool(4096).alloc(4096).await;
    for offset in (0..volume.limits().size).step_by(4096) {
        let began = oracle.read_begins();
        if volume.read(offset, buf.all()).await.is_ok() {
            oracle.judge(began, offset, &buf.bytes()).map_err(|wrong| wrong.to_string())?;
        }
    }
    Ok(())
}
