//! The wrong one of several copies: the one that differs from most.

use brindle_members::door::MemberOps;

use super::window::CopyWindow;
use super::{Mirror, Readable};
use crate::data::report::{Mismatch, MismatchKind, SyncMode, SyncReport};

/// Bytes of a sector.
const SECTOR: u64 = 512;

impl Mirror {
    /// Names the copies that differ from most others, one logical block after the other, since disks forget and rot by those,
    /// and adds the writes that make them the same where
    /// only these are to be written. Gives the number of sectors that differ from the first copy's where no content has most.
    pub(super) fn vote(
        &self,
        window: &CopyWindow,
        (at, len): (u64, u64),
        copies: &[Readable],
        mode: SyncMode,
        repairs: &mut MemberOps<'_>,
        report: &mut SyncReport,
    ) -> u64 {
        let mut unlocated = 0;
        let block = u64::from(self.core.limits.block);
        for start in (at..at + len).step_by(block as usize) {
            let bytes = (start, block.min(at + len - start));
            let of = |copy: &Readable| window.slice(copy.copy, bytes.0, bytes.1);
            let same = |a: &Readable, b: &Readable| *of(a).bytes() == *of(b).bytes();
            let votes = |copy: &Readable| copies.iter().filter(|other| same(copy, other)).count();
            let Some(good) = copies.iter().find(|copy| 2 * votes(copy) > copies.len()) else {
                let differing = copies.iter().filter(|copy| !same(&copies[0], copy)).count() as u64;
                unlocated += differing * (bytes.1 / SECTOR);
                continue;
            };
            for wrong in copies.iter().filter(|copy| !same(good, copy)) {
                let (role, offset) = (wrong.extent.member, wrong.extent.offset + (start - at));
                let (len, kind) = (bytes.1, MismatchKind::Copy);
                report.note_located(Mismatch { role, offset, len, kind, located: true });
                if mode == SyncMode::Locate {
                    repairs.write(wrong.device, offset, &of(good), false);
                }
            }
        }
        unlocated
    }
}
