//! The kernel's answers in this crate's words. The only place that knows error numbers.

use crate::op::{OpError, OpKind};

/// The meaning of an error number for an operation.
#[cold]
pub(crate) fn error(kind: OpKind, errno: i32) -> OpError {
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
        // Devices and file systems also answer EINVAL to ranges for which they do not support the operation.
        OpKind::Discard { .. } | OpKind::WriteZeroes { .. } if errno == libc::EINVAL => OpError::Unsupported,
        _ => match errno {
            libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN | libc::ENOTCONN => OpError::Gone,
            // EFBIG: no range beyond the known size is sent, so it is a limit that was reached, not the member's end.
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => OpError::NoSpace,
            _ => OpError::Medium(errno),
        },
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
