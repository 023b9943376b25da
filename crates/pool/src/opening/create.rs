//! New pools.

use brindle_format::pool::{
    BLOCK, CONFIG_BYTES, Features, Host, LABEL, Label, MAX_NAME, MemberRecord, MemberState, POINTERS, RING,
    RING_SLOTS, ROOTED, Root, Run, SEGMENTS, ScrubRecord, Uberblock, Vdev, VdevKind, second_label, units_of,
};
use brindle_io::{Io, MemberId, OpClass, OpError};
use thiserror::Error;
use uuid::Uuid;

use crate::store::space::{FEWEST_UNITS, segments_at_most, sold};

/// Segments that an uberblock can name beside those that pages of a whole table of segments fill: of these some are only begun.
const BEGUN: usize = 8;

/// Segments with which a pool is made at most: a reader has a record of each in memory.
pub(crate) const MOST_SEGMENTS: u32 = 1 << 25;

/// A vdev as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VdevSpec {
    /// Its kind.
    pub kind: VdevKind,
    /// Members that may be lost.
    pub parity: u8,
    /// Bytes of each device.
    pub sizes: Vec<u64>,
}

/// A pool as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: Uuid,
    /// Identities of its members, vdev by vdev.
    pub members: Vec<Uuid>,
    /// The number of its first opening: of chance.
    pub opening: u64,
    /// Seconds since 1970.
    pub created: u64,
    /// Its vdevs.
    pub vdevs: Vec<VdevSpec>,
    /// Bytes of a unit, a power of two; `None` for what suits the devices.
    pub unit: Option<u64>,
}

/// Why there is no such pool.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PoolCreateError {
    /// A name that no pool, and no volume, can have.
    #[error(
        "{0:?} is not a name: give one of 1 to {MAX_NAME} bytes without '/', '@', spaces and control characters, that does not begin with '-', and neither . nor .."
    )]
    Name(String),
    /// No vdev, or one without devices.
    #[error("a pool needs devices: name them")]
    NoDevices,
    /// Too few for the parity.
    #[error(
        "vdev {vdev} has {have} devices, and needs {need} for its redundancy: name more, or choose another kind"
    )]
    TooFew {
        /// The vdev.
        vdev: usize,
        /// Devices.
        have: usize,
        /// Devices needed.
        need: usize,
    },
    /// More than there can be.
    #[error("{count} {what} are too many: a pool has at most {most}")]
    TooMany {
        /// Of these.
        what: &'static str,
        /// The number of devices.
        count: usize,
        /// At most.
        most: usize,
    },
    /// A device is too small.
    #[error("a device of vdev {vdev} has {have} bytes, and {need} are needed: use a larger one")]
    TooSmall {
        /// The vdev.
        vdev: usize,
        /// Bytes.
        have: u64,
        /// Bytes needed.
        need: u64,
    },
    /// A size of units that can't be.
    #[error("units of {0} bytes can't be: give a power of two from 64 KiB to 64 MiB")]
    Unit(u64),
    /// Its table of segments would lie in more of them than can be named.
    #[error(
        "a list of {units} units takes {need} of them, and {most} at most can be named: give larger units, or fewer devices"
    )]
    TooFine {
        /// Units of all vdevs.
        units: u32,
        /// Those that the list takes.
        need: u64,
        /// At most.
        most: usize,
    },
    /// Too many segments.
    #[error(
        "the pool would have {have} segments, and {MOST_SEGMENTS} are the most with which one is made: give larger units, or fewer devices"
    )]
    Segments {
        /// As many.
        have: u64,
    },
    /// A device did not take it.
    #[error("device {device} did not take it: {error}")]
    Write {
        /// Its place.
        device: usize,
        /// Why.
        error: OpError,
    },
}

/// A name that a pool or a volume can have.
///
/// # Errors
/// [`PoolCreateError::Name`].
pub fn check_name(name: &str) -> Result<(), PoolCreateError> {
    let wrong = |c: char| c.is_control() || c.is_whitespace() || c == '/' || c == '@';
    let is_folder = name == "." || name == "..";
    let sound = !is_folder
        && !name.is_empty()
        && name.len() <= MAX_NAME
        && !name.starts_with('-')
        && !name.contains(wrong);
    if sound { Ok(()) } else { Err(PoolCreateError::Name(name.to_owned())) }
}

