//! Uberblocks: where everything is, who wrote it, and who is out.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::impossible;
use super::page::{RawRoot, Root};
use super::scrub::{RawScrub, ScrubRecord};
use super::tree::{RawSubtree, Subtree};
use super::{
    BLOCK, ConfigName, HISTORY_PAGES, MAX_NAME, PoolError, VERSION, check_number, check_version, name_of,
    own_checksum,
};
use uuid::Uuid;

/// Segments whose shape stands in an uberblock.
pub const ROOTED: usize = 128;
/// Openings that an uberblock remembers.
pub const LINEAGE: usize = 64;
/// The entry of a lineage that says that the next one was overruled. No opening has this number.
pub const OVERRULED: u64 = 0;
const MAGIC: [u8; 8] = *b"BRNDUBER";
const CHECKSUM_AT: usize = 8;
/// The first bytes of an identity that was made for a host that has none of its own.
const MADE: [u8; 4] = *b"brnd";
/// The kind of all checksums: CRC-32C.
const CRC32C: u8 = 0;
const TAIL: usize = BLOCK - 3992 - size_of::<RawScrub>();

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawUberblock {
    magic: [u8; 8],
    checksum: U32,
    version: U32,
    pool: [u8; 16],
    record: U64,
    opening: U64,
    checkpoint: U64,
    sequence: U64,
    time: U64,
    next_volume: U32,
    next_node: U32,
    dead: RawRoot,
    segments: RawRoot,
    volumes: RawRoot,
    nodes: RawRoot,
    out: [u8; 32],
    lineage_count: U16,
    reserved: [u8; 6],
    stopped: U64,
    config_generation: U64,
    lineage: [U64; LINEAGE],
    rooted_count: U16,
    reserved3: [u8; 6],
    rooted: [RawRooted; ROOTED],
    config_checksum: U32,
    checksum_kind: u8,
    exported: u8,
    reserved4: [u8; 2],
    host: [u8; 16],
    host_name: [u8; MAX_NAME],
    history: RawRoot,
    processes: RawRoot,
    map: RawSubtree,
    tail: [u8; TAIL],
    scrub: RawScrub,
}

const _: () = assert!(size_of::<RawUberblock>() == BLOCK);

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRooted {
    segment: U32,
    stripe: u8,
    parity: u8,
    unit: u8,
    chunk: u8,
    members: U64,
    missing: U64,
}

/// The shape of a segment that holds pages of the list of segments: nothing else tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rooted {
    /// The segment.
    pub segment: u32,
    /// Places of a stripe.
    pub stripe: u8,
    /// Parity blocks of a stripe.
    pub parity: u8,
    /// Bytes of a unit, as a power of two.
    pub unit: u8,
    /// Rows that go down one member before the next has its turn.
    pub chunk: u8,
    /// Members of its vdev that it lies on, a bit each.
    pub members: u64,
    /// Of these, the ones that are not read.
    pub missing: u64,
}

/// The host that has a pool open, or had it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its identity: that of the machine, or one that was made for it.
    pub id: Uuid,
    name: [u8; MAX_NAME],
}

impl Host {
    /// No host: the pool was made, and never opened.
    pub const NONE: Self = Self { id: Uuid::nil(), name: [0; MAX_NAME] };

    /// A host. Of a name what fits is kept; one with control characters is none.
    pub fn new(id: Uuid, name: &str) -> Self {
        let mut field = [0; MAX_NAME];
        let fits = (0..=name.len().min(MAX_NAME)).rev().find_map(|len| name.get(..len)).unwrap_or("");
        let name = if fits.chars().any(char::is_control) { "" } else { fits };
        field.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
        Self { id, name: field }
    }

    /// A host whose identity was made for it, and may be another one when it starts the next time.
    pub fn made(id: Uuid, name: &str) -> Self {
        let mut bytes = id.into_bytes();
        bytes.iter_mut().zip(MADE).for_each(|(byte, made)| *byte = made);
        Self::new(Uuid::from_bytes(bytes), name)
    }

    /// Whether its identity is that of a machine, which has it for good.
    pub fn is_lasting(&self) -> bool {
        !self.id.is_nil() && !self.id.as_bytes().starts_with(&MADE)
    }

    /// Its name, which is shown. It decides nothing, but where identities don't last.
    pub fn name(&self) -> String {
        name_of(&self.name).unwrap_or_default()
    }
}

