//! In which order, and which one.

use core::cmp::Ordering;

use crate::figures::Figures;
use crate::fraction::Fraction;

/// What matters most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Room.
    Capacity,
    /// Small random reads.
    ReadIops,
    /// Small random writes.
    WriteIops,
    /// Requests of the load.
    LoadIops,
    /// Few double failures that lose data, then few triple ones.
    Loss,
    /// Little money for room.
    Price,
    /// A rebuild that ends soon.
    Rebuild,
    /// Room times small random writes.
    Balance,
}

impl Goal {
    /// How well it is met: the more, the better.
    fn merit(self, of: &Figures) -> f64 {
        match self {
            Self::Capacity => of.usable() as f64,
            Self::ReadIops => of.speed.read_iops,
            Self::WriteIops => of.speed.write_iops,
            Self::LoadIops => of.speed.load_iops.unwrap_or(0.0),
            Self::Loss => -safety(of),
            Self::Price => -of.price_per_tb().unwrap_or(f64::INFINITY),
            Self::Rebuild => -of.rebuild.unwrap_or(f64::INFINITY),
            Self::Balance => of.usable() as f64 * of.speed.write_iops,
        }
    }

    /// In words, with the figure of the one that is recommended.
    fn told(self, of: &Figures) -> String {
        let terabytes = of.usable() as f64 / 1e12;
        match self {
            Self::Capacity => format!("has the most room ({terabytes:.2} TB)"),
            Self::ReadIops => format!("does the most random reads ({:.0} a second)", of.speed.read_iops),
            Self::WriteIops => format!("does the most random writes ({:.0} a second)", of.speed.write_iops),
            Self::LoadIops => {
                format!(
                    "does the most requests of the load ({:.0} a second)",
                    of.speed.load_iops.unwrap_or(0.0)
                )
            }
            Self::Loss => {
                let share = of.double.map_or_else(|| "none".to_owned(), |share| share.to_string());
                format!("loses data at the fewest double failures ({share})")
            }
            Self::Price => {
                format!("costs the least for its room ({:.2} a TB)", of.price_per_tb().unwrap_or(0.0))
            }
            Self::Rebuild => format!("is rebuilt soonest ({:.1} hours)", of.rebuild.unwrap_or(0.0) / 3600.0),
            Self::Balance => {
                format!(
                    "has the most of room times random writes ({terabytes:.2} TB, {:.0} a second)",
                    of.speed.write_iops
                )
            }
        }
    }
}

/// Double failures that lose data before triple ones; one that bears nothing is worse than all.
fn safety(of: &Figures) -> f64 {
    let share = |share: Option<Fraction>| share.map_or(0.0, Fraction::as_f64);
    let none = if of.tolerance == 0 { 10.0 } else { 0.0 };
    none + share(of.double) + share(of.triple) / 1e3
}

/// The best first. What is equal in that goes by safety, room, random writes, random reads and reads of one stream.
pub fn sort(all: &mut [Figures], goal: Goal) {
    all.sort_by(|a, b| better(a, b, goal));
}

fn better(a: &Figures, b: &Figures, goal: Goal) -> Ordering {
    let by = |merit: &dyn Fn(&Figures) -> f64| {
        let (a, b) = (merit(a), merit(b));
        // Figures that differ by rounding only are equal.
        if (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) { Ordering::Equal } else { b.total_cmp(&a) }
    };
    by(&|of| goal.merit(of))
        .then_with(|| by(&|of| -safety(of)))
        .then_with(|| by(&|of| of.usable() as f64))
        .then_with(|| by(&|of| of.speed.write_iops))
        .then_with(|| by(&|of| of.speed.read_iops))
        .then_with(|| by(&|of| of.speed.read_rate.unwrap_or(0.0)))
}

/// The one to take, and why in a sentence: the best of those that Brindle can make and that bear a failure, of drives that
/// all count in full; what bears none only if nothing else is there.
pub fn recommend(fitting: &[Figures], goal: Goal) -> Option<(usize, String)> {
    let rank = |bears: bool| {
        let own = |place: &usize| {
            let one = &fitting[*place];
            one.is_of_md && (one.tolerance > 0) == bears
        };
        let mut own: Vec<usize> = (0..fitting.len()).filter(own).collect();
        own.sort_by(|a, b| better(&fitting[*a], &fitting[*b], goal));
        own
    };
    let (bearing, rest) = (rank(true), rank(false));
    let (ranked, bears) = if bearing.is_empty() { (rest, false) } else { (bearing, true) };
    let best = *ranked.first()?;
    let next = ranked.get(1).map(|place| &fitting[*place]);
    Some((best, reason(&fitting[best], next, ranked.len(), bears, goal)))
}

fn reason(best: &Figures, next: Option<&Figures>, among: usize, bears: bool, goal: Goal) -> String {
    let bearing = if bears { "bear the loss of a drive" } else { "bear no loss" };
    let what = format!("{} {}", best.level, best.config);
    let Some(next) = next else {
        return format!(
            "{what} is the only one that meets every need, that Brindle can make, and that would {bearing}"
        );
    };
    let equal = (goal.merit(best) - goal.merit(next)).abs() <= 1e-9 * goal.merit(best).abs();
    let why = if !equal {
        String::new()
    } else if (safety(best) - safety(next)).abs() > 1e-9 {
        ", and of those that do as well it loses data at the fewest failures".to_owned()
    } else if best.usable() > next.usable() {
        ", and of those that do as well it has the most room".to_owned()
    } else {
        ", as others do".to_owned()
    };
    format!(
        "of the {among} that meet every need, that Brindle can make, and that {bearing}, {what} {}{why}",
        goal.told(best)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::configurations;
    use crate::figures::{Terms, figures};
    use crate::testing::set;

    fn all(drives: u32) -> Vec<Figures> {
        configurations(&[set(drives)]).iter().map(|one| figures(one, &Terms::default())).collect()
    }

    #[test]
    fn the_best_that_bears_a_failure_is_recommended() {
        let taken = |drives, goal| {
            let all = all(drives);
            let (place, why) = recommend(&all, goal).expect("one");
            (format!("{} {}", all[place].level, all[place].config), why)
        };
        let (one, why) = taken(4, Goal::WriteIops);
        assert_eq!(one, "raid10 2x(1+1)");
        assert!(why.contains("400 a second") && why.contains("fewest failures"), "{why}");
        assert_eq!(taken(4, Goal::Capacity).0, "raid5 3+1");
        assert_eq!(taken(6, Goal::Loss).0, "raid10 n3 over 6".replace("n3 over 6", "2x(1+2)"));
    }

    #[test]
    fn the_best_stand_first() {
        let mut all = all(6);
        sort(&mut all, Goal::Capacity);
        assert_eq!(all[0].level, "raid0");
        assert!(all.is_sorted_by(|a, b| a.usable() >= b.usable()));
    }
}
