//! Sizes as messages tell them, and as people write them.

use alloc::format;
use alloc::string::String;
use core::fmt;

/// Bytes: `64 KiB`, `1.50 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// A size in bytes, or with a suffix: s (512-byte sectors), K, M, G, T (powers of 1024). A plain number counts `plain` bytes.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn parse(text: &str, plain: u64) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &lower[digits.len()..] {
            "" => plain,
            "b" => 1,
            "s" => 512,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            other => return Err(format!("unknown unit '{other}': use K, M, G, T or s for sectors")),
        };
        let number: u64 = digits.parse().map_err(|_| match digits.starts_with('-') {
            true => format!("'{text}' is below 0, and sizes are not: write for example 64K or 1G"),
            false => format!("'{text}' is not a size: write for example 64K or 1G"),
        })?;
        number
            .checked_mul(unit)
            .map(Self)
            .ok_or_else(|| format!("'{text}' is more than 64 bits can count: write a smaller number"))
    }
}

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
