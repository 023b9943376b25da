//! The content of the drives at the end of a boot, with any ledger.

use brindle_io::MemberId;
use brindle_io::sim::Sim;

use super::disks::{Disks, Known};
use super::judge::Failure;
use super::plan::StormPlan;
use crate::container::Record;

/// The content of the drives, by the ledger that wrote it.
pub(super) enum Seen {
    /// Superblocks.
    Superblocks(Disks),
    /// The newest whole record of a container on each drive that has one, by role.
    Records(Vec<(u16, Record)>),
}

impl Seen {
    /// Looks beside the engine's back.
    pub(super) fn look(sim: &Sim, drives: &[MemberId], plan: &StormPlan) -> Self {
        if !plan.container {
            return Self::Superblocks(Disks::look(sim, drives, &plan.shape));
        }
        let record = |&drive: &MemberId| Record::look(sim, drive, plan.shape.device_bytes());
        Self::Records((0..).zip(drives).filter_map(|(role, drive)| Some((role, record(drive)?))).collect())
    }

    /// The role and the drive of the member with the newest superblock or record among those whose roles `may` be asked for.
    pub(super) fn newest(&self, may: impl Fn(u16) -> bool) -> Option<(u16, u16)> {
        match self {
            Self::Superblocks(disks) => disks.newest(may),
            Self::Records(records) => newest(records, may).map(|(role, _)| (role, role)),
        }
    }

    /// Checks that no reader can take members recorded as failed for members in use.
    pub(super) fn judge_event_counts(&self, known: &Known) -> Result<(), Failure> {
        match self {
            Self::Superblocks(disks) => disks.judge_event_counts(known),
            Self::Records(records) => {
                let in_use = records.iter().filter(|(role, _)| known.in_sync.contains(role));
                let trusted =
                    |role: &&u16| in_use.clone().any(|(_, record)| !record.lost[usize::from(**role)]);
                known.failed.iter().find(trusted).map_or(Ok(()), |&role| Err(Failure::TooRecent(role)))
            }
        }
    }

    /// After a stop the members in use have whole superblocks of one count, or records of one generation.
    pub(super) fn judge_whole(&self, known: &Known) -> Result<(), Failure> {
        match self {
            Self::Superblocks(disks) => disks.judge_whole(known),
            Self::Records(records) => {
                let generation =
                    |role: u16| records.iter().find(|(r, _)| *r == role).map(|(_, r)| r.generation);
                let newest = known.in_sync.iter().filter_map(|&role| generation(role)).max();
                let mut left = known.in_sync.clone();
                left.retain(|&role| generation(role) != newest);
                if left.is_empty() { Ok(()) } else { Err(Failure::StaleSuperblocks(left)) }
            }
        }
    }
}

/// The newest of some records.
pub(super) fn newest(records: &[(u16, Record)], may: impl Fn(u16) -> bool) -> Option<(u16, &Record)> {
    let asked = records.iter().filter(|(role, _)| may(*role));
    asked.max_by_key(|(_, record)| record.generation).map(|(role, record)| (*role, record))
}
