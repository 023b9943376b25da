//! Labels: they name the pool, the member, and all other members.

use uuid::Uuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::impossible;
use super::place::{MAX_PARITY, MAX_WIDTH};
use super::{CONFIG_BYTES, PoolError, name_field, name_of, own_checksum};

/// The most vdevs of a pool.
pub const MAX_VDEVS: usize = 64;
/// The most members of a pool.
pub const MAX_MEMBERS: usize = 256;
/// The most bytes of a name.
pub const MAX_NAME: usize = 64;
/// Compatible features that this release knows: none.
pub const COMPATIBLE: u64 = 0;
/// The feature, of those that forbid others to write, that segments are used again between checkpoints.
pub const REUSE: u64 = 1;
/// The feature, of those that forbid others to read, that leaves may be dense.
pub const DENSE_LEAVES: u64 = 1;
/// Features without which a release may not write, as far as this one knows them.
pub const READ_ONLY: u64 = REUSE;
/// Features without which nothing can be read, as far as this release knows them.
pub const INCOMPATIBLE: u64 = DENSE_LEAVES;
const MAGIC: [u8; 8] = *b"BRNDPOOL";
const CHECKSUM_AT: usize = 8;
const TAIL: usize = CONFIG_BYTES - 256 - MAX_VDEVS * 32 - MAX_MEMBERS * 32;

/// Kinds of vdevs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VdevKind {
    /// One device, without redundancy.
    Plain,
    /// Copies.
    Mirror,
    /// Rows with one to three parity blocks.
    Raidz,
}

/// A vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vdev {
    /// Its kind.
    pub kind: VdevKind,
    /// Members that may be lost.
    pub parity: u8,
    /// Bytes of a unit, as a power of two.
    pub unit: u8,
    /// Its first member's number in the pool,
    pub first_member: u16,
    /// and how many it has.
    pub members: u16,
    /// Its first segment's number in the pool,
    pub first_segment: u32,
    /// and how many it has: units of each member.
    pub units: u32,
}

/// A member, as every label has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// Its own identity.
    pub id: Uuid,
    /// Bytes of the device when it was added.
    pub size: u64,
}

/// Bits of features that a pool uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// A reader that does not know one of these may write, too.
    pub compatible: u64,
    /// A reader that does not know one of these may read, and not write.
    pub read_only: u64,
    /// A reader that does not know one of these may not even read.
    pub incompatible: u64,
}

impl Features {
    /// Those of pools that this release makes.
    pub const NOW: Self = Self { compatible: 0, read_only: REUSE, incompatible: DENSE_LEAVES };

    /// Leaves may be dense.
    pub const fn dense_leaves(self) -> bool {
        self.incompatible & DENSE_LEAVES != 0
    }

    /// Segments may be used again between checkpoints.
    pub const fn reuse(self) -> bool {
        self.read_only & REUSE != 0
    }

    /// Bits that this release does not know, of each kind.
    pub const fn unknown(self) -> Self {
        Self {
            compatible: self.compatible & !COMPATIBLE,
            read_only: self.read_only & !READ_ONLY,
            incompatible: self.incompatible & !INCOMPATIBLE,
        }
    }
}

