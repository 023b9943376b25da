//! Linear and RAID 0: every byte once, no parity.

use alloc::vec::Vec;

use crate::Extent;
use crate::divide::Divider;
use crate::place::Place;

/// A range of the array that is striped over one set of members, the same range of each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    /// The first byte of the array behind the zone.
    end: u64,
    /// The first byte of the zone in the array.
    start: u64,
    /// Where the zone starts on each of its members.
    member_start: u64,
    /// Members in the zone.
    width: Divider,
    /// Index into [`Striped::order`] of the member of the zone's first chunk.
    first: u32,
}

/// The extents of a linear or RAID 0 array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Striped {
    chunk: Divider,
    zones: Vec<Zone>,
    /// For each zone its members, in the order in which chunks visit them.
    order: Vec<u16>,
}

/// Collects zones in the order of their addresses.
pub(crate) struct Builder {
    striped: Striped,
}

impl Builder {
    /// `chunk` is not 0; linear arrays, whose zones are one member wide, may pass any other number.
    pub(crate) fn new(chunk: u64) -> Builder {
        Builder { striped: Striped { chunk: Divider::new(chunk), zones: Vec::new(), order: Vec::new() } }
    }

    /// The first byte behind all zones.
    pub(crate) fn end(&self) -> u64 {
        self.striped.zones.last().map_or(0, |z| z.end)
    }

    /// Appends `len` bytes over `members` (not empty), from `member_start` of each.
    pub(crate) fn push(&mut self, len: u64, member_start: u64, members: impl Iterator<Item = u16>) {
        let start = self.end();
        let first = self.striped.order.len();
        self.striped.order.extend(members);
        let width = Divider::new((self.striped.order.len() - first) as u64);
        self.striped.zones.push(Zone { end: start + len, start, member_start, width, first: first as u32 });
    }

    /// Cuts the array off at `size`.
    pub(crate) fn finish(mut self, size: u64) -> Striped {
        self.striped.zones.retain(|z| z.start < size);
        if let Some(last) = self.striped.zones.last_mut() {
            last.end = size;
        }
        self.striped
    }
}

impl Striped {
    /// Where byte `array_offset` of the array (below its size) is, and how many bytes follow it there: to
    /// the end of its chunk, or where a zone has one member only to the end of the zone.
    // A call gives its three numbers back by way of memory, and the processor waits for the smallest.
    #[inline(always)]
    #[must_use]
    pub fn locate(&self, array_offset: u64) -> Extent {
        let zone = self.zone(array_offset);
        let relative = array_offset - zone.start;
        let left = zone.end - array_offset;
        if zone.width.value() == 1 {
            let member = self.order[zone.first as usize];
            return Extent { member, offset: zone.member_start + relative, len: left };
        }
        let (number, column) = self.chunk.split(relative);
        let (row, index) = zone.width.split(number);
        Extent {
            member: self.order[zone.first as usize + index as usize],
            offset: zone.member_start + row * self.chunk.value() + column,
            len: left.min(self.chunk.value() - column),
        }
    }

    #[inline(always)]
    fn zone(&self, array_offset: u64) -> &Zone {
        // Most arrays have but one.
        match self.zones.first() {
            Some(first) if array_offset < first.end => first,
            _ => self.later_zone(array_offset),
        }
    }

    #[cold]
    fn later_zone(&self, array_offset: u64) -> &Zone {
        let index = self.zones.partition_point(|z| z.end <= array_offset);
        debug_assert!(index < self.zones.len(), "offset {array_offset} is behind the end of the array");
        &self.zones[index]
    }

    pub(crate) fn place(&self, member: u16, offset: u64) -> Place {
        // The zones that hold a member follow each other on it, though in linear arrays not in the list.
        for zone in self.zones.iter().filter(|z| z.member_start <= offset) {
            let width = zone.width.value() as usize;
            let members = &self.order[zone.first as usize..][..width];
            let Some(index) = members.iter().position(|&m| m == member) else { continue };
            let relative = offset - zone.member_start;
            let in_zone = if width == 1 {
                Some(relative)
            } else {
                let (row, column) = self.chunk.split(relative);
                (row.checked_mul(width as u64))
                    .and_then(|chunks| (chunks + index as u64).checked_mul(self.chunk.value()))
                    .and_then(|start| start.checked_add(column))
            };
            match in_zone.and_then(|n| n.checked_add(zone.start)) {
                Some(array_offset) if array_offset < zone.end => {
                    return Place::Data { array_offset, copy: 0 };
                }
                _ => {}
            }
        }
        Place::Unused
    }
}
