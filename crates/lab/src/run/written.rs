//! The writes of a pass that are to be verified, where later ones may lie over earlier ones: as in fio, the later one counts.

use std::collections::BTreeMap;

use crate::load::Request;

/// Writes of a pass, by target and place. It grows with the job.
#[derive(Debug, Default)]
pub(super) struct Written {
    targets: Vec<BTreeMap<u64, Write>>,
    in_flight: Vec<(usize, u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Write {
    len: u64,
    /// Another one, that lay over a part of it, was in flight at the same time: nothing says which came last.
    is_unclear: bool,
}

impl Written {
    /// A write is about to be sent. Those that it lies over are verified no more. With `in_blocks`, each block of `interval` bytes
    /// holds the same whoever writes it.
    pub(super) fn sent(&mut self, target: usize, request: Request, interval: u64, in_blocks: bool) {
        let (offset, len) = (request.offset, request.len);
        if self.targets.len() <= target {
            self.targets.resize_with(target + 1, BTreeMap::new);
        }
        let over = |begin: u64, other: u64| begin < offset + len && offset < begin + other;
        let is_same =
            |begin: u64| begin == offset || in_blocks && begin.abs_diff(offset).is_multiple_of(interval);
        let is_unclear = self
            .in_flight
            .iter()
            .any(|&(on, begin, other)| on == target && over(begin, other) && !is_same(begin));
        let pieces = &mut self.targets[target];
        while let Some((&begin, write)) = pieces.range(..offset + len).next_back() {
            if begin + write.len <= offset {
                break;
            }
            pieces.remove(&begin);
        }
        pieces.insert(offset, Write { len, is_unclear });
        self.in_flight.push((target, offset, len));
    }

    /// A write has come back.
    pub(super) fn done(&mut self, target: usize, request: Request) {
        let same = |one: &(usize, u64, u64)| *one == (target, request.offset, request.len);
        if let Some(at) = self.in_flight.iter().position(same) {
            self.in_flight.swap_remove(at);
        }
    }

    /// The next piece to verify of a target: its place and length.
    pub(super) fn next(&mut self, target: usize) -> Option<(u64, u64)> {
        let pieces = self.targets.get_mut(target)?;
        loop {
            let (offset, write) = pieces.pop_first()?;
            if !write.is_unclear {
                return Some((offset, write.len));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Direction;

    fn write(offset: u64, len: u64) -> Request {
        Request { direction: Direction::Write, offset, len }
    }

    fn all(written: &mut Written) -> Vec<(u64, u64)> {
        core::iter::from_fn(|| written.next(0)).collect()
    }

    #[test]
    fn later_writes_count() {
        let mut written = Written::default();
        for request in [write(0, 8), write(8, 8), write(24, 8), write(4, 8)] {
            written.sent(0, request, 4, true);
            written.done(0, request);
        }
        assert_eq!(all(&mut written), [(4, 8), (24, 8)]);
    }

    #[test]
    fn of_two_at_the_same_time_neither_is_sure_unless_they_write_the_same() {
        let mut written = Written::default();
        let begin = |written: &mut Written, request| written.sent(0, request, 4, true);
        begin(&mut written, write(0, 8));
        begin(&mut written, write(2, 8));
        assert_eq!(all(&mut written), []);
        begin(&mut written, write(16, 8));
        begin(&mut written, write(20, 8));
        assert_eq!(all(&mut written), [(20, 8)]);
        begin(&mut written, write(40, 8));
        written.sent(0, write(44, 8), 4, false);
        assert_eq!(all(&mut written), []);
    }
}
