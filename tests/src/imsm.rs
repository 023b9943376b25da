//! Containers of Intel's that mdadm has made, kept as the metadata of their disks with what is needed to make the disks anew: content is by
//! seed. `cargo run -p brindle-tests --example imsm_examples` makes all of them anew in a guest; where `BRINDLE_MDADM` names a folder in which
//! mdadm 4.6 was unpacked, with libc6, libudev1 and libcap2 of its release, those of that.

use std::path::{Path, PathBuf};

use brindle_testkit::random::Random;
use serde_json::{Value, json};

use crate::files::{KIB, MIB, sha256_of};

/// Bytes of each disk.
pub const DISK: u64 = 48 * MIB;
/// Bytes of each disk that a volume takes.
pub const PART: u64 = 4 * MIB;
/// Bytes at the end of a disk that hold metadata.
pub const TAIL: u64 = 64 * KIB;

/// The state that a container is left in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Stopped.
    Clean,
    /// The power went while it was written to.
    Dirty,
    /// A member has failed, and is not there.
    Degraded,
    /// A member has failed, and is there with what it had.
    Stale,
    /// The power went while a spare took a member's place.
    Rebuilding,
    /// The power went while a check ran.
    Verifying,
    /// It has a spare.
    Spare,
    /// A member of a clean one is not there.
    Missing,
    /// A member has bad blocks on record.
    BadBlocks,
    /// It keeps partial parity logs.
    Ppl,
    /// It has a write-intent bitmap.
    Bitmap,
}

impl State {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Dirty => "dirty",
            Self::Degraded => "degraded",
            Self::Stale => "stale",
            Self::Rebuilding => "rebuilding",
            Self::Verifying => "verifying",
            Self::Spare => "spare",
            Self::Missing => "missing",
            Self::BadBlocks => "bad-blocks",
            Self::Ppl => "ppl",
            Self::Bitmap => "bitmap",
        }
    }

    /// The flags with which its volumes are made.
    pub fn flags(self) -> &'static str {
        match self {
            Self::Ppl => " --consistency-policy ppl",
            Self::Bitmap => " --bitmap internal",
            _ => "",
        }
    }

    fn has_spare(self) -> bool {
        matches!(self, Self::Rebuilding | Self::Spare)
    }
}

/// A container with one volume or two.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Bytes of a sector.
    pub sector: u32,
    /// Members of each volume.
    pub members: usize,
    /// Level of each volume, as md counts, with the kibibytes of a strip.
    pub volumes: [Option<(u8, u64)>; 2],
    /// The state that it is left in.
    pub state: State,
}

/// All examples.
pub fn all() -> Vec<Example> {
    const SHAPES: [(u8, usize); 9] =
        [(0, 2), (0, 3), (0, 6), (1, 2), (5, 3), (5, 4), (5, 5), (5, 6), (10, 4)];
    const STRIPS: [u64; 5] = [4, 128, 16, 64, 32];
    let one = |sector, (level, members), strip, state| Example {
        sector,
        members,
        volumes: [Some((level, strip)), None],
        state,
    };
    // A second volume of another level that takes so many members.
    let other = |level: u8, members: usize| match (level, members) {
        (1, _) | (5, 3 | 5 | 6) | (10, _) => 0,
        (_, 2) => 1,
        (5, _) => 10,
        (_, _) => 5,
    };
    let mut all = Vec::new();
    for (at, shape) in SHAPES.into_iter().enumerate() {
        let first = one(512, shape, STRIPS[at % 5], State::Clean);
        let second = (other(shape.0, shape.1), STRIPS[(at + 2) % 5]);
        all.extend([first, Example { volumes: [first.volumes[0], Some(second)], ..first }]);
    }
    for strip in STRIPS.into_iter().skip(1) {
        all.push(one(512, (0, 2), strip, State::Clean));
    }
    for strip in [128, 16, 64, 4] {
        all.push(one(512, (5, 3), strip, State::Clean));
    }
    use State::{BadBlocks, Clean, Degraded, Dirty, Missing, Rebuilding, Spare, Stale, Verifying};
    let states = [Dirty, Degraded, Stale, Rebuilding, Verifying, Spare, Missing, BadBlocks];
    for (at, state) in states.into_iter().enumerate() {
        let shapes = [(1, 2), (5, 3), (5, 4), (10, 4)];
        all.extend(shapes.map(|shape| one(512, shape, STRIPS[(at + shape.1) % 5], state)));
    }
    let shapes = [(0, 2), (1, 2), (5, 3), (10, 4)];
    all.extend(shapes.into_iter().zip(STRIPS).map(|(shape, strip)| one(4096, shape, strip, Clean)));
    all.push(Example { volumes: [Some((5, 64)), Some((10, 16))], ..one(4096, (5, 4), 64, Clean) });
    all.push(one(4096, (1, 2), 64, Degraded));
    // Strips that a real platform does not offer.
    all.extend([(0, 2), (5, 3), (10, 4)].map(|shape| one(512, shape, 256, Clean)));
    all.extend([(5, 3), (5, 4)].map(|shape| one(512, shape, 64, State::Ppl)));
    all.extend([(1, 2), (5, 3), (10, 4)].map(|shape| one(512, shape, 64, State::Bitmap)));
    all
}

