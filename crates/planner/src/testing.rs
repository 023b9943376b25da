//! Drives for tests.

use crate::disk::{Disk, Set};

/// The drive of the published table: 2 TB, 200 requests a second.
pub(crate) fn disk() -> Disk {
    Disk {
        size: 2_000_000_000_000,
        read_iops: 200.0,
        write_iops: 200.0,
        read_rate: None,
        write_rate: None,
        whole_rate: None,
        queued: None,
        price: None,
    }
}

/// A set of this many drives.
pub(crate) fn set(count: u32) -> Set {
    Set { count, disk: disk() }
}
