//! How an array fares in one number: what `status --test` and `detail --test` exit with, as `mdadm --detail --test` does (mdadm(8)).

use std::process::ExitCode;

use brindle_md::assembly::AssemblyError;
use serde_json::Value;

use crate::failure::Failure;

/// The bits of several arrays, joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health(u8);

impl Health {
    /// A member is lost, or does not hold all that it should.
    const DEGRADED: u8 = 1;
    /// More members are lost than the array can do without.
    const UNUSABLE: u8 = 2;
    /// The status is unknown.
    const UNKNOWN: u8 = 4;

    /// The health of a server that did not answer.
    pub(crate) fn unknown() -> Self {
        Self(Self::UNKNOWN)
    }

    /// The health of an array by its superblocks.
    pub(crate) fn of_members(degraded: bool) -> Self {
        Self(if degraded { Self::DEGRADED } else { 0 })
    }

    /// The health of members that form no array.
    pub(crate) fn of_failure(failure: &Failure) -> Self {
        match failure {
            Failure::Without { source, .. } | Failure::Cut { source, .. } => Self::of_failure(source),
            Failure::Assembly(AssemblyError::TooFewMembers { .. } | AssemblyError::NoMember { .. }) => {
                Self(Self::UNUSABLE)
            }
            _ => Self::unknown(),
        }
    }

    /// The health of a served array by its server's report.
    pub(crate) fn of_report(report: &Value) -> Self {
        let says = |array: &Value, word: &str| {
            array["state"].as_array().into_iter().flatten().any(|state| *state == *word)
        };
        let lacks = |array: &Value| says(array, "degraded") || says(array, "broken");
        let nested = report["arrays"].as_array().into_iter().flatten().any(lacks);
        let array = if report["pool"].is_object() { &report["pool"] } else { &report["array"] };
        let own = match () {
            () if report["not_served"].is_string() => Self::UNUSABLE,
            () if !array["state"].is_array() => Self::UNKNOWN,
            () if says(array, "broken") => Self::UNUSABLE,
            () if lacks(array) || nested => Self::DEGRADED,
            () => 0,
        };
        Self(own | if report["stale_for"].is_null() { 0 } else { Self::UNKNOWN })
    }

    /// The joined health of several arrays; unknown if there are none.
    pub(crate) fn of_reports(reports: &[Value]) -> Self {
        let all = reports.iter().map(Self::of_report).reduce(|all, one| Self(all.0 | one.0));
        all.unwrap_or_else(Self::unknown)
    }

    /// Adds the bit for servers that did not answer.
    pub(crate) fn and_unknown_if(self, silent: bool) -> Self {
        Self(self.0 | if silent { Self::UNKNOWN } else { 0 })
    }

    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_numbers_are_those_of_mdadm() {
        let of = |state: &[&str]| Health::of_report(&json!({"array": {"state": state}})).0;
        assert_eq!([of(&["clean"]), of(&["active", "needs resync"]), of(&["active", "degraded"])], [0, 0, 1]);
        assert_eq!(of(&["broken", "degraded"]), 2);
        let nested = json!({"array": {"state": ["clean"]}, "arrays": [{"state": ["clean", "degraded"]}]});
        assert_eq!(Health::of_report(&nested).0, 1);
        let stale = json!({"array": {"state": ["active", "degraded"]}, "stale_for": 3.5});
        assert_eq!((Health::of_report(&stale).0, Health::of_report(&json!({})).0), (5, 4));
        assert_eq!(Health::of_report(&json!({"name": "b", "not_served": "it was not found"})).0, 2);
        assert_eq!(Health::of_reports(&[]).0, 4);
        let all = [json!({"array": {"state": ["broken"]}}), nested];
        assert_eq!((Health::of_reports(&all).0, Health::of_reports(&all).and_unknown_if(true).0), (3, 7));
    }
}
