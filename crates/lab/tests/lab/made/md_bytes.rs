//! Cells of `reference/md-*.csv`: the bytes that a kernel's own md moved of each member, beside those of the prediction.
//! `tests/tests/all/md_bytes.rs` makes the files.

use brindle_lab::drive::{Drive, parse, shipped};
use brindle_lab::job::Direction;
use brindle_lab::load::Request;
use brindle_lab::predict::{Kernel, Policies, Shape, Spec, Trial, job, member_bytes};
use brindle_layout::{Layout, Level, ParityLayout, Raid10Layout};

/// Bytes of a member's data area: the guest's drives have 41 MiB, of which data begins behind the first.
const MEMBER: u64 = 40 << 20;
/// Members that answer after two milliseconds, however many requests they have.
const FLASH: &str =
    "name = \"flash\"\nsource = \"the guest's drives\"\nsize_gb = 1.0\nunits = 1024\nflush_us = 0.0
[read]\nlatency_us = [[0, 2000.0]]\noccupancy_us = [[4, 0.1]]\nspread_percent = 0
[write]\nlatency_us = [[0, 2000.0]]\noccupancy_us = [[4, 0.1]]\nspread_percent = 0\n";

/// Pieces of a request that the emulated processor sends within the fifty milliseconds of a drive.
const MOST_PIECES: u64 = 128;

/// The least and the most.
type Range = (u64, u64);

/// How a cell is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Equal to the byte, or within the range of runs.
    Held,
    /// Writes in order that are smaller than a row of parity: it depends on the time what of a row comes together.
    InOrder,
    /// A stripe is asked for again after about as many others as md keeps, or more are in use at once: it depends on their order which are there.
    CacheIsFull,
    /// Runs differ by more than a quarter; or a request has more pieces than the emulated processor sends before the first is answered.
    Chance,
    /// Members with heads: those of the guest only say so, those of the model seek.
    Heads,
}

/// A line of a file, and what the model makes of it.
pub(crate) struct Compared {
    pub(crate) line: String,
    pub(crate) level: String,
    pub(crate) kind: Kind,
    pub(crate) is_equal: bool,
    /// KiB that are read and written, by role.
    pub(crate) predicted: [Vec<u64>; 2],
}

/// Compares all lines of a kernel's file; `which` is `bytes` or `deep`.
pub(crate) fn compare_all(which: &str, kernel: &str) -> Vec<Compared> {
    let file = format!("{}/reference/md-{which}-{kernel}.csv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let kernel: Kernel = kernel.parse().expect("a kernel");
    text.lines().skip(1).map(|line| Cell::of(line).compared(kernel)).collect()
}

struct Cell<'a> {
    line: &'a str,
    level: String,
    /// 32 requests in flight, at these drives.
    drives: Option<&'a str>,
    shape: Shape,
    missing: Vec<u16>,
    direction: Direction,
    random: bool,
    size: u64,
    count: u64,
    /// KiB that are read and written, by role.
    moved: [Vec<Range>; 2],
}

impl<'a> Cell<'a> {
    fn of(line: &'a str) -> Self {
        let mut fields: Vec<&str> = line.split(',').collect();
        let drives = ["flash", "disk"].contains(&fields[0]).then(|| fields.remove(0));
        let number = |text: &str| text.parse::<u64>().expect(line);
        let range = |text: &str| match text.split_once('-') {
            Some((least, most)) => (number(least), number(most)),
            None => (number(text), number(text)),
        };
        let words = |text: &'a str| text.split('+').filter(|word| !word.is_empty());
        let (level, layout) = level_of(fields[0], fields[1]);
        let (chunk, members) = (number(fields[3]) << 10, number(fields[2]) as u16);
        Self {
            line,
            level: format!("{} {}", fields[0], fields[1].replace("left-symmetric", "")).trim().to_owned(),
            drives,
            shape: Shape { level, layout, chunk, members, bitmap: None },
            missing: words(fields[4]).map(|role| number(role) as u16).collect(),
            direction: if fields[5] == "read" { Direction::Read } else { Direction::Write },
            random: fields[6] == "random",
            size: number(fields[7]) << 10,
            count: number(fields[8]),
            moved: [9, 10].map(|field| words(fields[field]).map(range).collect()),
        }
    }

    fn spec(&self, kernel: Kernel) -> Spec {
        let shipped = |name| parse(name, shipped(name).expect("it ships"));
        let drive = match self.drives {
            None => shipped("nvme"),
            Some("flash") => parse("flash", FLASH),
            Some(_) => shipped("hdd-7200"),
        };
        let depth = if self.drives.is_some() { "32" } else { "1" };
        Spec {
            drive: Drive { size: MEMBER, ..drive.expect("a model") },
            shape: Some(self.shape),
            policies: Policies::LinuxMd(kernel),
            cores: 1,
            by_job: false,
            job: job(&[("rw", "read"), ("bs", "4k"), ("iodepth", depth)]).expect("a load"),
        }
    }