impl Example {
    /// Its name: `r5x3-64k-512-dirty`, `r5x4-64k+r10-16k-4096-clean`.
    pub fn name(&self) -> String {
        let volume = |(level, strip): (u8, u64)| format!("-r{level}-{strip}k");
        let volumes: String = self.volumes.iter().flatten().copied().map(volume).collect();
        format!("{}{volumes}-{}-{}", self.members, self.sector, self.state.word())
    }

    /// Disks, with a spare.
    pub fn disks(&self) -> usize {
        self.members + usize::from(self.state.has_spare())
    }

    /// The content of each volume.
    pub fn contents(&self) -> Vec<Vec<u8>> {
        let seed =
            self.name().bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let content = |(at, (level, _)): (u64, (u8, u64))| {
            let mut bytes = vec![0; (PART as usize) * data_members(level, self.members)];
            Random::new(seed ^ at).fill(&mut bytes);
            bytes
        };
        (0..).zip(self.volumes.into_iter().flatten()).map(content).collect()
    }

    /// The part that each member has of a volume.
    pub fn parts(&self, volume: usize, content: &[u8]) -> Vec<Vec<u8>> {
        let (level, strip) = self.volumes[volume].expect("a volume");
        lay(level, self.members, (strip * KIB) as usize, content)
    }
}

/// Members whose room is the volume's.
fn data_members(level: u8, members: usize) -> usize {
    match level {
        0 => members,
        5 => members - 1,
        _ => members / 2,
    }
}

/// Content as the level has it: RAID 5 is left-asymmetric, RAID 10 near 2.
fn lay(level: u8, members: usize, strip: usize, content: &[u8]) -> Vec<Vec<u8>> {
    if level == 1 {
        return vec![content.to_vec(); members];
    }
    let data = data_members(level, members);
    let mut parts = vec![Vec::with_capacity(content.len() / data); members];
    for (row, strips) in content.chunks(strip * data).enumerate() {
        let strips: Vec<&[u8]> = strips.chunks(strip).collect();
        match level {
            0 => parts.iter_mut().zip(strips).for_each(|(part, strip)| part.extend(strip)),
            10 => (0..members).for_each(|at| parts[at].extend(strips[at / 2])),
            _ => {
                let parity = strips.iter().fold(vec![0; strip], |mut sum, strip| {
                    sum.iter_mut().zip(*strip).for_each(|(sum, byte)| *sum ^= byte);
                    sum
                });
                let mut all = strips;
                let place = data - row % members;
                all.insert(place, &parity);
                parts.iter_mut().zip(all).for_each(|(part, strip)| part.extend(strip));
            }
        }
    }
    parts
}

/// The mdadm that has made an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// 4.2, of Debian 12.
    Release,
    /// 4.6.
    Newer,
}

impl Maker {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Release, Self::Newer];

    /// The folder of what is kept of its examples.
    pub fn folder(self) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("imsm");
        if self == Self::Newer { folder.join("mdadm-4.6") } else { folder }
    }
}

/// A disk as it is kept.
#[derive(Clone, Debug)]
pub struct KeptDisk {
    /// Its name, which is its serial number.
    pub serial: String,
    /// Its last bytes.
    pub tail: Vec<u8>,
    /// Hashes of the part of each volume, as the kernel has written it.
    pub parts: Vec<String>,
}

/// The hash of a part.
pub fn hash(part: &[u8]) -> String {
    sha256_of(part)[..32].to_owned()
}

/// Disks as text: what is not zero of the metadata, in hexadecimal digits.
pub fn text(disks: &[KeptDisk], offsets: &[u64]) -> String {
    let disk = |disk: &KeptDisk| {
        let first = disk.tail.iter().position(|byte| *byte != 0).unwrap_or(disk.tail.len());
        let hex: String = disk.tail[first..].iter().map(|byte| format!("{byte:02x}")).collect();
        json!({"serial": disk.serial, "tail": hex.trim_end_matches("00"), "from_end": disk.tail.len() - first, "parts": disk.parts})
    };
    let all: Vec<Value> = disks.iter().map(disk).collect();
    serde_json::to_string_pretty(&json!({"offsets": offsets, "disks": all})).expect("text") + "\n"
}

/// Disks, and where volumes begin on them, from text.
///
/// # Panics
/// If it is none of these.
pub fn read(text: &str) -> (Vec<KeptDisk>, Vec<u64>) {
    let kept: Value = serde_json::from_str(text).expect("what is kept");
    let disk = |kept: &Value| {
        let hex = kept["tail"].as_str().expect("digits");
        // The zeroes at the end were left out, by digit.
        let hex = if hex.len() % 2 == 1 { format!("{hex}0") } else { hex.to_owned() };
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let mut tail = vec![0; TAIL as usize];
        let first = tail.len() - kept["from_end"].as_u64().expect("a number") as usize;
        tail[first..first + bytes.len()].copy_from_slice(&bytes);
        let parts = kept["parts"].as_array().expect("hashes").iter();
        KeptDisk {
            serial: kept["serial"].as_str().expect("a name").to_owned(),
            tail,
            parts: parts.map(|hash| hash.as_str().expect("a hash").to_owned()).collect(),
        }
    };
    let disks = kept["disks"].as_array().expect("disks").iter().map(disk).collect();
    let offsets = kept["offsets"].as_array().expect("offsets").iter();
    (disks, offsets.map(|offset| offset.as_u64().expect("a number")).collect())
}
