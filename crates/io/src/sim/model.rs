//! How long a modelled drive takes.

use super::rng::Rng;
use crate::op::{MemberInfo, OpKind};

/// The timing of a drive: parallel channels give it its IOPS, one link its bandwidth, a head its seeks.
///
/// An operation waits for a free channel, holds it for the fixed latency (and the seek), then moves its bytes over the
/// link, which the channels share. The figures of the ready-made drives are round ones of their kind; calibrating
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
    /// Logical block, bytes.
    pub logical_block: u32,
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

    /// A 7,200 rpm disk: one head, volatile cache, 200 MB/s.
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
        }
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

/// What a drive is busy with. Times are nanoseconds on the sim's clock.
pub(super) struct Timing {
    model: Model,
    size: u64,
    channel_free: Vec<u64>,
    link_free: u64,
    head: u64,
}

impl Timing {
    pub(super) fn new(model: Model, size: u64) -> Self {
        Self { model, size, channel_free: vec![0; model.channels.max(1) as usize], link_free: 0, head: 0 }
    }

    /// When an operation that comes at `now` will be done.
    pub(super) fn finish(&mut self, now: u64, kind: OpKind, len: u64, rng: &mut Rng) -> u64 {
        let (latency, bandwidth, offset) = match kind {
            OpKind::Read { offset, .. } => (self.model.read_latency, self.model.read_bandwidth, Some(offset)),
            OpKind::Write { offset, .. } => {
                (self.model.write_latency, self.model.write_bandwidth, Some(offset))
            }
            OpKind::Flush { .. } => (self.model.flush_latency, 0, None),
            _ => (self.model.write_latency, 0, None),
        };
        let seek = offset.map_or(0, |offset| self.seek(offset, len, rng));
        let latency = self.vary(latency, rng) + seek;
        let channel = (0..self.channel_free.len()).min_by_key(|&c| self.channel_free[c]).unwrap_or(0);
        let moves_at = self.channel_free[channel].max(now) + latency;
        let done = if bandwidth == 0 {
            moves_at
        } else {
            let transfer = (u128::from(len) * 1_000_000_000 / u128::from(bandwidth)) as u64;
            self.link_free = self.link_free.max(moves_at) + transfer;
            self.link_free
        };
        self.channel_free[channel] = done;
        done
    }

    fn vary(&self, latency: u64, rng: &mut Rng) -> u64 {
        let swing = latency / 100 * u64::from(self.model.jitter.min(100));
        latency - swing + rng.below(2 * swing + 1)
    }

    /// Seek time grows with the square root of the distance (Ruemmler & Wilkes, 1994); then half a turn on average.
    fn seek(&mut self, offset: u64, len: u64, rng: &mut Rng) -> u64 {
        if self.model.rotation == 0 || offset == self.head {
            self.head = offset.saturating_add(len); // checked against the size when it takes its effect
            return 0;
        }
        let distance = offset.abs_diff(self.head) as f64 / self.size.max(1) as f64;
        self.head = offset.saturating_add(len);
        (self.model.full_seek as f64 * distance.sqrt()) as u64 + rng.below(self.model.rotation)
    }
}
