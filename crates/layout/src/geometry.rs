//! The geometry of an array: validated once, then immutable and cheap to query.

use crate::build::{self, MAX_SIZE, Placement};
use crate::map::Map;
use crate::place::Place;
use crate::{GeometryError, Layout, Level, MAX_MEMBERS, Mirrored, ParityRows, Striped};

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
    /// `sizes` are the usable bytes of each member's data area, in the order of roles. Linear and RAID 0
    /// use what each member has; the other levels use of each as much as the smallest has. `chunk` means
    /// nothing to RAID 1; for linear it is what sizes are rounded down to, and may be 0.
    ///
    /// # Errors
    /// Each kind of [`GeometryError`], for whatever md would not run, or would run only to lose data.
    pub fn new(level: Level, layout: Layout, chunk: u64, sizes: &[u64]) -> Result<Geometry, GeometryError> {
        let Placement { map, members, size, member_size } = build::place(level, layout, chunk, sizes)?;
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

    /// Bytes that the array uses of every member's data area (md's "used device size"); for linear and RAID
    /// 0, where members differ, of the smallest.
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

    /// Whether every byte survives the loss of exactly these members. Naming a member twice changes
    /// nothing, nor does naming one that the array does not have.
    #[must_use]
    pub fn can_lose(&self, lost: &[u16]) -> bool {
        let lost = MemberSet::of(lost, self.members);
        match &self.map {
            Map::Striped(_) => lost.count() == 0,
            Map::Mirrored(mirrored) => mirrored.survives(|member| !lost.contains(member)),
            Map::Parity(rows) => lost.count() <= u32::from(rows.parity_members()),
        }
    }

    /// How many members more may be lost without loss of data, whichever they are, when these are; `None` if data are lost already.
    /// Naming a member twice changes nothing, nor does naming one that the array does not have.
    #[must_use]
    pub fn redundancy_left(&self, lost: &[u16]) -> Option<u16> {
        let lost = MemberSet::of(lost, self.members);
        match &self.map {
            Map::Striped(_) => (lost.count() == 0).then_some(0),
            Map::Mirrored(mirrored) => mirrored.fewest_copies(|member| !lost.contains(member)).checked_sub(1),
            Map::Parity(rows) => {
                u32::from(rows.parity_members()).checked_sub(lost.count()).map(|left| left as u16)
            }
        }
    }

    /// Data bytes of a full row, the best size of large requests (as md announces it); 0 where nothing is
    /// striped.
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

    /// The use of byte `offset` of `member`'s data area. Any values may be asked for.
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