/// Units for devices of that size: two to four thousand of each, but for large ones, whose units are no larger than units can be. With fewer of them
/// cleaning would move more, and with more the ends of segments cut more of what is written in order.
fn unit_for(size: u64) -> u8 {
    let near = (size / 2048).max(1).ilog2() as u8;
    near.clamp(16, 26)
}

/// The least units with which a pool of these vdevs has no more segments than one is made with.
fn least_unit(vdevs: &[VdevSpec]) -> u8 {
    let units = |unit: u8| vdevs.iter().map(|vdev| smallest_of(vdev) >> unit).sum::<u64>();
    (16..26).find(|&unit| units(unit) <= MOST_SEGMENTS.into()).unwrap_or(26)
}

/// Bytes of the smallest device. Sizes are recorded in whole blocks.
fn smallest_of(vdev: &VdevSpec) -> u64 {
    vdev.sizes.iter().copied().min().unwrap_or(0) & !(BLOCK as u64 - 1)
}

/// The label of such a pool. Units that no size was said for are as large as the table of all segments asks for.
///
/// # Errors
/// If there can be no such pool; nothing was written.
pub fn plan(spec: &PoolSpec) -> Result<Label, PoolCreateError> {
    let least = least_unit(&spec.vdevs);
    let planned = plan_with(spec, least);
    let larger = match (&planned, spec.unit) {
        (Err(PoolCreateError::TooFine { .. }), None) => least + 1..=26,
        _ => return planned,
    };
    larger.map(|least| plan_with(spec, least)).find(Result::is_ok).unwrap_or(planned)
}

/// The same with units of no less bytes than two to the power of `least`, where no size was said.
fn plan_with(spec: &PoolSpec, least: u8) -> Result<Label, PoolCreateError> {
    check_name(&spec.name)?;
    let too_many = |what, count, most| PoolCreateError::TooMany { what, count, most };
    let all: usize = spec.vdevs.iter().map(|vdev| vdev.sizes.len()).sum();
    if all == 0 {
        return Err(PoolCreateError::NoDevices);
    }
    if spec.vdevs.len() > brindle_format::pool::MAX_VDEVS {
        return Err(too_many("vdevs", spec.vdevs.len(), brindle_format::pool::MAX_VDEVS));
    }
    if all > brindle_format::pool::MAX_MEMBERS {
        return Err(too_many("devices", all, brindle_format::pool::MAX_MEMBERS));
    }
    let (mut vdevs, mut members, mut runs): (Vec<Vdev>, Vec<MemberRecord>, Vec<Run>) = Default::default();
    let (mut ids, mut have) = (spec.members.iter(), 0);
    for (n, vdev) in (0u16..).zip(&spec.vdevs) {
        let planned = plan_vdev(n.into(), vdev, spec.unit, least)?;
        let (units, first_segment) = (planned.units, runs.last().map_or(0, Run::end));
        have += u64::from(units);
        if have > MOST_SEGMENTS.into() {
            return Err(PoolCreateError::Segments { have });
        }
        let member = |((role, &size), &id): ((u16, &u64), _)| {
            let (size, role, state) = (size & !(BLOCK as u64 - 1), Some((n, role)), MemberState::InUse);
            MemberRecord { id, size, role, units, state }
        };
        members.extend((0..).zip(&vdev.sizes).zip(&mut ids).map(member));
        runs.push(Run { first_segment, units, first_unit: 0, vdev: n });
        vdevs.push(planned);
    }
    let units = runs.last().map_or(0, Run::end);
    if let Some((need, most)) = too_fine(&vdevs, units) {
        return Err(PoolCreateError::TooFine { units, need, most });
    }
    Ok(Label {
        pool: spec.id,
        name: spec.name.clone(),
        created: spec.created,
        features: Features::NOW,
        generation: 1,
        member: 0,
        vdevs,
        members,
        runs,
    })
}

