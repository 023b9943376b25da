//! How an array fares in one number: what `status --test` and `detail --test` exit with, as `mdadm --detail --test` does (mdadm(8)).

use std::process::ExitCode;

use brindle_host::status::{ArrayStatus, ExportStatus, OtherStatus, PoolFacts, Report};

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
            failure if failure.too_few() => Self(Self::UNUSABLE),
            _ => Self::unknown(),
        }
    }

    /// The health of a served array by its server's report.
    pub(crate) fn of_report(report: &Report) -> Self {
        let more = match report {
            Report::Absent(_) => return Self(Self::UNUSABLE),
            Report::Array(status) => Self::of_array(status),
            Report::Pool(status) => Self::of_pool(&status.pool),
            Report::Other(status) => Self::of_other(status),
        };
        Self(more | if report.stale_for().is_some() { Self::UNKNOWN } else { 0 })
    }

    fn of_other(status: &OtherStatus) -> u8 {
        let says = |word: &str| status.state.iter().any(|state| state == word);
        Self::by_state(says("broken"), says("degraded"))
    }

    fn by_state(is_broken: bool, is_degraded: bool) -> u8 {
        match (is_broken, is_degraded) {
            (true, _) => Self::UNUSABLE,
            (false, true) => Self::DEGRADED,
            (false, false) => 0,
        }
    }

    fn of_array(status: &ExportStatus) -> u8 {
        let lacks = |array: &ArrayStatus| array.is("degraded") || array.is("broken");
        let is_degraded = lacks(&status.array) || status.arrays.iter().any(lacks);
        let own = Self::by_state(status.array.is("broken"), is_degraded);
        let errs = status.devices().any(|device| device.read_errors.is_some_and(|errors| errors > 0));
        own | if errs { Self::CORRECTED } else { 0 }
    }

    fn of_pool(pool: &PoolFacts) -> u8 {
        let own = Self::by_state(pool.is("broken"), pool.is("degraded"));
        let errs = pool.devices.iter().any(|device| device.read_errors > 0);
        let more = [(errs, Self::CORRECTED), (pool.is("damaged"), Self::DAMAGED)];
        more.into_iter().filter(|(is, _)| *is).fold(own, |all, (_, bit)| all | bit)
    }

    /// The joined health of several arrays; unknown if there are none.
    pub(crate) fn of_reports(reports: &[Report]) -> Self {
        let all = reports.iter().map(Self::of_report).reduce(|all, one| Self(all.0 | one.0));
        all.unwrap_or_else(Self::unknown)
    }

    /// The joined health of two arrays.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
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
    use serde_json::{Value, json};

    use super::*;

    fn read(report: Value) -> Report {
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn the_numbers_are_those_of_mdadm() {
        let of = |state: &[&str]| Health::of_report(&read(json!({"array": {"state": state}}))).0;
        assert_eq!([of(&["clean"]), of(&["active", "needs resync"]), of(&["active", "degraded"])], [0, 0, 1]);
        assert_eq!(of(&["broken", "degraded"]), 2);
        let nested =
            read(json!({"array": {"state": ["clean"]}, "arrays": [{"state": ["clean", "degraded"]}]}));
        assert_eq!(Health::of_report(&nested).0, 1);
        let stale = read(json!({"array": {"state": ["active", "degraded"]}, "stale_for": 3.5}));
        assert_eq!(Health::of_report(&stale).0, 5);
        assert_eq!(Health::of_report(&read(json!({"name": "b", "not_served": "it was not found"}))).0, 2);
        let devices = |errors: u64| json!([{"read_errors": errors}, {"read_errors": null}]);
        let errs = |errors| read(json!({"array": {"state": ["clean"], "devices": devices(errors)}}));
        assert_eq!([errs(0), errs(3)].map(|report| Health::of_report(&report).0), [0, 8]);
        let rots = read(
            json!({"pool": {"state": ["online", "damaged", "degraded"], "devices": [{"read_errors": 1}]}}),
        );
        assert_eq!(Health::of_report(&rots).0, 1 | 8 | 16);
        assert_eq!(Health::of_reports(&[]).0, 4);
        let all = [read(json!({"array": {"state": ["broken"]}})), nested];
        assert_eq!((Health::of_reports(&all).0, Health::of_reports(&all).and_unknown_if(true).0), (3, 7));
    }
}
