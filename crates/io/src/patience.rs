//! The clock of deadlines: it counts only time in which the executor ran.
//!
//! A process that was stopped (SIGSTOP, a paused machine, a debugger) wakes to deadlines that have passed although no
//! device was late: the answers were only not read. Such a gap shows as a turn that comes much later than it was
//! asked for. To be able to tell, the executor never sleeps longer than [`HEARTBEAT`] while a deadline runs.

use core::cell::Cell;

use crate::time::{Duration, Instant};

/// The longest sleep while a deadline runs.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// Lateness of a turn that a busy machine may bring about; beyond it, time was lost.
const LATENESS: Duration = Duration::from_millis(100);

pub(crate) struct Patience {
    /// When the last turn of the reactor ended.
    moment: Cell<Instant>,
    /// All time lost so far, in nanoseconds.
    lost: Cell<u64>,
}

impl Patience {
    pub(crate) fn new(now: Instant) -> Self {
        Self { moment: Cell::new(now), lost: Cell::default() }
    }

    /// The reactor's moment at the end of its last turn.
    #[inline]
    pub(crate) fn moment(&self) -> Instant {
        self.moment.get()
    }

    /// A moment of the reactor's clock on the clock of deadlines.
    #[inline]
    pub(crate) fn ran(&self, at: Instant) -> Instant {
        Instant::from_nanos(at.as_nanos().saturating_sub(self.lost.get()))
    }

    /// Until when the reactor may sleep, while the next deadline is `deadline`.
    pub(crate) fn latest_turn(&self, deadline: Instant) -> Instant {
        deadline.after(Duration::from_nanos(self.lost.get())).min(self.moment.get().after(HEARTBEAT))
    }

    /// A turn of the reactor has ended at `now`; it was asked to end at `asked`. Says whether time was lost.
    #[inline]
    pub(crate) fn turn_ended(&self, now: Instant, asked: Option<Instant>) -> bool {
        let began = self.moment.replace(now);
        let Some(asked) = asked else { return false };
        // Virtual time never comes later than asked, and is so never lost.
        let expected = asked.max(began.after(HEARTBEAT));
        let late = now.since(expected);
        if late <= LATENESS {
            return false;
        }
        self.lost.set(self.lost.get().saturating_add(late.as_nanos() as u64));
        true
    }
}
