//! Members whose copies were cut at their ends: read as far as they go, if that was forced.

use brindle_format::md::{SuperblockError, Version};

use super::assumed;
use super::members::Seen;
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
