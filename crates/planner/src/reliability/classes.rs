//! Drives whose failures were published.

use super::case::HOURS_PER_YEAR;
use super::interval::Interval;
use super::weibull::Weibull;

/// Published figures of failures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Published {
    /// Failures, and days of drives in which they were met: a constant rate, with bounds.
    Counts {
        /// Failures.
        failures: u64,
        /// Days, of all drives together.
        drive_days: u64,
    },
    /// A distribution that was fitted to times from new to failure.
    Fitted(Weibull),
}

/// A class of drives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// The class's name.
    pub name: &'static str,
    /// The drives of the class.
    pub about: &'static str,
    /// The failures of these drives.
    pub failures: Published,
    /// Defects that arise on a drive in an hour.
    pub defects: f64,
    /// Where the failures come from, with the year.
    pub source: &'static str,
    /// Where the defects come from, with the year.
    pub defects_source: &'static str,
}

const ELERATH_2007: &str =
    "Elerath and Pecht, Enhanced reliability modeling of RAID storage systems, DSN 2007";
const ELERATH_2014: &str = "Elerath and Schindler, Beyond MTTDL, ACM Transactions on Storage 10(2), 2014";

/// All of them; the first is taken where nothing is said.
pub const CLASSES: [Class; 5] = [
    Class {
        name: "hdd-2025",
        about: "344,196 disks of a backup service, all models and ages",
        failures: Published::Counts { failures: 4317, drive_days: 115_638_676 },
        defects: 1.0 / 42_857.0,
        source: "Backblaze Drive Stats for 2025 (2026)",
        defects_source: ELERATH_2014,
    },
    Class {
        name: "ssd-2022",
        about: "2,906 SATA and M.2 SSDs of that service, which its servers start from",
        failures: Published::Counts { failures: 25, drive_days: 934_441 },
        // 63 of 100 drives have an uncorrectable error within four years: the most of ten models.
        defects: 2.84e-5,
        source: "Backblaze, The SSD Edition: 2022 Drive Stats Review (2023)",
        defects_source: "Schroeder, Lagisetty and Merchant, Flash reliability in production, FAST 2016",
    },
    Class {
        name: "elerath-2007",
        about: "SATA disks of 2005: the base case of the paper",
        failures: Published::Fitted(Weibull { location: 0.0, shape: 1.12, scale: 461_386.0 }),
        defects: 1.08e-4,
        source: ELERATH_2007,
        defects_source: ELERATH_2007,
    },
    Class {
        name: "sata-a-2014",
        about: "SATA disks that wear out slowly (SATA A of the paper)",
        failures: Published::Fitted(Weibull { location: 0.0, shape: 1.13, scale: 302_016.0 }),
        defects: 1.0 / 12_325.0,
        source: ELERATH_2014,
        defects_source: ELERATH_2014,
    },
    Class {
        name: "sata-b-2014",
        about: "SATA disks of which the young fail most (SATA B of the paper)",
        failures: Published::Fitted(Weibull { location: 0.0, shape: 0.576, scale: 4_833_522.0 }),
        defects: 1.0 / 42_857.0,
        source: ELERATH_2014,
        defects_source: ELERATH_2014,
    },
];

impl Class {
    /// The class of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        CLASSES.iter().find(|class| class.name == name)
    }

    /// Time from new to failure.
    #[must_use]
    pub fn failures(&self) -> Weibull {
        match self.failures {
            Published::Fitted(weibull) => weibull,
            Published::Counts { failures, drive_days } => {
                Weibull::exponential((drive_days as f64 * 24.0 / failures as f64).round())
            }
        }
    }

    /// Failures in a drive-year, with 95 % bounds, where counts were published; where a distribution was, the share of drives that fail in
    /// their first year.
    #[must_use]
    pub fn annual_rate(&self) -> Interval {
        match self.failures {
            Published::Counts { failures, drive_days } => {
                Interval::of_rate(failures, drive_days as f64 / 365.0, 0.95)
            }
            Published::Fitted(weibull) => Interval::exact(1.0 - weibull.survival(HOURS_PER_YEAR)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_that_were_published() {
        let rate = |name| Class::named(name).unwrap().annual_rate();
        let (disks, flash) = (rate("hdd-2025"), rate("ssd-2022"));
        assert_eq!((disks.value * 1e4).round() / 1e4, 0.0136);
        assert_eq!((flash.value * 1e4).round() / 1e4, 0.0098);
        assert!(disks.relative_error() < 0.031 && flash.relative_error() > 0.3, "{disks:?} {flash:?}");
        for class in &CLASSES {
            assert!(
                (0.001..0.05).contains(&class.annual_rate().value) && (1e-6..1e-3).contains(&class.defects)
            );
            assert!(class.source.contains("20") && class.defects_source.contains("20"));
        }
    }
}
