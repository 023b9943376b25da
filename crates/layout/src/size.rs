//! Sizes as messages tell them.

use core::fmt;

/// Bytes: `64 KiB`, `1.50 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let order = (self.0.ilog2() / 10).min(5) as usize;
        let value = self.0 as f64 / (1u64 << (10 * order)) as f64;
        let exact = self.0.is_multiple_of(1 << (10 * order));
        if exact {
            write!(f, "{value:.0} {}", UNITS[order - 1])
        } else {
            write!(f, "{value:.2} {}", UNITS[order - 1])
        }
    }
}
