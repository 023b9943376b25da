//! RAID 1 and RAID 10: every byte two or more times.

use alloc::vec::Vec;

use crate::divide::Divider;
use crate::place::Place;
use crate::{Extent, FarSets, Raid10Layout};

/// The copies of a RAID 1 or RAID 10 array.
///
/// Think of RAID 0 over all members whose every chunk is repeated `near` times in a row. That whole picture is
/// repeated `far` times, each time on other members: further down on each member or, with *offset*, row by row.
///
/// Facts: `setup_geo`, `raid10_size`, `calc_sectors` and `__raid10_find_phys` in the kernel's
/// `drivers/md/raid10.c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    chunk: Divider,
    members: Divider,
    near: Divider,
    far: Divider,
    /// Chunks of a member from one row of first copies to the next: `far` with offset, else 1.
    row_step: u64,
    /// Bytes of a member from one far copy of a chunk to the next.
    far_step: u64,
    /// Bytes of the array.
    size: u64,
    /// `far` tables, one after the other: the member that holds the far copy of what this member holds first.
    to: Vec<u16>,
    /// The inverses of the tables in `to`.
    from: Vec<u16>,
    /// Every member holds the whole array from its start, one copy each.
    whole: bool,
}

impl Mirrored {
    /// RAID 1: a copy on each of `members`.
    pub(crate) fn raid1(members: u16, size: u64) -> Mirrored {
        let one = Divider::new(1);
        let identity: Vec<u16> = (0..members).collect();
        Mirrored {
            chunk: one,
            members: Divider::new(u64::from(members)),
            near: Divider::new(u64::from(members)),
            far: one,
            row_step: 1,
            far_step: 0,
            size,
            to: identity.clone(),
            from: identity,
            whole: true,
        }
    }

    /// RAID 10 with `rows` rows of first copies; `None` if md would let copies or chunks collide.
    ///
    /// The number of copies (2 to `members`), and that the sizes fit, has been validated.
    pub(crate) fn raid10(layout: Raid10Layout, chunk: u64, members: u16, rows: u64) -> Option<Mirrored> {
        let (near, far) = (u16::from(layout.near), u16::from(layout.far));
        // md puts what wraps round to the first member one chunk further down: with offset among the far
        // copies.
        let offset = layout.offset && far > 1;
        if offset && !members.is_multiple_of(near) {
            return None;
        }
        let to = far_tables(layout, members)?;
        let from = invert(&to, members)?;
        let chunks = rows * u64::from(members) / u64::from(near);
        let mirrored = Mirrored {
            chunk: Divider::new(chunk),
            members: Divider::new(u64::from(members)),
            near: Divider::new(u64::from(near)),
            far: Divider::new(u64::from(far)),
            row_step: if offset { u64::from(far) } else { 1 },
            far_step: if offset { chunk } else { rows * chunk },
            size: chunks * chunk,
            to,
            from,
            whole: near == members,
        };
        mirrored.copies_apart().then_some(mirrored)
    }

    /// Copies of each byte.
    #[inline]
    #[must_use]
    pub fn copies(&self) -> u16 {
        (self.near.value() * self.far.value()) as u16
    }

    /// The size of groups of adjacent members that share no data with other groups: the copies of near layouts. All
    /// members, where there are no such groups.
    #[must_use]
    pub fn group(&self) -> u16 {
        let (members, near) = (self.members.value(), self.near.value());
        let apart = self.far.value() == 1 && members.is_multiple_of(near);
        (if apart { near } else { members }) as u16
    }

    /// Where copy `copy` (below [`Mirrored::copies`]) of byte `array_offset` of the array (below its size)
    /// is, and how many bytes follow it there: to the end of its chunk, or where each member holds the
    /// whole array to its end. Copies are numbered as md numbers them: the far copies of the first near
    /// copy, then those of the next.
    #[inline]
    #[must_use]
    pub fn locate(&self, array_offset: u64, copy: u16) -> Extent {
        debug_assert!(array_offset < self.size && copy < self.copies());
        if self.whole {
            return Extent { member: copy, offset: array_offset, len: self.size - array_offset };
        }
        let (number, column) = self.chunk.split(array_offset);
        let (near, far) = self.far.split(u64::from(copy));
        let (row, member) = self.members.split(number * self.near.value() + near);
        Extent {
            member: self.to[(far * self.members.value() + member) as usize],
            offset: row * self.row_step * self.chunk.value() + far * self.far_step + column,
            len: self.chunk.value() - column,
        }
    }

