//! The layouts of RAID 10.

use core::fmt;

/// The members that hold the far copies of each other's chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FarSets {
    /// The far copies rotate over all members: what mdadm makes.
    #[default]
    Off,
    /// Bit 17: members / far of them form a set. Too small a set puts copies on one member; md keeps it for
    /// reading.
    Broken,
    /// Bit 18: near * far members form a set (the last one also takes the members that are left over).
    On,
}

/// How many copies RAID 10 keeps of a chunk, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Raid10Layout {
    /// Copies on successive members of the same row.
    pub near: u8,
    /// Copies in other rows, on other members.
    pub far: u8,
    /// Far copies lie in the very next rows, not in the next of `far` equal sections of each member.
    pub offset: bool,
    /// How far copies rotate.
    pub far_sets: FarSets,
}

impl Raid10Layout {
    const OFFSET: u32 = 1 << 16;

    /// `copies` on successive members.
    #[must_use]
    pub const fn near(copies: u8) -> Raid10Layout {
        Raid10Layout { near: copies, far: 1, offset: false, far_sets: FarSets::Off }
    }

    /// `copies` in sections of each member.
    #[must_use]
    pub const fn far(copies: u8) -> Raid10Layout {
        Raid10Layout { near: 1, far: copies, offset: false, far_sets: FarSets::Off }
    }

    /// `copies` in successive rows.
    #[must_use]
    pub const fn offset(copies: u8) -> Raid10Layout {
        Raid10Layout { near: 1, far: copies, offset: true, far_sets: FarSets::Off }
    }

    /// Copies of each byte.
    #[must_use]
    pub const fn copies(self) -> u16 {
        self.near as u16 * self.far as u16
    }

    /// The number in md's metadata: near in the low byte, far in the next, then the offset bit and the far
    /// sets.
    #[must_use]
    pub const fn md_number(self) -> u32 {
        let sets = match self.far_sets {
            FarSets::Off => 0,
            FarSets::Broken => 1 << 17,
            FarSets::On => 1 << 18,
        };
        let offset = if self.offset { Self::OFFSET } else { 0 };
        self.near as u32 | (self.far as u32) << 8 | offset | sets
    }

    /// The layout with this number, if md would take it.
    pub(crate) fn from_md(number: u32) -> Option<Raid10Layout> {
        let [near, far, _, _] = number.to_le_bytes();
        let far_sets = match number >> 17 {
            0 => FarSets::Off,
            1 => FarSets::Broken,
            2 => FarSets::On,
            _ => return None,
        };
        let layout = Raid10Layout { near, far, offset: number & Self::OFFSET != 0, far_sets };
        (near > 0 && far > 0).then_some(layout)
    }

    /// The layout with this name: `n2`, `f2`, `o3`; also what [`fmt::Display`] writes for the rarer ones.
    pub(crate) fn parse(text: &str) -> Option<Raid10Layout> {
        let (name, far_sets) = match text.split_once('-') {
            None => (text, FarSets::Off),
            Some((name, "far-sets")) => (name, FarSets::On),
            Some((name, "broken-far-sets")) => (name, FarSets::Broken),
            Some(_) => return None,
        };
        let mut layout = Raid10Layout { far_sets, ..Raid10Layout::near(1) };
        let rest = match name.strip_prefix('n') {
            Some(rest) => take_copies(rest, &mut layout.near)?,
            None => name,
        };
        let rest = if let Some(rest) = rest.strip_prefix('f') {
            take_copies(rest, &mut layout.far)?
        } else if let Some(rest) = rest.strip_prefix('o') {
            layout.offset = true;
            take_copies(rest, &mut layout.far)?
        } else {
            rest
        };
        (rest.is_empty() && !name.is_empty()).then_some(layout)
    }
}

/// Reads a number of copies off the front of `text`.
fn take_copies<'a>(text: &'a str, copies: &mut u8) -> Option<&'a str> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *copies = digits.parse().ok().filter(|&n| n > 0)?;
    Some(rest)
}

impl fmt::Display for Raid10Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let far = if self.offset { 'o' } else { 'f' };
        if self.near > 1 || (self.far == 1 && !self.offset) {
            write!(f, "n{}", self.near)?;
        }
        if self.far > 1 || self.offset {
            write!(f, "{far}{}", self.far)?;
        }
        match self.far_sets {
            FarSets::Off => Ok(()),
            FarSets::Broken => f.write_str("-broken-far-sets"),
            FarSets::On => f.write_str("-far-sets"),
        }
    }
}
