//! The least that the members of an array must read and write for a load. Counted, with no drive and no engine.

use std::collections::BTreeMap;

use brindle_layout::{Family, Geometry};

use crate::job::{Blocks, Direction, Job, Kinds};

/// The unit of sizes, in bytes.
const SECTOR: u64 = 512;

/// Operations by their size.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sizes(BTreeMap<u64, f64>);

impl Sizes {
    /// Adds this many bytes in operations of one size.
    fn add(&mut self, bytes: f64, size: u64) {
        let size = size.max(1).next_multiple_of(SECTOR);
        if bytes > 0.0 {
            *self.0.entry(size).or_default() += bytes / size as f64;
        }
    }

    fn operations(&self) -> f64 {
        self.0.values().sum()
    }

    fn bytes(&self) -> f64 {
        self.0.iter().map(|(size, count)| *size as f64 * count).sum()
    }

    pub(super) fn largest(&self) -> u64 {
        self.0.keys().next_back().copied().unwrap_or(0)
    }

    /// For a job; one of no operations is never asked for.
    pub(super) fn blocks(&self) -> Blocks {
        let all = self.operations();
        match self.0.len() {
            0 => Blocks::One(4096),
            1 => Blocks::One(self.largest()),
            _ => {
                let share = |(size, count): (&u64, &f64)| (*size, ((count / all * 1e6) as u64).max(1));
                Blocks::Split(self.0.iter().map(share).collect())
            }
        }
    }
}

/// The average cost of one request to the members.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Moved {
    /// Bytes that were asked for.
    pub(super) asked: f64,
    /// Operations that read.
    pub(super) reads: Sizes,
    /// Operations that write.
    pub(super) writes: Sizes,
}

impl Moved {
    /// For a load on an array, or on one drive; none where blocks are given up.
    pub(super) fn of(job: &Job, geometry: Option<&Geometry>) -> Option<Self> {
        let shares = match job.access.kinds {
            Kinds::One(Direction::Read) => [1.0, 0.0],
            Kinds::One(Direction::Write) => [0.0, 1.0],
            Kinds::Mixed => [job.reads as f64 / 100.0, 1.0 - job.reads as f64 / 100.0],
            Kinds::One(Direction::Trim) | Kinds::TrimThenWrite => return None,
        };
        let array = Array::of(geometry);
        let mut moved = Self::default();
        for (size, share) in sizes(&job.blocks[Direction::Read.index()], shares[0]) {
            moved.asked += size as f64 * share;
            moved.reads.add(size as f64 * share, array.read(size));
        }
        for (size, share) in sizes(&job.blocks[Direction::Write.index()], shares[1]) {
            moved.asked += size as f64 * share;
            // Sequential requests in flight together may become one write.
            let together = if job.access.random { size } else { array.together(size, job.depth().into()) };
            array.write(&mut moved, (size, together), share, job.access.random);
        }
        Some(moved)
    }

    pub(super) fn bytes(&self) -> f64 {
        self.reads.bytes() + self.writes.bytes()
    }

    pub(super) fn kinds(&self) -> Kinds {
        match (self.reads.operations() > 0.0, self.writes.operations() > 0.0) {
            (true, true) => Kinds::Mixed,
            (false, true) => Kinds::One(Direction::Write),
            _ => Kinds::One(Direction::Read),
        }
    }

    /// Per cent of operations that read.
    pub(super) fn share_of_reads(&self) -> u64 {
        let (reads, writes) = (self.reads.operations(), self.writes.operations());
        (100.0 * reads / (reads + writes)).round() as u64
    }
}

/// Sizes of requests, and the share of each.
fn sizes(blocks: &Blocks, share: f64) -> Vec<(u64, f64)> {
    let list = match blocks {
        Blocks::One(size) => vec![(*size, 1)],
        Blocks::Range(least, most) => vec![(*least, 1), (*most, 1)],
        Blocks::Split(sizes) => sizes.clone(),
    };
    let all: u64 = list.iter().map(|(_, weight)| weight).sum();
    list.into_iter().map(|(size, weight)| (size, share * weight as f64 / all.max(1) as f64)).collect()
}

/// The properties of an array that decide how much is read and written.
struct Array {
    /// 0 where nothing is striped.
    chunk: u64,
    /// Chunks of data in a row.
    width: u64,
    members: u64,
    copies: u64,
    parity: u64,
}

impl Array {
    fn of(geometry: Option<&Geometry>) -> Self {
        let Some(geometry) = geometry else {
            return Self { chunk: 0, width: 1, members: 1, copies: 1, parity: 0 };
        };
        let (copies, parity) = match geometry.family() {
            Family::Striped(_) => (1, 0),
            Family::Mirrored(mirrored) => (mirrored.copies().into(), 0),
            Family::Parity(rows) => (1, rows.parity_members().into()),
        };
        let members = geometry.members().into();
        match geometry.row_bytes() {
            0 => Self { chunk: 0, width: 1, members, copies, parity },
            row => Self { chunk: geometry.chunk(), width: row / geometry.chunk(), members, copies, parity },
        }
    }

    /// How much of a row may come together of requests that follow one another.
    fn together(&self, size: u64, in_flight: u64) -> u64 {
        size.saturating_mul(in_flight).min(self.chunk * self.width).max(size)
    }

