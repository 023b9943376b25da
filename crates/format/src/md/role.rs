//! The role of a device in its array.

use core::fmt;

const SPARE: u16 = 0xffff;
const FAULTY: u16 = 0xfffe;
const JOURNAL: u16 = 0xfffd;

/// The role of a device in its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceRole {
    /// The device fills this role, counted from 0.
    Active(u16),
    /// Holds no data; waits to replace a member. mdadm also marks the unused entries of a new table so.
    Spare,
    /// Has failed or is missing. The kernel also marks the unused entries of the table so.
    Faulty,
    /// Holds the journal of a RAID 4, 5 or 6 array.
    Journal,
    /// No device has this entry of a 0.90 table. The place of an empty role is marked faulty and removed, any other
    /// entry is zero. Tables of 1.x have no such mark.
    Vacant,
}

impl DeviceRole {
    /// Reads the two-byte code of a 1.x role table.
    pub const fn from_code(code: u16) -> Self {
        match code {
            SPARE => Self::Spare,
            FAULTY => Self::Faulty,
            JOURNAL => Self::Journal,
            role => Self::Active(role),
        }
    }

    /// The two-byte code of a 1.x role table.
    pub const fn code(self) -> u16 {
        match self {
            Self::Active(role) => role,
            Self::Spare | Self::Vacant => SPARE,
            Self::Faulty => FAULTY,
            Self::Journal => JOURNAL,
        }
    }

    /// The place in the array, if the device fills one.
    pub const fn active(self) -> Option<u16> {
        match self {
            Self::Active(role) => Some(role),
            _ => None,
        }
    }
}

impl fmt::Display for DeviceRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active(role) => write!(f, "active {role}"),
            Self::Spare => f.write_str("spare"),
            Self::Faulty => f.write_str("faulty"),
            Self::Journal => f.write_str("journal"),
            Self::Vacant => f.write_str("unused"),
        }
    }
}
