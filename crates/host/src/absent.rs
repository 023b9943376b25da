//! Arrays and pools that the settings of a server mean. Its status has those, too, that it does not serve.

use crate::opening::VolumeOpening;
use crate::status::{AbsentStatus, Report};

/// An array or a pool that is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// Its name and its UUID, as far as they are known.
    pub volume: VolumeOpening,
    /// It is a pool.
    pub is_pool: bool,
    /// The reason why it is not served, if it is not.
    pub why: String,
    /// Roles without a device; none if no part of it was found.
    pub missing: Option<Vec<String>>,
    /// The command that goes on from here.
    pub next: Option<String>,
}

impl Configured {
    /// Whether this is what is meant: a UUID decides, where both sides have one.
    fn is(&self, report: &Report) -> bool {
        let (name, uuid) = (report.name(), report.uuid());
        let by_full_name = |name: &String| match report {
            Report::Array(array) => array.array.facts.name == *name,
            Report::Pool(_) | Report::Absent(_) | Report::Other(_) => false,
        };
        self.volume.means(name, uuid)
            || self.volume.uuid.is_none() && self.volume.name.as_ref().is_some_and(by_full_name)
    }

    /// Its status, unless one of these is it.
    pub(crate) fn absent_among(&self, served: &[Report], server: &str) -> Option<Report> {
        if served.iter().any(|report| self.is(report)) {
            return None;
        }
        let VolumeOpening { name, uuid, .. } = &self.volume;
        Some(Report::Absent(Box::new(AbsentStatus {
            name: name.clone().or_else(|| uuid.clone()).unwrap_or_default(),
            kind: if self.is_pool { "pool" } else { "array" }.into(),
            uuid: uuid.clone(),
            not_served: self.why.clone(),
            missing: self.missing.clone(),
            next: self.next.clone(),
            pid: std::process::id(),
            server: server.to_owned(),
        })))
    }
}