/// An uberblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uberblock {
    /// The pool.
    pub pool: Uuid,
    /// Grows with each uberblock of an opening.
    pub record: u64,
    /// The opening for writing that wrote it.
    pub opening: u64,
    /// Grows by one with each checkpoint.
    pub checkpoint: u64,
    /// Batches up to this one are in the map.
    pub sequence: u64,
    /// Seconds since 1970.
    pub time: u64,
    /// The number of the next volume,
    pub next_volume: u32,
    /// and of the next node.
    pub next_node: u32,
    /// The top of the map; `None` of one that is empty.
    pub map: Option<Subtree>,
    /// Pages of the map in which no block is found any more.
    pub dead: Root,
    /// Segments.
    pub segments: Root,
    /// Volumes.
    pub volumes: Root,
    /// Nodes.
    pub nodes: Root,
    /// The history.
    pub history: Root,
    /// Members whose content is not to be believed, a bit each, by their number in the pool.
    pub out: [u8; 32],
    /// The pool was stopped in order: nothing was written after this checkpoint.
    pub stopped: bool,
    /// Openings that this one comes from, and those that were overruled, each behind an [`OVERRULED`]; the youngest first.
    pub lineage: Vec<u64>,
    /// Shapes of the segments that hold the list of segments.
    pub rooted: Vec<Rooted>,
    /// The config that counts.
    pub config: ConfigName,
    /// The host that wrote it.
    pub host: Host,
    /// No host has the pool: it was made and never opened, or given away by that host.
    pub exported: bool,
    /// The scrub that is under way, or the last one.
    pub scrub: ScrubRecord,
}

impl Uberblock {
    /// Whether a member's content is not to be believed.
    pub fn is_out(&self, member: u16) -> bool {
        let byte = self.out.get(usize::from(member >> 3)).copied().unwrap_or(0xff);
        byte & (1 << (member & 7)) != 0
    }

    /// Whether it comes from that opening, is it, or overruled it.
    pub fn comes_from(&self, opening: u64) -> bool {
        self.opening == opening || opening != OVERRULED && self.lineage.contains(&opening)
    }

    /// Whether another is of its past, all of which it knows: not of an opening that was overruled.
    pub fn descends_from(&self, other: &Self) -> bool {
        if self.opening == other.opening {
            return self.record >= other.record;
        }
        let before = |at: usize| at.checked_sub(1).and_then(|at| self.lineage.get(at));
        let is_own =
            |(at, opening): (usize, &u64)| *opening == other.opening && before(at) != Some(&OVERRULED);
        other.opening != OVERRULED && self.lineage.iter().enumerate().any(is_own)
    }

    /// The block's bytes.
    ///
    /// # Errors
    /// [`PoolError::TooMany`], or of a number that no reader would take.
    pub fn encode(&self) -> Result<Vec<u8>, PoolError> {
        check_numbers([self.record, self.checkpoint, self.sequence])?;
        let mut raw = RawUberblock::new_zeroed();
        if self.lineage.len() > LINEAGE {
            let (count, most) = (self.lineage.len() as u64, LINEAGE as u64);
            return Err(PoolError::TooMany { what: "openings", count, most });
        }
        raw.magic = MAGIC;
        raw.version = VERSION.into();
        raw.pool = *self.pool.as_bytes();
        raw.record = self.record.into();
        raw.opening = self.opening.into();
        raw.checkpoint = self.checkpoint.into();
        raw.sequence = self.sequence.into();
        raw.time = self.time.into();
        raw.next_volume = self.next_volume.into();
        raw.next_node = self.next_node.into();
        raw.dead = self.dead.raw();
        raw.map = Subtree::raw_top(self.map);
        raw.segments = self.segments.raw();
        raw.volumes = self.volumes.raw();
        raw.nodes = self.nodes.raw();
        raw.out = self.out;
        raw.stopped = u64::from(self.stopped).into();
        raw.lineage_count = (self.lineage.len() as u16).into();
        if self.rooted.len() > ROOTED {
            let (count, most) = (self.rooted.len() as u64, ROOTED as u64);
            return Err(PoolError::TooMany { what: "segments of the list of segments", count, most });
        }
        raw.rooted_count = (self.rooted.len() as u16).into();
        for (place, rooted) in raw.rooted.iter_mut().zip(&self.rooted) {
            *place = RawRooted {
                segment: rooted.segment.into(),
                stripe: rooted.stripe,
                parity: rooted.parity,
                unit: rooted.unit,
                chunk: rooted.chunk,
                members: rooted.members.into(),
                missing: rooted.missing.into(),
            };
        }
        raw.config_generation = self.config.generation.into();
        raw.config_checksum = self.config.checksum.into();
        raw.checksum_kind = CRC32C;
        raw.exported = self.exported.into();
        raw.scrub = self.scrub.raw();
        raw.host = *self.host.id.as_bytes();
        raw.host_name = self.host.name;
        raw.history = self.history.raw();
        raw.processes = Root::default().raw();
        for (place, &opening) in raw.lineage.iter_mut().zip(&self.lineage) {
            *place = opening.into();
        }
        raw.checksum = own_checksum(raw.as_bytes(), CHECKSUM_AT).into();
        Ok(raw.as_bytes().to_vec())
    }

