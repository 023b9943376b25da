//! The geometry of an array: validated once, then immutable and cheap to query.

use crate::divide::Divider;
use crate::{
    GeometryError, Layout, Level, MAX_CHUNK, MAX_MEMBERS, MAX_RAID6_MEMBERS, MIN_CHUNK, Mirrored,
    ParityLayout, ParityRows, Raid0Layout, Striped, striped,
};

/// The unit in which md counts: sizes are rounded down to it.
const SECTOR: u64 = 512;

/// The most bytes of an array or member: what a block device can have.
const MAX_SIZE: u64 = i64::MAX as u64;

/// Contiguous bytes on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The member, by its role number.
    pub member: u16,
    /// The first byte in the member's data area.
    pub offset: u64,
    /// Contiguous bytes from there, both in the array and on the member.
    pub len: u64,
}

/// What a byte of a member is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A byte of the array.
    Data {
        /// The byte.
        array_offset: u64,
        /// Which of its copies; 0 where there is but one.
        copy: u16,
    },
    /// P of the same byte of all chunks of a row.
    P {
        /// The row.
        row: u64,
    },
    /// Q of the same byte of all chunks of a row.
    Q {
        /// The row.
        row: u64,
    },
    /// Nothing: behind the end, or a remainder that fills no chunk.
    Unused,
}

/// The three ways in which levels place bytes.
#[derive(Clone, Copy, Debug)]
pub enum Family<'a> {
    /// Linear and RAID 0.
    Striped(&'a Striped),
    /// RAID 1 and RAID 10.
    Mirrored(&'a Mirrored),
    /// RAID 4, 5 and 6.
    Parity(&'a ParityRows),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Map {
    Striped(Striped),
    Mirrored(Mirrored),
    Parity(ParityRows),
}

/// Where each byte of an array lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    level: Level,
    layout: Layout,
    chunk: u64,
    members: u16,
    size: u64,
    member_size: u64,
    map: Map,
}

impl Geometry {
    /// The geometry of an array of `level` and `layout` with chunks of `chunk` bytes.
    ///
    /// `sizes` are the usable bytes of each member's data area, in the order of roles. Linear and RAID 0 use what each
    /// member has; the other levels use of each as much as the smallest has. `chunk` means nothing to RAID 1; for
    /// linear it is what sizes are rounded down to, and may be 0.
    ///
    /// # Errors
    /// A [`GeometryError`] for whatever md would not run, or would run only to lose data.
    pub fn new(level: Level, layout: Layout, chunk: u64, sizes: &[u64]) -> Result<Geometry, GeometryError> {
        let members = check_members(level, sizes.len())?;
        check_chunk(level, chunk)?;
        if sizes.iter().any(|&size| size > MAX_SIZE) {
            return Err(GeometryError::TooLarge);
        }
        let (map, size, member_size) = match (level, layout) {
            (Level::Linear, Layout::None) => linear(chunk, sizes)?,
            (Level::Raid0, Layout::None) => raid0(None, chunk, sizes)?,
            (Level::Raid0, Layout::Raid0(layout)) => raid0(Some(layout), chunk, sizes)?,
            (Level::Raid1, Layout::None) => {
                let size = smallest(sizes, SECTOR, SECTOR)?;
                (Map::Mirrored(Mirrored::raid1(members, size)), size, size)
            }
            (Level::Raid4, Layout::None) => parity(level, ParityLayout::ParityLast, chunk, members, sizes)?,
            (_, Layout::Parity(layout)) if layout.belongs_to(level) => {
                parity(level, layout, chunk, members, sizes)?
            }
            (Level::Raid10, Layout::Raid10(_)) => raid10(layout, chunk, members, sizes)?,
            _ => return Err(GeometryError::LayoutOfOtherLevel { level, layout }),
        };
        Ok(Geometry { level, layout, chunk, members, size, member_size, map })
    }

    /// The level.
    #[inline]
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// The layout, as given.
    #[inline]
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Bytes of a chunk, as given; without meaning for RAID 1.
    #[inline]
    #[must_use]
    pub fn chunk(&self) -> u64 {
        self.chunk
    }

    /// Members, lost ones included.
    #[inline]
    #[must_use]
    pub fn members(&self) -> u16 {
        self.members
    }

    /// Bytes of the array.
    #[inline]
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that the array uses of every member's data area (md's "used device size"); for linear and RAID 0, where
    /// members differ, of the smallest.
    #[inline]
    #[must_use]
    pub fn member_size(&self) -> u64 {
        self.member_size
    }

    /// How many members may be lost, whichever they are.
    #[must_use]
    pub fn tolerance(&self) -> u16 {
        match &self.map {
            Map::Striped(_) => 0,
            Map::Mirrored(mirrored) => mirrored.copies() - 1,
            Map::Parity(rows) => rows.parity_members(),
        }
    }

    /// Whether every byte survives the loss of exactly these members. Naming a member twice changes nothing, nor
    /// does naming one that the array does not have.
    #[must_use]
    pub fn can_lose(&self, lost: &[u16]) -> bool {
        let lost = MemberSet::of(lost, self.members);
        match &self.map {
            Map::Striped(_) => lost.count() == 0,
            Map::Mirrored(mirrored) => mirrored.survives(|member| !lost.contains(member)),
            Map::Parity(rows) => lost.count() <= u32::from(rows.parity_members()),
        }
    }

    /// Data bytes of a full row, the best size of large requests (as md announces it); 0 where nothing is striped.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        match (&self.map, self.layout) {
            (Map::Striped(_), _) if self.level == Level::Linear => 0,
            (Map::Striped(_), _) => self.chunk * u64::from(self.members),
            (Map::Mirrored(_), Layout::Raid10(layout)) => {
                let near = u16::from(layout.near);
                let width =
                    if self.members.is_multiple_of(near) { self.members / near } else { self.members };
                self.chunk * u64::from(width)
            }
            (Map::Mirrored(_), _) => 0,
            (Map::Parity(rows), _) => rows.row_data_bytes(),
        }
    }

    /// The mapping itself.
    #[inline]
    #[must_use]
    pub fn family(&self) -> Family<'_> {
        match &self.map {
            Map::Striped(striped) => Family::Striped(striped),
            Map::Mirrored(mirrored) => Family::Mirrored(mirrored),
            Map::Parity(rows) => Family::Parity(rows),
        }
    }

    /// What byte `offset` of `member`'s data area is for. Any values may be asked for.
    #[must_use]
    pub fn place(&self, member: u16, offset: u64) -> Place {
        if member >= self.members || offset > MAX_SIZE {
            return Place::Unused;
        }
        match &self.map {
            Map::Striped(striped) => striped.place(member, offset),
            Map::Mirrored(mirrored) => mirrored.place(member, offset),
            Map::Parity(rows) => rows.place(member, offset),
        }
    }
}

