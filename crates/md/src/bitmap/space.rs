//! Room for a bitmap on a device.

use brindle_format::md::{SUPERBLOCK_BYTES, Superblock};

/// Whether nothing else stands in a range of a device that carries this superblock, and data will not be moved there.
pub(super) fn is_free(sb: &Superblock, start: u64, len: u64, device_bytes: u64) -> bool {
    let Some(end) = start.checked_add(len) else { return false };
    let clear_of = |other: u64, bytes: u64| end <= other || other.saturating_add(bytes) <= start;
    let data = sb.data_offset.min(sb.new_data_offset());
    let data_end = sb.data_offset.saturating_add(sb.data_size).max(data);
    let log =
        sb.bad_block_log.and_then(|log| Some((sb.super_offset.checked_add_signed(log.offset)?, log.size)));
    end <= device_bytes
        && clear_of(sb.super_offset, SUPERBLOCK_BYTES as u64)
        && clear_of(data, data_end - data)
        && log.is_none_or(|(offset, size)| clear_of(offset, size))
}
