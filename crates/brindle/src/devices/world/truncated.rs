//! Members whose copies were cut at their ends: read as far as they go, if that was forced.

use std::path::PathBuf;

use brindle_format::md::{SuperblockError, Version};
use brindle_md::assembly::Claim;

use super::assumed;
use super::members::{Named, Seen, Set};
use crate::base::failure::Failure;
use crate::base::look;

impl Seen {
    /// Takes a member that ends before its data do for as long as its superblock, or --assume, says. Its missing end can't be read. Gives a warning for a
    /// member that was cut.
    pub(super) fn stretched(mut self) -> Result<(Self, Option<String>), Failure> {
        let label = self.candidate.label.clone();
        let has = self.device.info().size;
        let at_its_beginning = self
            .candidate
            .found
            .first()
            .is_some_and(|found| matches!(found.version, Version::V1_1 | Version::V1_2));
        let end = match (assumed::end(), self.candidate.superblock()) {
            (Some(end), _) if end > has => end,
            (None, Err(Some(SuperblockError::BeyondDevice { end, .. }))) if at_its_beginning => *end,
            _ => return Ok((self, None)),
        };
        self.device.stretch(end);
        if assumed::end().is_some() {
            // The superblock is not needed here.
            self.candidate.member = self.device.info();
        } else {
            self.candidate = look::candidate(&label, self.device.info(), look::reader(&self.device))?;
        }
        let reported = format!(
            "{label}: it was cut at byte {has}, before its data end at byte {end}: read as far as it goes"
        );
        Ok((self, Some(reported)))
    }
}

/// Devices whose superblocks can't be used, and claim an array that no other device is of.
pub(crate) fn of_no_set(sets: &[Set]) -> Vec<PathBuf> {
    let is_known = |claim: Claim| {
        let mut known = sets.iter().flat_map(|set| &set.members).filter_map(Named::array);
        known.any(|array| array == claim.array)
    };
    let left_out = sets.iter().flat_map(|set| &set.left_out).map(|left| (&left.label, left.claim));
    // Where none of all can be used, none is left out.
    let unfit = sets.iter().flat_map(|set| &set.members).filter(|named| named.array().is_none());
    let unfit =
        unfit.map(|named| (&named.label, named.candidate.found.first().and_then(|found| found.claim)));
    let mut all: Vec<PathBuf> = Vec::new();
    for (label, claim) in left_out.chain(unfit) {
        let path = PathBuf::from(label);
        if claim.is_some_and(|claim| !is_known(claim)) && !all.contains(&path) {
            all.push(path);
        }
    }
    all
}
