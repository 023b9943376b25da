//! Validation: from what an array is asked to be to where its bytes are, or why it can't be.

use crate::map::Map;
use crate::{
    GeometryError, Layout, Level, MAX_CHUNK, MAX_MEMBERS, MAX_RAID6_MEMBERS, MIN_CHUNK, Mirrored,
    ParityLayout, ParityRows, Raid0Layout, Raid10Layout, striped,
};

/// The unit in which md counts: sizes are rounded down to it.
const SECTOR: u64 = 512;

/// The most bytes of an array or member: what a block device can have.
pub(crate) const MAX_SIZE: u64 = i64::MAX as u64;

/// The parts of a geometry that are computed from the specification.
pub(crate) struct Placement {
    pub(crate) map: Map,
    pub(crate) members: u16,
    pub(crate) size: u64,
    pub(crate) member_size: u64,
}

/// Places the bytes of an array; see [`crate::Geometry::new`].
pub(crate) fn place(
    level: Level,
    layout: Layout,
    chunk: u64,
    sizes: &[u64],
) -> Result<Placement, GeometryError> {
    let members = check_members(level, sizes.len())?;
    check_chunk(level, chunk)?;
    if sizes.iter().any(|&size| size > MAX_SIZE) {
        return Err(GeometryError::TooLarge);
    }
    match (level, layout) {
        (Level::Linear, Layout::None) => linear(chunk, sizes),
        (Level::Raid0, Layout::None) => raid0(None, chunk, sizes),
        (Level::Raid0, Layout::Raid0(layout)) => raid0(Some(layout), chunk, sizes),
        (Level::Raid1, Layout::None) => raid1(members, sizes),
        (Level::Raid4, Layout::None) => parity(level, ParityLayout::ParityLast, chunk, members, sizes),
        (_, Layout::Parity(layout)) if layout.belongs_to(level) => {
            parity(level, layout, chunk, members, sizes)
        }
        (Level::Raid10, Layout::Raid10(layout)) => raid10(layout, chunk, members, sizes),
        _ => Err(GeometryError::LayoutOfOtherLevel { level, layout }),
    }
}

fn check_members(level: Level, count: usize) -> Result<u16, GeometryError> {
    let min = match level {
        Level::Linear | Level::Raid0 | Level::Raid1 => 1,
        Level::Raid4 | Level::Raid5 | Level::Raid10 => 2,
        Level::Raid6 => 4,
    };
    let max = if level == Level::Raid6 { MAX_RAID6_MEMBERS } else { MAX_MEMBERS };
    match u16::try_from(count) {
        Ok(members) if members < min => Err(GeometryError::TooFewMembers { level, members: count, min }),
        Ok(members) if members <= max => Ok(members),
        _ => Err(GeometryError::TooManyMembers { level, members: count, max }),
    }
}

fn check_chunk(level: Level, chunk: u64) -> Result<(), GeometryError> {
    match level {
        Level::Raid1 => return Ok(()),
        Level::Linear if chunk == 0 => return Ok(()),
        _ => {}
    }
    if !(MIN_CHUNK..=MAX_CHUNK).contains(&chunk) || !chunk.is_multiple_of(MIN_CHUNK) {
        return Err(GeometryError::Chunk { chunk });
    }
    if !matches!(level, Level::Linear | Level::Raid0) && !chunk.is_power_of_two() {
        return Err(GeometryError::ChunkNotPowerOfTwo { level, chunk });
    }
    Ok(())
}

/// The size of the smallest member, rounded down to `unit`, if it is at least `needed`.
fn smallest(sizes: &[u64], unit: u64, needed: u64) -> Result<u64, GeometryError> {
    let (member, &size) = sizes.iter().enumerate().min_by_key(|&(_, size)| size).unwrap_or((0, &0));
    match size - size % unit {
        rounded if rounded >= needed => Ok(rounded),
        _ => Err(GeometryError::MemberTooSmall { member: member as u16, size, needed }),
    }
}

fn checked_size(units: u64, bytes: u64) -> Result<u64, GeometryError> {
    units.checked_mul(bytes).filter(|&size| size <= MAX_SIZE).ok_or(GeometryError::TooLarge)
}

