//! How much the clients of a volume may ask for: so many requests and bytes a second, by all doors together, and bursts above that.
//!
//! Each request is due at a moment: one second's share after the one before it, less the burst. Who is not due yet waits. What was not
//! asked for in the past is not saved up, but for the burst.

use core::cell::Cell;
use core::num::NonZeroU64;

use brindle_io::sync::{Either, Notify, race};
use brindle_io::{Duration, Instant, Io};

use crate::pieces::Charge;

/// Limits of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Requests a second.
    pub requests: Option<NonZeroU64>,
    /// Bytes a second that are read from members or sent to them, together. Zeroes and holes that devices make are none.
    pub bytes: Option<NonZeroU64>,
    /// Requests come at once that would be due within so long.
    pub burst: Duration,
}

impl Rates {
    /// Whether there is any limit.
    pub fn limit(&self) -> bool {
        self.requests.is_some() || self.bytes.is_some()
    }
}

/// Limits, and how far they are used up.
pub(crate) struct Pacer {
    io: Io,
    pub(crate) rates: Rates,
    /// When the next request would be due without a burst, by their count and by their bytes.
    next: Cell<[Instant; 2]>,
    /// These limits have been replaced by others.
    over: Cell<bool>,
    ended: Notify,
}

impl Pacer {
    pub(crate) fn new(io: &Io, rates: Rates) -> Self {
        let next = Cell::new([io.now(); 2]);
        Self { io: io.clone(), rates, next, over: Cell::new(false), ended: Notify::new(io) }
    }

    /// Ends all waits: no request is held up any more.
    pub(crate) fn end(&self) {
        self.over.set(true);
        self.ended.notify();
    }

    /// Waits until so much is due; `false` if other limits have come meanwhile.
    pub(crate) async fn take(&self, charge: Charge) -> bool {
        let now = self.io.now();
        let due = self.due(now, charge);
        if due.as_nanos() <= now.as_nanos() {
            return true;
        }
        let over = self.ended.until(|| self.over.get().then_some(()));
        matches!(race(self.io.sleep(due.since(now)), over).await, Either::First(()))
    }

    /// The moment at which something is due that comes now.
    fn due(&self, now: Instant, charge: Charge) -> Instant {
        let asked = [(self.rates.requests, charge.requests), (self.rates.bytes, charge.bytes)];
        let (mut next, mut due) = (self.next.get(), 0);
        for (next, (rate, count)) in next.iter_mut().zip(asked) {
            let Some(rate) = rate.filter(|_| count > 0) else { continue };
            let begins = next.as_nanos().max(now.as_nanos());
            due = due.max(begins.saturating_sub(span(self.rates.burst)));
            let takes = u128::from(count) * 1_000_000_000 / u128::from(rate.get());
            *next = Instant::from_nanos(begins.saturating_add(u64::try_from(takes).unwrap_or(u64::MAX)));
        }
        self.next.set(next);
        Instant::from_nanos(due)
    }
}

fn span(of: Duration) -> u64 {
    u64::try_from(of.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use brindle_io::sim::Sim;
    use brindle_io::sync::join_all;

    use super::*;

    fn rates(requests: u64, bytes: u64, burst: u64) -> Rates {
        let burst = Duration::from_millis(burst);
        Rates { requests: NonZeroU64::new(requests), bytes: NonZeroU64::new(bytes), burst }
    }

    /// Virtual milliseconds that `count` requests of `bytes` take, all asked for at once.
    fn takes(rates: Rates, count: usize, bytes: u64) -> u128 {
        let io = Io::new(Box::new(Sim::new(1)));
        let pacer = Pacer::new(&io, rates);
        io.block_on(async {
            let begun = io.now();
            assert!(
                join_all((0..count).map(|_| pacer.take(Charge::request(bytes))))
                    .await
                    .into_iter()
                    .all(|taken| taken)
            );
            io.now().since(begun).as_nanos() / 1_000_000
        })
    }

    #[test]
    fn requests_and_bytes_are_held_to_their_rates() {
        assert_eq!(takes(rates(100, 0, 0), 101, 4096), 1000);
        assert_eq!(takes(rates(0, 1 << 20, 0), 17, 64 << 10), 1000);
        // The tighter of both.
        assert_eq!(takes(rates(100, 1 << 30, 0), 101, 4096), 1000);
        assert_eq!(takes(rates(0, 0, 0), 1000, 1 << 20), 0);
        // A burst is had once.
        assert_eq!(takes(rates(100, 0, 500), 101, 4096), 500);
        assert_eq!(takes(rates(100, 0, 500), 51, 4096), 0);
    }

    #[test]
    fn new_limits_end_what_waits_for_the_old_ones() {
        let io = Io::new(Box::new(Sim::new(1)));
        let pacer = Pacer::new(&io, rates(1, 0, 0));
        io.block_on(async {
            let begun = io.now();
            assert!(pacer.take(Charge::request(0)).await);
            let ending = async {
                io.sleep(Duration::from_millis(5)).await;
                pacer.end();
                true
            };
            let waiting: [core::pin::Pin<Box<dyn Future<Output = bool> + '_>>; 2] =
                [Box::pin(pacer.take(Charge::request(0))), Box::pin(ending)];
            assert_eq!(join_all(waiting).await, [false, true]);
            assert_eq!(io.now().since(begun), Duration::from_millis(5));
        });
    }
}
