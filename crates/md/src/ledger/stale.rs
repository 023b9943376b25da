//! Event counts that devices and files may have which are not to be believed.

use brindle_array::sync_len::sync_len;

use crate::assembly::{Assembly, DeviceUse};
use crate::bitmap::Bitmap;
use brindle_array::bitmap::IntentBitmap as _;

/// The highest count of a device that is here but out of use, where that could be taken for one in sync. It is the
/// present count if a torn superblock is the only one to have it: an absent member may have what that one was to say.
pub(super) fn stale_events(assembly: &Assembly) -> Option<u64> {
    let counts = assembly.devices.iter().filter_map(|device| match device.usage {
        DeviceUse::LeftOut { .. } => Some(device.superblock.events),
        _ if device.torn => Some(device.superblock.events),
        _ => None,
    });
    counts.max().map(|count| count.min(assembly.events))
}

/// The highest count of a bitmap's file that is not here, or was stale and is rewritten: a cut may have come between it and
/// superblocks of its count. None where there can't be one.
pub(super) fn absent_file(assembly: &Assembly, bitmap: Option<&Bitmap>) -> Option<u64> {
    let can_be_filed = sync_len(&assembly.geometry) > 0 && assembly.recorded.bitmap_offset.is_none();
    let is_fresh = bitmap.is_some_and(|bitmap| bitmap.is_whole());
    (can_be_filed && !is_fresh).then(|| assembly.events.saturating_add(1))
}
