//! Exact shares.

use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;

/// A share from 0 to 1, reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    above: u64,
    below: u64,
}

/// A text is not a share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a share from 0 to 1: write for example 1/3, 0.2, 20% or 1e-4, 1e-15 at least")]
pub struct FractionError(String);

impl Fraction {
    /// The share 0.
    pub const NONE: Self = Self { above: 0, below: 1 };
    /// All.
    pub const ALL: Self = Self { above: 1, below: 1 };

    /// `above` of `below`, which is not 0, and not less than `above`.
    pub fn new(above: u64, below: u64) -> Self {
        let common = divisor(above, below).max(1);
        Self { above: above / common, below: below / common }
    }

    /// The part that counts.
    pub fn above(self) -> u64 {
        self.above
    }

    /// The whole.
    pub fn below(self) -> u64 {
        self.below
    }

    /// As a number.
    pub fn as_f64(self) -> f64 {
        self.above as f64 / self.below as f64
    }

    /// One minus this share.
    pub fn rest(self) -> Self {
        Self { above: self.below - self.above, below: self.below }
    }
}

/// The greatest common divisor; Euclid's.
pub(crate) fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fraction {
    fn cmp(&self, other: &Self) -> Ordering {
        let cross = |a: u64, b: u64| u128::from(a) * u128::from(b);
        cross(self.above, other.below).cmp(&cross(other.above, self.below))
    }
}

impl fmt::Display for Fraction {
    /// `0`, `1`, `2/5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.below {
            1 => write!(f, "{}", self.above),
            below => write!(f, "{}/{below}", self.above),
        }
    }
}

impl FromStr for Fraction {
    type Err = FractionError;

    /// `1/3`, `0.2`, `20%`, `1e-4`.
    fn from_str(text: &str) -> Result<Self, FractionError> {
        let text = text.trim();
        let found = match (text.split_once('/'), text.strip_suffix('%')) {
            (Some((above, below)), _) => whole(above).zip(whole(below)),
            (None, Some(percent)) => decimal(percent).and_then(|(a, b)| Some((a, b.checked_mul(100)?))),
            (None, None) => decimal(text),
        };
        let share = found.filter(|(above, below)| *below > 0 && above <= below);
        share.map(|(above, below)| Self::new(above, below)).ok_or_else(|| FractionError(text.to_owned()))
    }
}

/// Digits, and nothing else: `u64::from_str` takes a sign.
fn whole(text: &str) -> Option<u64> {
    let text = text.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)?.parse().ok()
}

/// A number with up to nine decimals, as how many of which power of ten; `e-4` after it are four more.
fn decimal(text: &str) -> Option<(u64, u64)> {
    if let Some((number, places)) = text.trim().split_once("e-") {
        let (above, below) = decimal(number).filter(|_| !number.contains('e'))?;
        let more = 10_u64.checked_pow(u32::try_from(whole(places)?).ok()?)?;
        return Some((above, below.checked_mul(more)?));
    }
    let (before, after) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let below = 10_u64.checked_pow(u32::try_from(after.len()).ok().filter(|places| *places <= 9)?)?;
    let after = if after.is_empty() { 0 } else { whole(after)? };
    Some((whole(before)?.checked_mul(below)?.checked_add(after)?, below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_reduced_compared_and_read() {
        assert_eq!(Fraction::new(6, 15).to_string(), "2/5");
        assert_eq!((Fraction::new(0, 15), Fraction::new(15, 15)), (Fraction::NONE, Fraction::ALL));
        assert!(
            Fraction::new(1, 3) > Fraction::new(1, 5) && Fraction::new(2, 5).rest() == Fraction::new(3, 5)
        );
        for (text, is) in [
            ("1/3", (1, 3)),
            ("0.2", (1, 5)),
            ("20%", (1, 5)),
            ("12.5 %", (1, 8)),
            ("1", (1, 1)),
            ("2.5e-3", (1, 400)),
        ] {
            assert_eq!(text.parse(), Ok(Fraction::new(is.0, is.1)), "{text}");
        }
        for wrong in [
            "",
            "-1",
            "1/0",
            "3/2",
            "2",
            "101%",
            "NaN",
            "+1/3",
            "1/3/3",
            ".",
            "0.0000000001",
            "1e3",
            "1e-",
            "1e--3",
            "1e-3e-3",
            "1e-20",
            "e-3",
        ] {
            assert!(wrong.parse::<Fraction>().is_err(), "{wrong}");
        }
    }
}
