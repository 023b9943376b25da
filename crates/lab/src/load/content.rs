//! The content of written blocks, and its verification, as fio has them.

use super::checksum;
use super::header::{Header, OLD};
use super::random::{Chance, mix};
use crate::job::{Job, Pattern, Shape, Verify};

/// Told apart from other uses of a seed.
const CONTENT: u64 = 0x7966_566c_646e_7262;

/// The content of a job's written blocks.
#[derive(Clone, Debug)]
pub struct BlockContent {
    verify: Option<Verify>,
    /// The rest of a verified block, if not noise.
    verify_pattern: Option<Pattern>,
    /// Bytes from one header to the next.
    interval: u64,
    /// Bytes before a header.
    header_at: usize,
    pattern: Option<Vec<u8>>,
    /// The job and pass that write.
    writer: u64,
    shape: Shape,
}

/// A block that was read differs from the one that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// There is no header, or another block's.
    #[error(
        "its content was not written there by a verifying job with blocks of this size (verify_interval, else the smallest bs of writes)"
    )]
    Foreign,
    /// The block was written by an earlier pass: the last one is lost.
    #[error("an earlier content stands there: the last write is lost")]
    Stale,
    /// Bytes of the block have changed.
    #[error("bytes have changed since they were written")]
    Changed,
}

impl BlockContent {
    /// The content of a pass of a job.
    pub fn new(job: &Job, seed: u64, pass: u64) -> Self {
        Self {
            verify: job.verify,
            verify_pattern: job.verify_pattern.clone(),
            interval: job.verify_interval(),
            header_at: job.verify_offset as usize,
            pattern: job.buffer_pattern.clone(),
            writer: mix(seed ^ mix(pass ^ CONTENT)),
            shape: job.shape,
        }
    }

    /// Fills the memory of a write at `offset`: the same for the same pass and place.
    pub fn fill(&self, offset: u64, into: &mut [u8]) {
        let Some(kind) = self.verify else { return self.body(offset, into) };
        let patterned = self.verify_pattern.as_ref();
        if let Some(pattern) = patterned {
            repeat(&pattern.at(offset), into);
        }
        let interval = self.interval_of(into.len());
        for (block, at) in into.chunks_mut(interval).zip((offset..).step_by(interval)) {
            if patterned.is_none() {
                self.noisy(at, block);
            }
            if kind.has_header() {
                self.head(kind, at, block);
            }
        }
    }

    /// Whether every request has the same bytes, cut to its length: memory that holds them need not be filled again.
    pub fn is_everywhere_the_same(&self) -> bool {
        self.verify.is_none() && self.pattern.is_some() && self.shape.compress == 0
    }

    /// Bytes from one header to the next in a request of this length.
    fn interval_of(&self, len: usize) -> usize {
        usize::try_from(self.interval)
            .ok()
            .filter(|interval| (1..=len).contains(interval))
            .unwrap_or(len.max(1))
    }

    /// A pattern alone, or noise, of which as much as is asked for is not.
    fn body(&self, offset: u64, into: &mut [u8]) {
        if let (Some(pattern), 0) = (&self.pattern, self.shape.compress) {
            return repeat(pattern, into);
        }
        self.noisy(offset, into);
    }

    fn noisy(&self, offset: u64, into: &mut [u8]) {
        let Shape { compress, piece, dedupe } = self.shape;
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

    /// A header and the checksum of the rest: at the beginning, or in place of what `verify_offset` says.
    fn head(&self, kind: Verify, offset: u64, block: &mut [u8]) {
        let len = block.len() as u64;
        let data_at = OLD + kind.sum_len();
        let (Some(data), seed) = (block.get(data_at..), mix(self.writer ^ offset)) else { return };
        let (sum, sum_len) = checksum::sum(kind, data, false);
        block[OLD..data_at].copy_from_slice(&sum[..sum_len]);
        if let Some(head) = block.first_chunk_mut() {
            Header { size: OLD, len, seed, offset }.write(kind, head);
        }
        swap(block, self.header_at, data_at);
    }

    /// Looks at what was read at `offset`. With `own`, this pass must have written it.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub fn check(&self, offset: u64, bytes: &[u8], own: bool) -> Result<(), Mismatch> {
        let Some(kind) = self.verify.filter(|kind| *kind != Verify::Nothing) else { return Ok(()) };
        let interval = self.interval_of(bytes.len());
        let pattern =
            self.verify_pattern.as_ref().filter(|_| kind.has_pattern()).map(|pattern| pattern.at(offset));
        for (block, from) in bytes.chunks(interval).zip((0..).step_by(interval)) {
            let mut turned = Vec::new();
            let mut block = block;
            if self.header_at > 0 && kind.has_header() {
                turned.extend_from_slice(block);
                swap(&mut turned, self.header_at, OLD + kind.sum_len());
                block = &turned;
            }
            let data = if kind.has_header() {
                self.check_head(kind, offset + from as u64, block, own)?
            } else {
                block
            };
            let begin = from + block.len() - data.len();
            if pattern.as_ref().is_some_and(|pattern| !goes_on(pattern, begin, data)) {
                return Err(Mismatch::Changed);
            }
        }
        Ok(())
    }

