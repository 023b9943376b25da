//! Places of bytes: of the array on members, and of members in the array.

/// Contiguous bytes on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The member, by its role number.
    pub member: u16,
    /// The first byte in the member's data area.
    pub offset: u64,
    /// Contiguous bytes from there, both in the array and on the member.
    pub len: u64,
}

/// The use of a byte of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A byte of the array.
    Data {
        /// The byte.
        array_offset: u64,
        /// The number of the copy; 0 if there is one only.
        copy: u16,
    },
    /// P of the same byte of all chunks of a row.
    P {
        /// The row.
        row: u64,
    },
    /// Q of the same byte of all chunks of a row.
    Q {
        /// The row.
        row: u64,
    },
    /// Nothing: behind the end, or a remainder that fills no chunk.
    Unused,
}
