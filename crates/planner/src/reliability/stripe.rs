//! A stripe without redundancy: every failure and every defect is a loss, and closed forms tell all.

use super::answer::{Estimate, mttdl, per_year};
use super::case::{Case, HOURS_PER_YEAR};
use super::interval::Interval;

pub(super) fn estimate(case: &Case) -> Estimate {
    let drives = f64::from(case.group.drives * case.groups);
    let defects = drives * case.defects * case.hours;
    let hazard = case.failures.hazard(case.hours);
    let mean = |of: &dyn Fn(f64) -> f64| -> f64 {
        case.strata().iter().map(|(share, factor)| share * of(drives * factor * hazard)).sum()
    };
    let loss = Interval::exact(mean(&|failures| -(-failures - defects).exp_m1()));
    // Each replaced drive has the age of the one that failed: a stripe is made anew after a loss, at any age of its drives.
    let wholes = mean(&|failures| failures);
    let group_bytes = case.group.capacity as f64;
    let bytes = wholes * group_bytes + defects * case.group.bytes_per_defect;
    Estimate {
        loss,
        loss_per_year: loss.map(|p| per_year(p, case.hours / HOURS_PER_YEAR)),
        whole: Interval::exact(mean(&|failures| -(-failures).exp_m1())),
        losses: Interval::exact(wholes + defects),
        wholes: Interval::exact(wholes),
        sectors: Interval::exact(defects),
        bytes: Interval::exact(bytes),
        nomdl: Interval::exact(bytes / case.capacity().max(1.0)),
        mttdl: mttdl(case),
        exact: Some(loss.value),
        histories: 0,
        met: 0,
    }
}
