//! Scrubs beside the load, which are paused and stopped now and then.

use std::cell::Cell;

use brindle_io::{Duration, Io};
use brindle_members::members::RoleState;
use brindle_pool::{Pool, PoolMember, ScrubError, ScrubKind, Scrubbed};
use brindle_volume::VolumeError;

use super::plan::PoolPlan;
use crate::random::Random;

/// Goes over the pool at random until the load is done. `spoilt` says that places of members have gone bad.
///
/// # Errors
/// A promise that was broken.
pub(super) async fn go_over(
    pool: &Pool,
    io: &Io,
    (plan, spoilt): (&PoolPlan, bool),
    seed: u64,
    done: &Cell<bool>,
) -> Result<(), String> {
    let mut random = Random::stream(seed, 0x7363_7275);
    while !done.get() {
        io.sleep(Duration::from_micros(random.below(8000))).await;
        let kind = if random.one_in(4) { ScrubKind::Check } else { ScrubKind::Repair };
        let before = away(pool);
        let scrub = match pool.begin_scrub(kind) {
            Ok(scrub) => scrub,
            Err(ScrubError::Volume(VolumeError::TooManyLost)) => return Ok(()),
            Err(why) => return Err(format!("no {kind} begins: {why}")),
        };
        let stops = random.one_in(4);
        if stops || random.one_in(4) {
            io.sleep(Duration::from_micros(random.below(2000))).await;
            scrub.pause();
            io.sleep(Duration::from_micros(random.below(2000))).await;
            scrub.resume();
        }
        if stops || done.get() {
            scrub.stop();
        }
        pool.scrub_ended().await;
        let ended = pool.scrubbed().ok_or("a scrub has no end")?;
        let after = away(pool);
        // Those that have turns may have been in use between.
        let is_away = !plan.turns && before.0 == after.0 && before.1 > 0 && after.1 > 0;
        if is_away && ended.error.is_none() && ended.found.is_complete() {
            return Err(format!("a scrub calls whole what absent members miss: {ended:?}"));
        }
        judge(&ended, plan, spoilt).map_err(|why| format!("{why}: {ended:?}"))?;
    }
    Ok(())
}

/// Members that are not in use, and segments that hold something of theirs: there come no more of these as long as it is the same members.
fn away(pool: &Pool) -> (Vec<bool>, usize) {
    let status = pool.status();
    let is_in = |member: &PoolMember| member.state == RoleState::InSync;
    (status.members.iter().map(is_in).collect(), status.busy.lacking)
}

/// Only members that faults may strike may be wrong, and nothing is ever lost.
fn judge(ended: &Scrubbed, plan: &PoolPlan, spoilt: bool) -> Result<(), &'static str> {
    let found = &ended.found;
    if found.lost > 0 {
        return Err("a scrub calls blocks lost");
    }
    let blamed = found.places.iter().all(|(member, _)| plan.victims.contains(&usize::from(*member)));
    if !blamed {
        return Err("a scrub blames a member that is well");
    }
    let is_right = found.wrong == 0 && found.mismatches == 0;
    if !plan.silent && !spoilt && !is_right {
        return Err("a scrub calls wrong what is right");
    }
    // A member that was taken out or came back, or is new, lacks something, which is told as missing.
    let is_whole = plan.turns || plan.grows || found.is_complete();
    if plan.is_sound() && (found.unreadable > 0 || found.healed > 0 || !is_whole) {
        return Err("a scrub finds faults where there are none");
    }
    match ended.error {
        None | Some(ScrubError::Interrupted) => Ok(()),
        // Members may be silent at the wrong moment.
        Some(ScrubError::Volume(_)) if !plan.is_sound() => Ok(()),
        Some(_) => Err("a scrub comes to no end"),
    }
}
