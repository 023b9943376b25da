//! Measures how fast members answer reads. A copy that is much slower than another is read only now and then.
//!
//! The work in flight alone does not tell: with one read at a time nothing is ever in flight when the next comes. Copies
//! that are about as fast as each other share reads by that work only.

use core::cell::Cell;

use brindle_io::{Duration, Instant};

/// One read of this many is measured, while no copy is known to be slow: measuring costs as much as the choice.
const EVERY: u8 = 8;
/// One split read of this many is measured part by part.
const SPLITS: u8 = 32;
/// The first reads of a member are all measured.
const FIRST: u8 = 4;
/// A member is slow if it takes this many times as long as the fastest.
const SLOW: u64 = 8;
/// Nanoseconds that a read takes at least, as far as is of interest here.
const LEAST: u64 = 50_000;
/// Nanoseconds a byte that are the transfer's, not the member's: reads of all lengths are compared.
const BYTE: u64 = 4;
/// A slow member is asked again after this many times its last latency: a client that waits for each read loses 2 %.
const AGAIN: u64 = 50;
/// The member is asked again after so long at the latest, in nanoseconds.
const LATEST: u64 = 20_000_000_000;

/// The observed speed of a member.
#[derive(Debug, Default)]
struct Pace {
    /// Nanoseconds of a read, smoothed; 0 is not known.
    latency: Cell<u64>,
    /// Reads measured so far, up to [`FIRST`].
    measured: Cell<u8>,
    /// Reads until the next is measured.
    until: Cell<u8>,
    /// When it may be asked again though it is slow.
    again: Cell<Instant>,
    /// The member is not to be read where another can answer.
    write_mostly: Cell<bool>,
}

/// The paces of all members, by role.
#[derive(Debug)]
pub(crate) struct Paces {
    roles: Vec<Pace>,
    /// Number of adjacent roles with the same data. A choice is made only among these; the queues of others don't
    /// matter.
    group: usize,
    /// No member is slow, nor write-mostly.
    even: Cell<bool>,
    /// Split reads until the next is measured.
    until: Cell<u8>,
}

impl Paces {
    pub(crate) fn new(roles: u16, group: u16) -> Self {
        Self {
            group: usize::from(group).max(1),
            roles: (0..roles).map(|_| Pace::default()).collect(),
            even: Cell::new(true),
            until: Cell::new(0),
        }
    }

    /// No member is known to be slow, or is write-mostly: the choice needs no further look.
    #[inline]
    pub(super) fn are_even(&self) -> bool {
        self.even.get()
    }

    /// Whether the next read of this member is to be measured.
    #[inline]
    pub(super) fn is_due(&self, role: u16) -> bool {
        let pace = &self.roles[usize::from(role)];
        let until = pace.until.get();
        if until > 0 && self.even.get() {
            pace.until.set(until - 1);
            return false;
        }
        pace.until.set(if pace.measured.get() < FIRST { 0 } else { EVERY - 1 });
        true
    }

    /// Whether the parts of the next split read are to be measured, each by itself.
    pub(super) fn is_split_due(&self) -> bool {
        let until = self.until.get();
        let due = until == 0 || !self.even.get();
        self.until.set(if due { SPLITS - 1 } else { until - 1 });
        due
    }

    /// A split read whose parts were not measured by themselves took from `began` to `now`: the next one is measured if
    /// that is longer than any member was known to take.
    pub(super) fn all_answered(&self, len: usize, began: Instant, now: Instant) {
        let most = self.roles.iter().map(|pace| pace.latency.get()).max().unwrap_or(0);
        if taken(len, began, now) > most.saturating_mul(SLOW) {
            self.until.set(0);
        }
    }

