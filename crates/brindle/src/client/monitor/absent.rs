//! Arrays and pools that should be there and are not: by the settings of a server, or by a line of mdadm.conf.

use brindle_host::status::{AbsentStatus, Report};

use super::changes::Facts;
use super::kept::Kept;
use super::state::Seen;

/// Something that should be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Absent {
    pub(super) name: String,
    uuid: Option<String>,
    pub(super) why: String,
    /// Roles that lack a device; none if no part of it is there.
    missing: Option<Vec<String>>,
    next: Option<String>,
    /// It is there again.
    pub(super) is_over: bool,
}

impl Absent {
    /// By a server's report (docs/cli-json.md); none of what it serves.
    pub(super) fn of_report(report: &Report) -> Option<Self> {
        let Report::Absent(status) = report else { return None };
        let AbsentStatus { name, uuid, not_served, missing, next, .. } = (**status).clone();
        Some(Self { name, uuid, why: not_served, missing, next, is_over: false })
    }

    /// By a line of mdadm.conf.
    pub(super) fn listed(name: &str) -> Self {
        let why = "mdadm.conf lists it, and neither a server nor the kernel has it".to_owned();
        Self {
            name: name.to_owned(),
            why,
            next: Some("brindle examine --scan".to_owned()),
            ..Self::default()
        }
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.uuid.as_deref() == Some(name)
    }

    /// Whether this array is it: a UUID decides, where both sides have one.
    pub(super) fn is(&self, seen: &Seen) -> bool {
        match &self.uuid {
            Some(uuid) if !seen.uuid.is_empty() => *uuid == seen.uuid,
            _ => self.name == seen.name || !seen.full_name.is_empty() && self.name == seen.full_name,
        }
    }

    /// The same when it is there again, until that was told.
    pub(super) fn over(self) -> Self {
        Self { is_over: true, ..self }
    }

    pub(super) fn facts(&self, kept: &Kept) -> Facts {
        Facts {
            state: vec!["not served".to_owned()],
            disks: kept.of_absent(self.uuid.as_deref(), &self.name, self.missing.as_deref()),
            next: self.next.clone(),
            ..Facts::default()
        }
    }
}
