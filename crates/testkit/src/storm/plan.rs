//! The meaning of a seed: an array, its drives, and the load on it.

use brindle_format::md::{Endian, Version};
use brindle_io::Duration;
use brindle_io::sim::Model;
use brindle_layout::Level;

use super::work::Work;
use crate::faults::Fault;
use crate::load::Mix;
use crate::random::Random;
use crate::shape::Shape;

/// A fault to come: before which step of a boot, which, and to which role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// See [`brindle_io::sim::When::Step`].
    pub step: u64,
    /// The fault itself.
    pub fault: Fault,
    /// To whose member.
    pub role: u16,
}

/// The part of a storm that depends on its seed alone, whenever the power goes.
#[derive(Clone, Debug)]
pub struct StormPlan {
    /// Whence all chance comes.
    pub seed: u64,
    /// The array.
    pub shape: Shape,
    /// Its drives.
    pub model: Model,
    /// Clients that ask side by side.
    pub lanes: u64,
    /// Requests of each.
    pub requests: u64,
    /// The clients' requests.
    pub mix: Mix,
    /// Time without writes after which the array is marked clean.
    pub idle: Duration,
    /// The array is written whole first.
    pub filled: bool,
    /// Per mille of transfers that are short.
    pub short_transfers: u32,
    /// The array's state is kept by a container, which describes another array beside it, not by superblocks.
    pub container: bool,
    /// Each role has a second device, which may fail as the first may.
    pub second_devices: bool,
    /// How many times as long the first drive takes as the others.
    pub slower: u32,
    /// Time between two rounds that clear bits of the bitmap, if there is one.
    pub daemon_sleep: Duration,
    /// Some drives make no zeroes and discard nothing, and say so only when they are asked.
    pub unable: bool,
    /// Spares belong to no array at first, and are added while clients ask.
    pub late: bool,
    /// In each boot only this is done beside what clients ask; `None`: what the seed stands for.
    pub work: Option<Work>,
    /// Clients come by doors, and not straight to the array.
    pub doors: bool,
    /// Reactors among which clients that come by NBD are divided.
    pub reactors: usize,
    /// A guard watches what members are sent. Without one, writes go the direct way that they go in the product.
    pub watched: bool,
    /// Writes of clients follow each other.
    pub streams: bool,
    /// The array gets larger while clients ask.
    pub grows: bool,
}

/// Level, layout, members: small, but of every kind, some with more redundancy than one member.
const LEVELS: [(Level, &str, usize); 15] = [
    (Level::Raid1, "", 2),
    (Level::Raid1, "", 3),
    (Level::Raid4, "", 3),
    (Level::Raid5, "left-symmetric", 3),
    (Level::Raid5, "left-symmetric", 4),
    (Level::Raid5, "right-asymmetric", 3),
    (Level::Raid6, "left-symmetric", 4),
    (Level::Raid6, "left-symmetric", 5),
    (Level::Raid6, "ddf-N-continue", 5),
    (Level::Raid10, "n2", 4),
    (Level::Raid10, "n3", 3),
    (Level::Raid10, "f2", 3),
    (Level::Raid10, "o2", 3),
    (Level::Raid0, "", 2),
    (Level::Raid5, "left-symmetric", 5),
];

/// Metadata and entries of the table; a table of 129 takes two sectors, one of 1000 five, 0.90 all eight.
const METADATA: [(Version, usize); 8] = [
    (Version::V1_2, 0),
    (Version::V1_2, 0),
    (Version::V1_1, 0),
    (Version::V1_0, 0),
    (Version::V0_90(Endian::Little), 0),
    (Version::V0_90(Endian::Big), 0),
    (Version::V1_2, 384),
    (Version::V1_0, 1000),
];

