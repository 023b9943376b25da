//! Which partitions a device has, and which covers a part of it. Input: size of the device (8 bytes, then 1 to shift
//! it by), its logical sector (1: 4096 if odd), start of the part and its length (8 each). Then patches on zeroes:
//! place (1: from the start, from the end, or at that many sectors), offset (4), length (1), bytes.

use brindle_format::signature::Sample;
use brindle_format::signature::partitions::{Covering, Listing, PAGE, covering, list};

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
    let covered = known(size, &patches, |pages| match covering(size, sector, range.clone(), pages) {
        Covering::Unread { offset, len } => Err((offset, len)),
        Covering::Nothing => Ok(None),
        Covering::Partition(one) => Ok(Some(one)),
    });
    let listed = known(size, &patches, |pages| match list(size, sector, pages) {
        Listing::Unread { offset, len } => Err((offset, len)),
        Listing::Partitions(all) => Ok(all),
    });
    for one in covered.iter().chain(&listed) {
        assert!(0 < one.start && one.start < one.end && one.end <= size, "{one:?}");
        assert!(one.lacks == 0 || one.end == size, "{one:?}");
    }
    if let Some(one) = covered {
        assert_eq!(one.lacks, 0, "{one:?}");
        assert!(one.start <= range.start && range.end <= one.end, "{one:?}");
        assert!(listed.iter().any(|other| other.number == one.number), "{one:?} is not in {listed:?}");
    }
    assert!(listed.windows(2).all(|two| two[0].number < two[1].number), "{listed:?}");
}

/// The answer once all pages are known that are asked for.
pub(crate) fn known<T>(
    size: u64,
    patches: &[(u64, &[u8])],
    mut ask: impl FnMut(&[Sample<'_>]) -> Result<T, (u64, usize)>,
) -> T {
    let mut pages: Vec<(u64, Vec<u8>)> = Vec::new();
    loop {
        let known: Vec<Sample<'_>> =
            pages.iter().map(|(offset, bytes)| Sample { offset: *offset, bytes }).collect();
        match ask(&known) {
            Ok(reported) => return reported,
            Err((offset, len)) => {
                assert!(offset.is_multiple_of(PAGE as u64) && (1..=PAGE).contains(&len));
                assert!(offset + len as u64 <= size);
                assert!(pages.iter().all(|(known, _)| *known != offset), "asked for again");
                assert!(pages.len() < MOST_PAGES);
                pages.push((offset, page(offset, len, patches)));
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