/// The segments that a table of so many of them takes, and how many at most can be named, if these are fewer.
pub(crate) fn too_fine(vdevs: &[Vdev], segments: u32) -> Option<(u64, usize)> {
    // Pages of pointers are fewer than one in so many of those below them, but for the last of each level.
    let pages = u64::from(segments).div_ceil(SEGMENTS as u64);
    let need = segments_at_most(vdevs, pages + pages / (POINTERS as u64 - 1) + 4);
    let most = ROOTED - BEGUN;
    (need > most as u64).then_some((need, most))
}

pub(super) fn plan_vdev(
    n: usize,
    vdev: &VdevSpec,
    unit: Option<u64>,
    least: u8,
) -> Result<Vdev, PoolCreateError> {
    let have = vdev.sizes.len();
    let need = usize::from(vdev.parity) + 1;
    if have < need || have == 0 {
        return Err(PoolCreateError::TooFew { vdev: n, have, need });
    }
    let most = usize::from(brindle_format::pool::place::MAX_WIDTH);
    if have > most {
        return Err(PoolCreateError::TooMany { what: "devices of a vdev", count: have, most });
    }
    // All copies but one count as parity.
    let copies = usize::from(brindle_format::pool::place::MAX_PARITY) + 1;
    if vdev.kind == VdevKind::Mirror && have > copies {
        return Err(PoolCreateError::TooMany { what: "devices of a mirror", count: have, most: copies });
    }
    let smallest = smallest_of(vdev);
    let unit = match unit {
        None => unit_for(smallest).max(least),
        Some(unit) if unit.is_power_of_two() && (1 << 16..=1 << 26).contains(&unit) => unit.ilog2() as u8,
        Some(unit) => return Err(PoolCreateError::Unit(unit)),
    };
    // All places of a segment have an address.
    let fits = |unit: &u8| (have as u64) << unit >> 12 <= 1 << 20;
    let unit = (16..=unit).rev().find(fits).unwrap_or(16);
    let units = units_of(smallest, 1 << unit).min(1 << 27);
    if units < FEWEST_UNITS {
        let need = (u64::from(FEWEST_UNITS) << unit) + (2 << 20);
        return Err(PoolCreateError::TooSmall { vdev: n, have: smallest, need });
    }
    Ok(Vdev { kind: vdev.kind, parity: vdev.parity, unit, members: have as u16, units })
}

/// Bytes that volumes of such a pool may have in all.
pub fn capacity(label: &Label) -> u64 {
    label.vdevs.iter().map(sold).sum()
}

/// Makes a pool of these devices, vdev by vdev. One that was cut on its way is not a pool, or this one.
///
/// # Errors
/// If a device does not take it.
pub async fn create(io: &Io, label: &Label, opening: u64, ids: &[MemberId]) -> Result<(), PoolCreateError> {
    create_of(io, label, opening, ids, Host::NONE).await
}

/// The same, for that host: with [`Host::NONE`] no host has it.
///
/// # Errors
/// If a device does not take it.
pub async fn create_of(
    io: &Io,
    label: &Label,
    opening: u64,
    ids: &[MemberId],
    host: Host,
) -> Result<(), PoolCreateError> {
    let pool = io.pool(1 << 20);
    // A pool that stood there is none any more, and this one is not there yet.
    let zeroes = vec![0; 2 * CONFIG_BYTES];
    put(io, &pool, label, ids, 0, |_| zeroes.clone()).await?;
    // Each slot has its room from now on, however full what holds the device will be; and none has what was there before.
    let ring = vec![0; RING_SLOTS as usize * BLOCK];
    put(io, &pool, label, ids, RING, |_| ring.clone()).await?;
    put(io, &pool, label, ids, 0, |member| {
        label.of_member(member).encode().unwrap_or_else(|_| zeroes.clone())
    })
    .await?;
    let uberblock = first_uberblock(label, opening, host);
    let bytes = uberblock.encode().unwrap_or_else(|_| vec![0; BLOCK]);
    let slot = RING + uberblock.record % RING_SLOTS * BLOCK as u64;
    put(io, &pool, label, ids, slot, |_| bytes.clone()).await
}

