//! The look-ahead of a modelled disk: what it has read, and reads on, of the streams that it sees.

use std::collections::VecDeque;

/// Streams that a disk keeps apart.
const STREAMS: usize = 16;

/// A stretch that has been read, or will have been at a moment.
#[derive(Clone, Copy)]
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) to: u64,
    /// When its last byte is there. Others come before it as fast as the platter turns.
    pub(super) done: u64,
}

/// The stretches of the last streams, the newest last.
#[derive(Default)]
pub(super) struct LookAhead {
    stretches: VecDeque<Stretch>,
}

impl LookAhead {
    /// Whether a stretch has this byte.
    pub(super) fn has(&self, offset: u64) -> bool {
        self.stretches.iter().any(|one| (one.from..one.to).contains(&offset))
    }

    /// The stretch that has all of a range.
    pub(super) fn holding(&self, offset: u64, end: u64) -> Option<Stretch> {
        self.stretches.iter().rev().find(|one| one.from <= offset && end <= one.to).copied()
    }

    /// Takes the stretch out that a read goes on from, if there is one: it begins no further than `reach` behind its end.
    pub(super) fn take_before(&mut self, offset: u64, reach: u64) -> Option<Stretch> {
        let goes_on = |one: &Stretch| (one.from..=one.to.saturating_add(reach)).contains(&offset);
        let at = self.stretches.iter().rposition(goes_on)?;
        self.stretches.remove(at)
    }

    pub(super) fn put(&mut self, stretch: Stretch) {
        if self.stretches.len() == STREAMS {
            self.stretches.pop_front();
        }
        self.stretches.push_back(stretch);
    }
}