    /// Reads one of that pool.
    ///
    /// # Errors
    /// [`PoolError`] if there is none, it is of another pool, torn, or holds what can't be.
    pub fn parse(bytes: &[u8], pool: Uuid) -> Result<Self, PoolError> {
        let what = "uberblock";
        let short = PoolError::Short { what, have: bytes.len(), need: BLOCK };
        let (raw, _) = RawUberblock::ref_from_prefix(bytes).map_err(|_| short)?;
        if raw.magic != MAGIC {
            return Err(PoolError::Magic { what });
        }
        let (found, expected) = (raw.checksum.get(), own_checksum(raw.as_bytes(), CHECKSUM_AT));
        if found != expected {
            return Err(PoolError::Checksum { what, found, expected });
        }
        if raw.pool != *pool.as_bytes() {
            return Err(PoolError::Foreign { what });
        }
        check_version(what, raw.version.get())?;
        check_numbers([raw.record.get(), raw.checkpoint.get(), raw.sequence.get()])?;
        let count = raw.lineage_count.get();
        let lineage =
            raw.lineage.get(..usize::from(count)).ok_or(impossible(what, "lineage_count", count))?;
        let count = raw.rooted_count.get();
        let rooted = raw.rooted.get(..usize::from(count)).ok_or(impossible(what, "rooted_count", count))?;
        let rooted_of = |raw: &RawRooted| Rooted {
            segment: raw.segment.get(),
            stripe: raw.stripe,
            parity: raw.parity,
            unit: raw.unit,
            chunk: raw.chunk,
            members: raw.members.get(),
            missing: raw.missing.get(),
        };
        if raw.stopped.get() > 1 {
            return Err(impossible(what, "stopped", raw.stopped.get()));
        }
        if raw.exported > 1 {
            return Err(impossible(what, "exported", raw.exported));
        }
        if raw.checksum_kind != CRC32C {
            return Err(PoolError::unknown(what, "checksum_kind", raw.checksum_kind));
        }
        if let Some(top) = Root::of(&raw.processes)?.top {
            return Err(PoolError::unknown(what, "processes", top.address.0));
        }
        let history = Root::of(&raw.history)?;
        if history.pages > HISTORY_PAGES {
            return Err(impossible(what, "history", history.pages));
        }
        let _name = name_of(&raw.host_name).ok_or(impossible(what, "host_name", 0u8))?;
        Ok(Self {
            pool,
            record: raw.record.get(),
            opening: raw.opening.get(),
            checkpoint: raw.checkpoint.get(),
            sequence: raw.sequence.get(),
            time: raw.time.get(),
            next_volume: raw.next_volume.get(),
            next_node: raw.next_node.get(),
            map: Subtree::of_top(&raw.map)?,
            dead: Root::of(&raw.dead)?,
            segments: Root::of(&raw.segments)?,
            volumes: Root::of(&raw.volumes)?,
            nodes: Root::of(&raw.nodes)?,
            history,
            out: raw.out,
            stopped: raw.stopped.get() == 1,
            lineage: lineage.iter().map(|opening| opening.get()).collect(),
            rooted: rooted.iter().map(rooted_of).collect(),
            config: ConfigName {
                generation: raw.config_generation.get(),
                checksum: raw.config_checksum.get(),
            },
            host: Host { id: Uuid::from_bytes(raw.host), name: raw.host_name },
            exported: raw.exported == 1,
            scrub: ScrubRecord::of(&raw.scrub)?,
        })
    }
}

/// The numbers of an uberblock, of its checkpoint and of the last batch in that.
fn check_numbers([record, checkpoint, sequence]: [u64; 3]) -> Result<(), PoolError> {
    check_number("uberblock", "record", record)?;
    check_number("uberblock", "checkpoint", checkpoint)?;
    check_number("uberblock", "sequence", sequence)
}