    /// A read of `len` bytes that began at `began` was answered at `now`. `in_use` tells the roles that are asked at all.
    pub(super) fn answered(
        &self,
        role: u16,
        len: usize,
        began: Instant,
        now: Instant,
        in_use: impl Fn(u16) -> bool,
    ) {
        let pace = &self.roles[usize::from(role)];
        let took = taken(len, began, now);
        let before = pace.latency.get();
        pace.latency.set(match before {
            0 => took,
            // One slow answer is chance, or this process did not run: it takes two in a row, and the next is measured.
            // One fast answer of a member that was slow is a sign.
            _ if took > before => (before + took.div_ceil(8)).min(before * 4).min(took),
            _ => before - (before - took) / 2,
        });
        if before > 0 && took > before.saturating_mul(SLOW) {
            pace.until.set(0);
            self.until.set(0);
        }
        pace.measured.set(pace.measured.get().saturating_add(1).min(FIRST));
        pace.again.set(later(now, took));
        self.compare(in_use);
    }

    /// Reads of this member were given up at `now`, the oldest of which had waited for `age`. That is no chance, and it is
    /// known of each of them: most reads are not measured.
    pub(crate) fn given_up(&self, role: u16, age: Duration, now: Instant, in_use: impl Fn(u16) -> bool) {
        let pace = &self.roles[usize::from(role)];
        let took = age.as_nanos() as u64;
        pace.latency.set(pace.latency.get().max(took));
        pace.again.set(later(now, took));
        self.compare(in_use);
    }

    /// Looks whether a member is slow now beside those that hold the same, or write-mostly.
    pub(super) fn compare(&self, in_use: impl Fn(u16) -> bool) {
        let mostly = self.roles.iter().any(|pace| pace.write_mostly.get());
        let known = |(role, pace): &(u16, &Pace)| pace.latency.get() > 0 && in_use(*role);
        let is_even = |(first, group): (u16, &[Pace])| {
            let latencies = (first..).zip(group).filter(known).map(|(_, pace)| pace.latency.get());
            let (least, most) =
                latencies.fold((u64::MAX, 0), |(least, most), one| (least.min(one), most.max(one)));
            most < least.saturating_mul(SLOW)
        };
        let groups = (0..).step_by(self.group).zip(self.roles.chunks(self.group));
        self.even.set(!mostly && { groups }.all(is_even));
    }

    /// Whether this member is not to be read where another can answer.
    pub(super) fn is_write_mostly(&self, role: u16) -> bool {
        self.roles[usize::from(role)].write_mostly.get()
    }

    pub(super) fn set_write_mostly(&self, role: u16, on: bool) {
        self.roles[usize::from(role)].write_mostly.set(on);
    }

    /// Nanoseconds of a read of this member; 0 is not known.
    pub(super) fn latency(&self, role: u16) -> u64 {
        self.roles[usize::from(role)].latency.get()
    }

    /// Time of this member's answers as a multiple of `least` (nanoseconds); 1 if it is not slow.
    pub(super) fn weight(&self, role: u16, least: u64) -> u64 {
        let times = self.latency(role) / least.max(1);
        if times < SLOW { 1 } else { times }
    }

    /// Whether it is time to ask a slow member again. If so, it is not asked once more before it has answered.
    pub(super) fn ask_again(&self, role: u16, now: Instant) -> bool {
        let pace = &self.roles[usize::from(role)];
        if now < pace.again.get() {
            return false;
        }
        pace.again.set(later(now, pace.latency.get()));
        true
    }

    /// Another device has taken the role.
    pub(crate) fn forget(&self, role: u16) {
        let pace = &self.roles[usize::from(role)];
        pace.latency.set(0);
        pace.measured.set(0);
        pace.until.set(0);
    }
}

/// Nanoseconds that the member took for a read of `len` bytes.
fn taken(len: usize, began: Instant, now: Instant) -> u64 {
    (now.since(began).as_nanos() as u64).saturating_sub(len as u64 * BYTE).max(LEAST)
}

