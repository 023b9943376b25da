//! Watches for members that do not answer, and gives up their operations, so that the waiting tasks go on.
//!
//! One task per array looks at what is in flight on each member, some times a second, as long as something is. No operation
//! pays for it but the first. Three things come of it:
//!
//! - A member that has let something wait beyond its patience is failed, if the array can do without it.
//! - Members that stopped answering together, more than the array can lose, are judged together: none is failed.
//!   Operations that wait for them end with an error, and the array stays as it is.
//! - A read is answered from redundancy after a shorter patience, if the other members are faster. That costs extra
//!   reads, so it is rationed.
//!
//! Time in which the executor itself was not run (the process was stopped, or the thread was held) does not count.

use std::rc::{Rc, Weak};

use brindle_io::sync::{Either, race};
use brindle_io::{Duration, Instant, Io, MemberId, OpError, OpSpan};

use crate::events::{Cause, Operation};
use crate::patience::Patience;
use crate::peers::{self, Peers};
use crate::presence;
use crate::set::MemberSet;
use crate::set::{Noticed, Owner};

/// The factor by which members that are to fail fast have less time.
const HASTE: u32 = 4;

const CLASSES: [OpSpan; 4] = [OpSpan::Read, OpSpan::Write, OpSpan::Slow, OpSpan::Probe];

/// Looks at the members of an owner until its run has ended: those that don't answer are given up.
pub async fn watch(owner: Weak<dyn Owner>, io: Io, patience: Patience) {
    let (look_at, compare_at) = (io.ran().after(presence::EVERY), io.ran().after(peers::EVERY));
    let mut watch = Watch { asked: patience, look_at, compare_at, peers: Peers::default(), patience };
    let mut rested = false;
    loop {
        if !rested {
            io.sleep(patience.tick()).await;
        }
        let Some(owner) = owner.upgrade() else { return };
        if owner.set().ended.get() {
            return;
        }
        let idle = watch.look(&owner, io.ran());
        drop(owner);
        rested = false;
        if idle {
            let next_look = io.sleep_until(next_common(io.now()));
            rested = matches!(race(io.operation_begins(), next_look).await, Either::Second(()));
        }
    }
}

/// The next look of watches that are idle. All watches of a thread have the same, so that it is woken once for them.
fn next_common(now: Instant) -> Instant {
    let every = presence::IDLE.as_nanos() as u64;
    Instant::from_nanos((now.as_nanos() / every + 1) * every)
}

struct Watch {
    asked: Patience,
    /// When the members' devices are looked at next.
    look_at: Instant,
    /// The time of the next comparison of members.
    compare_at: Instant,
    peers: Peers,
    /// The patience that applies now: while the array stops it is shorter than configured.
    patience: Patience,
}

/// The operations of a member that keep others waiting.
struct Waits {
    role: u16,
    /// Indexed by [`CLASSES`]: for how long the oldest operation has been under way.
    age: [Duration; 4],
    /// Writes to it were given up, and it has not answered since.
    orphans: bool,
}

impl Watch {
    /// True if nothing is in flight on members.
    fn look(&mut self, owner: &Rc<dyn Owner>, now: Instant) -> bool {
        let set = owner.set();
        self.patience = if owner.is_stopping() { self.asked.at_stop() } else { self.asked };
        set.ration.renew(now);
        if !set.ration.is_left() {
            (0..set.members.len()).for_each(|role| set.members.set_slow(role, None));
        }
        self.fail_silent_seconds(&**owner, now);
        let waits: Vec<Waits> =
            (0..set.members.len()).filter_map(|role| self.waits(set, role, now)).collect();
        // As md does, mirrors wait less long for a member that is to fail fast.
        let hasty =
            |role| if !set.dependence().coupled && set.members.flags(role).failfast { HASTE } else { 1 };
        let beyond = |waits: &Waits, share: u32| {
            let share = share * hasty(waits.role);
            CLASSES.iter().zip(waits.age).any(|(&class, age)| age >= self.patience.of(class) / share)
        };
        if waits.iter().any(|waits| beyond(waits, 1)) {
            let silent: Vec<u16> =
                waits.iter().filter(|w| w.orphans || beyond(w, 2)).map(|w| w.role).collect();
            let overdue = waits.iter().filter(|waits| beyond(waits, 1));
            let bearable = owner.can_lose(&silent);
            overdue.for_each(|waits| {
                if bearable { fail(&**owner, waits.role) } else { self.give_up(owner, waits, now) }
            });
        }
        self.answer_early(owner, &waits, now);
        set.scratch.renew_if_pinned();
        owner.looked();
        if now >= self.look_at {
            self.look_at = now.after(presence::EVERY);
            waits.iter().for_each(|waits| presence::look(owner, waits.role));
        }
        if now >= self.compare_at {
            self.compare_at = now.after(peers::EVERY);
            self.compare(&**owner);
        }
        is_idle(set)
    }

