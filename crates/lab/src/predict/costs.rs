//! Processor time of a request: of this engine as `make bench` measured it, of md as others did.

use brindle_layout::{Geometry, Layout, Level};

use super::spec::Policies;
use crate::drive::constants::MD_PIECE;

/// md works on parity in pieces of a page of each member.
const PAGE: u64 = 4096;
/// Nanoseconds of md's parity thread for one stripe (a page of each member) of RAID 6: 39,908 writes of 4 KiB a second over
/// 12 NVMe drives, whatever else the drives could do (published, 2018; kernel 4.11), which one thread is busy with.
const MD_STRIPE_RAID6: u64 = 25_000;
/// The same of RAID 4 and 5, which move four blocks where RAID 6 moves six.
const MD_STRIPE_RAID5: u64 = 17_000;

/// Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Of what all processors share.
    pub(super) shared: u64,
    /// Of one of them.
    pub(super) own: u64,
}

/// What requests to an array cost.
pub(super) struct Costs {
    policies: Policies,
    level: Level,
    chunk: u64,
    copies: u64,
    /// Bytes of data in a row.
    row: u64,
}

impl Costs {
    pub(super) fn new(policies: Policies, geometry: &Geometry) -> Self {
        let members = u64::from(geometry.members());
        let level = geometry.level();
        let copies = match (level, geometry.layout()) {
            (Level::Raid1, _) => members,
            (_, Layout::Raid10(layout)) => u64::from(layout.near) * u64::from(layout.far),
            _ => 1,
        };
        let parity = match level {
            Level::Raid4 | Level::Raid5 => 1,
            Level::Raid6 => 2,
            _ => 0,
        };
        let chunk = geometry.chunk().max(PAGE);
        Self { policies, level, chunk, copies, row: chunk * members.saturating_sub(parity).max(1) }
    }

    pub(super) fn read(&self, offset: u64, len: u64) -> Cost {
        let pieces = self.pieces(offset, len);
        match self.policies {
            Policies::LinuxMd(_) => Cost { shared: MD_PIECE * pieces, own: 0 },
            Policies::Brindle => Cost { shared: 0, own: self.engine(pieces, [90, 180], [30, 56]) },
        }
    }

    pub(super) fn write(&self, offset: u64, len: u64) -> Cost {
        let pieces = self.pieces(offset, len);
        match (self.policies, self.stripe()) {
            (Policies::LinuxMd(_), None) => Cost { shared: MD_PIECE * pieces * self.copies, own: 0 },
            (Policies::LinuxMd(_), Some(stripe)) => {
                Cost { shared: MD_PIECE * pieces, own: stripe * self.stripes(offset, len) }
            }
            (Policies::Brindle, None) => Cost { shared: 0, own: self.engine(pieces, [100, 270], [30, 43]) },
            // A request and its locks; then parity, whose blocks come from memory.
            (Policies::Brindle, Some(_)) => Cost { shared: 0, own: 1000 + len * 50 / 1024 },
        }
    }

    /// `docs/bench/engine.md`: of a request, and of each chunk that it touches; striped levels and mirrored ones.
    fn engine(&self, pieces: u64, request: [u64; 2], piece: [u64; 2]) -> u64 {
        let kind = usize::from(self.copies > 1);
        request[kind] + piece[kind] * pieces
    }

    fn stripe(&self) -> Option<u64> {
        match self.level {
            Level::Raid6 => Some(MD_STRIPE_RAID6),
            Level::Raid4 | Level::Raid5 => Some(MD_STRIPE_RAID5),
            _ => None,
        }
    }

    /// Chunks that a request touches.
    fn pieces(&self, offset: u64, len: u64) -> u64 {
        if len == 0 { 0 } else { (offset + len - 1) / self.chunk - offset / self.chunk + 1 }
    }

    /// Stripes of a page that a request touches.
    fn stripes(&self, offset: u64, len: u64) -> u64 {
        let (mut at, end, mut stripes) = (offset, offset + len, 0);
        while at < end {
            let in_row = (self.row - at % self.row).min(end - at);
            stripes += in_row.min(self.chunk).div_ceil(PAGE);
            at += in_row;
        }
        stripes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::Balance;

    #[test]
    fn md_pays_for_pieces_copies_and_stripes() {
        let costs = |level, members: usize| {
            let sizes = vec![1 << 30; members];
            let geometry =
                Geometry::new(level, Layout::default_for(level), 32 << 10, &sizes).expect("a geometry");
            Costs::new(Policies::LinuxMd(Balance::Nearest), &geometry)
        };
        let raid10 = costs(Level::Raid10, 4);
        assert_eq!(raid10.read(4096, 64 << 10), Cost { shared: 3 * MD_PIECE, own: 0 });
        assert_eq!(raid10.write(0, 64 << 10), Cost { shared: 4 * MD_PIECE, own: 0 });
        let raid6 = costs(Level::Raid6, 6);
        assert_eq!(raid6.write(0, 4096), Cost { shared: MD_PIECE, own: MD_STRIPE_RAID6 });
        // Two rows of four chunks: eight pages of each member in both.
        assert_eq!(raid6.write(0, 256 << 10), Cost { shared: 8 * MD_PIECE, own: 16 * MD_STRIPE_RAID6 });
        assert_eq!(raid6.read(0, 4096), Cost { shared: MD_PIECE, own: 0 });
    }
}
