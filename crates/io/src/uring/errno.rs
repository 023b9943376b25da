//! The kernel's answers in this crate's words. The only place that knows error numbers.

use crate::op::{OpError, OpKind};

/// What an error number means for an operation.
#[cold]
pub(super) fn error(kind: OpKind, errno: i32) -> OpError {
    match errno {
        libc::ECANCELED => return OpError::Cancelled,
        libc::EOPNOTSUPP | libc::ENOSYS => return OpError::Unsupported,
        _ => {}
    }
    match kind {
        OpKind::Accept { .. } | OpKind::Recv { .. } | OpKind::Send { .. } => match errno {
            // A connection ends in many ways that are all one to the server. What is left is lack of something.
            libc::ENOMEM | libc::ENOBUFS | libc::EMFILE | libc::ENFILE => OpError::Medium(errno),
            _ => OpError::Disconnected,
        },
        // What a device or file system can't do with a range it also calls invalid.
        OpKind::Discard { .. } | OpKind::WriteZeroes { .. } if errno == libc::EINVAL => OpError::Unsupported,
        _ => match errno {
            libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN | libc::ENOTCONN => OpError::Gone,
            libc::ENOSPC | libc::EDQUOT => OpError::NoSpace,
            libc::EFBIG => OpError::OutOfRange,
            _ => OpError::Medium(errno),
        },
    }
}

/// The bytes that a successful operation on a member moved; fallocate and fsync answer 0.
#[inline]
pub(super) fn moved(kind: OpKind, value: u32) -> u64 {
    match kind {
        OpKind::Discard { len, .. } | OpKind::WriteZeroes { len, .. } => len,
        _ => u64::from(value),
    }
}

/// Whether the kernel only asks for another try.
#[inline]
pub(super) fn is_transient(kind: OpKind, errno: i32) -> bool {
    match errno {
        libc::EINTR | libc::EAGAIN => true,
        // The client went away before it was accepted; the listener is well.
        libc::ECONNABORTED => matches!(kind, OpKind::Accept { .. }),
        _ => false,
    }
}
