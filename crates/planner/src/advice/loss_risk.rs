//! How likely data is lost, as `brindle reliability` has it.

use brindle_layout::{Layout, Level};

use super::facts::{Drive, Facts};
use super::simulator::Simulator;
use crate::reliability::{Case, Class, Effort, Group, HOURS_PER_YEAR, Weibull, estimate};

/// Bytes an hour of a rebuild, beside which it takes 2/12: as `brindle reliability` has it where nothing is known.
const REBUILD: f64 = 150e6 * 3600.0;
/// Histories: enough for two digits.
const HISTORIES: u64 = 10_000;
const MONTH: &str = "3/730+6";

/// A question about the array.
#[derive(Clone)]
pub(super) struct LossRisk {
    pub(super) class: &'static Class,
    case: Case,
}

impl LossRisk {
    /// The risk of the array with all its members, scrubbed once a month, in five years. `None` for levels without
    /// redundancy, and where copies overlap.
    pub(super) fn of(facts: &Facts, drives: &[Drive], simulator: Option<&dyn Simulator>) -> Option<Self> {
        let count = u32::try_from(facts.raid_devices).ok()?;
        let (width, bears, groups) = match (facts.level, facts.shape) {
            (Level::Raid1, _) => (count, count.checked_sub(1)?, 1),
            (Level::Raid4 | Level::Raid5, _) => (count, 1, 1),
            (Level::Raid6, _) => (count, 2, 1),
            (Level::Raid10, Layout::Raid10(layout))
                if (layout.near, layout.far) == (2, 1) && count.is_multiple_of(2) =>
            {
                (2, 1, count / 2)
            }
            _ => return None,
        };
        let is_flash = |drive: &Drive| drive.kind().is_some_and(|kind| kind != "hdd-7200");
        let reported = simulator.and_then(|simulator| simulator.named_flash());
        let flash = reported.unwrap_or_else(|| drives.iter().any(is_flash));
        let class = Class::named(if flash { "ssd-2022" } else { "hdd-2025" })?;
        let case = Case {
            group: Group::new(width, bears, facts.component),
            groups,
            failures: class.failures(),
            repairs: Weibull { location: facts.component as f64 / REBUILD, shape: 2.0, scale: 12.0 },
            delay: Weibull::constant(0.0),
            defects: class.defects,
            scrub: MONTH.parse().ok(),
            wrong_pull: 0.0,
            batch: None,
            hours: 5.0 * HOURS_PER_YEAR,
        };
        Some(Self { class, case })
    }

    /// How many failures a group bears.
    pub(super) fn bears(&self) -> u32 {
        match self.case.group.redundancy {
            crate::reliability::Redundancy::Bears(bears) => bears,
            crate::reliability::Redundancy::Fatal(_) => 0,
        }
    }

    /// Whether it is of several groups, of which the odds of one that lacks members leave out the others.
    pub(super) fn is_of_several(&self) -> bool {
        self.case.groups > 1
    }

    /// Without checks.
    pub(super) fn unscrubbed(self) -> Self {
        Self { case: Case { scrub: None, ..self.case }, ..self }
    }

    /// The risk in this many days.
    pub(super) fn in_days(self, days: f64) -> Self {
        Self { case: Case { hours: days * 24.0, ..self.case }, ..self }
    }

    /// While so many members of one group are missing and nothing is rebuilt; none if that is more than it bears. Of pairs those that
    /// are whole count for nothing beside the one that is not.
    pub(super) fn lacking(self, missing: usize) -> Option<Self> {
        let missing = u32::try_from(missing).ok()?;
        if self.case.groups > 1 && missing > 1 {
            return None;
        }
        let bears = self.bears().checked_sub(missing)?;
        let group = Group::new(self.case.group.drives - missing, bears, self.case.group.capacity);
        Some(Self { case: Case { group, groups: 1, ..self.case }, ..self })
    }

    /// Probability that any data is lost.
    pub(super) fn loss(&self) -> Option<f64> {
        let effort = Effort { histories: HISTORIES, ..Effort::default() };
        estimate(&self.case, &effort, &|_, _| ()).ok().map(|found| found.loss.value)
    }
}

/// Per cent with two digits that tell something.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 0.01 || percent == 0.0 { format!("{percent:.2} %") } else { format!("{percent:.1e} %") }
}
