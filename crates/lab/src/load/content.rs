//! The content of written blocks, and its verification.

use super::random::{Chance, mix};
use crate::job::Verify;

/// `brndlVfy`, little-endian.
const MAGIC: u64 = 0x7966_566c_646e_7262;
/// Bytes before the content of a block: magic, offset, what writes it, length, CRC-32C of the rest.
const HEADER: usize = 32;

/// The content of a job's written blocks.
#[derive(Clone, Debug)]
pub struct BlockContent {
    verify: Option<Verify>,
    pattern: Option<Vec<u8>>,
    /// The job and pass that write.
    writer: u64,
}

/// A block that was read differs from the one that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// There is no header, or another block's.
    #[error("what stands there was not written there by a verifying job")]
    Foreign,
    /// The block was written by an earlier pass: the last one is lost.
    #[error("an earlier content stands there: the last write is lost")]
    Stale,
    /// Bytes of it have changed.
    #[error("bytes have changed since they were written")]
    Changed,
}

impl BlockContent {
    /// Content of a pass of a job.
    pub fn new(verify: Option<Verify>, pattern: Option<Vec<u8>>, seed: u64, pass: u64) -> Self {
        Self { verify, pattern, writer: mix(seed ^ mix(pass ^ MAGIC)) }
    }

    /// Fills the memory of a write at `offset`: the same for the same pass and place.
    pub fn fill(&self, offset: u64, into: &mut [u8]) {
        match (&self.verify, &self.pattern) {
            (Some(Verify::Pattern(pattern)), _) | (None, Some(pattern)) => repeat(pattern, into),
            (Some(Verify::Crc32c), pattern) => {
                match pattern {
                    Some(pattern) => repeat(pattern, into),
                    None => noise(self.writer ^ offset, into),
                }
                self.head(offset, into);
            }
            (None, None) => noise(self.writer ^ offset, into),
        }
    }

    fn head(&self, offset: u64, into: &mut [u8]) {
        let Some((head, rest)) = into.split_first_chunk_mut::<HEADER>() else { return };
        let crc = crc32c::crc32c(rest);
        head[..8].copy_from_slice(&MAGIC.to_le_bytes());
        head[8..16].copy_from_slice(&offset.to_le_bytes());
        head[16..24].copy_from_slice(&self.writer.to_le_bytes());
        head[24..28].copy_from_slice(&(rest.len() as u32).to_le_bytes());
        head[28..32].copy_from_slice(&crc.to_le_bytes());
    }

    /// Looks at what was read at `offset`. With `own`, this pass must have written it.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub fn check(&self, offset: u64, bytes: &[u8], own: bool) -> Result<(), Mismatch> {
        match &self.verify {
            None => Ok(()),
            Some(Verify::Pattern(pattern)) => {
                let same = bytes.chunks(pattern.len().max(1)).all(|chunk| pattern.starts_with(chunk));
                if same { Ok(()) } else { Err(Mismatch::Changed) }
            }
            Some(Verify::Crc32c) => self.check_head(offset, bytes, own),
        }
    }

    fn check_head(&self, offset: u64, bytes: &[u8], own: bool) -> Result<(), Mismatch> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER>() else { return Ok(()) };
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|n| head[at + n]));
        let len = (word(24) & u64::from(u32::MAX)) as usize;
        if word(0) != MAGIC || word(8) != offset || len != rest.len() {
            return Err(Mismatch::Foreign);
        }
        if crc32c::crc32c(rest) != (word(24) >> 32) as u32 {
            return Err(Mismatch::Changed);
        }
        if own && word(16) != self.writer { Err(Mismatch::Stale) } else { Ok(()) }
    }
}

fn repeat(pattern: &[u8], into: &mut [u8]) {
    for chunk in into.chunks_mut(pattern.len().max(1)) {
        chunk.copy_from_slice(&pattern[..chunk.len()]);
    }
}

/// Bytes that no device can make smaller.
fn noise(seed: u64, into: &mut [u8]) {
    let mut chance = Chance::new(mix(seed));
    for word in into.chunks_mut(8) {
        word.copy_from_slice(&chance.number().to_le_bytes()[..word.len()]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filled(content: &BlockContent, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        content.fill(offset, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_found(
            seed: u64, offset in 0u64..1 << 40, len in 40usize..600, at: prop::sample::Index, flip in 1u8.., patterned: bool,
        ) {
            let verify = if patterned { Verify::Pattern(vec![1, 2, 3]) } else { Verify::Crc32c };
            let content = BlockContent::new(Some(verify), None, seed, 1);
            let mut bytes = filled(&content, offset, len);
            prop_assert_eq!(content.check(offset, &bytes, true), Ok(()));
            bytes[at.index(len)] ^= flip;
            prop_assert!(content.check(offset, &bytes, true).is_err());
        }
    }

    #[test]
    fn lost_and_misdirected_writes_are_told_apart() {
        let of = |pass| BlockContent::new(Some(Verify::Crc32c), None, 7, pass);
        let bytes = filled(&of(1), 4096, 512);
        assert_eq!(of(1).check(8192, &bytes, true), Err(Mismatch::Foreign));
        assert_eq!(of(2).check(4096, &bytes, true), Err(Mismatch::Stale));
        assert_eq!(of(2).check(4096, &bytes, false), Ok(()), "whoever wrote it");
        assert_eq!(of(1).check(4096, &[0; 512], true), Err(Mismatch::Foreign));
    }

    #[test]
    fn content_is_as_asked() {
        let pattern = BlockContent::new(None, Some(vec![0xab, 0xcd]), 1, 0);
        assert_eq!(filled(&pattern, 0, 5), [0xab, 0xcd, 0xab, 0xcd, 0xab]);
        let noise = |seed, offset| filled(&BlockContent::new(None, None, seed, 0), offset, 64);
        assert_eq!(noise(1, 0), noise(1, 0));
        assert_ne!(noise(1, 0), noise(2, 0));
        assert_ne!(noise(1, 0), noise(1, 4096));
    }
}
