//! Sizes as people write and read them.

use std::fmt;

use brindle_host::Size;
use brindle_host::opening::milliseconds;

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

    /// [`Bytes::parse_kib`] for powers of two.
    pub(crate) fn parse_power(text: &str) -> Result<Self, String> {
        let size = Self::parse_kib(text)?;
        if size.0.is_power_of_two() {
            return Ok(size);
        }
        let near: Vec<String> = match (size.0.checked_ilog2(), size.0.checked_next_power_of_two()) {
            (Some(below), Some(above)) => [1 << below, above].map(|near| Self(near).to_string()).to_vec(),
            _ => vec![Self(1 << 16).to_string()],
        };
        Err(format!("{size} is not a power of two: take {}", near.join(" or ")))
    }
}

fn parse(text: &str, plain: u64) -> Result<Bytes, String> {
    Size::parse(text, plain).map(|size| Bytes(size.0))
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Size(self.0).fmt(f)
    }
}

/// A span of time given on the command line, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) u64);

impl Span {
    /// A number with its unit: ms, s, m (minutes), h. More than 0, and at most a year.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match Self::parse_any(text)? {
            Self(0) => Err(format!("'{text}' is no time: write for example 20s or 500ms")),
            span => Ok(span),
        }
    }

    /// As [`Span::parse`], and also 0, with a unit or without.
    pub(crate) fn parse_any(text: &str) -> Result<Self, String> {
        milliseconds(text).map(Self)
    }
}

/// A moment, seconds since 1970, as people read it.
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    /// As `zpool history` writes it: `2026-11-21.23:59:59`. It is of UTC, too.
    pub(crate) fn dotted(&self) -> String {
        self.to_string().trim_end_matches(" UTC").replace(' ', ".")
    }
}

impl fmt::Display for Moment {
    /// `2026-11-21 23:59:59 UTC`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

/// Year, month and day of a day since 1970, in the Gregorian calendar: the year is made to begin in March, so that the
/// leap day is its last, and 400 years are 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // from 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_dates() {
        let said = |seconds| Moment(seconds).to_string();
        assert_eq!(said(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(said(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(said(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(said(4_107_542_400), "2100-03-01 00:00:00 UTC");
        assert_eq!(said(1_795_305_577), "2026-11-21 23:59:37 UTC");
        // Of 40 bits, the most that a superblock keeps.
        assert_eq!(said((1 << 40) - 1), "36812-02-20 00:36:15 UTC");
    }

    #[test]
    fn spans_are_read_in_every_unit() {
        assert_eq!(Span::parse("20s"), Ok(Span(20_000)));
        assert_eq!(Span::parse_any("0"), Ok(Span(0)));
        assert!(Span::parse("20").is_err_and(|why| why.contains("write 20s")));
        assert_eq!(Span::parse("500ms"), Ok(Span(500)));
        assert_eq!(Span::parse("2m"), Ok(Span(120_000)));
        assert_eq!(Span::parse("1h"), Ok(Span(3_600_000)));
        for wrong in ["", "0", "0ms", "s", "1.5s", "-1", "1d", "9000h", "99999999999999999999"] {
            assert!(Span::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read_in_every_unit() {
        assert_eq!(Bytes::parse("512"), Ok(Bytes(512)));
        assert_eq!(Bytes::parse_kib("64"), Ok(Bytes(65536)));
        assert_eq!(Bytes::parse_kib("64K"), Ok(Bytes(65536)));
        assert_eq!(Bytes::parse("8s"), Ok(Bytes(4096)));
        assert_eq!(Bytes::parse("1GiB"), Ok(Bytes(1 << 30)));
        assert!(Bytes::parse("-1").is_err_and(|said| said.contains("below 0")));
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
