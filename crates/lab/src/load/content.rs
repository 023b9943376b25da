//! The content of written blocks, and its verification.

use super::random::{Chance, mix};
use crate::job::{Shape, Verify};

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
    shape: Shape,
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
    /// Bytes of the block have changed.
    #[error("bytes have changed since they were written")]
    Changed,
}

impl BlockContent {
    /// BlockContent of a pass of a job.
    pub fn new(verify: Option<Verify>, pattern: Option<Vec<u8>>, seed: u64, pass: u64) -> Self {
        Self { verify, pattern, writer: mix(seed ^ mix(pass ^ MAGIC)), shape: Shape::default() }
    }

    /// Content that can be compressed by so much.
    #[must_use]
    pub fn shaped(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    /// Fills the memory of a write at `offset`: the same for the same pass and place.
    pub fn fill(&self, offset: u64, into: &mut [u8]) {
        match (&self.verify, &self.pattern) {
            (Some(Verify::Pattern(pattern)), _) => repeat(pattern, into),
            (Some(Verify::Crc32c), _) => {
                self.body(offset, into);
                self.head(offset, into);
            }
            (None, _) => self.body(offset, into),
        }
    }

    /// A pattern alone, or noise, of which as much as is asked for is not.
    fn body(&self, offset: u64, into: &mut [u8]) {
        let Shape { compress, piece, dedupe } = self.shape;
        if let (Some(pattern), 0) = (&self.pattern, compress) {
            return repeat(pattern, into);
        }
        let own = mix(self.writer ^ offset);
        let same = dedupe > 0 && own % 100 < dedupe.into();
        noise(if same { self.writer } else { own }, into);
        if compress == 0 {
            return;
        }
        for piece in into.chunks_mut(piece.max(1)) {
            let from = piece.len() - piece.len() * usize::from(compress.min(100)) / 100;
            repeat(self.pattern.as_deref().unwrap_or(&[0]), &mut piece[from..]);
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
    if let [byte] = pattern {
        return into.fill(*byte);
    }
    let mut there = pattern.len().min(into.len());
    into[..there].copy_from_slice(&pattern[..there]);
    // Whole patterns stand there: twice as many each time.
    while there > 0 && there < into.len() {
        let (done, open) = into.split_at_mut(there);
        let more = done.len().min(open.len());
        open[..more].copy_from_slice(&done[..more]);
        there += more;
    }
}

/// Generators that run side by side, as wide registers have it.
const LANES: usize = 8;

/// Bytes that no device can make smaller.
fn noise(seed: u64, into: &mut [u8]) {
    let mut chance = Chance::new(mix(seed));
    // Marsaglia's xorshift (2003), of states that are not 0.
    let mut lanes: [u64; LANES] = core::array::from_fn(|_| chance.number() | 1);
    let mut next = || {
        for lane in &mut lanes {
            *lane ^= *lane << 13;
            *lane ^= *lane >> 7;
            *lane ^= *lane << 17;
        }
        lanes
    };
    let (whole, rest) = into.as_chunks_mut::<{ 8 * LANES }>();
    for chunk in whole {
        for (word, lane) in chunk.chunks_exact_mut(8).zip(next()) {
            word.copy_from_slice(&lane.to_le_bytes());
        }
    }
    for (word, lane) in rest.chunks_mut(8).zip(next()) {
        word.copy_from_slice(&lane.to_le_bytes()[..word.len()]);
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

    /// How many blocks of this size have a content that no other has.
    fn blocks_that_differ(bytes: &[u8], block: usize) -> usize {
        bytes.chunks(block).collect::<std::collections::HashSet<_>>().len()
    }

    #[test]
    fn no_block_comes_twice_unless_it_is_asked_for() {
        const REQUEST: usize = 1 << 16;
        let written = |shape: Shape| {
            let content = BlockContent::new(None, None, 3, 0).shaped(shape);
            (0..512u64).flat_map(|at| filled(&content, at * REQUEST as u64, REQUEST)).collect::<Vec<u8>>()
        };
        let plain = written(Shape::default());
        assert_eq!(blocks_that_differ(&plain, 4096), plain.len() / 4096);
        // Each byte value comes as often as the next one, and so does each of two neighbours.
        let mut counts = vec![0u32; 1 << 16];
        plain.windows(2).for_each(|two| counts[usize::from(two[0]) << 8 | usize::from(two[1])] += 1);
        let expected = plain.len() as f64 / 65_536.0;
        let chi = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum::<f64>();
        assert!((chi - 65_535.0).abs() < 6.0 * (2.0f64 * 65_535.0).sqrt(), "{chi}");
        let twice = written(Shape { dedupe: 50, ..Shape::default() });
        let own = blocks_that_differ(&twice, REQUEST);
        assert!((200..312).contains(&own), "{own} of 512 requests have a content of their own");
        let small = written(Shape { compress: 75, ..Shape::default() });
        let zeroes = small.iter().filter(|byte| **byte == 0).count() as f64 / small.len() as f64;
        assert!((0.745..0.756).contains(&zeroes), "{zeroes}");
        assert!(small.chunks(512).all(|piece| piece[128..] == [0; 384] && piece[..128] != [0; 128]));
    }

    #[test]
    fn patterns_stand_one_after_the_other_to_the_last_byte() {
        for len in [0, 1, 2, 3, 7, 64, 4099] {
            for pattern in [&[7][..], &[1, 2, 3], &[9; 100]] {
                let content = BlockContent::new(None, Some(pattern.to_vec()), 1, 0);
                let wanted: Vec<u8> = pattern.iter().copied().cycle().take(len).collect();
                assert_eq!(filled(&content, 0, len), wanted);
            }
        }
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
