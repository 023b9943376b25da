//! RAID levels and their names.

use core::fmt;
use core::str::FromStr;

use alloc::borrow::ToOwned;

use crate::UnknownLevel;

/// A RAID level that md knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Members are joined end to end.
    Linear,
    /// Stripes without redundancy.
    Raid0,
    /// The same content on every member.
    Raid1,
    /// Stripes with all parity on the last member.
    Raid4,
    /// Stripes with one rotating parity chunk a row.
    Raid5,
    /// Stripes with two parity chunks a row, P and Q.
    Raid6,
    /// Stripes in which each chunk is kept two or more times.
    Raid10,
}

impl Level {
    /// Every level, in the order of their numbers.
    pub const ALL: [Level; 7] =
        [Level::Linear, Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6, Level::Raid10];

    /// The number in md's metadata; -1 is linear.
    #[must_use]
    pub const fn md_number(self) -> i32 {
        match self {
            Level::Linear => -1,
            Level::Raid0 => 0,
            Level::Raid1 => 1,
            Level::Raid4 => 4,
            Level::Raid5 => 5,
            Level::Raid6 => 6,
            Level::Raid10 => 10,
        }
    }

    /// The level with this number in md's metadata.
    ///
    /// # Errors
    /// [`UnknownLevel::Number`] for multipath (-4), faulty (-5), containers and whatever else is stored
    /// there.
    pub fn from_md(number: i32) -> Result<Level, UnknownLevel> {
        Level::ALL.into_iter().find(|l| l.md_number() == number).ok_or(UnknownLevel::Number(number))
    }

    /// The name that mdadm prints: `linear`, `raid6`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Level::Linear => "linear",
            Level::Raid0 => "raid0",
            Level::Raid1 => "raid1",
            Level::Raid4 => "raid4",
            Level::Raid5 => "raid5",
            Level::Raid6 => "raid6",
            Level::Raid10 => "raid10",
        }
    }

    /// Whether an array of this level is laid out in chunks that may be chosen.
    #[must_use]
    pub const fn has_chunks(self) -> bool {
        !matches!(self, Level::Raid1)
    }

    /// Whether an array of this level can lose a member at all (given enough of them).
    #[must_use]
    pub const fn is_redundant(self) -> bool {
        !matches!(self, Level::Linear | Level::Raid0)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Level {
    type Err = UnknownLevel;

    /// Accepts mdadm's spellings: `6`, `raid6`, `stripe` (0), `mirror` (1), `linear` or `-1`.
    fn from_str(text: &str) -> Result<Level, UnknownLevel> {
        Ok(match text {
            "linear" | "-1" => Level::Linear,
            "raid0" | "0" | "stripe" => Level::Raid0,
            "raid1" | "1" | "mirror" => Level::Raid1,
            "raid4" | "4" => Level::Raid4,
            "raid5" | "5" => Level::Raid5,
            "raid6" | "6" => Level::Raid6,
            "raid10" | "10" => Level::Raid10,
            _ => return Err(UnknownLevel::Name(text.to_owned())),
        })
    }
}