    /// Tells of members that have grown slow against the others, or are as fast again.
    fn compare(&mut self, owner: &dyn Owner) {
        let set = owner.set();
        let answers = |role| {
            let device = set.members.writable(role)?;
            let counters = set.io.counters(device.id);
            Some((device.id, [counters.read_latency, counters.write_latency]))
        };
        let all: Vec<_> = (0..set.members.len()).map(answers).collect();
        for (role, times) in self.peers.look(&all) {
            set.members.set_slower(role, times);
            // Mirrors choose among copies by what they measure themselves. Of parity the row is read instead, which has the others
            // read twice as much as before at most, and spares what takes eight times as long.
            set.members
                .set_slow_peer(role, times > 0 && set.dependence().redundant && set.dependence().coupled);
            let noticed = if times > 0 { Noticed::Slower } else { Noticed::AsFastAgain };
            owner.notice(role, noticed, None);
        }
    }

    /// Takes second devices out of use that have let something wait beyond patience: the array loses nothing.
    fn fail_silent_seconds(&self, owner: &dyn Owner, now: Instant) {
        let set = owner.set();
        for role in (0..set.members.len()).filter(|_| set.members.has_seconds()) {
            let Some(second) = set.members.second(role) else { continue };
            let silent = |&class: &OpSpan| {
                let oldest = set.io.oldest(second.device.id, class);
                oldest.is_some_and(|since| now.since(since) >= self.patience.of(class))
            };
            if let Some(&class) = CLASSES.iter().find(|class| silent(class)) {
                owner.second_failed(role, Cause::new(operation(class), OpError::TimedOut));
            }
        }
    }

    /// The operations that a member in use keeps waiting. A member that is an array itself watches its own members.
    fn waits(&self, set: &MemberSet, role: u16, now: Instant) -> Option<Waits> {
        let device = set.members.writable(role).filter(|device| !device.id.is_served())?;
        let age = |class| {
            // Operations that were given up count as well: a member that stays silent is judged again.
            let given_up = match class {
                OpSpan::Read => set.members.slow_since(role),
                OpSpan::Write => set.members.orphans_since(role),
                _ => None,
            };
            let elsewhere = set.members.waits_elsewhere(role).filter(|_| class == OpSpan::Write);
            let oldest =
                set.io.oldest(device.id, class).into_iter().chain(given_up).chain(elsewhere).min()?;
            Some(now.since(oldest))
        };
        let age = CLASSES.map(|class| age(class).unwrap_or_default());
        Some(Waits { role, age, orphans: set.members.has_orphans(device) })
    }

    /// Ends operations that have waited too long for this member with an error. The array can't do without the
    /// member, so it is not failed.
    fn give_up(&self, owner: &Rc<dyn Owner>, waits: &Waits, now: Instant) {
        let set = owner.set();
        let Some(device) = set.members.writable(waits.role) else { return };
        for (&class, age) in CLASSES.iter().zip(waits.age) {
            let patience = self.patience.of(class);
            if age < patience {
                continue;
            }
            if set.io.give_up(device.id, class, now.before(patience)) > 0 {
                let why = Cause::new(operation(class), OpError::TimedOut);
                owner.notice(waits.role, Noticed::GivenUp, Some(why));
            }
            if class == OpSpan::Read {
                set.members.set_slow(waits.role, None);
                owner.gave_up_reads(waits.role, age);
            }
            if class == OpSpan::Write && set.members.waits_elsewhere(waits.role).is_some() {
                owner.gave_up_elsewhere(waits.role);
            }
            if matches!(class, OpSpan::Write | OpSpan::Slow) {
                hold_writes(owner, waits.role, device.id);
            }
        }
    }

