//! Messages of the kernel's FUSE protocol 7.23 and newer, as `linux/fuse.h` has them. Numbers are in the order of the machine: both
//! ends are on one.

mod answer;
mod call;

pub use answer::{
    Agreement, Answer, Attributes, DirectoryEntry, ENTRY_HEADER, HEADER as ANSWER_HEADER, LONGEST, Room,
    error, kinds,
};
pub use call::{Call, CallHeader, Malformed, NoCall, WRITTEN_AT, parse};

/// The node of the folder itself.
pub const ROOT: u64 = 1;

/// The version that is spoken: its first number, and the least second one, of Linux 3.18.
pub const VERSION: (u32, u32) = (7, 23);
/// The second number that is answered.
pub const MINOR: u32 = 38;

/// Bytes of a read or write at most: as many as the kernel's pages of one request by default.
pub const LARGEST: u32 = 1 << 20;
/// The same where there is hardly any memory: a page.
pub const SMALLEST: u32 = PAGE;
/// Bytes of a page, as the kernel counts those of requests.
const PAGE: u32 = 4096;

/// Abilities on which the kernel and its server can agree.
pub mod ability {
    /// Several reads of a file at a time.
    pub const ASYNC_READ: u64 = 1;
    /// Writes of more than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// Requests of one direct read or write are sent side by side, and completed when all are answered.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Several look-ups in a folder at a time.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// The server says of how many pages a request may be.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// There are flags above the first 32.
    pub const INIT_EXT: u64 = 1 << 30;
    /// All that is asked for where the kernel offers it.
    pub const WANTED: u64 = ASYNC_READ | BIG_WRITES | ASYNC_DIO | PARALLEL_DIROPS | MAX_PAGES | INIT_EXT;
}

/// How a file is open.
pub mod open {
    /// Reads and writes go past the kernel's cache.
    pub const DIRECT_IO: u32 = 1;
    /// Writes of one file go side by side.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Modes of fallocate.
pub mod mode {
    /// The size of the file stays.
    pub const KEEP_SIZE: u32 = 1;
    /// The range becomes a hole.
    pub const PUNCH_HOLE: u32 = 2;
    /// The range becomes zeroes.
    pub const ZERO_RANGE: u32 = 16;
}