    /// The data of a block whose header and checksum are right.
    fn check_head<'a>(
        &self,
        kind: Verify,
        offset: u64,
        block: &'a [u8],
        own: bool,
    ) -> Result<&'a [u8], Mismatch> {
        let head = Header::read(block).ok_or(Mismatch::Foreign)?;
        if head.offset != offset || head.len != block.len() as u64 {
            return Err(Mismatch::Foreign);
        }
        let (said, data) = block[head.size..].split_at_checked(kind.sum_len()).ok_or(Mismatch::Foreign)?;
        let same = |newer: bool| {
            let (sum, len) = checksum::sum(kind, data, newer);
            *said == sum[..len]
        };
        // fio 3.39 and 3.40 end their SHA-512, under a header as before.
        let is_whole = same(head.is_newer()) || kind == Verify::Sha512 && same(true);
        if !is_whole {
            return Err(Mismatch::Changed);
        }
        if own && head.seed != mix(self.writer ^ offset) { Err(Mismatch::Stale) } else { Ok(data) }
    }
}

/// Whether `bytes` are the pattern from its byte `from` on, over and over.
fn goes_on(pattern: &[u8], from: usize, bytes: &[u8]) -> bool {
    let (first, rest) =
        bytes.split_at(bytes.len().min((pattern.len() - from % pattern.len()) % pattern.len()));
    pattern[from % pattern.len()..].starts_with(first)
        && rest.chunks(pattern.len()).all(|part| pattern.starts_with(part))
}

/// Exchanges the first `len` bytes with as many from `at` on, as fio does.
fn swap(block: &mut [u8], at: usize, len: usize) {
    if at == 0 || block.len() < at + len {
        return;
    }
    let first = block[..len].to_vec();
    block.copy_within(at..at + len, 0);
    block[at..at + len].copy_from_slice(&first);
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
    use crate::job::Blocks;

    fn made(job: &Job, seed: u64, pass: u64) -> BlockContent {
        BlockContent::new(job, seed, pass)
    }

    fn filled(content: &BlockContent, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        content.fill(offset, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_found(
            seed: u64, offset in 0u64..1 << 40, blocks in 1usize..4, interval in 400usize..600,
            at: prop::sample::Index, flip in 1u8.., kind in 0..Verify::NAMES.len(), patterned: bool, moved: bool,
        ) {
            let (_, verify) = Verify::NAMES[kind];
            let pattern = Pattern::new(vec![1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0], vec![3]);
            let job = Job {
                verify: Some(verify),
                verify_pattern: (patterned || verify.needs_pattern()).then_some(pattern),
                verify_interval: interval as u64,
                verify_offset: if moved { 200 } else { 0 },
                blocks: core::array::from_fn(|_| Blocks::One((blocks * interval) as u64)),
                ..Job::default()
            };
            let content = BlockContent::new(&job, seed, 1);
            let mut bytes = filled(&content, offset, blocks * interval);
            prop_assert_eq!(content.check(offset, &bytes, true), Ok(()));
            bytes[at.index(blocks * interval)] ^= flip;
            // Headers alone say nothing of the data, and fio's SHA-512 little.
            let covers = verify.sum_len() > 0 && verify != Verify::Sha512 || verify.has_pattern() && job.verify_pattern.is_some();
            // The generator of CRC-7, x^7 + x^3 + 1, divides itself: CRC-7 alone misses this one change of a byte.
            let divisible = verify == Verify::Crc7 && flip == 0x89;
            if covers && !divisible {
                // fio's CRC-16 finds each change of one byte; of SHA-256 the lowest bytes of eight words are kept.
                prop_assert!(content.check(offset, &bytes, true).is_err());
            }
        }
    }

    #[test]
    fn lost_and_misdirected_writes_are_told_apart() {
        let of = |pass| made(&Job { verify: Some(Verify::Crc32c), ..Job::default() }, 7, pass);
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
            let content = made(&Job { shape, ..Job::default() }, 3, 0);
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
                let job = Job { buffer_pattern: Some(pattern.to_vec()), ..Job::default() };
                let content = made(&job, 1, 0);
                let wanted: Vec<u8> = pattern.iter().copied().cycle().take(len).collect();
                assert!(content.is_everywhere_the_same());
                for offset in [0, 5 * 4096] {
                    assert_eq!(filled(&content, offset, len), wanted);
                }
            }
        }
    }

    #[test]
    fn content_is_as_asked() {
        let pattern = made(&Job { buffer_pattern: Some(vec![0xab, 0xcd]), ..Job::default() }, 1, 0);
        assert_eq!(filled(&pattern, 0, 5), [0xab, 0xcd, 0xab, 0xcd, 0xab]);
        let noise = |seed, offset| filled(&made(&Job::default(), seed, 0), offset, 64);
        assert_eq!(noise(1, 0), noise(1, 0));
        assert_ne!(noise(1, 0), noise(2, 0));
        assert_ne!(noise(1, 0), noise(1, 4096));
    }
}
