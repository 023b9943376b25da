//! Segments are used in turn, so that all of them wear alike, and none is kept for nothing.

use super::{Space, Unit, Use};

impl Unit {
    /// The next free segment: they are taken in turn, so that all of them wear alike.
    pub(super) fn take_free(&mut self) -> Option<u32> {
        let next = self.free.range(self.turn..).next().or_else(|| self.free.first()).copied()?;
        self.turn = next + 1;
        self.free.take(&next)
    }
}

impl Space {
    /// Open segments of which nothing is left become free as others do: a stream that nobody uses any more would keep its segment for ever.
    pub(super) fn close_empty(&mut self, at: usize, sequence: u64) {
        for open in &mut self.units[at].open {
            let Some(segment) = open.map(|open| &mut self.segments[open.segment as usize]) else { continue };
            let record = &segment.record;
            if record.live == 0 && record.stripes > 0 && record.sequence <= sequence {
                segment.usage = Use::Closed;
                *open = None;
            }
        }
    }

    /// Open segments that lie on members which are out are written to no more: what was moved there meanwhile would have less parity for as
    /// long as nobody fills them.
    pub(super) fn close_stale(&mut self) {
        for unit in &mut self.units {
            for open in &mut unit.open {
                let Some(segment) = open.map(|open| &mut self.segments[open.segment as usize]) else {
                    continue;
                };
                if segment.record.members != unit.present {
                    segment.usage = Use::Closed;
                    *open = None;
                }
            }
        }
    }
}
