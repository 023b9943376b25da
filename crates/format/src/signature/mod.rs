//! The content of a device, recognised by its first and last bytes.
//!
//! Before a device becomes a member it must be known to be free: this module names file systems, partition tables,
//! volume managers and other RAID. It only recognises; it trusts nothing that it reads beyond labels for messages.
//! The places and magic numbers are those that each format documents (and that `blkid` of util-linux looks for).

mod copies;
mod magic;
pub mod partitions;
mod probe;
mod sample;
mod zfs;

use core::fmt;

pub use crate::kind::Signature;
pub use copies::{Copy, copies};
pub use sample::{Sample, needed};

use sample::Samples;

/// A signature and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The kind of signature.
    pub signature: Signature,
    /// Byte of the device at which its magic number stands.
    pub offset: u64,
    /// Label, if the format has one and it is set.
    pub label: Option<String>,
    /// UUID or serial number as the format's own tools write it, if it has one.
    pub uuid: Option<String>,
}

/// A signature without label and UUID.
fn bare(signature: Signature, offset: u64) -> Found {
    Found { signature, offset, label: None, uuid: None }
}

/// `ext2/3/4 file system "data" at byte 1080`.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.signature.name())?;
        if let Some(label) = &self.label {
            write!(f, " {label:?}")?;
        }
        write!(f, " at byte {}", self.offset)
    }
}

/// Names everything that stands on a device of `device_bytes`, of which `samples` holds at least what [`needed`] asks
/// for; bytes that are missing are taken as holding nothing. Ordered by place.
pub fn detect(device_bytes: u64, samples: &[Sample<'_>]) -> Vec<Found> {
    let device = Samples { bytes: device_bytes, samples };
    let mut found = magic::find(&device);
    found.extend(probe::find(&device));
    found.sort_by_key(|f| f.offset);
    found.dedup_by_key(|f| (f.signature, f.offset));
    found
}
