//! Slows down a process over the whole array in favour of clients.
//!
//! Beside clients it goes on at some `SHARE` per cent of the speed that it has without them, one window at a time, and
//! rests in between: disks, memory and processor are theirs for the rest of the time. Where clients keep it from that
//! speed it does not rest at all, so that it never stands still.

use core::num::NonZeroU64;

use brindle_io::{Duration, Instant};

/// The share of its own speed that a process keeps, in per cent. It is less than half, so that clients have more than
/// half of the time; well above what an array can do without for long.
const SHARE: u64 = 42;
/// It never rests longer, however slow a window was: a member may have kept it waiting.
const LONGEST: Duration = Duration::from_secs(5);
/// A window that clients have slowed down says little of the speed without them: the expected time of a window grows
/// by this part of it at most.
const GROWTH: u64 = 64;

/// The measured times of windows and of clients' requests so far.
#[derive(Debug)]
pub struct Yielding {
    /// When the last window ended.
    ended: Instant,
    /// Nanoseconds that a MiB takes without clients, as far as is known.
    usual: Option<u64>,
    crowded: bool,
}

impl Default for Yielding {
    /// The first window runs alone: neither other clients nor the duration of a window are known yet.
    fn default() -> Self {
        Self { ended: Instant::default(), usual: None, crowded: true }
    }
}

/// A window under way.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    at: Instant,
    /// Requests of clients up to that time.
    requests: u64,
    /// Bytes.
    len: u64,
    /// Whether no other window was under way.
    alone: bool,
}

impl Begun {
    /// A window of `len` bytes that begins at a moment.
    pub fn new(at: Instant, requests: u64, len: u64, alone: bool) -> Self {
        Self { at, requests, len, alone }
    }
}

impl Yielding {
    /// Clients asked for something while the last window was under way.
    pub fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Notes the end of a window, and the clients' requests since the array began; gives the time to rest. `floor` is
    /// the least speed of the process in bytes a second, whatever clients ask for.
    pub fn ended(
        &mut self,
        window: Begun,
        now: Instant,
        requests: u64,
        floor: Option<NonZeroU64>,
    ) -> Duration {
        let took = now.since(self.ended.max(window.at)).as_nanos() as u64;
        self.ended = now;
        self.crowded = requests != window.requests;
        let mib = scaled(took, 1 << 20, window.len);
        if !self.crowded {
            self.usual = Some(self.usual.map_or(mib, |usual| usual - usual / 4 + mib / 4));
            return Duration::ZERO;
        }
        let usual = match self.usual {
            // Several that were under way together end together: how long each took is not known.
            Some(usual) if !window.alone => usual,
            usual => usual.map_or(mib, |usual| mib.min(usual + usual / GROWTH)),
        };
        self.usual = Some(usual);
        let period = scaled(usual, window.len, 1 << 20) / SHARE * 100;
        let most = floor.map_or(u64::MAX, |floor| scaled(1_000_000_000, window.len, floor.get()));
        Duration::from_nanos(period.min(most).saturating_sub(took)).min(LONGEST)
    }
}

/// `value * of / to`.
fn scaled(value: u64, of: u64, to: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(of) / u128::from(to.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Windows of a MiB, each of which takes `millis` and begins when the one before has rested; how long they rest.
    fn rests(yielding: &mut Yielding, at: &mut Duration, millis: &[u64], clients: bool) -> Vec<u64> {
        let moment = |at: Duration| Instant::from_nanos(at.as_nanos() as u64);
        let mut rests = Vec::new();
        for &millis in millis {
            let begun = Begun::new(moment(*at), 0, MIB, true);
            *at += Duration::from_millis(millis);
            let rest = yielding.ended(begun, moment(*at), u64::from(clients), None);
            *at += rest;
            rests.push(rest.as_millis() as u64);
        }
        rests
    }

    #[test]
    fn without_clients_it_never_rests() {
        let (mut yielding, mut at) = <(Yielding, Duration)>::default();
        assert_eq!(rests(&mut yielding, &mut at, &[10, 20, 5], false), [0, 0, 0]);
        assert!(!yielding.is_crowded());
    }

    #[test]
    fn beside_clients_it_has_less_than_half_of_the_time_and_more_than_a_third() {
        let (mut yielding, mut at) = <(Yielding, Duration)>::default();
        rests(&mut yielding, &mut at, &[10; 20], false);
        let rested: u64 = rests(&mut yielding, &mut at, &[10; 100], true).iter().sum();
        assert!(yielding.is_crowded());
        let share = 100 * 1000 / (1000 + rested);
        assert!((34..50).contains(&share), "{share} %");
        assert_eq!(rests(&mut yielding, &mut at, &[10], false), [0], "clients have gone");
    }

    #[test]
    fn what_clients_slow_down_does_not_rest_too() {
        let (mut yielding, mut at) = <(Yielding, Duration)>::default();
        rests(&mut yielding, &mut at, &[10; 20], false);
        assert_eq!(rests(&mut yielding, &mut at, &[60; 5], true), [0; 5]);
    }

    #[test]
    fn a_window_that_took_very_long_is_not_followed_by_a_rest_as_long() {
        let (mut yielding, mut at) = <(Yielding, Duration)>::default();
        assert_eq!(rests(&mut yielding, &mut at, &[3_600_000], true), [5000]);
    }

    #[test]
    fn a_floor_keeps_it_going() {
        let (mut yielding, window) = (Yielding::default(), Begun::new(Instant::default(), 0, MIB, true));
        let end = Instant::from_nanos(10_000_000);
        let rest = yielding.ended(window, end, 1, NonZeroU64::new(50 * MIB));
        assert_eq!(rest, Duration::from_millis(10));
        let rest = Yielding::default().ended(window, end, 1, NonZeroU64::new(500 * MIB));
        assert_eq!(rest, Duration::ZERO);
    }
}
