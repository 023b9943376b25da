//! Metadata beside superblocks. Input: kind (1 byte), UUID of the array (16), the bytes.

use brindle_format::SECTOR;
use brindle_format::md::badblocks::{self, BadRange, MAX_LENGTH};
use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapSuper};
use brindle_format::md::journal::{JOURNAL_BLOCK_BYTES, MetaBlock, Payload};
use brindle_format::md::ppl::{PPL_HEADER_BYTES, PPL_MAX_ENTRIES, PplHeader};
use brindle_format::md::{SUPERBLOCK_BYTES, Uuid, bitmap};

use crate::checksum;
use crate::feed::Feed;

/// Bytes of a bitmap superblock that mean something; the rest is padding, which is written as zeroes.
const BITMAP_USED: usize = 136;

/// Parses the bytes as they are and, where there is a checksum, with a true one.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let kind = feed.u8();
    let uuid = Uuid::from_bytes(feed.array());
    match kind % 4 {
        0 => write_intent_bitmap(feed.0),
        1 => bad_blocks(feed.u8(), feed.0),
        2 => {
            ppl_header(feed.0, uuid);
            let mut header = filled::<PPL_HEADER_BYTES>(feed.0);
            checksum::ppl_header(&mut header, uuid);
            ppl_header(&header, uuid);
        }
        _ => {
            journal_block(feed.0, uuid);
            let mut block = filled::<JOURNAL_BLOCK_BYTES>(feed.0);
            checksum::journal_block(&mut block, uuid);
            journal_block(&block, uuid);
        }
    }
}

fn filled<const N: usize>(bytes: &[u8]) -> [u8; N] {
    Feed(bytes).array()
}

fn write_intent_bitmap(bytes: &[u8]) {
    let Ok(sb) = BitmapSuper::parse(bytes) else { return };
    let out = sb.encode().expect("what was read can be written");
    assert_eq!(out[..BITMAP_USED], bytes[..BITMAP_USED]);
    assert_eq!(BitmapSuper::parse(&out).as_ref(), Ok(&sb));
    assert!(sb.chunk.is_power_of_two() && sb.bits() <= sb.sync_bytes.div_ceil(SECTOR));
    let bytes = bitmap::bytes_needed(sb.sync_bytes, sb.chunk).expect("a bitmap that is read has a size");
    assert!(bytes >= BITMAP_SUPER_BYTES as u64 && (bytes - BITMAP_SUPER_BYTES as u64) * 8 >= sb.bits());
}

fn bad_blocks(shift: u8, log: &[u8]) {
    let found: Vec<BadRange> = badblocks::ranges(log, shift).collect();
    assert!(found.len() <= log.len() / 8 && found.iter().all(|range| range.len > 0));
    assert_eq!(badblocks::is_empty(log), badblocks::ranges(log, 0).next().is_none());
    let mut again = [0; SUPERBLOCK_BYTES];
    if !badblocks::write(&mut again, &found) {
        assert!(badblocks::is_empty(&again), "what does not fit is not written in part");
        return;
    }
    let pieces: Vec<BadRange> = found.iter().flat_map(|range| pieces(*range)).collect();
    assert_eq!(badblocks::ranges(&again, 0).collect::<Vec<_>>(), pieces);
}

/// A range cut into the longest that an entry takes.
fn pieces(range: BadRange) -> impl Iterator<Item = BadRange> {
    let most = MAX_LENGTH * SECTOR;
    let cut = move |at: u64| BadRange { offset: range.offset + at, len: most.min(range.len - at) };
    (0..range.len.div_ceil(most)).map(move |n| cut(n * most))
}

fn ppl_header(bytes: &[u8], uuid: Uuid) {
    let Ok(header) = PplHeader::parse(bytes, uuid) else { return };
    assert!(header.entries.len() <= PPL_MAX_ENTRIES);
    let out = header.encode().expect("what was read can be written");
    assert_eq!(PplHeader::parse(&out, uuid).as_ref(), Ok(&header));
}

fn journal_block(bytes: &[u8], uuid: Uuid) {
    let Ok(block) = MetaBlock::parse(bytes, uuid) else { return };
    let held: usize = block.payloads.iter().map(held).sum();
    assert!(held <= JOURNAL_BLOCK_BYTES, "{held} bytes from a block");
    let out = block.encode(uuid).expect("what was read can be written");
    assert_eq!(MetaBlock::parse(&out, uuid).as_ref(), Ok(&block));
}

/// Bytes of the block that a payload comes from.
fn held(payload: &Payload) -> usize {
    match payload {
        Payload::Data { checksums, .. } | Payload::Parity { checksums, .. } => 16 + 4 * checksums.len(),
        Payload::Flush { stripes, .. } => 8 + 8 * stripes.len(),
    }
}
