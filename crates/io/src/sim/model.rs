//! How long a modelled drive takes.

use crate::op::MemberInfo;

/// The timing of a drive: parallel channels give it its IOPS, one link its bandwidth, a head its seeks.
///
/// An operation waits for a free channel, holds it for the fixed latency (and the seek), then moves its bytes over the
/// link, which the channels share: what is ready first goes first. The figures of the ready-made drives are round ones of their kind; calibrating
/// them against measurements is the lab's business.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Operations that the drive works on at once.
    pub channels: u32,
    /// Nanoseconds of a read before its first byte moves.
    pub read_latency: u64,
    /// Nanoseconds of a write.
    pub write_latency: u64,
    /// Nanoseconds of a flush.
    pub flush_latency: u64,
    /// Bytes per second of reads.
    pub read_bandwidth: u64,
    /// Bytes per second of writes.
    pub write_bandwidth: u64,
    /// Nanoseconds of a seek over the whole disk and of one turn of the platter; 0 for drives without a head.
    pub full_seek: u64,
    /// See [`Model::full_seek`].
    pub rotation: u64,
    /// Per cent by which latencies vary, evenly, to either side.
    pub jitter: u32,
    /// Completed writes may be lost at a power cut until they are flushed.
    pub volatile_cache: bool,
    /// Logical block, bytes: 512 or 4096.
    pub logical_block: u32,
    /// The smallest write, bytes, that a power cut leaves whole or undone: 512 or 4096, and no less than the logical
    /// block.
    pub tear_unit: u32,
}

impl Model {
    /// A data-centre NVMe drive: about 400 K read IOPS, 3 GB/s, power-loss protection.
    pub const fn nvme() -> Self {
        Self {
            channels: 32,
            read_latency: 80_000,
            write_latency: 20_000,
            flush_latency: 20_000,
            read_bandwidth: 3_000_000_000,
            write_bandwidth: 2_000_000_000,
            full_seek: 0,
            rotation: 0,
            jitter: 20,
            volatile_cache: false,
            logical_block: 512,
            tear_unit: 512,
        }
    }

    /// A SATA SSD of a desktop: volatile cache, 500 MB/s.
    pub const fn sata_ssd() -> Self {
        Self {
            channels: 8,
            read_latency: 90_000,
            write_latency: 40_000,
            flush_latency: 1_000_000,
            read_bandwidth: 530_000_000,
            write_bandwidth: 500_000_000,
            volatile_cache: true,
            ..Self::nvme()
        }
    }

    /// A 7,200 rpm disk: one head, volatile cache, 200 MB/s, physical sectors of 4096 bytes.
    pub const fn hdd() -> Self {
        Self {
            channels: 1,
            read_latency: 100_000,
            write_latency: 100_000,
            flush_latency: 8_300_000,
            read_bandwidth: 200_000_000,
            write_bandwidth: 200_000_000,
            full_seek: 16_000_000,
            rotation: 8_333_333,
            jitter: 5,
            volatile_cache: true,
            logical_block: 512,
            tear_unit: 4096,
        }
    }

    /// The model with logical blocks, and what is torn, of `block` bytes: 512 or 4096.
    pub const fn with_block(self, block: u32) -> Self {
        Self { logical_block: block, tear_unit: block, ..self }
    }

    pub(super) fn info(&self, size: u64) -> MemberInfo {
        MemberInfo {
            size,
            logical_block: self.logical_block,
            physical_block: self.logical_block.max(4096),
            rotational: self.rotation > 0,
            discard: self.rotation == 0,
            write_zeroes: self.rotation == 0,
        }
    }
}
