//! Patience with members: who does not answer is given up, so that whoever waits for it goes on.
//!
//! One task per array looks at what is in flight on each member, some times a second. No operation pays for it. Three
//! things come of it:
//!
//! - A member that has let something wait beyond its patience is failed, if the array can do without it.
//! - Members that stopped answering together, more than the array can lose, are judged together: none is failed. What
//!   waits for them ends with an error, and the array stays as it is.
//! - A read is answered from redundancy after a shorter patience, if the other members are faster. That costs reads of
//!   theirs, so it is rationed.
//!
//! Time in which the executor itself was not run (the process was stopped, or the thread was held) does not count.

use core::cell::Cell;
use std::rc::{Rc, Weak};

use brindle_io::{Duration, Instant, Io, MemberId, OpClass, OpError};

use crate::array::Inner;
use crate::events::{Cause, EventKind, Operation};
use crate::presence;

/// How long members may take. See [`Patience::default`] for the usual values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A read or write. Below the 30 s after which SCSI and iSCSI clients give up themselves.
    pub answer: Duration,
    /// A flush, discard or write-zeroes, which may take a drive much longer.
    pub flush: Duration,
    /// A read, before it is answered from redundancy.
    pub read: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(20),
            flush: Duration::from_secs(120),
            read: Duration::from_millis(500),
        }
    }
}

impl Patience {
    fn of(&self, class: OpClass) -> Duration {
        match class {
            OpClass::Read | OpClass::Write | OpClass::Probe => self.answer,
            OpClass::Slow => self.flush,
        }
    }

    /// Whoever stops an array wants it to end: less patience with members that keep it from that.
    fn at_stop(&self) -> Self {
        Self {
            answer: self.answer.min(Duration::from_secs(5)),
            flush: self.flush.min(Duration::from_secs(20)),
            ..*self
        }
    }

    /// Time between two looks.
    fn tick(&self) -> Duration {
        (self.read.min(self.answer) / 4).clamp(Duration::from_millis(10), Duration::from_millis(250))
    }
}

const CLASSES: [OpClass; 4] = [OpClass::Read, OpClass::Write, OpClass::Slow, OpClass::Probe];

/// Reads of members that answering early may cost, per hundred reads of members,
const EARLY_PERCENT: u64 = 5;
/// over this time;
const EARLY_WINDOW: Duration = Duration::from_secs(60);
/// and what it may cost where little is read: what a disk does in ten seconds.
const EARLY_LEAST: u64 = 1024;

/// What is left of the ration of reads that answering early may cost.
#[derive(Default)]
pub(crate) struct Ration {
    began: Cell<Instant>,
    reads: Cell<u64>,
    extra: Cell<u64>,
}

impl Ration {
    /// Operations that read members have been sent.
    #[inline]
    pub(crate) fn sent(&self, reads: u64) {
        self.reads.set(self.reads.get() + reads);
    }

    /// So many of them would not have been needed, had a member answered in time.
    pub(crate) fn spent(&self, extra: u64) {
        self.extra.set(self.extra.get() + extra);
    }

    /// More may be spent.
    pub(crate) fn is_left(&self) -> bool {
        self.extra.get() < EARLY_LEAST.max(self.reads.get() / 100 * EARLY_PERCENT)
    }

    fn renew(&self, now: Instant) {
        if now.since(self.began.get()) >= EARLY_WINDOW {
            self.began.set(now);
            self.reads.set(0);
            self.extra.set(0);
        }
    }
}

/// Looks at the members of an array until its run has ended.
pub(crate) async fn watch(array: Weak<Inner>, io: Io, patience: Patience) {
    let mut watch = Watch { asked: patience, look_at: io.ran().after(presence::EVERY), patience };
    loop {
        io.sleep(patience.tick()).await;
        let Some(array) = array.upgrade() else { return };
        if array.ended.get() {
            return;
        }
        watch.look(&array, io.ran());
    }
}

struct Watch {
    asked: Patience,
    /// When the members' devices are looked at next.
    look_at: Instant,
    /// What holds now; less than what was asked for while the array stops.
    patience: Patience,
}

/// What a member lets wait.
struct Waits {
    role: u16,
    /// By [`CLASSES`]: for how long the oldest operation has been under way.
    age: [Duration; 4],
    /// Writes to it were given up, and it has not answered since.
    held: bool,
}

impl Watch {
    fn look(&mut self, array: &Rc<Inner>, now: Instant) {
        self.patience = if array.keeper.is_stopping() { self.asked.at_stop() } else { self.asked };
        array.ration.renew(now);
        if !array.ration.is_left() {
            (0..array.members.len()).for_each(|role| array.members.set_slow(role, None));
        }
        let waits: Vec<Waits> =
            (0..array.members.len()).filter_map(|role| self.waits(array, role, now)).collect();
        let beyond = |waits: &Waits, share: u32| {
            CLASSES.iter().zip(waits.age).any(|(&class, age)| age >= self.patience.of(class) / share)
        };
        if waits.iter().any(|waits| beyond(waits, 1)) {
            let silent: Vec<u16> = waits.iter().filter(|w| w.held || beyond(w, 2)).map(|w| w.role).collect();
            let overdue = waits.iter().filter(|waits| beyond(waits, 1));
            let bearable = array.keeper.can_lose(&silent);
            overdue.for_each(|waits| {
                if bearable { fail(array, waits.role) } else { self.give_up(array, waits, now) }
            });
        }
        self.answer_early(array, &waits, now);
        array.scratch.renew_if_held();
        if now >= self.look_at && array.keeper.record().is_some() {
            self.look_at = now.after(presence::EVERY);
            waits.iter().for_each(|waits| presence::look(array, waits.role));
        }
    }

