//! Which partition covers a part of a device. Input: size of the device (8 bytes, then 1 to shift it by), its logical sector (1: 4096 if
//! odd), start of the part and its length (8 each), then patches on zeroes: place (1: from the start, from the end, or at that many
//! sectors), offset (4), length (1), bytes.

use brindle_format::signature::Sample;
use brindle_format::signature::partitions::{Covering, PAGE, covering};

use crate::feed::Feed;

/// Pages that may be asked for: entries of two headers in each of three sizes of sectors, the sectors of a chain, and the headers.
const MOST_PAGES: usize = 800;

/// Asks about a device that holds zeroes and patches, page by page.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let size = feed.u64() >> (feed.u8() % 64);
    let sector = if feed.u8() & 1 == 0 { 512 } else { 4096 };
    let start = feed.u64();
    let range = start..start.saturating_add(feed.u64());
    let mut patches = Vec::new();
    while !feed.is_empty() {
        let (place, offset, len) = (feed.u8(), u64::from(feed.u32()), usize::from(feed.u8()));
        let at = match place % 3 {
            0 => offset,
            1 => size.saturating_sub(offset),
            _ => offset.saturating_mul(512),
        };
        patches.push((at, feed.bytes(len)));
    }
    let mut pages: Vec<(u64, Vec<u8>)> = Vec::new();
    loop {
        let known: Vec<Sample<'_>> =
            pages.iter().map(|(offset, bytes)| Sample { offset: *offset, bytes }).collect();
        match covering(size, sector, range.clone(), &known) {
            Covering::Unread { offset, len } => {
                assert!(
                    offset.is_multiple_of(PAGE as u64)
                        && (1..=PAGE).contains(&len)
                        && offset + len as u64 <= size
                );
                assert!(pages.iter().all(|(known, _)| *known != offset), "asked for again");
                assert!(pages.len() < MOST_PAGES);
                pages.push((offset, page(offset, len, &patches)));
            }
            Covering::Nothing => break,
            Covering::Partition(one) => {
                assert!(0 < one.start && one.start < one.end && one.end <= size, "{one:?}");
                assert!(one.start <= range.start && range.end <= one.end, "{one:?}");
                break;
            }
        }
    }
}

fn page(offset: u64, len: usize, patches: &[(u64, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (at, patch) in patches {
        for (byte, at) in patch.iter().zip(*at..) {
            if let Some(to) = at.checked_sub(offset).and_then(|at| bytes.get_mut(usize::try_from(at).ok()?)) {
                *to = *byte;
            }
        }
    }
    bytes
}