fn linear(chunk: u64, sizes: &[u64]) -> Result<Placement, GeometryError> {
    let unit = chunk.max(SECTOR);
    let member_size = smallest(sizes, unit, unit)?;
    let mut zones = striped::Builder::new(unit);
    for (member, size) in sizes.iter().enumerate() {
        let len = size - size % unit;
        // Both are at most 2^63 - 1, so this does not wrap.
        if zones.end() + len > MAX_SIZE {
            return Err(GeometryError::TooLarge);
        }
        zones.push(len, 0, core::iter::once(member as u16));
    }
    let size = zones.end();
    Ok(Placement { map: Map::Striped(zones.finish(size)), members: sizes.len() as u16, size, member_size })
}

/// Facts: `create_strip_zones`, `raid0_size` and `map_sector` in the kernel's `drivers/md/raid0.c`.
fn raid0(layout: Option<Raid0Layout>, chunk: u64, sizes: &[u64]) -> Result<Placement, GeometryError> {
    let member_size = smallest(sizes, chunk, chunk)?;
    let usable = |member: u16| sizes[usize::from(member)] / chunk * chunk;
    let mut zones = striped::Builder::new(chunk);
    let mut start = 0;
    // The next zone ends where the smallest of the members that go on does.
    while let Some(end) = sizes.iter().map(|size| size / chunk * chunk).filter(|&size| size > start).min() {
        let in_zone = || (0..sizes.len() as u16).filter(|&member| usable(member) > start);
        let width = in_zone().count();
        let len = checked_size(width as u64, end - start)?;
        if zones.end() + len > MAX_SIZE {
            return Err(GeometryError::TooLarge);
        }
        let first_chunk = zones.end() / chunk;
        let shift = match layout {
            _ if start == 0 || width == 1 => 0,
            Some(Raid0Layout::Original) => (first_chunk % width as u64) as usize,
            Some(Raid0Layout::Alternate) => 0,
            None => return Err(GeometryError::Raid0LayoutUnknown),
        };
        zones.push(len, start, in_zone().cycle().skip(shift).take(width));
        start = end;
    }
    let size = raid0_size(chunk, sizes);
    Ok(Placement { map: Map::Striped(zones.finish(size)), members: sizes.len() as u16, size, member_size })
}

/// The size that md gives a RAID 0: it rounds members down with a mask that is right for powers of two
/// only, so that other chunks lose some bytes at the end of the array. A size of our own would cut or
/// stretch what is in there.
fn raid0_size(chunk: u64, sizes: &[u64]) -> u64 {
    let mask = !(chunk / SECTOR - 1);
    sizes.iter().map(|size| ((size / chunk * (chunk / SECTOR)) & mask) * SECTOR).sum()
}

fn raid1(members: u16, sizes: &[u64]) -> Result<Placement, GeometryError> {
    let size = smallest(sizes, SECTOR, SECTOR)?;
    Ok(Placement { map: Map::Mirrored(Mirrored::raid1(members, size)), members, size, member_size: size })
}

fn parity(
    level: Level,
    layout: ParityLayout,
    chunk: u64,
    members: u16,
    sizes: &[u64],
) -> Result<Placement, GeometryError> {
    let member_size = smallest(sizes, chunk, chunk)?;
    let rows = ParityRows::new(layout, level == Level::Raid6, chunk, members, member_size / chunk);
    let size = checked_size(rows.rows(), rows.row_data_bytes())?;
    Ok(Placement { map: Map::Parity(rows), members, size, member_size })
}

fn raid10(raid10: Raid10Layout, chunk: u64, members: u16, sizes: &[u64]) -> Result<Placement, GeometryError> {
    let layout = Layout::Raid10(raid10);
    let copies = raid10.copies();
    if copies < 2 || copies > members {
        return Err(GeometryError::Copies { layout, copies, members });
    }
    let far = u64::from(raid10.far);
    let available = smallest(sizes, chunk, far * chunk)?;
    let rows = available / chunk / far;
    // Each member holds `far` sections of `rows`; the array is `members / near` of them.
    let size = checked_size(rows * u64::from(members) / u64::from(raid10.near), chunk)?;
    let mirrored = Mirrored::raid10(raid10, chunk, members, rows)
        .ok_or(GeometryError::CopiesCollide { layout, members })?;
    Ok(Placement { map: Map::Mirrored(mirrored), members, size, member_size: rows * far * chunk })
}
