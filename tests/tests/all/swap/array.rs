//! An array that changes hands, and what it must hold.

use std::fmt;
use std::path::{Path, PathBuf};

use brindle_testkit::random::Random;
use brindle_tests::files::{self, MIB};

use super::Side;

/// Size of each member at least: small, so that a machine hands over every array thrice in a turn.
const MEMBER: u64 = 3 * MIB;

/// A rest behind the last whole sector of 4096 bytes, on members whose superblock is at their end. A device of such
/// sectors ends before the rest, and the superblock must be found all the same. A 1.1 or 1.2 superblock counts the
/// rest as data, so that such a device is too small.
const REST: u64 = 3 * 512;

/// Pieces that are written in one turn.
const PIECES: usize = 6;

pub(super) struct Shape {
    pub(super) level: &'static str,
    pub(super) layout: Option<&'static str>,
    pub(super) metadata: &'static str,
    pub(super) members: usize,
    /// KiB; 0 where the level has none.
    pub(super) chunk: u32,
    pub(super) made_by: Side,
}

const fn shape(
    level: &'static str,
    metadata: &'static str,
    members: usize,
    chunk: u32,
    made_by: Side,
) -> Shape {
    Shape { level, layout: None, metadata, members, chunk, made_by }
}

impl Shape {
    const fn layout(mut self, layout: &'static str) -> Self {
        self.layout = Some(layout);
        self
    }
}

/// Arrays that lose one member at most. Brindle and md make them on sectors of 512 bytes.
pub(super) const LOSE_ONE: [Shape; 6] = [
    shape("linear", "0.90", 3, 0, Side::Md),
    shape("0", "1.2", 3, 64, Side::Brindle),
    shape("4", "0.90", 4, 64, Side::Md),
    shape("5", "1.2", 4, 64, Side::Md),
    shape("5", "1.1", 3, 4, Side::Brindle).layout("right-asymmetric"),
    shape("10", "1.2", 4, 64, Side::Brindle).layout("f2"),
];

/// Mirrors, and arrays that lose two. Brindle makes them on sectors of 4096 bytes, as md does.
pub(super) const LOSE_TWO: [Shape; 4] = [
    shape("1", "0.90", 2, 0, Side::Brindle),
    shape("1", "1.0", 3, 0, Side::Md),
    shape("6", "1.2", 5, 64, Side::Brindle),
    shape("6", "0.90", 4, 16, Side::Md),
];

pub(super) struct Array {
    pub(super) shape: &'static Shape,
    /// Tells it from others: number of its device in the machine.
    pub(super) number: usize,
    /// The turn that its first one counts as: that tells the sectors of its members.
    pub(super) first: usize,
    /// Indexed by role.
    pub(super) members: Vec<PathBuf>,
    /// Roles whose member the array goes on without.
    pub(super) lost: Vec<usize>,
    /// The content.
    pub(super) model: Vec<u8>,
    pub(super) made: bool,
    /// The side that degrades it when it is whole the next time.
    pub(super) next: Side,
    /// Times that one side wrote to it after the other had degraded it.
    pub(super) rounds: usize,
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { level, metadata, members, made_by, .. } = self.shape;
        write!(
            f,
            "level {level}, {metadata}, {members} members, made by {made_by:?}, round {}",
            self.rounds
        )?;
        write!(f, ", without {:?}", self.lost)
    }
}

impl Array {
    pub(super) fn new(dir: &Path, shape: &'static Shape, number: usize, first: usize) -> Self {
        let rest = if ["0.90", "1.0"].contains(&shape.metadata) { REST } else { 0 };
        let members = files::members(dir, &format!("new{number}-"), shape.members, MEMBER + rest);
        Self {
            shape,
            number,
            first,
            members,
            lost: Vec::new(),
            // All that a client may count on before the size is known: no array is smaller.
            model: vec![0; MIB as usize],
            made: false,
            next: shape.made_by,
            rounds: 0,
        }
    }

    /// Members that may be lost wherever they stand.
    pub(super) fn tolerance(&self) -> usize {
        match self.shape.level {
            "1" => self.shape.members - 1,
            "6" => 2,
            "4" | "5" | "10" => 1,
            _ => 0,
        }
    }

    /// Roles to degrade it by once it is whole, if it is `side`'s turn to do that.
    pub(super) fn to_lose(&self, side: Side) -> Vec<usize> {
        if self.next != side || self.tolerance() == 0 {
            return Vec::new();
        }
        let count = 1 + self.rounds % self.tolerance();
        let mut roles: Vec<usize> =
            (0..count).map(|i| (self.rounds + self.number + i) % self.shape.members).collect();
        roles.sort_unstable();
        roles
    }

    /// `side` wrote to it: that is a round if the other side had degraded it.
    pub(super) fn written_by(&mut self, side: Side) {
        if !self.lost.is_empty() && self.next == side {
            self.rounds += 1;
        }
    }

    /// `roles` were taken out of it; the other side is next.
    pub(super) fn degraded(&mut self, roles: Vec<usize>) {
        if !roles.is_empty() {
            self.next = if self.next == Side::Md { Side::Brindle } else { Side::Md };
            self.lost = roles;
        }
    }

    /// It was made and has this size.
    pub(super) fn made(&mut self, size: usize) {
        assert!(size >= self.model.len(), "{self}: {size} bytes");
        self.model.resize(size, 0);
        self.made = true;
    }

    /// Gives the members other names, which tell nothing.
    pub(super) fn rename(&mut self, dir: &Path, random: &mut Random) {
        for member in &mut self.members {
            let name = dir.join(format!("{:016x}", random.next()));
            std::fs::rename(&*member, &name).unwrap();
            *member = name;
        }
    }

    /// Roles of the members to be given to whoever assembles it, in any order, as often as not with those that it
    /// does without.
    pub(super) fn given(&self, random: &mut Random) -> Vec<usize> {
        let with_lost = random.below(2) == 0;
        let mut roles: Vec<usize> =
            (0..self.members.len()).filter(|role| with_lost || !self.lost.contains(role)).collect();
        shuffle(&mut roles, random);
        roles
    }

    /// Pieces to be written, which the model has from now on; in units of `unit` bytes.
    pub(super) fn change(&mut self, source: &Source, unit: u64, random: &mut Random) -> Vec<Piece> {
        let size = self.model.len() as u64;
        let piece = |_| {
            let to = random.below(size / unit) * unit;
            let most = [4 << 10, 16 << 10, 96 << 10, 512 << 10][random.below(4) as usize];
            let len = ((random.below(most / unit) + 1) * unit).min(size - to);
            let from = random.below((source.bytes.len() as u64 - len) / unit) * unit;
            let piece = Piece { from, to, len };
            let bytes = &source.bytes[from as usize..(from + len) as usize];
            self.model[to as usize..(to + len) as usize].copy_from_slice(bytes);
            piece
        };
        (0..PIECES).map(piece).collect()
    }

    pub(super) fn sha256(&self) -> String {
        files::sha256_of(&self.model)
    }
}

/// Fisher and Yates.
pub(super) fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for i in (1..items.len()).rev() {
        items.swap(i, random.below(i as u64 + 1) as usize);
    }
}

/// Bytes of the source that go to a place of an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) len: u64,
}

/// Where both sides take from what they write.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
}

impl Source {
    pub(super) fn new(dir: &Path) -> Self {
        let path = dir.join("source");
        files::write_pattern(&path, 8 * MIB, 21);
        let bytes = std::fs::read(&path).unwrap();
        Self { path, bytes }
    }
}
