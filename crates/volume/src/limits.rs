//! What a volume asks of whoever uses it.

/// What a volume asks of whoever uses it. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of the volume: a multiple of `block`.
    pub size: u64,
    /// Offsets and lengths are multiples of this: 512 or 4096.
    pub block: u32,
    /// What writes had better be a multiple of and begin at. Of arrays with parity the chunk: less of one costs as many
    /// operations on members. Such a write still reads, old data and parity or the rest of its row; only those of whole rows
    /// (`optimal`) read nothing. Of other volumes the largest physical block beneath: a smaller write may cost a device a
    /// read of its own.
    pub preferred: u32,
    /// Data bytes of a full row: writes of ranges that begin and end at multiples of it read nothing and are the fastest.
    /// 0 if there are no rows.
    pub optimal: u64,
    /// Writes, discards and write-zeroes are refused.
    pub read_only: bool,
    /// Discards reach the members; where not, they are accepted and do nothing.
    pub discard: bool,
}