/// A config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The pool.
    pub pool: Uuid,
    /// Its name.
    pub name: String,
    /// Seconds since 1970 when it was made.
    pub created: u64,
    /// Features that it uses.
    pub features: Features,
    /// This member's number in the pool.
    pub member: u16,
    /// All vdevs.
    pub vdevs: Vec<Vdev>,
    /// All members, vdev by vdev.
    pub members: Vec<MemberRecord>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawVdev {
    kind: u8,
    parity: u8,
    unit: u8,
    reserved: u8,
    first_member: U16,
    members: U16,
    first_segment: U32,
    units: U32,
    reserved2: [u8; 16],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawMember {
    id: [u8; 16],
    size: U64,
    reserved: U64,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLabel {
    magic: [u8; 8],
    checksum: U32,
    version: U32,
    pool: [u8; 16],
    compatible: U64,
    read_only: U64,
    incompatible: U64,
    created: U64,
    member: U16,
    vdevs_count: U16,
    members_count: U16,
    reserved: U16,
    name: [u8; 64],
    reserved2: [u8; 120],
    vdevs: [RawVdev; MAX_VDEVS],
    members: [RawMember; MAX_MEMBERS],
    tail: [u8; TAIL],
}

const _: () = assert!(size_of::<RawLabel>() == CONFIG_BYTES);

impl Vdev {
    fn raw(&self) -> RawVdev {
        RawVdev {
            kind: match self.kind {
                VdevKind::Plain => 0,
                VdevKind::Mirror => 1,
                VdevKind::Raidz => 2,
            },
            parity: self.parity,
            unit: self.unit,
            reserved: 0,
            first_member: self.first_member.into(),
            members: self.members.into(),
            first_segment: self.first_segment.into(),
            units: self.units.into(),
            reserved2: [0; 16],
        }
    }

    fn of(raw: &RawVdev) -> Result<Self, PoolError> {
        let what = "vdev";
        let kind = match raw.kind {
            0 => VdevKind::Plain,
            1 => VdevKind::Mirror,
            2 => VdevKind::Raidz,
            other => return Err(impossible(what, "kind", other)),
        };
        let (members, parity) = (raw.members.get(), raw.parity);
        if members == 0 || members > u16::from(MAX_WIDTH) {
            return Err(impossible(what, "members", members));
        }
        if u16::from(parity) >= members || parity > MAX_PARITY {
            return Err(impossible(what, "parity", parity));
        }
        // A unit of 16 blocks to 64 MiB; all places of a segment have an address.
        if !(16..=26).contains(&raw.unit) || (u64::from(members) << (raw.unit & 31) >> 12) > 1 << 20 {
            return Err(impossible(what, "unit", raw.unit));
        }
        let (first_segment, units) = (raw.first_segment.get(), raw.units.get());
        if units == 0 || first_segment.checked_add(units).is_none_or(|end| end > 1 << 28) {
            return Err(impossible(what, "units", units));
        }
        let first_member = raw.first_member.get();
        Ok(Self { kind, parity, unit: raw.unit, first_member, members, first_segment, units })
    }
}

impl Label {
    /// The config's bytes.
    ///
    /// # Errors
    /// [`PoolError::TooMany`].
    pub fn encode(&self) -> Result<Vec<u8>, PoolError> {
        let check = |what, count: usize, most: usize| match count <= most {
            true => Ok(()),
            false => Err(PoolError::TooMany { what, count: count as u64, most: most as u64 }),
        };
        check("vdevs", self.vdevs.len(), MAX_VDEVS)?;
        check("members", self.members.len(), MAX_MEMBERS)?;
        let mut raw = RawLabel::new_zeroed();
        raw.magic = MAGIC;
        raw.version = 1.into();
        raw.pool = *self.pool.as_bytes();
        raw.compatible = self.features.compatible.into();
        raw.read_only = self.features.read_only.into();
        raw.incompatible = self.features.incompatible.into();
        raw.created = self.created.into();
        raw.member = self.member.into();
        raw.vdevs_count = (self.vdevs.len() as u16).into();
        raw.members_count = (self.members.len() as u16).into();
        raw.name = name_field(&self.name)?;
        for (place, vdev) in raw.vdevs.iter_mut().zip(&self.vdevs) {
            *place = vdev.raw();
        }
        for (place, member) in raw.members.iter_mut().zip(&self.members) {
            *place = RawMember { id: *member.id.as_bytes(), size: member.size.into(), reserved: 0.into() };
        }
        raw.checksum = own_checksum(raw.as_bytes(), CHECKSUM_AT).into();
        Ok(raw.as_bytes().to_vec())
    }

    /// Reads a config.
    ///
    /// # Errors
    /// [`PoolError`] if there is none, it is torn, of a later version, or holds what can't be.
    pub fn parse(bytes: &[u8]) -> Result<Self, PoolError> {
        let what = "label";
        let short = PoolError::Short { what, have: bytes.len(), need: CONFIG_BYTES };
        let (raw, _) = RawLabel::ref_from_prefix(bytes).map_err(|_| short)?;
        if raw.magic != MAGIC {
            return Err(PoolError::Magic { what });
        }
        let (found, expected) = (raw.checksum.get(), own_checksum(raw.as_bytes(), CHECKSUM_AT));
        if found != expected {
            return Err(PoolError::Checksum { what, found, expected });
        }
        if raw.version.get() != 1 {
            return Err(PoolError::Version { what, version: raw.version.get() });
        }
        let (vdevs, members) = (raw.vdevs_count.get(), raw.members_count.get());
        let vdevs = raw.vdevs.get(..usize::from(vdevs)).ok_or(impossible(what, "vdevs_count", vdevs))?;
        let members =
            raw.members.get(..usize::from(members)).ok_or(impossible(what, "members_count", members))?;
        let label = Self {
            pool: Uuid::from_bytes(raw.pool),
            name: name_of(&raw.name).ok_or(impossible(what, "name", 0u8))?,
            created: raw.created.get(),
            features: Features {
                compatible: raw.compatible.get(),
                read_only: raw.read_only.get(),
                incompatible: raw.incompatible.get(),
            },
            member: raw.member.get(),
            vdevs: vdevs.iter().map(Vdev::of).collect::<Result<_, _>>()?,
            members: members
                .iter()
                .map(|raw| MemberRecord { id: Uuid::from_bytes(raw.id), size: raw.size.get() })
                .collect(),
        };
        label.check()
    }

    /// Vdevs follow one another, in members and in segments.
    fn check(self) -> Result<Self, PoolError> {
        let (mut member, mut segment) = (0u16, 0u32);
        for vdev in &self.vdevs {
            if vdev.first_member != member {
                return Err(impossible("vdev", "first_member", vdev.first_member));
            }
            if vdev.first_segment != segment {
                return Err(impossible("vdev", "first_segment", vdev.first_segment));
            }
            member = member.saturating_add(vdev.members);
            segment = segment.saturating_add(vdev.units);
        }
        if usize::from(member) != self.members.len() || self.member >= member || segment > 1 << 28 {
            return Err(impossible("label", "member", self.member));
        }
        Ok(self)
    }
}
