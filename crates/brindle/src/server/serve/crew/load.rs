//! How busy reactors are, and where a session goes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_export::nbd::HOME;
use brindle_export::nbd::Unplaced;
use brindle_io::{Duration, Instant, Io, ThreadClock};

/// The span over which work is measured, at least.
const SPAN: Duration = Duration::from_secs(1);
/// The share of its time from which on home has no time for further sessions.
const BUSY: f64 = 0.75;
/// Shares that differ by less are about the same: the start of a server takes some time, too.
const ABOUT: f64 = 0.25;
/// Names another share, in percent, for sessions of all volumes: for tests, which have them go to others though home is idle.
const SET: &str = "BRINDLE_HOME_BUSY";

/// The work of reactors since they were last looked at: once a second while anything runs, since status is published so.
pub(super) struct Loads {
    io: Io,
    /// Threads, and none for a reactor that could not be had.
    clocks: Vec<Option<ThreadClock>>,
    used: RefCell<Vec<Duration>>,
    busy: RefCell<Vec<f64>>,
    at: Cell<Instant>,
    /// The share that was set in the place of [`BUSY`], for sessions of all volumes.
    set: Option<f64>,
    held: RefCell<Vec<Held>>,
}

/// Whether a reactor has taken what it was sent, at the last look.
#[derive(Clone, Copy, Default)]
struct Held {
    turns: u64,
    /// Since when it has had no turn, though something waits for it.
    since: Option<Instant>,
}

impl Held {
    /// Looks once more.
    fn look(self, now: Instant, turns: u64, is_untaken: bool) -> Self {
        let since = if turns == self.turns { self.since } else { None };
        Self { turns, since: since.or(Some(now)).filter(|_| is_untaken) }
    }
}

impl Loads {
    /// Nothing has been done so far.
    pub(super) fn new(io: &Io, clocks: Vec<Option<ThreadClock>>) -> Rc<Self> {
        let set = std::env::var(SET).ok().and_then(|text| text.parse::<f64>().ok());
        let set = set.map(|percent| percent / 100.0);
        let (used, busy) = (RefCell::new(used(&clocks)), RefCell::new(vec![0.0; clocks.len()]));
        let held = RefCell::new(vec![Held::default(); clocks.len()]);
        Rc::new(Self { io: io.clone(), clocks, used, busy, at: Cell::new(io.now()), set, held })
    }

    /// Looks anew if the last look was a second ago.
    pub(super) fn look(&self) {
        let span = self.io.now().since(self.at.get());
        if span < SPAN {
            return;
        }
        let (now, span) = (used(&self.clocks), span.as_secs_f64());
        let before = self.used.replace(now.clone());
        let share = |(now, before): (&Duration, &Duration)| now.saturating_sub(*before).as_secs_f64() / span;
        *self.busy.borrow_mut() = now.iter().zip(&before).map(share).map(|busy| busy.min(1.0)).collect();
        self.at.set(self.io.now());
        let states = self.io.crew_turns().into_iter().zip(self.io.crew_untaken());
        for (held, (turns, is_untaken)) in self.held.borrow_mut().iter_mut().zip(states) {
            *held = held.look(self.at.get(), turns, is_untaken);
        }
    }

    /// Seconds for which a reactor has taken nothing that home sent it.
    pub(super) fn held_for(&self, number: usize) -> u64 {
        let since = self.held.borrow().get(number).and_then(|held| held.since);
        since.map_or(0, |since| self.io.now().since(since).as_secs())
    }

    /// The share of its time that a reactor has worked; `None` for one that there is not.
    pub(super) fn busy(&self, number: usize) -> Option<f64> {
        (*self.clocks.get(number)?)?;
        Some(self.busy.borrow()[number])
    }

    /// The reactor for a session; `None`: home. A session that any reactor carries out goes to the one that has least to do. For one that home
    /// alone carries out home receives and sends, too, as long as it has time.
    pub(super) fn place(&self, session: Unplaced<'_>) -> Option<usize> {
        self.look();
        let all = (0..self.clocks.len()).filter_map(|number| {
            let sessions = session.sessions.get(number).copied().unwrap_or_default();
            Some(Work { busy: self.busy(number)?, sessions, number })
        });
        if session.anywhere && self.set.is_none() {
            return least(all).filter(|&number| number != HOME);
        }
        if self.busy(HOME)? < self.set.unwrap_or(BUSY) {
            return None;
        }
        least(all.filter(|work| work.number != HOME))
    }
}

/// The work of a reactor.
struct Work {
    /// The share of its time that it has worked in the last second.
    busy: f64,
    /// Sessions of NBD, which may have only just begun.
    sessions: usize,
    number: usize,
}

/// The reactor that has least to do: of those that are about as busy the one with the fewest sessions, home first.
fn least(all: impl Iterator<Item = Work>) -> Option<usize> {
    all.min_by_key(|work| ((work.busy / ABOUT) as u32, work.sessions, work.number)).map(|work| work.number)
}

fn used(clocks: &[Option<ThreadClock>]) -> Vec<Duration> {
    clocks.iter().map(|clock| clock.map_or(Duration::ZERO, ThreadClock::used)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reactor_that_has_least_to_do_is_the_least_busy_one_or_has_the_fewest_sessions() {
        let least = |all: &[(f64, usize)]| {
            let work = |(number, &(busy, sessions))| Work { busy, sessions, number };
            super::least(all.iter().enumerate().map(work))
        };
        assert_eq!(least(&[(0.0, 0), (0.0, 0)]), Some(0), "one client does not wake a second reactor");
        assert_eq!(least(&[(0.0, 1), (0.0, 0), (0.0, 0)]), Some(1));
        assert_eq!(least(&[(0.05, 1), (0.0, 1)]), Some(0));
        assert_eq!(least(&[(0.5, 1), (0.3, 9)]), Some(1));
    }

    #[test]
    fn a_reactor_is_held_that_has_no_turn_while_something_waits_for_it() {
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let held = Held::default().look(at(1), 5, true);
        assert_eq!(held.look(at(2), 5, true).look(at(3), 5, true).since, Some(at(1)));
        assert_eq!(held.look(at(2), 6, true).since, Some(at(2)), "it had a turn");
        assert_eq!(held.look(at(2), 5, false).since, None, "it has taken all");
        assert_eq!(held.look(at(2), 5, false).look(at(3), 5, true).since, Some(at(3)));
    }
}
