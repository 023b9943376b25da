//! The usable space of a RAID-Z pool as OpenZFS computes it.
//!
//! After OpenZFS 2.3: `vdev_raidz_asize` (`module/zfs/vdev_raidz.c`), `vdev_metaslab_set_size`, `vdev_metaslab_init` and
//! `vdev_set_deflate_ratio` (`module/zfs/vdev.c`), `spa_get_slop_space` (`module/zfs/spa_misc.c`).

use crate::configuration::{Configuration, Part, Scheme};

/// The space of each drive's labels and boot block: `VDEV_LABEL_START_SIZE` and `VDEV_LABEL_END_SIZE`.
const LABELS: u64 = (4 << 20) + (512 << 10);
/// Drives are used in multiples of a label.
const LABEL: u64 = 256 << 10;
/// Free space is reported as if all blocks were this large: `SPA_OLD_MAXBLOCKSIZE`.
const REPORTED_BLOCK: u64 = 128 << 10;
/// Metaslabs that a vdev must have before one of them is set apart for its log: `zfs_embedded_slog_min_ms`.
const LOG_FROM: u64 = 64;
/// The reserve: 1/2^shift of the space, within bounds in bytes (`spa_slop_shift`, `spa_max_slop`, `spa_min_slop`).
const SLOP_SHIFT: u32 = 5;
const MOST_SLOP: u64 = 128 << 30;
const LEAST_SLOP: u64 = 128 << 20;

/// How blocks of a volume or file system are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The binary logarithm of the sector size.
    ashift: u32,
    /// Bytes of a block.
    block: u64,
}

/// No pool has these sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocationError {
    /// `ashift`.
    #[error("--ashift {0} makes no sense: OpenZFS takes 9 (512 bytes) to 16 (64 KiB)")]
    Ashift(u32),
    /// `volblocksize` or `recordsize`.
    #[error("--volblocksize {0} makes no sense: OpenZFS takes powers of two from 512 bytes to 16 MiB")]
    Block(u64),
}

impl Default for Allocation {
    /// Sectors of 4 KiB, and OpenZFS's own size of a volume's blocks since 2.2.
    fn default() -> Self {
        Self { ashift: 12, block: 16 << 10 }
    }
}

impl Allocation {
    /// Sectors of 2 to the `ashift` bytes, blocks of `block` bytes.
    ///
    /// # Errors
    /// [`AllocationError`]: what OpenZFS does not take.
    pub fn new(ashift: u32, block: u64) -> Result<Self, AllocationError> {
        if !(9..=16).contains(&ashift) {
            return Err(AllocationError::Ashift(ashift));
        }
        if !block.is_power_of_two() || !(512..=16 << 20).contains(&block) {
            return Err(AllocationError::Block(block));
        }
        Ok(Self { ashift, block })
    }

    /// Bytes of blocks that can be written until a new pool is full; none where nothing is RAID-Z.
    pub(crate) fn room(self, configuration: &Configuration) -> Option<u64> {
        if configuration.is_of_md() {
            return None;
        }
        let (space, free) = self.free(configuration);
        // A vdev takes blocks in proportion to its room.
        let shares = configuration.parts.iter().map(|part| {
            let own =
                u128::from(free) * u128::from(self.space(part).reported) / u128::from(space.reported.max(1));
            own as u64 / self.reported_bytes(part, self.block).max(1) * self.block
        });
        Some(shares.sum())
    }

    /// The space of a new pool, and how many bytes of it `zfs list` says are free.
    fn free(self, configuration: &Configuration) -> (Space, u64) {
        let add =
            |all: Space, of: Space| Space { reported: all.reported + of.reported, log: all.log + of.log };
        let space = configuration.parts.iter().map(|part| self.space(part)).fold(Space::default(), add);
        (space, space.reported.saturating_sub(space.slop()))
    }

    /// Bytes that a vdev allocates for a block: its sectors, the parity of each row of them, and padding so that what is freed can
    /// be used again.
    fn allocated(self, part: &Part, block: u64) -> u64 {
        let sectors = ((block - 1) >> self.ashift) + 1;
        let Scheme::RaidZ(parity) = part.scheme else { return sectors << self.ashift };
        let (parity, width) = (u64::from(parity), u64::from(part.width));
        let all = sectors + parity * sectors.div_ceil(width - parity);
        all.next_multiple_of(parity + 1) << self.ashift
    }

    /// 512ths of what is allocated that count as used, so that a block of [`REPORTED_BLOCK`] bytes counts as what it holds.
    fn ratio(self, part: &Part) -> u64 {
        REPORTED_BLOCK / (self.allocated(part, REPORTED_BLOCK) >> 9)
    }

    /// Bytes as free space tells them that a block takes.
    fn reported_bytes(self, part: &Part, block: u64) -> u64 {
        (self.allocated(part, block) >> 9) * self.ratio(part)
    }

    fn space(self, part: &Part) -> Space {
        let of_one = (part.disk.size / LABEL * LABEL).saturating_sub(LABELS);
        let bytes = match part.scheme {
            Scheme::RaidZ(_) => of_one * u64::from(part.width),
            _ => of_one,
        };
        let shift = metaslab_shift(bytes);
        let slabs = bytes >> shift;
        let reported = |slabs: u64| ((slabs << shift) >> 9) * self.ratio(part) * u64::from(part.groups);
        let log = if slabs >= LOG_FROM { 1 } else { 0 };
        Space { reported: reported(slabs - log), log: reported(log) }
    }
}

/// Bytes of a pool as zpool reports them.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    /// For blocks.
    reported: u64,
    /// Set apart for logs.
    log: u64,
}