    /// As `cells.c` draws them.
    fn requests(&self, size: u64) -> Vec<Request> {
        let blocks = (size / self.size) as u32;
        let block = |n: u32| u64::from(if self.random { place(n) } else { n } % blocks);
        let request = |n| Request { direction: self.direction, offset: block(n) * self.size, len: self.size };
        (0..self.count as u32).map(request).collect()
    }

    /// The kernel has looked for partitions, and one who writes has written to the end.
    fn before(&self, size: u64) -> Vec<Request> {
        let request = |direction, offset| Request { direction, offset, len: 4096 };
        let mut before = vec![request(Direction::Read, 0)];
        if self.direction == Direction::Write {
            before.push(request(Direction::Write, size - 4096));
        }
        before
    }

    fn predicted(&self, kernel: Kernel, stripes: u32) -> [Vec<u64>; 2] {
        let spec = self.spec(kernel);
        let size = self.shape.size(&spec.drive).expect("a geometry");
        let (before, requests) = (self.before(size), self.requests(size));
        let trial = Trial { missing: &self.missing, before: &before, requests: &requests, stripes };
        let moved = member_bytes(&spec, &trial).unwrap_or_else(|error| panic!("{}: {error}", self.line));
        [
            moved.iter().map(|bytes| bytes.read >> 10).collect(),
            moved.iter().map(|bytes| bytes.written >> 10).collect(),
        ]
    }

    fn compared(&self, kernel: Kernel) -> Compared {
        let predicted = self.predicted(kernel, Trial::STRIPES);
        let is_equal = predicted
            .iter()
            .flatten()
            .zip(self.moved.iter().flatten())
            .all(|(kib, range)| self.fits(*kib, *range));
        Compared {
            line: self.line.to_owned(),
            level: self.level.clone(),
            kind: self.kind(kernel, &predicted),
            is_equal,
            predicted,
        }
    }

    /// Within the range; of several runs, widened by a twentieth.
    fn fits(&self, kib: u64, (least, most): Range) -> bool {
        match self.drives {
            None => kib == least,
            Some(_) => 20 * kib >= 19 * least && 20 * kib <= 21 * most,
        }
    }

    fn kind(&self, kernel: Kernel, predicted: &[Vec<u64>; 2]) -> Kind {
        let parity = match self.shape.level {
            Level::Raid5 => 1,
            Level::Raid6 => 2,
            _ => 0,
        };
        let row = self.shape.chunk * u64::from(self.shape.members - parity);
        if parity > 0 && self.direction == Direction::Write && !self.random && self.size < row {
            return Kind::InOrder;
        }
        let pieces = self.size / self.shape.chunk.max(4096);
        let is_cut =
            self.shape.level == Level::Raid10 && self.direction == Direction::Read && pieces > MOST_PIECES;
        if is_cut || self.moved.iter().flatten().any(|(least, most)| 4 * (most - least) > *most) {
            return Kind::Chance;
        }
        if self.drives == Some("disk") && [Level::Raid1, Level::Raid10].contains(&self.shape.level) {
            return Kind::Heads;
        }
        let in_flight = if self.drives.is_some() { 32 } else { 1 };
        let data = u64::from(self.shape.members - parity);
        if parity > 0 && in_flight * self.size / 4096 / data > Trial::STRIPES.into() {
            return Kind::CacheIsFull;
        }
        let by_room = |stripes| self.predicted(kernel, stripes) != *predicted;
        let is_full = parity > 0 && (by_room(Trial::STRIPES / 4 * 3) || by_room(Trial::STRIPES / 4 * 5));
        if is_full { Kind::CacheIsFull } else { Kind::Held }
    }
}

fn place(n: u32) -> u32 {
    let mut x = n.wrapping_add(1).wrapping_mul(0x9e37_79b1);
    x ^= x >> 15;
    x = x.wrapping_mul(0x85eb_ca77);
    x ^ x >> 13
}

fn level_of(level: &str, layout: &str) -> (Level, Layout) {
    let level = match level {
        "0" => Level::Raid0,
        "1" => Level::Raid1,
        "5" => Level::Raid5,
        "6" => Level::Raid6,
        _ => Level::Raid10,
    };
    let copies = |text: &str| text[1..].parse().expect("copies");
    let layout = match layout {
        "" | "left-symmetric" => Layout::default_for(level),
        "parity-last" => Layout::Parity(ParityLayout::ParityLast),
        near if near.starts_with('n') => Layout::Raid10(Raid10Layout::near(copies(near))),
        far if far.starts_with('f') => Layout::Raid10(Raid10Layout::far(copies(far))),
        offset => Layout::Raid10(Raid10Layout::offset(copies(offset))),
    };
    (level, layout)
}