/// The time at which a member is asked again that took `took` nanoseconds.
fn later(now: Instant, took: u64) -> Instant {
    now.after(Duration::from_nanos(took.saturating_mul(AGAIN).min(LATEST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Notes reads of 4 KiB that took these times.
    fn reads(paces: &Paces, role: u16, took: u64, count: u64) {
        (0..count).for_each(|n| paces.answered(role, 4096, at(n * MS), at(n * MS + took), |_| true));
    }

    #[test]
    fn a_slow_member_is_told_at_its_first_answer_and_forgiven_after_few() {
        let paces = Paces::new(2, 2);
        reads(&paces, 0, MS / 10, 10);
        assert!(paces.are_even(), "nothing is known of the other");
        reads(&paces, 1, 200 * MS, 1);
        assert!(!paces.are_even() && paces.weight(1, paces.latency(0)) > 1000);
        assert_eq!(paces.weight(0, paces.latency(0)), 1);
        reads(&paces, 1, MS / 10, 12);
        assert!(paces.are_even());
    }

    #[test]
    fn chance_and_length_make_nobody_slow() {
        let paces = Paces::new(2, 2);
        for n in 0..100 {
            reads(&paces, 0, MS / 10, 1);
            reads(&paces, 1, if n % 10 == 9 { 50 * MS } else { MS / 8 }, 1);
            assert!(paces.are_even(), "{n}");
        }
        paces.answered(1, 1 << 20, at(0), at(4 * MS), |_| true);
        assert!(paces.are_even());
        reads(&paces, 1, 400 * MS, 4);
        assert!(!paces.are_even());
        paces.answered(0, 4096, at(0), at(MS / 10), |role| role == 0);
        assert!(paces.are_even(), "who is not asked any more does not count");
    }

    #[test]
    fn members_that_hold_other_things_make_nobody_slow() {
        let paces = Paces::new(4, 2);
        (0..2).for_each(|role| reads(&paces, role, MS / 10, 10));
        (2..4).for_each(|role| reads(&paces, role, 200 * MS, 10));
        assert!(paces.are_even(), "a longer queue for both");
        reads(&paces, 1, 200 * MS, 2);
        assert!(!paces.are_even());
    }

    #[test]
    fn some_reads_are_measured_and_all_while_a_member_is_slow() {
        let paces = Paces::new(2, 2);
        let due = |count| (0..count).filter(|_| paces.is_due(0)).count();
        assert_eq!(due(6), 6, "the first, as long as no answer has come");
        reads(&paces, 0, MS, 4);
        due(1);
        assert_eq!(due(80), 10);
        reads(&paces, 1, 100 * MS, 1);
        assert_eq!(due(80), 80);
        let even = Paces::new(2, 2);
        let split = |count| (0..count).filter(|_| even.is_split_due()).count();
        assert_eq!(split(65), 3);
        reads(&even, 0, MS, 4);
        even.all_answered(1 << 20, at(0), at(10 * MS));
        assert_eq!(split(4), 0);
        even.all_answered(1 << 20, at(0), at(100 * MS));
        assert_eq!(split(4), 1, "somebody was slow: who, the next read tells");
    }

    #[test]
    fn a_member_is_slow_as_soon_as_a_read_of_it_was_given_up() {
        let paces = Paces::new(2, 2);
        reads(&paces, 0, MS / 10, 1);
        reads(&paces, 1, MS / 10, 10);
        paces.given_up(1, Duration::from_millis(500), at(1_000 * MS), |_| true);
        assert!(!paces.are_even() && paces.weight(1, paces.latency(0)) > 1000);
        assert!(!paces.ask_again(1, at(20_900 * MS)));
        assert!(paces.ask_again(1, at(21_000 * MS)));
        reads(&paces, 1, MS / 10, 12);
        assert!(paces.are_even());
    }

    #[test]
    fn a_slow_member_is_asked_again_when_that_costs_little() {
        let paces = Paces::new(1, 1);
        paces.answered(0, 0, at(0), at(100 * MS), |_| true);
        assert!(!paces.ask_again(0, at(5_000 * MS)));
        assert!(paces.ask_again(0, at(5_100 * MS)));
        assert!(!paces.ask_again(0, at(5_200 * MS)), "one at a time");
    }
}