/// The uberblock of a pool that holds nothing yet, and was not opened by that host so far.
pub(super) fn first_uberblock(label: &Label, opening: u64, host: Host) -> Uberblock {
    let none = Root::default();
    Uberblock {
        pool: label.pool,
        record: 1,
        opening,
        checkpoint: 0,
        sequence: 0,
        time: label.created,
        next_volume: 1,
        next_node: 1,
        map: None,
        dead: none,
        segments: none,
        volumes: none,
        nodes: none,
        history: none,
        out: [0; 32],
        stopped: true,
        lineage: Vec::new(),
        rooted: Vec::new(),
        config: label.config_name().unwrap_or_default(),
        host,
        exported: host == Host::NONE,
        scrub: ScrubRecord::default(),
    }
}

/// Makes members no members any more.
///
/// # Errors
/// If a device does not take it.
pub async fn clear(io: &Io, label: &Label, ids: &[(u16, MemberId)]) -> Result<(), PoolCreateError> {
    let pool = io.pool(1 << 20);
    for &(member, id) in ids {
        let one = Label { members: vec![label.members[usize::from(member)]], ..label.clone() };
        put(io, &pool, &one, &[id], 0, |_| vec![0; 2 * CONFIG_BYTES]).await?;
    }
    Ok(())
}

/// Writes to both labels of all members, and waits until that is stable.
async fn put(
    io: &Io,
    pool: &brindle_io::Pool,
    label: &Label,
    ids: &[MemberId],
    at: u64,
    bytes: impl Fn(u16) -> Vec<u8>,
) -> Result<(), PoolCreateError> {
    for (device, (&id, member)) in ids.iter().zip(&label.members).enumerate() {
        let bytes = bytes(device as u16);
        let buf = pool.alloc(bytes.len()).await;
        buf.bytes_mut().copy_from_slice(&bytes);
        let mut group = io.group_of(OpClass::Metadata);
        group.write(id, LABEL + at, &buf.all(), true);
        group.write(id, second_label(member.size) + at, &buf.all(), true);
        group.submit().await.ok().map_err(|error| PoolCreateError::Write { device, error })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(kind: VdevKind, parity: u8, sizes: Vec<u64>, unit: u64) -> PoolSpec {
        PoolSpec {
            name: "p".to_owned(),
            id: Uuid::nil(),
            members: vec![Uuid::nil(); sizes.len()],
            opening: 1,
            created: 0,
            vdevs: vec![VdevSpec { kind, parity, sizes }],
            unit: Some(unit),
        }
    }

    #[test]
    fn a_pool_whose_table_lies_in_more_segments_than_can_be_named_is_refused() {
        let (small, large) = (64 << 10, 1 << 20);
        for (kind, parity, count) in
            [(VdevKind::Mirror, 1, 2), (VdevKind::Raidz, 1, 3), (VdevKind::Raidz, 2, 4)]
        {
            let of = |size: u64, unit| plan(&spec(kind, parity, vec![size; count], unit));
            assert!(of(9 << 30, small).is_ok(), "{kind:?}");
            let refused = of(12 << 30, small);
            assert!(matches!(refused, Err(PoolCreateError::TooFine { .. })), "{kind:?}: {refused:?}");
            assert!(of(12 << 30, large).is_ok() && of(1 << 40, large).is_ok(), "{kind:?}");
        }
        let wide = |size: u64| plan(&spec(VdevKind::Raidz, 2, vec![size; 12], small));
        assert!(wide(72 << 30).is_ok() && wide(96 << 30).is_err());
    }

    #[test]
    fn units_that_no_size_was_said_for_leave_room_for_the_table() {
        for (count, size) in [(64, 1 << 30), (20, 256 << 20)] {
            let vdev = VdevSpec { kind: VdevKind::Plain, parity: 0, sizes: vec![size] };
            let one = spec(VdevKind::Plain, 0, vec![size; count], 0);
            let planned = plan(&PoolSpec { vdevs: vec![vdev; count], unit: None, ..one });
            assert!(planned.is_ok(), "{count}: {planned:?}");
        }
    }
}
