//! Sizes, times and modes as people write them in files of settings: a number, or text with a unit.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;

use brindle_layout::Size;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serializer, de};

/// A time with its unit: ms, s, m (minutes), h; 0 needs none. At most a year. In milliseconds.
///
/// # Errors
/// The reason, for people.
pub fn milliseconds(text: &str) -> Result<u64, String> {
    const YEAR: u64 = 365 * 24 * HOUR;
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number = digits.trim_end();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let unit = match &lower[digits.len()..] {
        _ if !is_number => None,
        "" if number.bytes().all(|byte| byte == b'0') => Some(1),
        "" => return Err(without_unit(number)),
        word => match UNITS.iter().find(|(_, own)| *own == word) {
            Some((unit, _)) => Some(*unit),
            None => return Err(format!("unknown unit '{word}': use ms, s, m or h")),
        },
    };
    let span = unit.and_then(|unit| number.parse::<u64>().ok()?.checked_mul(unit));
    span.filter(|span| *span <= YEAR)
        .ok_or_else(|| format!("'{text}' is not a time: write for example 20s or 500ms"))
}

/// Units of time in milliseconds, the longest first.
const UNITS: [(u64, &str); 4] = [(HOUR, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];

const HOUR: u64 = 3_600_000;

fn without_unit(number: &str) -> String {
    format!("the time {number} has no unit: write {number}s for seconds, or {number}ms, {number}m, {number}h")
}

/// A time as [`milliseconds`] reads it, in the longest unit of which it is a multiple.
pub fn written_time(milliseconds: u64) -> String {
    let fits = |(unit, _): &&(u64, &str)| milliseconds != 0 && milliseconds.is_multiple_of(*unit);
    match UNITS.iter().find(fits) {
        Some((unit, word)) => format!("{}{word}", milliseconds / unit),
        None => "0s".to_owned(),
    }
}

/// The mode of a file as chmod takes it: octal digits, with `0o` before them or not. Its owner may read and write.
///
/// # Errors
/// The reason, for people.
pub fn mode(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let is_octal = !digits.is_empty() && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let mode = if is_octal { u32::from_str_radix(digits, 8).ok() } else { None };
    mode.filter(can_be).ok_or_else(|| {
        format!("'{text}' is no mode: give 600 (its owner), 660 (its group too), 666 (everybody) or what chmod takes between")
    })
}

/// Whether a socket can have this mode: it gives no more than the rights of all, and the owner has those to connect.
fn can_be(mode: &u32) -> bool {
    const ALL: u32 = 0o777;
    const OWNERS: u32 = 0o600;
    *mode <= ALL && mode & OWNERS == OWNERS
}

fn mode_of_number(number: u64) -> Result<u32, String> {
    u32::try_from(number).ok().filter(can_be).ok_or_else(|| {
        format!(
            "the mode {number} is {number:#o}, and the owner's 0o600 to everybody's 0o777 can be: write \"{number}\" or 0o{number}, if these are its digits"
        )
    })
}

/// A number, or text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Either {
    Number(u64),
    Text(String),
}

impl Either {
    fn read(self, parse: impl FnOnce(&str) -> Result<u64, String>) -> Result<u64, String> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Text(text) => parse(&text),
        }
    }
}

/// Bytes: a number, or text as `256M`.
pub(crate) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let parse = |text: &str| Size::parse(text, 1).map(|size| size.0);
    Either::deserialize(from)?.read(parse).map_err(de::Error::custom)
}

/// [`size`] as a limit: 0 and nothing stand for none.
pub(crate) fn limit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NonZeroU64>, D::Error> {
    let parse = |text: &str| Size::parse(text, 1).map(|size| size.0);
    let written = Option::<Either>::deserialize(from)?;
    let bytes = written.map(|written| written.read(parse)).transpose().map_err(de::Error::custom)?;
    Ok(bytes.and_then(NonZeroU64::new))
}

/// Connections at a time that a server can allow.
const CONNECTIONS: RangeInclusive<u32> = 1..=4096;

/// Connections at a time: a number that a server can allow.
pub(crate) fn connections<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let number = u32::deserialize(from)?;
    let range = (CONNECTIONS.start(), CONNECTIONS.end());
    let refused = || de::Error::custom(format!("{number} connections: give {} to {}", range.0, range.1));
    if CONNECTIONS.contains(&number) { Ok(number) } else { Err(refused()) }
}

/// Milliseconds, written as text with a unit.
pub(crate) mod span {
    use super::{
        Deserialize as _, Deserializer, Either, Serializer, de, milliseconds, without_unit, written_time,
    };

    pub(crate) fn serialize<S: Serializer>(span: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&written_time(*span))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let read = match Either::deserialize(from)? {
            Either::Number(0) => Ok(0),
            Either::Number(number) => Err(without_unit(&number.to_string())),
            Either::Text(text) => milliseconds(&text),
        };
        read.map_err(de::Error::custom)
    }
}

/// The mode of a file, written as octal text.
pub(crate) mod file_mode {
    use super::{Deserialize as _, Deserializer, Either, Serializer, de, mode, mode_of_number};

    // The signature is serde's.
    pub(crate) fn serialize<S: Serializer>(mode: &u32, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{mode:04o}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        let read = match Either::deserialize(from)? {
            Either::Number(number) => mode_of_number(number),
            Either::Text(text) => mode(&text),
        };
        read.map_err(de::Error::custom)
    }
}

/// A number, or text with a unit: the schema of sizes.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it stands for what the schema says, and is never made")]
pub(crate) enum Written {
    /// Bytes.
    Number(u64),
    /// With a unit: `256M`.
    Text(String),
}

/// The schema of times.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it stands for what the schema says, and is never made")]
pub(crate) enum WrittenTime {
    /// No time at all.
    Nothing(#[schemars(range(min = 0, max = 0))] u8),
    /// With a unit, ms, s, m or h: `30s`.
    Text(String),
}

/// The schema of modes of files.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it stands for what the schema says, and is never made")]
pub(crate) enum WrittenMode {
    /// The mode itself: 0o660.
    Number(#[schemars(range(min = 0o600, max = 0o777))] u32),
    /// Octal digits: `0660`.
    Text(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_are_written_with_them() {
        for (text, span) in
            [("0", 0), ("0s", 0), ("500ms", 500), ("20s", 20_000), (" 2 M ", 120_000), ("1h", HOUR)]
        {
            assert_eq!(milliseconds(text), Ok(span), "{text}");
            assert_eq!(milliseconds(&written_time(span)), Ok(span));
        }
        assert!(milliseconds("30").unwrap_err().contains("30 has no unit: write 30s"));
        for wrong in ["", "s", "1.5s", "-1", "-1s", "1d", "9000h", "99999999999999999999s", "١s"] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!((written_time(90_000), written_time(1500)), ("90s".to_owned(), "1500ms".to_owned()));
    }

    #[test]
    fn modes_are_octal_digits() {
        for text in ["660", "0660", "0o660"] {
            assert_eq!(mode(text), Ok(0o660), "{text}");
        }
        for wrong in ["", "0o", "888", "+660", "1660", "0x1b0", "060", "rw-rw----"] {
            assert!(mode(wrong).is_err(), "{wrong}");
        }
        assert_eq!(mode_of_number(0o660), Ok(0o660));
        assert!(mode_of_number(660).unwrap_err().contains("0o1224"));
        assert!(
            mode_of_number(0o1777).is_err()
                && mode_of_number(u64::MAX).is_err()
                && mode_of_number(0).is_err()
        );
    }
}
