//! Calls of the kernel.

use super::LARGEST;

/// Bytes of a header.
const HEADER: usize = 40;

/// Bytes of a write before its data.
pub const WRITTEN_AT: usize = HEADER + 40;

/// The flags of an open file that have its writes be stable: `O_DSYNC`, which `O_SYNC` contains.
const DSYNC: u32 = 0o10000;

/// Flags of an open: how a file is to be accessed, and those that are for writing.
const ACCESS: u32 = 3;

/// The header of each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHeader {
    /// The number that the answer carries.
    pub unique: u64,
    /// The file or folder that is meant.
    pub node: u64,
}

/// A call of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// The first: what both can.
    Init {
        /// The kernel's version of the protocol.
        version: (u32, u32),
        /// Its abilities.
        abilities: u64,
    },
    /// A name is looked up in a folder.
    Lookup {
        /// The name, without the zero at its end.
        name: &'a [u8],
    },
    /// Nodes are used no more; it has no answer.
    Forget,
    /// An earlier call is to end early. It need not.
    Interrupt,
    /// Attributes are asked for.
    Attributes,
    /// Attributes are to be set.
    Change {
        /// A size, owner, group or mode is among them, which files here do not change.
        matters: bool,
    },
    /// A file is opened.
    Open {
        /// It is to be written to.
        writes: bool,
    },
    /// A folder is opened.
    OpenFolder,
    /// A file or folder is closed, or one of its descriptors is.
    Close,
    /// The names in a folder, from one on.
    List {
        /// Names that were given already.
        from: u64,
        /// Bytes of the answer at most.
        room: u32,
    },
    /// Bytes of a file.
    Read {
        /// Byte of the file.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// Bytes for a file, behind the first [`WRITTEN_AT`] of the message.
    Write {
        /// Byte of the file.
        offset: u64,
        /// Bytes.
        len: u32,
        /// They are to be stable when it is answered.
        stable: bool,
    },
    /// Writes so far are to be stable.
    Sync,
    /// A folder's are, of which there are none.
    SyncFolder,
    /// Zeroes or a hole.
    Allocate {
        /// Byte of the file.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Of fallocate(2).
        mode: u32,
    },
    /// The next data or hole.
    Seek {
        /// Byte of the file.
        offset: u64,
        /// `SEEK_DATA` or `SEEK_HOLE`.
        whence: u32,
    },
    /// The room of the file system.
    Room,
    /// The file system is unmounted.
    Destroy,
    /// The kernel does not ask again what a server does not know.
    Unknown(u32),
    /// A change of the folder, which has none.
    ChangesFolder,
}

/// Bytes that are no message: where the next begins is not known, or they are not the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A message that is none of the protocol's, and is answered so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCall;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

/// The call in a message.
///
/// # Errors
/// [`Malformed`] if it is no message; inside, [`NoCall`] if it is one that lacks something of its call.
pub fn parse(message: &[u8]) -> Result<(CallHeader, Result<Call<'_>, NoCall>), Malformed> {
    let header = |()| {
        let whole = u32_at(message, 0)? as usize == message.len() && message.len() >= HEADER;
        let header = CallHeader { unique: u64_at(message, 8)?, node: u64_at(message, 16)? };
        whole.then_some((header, u32_at(message, 4)?))
    };
    let (header, code) = header(()).ok_or(Malformed)?;
    Ok((header, call(code, &message[HEADER..]).ok_or(NoCall)))
}

fn call(code: u32, body: &[u8]) -> Option<Call<'_>> {
    Some(match code {
        1 => {
            let (zero, name) = body.split_last()?;
            if *zero != 0 || name.contains(&0) {
                return None;
            }
            Call::Lookup { name }
        }
        2 | 42 => Call::Forget,
        3 => Call::Attributes,
        4 => Call::Change { matters: u32_at(body, 0)? & 0b1111 != 0 },
        6 | 8..=13 | 35 | 45 => Call::ChangesFolder,
        14 => Call::Open { writes: u32_at(body, 0)? & ACCESS != 0 },
        15 => Call::Read { offset: u64_at(body, 8)?, len: within(u32_at(body, 16)?)? },
        16 => {
            let len = within(u32_at(body, 16)?)?;
            if body.len() != WRITTEN_AT - HEADER + len as usize {
                return None;
            }
            Call::Write { offset: u64_at(body, 8)?, len, stable: u32_at(body, 32)? & DSYNC != 0 }
        }
        17 => Call::Room,
        18 | 25 | 29 => Call::Close,
        20 => Call::Sync,
        26 => {
            let more = u32_at(body, 16).map_or(0, |more| u64::from(more) << 32);
            let flags = u32_at(body, 12)?;
            Call::Init { version: (u32_at(body, 0)?, u32_at(body, 4)?), abilities: u64::from(flags) | more }
        }
        27 => Call::OpenFolder,
        28 => Call::List { from: u64_at(body, 8)?, room: within(u32_at(body, 16)?)? },
        30 => Call::SyncFolder,
        36 => Call::Interrupt,
        38 => Call::Destroy,
        43 => Call::Allocate { offset: u64_at(body, 8)?, len: u64_at(body, 16)?, mode: u32_at(body, 24)? },
        46 => Call::Seek { offset: u64_at(body, 8)?, whence: u32_at(body, 16)? },
        other => Call::Unknown(other),
    })
}

/// A length that was agreed on.
fn within(len: u32) -> Option<u32> {
    (len <= LARGEST).then_some(len)
}
