//! The question to the estimate: groups of drives, how drives fail and are replaced, and for how long.

use super::weibull::Weibull;

/// Hours of a year, as in rates that are published for 365 days.
pub const HOURS_PER_YEAR: f64 = 8760.0;
/// Most drives of one group: a set of them is a word of bits.
pub const MOST_DRIVES: u32 = 128;

/// The sets of failed drives that lose a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redundancy {
    /// Any more than this many: 1 for RAID 5, 2 for RAID 6, copies - 1 for a mirror, 0 for a stripe.
    Bears(u32),
    /// Any that holds one of these sets (bit i stands for drive i): a RAID 10 whose copies overlap.
    Fatal(Vec<u128>),
}

/// Drives that share redundancy.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// How many.
    pub drives: u32,
    /// The failures that a group bears.
    pub redundancy: Redundancy,
    /// Bytes that users have of it: what is lost with the group.
    pub capacity: u64,
    /// Bytes of users' data that a defective sector takes with it where no redundancy is left.
    pub bytes_per_defect: f64,
}

/// Drives of one delivery: with the probability `share` all of them have `factor` times the hazard of those of a good
/// delivery. The mean over deliveries stays what was published, and drives that replace others are of no delivery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// Probability that the delivery is a bad one.
    pub share: f64,
    /// How much more often its drives fail.
    pub factor: f64,
}

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// One of the groups.
    pub group: Group,
    /// How many equal ones there are, each independent of the others but for the delivery. Data is lost where one loses it.
    pub groups: u32,
    /// Time from new to failure of a drive.
    pub failures: Weibull,
    /// Time that a rebuild takes, from the moment when there is a drive to rebuild on.
    pub repairs: Weibull,
    /// Time until there is one: 0 with a hot spare.
    pub delay: Weibull,
    /// Latent defects that arise on a drive in an hour.
    pub defects: f64,
    /// Time from a defect to the scrub that mends it; none: only a new drive is rid of it.
    pub scrub: Option<Weibull>,
    /// Probability that a working drive of the group is pulled in place of the failed one, and has to be rebuilt.
    pub wrong_pull: f64,
    /// Whether drives of one delivery fail together.
    pub batch: Option<Batch>,
    /// Hours that are looked at, from the day when all drives are new.
    pub hours: f64,
}

/// An impossible value. `field` is the name of the field, with hyphens: that of the flag too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Unsound {
    /// The field.
    pub field: &'static str,
    /// The error, and the values that are allowed.
    pub why: String,
}

impl Group {
    /// A group of drives of `size` bytes that bears the failure of any `bears` of them.
    #[must_use]
    pub fn new(drives: u32, bears: u32, size: u64) -> Self {
        let data = drives.saturating_sub(bears);
        Self {
            drives,
            redundancy: Redundancy::Bears(bears),
            capacity: u64::from(data) * size,
            bytes_per_defect: SECTOR * f64::from(bears + 1) * f64::from(data) / f64::from(drives.max(1)),
        }
    }
}

/// Bytes of a physical sector. A row of which `bears` blocks are on failed drives loses these and the defective one, and of
/// all blocks the share data / drives is users' data.
const SECTOR: f64 = 4096.0;

