//! Limits of EXTENDED COPY, and the page of vital product data that has them (SPC-4).

use super::cdb::op;

/// Targets, segments, and bytes of a list, at most.
pub(super) const MOST_TARGETS: usize = 8;
pub(super) const MOST_SEGMENTS: usize = 16;
pub(super) const MOST_BYTES: usize = MOST_TARGETS * TARGET + MOST_SEGMENTS * LONG_SEGMENT;
/// Bytes of a target descriptor in a list, and of a segment descriptor that counts bytes.
pub(super) const TARGET: usize = 32;
pub(super) const LONG_SEGMENT: usize = 32;
/// Types of segments and targets.
pub(super) const BLOCKS: u8 = 0x02;
pub(super) const BYTES: u8 = 0x0a;
pub(super) const IDENTIFIED: u8 = 0xe4;

/// The body of the third party copy page of vital product data: which commands there are, and which limits.
pub(super) fn third_party() -> Vec<u8> {
    let descriptor = |kind: u16, mut body: Vec<u8>| {
        body.resize(body.len().next_multiple_of(4), 0);
        [&kind.to_be_bytes()[..], &(body.len() as u16).to_be_bytes(), &body].concat()
    };
    let commands = vec![8, op::EXTENDED_COPY, 1, 0x00, op::COPY_RESULTS, 3, 0x00, 0x03, 0x04];
    let mut parameters = vec![0; 28];
    parameters[4..6].copy_from_slice(&(MOST_TARGETS as u16).to_be_bytes());
    parameters[6..8].copy_from_slice(&(MOST_SEGMENTS as u16).to_be_bytes());
    parameters[8..12].copy_from_slice(&(MOST_BYTES as u32).to_be_bytes());
    let supported = vec![3, BLOCKS, BYTES, IDENTIFIED];
    let general = [&[0, 0, 0, 1][..], &[0; 28]].concat();
    [
        descriptor(0x0001, commands),
        descriptor(0x0004, parameters),
        descriptor(0x0008, supported),
        descriptor(0x8001, general),
    ]
    .concat()
}
