//! Descriptions of drives, parsed from text that users write.

use crate::disk::MOST_DRIVES;

/// Most counts of drives that are planned for at once.
const MOST_COUNTS: usize = 512;

/// Names and values.
pub type Said<'a> = Vec<(&'a str, &'a str)>;

/// Errors in a description of drives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Counts.
    #[error(
        "'{0}' is not a number of drives: write for example 4, 4,6 or 4-12, of 2 to {MOST_DRIVES} drives"
    )]
    Counts(String),
    /// Bytes.
    #[error(
        "'{0}' is not a size: write for example 2TB, 1.92TB, 500GB (powers of 1000, as drives are sold) or 2TiB"
    )]
    Size(String),
    /// Anything else.
    #[error("'{0}' must be a number greater than 0: write for example 4 or 0.5")]
    Number(String),
    /// A second set.
    #[error(
        "'{0}' is not a set of drives: write for example 2x4TB,iops=150, and further mb_s=, price=, drive= as for the first set"
    )]
    Set(String),
}

/// Counts of drives: `4`, `4,6`, `4-12`; each once, in the order given.
///
/// # Errors
/// [`ParseError::Counts`].
pub fn counts(text: &str) -> Result<Vec<u32>, ParseError> {
    let wrong = || ParseError::Counts(text.to_owned());
    let mut all: Vec<u32> = Vec::new();
    for item in text.split(',') {
        let (from, to) = item.split_once('-').unwrap_or((item, item));
        let (from, to) = (count(from).ok_or_else(wrong)?, count(to).ok_or_else(wrong)?);
        if from > to {
            return Err(wrong());
        }
        for one in from..=to {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    (all.len() <= MOST_COUNTS).then_some(all).ok_or_else(wrong)
}

fn count(text: &str) -> Option<u32> {
    let text = text.trim();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|count| plain && (2..=MOST_DRIVES).contains(count))
}

/// A drive's bytes: decimals are allowed; KB to EB count thousands, as drives are sold, K to E and KiB to EiB 1024s.
///
/// # Errors
/// [`ParseError::Size`].
pub fn size(text: &str) -> Result<u64, ParseError> {
    let wrong = || ParseError::Size(text.to_owned());
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (letter, base) = match &lower[digits.len()..] {
        "" | "b" => ("", 1.0),
        unit => match (unit.strip_suffix("ib"), unit.strip_suffix('b')) {
            (Some(letter), _) => (letter, 1024.0),
            (None, Some(letter)) => (letter, 1000.0),
            (None, None) => (unit, 1024.0),
        },
    };
    let power =
        ["", "k", "m", "g", "t", "p", "e"].iter().position(|known| *known == letter).ok_or_else(wrong)?;
    let number = plain(digits).ok_or_else(wrong)?;
    let bytes = (number * f64::powi(base, power as i32)).round();
    if (0.0..=1e19).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
}

/// A number more than 0, without exponents and signs.
///
/// # Errors
/// [`ParseError::Number`].
pub fn number(text: &str) -> Result<f64, ParseError> {
    let found = plain(text.trim()).filter(|number| number.is_finite() && *number > 0.0);
    found.ok_or_else(|| ParseError::Number(text.to_owned()))
}

fn plain(text: &str) -> Option<f64> {
    let fine = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    fine.then(|| text.parse().ok()).flatten()
}

/// `2x4TB,iops=150`: counts, bytes, and what else is said of the drives, as names and values.
///
/// # Errors
/// [`ParseError`]: what is wrong of it.
pub fn second_set(text: &str) -> Result<(u32, u64, Said<'_>), ParseError> {
    let wrong = || ParseError::Set(text.to_owned());
    let mut items = text.split(',');
    let (many, large) = items.next().and_then(|first| first.split_once('x')).ok_or_else(wrong)?;
    let many = count(many).ok_or_else(|| ParseError::Counts(many.to_owned()))?;
    let large = size(large)?;
    let said: Option<Vec<_>> = items.map(said).collect();
    Ok((many, large, said.ok_or_else(wrong)?))
}

fn said(item: &str) -> Option<(&str, &str)> {
    item.split_once('=').filter(|(name, _)| ["iops", "mb_s", "price", "drive"].contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_lists_and_ranges() {
        assert_eq!(counts("4"), Ok(vec![4]));
        assert_eq!(counts("4,6"), Ok(vec![4, 6]));
        assert_eq!(counts("4-6, 5,9"), Ok(vec![4, 5, 6, 9]));
        for wrong in ["", "1", "0", "385", "-4", "4-", "6-4", "4,,6", "+4", "x", "4x", "1e1", "99999999999"] {
            assert!(counts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_as_drives_are_sold() {
        assert_eq!(size("2TB"), Ok(2_000_000_000_000));
        assert_eq!(size("1.92tb"), Ok(1_920_000_000_000));
        assert_eq!((size("2TiB"), size("2T")), (Ok(2 << 40), Ok(2 << 40)));
        assert_eq!(size("500GB"), Ok(500_000_000_000));
        assert_eq!((size("4096"), size("1EB")), (Ok(4096), Ok(1_000_000_000_000_000_000)));
        for wrong in ["", "TB", "-1TB", "1e3GB", "2XB", "2TBB", "20EB", "NaN", "inf", "1..2TB", "2 TB x"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_more_than_nothing() {
        assert_eq!((number("200"), number(" 0.5 ")), (Ok(200.0), Ok(0.5)));
        for wrong in ["", "0", "-1", "NaN", "inf", "1e9", "1,5"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_second_set_says_all_in_one_word() {
        let found = second_set("2x4TB,iops=150,price=90");
        assert_eq!(found, Ok((2, 4_000_000_000_000, vec![("iops", "150"), ("price", "90")])));
        for wrong in ["", "2", "2x", "x4TB", "2x4TB,", "2x4TB,iops", "2x4TB,colour=red", "1x4TB"] {
            assert!(second_set(wrong).is_err(), "{wrong}");
        }
    }
}