impl Space {
    fn slop(self) -> u64 {
        let slop = (self.reported >> SLOP_SHIFT).min(MOST_SLOP);
        let slop = slop - self.log.min(slop / 2);
        slop.max((self.reported / 2).min(LEAST_SLOP))
    }
}

/// Metaslabs have 2 to this many bytes: 16 of a small vdev, about 200 of a larger one, of 16 GiB from 3 TB on.
fn metaslab_shift(bytes: u64) -> u32 {
    let bits = |of: u64| of.checked_ilog2().map_or(0, |log| log + 1);
    let count = bytes >> 29;
    let shift = if count < 16 {
        bits(bytes / 16)
    } else if count > 200 {
        bits(bytes / 200)
    } else {
        29
    };
    match shift {
        0..24 => 24,
        24..=34 => shift,
        _ if bytes >> 34 > 1 << 17 => bits(bytes >> 17),
        _ => 34,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::disk;

    fn pool(scheme: Scheme, width: u32, groups: u32, size: u64) -> Configuration {
        let part = Part { scheme, width, groups, disk: crate::Disk { size, ..disk() } };
        Configuration { parts: vec![part], price: None, as_the_least: false }
    }

    /// TiB to three decimals, as published.
    fn tib(bytes: u64) -> f64 {
        (bytes as f64 / (1_u64 << 40) as f64 * 1000.0).round() / 1000.0
    }

    #[test]
    fn pools_have_the_room_that_is_published() {
        // jro.io/capacity, 24 drives: layout, drives' TB, TiB. Blocks of 128 KiB. Pools whose logs take more than half of the
        // reserve are left out: there the page is 64 GiB above OpenZFS.
        let table = [
            (1, 5, 4, 4.0, 57.99),
            (1, 5, 4, 18.0, 261.391),
            (1, 5, 4, 26.0, 377.621),
            (2, 5, 4, 4.0, 42.928),
            (2, 5, 4, 1.92, 20.514),
            (2, 6, 4, 4.0, 57.985),
            (2, 6, 4, 18.0, 261.536),
            (2, 10, 2, 4.0, 55.29),
            (2, 10, 2, 24.0, 332.389),
            (2, 11, 2, 18.0, 274.213),
            (2, 11, 2, 61.44, 936.289),
        ];
        let records = Allocation::new(12, 128 << 10).expect("sizes");
        for (parity, width, groups, tb, published) in table {
            let pool = pool(Scheme::RaidZ(parity), width, groups, (tb * 1e12) as u64);
            let found = tib(records.free(&pool).1);
            assert!(
                (found - published).abs() < 0.002,
                "{groups}x{width} Z{parity} {tb} TB: {found}, {published}"
            );
        }
        // OpenZFS issue 13727, of a real pool: two vdevs of 17 drives of 18 TB, RAID-Z1 and Z2; df rounds up.
        for (parity, published) in [(1, 523.0), (2, 457.0)] {
            let pool = pool(Scheme::RaidZ(parity), 17, 2, 18_000_207_937_536);
            assert_eq!(tib(records.free(&pool).1).ceil(), published);
        }
    }

    #[test]
    fn small_pools_keep_back_a_thirty_second() {
        // Worked out apart from this, from the functions of OpenZFS that are named above: labels, metaslabs, the log's, and the
        // reserve, which is below its limit here, and at its least of 128 MiB in two of them.
        let table = [
            (1, 3, 1, 1_000_000_000_000, 1_929_060_024_320),
            (2, 4, 1, 100_000_000_000, 187_461_271_552),
            (2, 6, 2, 4_000_000_000_000, 31_808_796_229_632),
            // A little more than 180 metaslabs, before labels.
            (1, 3, 1, 1_030_793_199_616, 1_984_482_508_800),
            (1, 3, 1, 2_000_000_000, 3_798_990_848),
            (1, 3, 1, 300_000_000, 446_824_448),
        ];
        let records = Allocation::new(12, 128 << 10).expect("sizes");
        for (parity, width, groups, size, free) in table {
            let found = records.free(&pool(Scheme::RaidZ(parity), width, groups, size)).1;
            assert_eq!(found, free, "{groups}x{width} Z{parity} of {size} bytes");
        }
    }

    #[test]
    fn small_blocks_take_parity_and_padding() {
        let taken = |parity, width, block| {
            let of = Allocation::new(12, block).expect("sizes");
            of.allocated(&pool(Scheme::RaidZ(parity), width, 1, 1 << 40).parts[0], block) as f64
                / block as f64
        };
        // Ahrens, "How I learned to stop worrying and love RAIDZ" (2014), for 4 KiB sectors. A block of one sector is
        // a mirror. A block of 8 KiB on RAID-Z1 of five takes as much again; one of 128 KiB on RAID-Z2 of six takes
        // half as much again.
        assert_eq!(taken(1, 5, 4096), 2.0);
        assert_eq!(taken(1, 5, 8192), 2.0);
        assert_eq!(taken(2, 6, 8192), 3.0);
        assert_eq!(taken(2, 6, 131_072), 1.5);
        assert_eq!(taken(1, 4, 16384), 1.5);
    }

    #[test]
    fn sizes_that_no_pool_has_are_refused() {
        assert_eq!(Allocation::new(8, 4096), Err(AllocationError::Ashift(8)));
        assert_eq!(Allocation::new(12, 12345), Err(AllocationError::Block(12345)));
        assert_eq!(Allocation::new(12, 0), Err(AllocationError::Block(0)));
    }
}
