//! The volatile cache of a modelled drive of flash: how long it takes until what it holds is stable.

/// Nanoseconds of a flush that finds nothing to write.
const NOTHING: u64 = 20_000;

/// All of the cache is written out at once, for all that wait for it then. What comes meanwhile is the next round's.
pub(super) struct Cache {
    /// Nanoseconds that a round takes.
    takes: u64,
    /// The last round: from, to. It may lie ahead.
    round: (u64, u64),
    /// When the newest write came into the cache.
    newest: u64,
}

impl Cache {
    pub(super) fn new(takes: u64) -> Self {
        Self { takes, round: (0, 0), newest: 0 }
    }

    /// A write is in the cache from then on.
    pub(super) fn wrote(&mut self, at: u64) {
        self.newest = self.newest.max(at);
    }

    /// All that the cache holds at a moment is to be stable: when it is.
    pub(super) fn stable(&mut self, now: u64) -> u64 {
        let (from, to) = self.round;
        if now <= from {
            return to;
        }
        if self.newest <= from {
            return to.max(now.saturating_add(NOTHING.min(self.takes)));
        }
        let from = now.max(to);
        self.round = (from, from.saturating_add(self.takes));
        self.round.1
    }
}
