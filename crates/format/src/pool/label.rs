//! Labels: a config in one of two places, which names the pool, the member, and all other members.

use uuid::Uuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::impossible;
use super::leaf::LeafForms;
use super::vdev::{MemberRecord, MemberState, RawMember, RawRun, RawVdev, Run, Vdev, VdevKind};
use super::{CONFIG_BYTES, PoolError, VERSION, check_version, name_field, name_of, own_checksum};

/// The most vdevs of a pool.
pub const MAX_VDEVS: usize = 64;
/// The most members of a pool.
pub const MAX_MEMBERS: usize = 256;
/// The most runs of segments of a pool.
pub const MAX_RUNS: usize = 112;
/// The most changes of a config: the generation behind the last one can't be.
pub const MAX_GENERATION: u64 = 1 << 62;
/// Numbers of segments that a pool may leave out: so many for each that it has, and so many beside.
const LEFT_OUT: (u64, u64) = (3, 1 << 16);
/// The most bytes of a name.
pub const MAX_NAME: usize = 64;
/// Compatible features that this release knows: none.
pub const COMPATIBLE: u64 = 0;
/// The feature, of those that forbid others to write, that segments are used again between checkpoints.
pub const REUSE: u64 = 1;
/// The feature, of those that forbid others to read, that leaves may be dense.
pub const DENSE_LEAVES: u64 = 1;
/// The feature, of the same kind, that leaves may be of runs, and that segments may have a turn.
pub const RUN_LEAVES: u64 = 2;
/// Features without which a release may not write, as far as this one knows them.
pub const READ_ONLY: u64 = REUSE;
/// Features without which nothing can be read, as far as this release knows them.
pub const INCOMPATIBLE: u64 = DENSE_LEAVES | RUN_LEAVES;
const MAGIC: [u8; 8] = *b"BRNDPOOL";
const CHECKSUM_AT: usize = 8;

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
    pub const NOW: Self = Self { compatible: 0, read_only: REUSE, incompatible: INCOMPATIBLE };

    /// The kinds of leaves that there may be.
    pub const fn leaves(self) -> LeafForms {
        let of = self.incompatible;
        LeafForms { dense: of & DENSE_LEAVES != 0, runs: of & RUN_LEAVES != 0 }
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

/// The config that counts, as an uberblock names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfigName {
    /// Grows by one with each change of the config.
    pub generation: u64,
    /// The checksum of the config as member 0 has it.
    pub checksum: u32,
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
    /// Grows by one with each change of the config; 1 of the first, [`MAX_GENERATION`] of the last that there can be.
    pub generation: u64,
    /// This member's number in the pool.
    pub member: u16,
    /// All vdevs.
    pub vdevs: Vec<Vdev>,
    /// All members, in any order.
    pub members: Vec<MemberRecord>,
    /// All segments, in the order of their numbers.
    pub runs: Vec<Run>,
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
    runs_count: U16,
    name: [u8; 64],
    generation: U64,
    reserved: [u8; 112],
    vdevs: [RawVdev; MAX_VDEVS],
    members: [RawMember; MAX_MEMBERS],
    runs: [RawRun; MAX_RUNS],
}

const _: () = assert!(size_of::<RawLabel>() == CONFIG_BYTES);

impl Label {
    /// The config's bytes.
    ///
    /// # Errors
    /// [`PoolError::TooMany`], or of a generation that can't be.
    pub fn encode(&self) -> Result<Vec<u8>, PoolError> {
        self.check_generation()?;
        let check = |what, count: usize, most: usize| match count <= most {
            true => Ok(()),
            false => Err(PoolError::TooMany { what, count: count as u64, most: most as u64 }),
        };
        check("vdevs", self.vdevs.len(), MAX_VDEVS)?;
        check("members", self.members.len(), MAX_MEMBERS)?;
        check("runs of segments", self.runs.len(), MAX_RUNS)?;
        let mut raw = RawLabel::new_zeroed();
        raw.magic = MAGIC;
        raw.version = VERSION.into();
        raw.pool = *self.pool.as_bytes();
        raw.compatible = self.features.compatible.into();
        raw.read_only = self.features.read_only.into();
        raw.incompatible = self.features.incompatible.into();
        raw.created = self.created.into();
        raw.generation = self.generation.into();
        raw.member = self.member.into();
        raw.vdevs_count = (self.vdevs.len() as u16).into();
        raw.members_count = (self.members.len() as u16).into();
        raw.runs_count = (self.runs.len() as u16).into();
        raw.name = name_field(&self.name)?;
        raw.vdevs.iter_mut().zip(&self.vdevs).for_each(|(place, vdev)| *place = vdev.raw());
        raw.members.iter_mut().zip(&self.members).for_each(|(place, member)| *place = member.raw());
        raw.runs.iter_mut().zip(&self.runs).for_each(|(place, run)| *place = run.raw());
        raw.checksum = own_checksum(raw.as_bytes(), CHECKSUM_AT).into();
        Ok(raw.as_bytes().to_vec())
    }

