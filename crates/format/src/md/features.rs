//! Feature bits of a 1.x superblock (`feature_map`).

use core::fmt;
use core::ops::{BitAnd, BitOr, BitOrAssign};

/// Set of feature bits: what a reader must understand before it trusts the rest of the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Features(pub u32);

impl Features {
    /// No feature.
    pub const NONE: Self = Self(0);
    /// `bitmap_offset` is meaningful: a write-intent bitmap stands there.
    pub const BITMAP_OFFSET: Self = Self(1);
    /// `recovery_offset` is meaningful: this member is only recovered up to it.
    pub const RECOVERY_OFFSET: Self = Self(2);
    /// A reshape is under way; the reshape fields are meaningful.
    pub const RESHAPE_ACTIVE: Self = Self(4);
    /// The bad-block log of this member is not empty.
    pub const BAD_BLOCKS: Self = Self(8);
    /// This device is the replacement of an active device with the same role.
    pub const REPLACEMENT: Self = Self(16);
    /// The reshape keeps the number of devices and runs from the end to the start.
    pub const RESHAPE_BACKWARDS: Self = Self(32);
    /// `new_offset` is meaningful: the reshape moves the start of the data on this member.
    pub const NEW_OFFSET: Self = Self(64);
    /// The recovery of this member is guided by the write-intent bitmap.
    pub const RECOVERY_BITMAP: Self = Self(128);
    /// Clustered md: several hosts share the array (`MD_FEATURE_CLUSTERED`, once `BITMAP_VERSIONED`).
    pub const CLUSTERED: Self = Self(256);
    /// The array has a journal device (RAID 4, 5, 6).
    pub const JOURNAL: Self = Self(512);
    /// Each member keeps a partial parity log (RAID 5).
    pub const PPL: Self = Self(1024);
    /// The partial parity log has several headers, used in turn.
    pub const MULTIPLE_PPLS: Self = Self(2048);
    /// `layout` is meaningful for RAID 0 with members of different sizes (original or alternate).
    pub const RAID0_LAYOUT: Self = Self(4096);

    /// Every feature known by name.
    pub const KNOWN: Self = Self(0x1fff);

    /// Features that say where reshape stands: the layout is not the same everywhere.
    pub const RESHAPE: Self = Self(Self::RESHAPE_ACTIVE.0 | Self::RESHAPE_BACKWARDS.0 | Self::NEW_OFFSET.0);

    const NAMES: [(Self, &'static str); 13] = [
        (Self::BITMAP_OFFSET, "bitmap"),
        (Self::RECOVERY_OFFSET, "recovery-offset"),
        (Self::RESHAPE_ACTIVE, "reshape"),
        (Self::BAD_BLOCKS, "bad-blocks"),
        (Self::REPLACEMENT, "replacement"),
        (Self::RESHAPE_BACKWARDS, "reshape-backwards"),
        (Self::NEW_OFFSET, "new-offset"),
        (Self::RECOVERY_BITMAP, "recovery-bitmap"),
        (Self::CLUSTERED, "clustered"),
        (Self::JOURNAL, "journal"),
        (Self::PPL, "ppl"),
        (Self::MULTIPLE_PPLS, "multiple-ppls"),
        (Self::RAID0_LAYOUT, "raid0-layout"),
    ];

    /// Whether every bit of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether no bit is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bits that have no name here: written by a newer md.
    pub const fn unknown(self) -> u32 {
        self.0 & !Self::KNOWN.0
    }

    /// The features of `self` that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Sets or clears every bit of `which`.
    #[must_use]
    pub const fn with(self, which: Self, on: bool) -> Self {
        if on { Self(self.0 | which.0) } else { Self(self.0 & !which.0) }
    }

    /// Names of the known features that are set, in the order of their bits.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(bit, _)| self.contains(*bit)).map(|(_, name)| name)
    }
}

impl BitOr for Features {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Features {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Features {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// `bitmap, journal, unknown bits 0x8000`; `none` for the empty set.
impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for name in self.names() {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        match self.unknown() {
            0 if self.is_empty() => f.write_str("none"),
            0 => Ok(()),
            bits => write!(f, "{separator}unknown bits {bits:#x}"),
        }
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Features({self})")
    }
}
