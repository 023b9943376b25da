//! The record of a device as it was found.

use brindle_format::md::{Features, SUPERBLOCK_BYTES};
use brindle_io::{MemberId, Pool};

use super::DeviceRecord;
use super::bad_log::BadLog;
use crate::assembly::{AssembledDevice, DeviceUse};

/// The device of an assembly, by its number on the reactor; memory for its superblock is taken from `pool`. `bitmap`: the array has one.
pub(super) fn keep(device: AssembledDevice, id: MemberId, pool: Option<&Pool>, bitmap: bool) -> DeviceRecord {
    let alive = !matches!(device.usage, DeviceUse::LeftOut { .. });
    DeviceRecord {
        label: device.label,
        id,
        usage: device.usage,
        failure: None,
        image: Box::new(*device.superblock.bytes()),
        count: (!device.torn).then_some(device.superblock.events),
        recovery_offset: match device.usage {
            DeviceUse::Replacement { upto, .. } => Some(upto).filter(|&upto| upto != u64::MAX),
            DeviceUse::Spare => None,
            // Less than its superblock says, if only a bitmap could name the gaps below that and bits may be missing.
            DeviceUse::Recovering { upto, .. } => Some(upto),
            _ => device.superblock.recovery_offset,
        },
        guided: matches!(device.usage, DeviceUse::Recovering { .. })
            && device.superblock.features.contains(Features::RECOVERY_BITMAP)
            && bitmap,
        returns: false,
        fresh: false,
        old: Vec::new(),
        bad_log: BadLog::of(&device.superblock, device.bad_log.as_deref()),
        flags: device.superblock.flags,
        bitmap_offset: device.superblock.bitmap_offset,
        superblock: device.superblock,
        super_offset: device.super_offset,
        buf: if alive { pool.and_then(|pool| pool.try_alloc(SUPERBLOCK_BYTES)) } else { None },
    }
}
