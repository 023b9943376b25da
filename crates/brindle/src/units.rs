//! Sizes as people write and read them.

use std::fmt;

/// A count of bytes given on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(pub(crate) u64);

impl Bytes {
    /// A size in bytes, or with a suffix: s (512-byte sectors), K, M, G, T (powers of 1024).
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        parse(text, 1)
    }

    /// As [`Bytes::parse`], but a plain number counts KiB: mdadm's habit for chunks and sizes.
    pub(crate) fn parse_kib(text: &str) -> Result<Self, String> {
        parse(text, 1024)
    }
}

fn parse(text: &str, plain: u64) -> Result<Bytes, String> {
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
    let number: u64 =
        digits.parse().map_err(|_| format!("'{text}' is no size: write for example 64K or 1G"))?;
    number.checked_mul(unit).map(Bytes).ok_or_else(|| format!("'{text}' is more than 64 bits can count"))
}

impl fmt::Display for Bytes {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_every_unit() {
        assert_eq!(Bytes::parse("512"), Ok(Bytes(512)));
        assert_eq!(Bytes::parse_kib("64"), Ok(Bytes(65536)));
        assert_eq!(Bytes::parse_kib("64K"), Ok(Bytes(65536)));
        assert_eq!(Bytes::parse("8s"), Ok(Bytes(4096)));
        assert_eq!(Bytes::parse("1GiB"), Ok(Bytes(1 << 30)));
        for wrong in ["", "K", "1.5G", "-1", "9999999999999999T", "12Q"] {
            assert!(Bytes::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_written_short() {
        assert_eq!(Bytes(100).to_string(), "100 B");
        assert_eq!(Bytes(65536).to_string(), "64 KiB");
        assert_eq!(Bytes(3 << 30).to_string(), "3 GiB");
        assert_eq!(Bytes((3 << 30) / 2).to_string(), "1.50 GiB");
    }
}
