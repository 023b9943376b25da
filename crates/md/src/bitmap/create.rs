//! The write-intent bitmap of a new array: mdadm's `add_internal_bitmap1`, and `add_internal_bitmap0`.

use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapSuper};
use brindle_format::md::defaults::{self, BITMAP_FROM, BitmapPlan, Consistency};
use brindle_format::md::{Superblock, Version};
use brindle_layout::{Family, Geometry};

/// Bytes that are written at a time.
const PAGE: usize = 4096;

/// The bitmap that a new array is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewBitmap {
    /// None: a crash leads to a full resync.
    #[default]
    None,
    /// As mdadm has it: an internal one if each member gives more than 100 GiB to redundancy.
    Usual,
    /// One beside each superblock.
    Internal {
        /// Bytes to a bit, a power of two; `None` for what mdadm chooses.
        chunk: Option<u64>,
    },
    /// One in a file, from its first byte on: [`Plan::bitmap_file`](crate::create::Plan::bitmap_file) is what it is to hold.
    File {
        /// Bytes to a bit; `None` for mdadm's choice.
        chunk: Option<u64>,
    },
}

impl NewBitmap {
    /// Chunk and size of the bitmap of a new array, of whose members `component` bytes are used; `Ok(None)` if it is to
    /// have none.
    ///
    /// # Errors
    /// The chunk that was asked for, if no such bitmap has room.
    pub(crate) fn planned(
        self,
        version: Version,
        component: u64,
        geometry: &Geometry,
    ) -> Result<Option<BitmapPlan>, Option<u64>> {
        let covered = covered(component, geometry);
        let chunk = match self {
            Self::None => return Ok(None),
            Self::Usual if component < BITMAP_FROM => return Ok(None),
            Self::Usual => return Ok(defaults::default_bitmap(version, component, covered)),
            Self::Internal { chunk } => chunk,
            Self::File { chunk } => {
                return defaults::bitmap_file_plan(covered, chunk).map(Some).ok_or(chunk);
            }
        };
        let plan = match chunk {
            None => defaults::default_bitmap(version, component, covered),
            Some(_) => defaults::bitmap_plan(covered, defaults::bitmap_room(version, component), chunk),
        };
        plan.map(Some).ok_or(chunk)
    }
}

/// Bytes that the bitmap covers: of each member, of mirrors of the array.
fn covered(component: u64, geometry: &Geometry) -> u64 {
    match geometry.family() {
        Family::Mirrored(_) => geometry.size(),
        _ => component,
    }
}

/// The space that each member reserves beside its data for the means against torn writes.
pub(crate) fn consistency(plan: Option<BitmapPlan>) -> Consistency {
    plan.map_or(Consistency::Resync, |plan| Consistency::Bitmap { bytes: plan.bytes })
}

/// The pages of a bitmap on a device with this superblock, each with its byte there. All bits are set, as mdadm sets
/// them; they are cleared in time where redundancy is in sync.
pub(crate) fn pages(
    superblock: &Superblock,
    plan: &BitmapPlan,
    geometry: &Geometry,
    write_behind: u32,
) -> Vec<(u64, Vec<u8>)> {
    let head = head(superblock, plan, geometry, write_behind);
    let place = superblock.bitmap_offset.and_then(|at| superblock.super_offset.checked_add_signed(at));
    let (Some(place), Some(bytes)) = (place, content(&head, plan)) else { return Vec::new() };
    let offsets = (place..).step_by(PAGE);
    offsets.zip(bytes.chunks(PAGE).map(<[u8]>::to_vec)).collect()
}

/// The content of a new bitmap file for the array of this superblock.
pub(crate) fn file(
    superblock: &Superblock,
    plan: &BitmapPlan,
    geometry: &Geometry,
    write_behind: u32,
) -> Option<Vec<u8>> {
    content(&head(superblock, plan, geometry, write_behind), plan)
}

fn head(superblock: &Superblock, plan: &BitmapPlan, geometry: &Geometry, write_behind: u32) -> BitmapSuper {
    let covered = covered(superblock.component_size, geometry);
    let head = BitmapSuper::new(superblock.bitmap_uuid(), superblock.events, covered, plan.chunk);
    BitmapSuper { write_behind, ..head }
}

fn content(head: &BitmapSuper, plan: &BitmapPlan) -> Option<Vec<u8>> {
    let mut bytes = vec![0xff; plan.bytes as usize];
    bytes[..BITMAP_SUPER_BYTES].copy_from_slice(&head.encode()?);
    Some(bytes)
}
