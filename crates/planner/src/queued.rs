//! The speed of a drive by its queue depth.

/// Requests in flight at which it is known.
pub const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Requests of a load a second that a drive does by itself, by how many are in flight on it: a disk chooses the nearest of what
/// waits, and flash works on several at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queued {
    reads: [f64; DEPTHS.len()],
    writes: [f64; DEPTHS.len()],
}

impl Queued {
    /// Speeds of reads alone and of writes alone, at each of [`DEPTHS`].
    pub fn new(reads: [f64; DEPTHS.len()], writes: [f64; DEPTHS.len()]) -> Self {
        Self { reads, writes }
    }

    /// The speed with `depth` in flight, at least one: along straight lines in the logarithm of their number, and no
    /// more than at the end.
    pub(crate) fn at(&self, depth: u32) -> (f64, f64) {
        let place = f64::from(depth.max(1)).log2().min((DEPTHS.len() - 1) as f64);
        let (before, part) = (place as usize, place.fract());
        let of = |all: &[f64; DEPTHS.len()]| {
            let next = all[(before + 1).min(DEPTHS.len() - 1)];
            all[before] + (next - all[before]) * part
        };
        (of(&self.reads), of(&self.writes))
    }

    /// The slower of two at each.
    pub(crate) fn least(self, other: Self) -> Self {
        let both =
            |a: [f64; DEPTHS.len()], b: [f64; DEPTHS.len()]| core::array::from_fn(|at| a[at].min(b[at]));
        Self { reads: both(self.reads, other.reads), writes: both(self.writes, other.writes) }
    }
}

/// The mean speed of a station when `flight` requests are spread at random over `stations`. `of` gives its speed with
/// a number of requests, at least one; with none it does nothing.
pub(crate) fn mean(flight: f64, stations: u32, of: impl Fn(u32) -> f64) -> f64 {
    let flight = flight.max(1.0);
    let each = flight / f64::from(stations);
    // There is no more to gain, and all are close to the mean.
    if stations == 1 || each >= f64::from(2 * DEPTHS[DEPTHS.len() - 1]) {
        return of(each as u32);
    }
    let drawn = |flight: u32| {
        let odds = 1.0 / f64::from(stations - 1);
        let none = (1.0 - 1.0 / f64::from(stations)).powf(f64::from(flight));
        // Binomial: from none at it to all.
        let (mut share, mut sum) = (none, 0.0);
        // Beyond twelve deviations there is nothing to count.
        let most = (each + 12.0 * each.sqrt()) as u32 + 40;
        for at_it in 1..=flight.min(most) {
            share *= f64::from(flight - at_it + 1) / f64::from(at_it) * odds;
            sum += share * of(at_it);
        }
        sum
    };
    // Between whole numbers along a straight line.
    let part = flight.fract();
    (1.0 - part) * drawn(flight as u32) + if part > 0.0 { part * drawn(flight as u32 + 1) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued() -> Queued {
        let reads = [100.0, 100.0, 120.0, 160.0, 200.0, 280.0, 280.0, 280.0];
        Queued::new(reads, reads.map(|rate| rate / 2.0))
    }

    #[test]
    fn what_waits_lets_a_drive_do_more() {
        let queued = queued();
        assert_eq!(queued.at(0), (100.0, 50.0));
        assert_eq!(queued.at(1), (100.0, 50.0));
        assert_eq!(queued.at(8), (160.0, 80.0));
        assert_eq!(queued.at(100_000), (280.0, 140.0));
        let (between, _) = queued.at(11);
        assert!((175.0..180.0).contains(&between), "{between}");
        let other = Queued::new([90.0; 8], [900.0; 8]);
        assert_eq!((queued.least(other).at(1), other.least(queued).at(128)), ((90.0, 50.0), (90.0, 140.0)));
    }

    #[test]
    fn requests_are_at_stations_as_they_are_drawn() {
        // Two requests at four stations are both at one of them, or each at its own. This counts by hand.
        let pairs = (0..16).map(|pair| (pair / 4, pair % 4));
        let at_first = pairs.map(|(a, b)| u32::from(a == 0) + u32::from(b == 0));
        let counted = at_first.filter(|count| *count > 0).map(|count| f64::from(count * count)).sum::<f64>();
        let found = mean(2.0, 4, |count| f64::from(count * count));
        assert!((found - counted / 16.0).abs() < 1e-12, "{found}");
        // All of a request is at some station.
        for (flight, stations) in [(1.0, 8), (2.5, 3), (77.0, 12), (3000.0, 8), (100_000.0, 3)] {
            let found = mean(flight, stations, f64::from) * f64::from(stations);
            assert!((found / flight - 1.0).abs() < 1e-3, "{flight} {stations}: {found}");
        }
        assert_eq!(mean(0.3, 1, f64::from), 1.0);
    }
}
