//! The content of a device. Input: size of the device (8 bytes, then 1 to shift it by), bytes that are missing from
//! each window (2). Then patches on zeroes: place (1: which window, from its start or its end), offset (4), length
//! (1), bytes.

use brindle_format::alignment;
use brindle_format::md::{SUPERBLOCK_BYTES, Version};
use brindle_format::signature::{self, Sample};

use crate::checksum;
use crate::feed::Feed;

/// Looks at a device that holds zeroes and patches.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let size = feed.u64() >> (feed.u8() % 64);
    let cut = usize::from(feed.u16());
    let mut windows: Vec<(u64, Vec<u8>)> =
        signature::needed(size).into_iter().map(|(offset, len)| (offset, vec![0; len])).collect();
    wanted_ranges_fit(size, &windows);
    while !feed.is_empty() {
        patch(&mut feed, &mut windows);
    }
    for version in Version::ALL {
        true_checksum(version, size, &mut windows);
    }
    for (_, bytes) in &mut windows {
        bytes.truncate(bytes.len().saturating_sub(cut));
    }
    for (_, bytes) in &windows {
        lies_within(bytes);
    }
    let windows: Vec<Sample<'_>> =
        windows.iter().map(|(offset, bytes)| Sample { offset: *offset, bytes }).collect();
    let found = signature::detect(size, &windows);
    assert!(found.iter().all(|found| found.offset < size), "a signature beyond the device: {found:?}");
    assert!(found.is_sorted_by_key(|found| found.offset) && found.len() < 100);
    // The longest label is UTF-16 of 512 units, and each unit takes at most three bytes as text.
    let long = |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() > 3 * 512);
    assert!(!found.iter().any(|found| long(&found.label) || long(&found.uuid)));
}

/// Each window is taken for the start of a volume, too.
fn lies_within(head: &[u8]) {
    if let Some(reported) = alignment::striping(head) {
        assert!(
            reported.block.is_power_of_two() && reported.unit.is_multiple_of(reported.block),
            "{reported:?}"
        );
    }
    for sector in [512, 4096] {
        assert!(alignment::partitions(head, sector).len() <= 128);
    }
}

fn wanted_ranges_fit(size: u64, windows: &[(u64, Vec<u8>)]) {
    let mut end = 0;
    for (offset, bytes) in windows {
        assert!(*offset >= end && !bytes.is_empty() && bytes.len() <= 2 << 20);
        end = offset + bytes.len() as u64;
    }
    assert!(end <= size);
}

fn patch(feed: &mut Feed<'_>, windows: &mut [(u64, Vec<u8>)]) {
    let place = feed.u8();
    let offset = (feed.u32() & 0xff_ffff) as usize;
    let len = usize::from(feed.u8());
    let from = feed.bytes(len);
    let Some((_, bytes)) = windows.get_mut(usize::from(place & 3)) else { return };
    let at = if place & 4 == 0 { offset } else { bytes.len().saturating_sub(offset) };
    let end = (at + from.len()).min(bytes.len());
    if let Some(to) = bytes.get_mut(at..end) {
        to.copy_from_slice(&from[..to.len()]);
    }
}

fn true_checksum(version: Version, size: u64, windows: &mut [(u64, Vec<u8>)]) {
    let Some(offset) = version.superblock_offset(size) else { return };
    for (start, bytes) in windows {
        let Some(at) = offset.checked_sub(*start).map(|at| at as usize) else { continue };
        if let Some(block) = bytes.get_mut(at..at.saturating_add(SUPERBLOCK_BYTES))
            && (block.starts_with(&0xa92b_4efc_u32.to_le_bytes())
                || block.starts_with(&0xa92b_4efc_u32.to_be_bytes()))
        {
            checksum::superblock(version, block);
        }
    }
}
