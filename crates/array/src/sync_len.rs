//! The number of sectors over which redundancy is counted.

use brindle_layout::{Family, Geometry};

/// Bytes over which a resync goes, as redundancy is counted: of each member for parity levels, of the array for mirrors,
/// 0 where there is none. A bitmap covers the same (md's `resync_max_sectors`).
pub fn sync_len(geometry: &Geometry) -> u64 {
    match geometry.family() {
        Family::Striped(_) => 0,
        Family::Mirrored(_) => geometry.size(),
        Family::Parity(map) => map.row_offset(map.rows()),
    }
}
