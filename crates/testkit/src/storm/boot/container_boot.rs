//! Lives of an array whose state a container keeps.

use brindle_array::Array;
use brindle_io::MemberId;
use brindle_layout::Family;

use super::super::content::{Seen, newest};
use super::super::disks::Known;
use super::super::judge::Failure;
use super::{Patience, Run};
use crate::container::Container;
use crate::shape::planned;

impl Run {
    /// Reads the container of the drives that answer.
    async fn open_container(&self) -> Result<Container, Failure> {
        let gone = |id: MemberId| self.stage.sim.faults(id).gone;
        let mut given: Vec<Option<MemberId>> =
            self.stage.drives.iter().map(|&id| (!gone(id)).then_some(id)).collect();
        loop {
            match Container::open(&self.io, &self.pool, &given).await {
                Ok(Some(container)) => return Ok(container),
                Ok(None) => return Err(Failure::NoContainer),
                Err((number, error)) => {
                    let struck = self.boot.struck.contains(&(number as u16));
                    if !struck && !given[number].is_some_and(gone) {
                        return Err(Failure::Look(error));
                    }
                    given[number] = None;
                }
            }
        }
    }

    /// As a product would open what the container describes, by md's rules for what is dirty and degraded.
    pub(super) async fn start_contained(&self) -> Result<(Array, bool), Failure> {
        let container = self.open_container().await?;
        let (shape, lost) = (&self.stage.plan.shape, container.lost());
        let geometry = planned(&shape.spec()).geometry;
        self.judge_out(&lost)?;
        let doubt = container.record().states[0].in_doubt().is_some();
        let forced = doubt && !lost.is_empty() && matches!(geometry.family(), Family::Parity(_));
        if !geometry.can_lose(&lost) || forced && !self.may_force() {
            return Err(Failure::NotEnough(lost));
        }
        if self.boot.stopped && doubt {
            return Err(Failure::NotClean);
        }
        if forced {
            container.force(0);
        }
        Ok((container.array(0, geometry, shape.data_offset(), &self.config()), forced))
    }

    /// Judges the container's record after a stop. Gives whether it says that the array is clean.
    pub(super) async fn judge_stopped(&self, array: &Array, patient: Patience) -> Result<bool, Failure> {
        let (doubt, known) = (array.needs_resync(), Known::of(array, &self.stage.drives));
        let container = self.open_container().await?;
        let (clean, lost) = (container.record().states[0].in_doubt().is_none(), container.lost());
        if patient.errors && !array.geometry().can_lose(&lost) {
            return Ok(false);
        }
        if !clean && !doubt && !patient.errors {
            return Err(Failure::NotClean);
        }
        self.judge_out(&lost)?;
        let seen = self.stage.seen();
        if !patient.errors {
            seen.judge_whole(&known)?;
        }
        if !self.boot.reads_only {
            seen.judge_event_counts(&known)?;
        }
        if let Seen::Records(records) = &seen
            && clean
            && !patient.errors
        {
            // Whichever device is lost, if the array can do without, the others are enough, and clean.
            for role in (0..array.geometry().members()).filter(|role| !lost.contains(role)) {
                let without = [&lost[..], &[role]].concat();
                let rest = newest(records, |other| !without.contains(&other));
                let whole = rest.is_some_and(|(_, record)| record.states[0].in_doubt().is_none());
                if array.geometry().can_lose(&without) && !whole {
                    return Err(Failure::NotEnough(without));
                }
            }
        }
        Ok(clean)
    }
}
