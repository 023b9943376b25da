//! Vdevs in a config, their members, and the segments that are theirs.

use uuid::Uuid;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::impossible;
use super::place::{MAX_PARITY, MAX_WIDTH};
use super::{BLOCK, PoolError};

/// Numbers of segments are less than this.
pub(super) const MAX_SEGMENTS: u32 = 1 << 28;
/// The vdev and the role of a member that has none.
const NO_ROLE: u16 = u16::MAX;

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
    /// How many members it has: its roles are the numbers below.
    pub members: u16,
    /// How many segments it has: those of all of its runs.
    pub units: u32,
}

/// Segments of a vdev that follow one another, in units of its members that do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of its first segment in the pool,
    pub first_segment: u32,
    /// and how many there are.
    pub units: u32,
    /// The number of the first segment's unit on each member.
    pub first_unit: u32,
    /// The vdev.
    pub vdev: u16,
}

/// The standing of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It has a role.
    InUse,
    /// It waits for a role.
    Spare,
    /// It is given a copy of all that the member of a role has, and takes that role then.
    Successor {
        /// The vdev,
        vdev: u16,
        /// and the role there.
        role: u16,
    },
    /// It has a role, and nothing is read from it nor written to it.
    Offline,
    /// It is a member no more. Its number can be given to another. One that left a vdev of copies leaves its role vacant until another is attached.
    Gone,
}

/// A member, as every label has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// Its own identity.
    pub id: Uuid,
    /// Bytes of the device when it was added, in whole blocks.
    pub size: u64,
    /// The vdev and the role there; none of spares and successors. Of one that is gone the role that is vacant, if any is.
    pub role: Option<(u16, u16)>,
    /// Units that it has.
    pub units: u32,
    /// Its standing.
    pub state: MemberState,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawVdev {
    kind: u8,
    parity: u8,
    unit: u8,
    reserved: u8,
    members: U16,
    reserved2: U16,
    units: U32,
    reserved3: [u8; 20],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawMember {
    id: [u8; 16],
    blocks: [u8; 6],
    vdev: U16,
    role: U16,
    units: U32,
    state: u8,
    reserved: u8,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawRun {
    first_segment: U32,
    units: U32,
    first_unit: U32,
    vdev: U16,
    reserved: U16,
}

impl Vdev {
    pub(super) fn raw(&self) -> RawVdev {
        RawVdev {
            kind: match self.kind {
                VdevKind::Plain => 0,
                VdevKind::Mirror => 1,
                VdevKind::Raidz => 2,
            },
            parity: self.parity,
            unit: self.unit,
            reserved: 0,
            members: self.members.into(),
            reserved2: 0.into(),
            units: self.units.into(),
            reserved3: [0; 20],
        }
    }

    pub(super) fn of(raw: &RawVdev) -> Result<Self, PoolError> {
        let what = "vdev";
        let kind = match raw.kind {
            0 => VdevKind::Plain,
            1 => VdevKind::Mirror,
            2 => VdevKind::Raidz,
            other => return Err(PoolError::unknown(what, "kind", other)),
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
        let units = raw.units.get();
        if units == 0 || units > MAX_SEGMENTS {
            return Err(impossible(what, "units", units));
        }
        Ok(Self { kind, parity, unit: raw.unit, members, units })
    }
}

impl MemberRecord {
    /// It waits for a role, whichever or a certain one.
    pub const fn is_spare(&self) -> bool {
        matches!(self.state, MemberState::Spare | MemberState::Successor { .. })
    }

    pub(super) fn raw(&self) -> RawMember {
        let (vdev, role) = match self.state {
            MemberState::Successor { vdev, role } => (vdev, role),
            _ => self.role.unwrap_or((NO_ROLE, NO_ROLE)),
        };
        let [a, b, c, d, e, f, ..] = (self.size >> BLOCK.ilog2()).to_le_bytes();
        RawMember {
            id: *self.id.as_bytes(),
            blocks: [a, b, c, d, e, f],
            vdev: vdev.into(),
            role: role.into(),
            units: self.units.into(),
            state: match self.state {
                MemberState::InUse => 0,
                MemberState::Spare => 1,
                MemberState::Offline => 2,
                MemberState::Gone => 3,
                MemberState::Successor { .. } => 4,
            },
            reserved: 0,
        }
    }

    pub(super) fn of(raw: &RawMember) -> Result<Self, PoolError> {
        let what = "member";
        let (vdev, role) = (raw.vdev.get(), raw.role.get());
        let state = match raw.state {
            0 => MemberState::InUse,
            1 => MemberState::Spare,
            2 => MemberState::Offline,
            3 => MemberState::Gone,
            4 => MemberState::Successor { vdev, role },
            other => return Err(PoolError::unknown(what, "state", other)),
        };
        let [a, b, c, d, e, f] = raw.blocks;
        let size = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) << BLOCK.ilog2();
        let has_role = matches!(state, MemberState::InUse | MemberState::Offline);
        let is_gone = state == MemberState::Gone;
        let role = match (has_role, vdev, role) {
            (true, ..) => Some((vdev, role)),
            (false, NO_ROLE, NO_ROLE) => None,
            (false, ..) if is_gone => Some((vdev, role)),
            (false, ..) if matches!(state, MemberState::Successor { .. }) => None,
            (false, ..) => return Err(impossible(what, "role", role)),
        };
        Ok(Self { id: Uuid::from_bytes(raw.id), size, role, units: raw.units.get(), state })
    }
}

impl Run {
    /// The number behind that of its last segment.
    pub const fn end(&self) -> u32 {
        self.first_segment.saturating_add(self.units)
    }

    pub(super) fn raw(&self) -> RawRun {
        RawRun {
            first_segment: self.first_segment.into(),
            units: self.units.into(),
            first_unit: self.first_unit.into(),
            vdev: self.vdev.into(),
            reserved: 0.into(),
        }
    }

    pub(super) fn of(raw: &RawRun) -> Result<Self, PoolError> {
        let (first_segment, units) = (raw.first_segment.get(), raw.units.get());
        if units == 0 || first_segment.checked_add(units).is_none_or(|end| end > MAX_SEGMENTS) {
            return Err(impossible("run", "units", units));
        }
        Ok(Self { first_segment, units, first_unit: raw.first_unit.get(), vdev: raw.vdev.get() })
    }
}
