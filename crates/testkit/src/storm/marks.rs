//! The write-intent bitmaps on the drives, read beside the engine. md reads the bitmap of one member, whichever it
//! likes, so each of them must mark all places at which a cut has left members different.

use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapSuper};
use brindle_format::md::{Superblock, Uuid};
use brindle_io::MemberId;
use brindle_io::sim::Sim;
use brindle_layout::{Extent, Family};
use brindle_md::assembly::{Assembly, DeviceUse};

use super::judge::Failure;
use crate::stamp::SECTOR;

/// The bitmap of a drive.
pub(super) struct Marks {
    pub(super) head: BitmapSuper,
    bits: Vec<u8>,
}

impl Marks {
    /// The bitmap at the place that a superblock names, if it is one.
    pub(super) fn look(sim: &Sim, drive: MemberId, superblock: &Superblock) -> Option<Self> {
        Self::look_at(sim, drive, superblock.super_offset.checked_add_signed(superblock.bitmap_offset?)?)
    }

    fn look_at(sim: &Sim, drive: MemberId, start: u64) -> Option<Self> {
        let mut head = [0; BITMAP_SUPER_BYTES];
        sim.peek(drive, start, &mut head);
        let head = BitmapSuper::parse(&head).ok()?;
        let mut bits = vec![0; head.bits().div_ceil(8) as usize];
        sim.peek(drive, start + BITMAP_SUPER_BYTES as u64, &mut bits);
        Some(Self { head, bits })
    }

    /// Whether the bit is set of the chunk that a place is in, as a resync counts.
    fn is_set(&self, place: u64) -> bool {
        let chunk = place / self.head.chunk;
        self.bits[(chunk / 8) as usize] >> (chunk % 8) & 1 == 1
    }
}

/// Each member has a bitmap if the newest superblock says that there is one, even if its own does not say so yet. The
/// bitmap is as new as the member's superblock, if that names one. It marks all places where redundancy differs, if
/// that `counts` and no member is missing. A member may have refused a bitmap that was named again just then, since a
/// file to which it was moving had failed: what stands there is stale, and so is safe.
pub(super) fn judge(sim: &Sim, assembly: &Assembly, ids: &[MemberId], counts: bool) -> Result<(), Failure> {
    let members = Members::of(sim, assembly, ids);
    let newest = members.0.iter().find(|member| member.superblock.events == assembly.events);
    let Some(common) = newest.and_then(|newest| newest.superblock.bitmap_offset) else { return Ok(()) };
    let whole = assembly.degraded().is_empty();
    let apart = if counts && whole { members.apart(assembly) } else { Vec::new() };
    for member in &members.0 {
        let (role, events) = (member.role, member.superblock.events);
        let offset = member.superblock.bitmap_offset.unwrap_or(common);
        let start = member.superblock.super_offset.saturating_add_signed(offset);
        let is_named = member.superblock.bitmap_offset.is_some();
        let as_new = |marks: &Marks| !is_named || marks.head.events >= events;
        let Some(marks) = Marks::look_at(sim, member.drive, start).filter(as_new) else {
            return Err(Failure::StaleBitmap(role));
        };
        // In a bitmap that is behind the newest superblock all chunks count as marked.
        let fresh = marks.head.events >= assembly.events;
        if let Some(&offset) = apart.iter().find(|&&place| fresh && !marks.is_set(place)) {
            return Err(Failure::Unmarked { role, offset });
        }
    }
    Ok(())
}

/// Checks the bitmap in a file: if it counts (it is as new as the superblocks), it must mark all places where
/// redundancy differs.
pub(super) fn judge_file(
    sim: &Sim,
    assembly: &Assembly,
    ids: &[MemberId],
    file: MemberId,
) -> Result<(), Failure> {
    let Some(marks) = Marks::look_at(sim, file, 0) else { return Ok(()) };
    let fresh = marks.head.events >= assembly.events;
    if !fresh || marks.head.uuid != bitmap_uuid(assembly) || !assembly.degraded().is_empty() {
        return Ok(());
    }
    let apart = Members::of(sim, assembly, ids).apart(assembly);
    match apart.into_iter().find(|&place| !marks.is_set(place)) {
        Some(offset) => Err(Failure::UnmarkedInFile { offset }),
        None => Ok(()),
    }
}

fn bitmap_uuid(assembly: &Assembly) -> Uuid {
    assembly.devices.first().map_or(assembly.uuid, |device| device.superblock.bitmap_uuid())
}

struct MarkedMember<'a> {
    role: u16,
    drive: MemberId,
    superblock: &'a Superblock,
    /// Its data area, as far as the array uses it.
    data: Vec<u8>,
}

/// The members that are in sync, in the order of their roles.
struct Members<'a>(Vec<MarkedMember<'a>>);

impl<'a> Members<'a> {
    fn of(sim: &Sim, assembly: &'a Assembly, ids: &[MemberId]) -> Self {
        let member = |(role, at): (u16, &Option<usize>)| {
            let at = (*at)?;
            let (superblock, drive) = (&assembly.devices[at].superblock, ids[at]);
            if !matches!(assembly.devices[at].usage, DeviceUse::Active { .. }) {
                return None;
            }
            let mut data = vec![0; assembly.geometry.member_size() as usize];
            sim.peek(drive, superblock.data_offset, &mut data);
            Some(MarkedMember { role, drive, superblock, data })
        };
        Self((0..).zip(&assembly.roles).filter_map(member).collect())
    }

    /// Places, as a resync counts, of the sectors whose copies differ, or that P does not fit. No member may be missing.
    fn apart(&self, assembly: &Assembly) -> Vec<u64> {
        let geometry = &assembly.geometry;
        let sector = |role: u16, offset: u64| {
            let start = offset as usize;
            &self.0[usize::from(role)].data[start..start + SECTOR]
        };
        match geometry.family() {
            Family::Striped(_) => Vec::new(),
            Family::Mirrored(map) => {
                let copy = |at, copy| {
                    let Extent { member, offset, .. } = map.locate(at, copy);
                    sector(member, offset)
                };
                let differs = |&at: &u64| (1..map.copies()).any(|other| copy(at, other) != copy(at, 0));
                (0..geometry.size()).step_by(SECTOR).filter(differs).collect()
            }
            Family::Parity(map) => {
                let differs = |&at: &u64| {
                    let row = map.row(at / map.chunk());
                    let roles = (0..map.data_members()).map(|index| row.data_member(index));
                    let mut sum = vec![0; SECTOR];
                    for role in roles.chain([row.p()]) {
                        sum.iter_mut().zip(sector(role, at)).for_each(|(sum, byte)| *sum ^= byte);
                    }
                    sum.iter().any(|&byte| byte != 0)
                };
                (0..map.row_offset(map.rows())).step_by(SECTOR).filter(differs).collect()
            }
        }
    }
}
