//! Superblocks read from bytes and written to them, by version.

use super::superblock::Sum;
use super::{EncodeError, SUPERBLOCK_BYTES, Superblock, SuperblockError, Version, v0, v1};

impl Superblock {
    /// Reads a superblock of `version` from the bytes that stand at its place on a device of `device_bytes`.
    ///
    /// `bytes` should be [`Version::superblock_bytes`] long.
    ///
    /// # Errors
    ///
    /// [`SuperblockError::NoMagic`] if there is none; any other kind if there is one that cannot be trusted, in version
    /// 0.90 neither [`SuperblockError::Misplaced`] nor [`SuperblockError::Overlap`]. Feature bits that are not known are no
    /// error here: see [`Features::unknown`](super::Features::unknown).
    pub fn parse(version: Version, bytes: &[u8], device_bytes: u64) -> Result<Self, SuperblockError> {
        Self::parse_with(version, bytes, device_bytes, Sum::Checked)
    }

    pub(super) fn parse_with(
        version: Version,
        bytes: &[u8],
        device_bytes: u64,
        sum: Sum,
    ) -> Result<Self, SuperblockError> {
        match version {
            Version::V0_90(endian) => v0::parse(endian, bytes, device_bytes, sum),
            _ => v1::parse(version, bytes, device_bytes, sum),
        }
    }

    /// Writes the superblock with its checksum into the first [`Version::superblock_bytes`] of `out`.
    ///
    /// # Errors
    ///
    /// `out` is then unchanged. [`EncodeError::Buffer`] if it is too short; any other kind if the version cannot record a
    /// value.
    pub fn encode(&self, out: &mut [u8]) -> Result<(), EncodeError> {
        let have = out.len();
        let out = out
            .first_chunk_mut::<SUPERBLOCK_BYTES>()
            .ok_or(EncodeError::Buffer { have, need: SUPERBLOCK_BYTES })?;
        *out = match self.version {
            Version::V0_90(endian) => v0::encode(self, endian)?,
            _ => v1::encode(self)?,
        };
        Ok(())
    }
}
