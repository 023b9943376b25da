//! Time as a reactor tells it: real in the uring and memory worlds, virtual in the sim world.

pub use core::time::Duration;

/// The machine's clock since a reactor began. It is read once a turn, which at one request at a time is once a request:
/// without the conversions of `std::time` that takes half as many instructions.
pub(crate) struct Clock {
    /// Nanoseconds of the machine's monotonic clock.
    began: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { began: monotonic() }
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        Instant(monotonic().saturating_sub(self.began))
    }
}

/// Nanoseconds.
#[inline]
fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is room for the answer. Every Linux has this clock, so that there is one.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A moment on a reactor's clock: nanoseconds since the reactor began. Never compare two reactors' moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The moment `nanos` nanoseconds after the reactor began.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the reactor began.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to here; zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment `span` after this one; saturates after 584 years.
    #[inline]
    pub const fn after(self, span: Duration) -> Self {
        let nanos = span.as_nanos();
        let nanos = if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 };
        Self(self.0.saturating_add(nanos))
    }

    /// The moment `span` before this one; the reactor's beginning if that is later.
    #[inline]
    pub const fn before(self, span: Duration) -> Self {
        let nanos = span.as_nanos();
        let nanos = if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 };
        Self(self.0.saturating_sub(nanos))
    }
}
