//! Operations of a reactor, and their results.

use crate::buf::Slice;
pub use crate::class::OpClass;

/// A member of an executor: a device of its reactor, or one that its tasks serve ([`MemberId::kind`] tells).
///
/// The number is private, and one word: it goes with every operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(u32);

/// The kind of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberKind {
    /// A device, as the reactor numbered it. Numbers are small and dense per reactor.
    Device(u32),
    /// A member that tasks of the executor serve (see [`crate::Io::serve_member`]).
    Served(ServedId),
}

/// The number of a served member; only [`crate::Io::serve_member`] gives one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServedId(pub(crate) u32);

impl MemberId {
    /// The reactor's device of that number.
    #[inline]
    pub const fn device(number: u32) -> Self {
        Self(number << 1)
    }

    #[inline]
    pub(crate) const fn served(id: ServedId) -> Self {
        Self(id.0 << 1 | 1)
    }

    /// The kind of the member.
    #[inline]
    pub const fn kind(self) -> MemberKind {
        match self.0 & 1 {
            0 => MemberKind::Device(self.0 >> 1),
            _ => MemberKind::Served(ServedId(self.0 >> 1)),
        }
    }

    /// Whether tasks of the executor serve the member (see [`crate::Io::serve_member`]).
    #[inline]
    pub const fn is_served(self) -> bool {
        self.0 & 1 == 1
    }

    /// Its place in a reactor's list of devices. No list is so long that a served member has one: the executor never
    /// hands those to a reactor.
    #[inline]
    pub(crate) const fn place(self) -> usize {
        self.0.rotate_right(1) as usize
    }

    /// A number that no other member of the executor has, and that is small: for lists and sets of members.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl core::fmt::Debug for MemberId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.kind().fmt(f)
    }
}

impl core::fmt::Display for MemberId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.kind() {
            MemberKind::Device(number) => write!(f, "member{number}"),
            MemberKind::Served(ServedId(number)) => write!(f, "served{number}"),
        }
    }
}

/// The owner of operations: each handle of [`crate::Io::owned`] has its own. All others belong to nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner(pub(crate) u32);

impl Owner {
    /// No owner in particular: a request of this one means the operations of all.
    pub(crate) const NOBODY: Self = Self(0);

    /// Whether a request of this owner means operations of that one.
    #[inline]
    pub(crate) fn means(self, other: Self) -> bool {
        self == Self::NOBODY || self == other
    }
}

/// A listening or connected socket of a reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u32);

/// The op table's name of one operation in flight. A reactor hands it back in the [`Completion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpKey(pub u32);

/// The number of an operation within its group, in the order in which the operations were begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpTag(pub u16);

/// The kind of an operation. Offsets and lengths are bytes; the memory of a transfer is in the operation's segments.
///
/// Their order is one in which what each operation is asked is one comparison: whether it asks a member, fills its memory, or may be
/// carried on. In another a 4K read has 40 instructions more, for its memory is let go of by a call then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Fill the segments from the member.
    Read {
        /// Asked member.
        member: MemberId,
        /// First byte on the member.
        offset: u64,
    },
    /// Write the segments to the member.
    Write {
        /// Asked member.
        member: MemberId,
        /// First byte on the member.
        offset: u64,
        /// Complete only when the bytes are on stable storage.
        fua: bool,
    },
    /// Make every write that completed before this one stable.
    Flush {
        /// Asked member.
        member: MemberId,
    },
    /// The range's content is of no use any more; reads of it may give anything until it is written again.
    Discard {
        /// Asked member.
        member: MemberId,
        /// First byte on the member.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Make the range read as zeroes.
    WriteZeroes {
        /// Asked member.
        member: MemberId,
        /// First byte on the member.
        offset: u64,
        /// Bytes.
        len: u64,
        /// The range may be unmapped (thin) rather than written.
        may_unmap: bool,
    },
    /// Look at the member itself; the completion's value is a [`Probe`] (see [`Probe::to_bits`]).
    Probe {
        /// Asked member.
        member: MemberId,
    },
    /// Find how far, from a byte on, the member has space allocated, or has none; the completion's value is a
    /// [`Mapped`] (see [`Mapped::to_bits`]).
    Map {
        /// Asked member.
        member: MemberId,
        /// First byte on the member.
        offset: u64,
        /// Bytes that are of interest.
        len: u64,
    },
    /// Ask another executor, which has the segments until it has answered (see [`crate::Io::ask`]). No reactor gets it.
    Ask {
        /// The other one may write to the segments.
        fills: bool,
    },
    /// Receive into the segments; completes with the count of bytes, 0 at the end of the stream.
    Recv {
        /// Connected socket.
        socket: SocketId,
    },
    /// Wait for a connection; the completion's value is the new [`SocketId`].
    Accept {
        /// Listening socket.
        socket: SocketId,
    },
    /// Send all segments.
    Send {
        /// Connected socket.
        socket: SocketId,
    },
}