    pub(crate) fn place(&self, member: u16, offset: u64) -> Place {
        if self.whole {
            return match offset < self.size {
                true => Place::Data { array_offset: offset, copy: member },
                false => Place::Unused,
            };
        }
        let (number, column) = self.chunk.split(offset);
        let (row, far) = match self.row_step {
            1 => {
                let section = self.far_step / self.chunk.value();
                (number % section, number / section)
            }
            _ => self.far.split(number),
        };
        if far >= self.far.value() {
            return Place::Unused;
        }
        let first = self.from[(far * self.members.value()) as usize + usize::from(member)];
        let (chunk, near) = self.near.split(row * self.members.value() + u64::from(first));
        match chunk.checked_mul(self.chunk.value()).and_then(|start| start.checked_add(column)) {
            Some(array_offset) if array_offset < self.size => {
                Place::Data { array_offset, copy: (near * self.far.value() + far) as u16 }
            }
            _ => Place::Unused,
        }
    }

    /// Whether `alive` holds for a member with a copy of each chunk.
    pub(crate) fn survives(&self, alive: impl Fn(u16) -> bool) -> bool {
        self.turn().all(|chunk| (0..self.copies()).any(|copy| alive(self.locate(chunk, copy).member)))
    }

    /// Copies of the chunk that has the fewest on members for which `alive` holds.
    pub(crate) fn fewest_copies(&self, alive: impl Fn(u16) -> bool) -> u16 {
        let left = |chunk| (0..self.copies()).filter(|&copy| alive(self.locate(chunk, copy).member)).count();
        self.turn().map(left).min().unwrap_or_default() as u16
    }

    /// The offset of one chunk of each set of members that hold a chunk's copies.
    fn turn(&self) -> impl Iterator<Item = u64> + '_ {
        let step = if self.whole { self.size } else { self.chunk.value() };
        // After as many chunks as there are members, the members are back where they began.
        (0..self.members.value()).map(move |n| n * step).take_while(|&offset| offset < self.size)
    }

    /// Whether no member holds two copies of one chunk.
    fn copies_apart(&self) -> bool {
        // The chunk of which a member was last seen to hold a copy.
        let mut last = alloc::vec![None; self.members.value() as usize];
        self.turn().all(|chunk| {
            (0..self.copies()).all(|copy| {
                let member = usize::from(self.locate(chunk, copy).member);
                last[member].replace(chunk) != Some(chunk)
            })
        })
    }
}

/// For each far copy, the member that holds it by the member that holds the first copy; table 0 is the
/// identity.
fn far_tables(layout: Raid10Layout, members: u16) -> Option<Vec<u16>> {
    let (near, far) = (u16::from(layout.near), u16::from(layout.far));
    let set = match layout.far_sets {
        FarSets::Off => members,
        FarSets::Broken => members / far,
        FarSets::On => near * far,
    };
    if set == 0 || set > members {
        return None;
    }
    // The last set takes in the members that are left over.
    let last = (members / set - 1) * set;
    let left_over = members % set;
    let mut tables: Vec<u16> = (0..members).collect();
    for copy in 1..usize::from(far) {
        for member in 0..usize::from(members) {
            let before = tables[(copy - 1) * usize::from(members) + member];
            let next = before + near;
            tables.push(if left_over != 0 && next > last {
                last + (next - last) % (set + left_over)
            } else {
                before / set * set + next % set
            });
        }
    }
    Some(tables)
}

/// The inverse of each of the tables in `to`; `None` if two members map to one.
fn invert(to: &[u16], members: u16) -> Option<Vec<u16>> {
    const FREE: u16 = u16::MAX;
    let mut from = alloc::vec![FREE; to.len()];
    for (table, inverse) in to.chunks(usize::from(members)).zip(from.chunks_mut(usize::from(members))) {
        for (member, &target) in table.iter().enumerate() {
            let slot = inverse.get_mut(usize::from(target)).filter(|slot| **slot == FREE)?;
            *slot = member as u16;
        }
    }
    Some(from)
}
