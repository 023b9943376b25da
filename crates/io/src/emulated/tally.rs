//! How well an emulated member keeps up with its model.

/// Answers of a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Punctuality {
    /// The number of answers.
    pub answers: u64,
    /// Answers that came later than the model has it by more than a tenth of what it gives them, and by more than [`Punctuality::SLACK`].
    pub late: u64,
    /// The sum of the delays of all late answers, nanoseconds.
    pub lateness: u64,
    /// The sum of the modelled times, nanoseconds.
    pub promised: u64,
    /// The latest, nanoseconds.
    pub worst: u64,
}

impl Punctuality {
    /// A delay of this many nanoseconds does not count as late.
    pub const SLACK: u64 = 1000;

    /// No more than one answer of a hundred was late.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.late * 100 <= self.answers
    }
}

#[derive(Default)]
pub(super) struct EmulatedTally(Punctuality);

impl EmulatedTally {
    /// An answer that was to take `promised` nanoseconds, and took `late` more.
    pub(super) fn count(&mut self, promised: u64, late: u64) {
        let kept = &mut self.0;
        kept.answers += 1;
        kept.late += u64::from(late > (promised / 10).max(Punctuality::SLACK));
        kept.lateness = kept.lateness.saturating_add(late);
        kept.promised = kept.promised.saturating_add(promised);
        kept.worst = kept.worst.max(late);
    }

    pub(super) fn take(&mut self) -> Punctuality {
        core::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_a_tenth_and_one_of_a_hundred_is_too_many() {
        let mut tally = EmulatedTally::default();
        (0..99).for_each(|_| tally.count(100_000, 10_000));
        tally.count(100_000, 10_001);
        let kept = tally.0;
        assert_eq!((kept.answers, kept.late, kept.worst), (100, 1, 10_001));
        assert!(kept.is_up());
        // A tenth of very little can't be measured.
        tally.count(2000, 1000);
        assert_eq!(tally.0.late, 1);
        tally.count(2000, 1001);
        assert!(!tally.take().is_up());
        assert_eq!(tally.take(), Punctuality::default());
    }
}
