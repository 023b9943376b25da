//! Segments are used in turn, so that all of them wear alike, and none is kept for nothing.

use super::{FEW_LOG, Open, Space, Unit, Use};

impl Unit {
    /// The next free segment: they are taken in turn, so that all of them wear alike.
    pub(super) fn take_free(&mut self) -> Option<u32> {
        let next = self.free.range(self.turn..).next().or_else(|| self.free.first()).copied()?;
        self.turn = next + 1;
        self.free.take(&next)
    }
}

impl Space {
    /// Open segments of which nothing is left become free as others do: a stream without writes would keep its segment for ever.
    pub(super) fn close_empty(&mut self, at: usize, sequence: u64) {
        for place in 0..self.units[at].open.len() {
            let Some(Open { segment: n, .. }) = self.units[at].open[place] else { continue };
            let record = &self.segments[n as usize].record;
            if record.live == 0 && record.stripes > 0 && record.sequence <= sequence {
                self.becomes(n, Use::Closed);
                self.units[at].open[place] = None;
            }
        }
    }

    /// Open segments that lie on members which are out are written to no more: what is moved there would have less parity until they
    /// are full.
    pub(super) fn close_stale(&mut self) {
        for at in 0..self.units.len() {
            for place in 0..self.units[at].open.len() {
                let Some(Open { segment: n, .. }) = self.units[at].open[place] else { continue };
                if self.segments[n as usize].record.members != self.units[at].present {
                    self.becomes(n, Use::Closed);
                    self.units[at].open[place] = None;
                }
            }
        }
    }

    /// Unused segments of the log that lie on members which are out get another shape: they are free until the next checkpoint stands,
    /// which gives them one. A few stay as they are until there are others, so that no batch waits for these. True if some were
    /// withdrawn, and others stay: one more checkpoint is due.
    pub(crate) fn withdraw_log(&mut self) -> bool {
        let mut again = false;
        self.close_stale();
        for unit in &mut self.units {
            let segments = &self.segments;
            let is_stale = |n: &u32| segments[*n as usize].record.members != unit.present;
            let stale = unit.rows.iter().chain(&unit.short).filter(|n| is_stale(n)).count();
            let mut stays = stale.min(FEW_LOG.saturating_sub(unit.log() - stale));
            let mut withdrawn = Vec::new();
            for queue in [&mut unit.rows, &mut unit.short] {
                queue.retain(|n| {
                    let goes = is_stale(n) && stays == 0;
                    stays -= usize::from(is_stale(n) && stays > 0);
                    if goes {
                        withdrawn.push(*n);
                    }
                    !goes
                });
            }
            again |= !withdrawn.is_empty() && withdrawn.len() < stale;
            for n in withdrawn {
                self.segments[n as usize].usage = Use::Freeing;
                self.touched.mark(n);
                unit.freeing.push(n);
            }
        }
        again
    }
}