impl OpKind {
    /// Time that the operation may take on a member; `None` for sockets and other executors.
    pub fn span(&self) -> Option<OpSpan> {
        match self {
            Self::Read { .. } => Some(OpSpan::Read),
            Self::Write { .. } => Some(OpSpan::Write),
            Self::Flush { .. } | Self::Discard { .. } | Self::WriteZeroes { .. } => Some(OpSpan::Slow),
            Self::Probe { .. } => Some(OpSpan::Probe),
            Self::Map { .. } => Some(OpSpan::Map),
            Self::Ask { .. } | Self::Recv { .. } | Self::Accept { .. } | Self::Send { .. } => None,
        }
    }

    /// The member that the operation asks, if it asks one.
    #[inline]
    pub fn member(&self) -> Option<MemberId> {
        match *self {
            Self::Read { member, .. }
            | Self::Write { member, .. }
            | Self::Flush { member }
            | Self::Probe { member }
            | Self::Map { member, .. }
            | Self::Discard { member, .. }
            | Self::WriteZeroes { member, .. } => Some(member),
            Self::Ask { .. } | Self::Recv { .. } | Self::Accept { .. } | Self::Send { .. } => None,
        }
    }
}

/// Kinds of operations on members by how long a healthy device may take, for [`crate::Io::oldest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpSpan {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes, discards and write-zeroes.
    Slow,
    /// Looks at a device's size and place.
    Probe,
    /// Queries for holes. Nothing relies on their answers, so that they have no deadline.
    Map,
}

/// One stretch of memory of an operation: address and bytes. Same shape as the kernel's `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// First byte. Valid until the operation completes: the op table holds the buffer.
    pub base: *mut u8,
    /// Bytes.
    pub len: usize,
}

/// An operation as a reactor sees it. The segments stay where they are until the completion has been handed back.
#[derive(Clone, Copy, Debug)]
pub struct OpView<'a> {
    /// The operation.
    pub kind: OpKind,
    /// The memory of a read, write, receive or send; at most [`crate::MAX_SEGMENTS`].
    pub segments: &'a [Segment],
    /// The segments' bytes in all.
    pub len: u64,
    /// The arena (see [`crate::Reactor::register_arena`]) that all the segments lie in, if it is one and the same.
    pub arena: Option<u32>,
    /// For what it is.
    pub class: OpClass,
}

/// Why an operation failed. Kinds are stable; the message is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The medium could not give or take the bytes (EIO and its like).
    #[error("input/output error (errno {0})")]
    Medium(i32),
    /// The device is gone (ENODEV, ENXIO; a block device of size 0), was failed by the sim, or is forsaken (see
    /// [`crate::Io::forsake`]).
    #[error("the device is gone")]
    Gone,
    /// The range is not within the size that the member was opened with.
    #[error("beyond the end of the device")]
    OutOfRange,
    /// The device ends before the size that it was opened with: it was made shorter since.
    #[error("the device is shorter than it was when it was opened")]
    Truncated,
    /// The file system that holds the member is full, or the user's quota or the largest size of a file is reached
    /// (ENOSPC, EDQUOT, EFBIG), or a thin volume has no room. A device that is smaller than it was answers so, too: its
    /// error is [`OpError::Gone`] or [`OpError::Truncated`], since its size is read before.
    #[error("no space left on what holds the member: free some there")]
    NoSpace,
    /// Given up at the deadline of its group (see [`crate::Group::submit_by`]). The operation itself goes on: a write
    /// may still land, and a read may still fill its memory.
    #[error("the device did not answer in time")]
    TimedOut,
    /// The device does not know this operation (discard, write-zeroes).
    #[error("the device does not support the operation")]
    Unsupported,
    /// The operation was called off (socket shut down, reactor stopping).
    #[error("the operation was cancelled")]
    Cancelled,
    /// The other end of a connection went away.
    #[error("the connection was closed by the other end")]
    Disconnected,
}

