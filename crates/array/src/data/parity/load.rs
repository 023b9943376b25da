//! Fills windows from members, and rebuilds lost blocks.

use brindle_layout::Row;
use brindle_members::door::Done;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use super::Parity;
use super::bad::Bad;
use super::solve::{self, Unsolvable};
use super::window::{Planes, RowWindow};

/// Why a window was not filled.
pub(super) enum LoadError {
    Volume(VolumeError),
    /// Members failed to give the blocks that were needed.
    Members(Done),
}

impl From<Unsolvable> for LoadError {
    fn from(_: Unsolvable) -> Self {
        Self::Volume(VolumeError::TooManyLost)
    }
}

impl Parity {
    /// Fills the planes of the `wanted` roles of each row. Planes that can't be read, or are in `bad`, are rebuilt.
    /// Planes of other roles may be filled too. The caller holds the rows.
    pub(super) async fn load(
        &self,
        window: &RowWindow,
        more: u16,
        wanted: impl Fn(&Row, u16) -> bool,
        bad: &Bad,
    ) -> Result<Planes, LoadError> {
        let planes = self.planes(window, more).await;
        let there = |row: u64, role: u16| self.readable_in(row, role).is_some() && !bad.has(role);
        // Members may have failed while this task waited for memory: from here to the reads nothing waits.
        let mut computed = false;
        let mut group = self.ask();
        for row in window.rows.clone() {
            let roles = self.map.row(row);
            let trust = self.trust(row, &window.cols);
            let needs = solve::needs(&roles, |role| there(row, role), |role| wanted(&roles, role), trust)?;
            computed |= needs.data;
            for role in 0..self.width() {
                let needed = match role {
                    _ if wanted(&roles, role) => true,
                    role if role == roles.p() => needs.p,
                    role if Some(role) == roles.q() => needs.q,
                    _ => needs.data,
                };
                if let (true, true, Some(device)) = (needed, there(row, role), self.core.members.device(role))
                {
                    let offset = window.offset(&self.map, row);
                    group.read(device, offset, &planes.block(role, row));
                }
            }
        }
        let lost: SmallVec<[(u64, solve::LostData); 8]> = if computed {
            let lost = window.rows.clone().map(|row| {
                Ok((row, solve::lost_data(&self.map.row(row), |role| there(row, role)).unwrap_or_default()))
            });
            lost.collect::<Result<_, LoadError>>()?
        } else {
            SmallVec::new()
        };
        let parity_there: SmallVec<[(bool, bool); 8]> = lost
            .iter()
            .map(|&(row, _)| {
                let roles = self.map.row(row);
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
                let roles = self.map.row(*row);
                let missing = |role: u16, there: bool| (wanted(&roles, role) && !there).then_some(role);
                let parity = (missing(roles.p(), p), roles.q().and_then(|role| missing(role, q)));
                let data_wanted = lost.iter().any(|&index| wanted(&roles, roles.data_member(index)));
                if !data_wanted && parity == (None, None) {
                    continue;
                }
                let mut blocks = planes.blocks(&mut bytes, *row);
                self.put_logged(*row, window.cols.start, &mut blocks);
                solve::rebuild_data(self.kernel, &roles, &mut blocks, lost, p);
                if parity != (None, None) {
                    solve::generate_into(self.kernel, &roles, &mut blocks, parity);
                }
            }
        }
        Ok(planes)
    }
}
