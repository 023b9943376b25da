//! The bitmap of devices that an update of the superblocks has not reached.

use brindle_format::md::DeviceRole;

use crate::assembly::{AssembledDevice, Recorded};

/// A device that an update with or without a bitmap has not reached gets the bitmap of that update when it is brought
/// up to date. So does a spare that such an update reached alone: only members decide, however high a spare's count.
pub(crate) fn level_bitmap(mut device: AssembledDevice, events: u64, recorded: &Recorded) -> AssembledDevice {
    let superblock = &mut device.superblock;
    let is_told = match superblock.role() {
        DeviceRole::Active(_) => superblock.events < events,
        DeviceRole::Spare => true,
        _ => false,
    };
    if is_told {
        superblock.bitmap_offset =
            recorded.bitmap_offset.map(|common| superblock.bitmap_offset.unwrap_or(common));
    }
    device
}