    /// What a member in use lets wait. An array that is a member deals with its own members itself.
    fn waits(&self, array: &Inner, role: u16, now: Instant) -> Option<Waits> {
        let device = array.members.writable(role).filter(|device| !array.io.is_served(device.id))?;
        let age = |class| {
            // What was given up is waited for still: a member that stays silent is judged again.
            let given_up = match class {
                OpClass::Read => array.members.slow_since(role),
                OpClass::Write => array.members.held_since(role),
                _ => None,
            };
            let oldest = array.io.oldest(device.id, class).into_iter().chain(given_up).min()?;
            Some(now.since(oldest))
        };
        let age = CLASSES.map(|class| age(class).unwrap_or_default());
        Some(Waits { role, age, held: array.members.is_held(device) })
    }

    /// Whoever waits beyond patience for this member, which the array can't do without, gets an error.
    fn give_up(&self, array: &Rc<Inner>, waits: &Waits, now: Instant) {
        let Some(device) = array.members.writable(waits.role) else { return };
        for (&class, age) in CLASSES.iter().zip(waits.age) {
            let patience = self.patience.of(class);
            if age < patience {
                continue;
            }
            if array.io.give_up(device.id, class, before(now, patience)) > 0 {
                let why = Cause::new(operation(class), OpError::TimedOut);
                array.keeper.note_member(waits.role, EventKind::GivenUp, why, None);
            }
            if class == OpClass::Read {
                array.members.set_slow(waits.role, None);
                array.note_given_up(waits.role, age);
            }
            if matches!(class, OpClass::Write | OpClass::Slow) {
                hold_writes(array, waits.role, device.id);
            }
        }
    }

    /// Reads that have waited for long enough are given up, if others can answer, and sooner.
    fn answer_early(&self, array: &Rc<Inner>, waits: &[Waits], now: Instant) {
        if !array.geometry.level().is_redundant() || array.keeper.synced_to() != u64::MAX {
            return;
        }
        let reads = |waits: &Waits| waits.age[0];
        for slow in waits.iter().filter(|waits| reads(waits) >= self.patience.read) {
            let faster = waits.iter().all(|w| w.role == slow.role || !w.held && reads(w) * 2 < reads(slow));
            let Some(device) = array.members.readable(slow.role, u64::MAX) else { continue };
            if !faster || !array.ration.is_left() || !array.keeper.can_lose(&[slow.role]) {
                continue;
            }
            let given_up = array.io.give_up(device.id, OpClass::Read, before(now, self.patience.read));
            array.ration.spent(given_up as u64);
            if given_up > 0 {
                array.note_given_up(slow.role, reads(slow));
            }
            if given_up > 0 && !array.members.is_slow(slow.role) {
                array.members.set_slow(slow.role, Some(before(now, reads(slow))));
                let why = Cause::new(Operation::Read, OpError::TimedOut);
                array.keeper.note_member(slow.role, EventKind::Slow, why, None);
                when_answered(array, slow.role, device.id, |array, role| array.members.set_slow(role, None));
            }
        }
    }
}

/// What events call an operation of a class.
fn operation(class: OpClass) -> Operation {
    match class {
        OpClass::Read => Operation::Read,
        OpClass::Write => Operation::Write,
        OpClass::Slow => Operation::Flush,
        OpClass::Probe => Operation::Probe,
    }
}

/// The moment a span before this one.
fn before(now: Instant, span: Duration) -> Instant {
    Instant::from_nanos(now.as_nanos().saturating_sub(span.as_nanos() as u64))
}

/// Takes a member out of use; what waits for it goes on at once.
fn fail(array: &Rc<Inner>, role: u16) {
    // Whoever waited for the member learns whether that could be recorded.
    let _recording = array.keeper.begin_failing(role, Cause::from(OpError::TimedOut));
}

/// Nothing more is written to the member before the end of what was given up is known: it may still land.
fn hold_writes(array: &Rc<Inner>, role: u16, id: MemberId) {
    if array.io.orphans(id) > 0 && array.members.held_since(role).is_none() {
        array.members.set_held(role, Some(array.io.ran()));
        when_answered(array, role, id, |array, role| array.members.set_held(role, None));
    }
}

/// Does something once all that was given up on a member has ended.
fn when_answered(array: &Rc<Inner>, role: u16, id: MemberId, then: impl FnOnce(&Inner, u16) + 'static) {
    let (weak, io) = (Rc::downgrade(array), array.io.clone());
    drop(array.io.spawn(async move {
        io.orphans_ended(id).await;
        if let Some(array) = weak.upgrade() {
            then(&array, role);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answering_early_costs_a_twentieth_of_the_reads_of_a_minute_at_most() {
        let ration = Ration::default();
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        ration.spent(EARLY_LEAST - 1);
        assert!(ration.is_left(), "where little is read, some is granted");
        ration.spent(1);
        assert!(!ration.is_left());
        ration.sent(100_000);
        assert!(ration.is_left());
        ration.spent(5_000 - EARLY_LEAST);
        assert!(!ration.is_left());
        ration.renew(at(59));
        assert!(!ration.is_left());
        ration.renew(at(60));
        assert!(ration.is_left());
        ration.sent(1_000);
        ration.spent(EARLY_LEAST);
        assert!(!ration.is_left(), "what was read before the minute does not count");
    }
}
