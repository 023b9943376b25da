//! The speed of a process, from positions and their times.

use std::collections::VecDeque;

use brindle_io::{Duration, Instant};

/// Speed is measured over this time, or over the last window if that took longer.
const LATELY: Duration = Duration::from_secs(10);
/// A position is remembered at most this often.
const EVERY: Duration = Duration::from_secs(1);

/// Positions of a process over time; its speed is measured from the first to the last of them.
#[derive(Debug)]
pub(super) struct Marks {
    /// Oldest first.
    marks: VecDeque<(Instant, u64)>,
    last: (Instant, u64),
}

impl Marks {
    /// Marks of a process that begins, or whose speed limit has changed.
    pub(super) fn new(now: Instant, position: u64) -> Self {
        Self { marks: VecDeque::from([(now, position)]), last: (now, position) }
    }

    pub(super) fn reached(&mut self, now: Instant, position: u64) {
        self.last = (now, position);
        if self.marks.back().is_none_or(|&(at, _)| now.since(at) >= EVERY) {
            self.marks.push_back(self.last);
        }
        while self.marks.get(1).is_some_and(|&(at, _)| now.since(at) >= LATELY) {
            self.marks.pop_front();
        }
    }

    /// Bytes a second; `None` until the first window ends. Falls towards zero while the process makes no progress.
    pub(super) fn speed(&self, now: Instant) -> Option<u64> {
        let &(from, before) = self.marks.front()?;
        let (at, position) = self.last;
        let span = at.since(from).max(now.since(at)).as_nanos();
        let bytes = position.checked_sub(before).filter(|&bytes| bytes > 0 && span > 0)?;
        u64::try_from(u128::from(bytes) * 1_000_000_000 / span).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn speed_is_of_what_was_done_since_it_began_and_later_of_the_last_seconds() {
        let mut marks = Marks::new(at(0), 7000);
        assert_eq!(marks.speed(at(500)), None, "nothing is known yet");
        marks.reached(at(500), 7500);
        assert_eq!(marks.speed(at(500)), Some(1000), "where it began does not count");
        for second in 1..=60 {
            marks.reached(at(second * 1000), 7000 + second * 1000);
        }
        for second in 61..=80 {
            marks.reached(at(second * 1000), 67_000 + (second - 60) * 10);
        }
        assert_eq!(marks.speed(at(80_000)), Some(10), "it has become slower");
        assert!(marks.marks.len() <= 12, "{}", marks.marks.len());
    }

    #[test]
    fn windows_that_take_longer_than_that_tell_too() {
        let mut marks = Marks::new(at(0), 0);
        for window in 1..=3 {
            marks.reached(at(window * 40_000), window * 4000);
            assert_eq!(marks.speed(at(window * 40_000 + 39_000)), Some(100));
        }
        assert_eq!(marks.speed(at(200_000)), Some(50), "nothing has come for twice as long");
    }
}