    /// The config of another member.
    pub fn of_member(&self, member: u16) -> Self {
        Self { member, ..self.clone() }
    }

    /// Its name in uberblocks.
    ///
    /// # Errors
    /// As of [`Label::encode`].
    pub fn config_name(&self) -> Result<ConfigName, PoolError> {
        let bytes = self.of_member(0).encode()?;
        Ok(ConfigName { generation: self.generation, checksum: own_checksum(&bytes, CHECKSUM_AT) })
    }

    /// Reads a config.
    ///
    /// # Errors
    /// [`PoolError`] if there is none, it is torn, of another version, or holds what can't be or is not known.
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
        check_version(what, raw.version.get())?;
        let (vdevs, members, runs) = (raw.vdevs_count.get(), raw.members_count.get(), raw.runs_count.get());
        let vdevs = raw.vdevs.get(..usize::from(vdevs)).ok_or(impossible(what, "vdevs_count", vdevs))?;
        let members =
            raw.members.get(..usize::from(members)).ok_or(impossible(what, "members_count", members))?;
        let runs = raw.runs.get(..usize::from(runs)).ok_or(impossible(what, "runs_count", runs))?;
        let label = Self {
            pool: Uuid::from_bytes(raw.pool),
            name: name_of(&raw.name).ok_or(impossible(what, "name", 0u8))?,
            created: raw.created.get(),
            features: Features {
                compatible: raw.compatible.get(),
                read_only: raw.read_only.get(),
                incompatible: raw.incompatible.get(),
            },
            generation: raw.generation.get(),
            member: raw.member.get(),
            vdevs: vdevs.iter().map(Vdev::of).collect::<Result<_, _>>()?,
            members: members.iter().map(MemberRecord::of).collect::<Result<_, _>>()?,
            runs: runs.iter().map(Run::of).collect::<Result<_, _>>()?,
        };
        label.check()?;
        // Each change of the config writes it anew, without what stands in bytes that this version keeps free.
        if label.encode()? != raw.as_bytes() {
            return Err(PoolError::unknown(what, "reserved", 1u8));
        }
        Ok(label)
    }

    /// The pool that a config names. Configs of all versions have that at the same place, so also one that is not read.
    pub fn pool_in(bytes: &[u8]) -> Option<Uuid> {
        let (raw, _) = RawLabel::ref_from_prefix(bytes).ok()?;
        (raw.magic == MAGIC).then(|| Uuid::from_bytes(raw.pool))
    }

    fn check_generation(&self) -> Result<(), PoolError> {
        match self.generation {
            1..=MAX_GENERATION => Ok(()),
            other => Err(impossible("label", "generation", other)),
        }
    }

    /// Members have roles, and segments vdevs and units.
    fn check(&self) -> Result<(), PoolError> {
        self.check_generation()?;
        if usize::from(self.member) >= self.members.len() {
            return Err(impossible("label", "member", self.member));
        }
        let roles: Vec<(u16, u16)> = self.members.iter().filter_map(|member| member.role).collect();
        let mut sorted = roles.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let all =
            (0u16..).zip(&self.vdevs).flat_map(|(n, vdev)| (0..vdev.members).map(move |role| (n, role)));
        if sorted.len() != roles.len() || !sorted.into_iter().eq(all) {
            return Err(impossible("label", "role", roles.len() as u64));
        }
        self.check_vacant()?;
        self.check_successors()?;
        let is_there = |member: &&MemberRecord| member.state != MemberState::Gone;
        let mut ids: Vec<Uuid> = self.members.iter().filter(is_there).map(|member| member.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(impossible("label", "id", self.members.len() as u64));
        }
        self.check_runs()
    }

    /// Roles are vacant in vdevs of copies alone, and never all.
    fn check_vacant(&self) -> Result<(), PoolError> {
        for (n, vdev) in (0u16..).zip(&self.vdevs) {
            let vacant = self.vacant_of(n).count();
            if vacant > 0 && (vdev.kind != VdevKind::Mirror || vacant >= usize::from(vdev.members)) {
                return Err(impossible("label", "role", vacant as u64));
            }
        }
        Ok(())
    }

    /// A role has one successor at most, and a member that has it.
    fn check_successors(&self) -> Result<(), PoolError> {
        let mut roles: Vec<(u16, u16)> = self.successors().map(|(_, role)| role).collect();
        roles.sort_unstable();
        let is_twice = roles.windows(2).any(|pair| pair.first() == pair.last());
        match roles.iter().find(|role| is_twice || self.holder_of(**role).is_none()) {
            Some(&(_, role)) => Err(impossible("label", "successor", role)),
            None => Ok(()),
        }
    }

    /// Members that are to take roles once they have a copy of all: their numbers, and the vdev and the role of each.
    pub fn successors(&self) -> impl Iterator<Item = (u16, (u16, u16))> {
        let of = |(number, member): (u16, &MemberRecord)| match member.state {
            MemberState::Successor { vdev, role } => Some((number, (vdev, role))),
            _ => None,
        };
        (0..).zip(&self.members).filter_map(of)
    }

    /// The number of the member that has a role, in use or offline.
    pub fn holder_of(&self, role: (u16, u16)) -> Option<u16> {
        let has = |member: &MemberRecord| member.role == Some(role) && member.state != MemberState::Gone;
        self.members.iter().position(has).map(|number| number as u16)
    }

    /// Members that are gone whose role in a vdev no other has yet, by their numbers.
    pub fn vacant_of(&self, vdev: u16) -> impl Iterator<Item = u16> {
        let is_vacant = move |(_, member): &(u16, &MemberRecord)| {
            member.state == MemberState::Gone && member.role.is_some_and(|(of, _)| of == vdev)
        };
        (0u16..).zip(&self.members).filter(is_vacant).map(|(member, _)| member)
    }

    /// Runs are in the order of their segments, each segment is of one of them, and so is each unit.
    fn check_runs(&self) -> Result<(), PoolError> {
        let (what, mut last) = ("run", 0);
        for (n, run) in self.runs.iter().enumerate() {
            if run.first_segment < last {
                return Err(impossible(what, "first_segment", run.first_segment));
            }
            last = run.end();
            if usize::from(run.vdev) >= self.vdevs.len() {
                return Err(impossible(what, "vdev", run.vdev));
            }
            let units = |run: &Run| {
                u64::from(run.first_unit)..u64::from(run.first_unit).saturating_add(run.units.into())
            };
            let own = units(run);
            let is_of = |member: &&MemberRecord| {
                member.state != MemberState::Gone && member.role.is_some_and(|(vdev, _)| vdev == run.vdev)
            };
            let least = self.members.iter().filter(is_of).map(|member| member.units).min();
            let overlaps = |other: &Run| {
                let (other, theirs) = (other.vdev, units(other));
                other == run.vdev && theirs.start < own.end && own.start < theirs.end
            };
            if own.end > u64::from(least.unwrap_or(0)) || self.runs.iter().take(n).any(overlaps) {
                return Err(impossible(what, "first_unit", run.first_unit));
            }
        }
        for (n, vdev) in (0u16..).zip(&self.vdevs) {
            let units: u64 = self.runs_of(n).map(|run| u64::from(run.units)).sum();
            if units != u64::from(vdev.units) {
                return Err(impossible("vdev", "units", vdev.units));
            }
        }
        self.check_left_out()
    }

    /// A reader has a record of each number in memory, also of those that are left out.
    fn check_left_out(&self) -> Result<(), PoolError> {
        let held: u64 = self.runs.iter().map(|run| u64::from(run.units)).sum();
        let (for_each, beside) = LEFT_OUT;
        let left_out = u64::from(self.segments()).saturating_sub(held);
        match left_out <= held.saturating_mul(for_each).saturating_add(beside) {
            true => Ok(()),
            false => Err(impossible("run", "first_segment", self.segments())),
        }
    }

    /// The runs of a vdev.
    pub fn runs_of(&self, vdev: u16) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.vdev == vdev)
    }

    /// The number behind that of the last segment.
    pub fn segments(&self) -> u32 {
        self.runs.last().map_or(0, Run::end)
    }

    /// The vdev of a segment, and its unit on each member.
    pub fn unit_of(&self, segment: u32) -> Option<(u16, u32)> {
        unit_of(&self.runs, segment)
    }
}

/// The vdev of a segment, and its unit on each member, by runs in the order of their segments.
pub fn unit_of(runs: &[Run], segment: u32) -> Option<(u16, u32)> {
    let behind = runs.partition_point(|run| run.first_segment <= segment);
    let run = runs.get(behind.checked_sub(1)?)?;
    (segment < run.end())
        .then(|| (run.vdev, run.first_unit.saturating_add(segment.saturating_sub(run.first_segment))))
}
