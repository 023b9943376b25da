//! Counts corrected read errors of a member. A member with too many is failed.

use core::cell::Cell;

use brindle_io::{Duration, Instant};

/// The time after which errors count half, as with md.
const HALVED_EVERY: Duration = Duration::from_secs(3600);

/// Bytes of a place: a second error this close to the last one counts as the same error.
const PLACE: u64 = 64 << 10;
/// How long a place is remembered as the last one.
const SAME: Duration = Duration::from_secs(60);

/// The errors of one member.
#[derive(Debug, Default)]
pub struct ReadErrors {
    count: Cell<u32>,
    /// Since when nothing has been halved; `None` before the first error.
    since: Cell<Option<Instant>>,
    /// The place of the last error, and when it was.
    last: Cell<Option<(u64, Instant)>>,
    total: Cell<u64>,
}

/// The consequence of a read error for its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The place was known of already.
    Known,
    /// One more.
    Borne,
    /// One too many.
    TooMany,
}

impl ReadErrors {
    /// Notes an error at `now`, at this byte of the data area; `most` errors are borne.
    pub fn note(&self, now: Instant, offset: u64, most: u32) -> Verdict {
        let place = offset / PLACE;
        if let Some((last, when)) = self.last.replace(Some((place, now)))
            && last == place
            && now.since(when) < SAME
        {
            return Verdict::Known;
        }
        let halvings = self.halvings(now);
        let since = self.since.get().unwrap_or(now);
        self.since.set(Some(since.after(Duration::from_secs(halvings * HALVED_EVERY.as_secs()))));
        let left = self.left(halvings);
        self.count.set(left.saturating_add(1));
        self.total.set(self.total.get() + 1);
        if left < most { Verdict::Borne } else { Verdict::TooMany }
    }

    /// How often the count has become half by now, since that was done last.
    fn halvings(&self, now: Instant) -> u64 {
        self.since.get().map_or(0, |since| now.since(since).as_secs() / HALVED_EVERY.as_secs())
    }

    fn left(&self, halvings: u64) -> u32 {
        self.count.get().checked_shr(halvings.min(32) as u32).unwrap_or(0)
    }

    /// Errors that count now.
    pub fn counted(&self, now: Instant) -> u32 {
        self.left(self.halvings(now))
    }

    /// Errors in all: of places that were rebuilt and rewritten.
    pub fn total(&self) -> u64 {
        self.total.get()
    }

    /// Another device takes the role.
    pub fn forget(&self) {
        self.count.set(0);
        self.since.set(None);
        self.last.set(None);
        self.total.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn twenty_are_borne_and_hours_forgive() {
        let places = Cell::new(0);
        let next = |errors: &ReadErrors, seconds| {
            places.set(places.get() + PLACE);
            errors.note(at(seconds), places.get(), 20)
        };
        let errors = ReadErrors::default();
        assert!((0..20).all(|n| next(&errors, n) == Verdict::Borne));
        assert_eq!(next(&errors, 30), Verdict::TooMany);
        let patient = ReadErrors::default();
        assert!((0..20).all(|n| next(&patient, n) == Verdict::Borne));
        assert_eq!((patient.counted(at(3599)), patient.counted(at(7200))), (20, 5));
        // 20 become 10 after an hour, and 21 become 2 after three more.
        assert!((0..10).all(|_| next(&patient, 3600) == Verdict::Borne));
        assert_eq!(next(&patient, 7199), Verdict::TooMany);
        assert!((0..18).all(|_| next(&patient, 4 * 3600) == Verdict::Borne));
        assert_eq!(next(&patient, 4 * 3600), Verdict::TooMany);
        assert_eq!(patient.total(), 50);
    }

    #[test]
    fn a_place_that_was_bad_just_now_is_no_other_error() {
        let errors = ReadErrors::default();
        assert_eq!(errors.note(at(0), 4096, 20), Verdict::Borne);
        assert_eq!(errors.note(at(1), 8192, 20), Verdict::Known);
        assert_eq!(errors.note(at(2), PLACE, 20), Verdict::Borne);
        assert_eq!(errors.note(at(70), PLACE, 20), Verdict::Borne, "mended, and bad again");
        assert_eq!(errors.total(), 3);
    }
}
