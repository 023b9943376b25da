//! The layouts of RAID 5 and RAID 6.

use core::fmt;

use crate::Level;

/// Where a row of RAID 5 or RAID 6 keeps its parity, and in which order its data.
///
/// *Left* and *right* tell which way the parity moves from row to row (left: from the last member towards
/// the first); *asymmetric* data starts anew on the first free member of each row, *symmetric* data goes on
/// after the parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParityLayout {
    /// Parity moves left, data starts on the first member (RAID 5, 6).
    LeftAsymmetric,
    /// Parity moves right, data starts on the first member (RAID 5, 6).
    RightAsymmetric,
    /// Parity moves left, data goes on after it (RAID 5, 6); the default of md and mdadm.
    LeftSymmetric,
    /// Parity moves right, data goes on after it (RAID 5, 6).
    RightSymmetric,
    /// Parity stays on the first member or members (RAID 5, 6).
    ParityFirst,
    /// Parity stays on the last member or members (RAID 4, 5, 6).
    ParityLast,
    /// RAID 6 of DDF, "rotating parity 0 with data restart" (PRL 6, RLQ 1).
    DdfZeroRestart,
    /// RAID 6 of DDF, "rotating parity N with data restart" (PRL 6, RLQ 2).
    DdfNRestart,
    /// RAID 6 of DDF, "rotating parity N with data continuation" (PRL 6, RLQ 3).
    DdfNContinue,
    /// RAID 5 left-asymmetric on all members but the last, which holds Q.
    LeftAsymmetric6,
    /// RAID 5 right-asymmetric on all members but the last, which holds Q.
    RightAsymmetric6,
    /// RAID 5 left-symmetric on all members but the last, which holds Q.
    LeftSymmetric6,
    /// RAID 5 right-symmetric on all members but the last, which holds Q.
    RightSymmetric6,
    /// RAID 5 parity-first on all members but the last, which holds Q.
    ParityFirst6,
}

impl ParityLayout {
    /// Every layout, in the order of md's numbers.
    pub const ALL: [ParityLayout; 14] = [
        ParityLayout::LeftAsymmetric,
        ParityLayout::RightAsymmetric,
        ParityLayout::LeftSymmetric,
        ParityLayout::RightSymmetric,
        ParityLayout::ParityFirst,
        ParityLayout::ParityLast,
        ParityLayout::DdfZeroRestart,
        ParityLayout::DdfNRestart,
        ParityLayout::DdfNContinue,
        ParityLayout::LeftAsymmetric6,
        ParityLayout::RightAsymmetric6,
        ParityLayout::LeftSymmetric6,
        ParityLayout::RightSymmetric6,
        ParityLayout::ParityFirst6,
    ];

    /// The number in md's metadata (`ALGORITHM_*` in the kernel).
    #[must_use]
    pub const fn md_number(self) -> u32 {
        match self {
            ParityLayout::LeftAsymmetric => 0,
            ParityLayout::RightAsymmetric => 1,
            ParityLayout::LeftSymmetric => 2,
            ParityLayout::RightSymmetric => 3,
            ParityLayout::ParityFirst => 4,
            ParityLayout::ParityLast => 5,
            ParityLayout::DdfZeroRestart => 8,
            ParityLayout::DdfNRestart => 9,
            ParityLayout::DdfNContinue => 10,
            ParityLayout::LeftAsymmetric6 => 16,
            ParityLayout::RightAsymmetric6 => 17,
            ParityLayout::LeftSymmetric6 => 18,
            ParityLayout::RightSymmetric6 => 19,
            ParityLayout::ParityFirst6 => 20,
        }
    }

    /// mdadm's long name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ParityLayout::LeftAsymmetric => "left-asymmetric",
            ParityLayout::RightAsymmetric => "right-asymmetric",
            ParityLayout::LeftSymmetric => "left-symmetric",
            ParityLayout::RightSymmetric => "right-symmetric",
            ParityLayout::ParityFirst => "parity-first",
            ParityLayout::ParityLast => "parity-last",
            ParityLayout::DdfZeroRestart => "ddf-zero-restart",
            ParityLayout::DdfNRestart => "ddf-N-restart",
            ParityLayout::DdfNContinue => "ddf-N-continue",
            ParityLayout::LeftAsymmetric6 => "left-asymmetric-6",
            ParityLayout::RightAsymmetric6 => "right-asymmetric-6",
            ParityLayout::LeftSymmetric6 => "left-symmetric-6",
            ParityLayout::RightSymmetric6 => "right-symmetric-6",
            ParityLayout::ParityFirst6 => "parity-first-6",
        }
    }

    /// The layout of RAID 6 whose rows are those of RAID 5 with this one, with Q on a member more; none if there is none.
    #[must_use]
    pub fn with_q_apart(self) -> Option<Self> {
        let number = self.md_number();
        // Q behind a parity that stays on the last member is RAID 6 with both of them last.
        if self == ParityLayout::ParityLast {
            return Some(self);
        }
        Self::ALL.into_iter().find(|other| other.md_number() == number + 16 && number < 5)
    }

    /// The layout of RAID 5 whose rows are those of RAID 6 with this one, without the last member, which has all of Q; none if it has
    /// not.
    #[must_use]
    pub fn without_q_apart(self) -> Option<Self> {
        Self::ALL.into_iter().find(|five| five.md_number() <= 5 && five.with_q_apart() == Some(self))
    }

    /// Whether an array of `level` can have this layout.
    #[must_use]
    pub const fn belongs_to(self, level: Level) -> bool {
        match level {
            Level::Raid4 => matches!(self, ParityLayout::ParityLast),
            Level::Raid5 => self.md_number() <= 5,
            Level::Raid6 => true,
            _ => false,
        }
    }

    /// Whether Q's syndrome follows DDF: every member is a term, in member order, P and Q as blocks of
    /// zeroes.
    #[must_use]
    pub const fn is_ddf(self) -> bool {
        matches!(self, ParityLayout::DdfZeroRestart | ParityLayout::DdfNRestart | ParityLayout::DdfNContinue)
    }

    /// The layout of `level` with this number.
    pub(crate) fn from_md(level: Level, number: u32) -> Option<ParityLayout> {
        Self::ALL.into_iter().find(|l| l.md_number() == number && l.belongs_to(level))
    }

    /// The layout of `level` with this name or alias.
    pub(crate) fn parse(level: Level, text: &str) -> Option<ParityLayout> {
        let named = |name: &str| Self::ALL.into_iter().find(|l| l.name() == name && l.belongs_to(level));
        match text {
            "default" => named("left-symmetric"),
            "la" => named("left-asymmetric"),
            "ra" => named("right-asymmetric"),
            "ls" => named("left-symmetric"),
            "rs" => named("right-symmetric"),
            // With one parity chunk a row, DDF's three are layouts that RAID 5 has under older names.
            "ddf-zero-restart" if level == Level::Raid5 => Some(ParityLayout::RightAsymmetric),
            "ddf-N-restart" if level == Level::Raid5 => Some(ParityLayout::LeftAsymmetric),
            "ddf-N-continue" if level == Level::Raid5 => Some(ParityLayout::LeftSymmetric),
            _ => named(text),
        }
    }
}

impl fmt::Display for ParityLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
