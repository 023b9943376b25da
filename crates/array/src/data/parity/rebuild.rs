//! Windows filled from members, with what is lost rebuilt, and what could not be read mended.

use core::ops::Range;

use brindle_io::{OpError, Outcome};
use brindle_layout::{ParityRows, Row};
use smallvec::SmallVec;

use super::PAGE;
use super::solve::{self, Unsolvable};
use super::window::{Planes, Window};
use crate::array::Inner;
use crate::volume::VolumeError;

/// Bytes of each member that are mended at a time, at most; where too much of those is bad, block by block.
const STEP: u64 = 64 << 10;

/// Why a window was not filled.
pub(super) enum LoadError {
    Volume(VolumeError),
    /// Members failed to give what was needed.
    Members(Outcome),
}

impl From<Unsolvable> for LoadError {
    fn from(_: Unsolvable) -> Self {
        Self::Volume(VolumeError::TooManyLost)
    }
}

/// Members whose bytes in a window could not be read, and why.
type Bad = SmallVec<[(u16, OpError); 4]>;

impl Inner {
    /// Bytes of each member that are mended at a time: what of all members fits in a step's scratch.
    pub(super) fn mend_step(&self) -> u64 {
        ((self.budget() / u64::from(self.members.len())) & !(PAGE - 1)).clamp(PAGE, STEP)
    }

    /// Fills the planes of the `wanted` roles of each row, rebuilding those that can't be read (or are in `bad`).
    /// Planes of other roles may be filled too. The caller holds the rows.
    pub(super) async fn load(
        &self,
        map: &ParityRows,
        window: &Window,
        more: u16,
        wanted: impl Fn(&Row, u16) -> bool,
        bad: &[(u16, OpError)],
    ) -> Result<Planes, LoadError> {
        let planes = self.planes(window, more).await;
        let there = |row: u64, role: u16| {
            self.readable_in(map, row, role).is_some() && bad.iter().all(|(bad, _)| *bad != role)
        };
        // Members may have failed while this task waited for memory: from here to the reads nothing waits.
        let mut computed = false;
        let mut group = self.io.group();
        for row in window.rows.clone() {
            let roles = map.row(row);
            let known = self.is_true(map, row, &window.cols);
            let needs = solve::needs(&roles, |role| there(row, role), |role| wanted(&roles, role), known)?;
            computed |= needs.data;
            for role in 0..self.members.len() {
                let needed = match role {
                    _ if wanted(&roles, role) => true,
                    role if role == roles.p() => needs.p,
                    role if Some(role) == roles.q() => needs.q,
                    _ => needs.data,
                };
                if let (true, true, Some(device)) = (needed, there(row, role), self.members.device(role)) {
                    let offset = device.data_offset + window.offset(map, row);
                    group.read(device.id, offset, &planes.block(role, row));
                }
            }
        }
        let lost: SmallVec<[(u64, solve::LostData); 8]> = if computed {
            let lost = window.rows.clone().map(|row| {
                Ok((row, solve::lost_data(&map.row(row), |role| there(row, role)).unwrap_or_default()))
            });
            lost.collect::<Result<_, LoadError>>()?
        } else {
            SmallVec::new()
        };
        let parity_there: SmallVec<[(bool, bool); 8]> = lost
            .iter()
            .map(|&(row, _)| {
                let roles = map.row(row);
                (there(row, roles.p()), roles.q().is_some_and(|q| there(row, q)))
            })
            .collect();
        let outcome = group.submit().await;
        if !outcome.is_ok() {
            return Err(LoadError::Members(outcome));
        }
        if computed {
            let mut bytes = planes.bytes_mut();
            for ((row, lost), (p, q)) in lost.iter().zip(parity_there) {
                let roles = map.row(*row);
                let missing = |role: u16, there: bool| (wanted(&roles, role) && !there).then_some(role);
                let parity = (missing(roles.p(), p), roles.q().and_then(|role| missing(role, q)));
                let data_wanted = lost.iter().any(|&index| wanted(&roles, roles.data_member(index)));
                if !data_wanted && parity == (None, None) {
                    continue;
                }
                let mut blocks = planes.blocks(&mut bytes, *row);
                solve::rebuild_data(self.kernel, &roles, &mut blocks, lost, p);
                if parity != (None, None) {
                    solve::generate_into(self.kernel, &roles, &mut blocks, parity);
                }
            }
        }
        Ok(planes)
    }

    /// [`Inner::load`] of one row with all the means there are: members that fail to give their bytes are left out
    /// and what they should have given is written over theirs. The caller holds the row alone.
    pub(super) async fn load_carefully(
        &self,
        map: &ParityRows,
        window: &Window,
        wanted: impl Fn(&Row, u16) -> bool,
    ) -> Result<Planes, VolumeError> {
        let mut bad = Bad::new();
        loop {
            let also = |row: &Row, role: u16| wanted(row, role) || bad.iter().any(|(bad, _)| *bad == role);
            match self.load(map, window, 0, also, &bad).await {
                Ok(planes) => {
                    self.mend(map, window, &planes, &bad).await?;
                    return Ok(planes);
                }
                // Without the bad members it can't be done: what ails them is the better answer.
                Err(LoadError::Volume(error)) => {
                    return Err(bad.first().map_or(error, |&(_, error)| VolumeError::Member(error)));
                }
                Err(LoadError::Members(outcome)) => self.note_failures(&outcome, &mut bad).await?,
            }
        }
    }

    async fn note_failures(&self, outcome: &Outcome, bad: &mut Bad) -> Result<(), VolumeError> {
        for failure in outcome.failures() {
            let role = failure.kind.member().and_then(|member| self.role_of(member));
            let Some(role) = role.filter(|role| bad.iter().all(|(bad, _)| bad != role)) else {
                return Err(VolumeError::Member(failure.error));
            };
            if failure.error == OpError::Gone && !self.config.read_only {
                self.fail_member(role, failure.error, false).await?;
            } else {
                bad.push((role, failure.error));
            }
        }
        Ok(())
    }

    /// Writes rebuilt bytes over those that could not be read. A member that refuses them has failed.
    async fn mend(
        &self,
        map: &ParityRows,
        window: &Window,
        planes: &Planes,
        bad: &[(u16, OpError)],
    ) -> Result<(), VolumeError> {
        if self.config.read_only {
            return Ok(());
        }
        for &(role, error) in bad {
            let Some(device) = self.members.writable(role) else { continue };
            let mut group = self.io.group();
            let offset = device.data_offset + window.offset(map, window.rows.start);
            group.write(device.id, offset, &planes.all(role), false);
            let outcome = group.submit().await;
            if let Err(error) = outcome.ok().map_err(|_| error) {
                self.fail_member(role, error, false).await?;
            }
        }
        Ok(())
    }

    /// Makes the columns of a role's block in a row readable again where they are not. The caller holds the row alone.
    pub(super) async fn mend_block(
        &self,
        map: &ParityRows,
        row: u64,
        cols: Range<u64>,
        role: u16,
    ) -> Result<(), VolumeError> {
        let step = self.mend_step();
        for from in cols.clone().step_by(step as usize) {
            let to = (from + step).min(cols.end);
            if self.load_carefully(map, &Window::of_row(row, from..to), |_, r| r == role).await.is_ok() {
                continue;
            }
            let block = u64::from(self.limits.block);
            for from in (from..to).step_by(block as usize) {
                let to = (from + block).min(to);
                self.load_carefully(map, &Window::of_row(row, from..to), |_, r| r == role).await?;
            }
        }
        Ok(())
    }
}
