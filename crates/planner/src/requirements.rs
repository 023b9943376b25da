//! Requirements of an array, and which of them exclude each other.

use core::fmt;

use crate::figures::Figures;
use crate::fraction::Fraction;

/// Something that an array must do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Need {
    /// A capacity in bytes; for RAID-Z as allocated.
    Capacity(u64),
    /// Small random reads a second.
    ReadIops(f64),
    /// Small random writes a second.
    WriteIops(f64),
    /// Requests of the load a second.
    LoadIops(f64),
    /// Lose data at no more of all sets of two failures.
    Loss(Fraction),
    /// Lose data in the time that risks are estimated for with this probability at most.
    Risk(f64),
    /// Any failures of this many drives are borne.
    Tolerates(u32),
    /// Cost no more.
    Budget(f64),
}

/// Needs that no configuration meets together, though it would meet all but any one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// Places in the list of needs.
    pub needs: Vec<usize>,
    /// For each, how close those come that meet the others.
    pub closest: Vec<String>,
}

impl Need {
    /// Whether it is met. What is not known does not meet anything.
    pub fn is_met(&self, by: &Figures) -> bool {
        match *self {
            Self::Capacity(bytes) => by.usable() >= bytes,
            Self::ReadIops(iops) => by.speed.read_iops >= iops,
            Self::WriteIops(iops) => by.speed.write_iops >= iops,
            Self::LoadIops(iops) => by.speed.load_iops.is_some_and(|own| own >= iops),
            Self::Loss(share) => by.double.is_none_or(|own| own <= share),
            Self::Risk(most) => by.risk.is_some_and(|risk| risk.loss.value <= most),
            Self::Tolerates(failures) => by.tolerance >= failures,
            Self::Budget(money) => by.price.is_some_and(|price| price <= money),
        }
    }

    /// The configuration's merit for this need: more is better.
    fn merit(&self, of: &Figures) -> f64 {
        match self {
            Self::Capacity(_) => of.usable() as f64,
            Self::ReadIops(_) => of.speed.read_iops,
            Self::WriteIops(_) => of.speed.write_iops,
            Self::LoadIops(_) => of.speed.load_iops.unwrap_or(0.0),
            Self::Loss(_) => -of.double.map_or(0.0, Fraction::as_f64),
            Self::Risk(_) => -of.risk.map_or(1.0, |risk| risk.loss.value),
            Self::Tolerates(_) => f64::from(of.tolerance),
            Self::Budget(_) => -of.price.unwrap_or(f64::INFINITY),
        }
    }

    /// The configuration's value for this requirement, in words.
    fn in_words(&self, of: &Figures) -> String {
        match self {
            Self::Capacity(_) => format!("holds {}", terabytes(of.usable())),
            Self::ReadIops(_) => format!("does {:.0} random reads a second", of.speed.read_iops),
            Self::WriteIops(_) => format!("does {:.0} random writes a second", of.speed.write_iops),
            Self::LoadIops(_) => {
                format!("does {:.0} requests of the load a second", of.speed.load_iops.unwrap_or(0.0))
            }
            Self::Loss(_) => match of.double {
                Some(share) => format!("loses data at {share} of double failures"),
                None => "has fewer than two drives".to_owned(),
            },
            Self::Risk(_) => match of.risk {
                Some(risk) => format!("loses data with probability {:.2e}", risk.loss.value),
                None => "has groups of too many drives to estimate that".to_owned(),
            },
            Self::Tolerates(_) => format!("tolerates {}", of.tolerance),
            Self::Budget(_) => format!("costs {:.2}", of.price.unwrap_or(0.0)),
        }
    }
}

/// Bytes as drives are sold.
fn terabytes(bytes: u64) -> String {
    let text = format!("{:.3}", bytes as f64 / 1e12);
    format!("{} TB", text.trim_end_matches('0').trim_end_matches('.'))
}

impl fmt::Display for Need {
    /// The requirement in the words of the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity(bytes) => write!(f, "--min-capacity {}", terabytes(*bytes).replace(' ', "")),
            Self::ReadIops(iops) => write!(f, "--min-read-iops {iops}"),
            Self::WriteIops(iops) => write!(f, "--min-write-iops {iops}"),
            Self::LoadIops(iops) => write!(f, "--min-iops {iops}"),
            Self::Loss(share) => write!(f, "--max-loss {share}"),
            Self::Risk(most) => write!(f, "--max-loss {most:e}"),
            Self::Tolerates(failures) => write!(f, "--tolerates {failures}"),
            Self::Budget(money) => write!(f, "--budget {money}"),
        }
    }
}

/// All smallest sets of needs that no configuration meets together; none if some configuration meets all.
pub fn conflicts(needs: &[Need], all: &[&Figures]) -> Vec<Conflict> {
    let met: Vec<u32> = all.iter().map(|figures| mask(needs, figures)).collect();
    let possible = |set: u32| met.iter().any(|met| met & set == set);
    let mut found: Vec<u32> = Vec::new();
    let mut sets: Vec<u32> = (1..1_u32 << needs.len()).collect();
    sets.sort_by_key(|set| set.count_ones());
    for set in sets {
        let holds_one = found.iter().any(|smaller| set & smaller == *smaller);
        if !holds_one && !possible(set) {
            found.push(set);
        }
    }
    found.into_iter().map(|set| conflict(needs, all, set)).collect()
}

