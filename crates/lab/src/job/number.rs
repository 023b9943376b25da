//! Numbers as fio reads them: units, bases, ranges, percentages, times.

use super::error::Wants;
use super::expression;
use super::options::JobExtent;

const SIZE: Wants = Wants("a size in bytes, for example 4096, 64k or 1g");
const COUNT: Wants = Wants("a whole number");
const TIME: Wants = Wants("a time, for example 30, 30s, 500ms or 2m");
const RANGE: Wants = Wants("a range, for example 4k-64k");

/// The value of the unit `k`: fio's kb_base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Base {
    /// `k` is 1024 and `ki` is 1000, as old scripts have it.
    #[default]
    Old,
    /// `k` is 1000 and `ki` is 1024, as standards have it.
    Si,
}

impl Base {
    /// Bytes for one of a unit; none if there is no such unit.
    fn unit(self, unit: &str) -> Option<u64> {
        let unit = unit.to_ascii_lowercase();
        let unit = unit.strip_suffix('b').unwrap_or(&unit);
        let (letter, binary) = match unit.strip_suffix('i') {
            Some(letter) => (letter, self == Self::Si),
            None => (unit, self == Self::Old),
        };
        let power = match letter {
            "" if unit.is_empty() => return Some(1),
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            "p" => 5,
            _ => return None,
        };
        Some(if binary { 1 << (10 * power) } else { 1000u64.pow(power) })
    }

    /// Bytes.
    pub(super) fn size(self, text: &str) -> Result<u64, Wants> {
        if expression::is_one(text) {
            return expression::value(text, &|number| self.plain(number)).ok_or(SIZE);
        }
        self.plain(text).ok_or(SIZE)
    }

    fn plain(self, text: &str) -> Option<u64> {
        let (number, unit) = cut(text.trim())?;
        number.checked_mul(self.unit(unit.trim())?)
    }

    /// Bytes, or a share of something.
    pub(super) fn extent(self, text: &str) -> Result<JobExtent, Wants> {
        const WANTS: Wants = Wants("a size, for example 1g, or a percentage from 1% to 100%");
        match text.strip_suffix('%') {
            None => self.size(text).map(JobExtent::Bytes).map_err(|_| WANTS),
            Some(percent) => match percent.trim().parse() {
                Ok(percent @ 1..=100) => Ok(JobExtent::Percent(percent)),
                _ => Err(WANTS),
            },
        }
    }

    /// Two sizes, the smaller first; one alone is both.
    pub(super) fn range(self, text: &str) -> Result<(u64, u64), Wants> {
        let (low, high) = ends(text);
        let (low, high) = (self.size(low).map_err(|_| RANGE)?, self.size(high).map_err(|_| RANGE)?);
        Ok((low.min(high), low.max(high)))
    }
}

/// The two texts of `a-b` or `a:b`; one alone is both.
pub(super) fn ends(text: &str) -> (&str, &str) {
    text.split_once(['-', ':']).unwrap_or((text, text))
}

/// A number, decimal or hexadecimal, and what follows it.
pub(super) fn cut(text: &str) -> Option<(u64, &str)> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(rest) => (rest, 16),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let number = u64::from_str_radix(&digits[..end], radix).ok()?;
    Some((number, &digits[end..]))
}

/// A whole number, with the units of sizes: fio has them everywhere.
pub(super) fn count(base: Base, text: &str) -> Result<u64, Wants> {
    base.size(text).map_err(|_| COUNT)
}

/// Microseconds; `plain` of them for a number without unit.
pub(super) fn micros(text: &str, plain: u64) -> Result<u64, Wants> {
    if expression::is_one(text) {
        return expression::value(text, &|number| time(number, 1)).ok_or(TIME);
    }
    time(text, plain).ok_or(TIME)
}

fn time(text: &str, plain: u64) -> Option<u64> {
    let (number, unit) = cut(text.trim())?;
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" => plain,
        "us" | "usec" => 1,
        "ms" | "msec" => 1000,
        "s" | "sec" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_the_base() {
        let both = |text| (Base::Old.size(text), Base::Si.size(text));
        assert_eq!(both("4096"), (Ok(4096), Ok(4096)));
        assert_eq!(both("4k"), (Ok(4096), Ok(4000)));
        assert_eq!(both("4kB"), (Ok(4096), Ok(4000)));
        assert_eq!(both("4KiB"), (Ok(4000), Ok(4096)));
        assert_eq!(both("1mi"), (Ok(1_000_000), Ok(1 << 20)));
        assert_eq!(both("0x1000b"), (Ok(0x1000b), Ok(0x1000b)), "b is a digit there");
        assert_eq!(both("2t").0, Ok(2 << 40));
        assert_eq!(both("3p").1, Ok(3_000_000_000_000_000));
        assert_eq!(Base::Old.size("(2*(3+4))"), Ok(14));
        assert_eq!(Base::Old.size("8*4k"), Ok(32768));
        for wrong in
            ["", "k", "-1", "1.5g", "4x", "4kk", "i", "4i", "99999999999999999999", "16384p", "é", "4é"]
        {
            assert_eq!(Base::Old.size(wrong), Err(SIZE), "{wrong}");
        }
    }

    #[test]
    fn ranges_are_put_in_order() {
        assert_eq!(Base::Old.range("1k-4k"), Ok((1024, 4096)));
        assert_eq!(Base::Old.range("4k:512"), Ok((512, 4096)));
        assert_eq!(Base::Old.range("8"), Ok((8, 8)));
        assert_eq!(Base::Old.range("8-"), Err(RANGE));
    }

    #[test]
    fn extents_are_sizes_or_shares() {
        assert_eq!(Base::Old.extent("25%"), Ok(JobExtent::Percent(25)));
        assert_eq!(Base::Old.extent("1m"), Ok(JobExtent::Bytes(1 << 20)));
        for wrong in ["0%", "101%", "%", "x%", "256%"] {
            assert!(Base::Old.extent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(micros("30", 1_000_000), Ok(30_000_000));
        assert_eq!(micros("30", 1), Ok(30));
        assert_eq!(micros("5ms", 1_000_000), Ok(5000));
        assert_eq!(micros("2M", 1), Ok(120_000_000));
        assert_eq!(micros("1d", 1), Ok(86_400_000_000));
        assert_eq!(micros("(2*30)", 1_000_000), Ok(60));
        for wrong in ["", "s", "1w", "1.5s", "-3", "18446744073709551615h"] {
            assert_eq!(micros(wrong, 1), Err(TIME), "{wrong}");
        }
    }
}