impl OpError {
    /// Errors that have no errno.
    pub const PLAIN: [Self; 8] = [
        Self::Gone,
        Self::OutOfRange,
        Self::Truncated,
        Self::NoSpace,
        Self::TimedOut,
        Self::Unsupported,
        Self::Cancelled,
        Self::Disconnected,
    ];

    /// A number for [`OpError::of_code`]: errors go from one thread to another as part of a word.
    pub fn code(self) -> u32 {
        match self {
            Self::Medium(errno) => 1 << 31 | errno.unsigned_abs(),
            plain => Self::PLAIN.iter().position(|&one| one == plain).unwrap_or_default() as u32,
        }
    }

    /// The error of a code.
    pub fn of_code(code: u32) -> Self {
        let errno = (code & !(1 << 31)) as i32;
        Self::PLAIN.get(code as usize).copied().unwrap_or(Self::Medium(errno))
    }
}

/// A reactor's answer: bytes moved (or the new socket's number), or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The operation.
    pub key: OpKey,
    /// Bytes moved, which may be fewer than asked: the op table asks for the rest.
    pub result: Result<u64, OpError>,
}

/// The facts of a member that are known before anything is read from it. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Size of the device.
    pub size: u64,
    /// Offsets and lengths must be multiples of this: 512 or 4096.
    pub logical_block: u32,
    /// Smallest write that the device does without reading first.
    pub physical_block: u32,
    /// A spinning disk: prefers few large sequential operations.
    pub rotational: bool,
    /// Discard works.
    pub discard: bool,
    /// Write-zeroes works without sending zeroes.
    pub write_zeroes: bool,
}

/// The member as it is now; the name may lead to something else than when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Bytes: not rounded, unlike [`MemberInfo::size`].
    pub size: u64,
    /// The device that its name leads to.
    pub place: PathTarget,
}

/// The device to which the name that a member was opened by leads now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathTarget {
    /// The member; or the name can't be followed, and nothing says that it is another.
    #[default]
    There,
    /// Nothing: the member was deleted or renamed, or its device was taken away.
    Deleted,
    /// Another file or device.
    Replaced,
}

impl Probe {
    /// The value of the completion of an [`OpKind::Probe`]. Sizes are below 2^62 bytes.
    pub const fn to_bits(self) -> u64 {
        let place = match self.place {
            PathTarget::There => 0,
            PathTarget::Deleted => 1,
            PathTarget::Replaced => 2,
        };
        self.size << 2 | place
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        let place = match bits & 3 {
            0 => PathTarget::There,
            1 => PathTarget::Deleted,
            _ => PathTarget::Replaced,
        };
        Self { size: bits >> 2, place }
    }
}

/// A stretch of a member from a byte on: data or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Bytes of which the same is true, at most as many as were asked about; at least one of these.
    pub len: u64,
    /// Nothing is stored there: it reads as zeroes. Else something may be.
    pub hole: bool,
}

impl Mapped {
    /// A range that counts as stored.
    pub const fn stored(len: u64) -> Self {
        Self { len, hole: false }
    }

    /// The value of the completion of an [`OpKind::Map`]. Lengths are below 2^63 bytes.
    pub const fn to_bits(self) -> u64 {
        self.len << 1 | self.hole as u64
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self { len: bits >> 1, hole: bits & 1 == 1 }
    }
}

/// A failed operation of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The operation of the group.
    pub tag: OpTag,
    /// Its kind: names the member.
    pub kind: OpKind,
    /// The reason.
    pub error: OpError,
}

/// A request to a member that is served by tasks of this process (see [`crate::Io::serve_member`]).
#[derive(Debug)]
pub struct ServedOp {
    /// The operation.
    pub kind: OpKind,
    /// The memory, in order.
    pub slices: Vec<Slice>,
    /// For what it is.
    pub class: OpClass,
}
