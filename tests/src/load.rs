//! Writers that get in each other's way, and what the content may be afterwards.
//!
//! Requests of one round are all under way at once, on several connections. A sector that one of them touches has what
//! that one made of it; one that several touch has what one of them made of it, whole. The model reads such ranges after
//! each round, checks that, and goes on with what it read.

use std::ops::Range;

use crate::files::Random;
use crate::nbd::{Change, Client, Work};

const SECTOR: usize = 512;

/// Connections that write.
const CONNECTIONS: usize = 4;

/// Requests of one round.
const REQUESTS: usize = 24;

/// An export that is written, and what it must contain.
#[derive(Debug)]
pub struct Load {
    clients: Vec<Client>,
    random: Random,
    content: Vec<u8>,
}

impl Load {
    /// Connects to an export whose content is known.
    ///
    /// # Panics
    /// If the content has another size.
    pub fn new(uri: &str, content: Vec<u8>, seed: u64) -> Self {
        let clients: Vec<Client> = (0..CONNECTIONS).map(|_| Client::connect(uri)).collect();
        assert_eq!(clients[0].size, content.len() as u64, "size of the export");
        Self { clients, random: Random::new(seed), content }
    }

    /// Connects to an export that is full of zeroes.
    pub fn on_zeroes(uri: &str, seed: u64) -> Self {
        let size = Client::connect(uri).size;
        Self::new(uri, vec![0; size as usize], seed)
    }

    /// Writes all of the export, side by side and in pieces of all sizes.
    ///
    /// # Panics
    /// If something else is read afterwards.
    pub fn fill(&mut self) {
        let size = self.content.len() as u64;
        let mut changes = Vec::new();
        let mut at = 0;
        while at < size {
            let len = self.length(size - at);
            changes.push(self.write(at, len));
            at += len;
        }
        self.round(&changes);
    }

    /// A round of requests anywhere, half of them on top of each other.
    ///
    /// # Panics
    /// If something else is read afterwards than one of them made.
    pub fn storm(&mut self) {
        let size = self.content.len() as u64;
        let block = self.clients[0].block;
        let crowded = self.random.below(size / block) * block;
        let mut changes = Vec::new();
        for number in 0..REQUESTS {
            let offset = if number % 2 == 0 {
                self.random.below(size / block) * block
            } else {
                (crowded + self.random.below(256 << 10) / block * block).min(size - block)
            };
            let len = self.length(size - offset);
            let work = match self.random.below(8) {
                0 => Work::Zeroes { no_hole: false },
                1 => Work::Zeroes { no_hole: true },
                2 => Work::Trim,
                3 if number % 4 == 0 => Work::Flush,
                _ => {
                    changes.push(self.write(offset, len));
                    continue;
                }
            };
            changes.push(Change { offset, len, work });
        }
        self.round(&changes);
    }

    /// Reads all, says good-bye and tells the content.
    ///
    /// # Panics
    /// If anything differs from what was written.
    pub fn end(mut self) -> Vec<u8> {
        let read = self.clients[0].read(0, self.content.len() as u64);
        assert!(read == self.content, "what is read at the end is not what was written");
        self.clients.into_iter().for_each(Client::close);
        self.content
    }

    fn write(&mut self, offset: u64, len: u64) -> Change {
        let mut data = vec![0; len as usize];
        self.random.fill(&mut data);
        Change { offset, len, work: Work::Write { data, fua: self.random.below(8) == 0 } }
    }

    /// A length that makes every kind of write likely: within a page, within a chunk, of rows; half are odd ones.
    fn length(&mut self, room: u64) -> u64 {
        let block = self.clients[0].block;
        let most = [4 << 10, 4 << 10, 64 << 10, 192 << 10, 1 << 20][self.random.below(5) as usize];
        let len = match self.random.below(2) {
            0 => most,
            _ => (self.random.below(most / block) + 1) * block,
        };
        len.min(room)
    }

    fn round(&mut self, changes: &[Change]) {
        std::thread::scope(|scope| {
            for (number, client) in self.clients.iter_mut().enumerate() {
                scope.spawn(move || client.all_at_once(changes.iter().skip(number).step_by(CONNECTIONS)));
            }
        });
        for touched in union(changes) {
            let start = touched.start;
            let read = self.clients[0].read(start, touched.end - start);
            for (at, sector) in (start..).step_by(SECTOR).zip(read.chunks(SECTOR)) {
                let before = &mut self.content[at as usize..at as usize + SECTOR];
                assert!(
                    may_be(sector, at, before, changes),
                    "byte {at}: what is read is not what one request made"
                );
                before.copy_from_slice(sector);
            }
        }
    }
}

/// Ranges that are touched, joined where they meet, in order.
fn union(changes: &[Change]) -> Vec<Range<u64>> {
    let touching = changes.iter().filter(|change| !matches!(change.work, Work::Flush));
    let mut all: Vec<Range<u64>> = touching.map(|change| change.offset..change.offset + change.len).collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in all {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Whether the sector at `at` may contain this after these changes, in any order.
fn may_be(sector: &[u8], at: u64, before: &[u8], changes: &[Change]) -> bool {
    let mut kept = true;
    for change in changes.iter().filter(|change| (change.offset..change.offset + change.len).contains(&at)) {
        let possible = match &change.work {
            Work::Write { data, .. } => data[(at - change.offset) as usize..].starts_with(sector),
            Work::Zeroes { .. } | Work::Trim => sector.iter().all(|&byte| byte == 0),
            Work::Flush => continue,
        };
        if possible {
            return true;
        }
        kept &= matches!(change.work, Work::Trim);
    }
    kept && sector == before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(offset: u64, len: u64, work: Work) -> Change {
        Change { offset, len, work }
    }

    fn write(offset: u64, len: u64, byte: u8) -> Change {
        change(offset, len, Work::Write { data: vec![byte; len as usize], fua: false })
    }

    #[test]
    fn a_sector_is_what_one_request_made_of_it() {
        let changes = [write(0, 1024, 1), write(512, 1024, 2), change(2048, 512, Work::Trim)];
        let zeroes = change(1024, 512, Work::Zeroes { no_hole: true });
        let may = |at, byte, changes: &[Change]| may_be(&[byte; 512], at, &[9; 512], changes);
        assert!(may(0, 1, &changes) && !may(0, 2, &changes) && !may(0, 9, &changes) && !may(0, 0, &changes));
        assert!(may(512, 1, &changes) && may(512, 2, &changes) && !may(512, 9, &changes));
        assert!(may(2048, 0, &changes) && may(2048, 9, &changes) && !may(2048, 1, &changes));
        let more = [changes.as_slice(), &[zeroes]].concat();
        assert!(may(1024, 0, &more) && may(1024, 2, &more) && !may(1024, 9, &more));
        assert!(!may_be(&[[1; 256], [2; 256]].concat(), 512, &[9; 512], &changes), "half of each");
        let flush = [change(0, 512, Work::Flush)];
        assert!(may(0, 9, &flush) && !may(0, 0, &flush), "a flush changes nothing");
    }

    #[test]
    fn touched_ranges_are_joined() {
        let changes = [write(4096, 512, 1), write(0, 512, 1), write(512, 512, 1), write(4096, 1024, 1)];
        assert_eq!(union(&changes), [0..1024, 4096..5120]);
        assert!(union(&[change(0, 512, Work::Flush)]).is_empty());
    }
}
