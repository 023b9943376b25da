//! Changes of members' data, as they are sent.

use brindle_io::Slice;

/// What becomes of a stretch of a member's data.
#[derive(Clone, Debug)]
pub struct MemberChange {
    /// Whose member.
    pub role: u16,
    /// First byte, of the data area.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// What it is to hold.
    pub content: Content,
}

/// What a stretch of a member is to hold.
#[derive(Clone, Debug)]
pub enum Content {
    /// These bytes, one stretch of memory after the other. They stay as they are until the change has ended.
    Bytes(Vec<Slice>),
    /// Zeroes.
    Zeroes,
    /// Anything.
    Discarded,
}