impl StormPlan {
    /// A client that asks for a dozen things of an array of this shape on drives that forget what they have not flushed, and
    /// tear at 512 bytes: for tests that try every step.
    pub fn small(shape: &Shape, seed: u64) -> Self {
        let mix = Mix { reads: 1, writes: 6, zeroes: 0, flushes: 3, most: 12 << 10, ..Mix::default() };
        Self {
            seed,
            // A bitmap is given to no smaller array.
            shape: Shape { rows: if shape.bitmap.is_some() { 16 } else { 4 }, ..shape.clone() },
            model: quick(),
            lanes: 1,
            requests: 12,
            mix,
            idle: Duration::from_micros(300),
            filled: false,
            short_transfers: 0,
            container: false,
            second_devices: false,
            slower: 1,
            daemon_sleep: Duration::from_micros(200),
            unable: false,
            late: false,
            work: None,
            doors: false,
            reactors: 1,
            watched: true,
            streams: false,
            grows: false,
        }
    }

    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::stream(seed, 0x706c_616e);
        let &(level, layout, members) = random.pick(&LEVELS);
        let &(version, table) = random.pick(&METADATA);
        let mut shape = Shape::new(level, members).metadata(version, table);
        if !layout.is_empty() {
            shape = shape.layout(layout);
        }
        shape.rows = *random.pick(&[6, 10]);
        shape.in_sync = !random.one_in(4);
        // These draws have random streams of their own, so that the rest of a seed's plan does not depend on them.
        let container = level.is_redundant() && Random::stream(seed, 0x636f_6e74).one_in(8);
        let mut bitmap = Random::stream(seed, 0x6269_746d);
        if level.is_redundant() && !container && bitmap.one_in(3) {
            (shape.bitmap, shape.rows) = (Some(*bitmap.pick(&[4096, 8192])), 16);
        }
        let mut behind = Random::stream(seed, 0x6265_6864);
        let mut slower = 1;
        if level == Level::Raid1 && !container && behind.one_in(2) {
            (shape.bitmap, shape.rows) = (Some(shape.bitmap.unwrap_or(8192)), 16);
            shape.behind = *behind.pick(&[1, 3, 256]);
            slower = *behind.pick(&[1, 4, 16]);
        }
        // This draw has a stream of its own, too.
        shape.filed = shape.bitmap.is_some() && Random::stream(seed, 0x6669_6c65).one_in(3);
        let model = drives(&mut random);
        let lanes = 2 + random.below(4);
        let mix = Mix {
            discards: u64::from(random.one_in(4)),
            flushes: *random.pick(&[1, 2, 4, 16]),
            most: *random.pick(&[4096, 16 << 10, 48 << 10]),
            crowd: 32 << 10,
            block: u64::from(model.logical_block),
            ..Mix::default()
        };
        Self {
            seed,
            shape,
            model,
            lanes,
            requests: 60_u64.div_ceil(lanes),
            mix,
            idle: Duration::from_micros(*random.pick(&[300, 2000])),
            filled: random.one_in(2),
            short_transfers: *random.pick(&[0, 0, 0, 20]),
            container,
            daemon_sleep: Duration::from_micros(*bitmap.pick(&[100, 400, 3000])),
            slower,
            unable: Random::stream(seed, 0x756e_6162).one_in(4),
            late: false,
            work: None,
            doors: Random::stream(seed, 0x646f_6f72).one_in(4),
            reactors: 1 + Random::stream(seed, 0x7265_6163).below(4) as usize,
            watched: !Random::stream(seed, 0x7761_7463).one_in(4),
            second_devices: level.is_redundant() && Random::stream(seed, 0x7365_6174).one_in(8),
            streams: Random::stream(seed, 0x7374_7265).one_in(3),
            grows: false,
        }
        .of_odd_size()
        .with_some_spares()
    }

    /// The plan of a seed whose array grows: of a level that can, with superblocks of its own.
    pub fn growing(seed: u64) -> Self {
        // Chance of its own finds a seed with such a level: what other storms draw stays as it is.
        let mut random = Random::stream(seed, 0x6772_6f77);
        loop {
            let mut plan = Self::new(random.next());
            let level = plan.shape.level;
            let grows = matches!(level, Level::Raid1 | Level::Raid4 | Level::Raid5 | Level::Raid6);
            if grows && !plan.container && !plan.second_devices && !plan.is_large() {
                plan.shape.filed = false;
                return Self { grows, seed, ..plan };
            }
        }
    }

    /// The members of some are no multiple of what a process takes at a time: of a few KiB, and of 4 MiB as in the product, where
    /// a boot goes over so much that few can be.
    fn of_odd_size(mut self) -> Self {
        let mut random = Random::stream(self.seed, 0x6f64_6473);
        if self.shape.level.is_redundant() && random.one_in(4) {
            self.shape.rows = *random.pick(&[19, 25, 37]);
            if random.one_in(64) {
                (self.shape.rows, self.shape.chunk) = (1051, 64 << 10);
            }
        }
        self
    }

    /// Whether members are so large that a recovery's windows are those of the product.
    pub fn is_large(&self) -> bool {
        self.shape.rows * self.shape.chunk >= 64 << 20
    }

    /// Whether a drive, by its number among members, spares and second devices, makes no zeroes and discards nothing.
    pub(super) fn is_unable(&self, drive: u64) -> bool {
        self.unable && Random::stream(self.seed, 0x756e_0000 + drive).one_in(2)
    }

    /// Some have spares.
    fn with_some_spares(mut self) -> Self {
        let mut random = Random::stream(self.seed, 0x7370_6172);
        if self.may_have_spares() && random.one_in(4) {
            self.shape.spares = 1 + random.below(2) as usize;
            self.late = random.one_in(2);
        }
        self
    }

    /// The plan with the array's state kept by a container.
    #[must_use]
    pub fn contained(mut self) -> Self {
        self.container = true;
        self.shape.spares = 0;
        self
    }

    /// Whether a boot does some work beside its clients; by chance, if that is left to the seed.
    pub(super) fn does(&self, work: Work, chance: bool) -> bool {
        self.work.map_or(chance, |only| only == work)
    }

    /// Whether a device that takes a place gets the place's number, as in 0.90.
    pub(super) fn changes_numbers(&self) -> bool {
        self.shape.spares > 0 && !self.shape.version.is_v1()
    }

    /// A container has none yet, and what fills a second place is not what replaces a member.
    pub fn may_have_spares(&self) -> bool {
        self.shape.level.is_redundant() && !self.container && !self.second_devices
    }
}

