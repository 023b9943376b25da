//! Answers to the kernel.

use core::time::Duration;

use super::{MINOR, PAGE, VERSION, ability};

/// Bytes of a header.
pub const HEADER: usize = 16;
/// Bytes of the longest answer that is no data of a file or folder.
pub const LONGEST: usize = HEADER + 128;
/// Bytes of an entry of a folder before its name.
pub const ENTRY_HEADER: usize = 24;

/// Requests in the background that the kernel may have under way, and more of which it tells block devices to wait.
const BACKGROUND: (u16, u16) = (128, 96);

/// How long the kernel may go on with names and attributes: none of them changes.
const STAYS: Duration = Duration::from_secs(3600);

/// Error numbers of Linux.
pub mod error {
    /// Not permitted.
    pub const PERMISSION: i32 = 1;
    /// No such file.
    pub const NO_ENTRY: i32 = 2;
    /// The volume can't.
    pub const IO: i32 = 5;
    /// No data from there on.
    pub const NO_DATA: i32 = 6;
    /// A folder is meant.
    pub const IS_FOLDER: i32 = 21;
    /// None that makes sense.
    pub const INVALID: i32 = 22;
    /// Beyond the end.
    pub const TOO_LARGE: i32 = 27;
    /// No space.
    pub const NO_SPACE: i32 = 28;
    /// Read-only.
    pub const READ_ONLY: i32 = 30;
    /// Nothing of that kind is known here.
    pub const UNKNOWN: i32 = 38;
    /// This version is not spoken.
    pub const PROTOCOL: i32 = 71;
    /// Not supported.
    pub const UNSUPPORTED: i32 = 95;
    /// The server ends.
    pub const NOT_CONNECTED: i32 = 107;
}

/// Kinds of nodes, as modes have them.
pub mod kinds {
    /// A folder.
    pub const FOLDER: u32 = 0o040_000;
    /// A file.
    pub const FILE: u32 = 0o100_000;
}

/// The attributes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its number.
    pub node: u64,
    /// Bytes.
    pub size: u64,
    /// Kind and rights.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Bytes in which reads and writes are best.
    pub block: u32,
}

/// The terms on which both have agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Abilities of both that are wanted.
    pub abilities: u64,
    /// Bytes of a read or write at most: a power of two from [`SMALLEST`](super::SMALLEST) to [`LARGEST`](super::LARGEST).
    pub largest: u32,
}

impl Agreement {
    /// The agreement with a kernel; `None` if it does not speak this protocol.
    pub fn with(version: (u32, u32), abilities: u64, largest: u32) -> Option<Self> {
        let speaks = version.0 == VERSION.0 && version.1 >= VERSION.1;
        speaks.then_some(Self { abilities: abilities & ability::WANTED, largest })
    }
}

/// The room of a file system, which is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub size: u64,
    /// Files.
    pub files: u64,
}

/// An entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// The number of its node.
    pub node: u64,
    /// The place from which the next is asked for.
    pub next: u64,
    /// Its kind.
    pub kind: u32,
    /// Its name.
    pub name: &'a [u8],
}

impl DirectoryEntry<'_> {
    /// Its bytes.
    pub fn bytes(&self) -> usize {
        (ENTRY_HEADER + self.name.len()).next_multiple_of(8)
    }

    /// Writes it at the beginning of `into`, which has room for it.
    ///
    /// # Panics
    /// If it has not.
    pub fn put(&self, into: &mut [u8]) {
        let into = &mut into[..self.bytes()];
        into.fill(0);
        into[..8].copy_from_slice(&self.node.to_ne_bytes());
        into[8..16].copy_from_slice(&self.next.to_ne_bytes());
        into[16..20].copy_from_slice(&(self.name.len() as u32).to_ne_bytes());
        into[20..24].copy_from_slice(&(self.kind >> 12).to_ne_bytes());
        into[ENTRY_HEADER..ENTRY_HEADER + self.name.len()].copy_from_slice(self.name);
    }
}

/// An answer without the data that may follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done, and there is nothing to tell.
    Done,
    /// An error number of Linux.
    Failed(i32),
    /// So many bytes follow.
    Data(u32),
    /// The kernel may begin.
    Agreed(Agreement),
    /// A name is that node.
    Entry(Attributes),
    /// A node has these attributes.
    Attributes(Attributes),
    /// A file is open, so.
    Opened(u32),
    /// So many bytes were written.
    Written(u32),
    /// The place that was looked for.
    Place(u64),
    /// The room of the file system.
    Room(Room),
}

/// Numbers one after the other.
struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    fn half(&mut self, number: u16) -> &mut Self {
        self.put(&number.to_ne_bytes())
    }

    fn word(&mut self, number: u32) -> &mut Self {
        self.put(&number.to_ne_bytes())
    }

    fn long(&mut self, number: u64) -> &mut Self {
        self.put(&number.to_ne_bytes())
    }

    fn attributes(&mut self, of: &Attributes) -> &mut Self {
        self.long(of.node).long(of.size).long(of.size.div_ceil(512));
        self.put(&[0; 36]); // times, which nobody has noted
        let links = if of.mode & kinds::FOLDER != 0 { 2 } else { 1 };
        self.word(of.mode).word(links).word(of.owner.0).word(of.owner.1).word(0).word(of.block).word(0)
    }
}

impl Answer {
    /// Writes the answer to the call with this number; gives its bytes.
    ///
    /// # Panics
    /// If `into` has less than [`LONGEST`] bytes.
    pub fn put(&self, unique: u64, into: &mut [u8]) -> usize {
        let mut to = Writer { bytes: into, at: HEADER };
        let (mut error, mut data) = (0, 0);
        match self {
            Self::Done => {}
            Self::Failed(number) => error = -number,
            Self::Data(len) => data = *len as usize,
            Self::Agreed(agreement) => agreed(&mut to, agreement),
            Self::Entry(attributes) => {
                to.long(attributes.node).long(0).long(STAYS.as_secs()).long(STAYS.as_secs()).long(0);
                to.attributes(attributes);
            }
            Self::Attributes(attributes) => {
                to.long(STAYS.as_secs()).long(0).attributes(attributes);
            }
            Self::Opened(flags) => {
                to.long(0).word(*flags).word(0);
            }
            Self::Written(len) => {
                to.word(*len).word(0);
            }
            Self::Place(offset) => {
                to.long(*offset);
            }
            Self::Room(room) => {
                let block = u64::from(PAGE);
                to.long(room.size / block).long(0).long(0).long(room.files).long(0);
                to.word(PAGE).word(255).word(PAGE).put(&[0; 28]);
            }
        }
        let own = to.at;
        to.at = 0;
        to.word((own + data) as u32).word(error as u32).long(unique);
        own
    }
}

fn agreed(to: &mut Writer<'_>, agreement: &Agreement) {
    let Agreement { abilities, largest } = *agreement;
    to.word(VERSION.0).word(MINOR).word(largest).word(abilities as u32);
    to.half(BACKGROUND.0).half(BACKGROUND.1).word(largest);
    to.word(1).half((largest / PAGE) as u16).half(0).word((abilities >> 32) as u32).put(&[0; 28]);
}
