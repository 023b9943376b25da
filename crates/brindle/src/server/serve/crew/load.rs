//! How busy reactors are, and where a session goes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_export::nbd::HOME;
use brindle_io::{Duration, Instant, Io, ThreadClock};

/// The span over which work is measured, at least.
const SPAN: Duration = Duration::from_secs(1);
/// The share of its time from which on home has no time for further sessions.
const BUSY: f64 = 0.75;
/// Names another share, in percent: for tests, which have sessions go to others though home is idle.
const SET: &str = "BRINDLE_HOME_BUSY";

/// The work of reactors since they were last looked at: once a second while anything runs, since status is published so.
pub(super) struct Loads {
    io: Io,
    /// Threads, and none for a reactor that could not be had.
    clocks: Vec<Option<ThreadClock>>,
    used: RefCell<Vec<Duration>>,
    busy: RefCell<Vec<f64>>,
    at: Cell<Instant>,
    most: f64,
}

impl Loads {
    /// Nothing has been done so far.
    pub(super) fn new(io: &Io, clocks: Vec<Option<ThreadClock>>) -> Rc<Self> {
        let set = std::env::var(SET).ok().and_then(|text| text.parse::<f64>().ok());
        let most = set.map_or(BUSY, |percent| percent / 100.0);
        let (used, busy) = (RefCell::new(used(&clocks)), RefCell::new(vec![0.0; clocks.len()]));
        Rc::new(Self { io: io.clone(), clocks, used, busy, at: Cell::new(io.now()), most })
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
    }

    /// The share of its time that a reactor has worked; `None` for one that there is not.
    pub(super) fn busy(&self, number: usize) -> Option<f64> {
        (*self.clocks.get(number)?)?;
        Some(self.busy.borrow()[number])
    }

    /// The reactor for a session whose volume home alone carries out; `None`: home, as long as that has time.
    pub(super) fn place(&self) -> Option<usize> {
        self.look();
        if self.busy(HOME)? < self.most {
            return None;
        }
        let others = (1..self.clocks.len()).filter_map(|number| Some((number, self.busy(number)?)));
        others.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(number, _)| number)
    }
}

fn used(clocks: &[Option<ThreadClock>]) -> Vec<Duration> {
    clocks.iter().map(|clock| clock.map_or(Duration::ZERO, ThreadClock::used)).collect()
}