/// A set of members, on the stack.
struct MemberSet([u64; MAX_MEMBERS as usize / 64]);

impl MemberSet {
    fn of(list: &[u16], members: u16) -> MemberSet {
        let mut set = MemberSet([0; MAX_MEMBERS as usize / 64]);
        for &member in list.iter().filter(|&&member| member < members) {
            set.0[usize::from(member / 64)] |= 1 << (member % 64);
        }
        set
    }

    fn contains(&self, member: u16) -> bool {
        self.0[usize::from(member / 64)] >> (member % 64) & 1 == 1
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
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

fn linear(chunk: u64, sizes: &[u64]) -> Result<(Map, u64, u64), GeometryError> {
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
    Ok((Map::Striped(zones.finish(size)), size, member_size))
}

/// Facts: `create_strip_zones`, `raid0_size` and `map_sector` in the kernel's `drivers/md/raid0.c`.
fn raid0(layout: Option<Raid0Layout>, chunk: u64, sizes: &[u64]) -> Result<(Map, u64, u64), GeometryError> {
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
            Some(Raid0Layout::Original) => Divider::new(width as u64).split(first_chunk).1 as usize,
            Some(Raid0Layout::Alternate) => 0,
            None => return Err(GeometryError::Raid0LayoutUnknown),
        };
        zones.push(len, start, in_zone().cycle().skip(shift).take(width));
        start = end;
    }
    let size = raid0_size(chunk, sizes);
    Ok((Map::Striped(zones.finish(size)), size, member_size))
}

/// The size that md gives a RAID 0: it rounds members down with a mask that is right for powers of two only, so that
/// other chunks lose some bytes at the end of the array. A size of our own would cut or stretch what is in there.
fn raid0_size(chunk: u64, sizes: &[u64]) -> u64 {
    let mask = !(chunk / SECTOR - 1);
    sizes.iter().map(|size| ((size / chunk * (chunk / SECTOR)) & mask) * SECTOR).sum()
}

fn parity(
    level: Level,
    layout: ParityLayout,
    chunk: u64,
    members: u16,
    sizes: &[u64],
) -> Result<(Map, u64, u64), GeometryError> {
    let member_size = smallest(sizes, chunk, chunk)?;
    let rows = ParityRows::new(layout, level == Level::Raid6, chunk, members, member_size / chunk);
    let size = checked_size(rows.rows(), rows.row_data_bytes())?;
    Ok((Map::Parity(rows), size, member_size))
}

fn raid10(layout: Layout, chunk: u64, members: u16, sizes: &[u64]) -> Result<(Map, u64, u64), GeometryError> {
    let Layout::Raid10(raid10) = layout else {
        return Err(GeometryError::LayoutOfOtherLevel { level: Level::Raid10, layout });
    };
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
    Ok((Map::Mirrored(mirrored), size, rows * far * chunk))
}
