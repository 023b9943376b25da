//! fio's verify headers: what stands before each block that a job wrote to be verified (`verify.h` and `verify.c` of fio).
//!
//! | bytes | 3.33 to 3.40 | newer |
//! |---|---|---|
//! | 0 | magic `0xacca` | the same |
//! | 2 | kind, 16 bits | version `0x81`, then kind, 8 bits |
//! | 4, 8, 16 | bytes of the block, seed, offset | the same |
//! | 24, 28 | seconds, nanoseconds | the same |
//! | 32 | thread, number: 16 bits each | number, 64 bits |
//! | 36 | CRC-32C of the bytes before | thread |
//! | 44 | | CRC-32C of the bytes before |
//!
//! Both are read. The older one is written, which every fio that distributions have reads.

use super::checksum::crc32c;
use crate::job::Verify;

const MAGIC: u16 = 0xacca;
const VERSION: u8 = 0x81;
/// Bytes of a header, without its checksum.
pub(super) const OLD: usize = 40;
const NEW: usize = 48;

/// A header that is what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of it, without the checksum of the data.
    pub(super) size: usize,
    /// Bytes of the block, with it.
    pub(super) len: u64,
    /// The chance of the block's content.
    pub(super) seed: u64,
    /// The place of the block.
    pub(super) offset: u64,
}

impl Header {
    /// Whether it is one of newer versions of fio.
    pub(super) const fn is_newer(&self) -> bool {
        self.size == NEW
    }

    /// Writes the header of a block of `kind`.
    pub(super) fn write(&self, kind: Verify, into: &mut [u8; OLD]) {
        into.fill(0);
        into[..2].copy_from_slice(&MAGIC.to_le_bytes());
        into[2..4].copy_from_slice(&kind.number().to_le_bytes());
        into[4..8].copy_from_slice(&(self.len as u32).to_le_bytes());
        into[8..16].copy_from_slice(&self.seed.to_le_bytes());
        into[16..24].copy_from_slice(&self.offset.to_le_bytes());
        let crc = crc32c(&into[..OLD - 4]);
        into[OLD - 4..].copy_from_slice(&crc.to_le_bytes());
    }

    /// The header at the beginning of a block, if one is there and whole.
    pub(super) fn read(block: &[u8]) -> Option<Self> {
        let size = if *block.get(2)? == VERSION { NEW } else { OLD };
        let head = block.get(..size)?;
        let word = |at: usize, bytes: usize| {
            head[at..at + bytes].iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte))
        };
        let is_whole =
            word(0, 2) == u64::from(MAGIC) && word(size - 4, 4) == u64::from(crc32c(&head[..size - 4]));
        is_whole.then(|| Self { size, len: word(4, 4), seed: word(8, 8), offset: word(16, 8) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A header as newer fio writes it.
    fn newer(header: &Header, kind: Verify) -> Vec<u8> {
        let mut bytes = vec![0; NEW];
        bytes[..2].copy_from_slice(&MAGIC.to_le_bytes());
        (bytes[2], bytes[3]) = (VERSION, kind.number() as u8);
        bytes[4..8].copy_from_slice(&(header.len as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&header.seed.to_le_bytes());
        bytes[16..24].copy_from_slice(&header.offset.to_le_bytes());
        let crc = crc32c(&bytes[..NEW - 4]);
        bytes[NEW - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn both_kinds_are_read_and_no_byte_may_change(len in 1u64..1 << 25, seed: u64, offset: u64, at in 0usize..OLD, flip in 1u8..) {
            let written = Header { size: OLD, len, seed, offset };
            let mut bytes = [0xff; OLD];
            written.write(Verify::Crc32c, &mut bytes);
            prop_assert_eq!(Header::read(&bytes), Some(written));
            prop_assert_eq!(Header::read(&newer(&written, Verify::Md5)), Some(Header { size: NEW, ..written }));
            bytes[at] ^= flip;
            prop_assert_eq!(Header::read(&bytes), None);
        }
    }
}
