//! A running digest of everything that happened, and when: two runs with one digest were the same to the byte.

use crate::op::{OpKind, Segment};

/// Words mixed as they come. Not made to withstand anybody who looks for two runs with one digest.
pub(super) struct Trace {
    pub(super) digest: u64,
    pub(super) events: u64,
}

impl Trace {
    pub(super) fn new() -> Self {
        Self { digest: 0xcbf2_9ce4_8422_2325, events: 0 }
    }

    pub(super) fn note(&mut self, words: &[u64]) {
        self.events += 1;
        self.digest = words.iter().fold(self.digest, |digest, &word| step(digest, word));
    }
}

fn step(digest: u64, word: u64) -> u64 {
    (digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

/// A digest of the bytes that an operation sends or writes.
pub(super) fn bytes_of(segments: &[Segment]) -> u64 {
    let mut digest = 0;
    for segment in segments {
        // SAFETY: the op table keeps the segment valid and unchanged until the completion.
        let bytes = unsafe { core::slice::from_raw_parts(segment.base, segment.len) };
        let words = bytes.chunks_exact(32);
        let last = words.remainder();
        // Four at a time do not wait for one another.
        let mut lanes = [digest, 1, 2, 3];
        for four in words {
            for (lane, word) in lanes.iter_mut().zip(four.as_chunks::<8>().0) {
                *lane = step(*lane, u64::from_le_bytes(*word));
            }
        }
        digest = lanes.into_iter().chain(last.iter().map(|&byte| u64::from(byte))).fold(digest, step);
    }
    digest
}

/// An operation as numbers.
pub(super) fn words(kind: OpKind) -> [u64; 4] {
    match kind {
        OpKind::Read { member, offset } => [1, member.place() as u64, offset, 0],
        OpKind::Write { member, offset, fua } => [2, member.place() as u64, offset, u64::from(fua)],
        OpKind::Flush { member } => [3, member.place() as u64, 0, 0],
        OpKind::Discard { member, offset, len } => [4, member.place() as u64, offset, len],
        OpKind::WriteZeroes { member, offset, len, .. } => [5, member.place() as u64, offset, len],
        OpKind::Probe { member } => [9, member.place() as u64, 0, 0],
        OpKind::Map { member, offset, len } => [10, member.place() as u64, offset, len],
        OpKind::Accept { socket } => [6, u64::from(socket.0), 0, 0],
        OpKind::Recv { socket } => [7, u64::from(socket.0), 0, 0],
        OpKind::Send { socket } => [8, u64::from(socket.0), 0, 0],
        OpKind::Ask { fills } => [11, u64::from(fills), 0, 0],
    }
}
