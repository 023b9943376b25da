//! Why a member could not be opened.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A member that could not be opened: which, why, and the way out.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct DeviceError {
    /// The name that was given.
    pub path: PathBuf,
    /// The reason.
    pub kind: DeviceErrorKind,
    /// The kernel's error, if the kernel was asked.
    #[source]
    pub source: Option<io::Error>,
}

/// The kinds of [`DeviceError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceErrorKind {
    /// No such file.
    Missing,
    /// The user may not open it.
    Permission,
    /// The file system or the device can't be written to.
    ReadOnly,
    /// A directory, a socket, a character device...: what it is.
    NotStorage(&'static str),
    /// The device holds less than one block.
    Empty,
    /// The kernel uses it: mounted, swapped to, part of a kernel array or held by device mapper.
    InUse,
    /// Another Brindle has it open.
    Busy,
    /// The kernel serves the file as this loop device.
    BacksLoop(PathBuf),
    /// Its descriptor was opened without the right to this.
    NotGivenFor(&'static str),
    /// A part of a device was to be written to.
    PartIsRead,
    /// The device has no such part.
    NoSuchPart {
        /// The bytes of the part.
        part: Range<u64>,
        /// Bytes of the device.
        size: u64,
    },
    /// Anything else, in the kernel's words.
    Failed(String),
}

impl fmt::Display for DeviceErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "no such file or device; check the name"),
            Self::Permission => {
                write!(f, "permission denied; run as its owner, or as root for block devices")
            }
            Self::ReadOnly => write!(f, "it can't be written to; make it (or its file system) writable"),
            Self::NotStorage(what) => {
                write!(f, "it is {what}; a member is a regular file or a block device")
            }
            Self::Empty => write!(f, "it holds less than one block; make it larger, as with truncate -s"),
            Self::InUse => {
                write!(f, "in use: mounted or part of another array; unmount or stop that first")
            }
            Self::Busy => write!(f, "another Brindle uses it; stop that server or command first"),
            Self::BacksLoop(device) => {
                write!(f, "it backs {0}; name {0} as the member, or detach it first", device.display())
            }
            Self::NotGivenFor(what) => {
                write!(f, "its descriptor does not allow {what}; open it for reading and writing")
            }
            Self::PartIsRead => write!(
                f,
                "a member inside a partitioned disk or image is only read, as with serve --read-only: to change it, name a block device \
                 of the partition (`losetup --partscan` makes them of an image)"
            ),
            Self::NoSuchPart { part, size } => write!(
                f,
                "there is no part from byte {} to {} in its {size} bytes; a part is whole sectors of 512 bytes",
                part.start, part.end
            ),
            Self::Failed(why) => write!(f, "can't open it: {why}"),
        }
    }
}

impl DeviceError {
    pub(super) fn new(path: &Path, kind: DeviceErrorKind) -> Self {
        Self { path: path.to_path_buf(), kind, source: None }
    }

    pub(crate) fn from_errno(path: &Path, errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        let kind = match errno {
            Errno::NOENT => DeviceErrorKind::Missing,
            Errno::ACCESS | Errno::PERM => DeviceErrorKind::Permission,
            Errno::ROFS => DeviceErrorKind::ReadOnly,
            Errno::BUSY | Errno::TXTBSY => DeviceErrorKind::InUse,
            other => DeviceErrorKind::Failed(io::Error::from(other).to_string()),
        };
        Self { path: path.to_path_buf(), kind, source: Some(errno.into()) }
    }
}
