//! The run of a pool, from its opening to its end.

use core::cell::Cell;

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Tables are not complete: nothing may be made of them but by the opening itself.
    Opening,
    /// Requests are carried out.
    Open,
    /// No request may be made any more. The pool was open, or was about to be.
    Stopping { was_open: bool },
}

/// The phase that a run is in.
pub(crate) struct Run(Cell<Phase>);

impl Default for Run {
    /// The pool is about to be opened.
    fn default() -> Self {
        Self(Cell::new(Phase::Opening))
    }
}

impl Run {
    /// The opening has not come to its end.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.0.get(), Phase::Opening | Phase::Stopping { was_open: false })
    }

    /// The pool is open from now on.
    pub(crate) fn opens(&self) {
        self.0.set(match self.0.get() {
            Phase::Opening | Phase::Open => Phase::Open,
            Phase::Stopping { .. } => Phase::Stopping { was_open: true },
        });
    }

    /// The run ends, or has ended.
    pub(crate) fn is_stopping(&self) -> bool {
        matches!(self.0.get(), Phase::Stopping { .. })
    }

    /// The run ends; false if it did already.
    pub(crate) fn stops(&self) -> bool {
        let stops = !self.is_stopping();
        if stops {
            self.0.set(Phase::Stopping { was_open: self.0.get() == Phase::Open });
        }
        stops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_opens_and_stops_once() {
        let run = Run::default();
        assert!(run.is_opening() && !run.is_stopping());
        run.opens();
        assert!(!run.is_opening() && run.stops() && !run.stops() && run.is_stopping());
    }

    #[test]
    fn a_pool_that_stops_before_it_is_open_counts_as_opening_to_its_end() {
        let run = Run::default();
        assert!(run.stops() && run.is_opening());
        run.opens();
        assert!(run.is_stopping() && !run.is_opening());
    }
}
