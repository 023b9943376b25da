//! The layout of an array, whatever its level.

use core::fmt;

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};

use crate::{Level, ParityLayout, Raid10Layout, UnknownLayout};

/// Where RAID 0 over members of different sizes goes on when the smallest is full: kernels before 3.14 and
/// since differ, and version-1 superblocks say which made the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Raid0Layout {
    /// Kernels before 3.14: the chunk's number in the whole array chooses the member.
    Original,
    /// Kernels since 3.14: the chunk's number in its zone chooses the member.
    Alternate,
}

impl Raid0Layout {
    /// The number in md's metadata.
    #[must_use]
    pub const fn md_number(self) -> u32 {
        match self {
            Raid0Layout::Original => 1,
            Raid0Layout::Alternate => 2,
        }
    }

    /// mdadm's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Raid0Layout::Original => "original",
            Raid0Layout::Alternate => "alternate",
        }
    }
}

/// The layout of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The level has no choice of layouts (linear, RAID 1, RAID 4), or it is neither given nor needed (RAID 0 over
    /// members of one size).
    None,
    /// RAID 0.
    Raid0(Raid0Layout),
    /// RAID 5 and RAID 6; for RAID 4 only [`ParityLayout::ParityLast`].
    Parity(ParityLayout),
    /// RAID 10.
    Raid10(Raid10Layout),
}

impl Layout {
    /// The layout with this number in md's metadata. Levels without layouts accept any number, as md does.
    ///
    /// # Errors
    /// [`UnknownLayout::Number`] if md has no such layout of `level`.
    pub fn from_md(level: Level, number: u32) -> Result<Layout, UnknownLayout> {
        let found = match level {
            Level::Linear | Level::Raid1 => Some(Layout::None),
            // Left behind by a takeover from RAID 5.
            Level::Raid4 if number == ParityLayout::ParityLast.md_number() => {
                Some(Layout::Parity(ParityLayout::ParityLast))
            }
            Level::Raid4 => Some(Layout::None),
            Level::Raid0 => match number {
                // Never recorded: 0 on disk, -1 in md's memory.
                0 | u32::MAX => Some(Layout::None),
                1 => Some(Layout::Raid0(Raid0Layout::Original)),
                2 => Some(Layout::Raid0(Raid0Layout::Alternate)),
                _ => None,
            },
            Level::Raid5 | Level::Raid6 => ParityLayout::from_md(level, number).map(Layout::Parity),
            Level::Raid10 => Raid10Layout::from_md(number).map(Layout::Raid10),
        };
        found.ok_or(UnknownLayout::Number { level, number })
    }

    /// The number in md's metadata; 0 where there is no layout.
    #[must_use]
    pub const fn md_number(self) -> u32 {
        match self {
            Layout::None => 0,
            Layout::Raid0(layout) => layout.md_number(),
            Layout::Parity(layout) => layout.md_number(),
            Layout::Raid10(layout) => layout.md_number(),
        }
    }

    /// The name, as [`Layout::parse`] accepts it and [`fmt::Display`] writes it; `none` where there is no
    /// layout.
    #[must_use]
    pub fn name(self) -> String {
        self.to_string()
    }

    /// The layout of `level` with this name, in mdadm's spellings: `left-symmetric` or `ls`, `ddf-N-restart`,
    /// `parity-first-6`, `original`, `n2`.
    ///
    /// # Errors
    /// [`UnknownLayout::Name`] if `level` has no layout of this name.
    pub fn parse(level: Level, text: &str) -> Result<Layout, UnknownLayout> {
        let found = match (level, text) {
            (Level::Linear | Level::Raid1 | Level::Raid4, "none") => Some(Layout::None),
            (Level::Raid0, "original" | "1") => Some(Layout::Raid0(Raid0Layout::Original)),
            (Level::Raid0, "alternate" | "2") => Some(Layout::Raid0(Raid0Layout::Alternate)),
            (Level::Raid4 | Level::Raid5 | Level::Raid6, _) => {
                ParityLayout::parse(level, text).map(Layout::Parity)
            }
            (Level::Raid10, _) => Raid10Layout::parse(text).map(Layout::Raid10),
            _ => None,
        };
        found.ok_or_else(|| UnknownLayout::Name { level, name: text.to_owned() })
    }

    /// The layout that mdadm chooses by default.
    #[must_use]
    pub const fn default_for(level: Level) -> Layout {
        match level {
            Level::Linear | Level::Raid1 | Level::Raid4 => Layout::None,
            Level::Raid0 => Layout::Raid0(Raid0Layout::Original),
            Level::Raid5 | Level::Raid6 => Layout::Parity(ParityLayout::LeftSymmetric),
            Level::Raid10 => Layout::Raid10(Raid10Layout::near(2)),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::None => f.write_str("none"),
            Layout::Raid0(layout) => f.write_str(layout.name()),
            Layout::Parity(layout) => f.write_str(layout.name()),
            Layout::Raid10(layout) => layout.fmt(f),
        }
    }
}
