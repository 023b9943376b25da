//! Finds the wrong member of a row, sector by sector.

use core::ops::Range;

use brindle_layout::Row;
use brindle_parity::{Culprit, culprit};

use super::window::Blocks;
use crate::data::report::MismatchKind;

/// Bytes of a sector.
const SECTOR: usize = 512;

/// Sectors of a member that are wrong.
pub(super) struct Wrong {
    pub(super) role: u16,
    pub(super) kind: MismatchKind,
    /// Bytes of the row's columns in the window.
    pub(super) bytes: Range<usize>,
}

/// Finds the wrong members in a part of a row with P and Q, all of whose blocks are there. `computed` are the planes
/// of P and Q recomputed. Each logical block of a disk is judged by itself, since disks lose or corrupt whole
/// blocks; neighbours with one answer are joined. Also gives the number of sectors for which no single member
/// explains the difference.
pub(super) fn locate(
    row: &Row,
    blocks: &Blocks<'_>,
    computed: (u16, u16),
    part: Range<usize>,
    block: usize,
) -> (Vec<Wrong>, u64) {
    let (mut found, mut unknown): (Vec<Wrong>, u64) = (Vec::new(), 0);
    let Some(q) = row.q() else { return (found, (part.len() / SECTOR) as u64) };
    for at in part.clone().step_by(block) {
        let bytes = at..(at + block).min(part.end);
        let of = |plane: u16| &blocks[usize::from(plane)][bytes.clone()];
        if of(row.p()) == of(computed.0) && of(q) == of(computed.1) {
            continue;
        }
        let culprit = culprit(of(row.p()), of(q), of(computed.0), of(computed.1));
        let Some((role, kind)) = culprit.and_then(|culprit| member(row, q, culprit)) else {
            unknown += (bytes.len() / SECTOR) as u64;
            continue;
        };
        match found.last_mut() {
            Some(last) if (last.role, last.bytes.end) == (role, at) => last.bytes.end = bytes.end,
            _ => found.push(Wrong { role, kind, bytes }),
        }
    }
    (found, unknown)
}

/// The role and kind of the wrong block; `None` for a term of the sum that no member holds.
fn member(row: &Row, q: u16, culprit: Culprit) -> Option<(u16, MismatchKind)> {
    Some(match culprit {
        Culprit::P => (row.p(), MismatchKind::P),
        Culprit::Q => (q, MismatchKind::Q),
        Culprit::Slot(slot) => {
            let index = (0..row.data_members()).find(|&index| usize::from(row.data_slot(index)) == slot)?;
            (row.data_member(index), MismatchKind::Data)
        }
    })
}

impl Wrong {
    /// Computes the correct content of the member; gives the plane in which it stands then.
    pub(super) fn mend(&self, row: &Row, blocks: &mut Blocks<'_>, computed: (u16, u16)) -> u16 {
        match self.kind {
            MismatchKind::P => computed.0,
            MismatchKind::Q => computed.1,
            MismatchKind::Data | MismatchKind::Copy => {
                for at in self.bytes.clone() {
                    let change = blocks[usize::from(row.p())][at] ^ blocks[usize::from(computed.0)][at];
                    blocks[usize::from(self.role)][at] ^= change;
                }
                self.role
            }
        }
    }
}