/// A bit for each need that is met.
fn mask(needs: &[Need], figures: &Figures) -> u32 {
    needs.iter().enumerate().map(|(place, need)| u32::from(need.is_met(figures)) << place).sum()
}

fn conflict(needs: &[Need], all: &[&Figures], set: u32) -> Conflict {
    let own: Vec<usize> = (0..needs.len()).filter(|place| set >> place & 1 == 1).collect();
    let closest = |place: &usize| {
        let others = set & !(1 << place);
        let fits = all.iter().filter(|figures| mask(needs, figures) & others == others);
        let best = fits.max_by(|a, b| needs[*place].merit(a).total_cmp(&needs[*place].merit(b)));
        best.map(|best| {
            format!(
                "{} {} of {} drives {}",
                best.level,
                best.config,
                best.disks,
                needs[*place].in_words(best)
            )
        })
    };
    Conflict { closest: own.iter().filter_map(closest).collect(), needs: own }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::configurations;
    use crate::figures::{Terms, figures};
    use crate::testing::set;

    fn all() -> Vec<Figures> {
        configurations(&[set(4)]).iter().map(|one| figures(one, &Terms::default())).collect()
    }

    #[test]
    fn the_smallest_sets_that_exclude_each_other_are_named() {
        let needs = [Need::Capacity(6_000_000_000_000), Need::WriteIops(100.0), Need::Tolerates(2)];
        let found = conflicts(&needs, &all().iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].needs, [0, 2], "writes have nothing to do with it");
        assert!(found[0].closest[0].contains("holds 4 TB"), "{:?}", found[0].closest);
        assert!(found[0].closest[1].contains("tolerates 1"), "{:?}", found[0].closest);
        assert!(conflicts(&needs[..2], &all().iter().collect::<Vec<_>>()).is_empty());
    }

    #[test]
    fn a_need_is_met_by_its_own_figure_to_the_last_digit() {
        let disk = crate::Disk { read_iops: 400.0, price: Some(50.0), ..crate::testing::disk() };
        let load =
            crate::Load { reads: 1.0, random: true, read_size: 4096, write_size: 4096, depth: 1 << 20 };
        let terms = Terms { load: Some(load), ..Terms::default() };
        let all = configurations(&[crate::Set { count: 4, disk }]);
        let of = |level: &str, config: &str| {
            let one = all.iter().find(|one| one.level() == level && one.config() == config);
            figures(one.expect(config), &terms)
        };
        let (pairs, pool) = (of("raid10", "2x(1+1)"), of("raidz", "3+1"));
        let met = [
            Need::Capacity(4_000_000_000_000),
            Need::ReadIops(1600.0),
            Need::WriteIops(400.0),
            Need::LoadIops(1599.9),
            Need::Loss(Fraction::new(1, 3)),
            Need::Tolerates(1),
            Need::Budget(200.0),
        ];
        let not = [
            Need::Capacity(4_000_000_000_001),
            Need::ReadIops(1600.1),
            Need::WriteIops(400.1),
            Need::LoadIops(1600.1),
            Need::Loss(Fraction::new(33, 100)),
            Need::Risk(1.0),
            Need::Tolerates(2),
            Need::Budget(199.9),
        ];
        assert!(met.iter().all(|need| need.is_met(&pairs)), "{met:?}");
        assert!(!not.iter().any(|need| need.is_met(&pairs)), "{not:?}");
        let ends = |value| crate::reliability::Interval { value, low: value / 2.0, high: value * 2.0 };
        let risk = crate::Risk { years: 5.0, loss: ends(1e-4), bytes_per_year: ends(1.0), nomdl: ends(1e-9) };
        let risky = Figures { risk: Some(risk), ..pairs };
        assert!(Need::Risk(1e-4).is_met(&risky) && !Need::Risk(9e-5).is_met(&risky));
        // For RAID-Z the allocated size counts; an unknown figure meets no need.
        assert!(Need::Capacity(pool.usable()).is_met(&pool) && !Need::Capacity(pool.net).is_met(&pool));
        let unknown = figures(&configurations(&[set(4)])[0], &Terms::default());
        assert!(!Need::LoadIops(0.1).is_met(&unknown) && !Need::Budget(1e9).is_met(&unknown));
    }

    #[test]
    fn a_need_that_nothing_meets_stands_alone() {
        let needs = [Need::Capacity(9_000_000_000_000), Need::Tolerates(4), Need::Loss(Fraction::NONE)];
        let found: Vec<Vec<usize>> =
            conflicts(&needs, &all().iter().collect::<Vec<_>>()).into_iter().map(|one| one.needs).collect();
        assert_eq!(found, [vec![0], vec![1]]);
        // Without estimates no probability is low enough.
        assert_eq!(conflicts(&[Need::Risk(1.0)], &all().iter().collect::<Vec<_>>())[0].needs, [0]);
        // Without prices a budget is met by nothing.
        assert_eq!(conflicts(&[Need::Budget(1e6)], &all().iter().collect::<Vec<_>>())[0].needs, [0]);
    }
}
