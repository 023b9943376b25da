//! The bitmap of devices that an update of the superblocks has not reached.

use brindle_format::md::DeviceRole;

use crate::assembly::{AssembledDevice, Recorded};

/// A device that the update has not reached which gave the array a bitmap, or took it away, is given what that said when it is
/// brought up. So is a spare that such an update reached alone: those whom the members say nothing of count for nothing, however
/// high their count.
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
