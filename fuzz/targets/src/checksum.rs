//! Checksums as md keeps them, put right after a mutation: else nothing behind them would ever be reached.
//!
//! Written from the documentation of the formats (`docs/formats`), not from what is being tested.

use brindle_format::md::{Endian, SUPERBLOCK_BYTES, Uuid, Version, journal, ppl};

const SUM_0_90: usize = 152;
const SUM_1: usize = 216;
const MAX_DEV_1: usize = 220;
const HEAD_1: usize = 256;

/// The sum of 32-bit words, its carry added once.
fn fold(words: impl Iterator<Item = u32>) -> u32 {
    let sum: u64 = words.map(u64::from).sum();
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

/// Makes the checksum of a superblock true, as far as there is room for one.
pub(crate) fn superblock(version: Version, block: &mut [u8]) {
    match version {
        Version::V0_90(endian) => superblock_0_90(endian, block),
        _ => superblock_1(block),
    }
}

fn superblock_0_90(endian: Endian, block: &mut [u8]) {
    let Some(block) = block.get_mut(..SUPERBLOCK_BYTES) else { return };
    let swapped = |word: u32| if endian == Endian::Big { word.swap_bytes() } else { word };
    block[SUM_0_90..SUM_0_90 + 4].fill(0);
    let word = |bytes: &[u8]| swapped(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let sum = fold(block.chunks_exact(4).map(word));
    block[SUM_0_90..SUM_0_90 + 4].copy_from_slice(&swapped(sum).to_le_bytes());
}

fn superblock_1(block: &mut [u8]) {
    let Some(max_dev) = block.get(MAX_DEV_1..MAX_DEV_1 + 2) else { return };
    let entries = usize::from(u16::from_le_bytes([max_dev[0], max_dev[1]]));
    let len = (HEAD_1 + 2 * entries).min(block.len());
    block[SUM_1..SUM_1 + 4].fill(0);
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    let sum = fold(block[..len].chunks(4).map(word));
    block[SUM_1..SUM_1 + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Makes signature and checksum of a PPL header true.
pub(crate) fn ppl_header(header: &mut [u8], set_uuid: Uuid) {
    let Some(header) = header.get_mut(..ppl::PPL_HEADER_BYTES) else { return };
    header[512..516].copy_from_slice(&ppl::signature(set_uuid).to_le_bytes());
    header[532..536].fill(0);
    let sum = ppl::parity_checksum(header);
    header[532..536].copy_from_slice(&sum.to_le_bytes());
}

/// Makes magic, version and checksum of a journal's meta block true.
pub(crate) fn journal_block(block: &mut [u8], set_uuid: Uuid) {
    let Some(block) = block.get_mut(..journal::JOURNAL_BLOCK_BYTES) else { return };
    block[..4].copy_from_slice(&journal::JOURNAL_MAGIC.to_le_bytes());
    block[4..8].fill(0);
    block[8] = 1;
    let sum = journal::checksum(set_uuid, block);
    block[4..8].copy_from_slice(&sum.to_le_bytes());
}
