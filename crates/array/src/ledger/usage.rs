//! The use of a device in its array, by the record.

/// Why a device is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The device's event count is behind: it missed writes.
    Stale {
        /// The device's event count; the array's is [`Description::events`](super::Description::events).
        events: u64,
    },
    /// The array's newest superblock says that it has failed or was removed.
    Faulty,
    /// The device replaces a member that still works, and is not complete or not needed.
    Replacement,
}

/// The use of a device in its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceUse {
    /// Fills a role.
    Active {
        /// The role.
        role: u16,
    },
    /// Fills a role, but is rebuilt only in part.
    Recovering {
        /// The role.
        role: u16,
        /// Bytes of the data area, from its start, that it holds.
        upto: u64,
    },
    /// Is to take the place of a member that still works, and takes every change with it.
    Replacement {
        /// The role of both.
        role: u16,
        /// Bytes of the data area, from its start, in which it holds what the member holds; `u64::MAX` if that is everywhere.
        upto: u64,
    },
    /// Waits to replace a member.
    Spare,
    /// Holds the array's journal.
    Journal,
    /// Not used.
    LeftOut {
        /// The role that it claims, if any.
        role: Option<u16>,
        /// Why it is not used.
        why: LeftOut,
    },
}
