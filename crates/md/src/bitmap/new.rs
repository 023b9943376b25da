//! A bitmap that is added to a running array.

use std::rc::Rc;

use brindle_format::md::Superblock;
use brindle_format::md::bitmap::BitmapSuper;
use brindle_format::md::defaults::{
    BitmapPlan, bitmap_file_plan, bitmap_place_beside, bitmap_plan, bitmap_room_beside,
};
use brindle_io::{Io, MemberId};
use brindle_layout::Geometry;
use brindle_members::patience::Patience;

use super::read::{Bits, MOST};
use super::{Bitmap, Target};
use brindle_array::bitmap::BitmapFile;
use brindle_array::sync_len::sync_len;

/// The room for a bitmap beside the superblocks of an array's devices, the same for all: md knows one place only.
pub(crate) struct Beside {
    /// Bytes.
    pub(crate) room: u64,
    /// The index of the device that has the least.
    pub(crate) least: usize,
}

impl Beside {
    /// The bitmap's description for devices with these superblocks; `None` if there are none.
    pub(crate) fn of<'a>(superblocks: impl Iterator<Item = &'a Superblock>) -> Option<Self> {
        let rooms = superblocks.map(bitmap_room_beside).enumerate();
        rooms.min_by_key(|(_, room)| *room).map(|(least, room)| Self { room, least })
    }
}

/// Plans a bitmap for an array in this much room beside a superblock; `None` if none fits.
pub(crate) fn plan(
    geometry: &Geometry,
    room: u64,
    chunk: Option<u64>,
    superblock: &Superblock,
) -> Option<(BitmapPlan, i64)> {
    let plan = bitmap_plan(sync_len(geometry), room, chunk).filter(|plan| plan.bytes <= room)?;
    Some((plan, bitmap_place_beside(superblock, plan.bytes)?))
}

/// The plan of a bitmap in a file over an array; `None` if that can't have such a chunk, or would be too large.
pub(crate) fn plan_file(geometry: &Geometry, chunk: Option<u64>) -> Option<BitmapPlan> {
    bitmap_file_plan(sync_len(geometry), chunk).filter(|plan| plan.bytes <= MOST)
}

/// The superblock of a new bitmap, for an array one of whose superblocks is `superblock`.
pub(crate) fn plan_head(geometry: &Geometry, superblock: &Superblock, plan: BitmapPlan) -> BitmapSuper {
    BitmapSuper::new(superblock.bitmap_uuid(), superblock.events, sync_len(geometry), plan.chunk)
}

impl Bitmap {
    /// A new one of an array, all of whose bits are set, as mdadm makes it. Nothing of it stands anywhere yet. `targets` are the
    /// devices that get it, and the byte of each at which; or the file that does.
    pub(crate) fn planned(
        io: &Io,
        geometry: &Geometry,
        head: BitmapSuper,
        plan: BitmapPlan,
        targets: impl Iterator<Item = (MemberId, u64)>,
        file: Option<BitmapFile>,
        patience: Patience,
    ) -> Rc<Self> {
        let targets = targets.map(|(id, offset)| Target { id, offset }).collect();
        Bits::unwritten(head, plan.bytes as usize, targets, file).keep(io, geometry, patience)
    }
}
