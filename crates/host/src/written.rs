//! Sizes and times as people write them in files of settings: a number, or text with a unit.

use std::num::NonZeroU64;

use brindle_layout::Size;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

/// Seconds, or with a suffix: ms, s, m (minutes), h. Never nothing, and at most a year. In milliseconds.
///
/// # Errors
/// The reason, for people.
pub fn milliseconds(text: &str) -> Result<u64, String> {
    const YEAR: u64 = 365 * 24 * 3_600_000;
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &lower[digits.len()..] {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        other => return Err(format!("unknown unit '{other}': use ms, s, m or h")),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match number {
        Some(span @ 1..=YEAR) => Ok(span),
        _ => Err(format!("'{text}' is not a time: write for example 20s or 500ms")),
    }
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

/// Milliseconds: a number of them, or text as `30s`.
pub(crate) fn span<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Either::deserialize(from)?.read(milliseconds).map_err(de::Error::custom)
}

/// A number, or text with a unit: the schema of sizes and times.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it stands for what the schema says, and is never made")]
pub(crate) enum Written {
    /// Bytes or milliseconds.
    Number(u64),
    /// With a unit: `256M`, `30s`.
    Text(String),
}
