//! Groups without redundancy: every failure and every defect is a loss. Probabilities of a first loss have closed forms. How often a
//! group is lost has none: a drive that replaces another is new, so histories count it.

use super::answer::{Estimate, per_year};
use super::case::{Case, HOURS_PER_YEAR};
use super::interval::Interval;

/// The estimate of histories in which groups were counted, with all that is known without them.
pub(super) fn completed(case: &Case, counted: &Estimate, z: f64) -> Estimate {
    let drives = f64::from(case.group.drives * case.groups);
    let defects = drives * case.defects * case.hours;
    let hazard = case.failures.hazard(case.hours);
    let mean = |of: &dyn Fn(f64) -> f64| -> f64 {
        case.strata().iter().map(|(share, factor)| share * of(drives * factor * hazard)).sum()
    };
    let loss = Interval::exact(mean(&|failures| -(-failures - defects).exp_m1()));
    let mut wholes = counted.wholes;
    if wholes.low == wholes.high {
        // A second loss was met in no history.
        wholes.high *= 1.0 + Interval::of_share(0, counted.histories, z).high;
    }
    let of_groups = case.group.capacity as f64;
    let of_sectors = defects * case.group.bytes_per_defect;
    let bytes = wholes.map(|wholes| wholes * of_groups + of_sectors);
    Estimate {
        loss,
        loss_per_year: loss.map(|p| per_year(p, case.hours / HOURS_PER_YEAR)),
        whole: Interval::exact(mean(&|failures| -(-failures).exp_m1())),
        losses: wholes.map(|wholes| wholes + defects),
        wholes,
        sectors: Interval::exact(defects),
        bytes,
        nomdl: bytes.map(|bytes| bytes / case.capacity().max(1.0)),
        exact: Some(loss.value),
        ..counted.clone()
    }
}
