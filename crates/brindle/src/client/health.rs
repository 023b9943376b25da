//! How an array fares in one number: what `status --test` and `detail --test` exit with, as `mdadm --detail --test` does (mdadm(8)).

use std::process::ExitCode;

use brindle_md::assembly::AssemblyError;
use serde_json::Value;

use crate::base::failure::Failure;

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
    /// A member gave blocks that were wrong, or could not read them: there are read errors that count still. Not of mdadm.
    const CORRECTED: u8 = 8;
    /// Blocks of a pool's volumes are lost. Not of mdadm.
    const DAMAGED: u8 = 16;

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
        let arrays = report["arrays"].as_array().into_iter().flatten().chain([array]);
        let devices = arrays.flat_map(|array| array["devices"].as_array().into_iter().flatten());
        let errs = |device: &Value| device["read_errors"].as_u64().is_some_and(|errors| errors > 0);
        let more = [
            (!report["stale_for"].is_null(), Self::UNKNOWN),
            (devices.into_iter().any(errs), Self::CORRECTED),
            (says(array, "damaged"), Self::DAMAGED),
        ];
        Self(more.into_iter().filter(|(is, _)| *is).fold(own, |all, (_, bit)| all | bit))
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
        let errs = |errors: u64| json!({"array": {"state": ["clean"], "devices": [{"read_errors": errors}, {"read_errors": null}]}});
        assert_eq!([errs(0), errs(3)].map(|report| Health::of_report(&report).0), [0, 8]);
        let rots =
            json!({"pool": {"state": ["online", "damaged", "degraded"], "devices": [{"read_errors": 1}]}});
        assert_eq!(Health::of_report(&rots).0, 1 | 8 | 16);
        assert_eq!(Health::of_reports(&[]).0, 4);
        let all = [json!({"array": {"state": ["broken"]}}), nested];
        assert_eq!((Health::of_reports(&all).0, Health::of_reports(&all).and_unknown_if(true).0), (3, 7));
    }
}