impl Case {
    /// Whether it makes sense.
    ///
    /// # Errors
    /// The first field that does not.
    pub fn check(&self) -> Result<(), Unsound> {
        let wrong = |field, why: String| Err(Unsound { field, why });
        self.check_group()?;
        if !(1..=10_000).contains(&self.groups) {
            return wrong("groups", format!("{} groups; give 1 to 10000", self.groups));
        }
        let scrub = self.scrub.unwrap_or(Weibull::constant(0.0));
        let times =
            [("failures", self.failures), ("repairs", self.repairs), ("delay", self.delay), ("scrub", scrub)];
        for (field, time) in times {
            if let Some(why) = time.trouble() {
                return wrong(field, why);
            }
        }
        if self.failures.scale < 1.0 || self.failures.mean() < 24.0 {
            return wrong(
                "failures",
                "drives would fail in less than a day: give them a longer life".to_owned(),
            );
        }
        if self.repairs.mean() < 1.0 / 3600.0 {
            return wrong("repairs", "a rebuild takes a second (0.00028 hours) at least".to_owned());
        }
        if !(0.0..=0.1).contains(&self.defects) {
            return wrong("defects", format!("{} an hour; give 0 to 0.1", self.defects));
        }
        if !(0.0..=0.5).contains(&self.wrong_pull) {
            return wrong("wrong-pull", format!("{} is not a probability from 0 to 0.5", self.wrong_pull));
        }
        if let Some(Batch { share, factor }) = self.batch
            && !((0.0..=1.0).contains(&share) && (1.0..=1000.0).contains(&factor))
        {
            let why = format!("a share of {share} (0 to 1) and a factor of {factor} (1 to 1000)");
            return wrong("batch", why);
        }
        if !(1.0..=200.0 * HOURS_PER_YEAR).contains(&self.hours) {
            let years = self.hours / HOURS_PER_YEAR;
            return wrong("years", format!("{years} years; give an hour (0.00012) to 200 years"));
        }
        Ok(())
    }

    fn check_group(&self) -> Result<(), Unsound> {
        let drives = self.group.drives;
        if !(1..=MOST_DRIVES).contains(&drives) {
            let why = format!("a group of {drives} drives; give 1 to {MOST_DRIVES}");
            return Err(Unsound { field: "drives", why });
        }
        let why = match &self.group.redundancy {
            Redundancy::Bears(bears) if *bears >= drives => {
                format!("a group of {drives} drives can't bear the failure of {bears}")
            }
            Redundancy::Fatal(sets)
                if sets.is_empty() || sets.iter().any(|set| *set == 0 || set & !all(drives) != 0) =>
            {
                "each set that loses data holds one of the drives or more, and there is one set or more"
                    .to_owned()
            }
            _ if self.group.capacity == 0 => {
                let why = "the drives have a size of 0: give a larger one".to_owned();
                return Err(Unsound { field: "size", why });
            }
            _ => return Ok(()),
        };
        Err(Unsound { field: "bears", why })
    }

    /// Whether its groups bear no failure.
    pub(super) fn is_bare(&self) -> bool {
        self.group.redundancy == Redundancy::Bears(0)
    }

    /// Kinds of deliveries: probability, and hazard relative to what is published.
    pub(super) fn strata(&self) -> Vec<(f64, f64)> {
        match self.batch {
            Some(Batch { share, factor }) if share > 0.0 && share < 1.0 && factor > 1.0 => {
                let mean = 1.0 - share + share * factor;
                vec![(1.0 - share, 1.0 / mean), (share, factor / mean)]
            }
            _ => vec![(1.0, 1.0)],
        }
    }

    /// Bytes that users have of all groups.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        self.group.capacity as f64 * f64::from(self.groups)
    }
}

/// The set of all drives.
pub(super) fn all(drives: u32) -> u128 {
    u128::MAX >> (128 - drives)
}

impl Redundancy {
    /// Whether data is gone when these have failed.
    pub(super) fn lost(&self, failed: u128) -> bool {
        match self {
            Self::Bears(bears) => failed.count_ones() > *bears,
            Self::Fatal(sets) => sets.iter().any(|set| set & !failed == 0),
        }
    }

    /// The drives of which any loses data when it fails too.
    pub(super) fn bare(&self, failed: u128, drives: u32) -> u128 {
        match self {
            Self::Bears(bears) if failed.count_ones() >= *bears => all(drives) & !failed,
            Self::Bears(_) => 0,
            Self::Fatal(sets) => {
                let missing = sets.iter().map(|set| set & !failed);
                missing.filter(|set| set.count_ones() == 1).fold(0, |bare, set| bare | set)
            }
        }
    }
}
