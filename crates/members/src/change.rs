//! Changes of members' data, as observers see them when they are sent.

use brindle_io::Slice;

/// A change of a stretch of a member's data.
#[derive(Clone, Debug)]
pub struct MemberChange {
    /// The member's role.
    pub role: u16,
    /// First byte, of the data area.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// The new content.
    pub content: Content,
}

/// The new content of a stretch of a member.
#[derive(Clone, Debug)]
pub enum Content {
    /// The bytes of these stretches of memory, one after the other. They must not change until the write has ended.
    Bytes(Vec<Slice>),
    /// Zeroes.
    Zeroes,
    /// Anything.
    Discarded,
}