    /// Reads that have waited for long enough are given up, if others can answer, and sooner.
    fn answer_early(&self, owner: &Rc<dyn Owner>, waits: &[Waits], now: Instant) {
        let set = owner.set();
        if !owner.answers_for_members() {
            return;
        }
        let reads = |waits: &Waits| waits.age[0];
        for slow in waits.iter().filter(|waits| reads(waits) >= self.patience.read) {
            let faster =
                waits.iter().all(|w| w.role == slow.role || !w.orphans && reads(w) * 2 < reads(slow));
            let Some(device) = set.members.readable(slow.role, u64::MAX) else { continue };
            if !faster || !set.ration.is_left() || !owner.can_lose(&[slow.role]) {
                continue;
            }
            let given_up = set.io.give_up(device.id, OpSpan::Read, now.before(self.patience.read));
            set.ration.spent(given_up as u64);
            if given_up > 0 {
                owner.gave_up_reads(slow.role, reads(slow));
            }
            if given_up > 0 && !set.members.is_slow(slow.role) {
                set.members.set_slow(slow.role, Some(now.before(reads(slow))));
                let why = Cause::new(Operation::Read, OpError::TimedOut);
                owner.notice(slow.role, Noticed::Slow, Some(why));
                when_answered(owner, slow.role, device.id, |set, role| set.members.set_slow(role, None));
            }
        }
    }
}

/// Whether nothing is in flight on members, of what was given up neither: there is nothing to look at before the next operation.
fn is_idle(set: &MemberSet) -> bool {
    let is_asked = |id: MemberId| {
        set.io.orphans(id) > 0 || CLASSES.iter().any(|&class| set.io.oldest(id, class).is_some())
    };
    (0..set.members.len()).all(|role| {
        if set.members.waits_elsewhere(role).is_some() {
            return false;
        }
        let second = set.members.second(role).map(|second| second.device.id);
        let device = set.members.writable(role).map(|device| device.id);
        !device.into_iter().chain(second).any(is_asked)
    })
}

/// The name in events for an operation of a class.
fn operation(class: OpSpan) -> Operation {
    match class {
        OpSpan::Read => Operation::Read,
        OpSpan::Write => Operation::Write,
        OpSpan::Slow => Operation::Flush,
        OpSpan::Probe | OpSpan::Map => Operation::Probe,
    }
}

/// Takes a member out of use; what waits for it goes on at once.
fn fail(owner: &dyn Owner, role: u16) {
    // Callers that waited for the member learn whether the failure could be recorded.
    let _recording = owner.begin_failing(role, Cause::from(OpError::TimedOut));
}

/// Nothing more is written to the member before the end of what was given up is known: it may still land.
fn hold_writes(owner: &Rc<dyn Owner>, role: u16, id: MemberId) {
    let set = owner.set();
    if set.io.orphans(id) > 0 && !set.members.has_own_orphans(role) {
        set.members.set_orphans(role, Some(set.io.ran()));
        when_answered(owner, role, id, |set, role| set.members.set_orphans(role, None));
    }
}

/// Does something once all that was given up on a member has ended.
fn when_answered(
    owner: &Rc<dyn Owner>,
    role: u16,
    id: MemberId,
    then: impl FnOnce(&MemberSet, u16) + 'static,
) {
    let (weak, io) = (Rc::downgrade(owner), owner.set().io.clone());
    drop(owner.set().io.spawn(async move {
        io.orphans_ended(id).await;
        if let Some(owner) = weak.upgrade() {
            then(owner.set(), role);
        }
    }));
}