    /// How large the operations of a read are: what stands on one member in one piece is one operation, and the copies may be
    /// chosen so that as much as possible does.
    fn read(&self, size: u64) -> u64 {
        if self.chunk == 0 || self.copies == 1 {
            return self.piece(size);
        }
        let chunks = size.div_ceil(self.chunk).max(1);
        let on_one = (chunks * self.copies).div_ceil(self.members).max(1);
        size / chunks.div_ceil(on_one)
    }

    /// The least I/O where each member has one place for the request.
    fn piece(&self, size: u64) -> u64 {
        if self.chunk == 0 { size } else { size.min(self.chunk).max(size / self.width) }
    }

    /// The least I/O of a mirrored write.
    fn copied(&self, size: u64) -> u64 {
        if self.chunk == 0 {
            return size;
        }
        let places = (size.div_ceil(self.chunk).max(1) * self.copies).min(self.members);
        (size * self.copies / places).max(size.min(self.chunk))
    }

    fn write(&self, moved: &mut Moved, (size, together): (u64, u64), share: f64, random: bool) {
        let bytes = |bytes: u64| bytes as f64 * share;
        if self.parity == 0 {
            return moved.writes.add(bytes(size * self.copies), self.copied(size));
        }
        let row = self.chunk * self.width;
        // One after the other they fill rows, whose parity needs no old bytes.
        let whole = if random { size / row * row } else { size };
        let with_parity = bytes(whole) * (self.width + self.parity) as f64 / self.width as f64;
        let rest = size - whole;
        let band = rest.min(self.chunk);
        let changed = rest + self.parity * band;
        // The changed part of the last, incomplete row adds to the whole rows on each member.
        let each = match whole {
            0 => band,
            _ => self.piece(if random { whole } else { together }) + changed / (self.width + self.parity),
        };
        moved.writes.add(with_parity + bytes(changed), each);
        // Old data and old parity, or what else is in the row: whichever is less.
        let old = (rest + self.parity * band).min((self.width * band).saturating_sub(rest));
        moved.reads.add(bytes(old), band);
    }
}

#[cfg(test)]
mod tests {
    use brindle_layout::{Layout, Level};

    use super::*;
    use crate::predict::job;

    fn moved(level: Level, members: usize, words: &[(&str, &str)]) -> (f64, f64, u64) {
        let layout = Layout::default_for(level);
        let geometry = Geometry::new(level, layout, 64 << 10, &vec![1 << 30; members]).expect("a geometry");
        let moved = Moved::of(&job(words).expect("a load"), Some(&geometry)).expect("counted");
        (moved.reads.operations(), moved.writes.operations(), moved.share_of_reads())
    }

    #[test]
    fn operations_are_those_that_a_request_needs_at_the_fewest() {
        let writes = [("rw", "randwrite"), ("bs", "4k")];
        assert_eq!(moved(Level::Raid0, 4, &writes), (0.0, 1.0, 0));
        assert_eq!(moved(Level::Raid10, 4, &writes), (0.0, 2.0, 0));
        assert_eq!(moved(Level::Raid5, 6, &writes), (2.0, 2.0, 50));
        assert_eq!(moved(Level::Raid6, 12, &writes), (3.0, 3.0, 50));
        // Of three data members two others are fewer than the old block and parity twice.
        assert_eq!(moved(Level::Raid6, 5, &writes), (2.0, 3.0, 40));
        // A row of ten chunks is written whole; in sequence, any size is a part of one.
        assert_eq!(moved(Level::Raid6, 12, &[("rw", "randwrite"), ("bs", "640k")]), (0.0, 12.0, 0));
        assert_eq!(moved(Level::Raid6, 12, &[("rw", "write"), ("bs", "640k")]).0, 0.0);
        // The partial last row needs no write of its own, but the rest of that row must be read.
        let (reads, written, _) = moved(Level::Raid6, 12, &[("rw", "randwrite"), ("bs", "704k")]);
        assert!((11.0..=12.5).contains(&written) && reads == 3.0, "{reads} {written}");
        // Four chunks of seven members in two copies: one of the reads may be two chunks, and one of the writes.
        assert_eq!(moved(Level::Raid10, 7, &[("rw", "randread"), ("bs", "256k")]).0, 2.0);
        let written = moved(Level::Raid10, 7, &[("rw", "randwrite"), ("bs", "256k")]).1;
        assert!((6.9..7.1).contains(&written), "{written}");
        // Sequential writes in flight are merged, up to a row.
        let shallow = moved(Level::Raid5, 4, &[("rw", "write"), ("bs", "16k")]).1;
        assert!((shallow - 4.0 / 3.0).abs() < 1e-9, "{shallow}");
        let deep = [("rw", "write"), ("bs", "16k"), ("iodepth", "12")];
        assert!((moved(Level::Raid5, 4, &deep).1 - 1.0 / 3.0).abs() < 1e-9);
        // Two rows of four members are one operation of each.
        assert_eq!(moved(Level::Raid0, 4, &[("rw", "read"), ("bs", "512k")]), (4.0, 0.0, 100));
        let mixed = [("rw", "randrw"), ("rwmixread", "65"), ("bs", "4k")];
        let (reads, written, share) = moved(Level::Raid6, 12, &mixed);
        assert!((reads - 1.7).abs() < 1e-9 && (written - 1.05).abs() < 1e-9 && share == 62);
        let trims = job(&[("rw", "trim"), ("bs", "4k")]).expect("a load");
        assert_eq!(Moved::of(&trims, None), None);
    }
}
