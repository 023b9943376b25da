//! From a configuration to the questions that [`crate::reliability`] answers: how likely it loses data.

use crate::configuration::{Configuration, Part, Scheme, pairs};
use crate::fraction::divisor;
use crate::link::rebuilt;
use crate::reliability::{Case, Estimate, Group, Interval, MOST_DRIVES, Redundancy, Weibull};

/// Bytes a second at which a drive is rebuilt of which no rate is known.
const USUAL_RATE: f64 = 150e6;
/// Bytes of users' data that a defect takes with it where copies of it are gone: a sector.
const SECTOR: f64 = 4096.0;

/// One question for each part. Failures, defects, scrubs, delays and hours are the template's; a rebuild takes as long as the drive's
/// bandwidth lets it, and a link that all share (bytes a second), and then some: 2/12, Elerath and Pecht's. None for groups of more drives than can be looked at.
pub fn cases(
    configuration: &Configuration,
    template: &Case,
    busy: f64,
    link: Option<f64>,
) -> Option<Vec<Case>> {
    configuration.parts.iter().map(|part| case(part, template, busy, link)).collect()
}

fn case(part: &Part, template: &Case, busy: f64, link: Option<f64>) -> Option<Case> {
    let (group, groups) = group(part)?;
    let rate = rebuilt(part, link).unwrap_or(USUAL_RATE);
    let hours = part.disk.size as f64 / rate / (1.0 - busy) / 3600.0;
    let repairs = Weibull { location: hours, shape: 2.0, scale: 12.0 };
    Some(Case { group, groups, repairs, ..template.clone() })
}

fn group(part: &Part) -> Option<(Group, u32)> {
    let (width, size) = (part.width, part.disk.size);
    if let Scheme::Raid10(layout) = part.scheme {
        let copies = u32::from(layout.copies());
        return match pairs(layout, width) {
            Some(sets) => Some((Group::new(copies, copies - 1, size), sets)),
            None => overlapping(part, copies, layout.far > 1),
        };
    }
    let group = Group::new(width, part.scheme.tolerance(width), size);
    (width <= MOST_DRIVES).then_some((group, part.groups))
}

/// Copies on neighbours, in windows that share drives: see [`crate::losses`].
fn overlapping(part: &Part, copies: u32, anywhere: bool) -> Option<(Group, u32)> {
    if part.width > MOST_DRIVES {
        return None;
    }
    let apart = if anywhere { 1 } else { divisor(copies.into(), part.width.into()) as usize };
    let window = |first: u32| (0..copies).fold(0_u128, |set, next| set | 1 << ((first + next) % part.width));
    let mut fatal: Vec<u128> = (0..part.width).step_by(apart).map(window).collect();
    fatal.sort_unstable();
    fatal.dedup();
    let redundancy = Redundancy::Fatal(fatal);
    Some((Group { drives: part.width, redundancy, capacity: part.net(), bytes_per_defect: SECTOR }, 1))
}

/// How likely a configuration loses data in some years, and how much is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Risk {
    /// Years.
    pub years: f64,
    /// Probability that any data is lost.
    pub loss: Interval,
    /// Bytes that are lost in a year, expected.
    pub bytes_per_year: Interval,
    /// Bytes that are lost in all the years, relative to those that exist: NOMDL.
    pub nomdl: Interval,
}

impl Risk {
    /// Joins the estimates of parts that are independent of each other.
    pub fn of(estimates: &[Estimate], net: u64, years: f64) -> Self {
        let kept = |of: &dyn Fn(&Interval) -> f64| -> f64 {
            // In logarithms: 1 - p is 1 for small p.
            -estimates.iter().map(|one| (-of(&one.loss)).ln_1p()).sum::<f64>().exp_m1()
        };
        let loss =
            Interval { value: kept(&|of| of.value), low: kept(&|of| of.low), high: kept(&|of| of.high) };
        let bytes = |of: &dyn Fn(&Interval) -> f64, unit: f64| -> f64 {
            estimates.iter().map(|one| of(&one.bytes)).sum::<f64>() / unit
        };
        let all = |unit: f64| Interval {
            value: bytes(&|of| of.value, unit),
            low: bytes(&|of| of.low, unit),
            high: bytes(&|of| of.high, unit),
        };
        Self { years, loss, bytes_per_year: all(years), nomdl: all(net.max(1) as f64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::configurations;
    use crate::lethal_sets::{choose, losses};
    use crate::testing::set;

    fn template() -> Case {
        Case {
            group: Group::new(2, 1, 1),
            groups: 1,
            failures: Weibull::exponential(1e6),
            repairs: Weibull::constant(1.0),
            delay: Weibull::constant(0.0),
            defects: 1e-5,
            scrub: None,
            wrong_pull: 0.0,
            batch: None,
            hours: 8760.0,
        }
    }

    /// The groups that are asked about lose data at as many pairs of drives as the configuration does.
    #[test]
    fn groups_lose_what_the_configuration_loses() {
        for drives in 3..=14_u32 {
            for one in configurations(&[set(drives)]) {
                let cases = cases(&one, &template(), 0.0, None).expect("few drives");
                let [case] = cases.as_slice() else { panic!("one part") };
                let pairs: Vec<u128> =
                    (0..case.group.drives).flat_map(|a| (0..a).map(move |b| 1_u128 << a | 1 << b)).collect();
                let fatal = |pair: &&u128| match &case.group.redundancy {
                    Redundancy::Bears(bears) => *bears < 2,
                    Redundancy::Fatal(sets) => sets.iter().any(|set| **pair & set == *set),
                };
                let mut lost = pairs.iter().filter(fatal).count() as u64 * u64::from(case.groups);
                if one.tolerance() == 0 {
                    lost = choose(drives.into(), 2);
                }
                let share = crate::Fraction::new(lost, choose(drives.into(), 2));
                assert_eq!(losses(&one).double, Some(share), "{} {}", one.level(), one.config());
                assert_eq!(case.group.capacity * u64::from(case.groups), one.net(), "{}", one.config());
                assert_eq!(case.check(), Ok(()));
            }
        }
    }

    #[test]
    fn a_rebuild_takes_as_long_as_bandwidth_and_load_let_it() {
        let all = configurations(&[set(4)]);
        let hours = |busy| cases(&all[0], &template(), busy, None).expect("few drives")[0].repairs.location;
        let disk = crate::Disk { whole_rate: Some(1e8), ..crate::testing::disk() };
        let known = configurations(&[crate::Set { count: 4, disk }]);
        let known = cases(&known[0], &template(), 0.0, None).expect("few drives")[0].repairs.location;
        assert!((known - 2e12 / 1e8 / 3600.0).abs() < 1e-9, "{known}");
        assert!(
            (hours(0.0) - 2e12 / 150e6 / 3600.0).abs() < 1e-9 && (hours(0.5) / hours(0.0) - 2.0).abs() < 1e-9
        );
    }
}