/// A drive with a volatile cache, quick: nothing is gained by waiting longer.
fn quick() -> Model {
    Model { flush_latency: 150_000, ..Model::sata_ssd() }
}

fn drives(random: &mut Random) -> Model {
    let quick = quick();
    *random.pick(&[
        quick,
        quick,
        Model { tear_unit: 4096, ..quick },
        Model { logical_block: 4096, tear_unit: 4096, ..quick },
        Model::nvme(),
    ])
}

impl core::fmt::Display for StormPlan {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let cache = if self.model.volatile_cache { "volatile" } else { "no" };
        let (shape, block, tear) = (&self.shape, self.model.logical_block, self.model.tear_unit);
        let container = if self.container { ", kept by a container" } else { "" };
        let second_devices = if self.second_devices { ", two devices to a role" } else { "" };
        let watched = if self.watched { "" } else { ", unwatched" };
        let large = if self.is_large() { ", large members" } else { "" };
        let late = if self.late { ", spares that are added late" } else { "" };
        let unable = if self.unable { ", some of which make no zeroes" } else { "" };
        write!(
            f,
            "{shape}{large}{container}{second_devices}{late}{watched}; drives with {cache} cache, blocks of {block}, torn at {tear}{unable}; "
        )?;
        let streams = if self.streams { ", that follow each other" } else { "" };
        let by = match self.reactors {
            _ if !self.doors => String::new(),
            1 => ", by two doors".to_owned(),
            reactors => format!(", by two doors, one of them of {reactors} reactors"),
        };
        let grows = if self.grows { ", while it grows" } else { "" };
        write!(f, "{} clients of {} requests each{streams}{by}{grows}", self.lanes, self.requests)
    }
}
