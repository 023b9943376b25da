//! The ranking of configurations, and the choice of one.

use core::cmp::Ordering;

use crate::configuration::MadeAs;
use crate::figures::Figures;
use crate::fraction::Fraction;

/// The goal that matters most.
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
    /// How well a configuration meets the goal: more is better.
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
    fn in_words(self, of: &Figures) -> String {
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
            Self::Price => match of.price_per_tb() {
                Some(price) => format!("costs the least for its room ({price:.2} a TB)"),
                None => "is not known to cost more than others (give --price)".to_owned(),
            },
            Self::Rebuild => match of.rebuild {
                Some(seconds) => format!("is rebuilt soonest ({:.1} hours)", seconds / 3600.0),
                None => "is not known to be rebuilt later than others (give --mb-s)".to_owned(),
            },
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

/// The better first. What is equal in that goes by safety, room, random writes, random reads and reads of one stream.
pub fn compare(a: &Figures, b: &Figures, goal: Goal) -> Ordering {
    by(a, b, &|of| goal.merit(of)).then_with(|| rest(a, b))
}

fn rest(a: &Figures, b: &Figures) -> Ordering {
    by(a, b, &|of| -safety(of))
        .then_with(|| by(a, b, &|of| of.usable() as f64))
        .then_with(|| by(a, b, &|of| of.speed.write_iops))
        .then_with(|| by(a, b, &|of| of.speed.read_iops))
        .then_with(|| by(a, b, &|of| of.speed.read_rate.unwrap_or(0.0)))
}

/// The more, the better. Figures that differ by rounding only are equal.
fn by(a: &Figures, b: &Figures, merit: &dyn Fn(&Figures) -> f64) -> Ordering {
    (merit(b) as f32).total_cmp(&(merit(a) as f32))
}

/// Relative distance to the best within which a figure counts as equally good: neither formulas nor the simulator are
/// more exact.
const CLOSE: f64 = 0.02;

/// The one to take, and why in a sentence: of those that Brindle can make, and that bear a failure, the best, or what
/// comes close to it and loses data at fewer failures. A configuration without tolerance is chosen only if there is
/// no other. Pools are chosen only among themselves: their figures are OpenZFS's, and bounds.
pub fn recommend(fitting: &[&Figures], goal: Goal) -> Option<(usize, String)> {
    let arrays = fitting.iter().any(|of| of.made_as == Some(MadeAs::Array));
    let made_as = Some(if arrays { MadeAs::Array } else { MadeAs::Pool });
    let own = |bears: bool| -> Vec<usize> {
        let fits =
            |place: &usize| fitting[*place].made_as == made_as && (fitting[*place].tolerance > 0) == bears;
        (0..fitting.len()).filter(fits).collect()
    };
    let bearing = own(true);
    let (among, bears) = if bearing.is_empty() { (own(false), false) } else { (bearing, true) };
    let best = *among.iter().min_by(|a, b| compare(fitting[**a], fitting[**b], goal))?;
    let most = goal.merit(fitting[best]);
    let close = |place: &&usize| {
        let merit = goal.merit(fitting[**place]);
        merit == most || merit >= most - CLOSE * most.abs()
    };
    let taken = *among.iter().filter(close).min_by(|a, b| rest(fitting[**a], fitting[**b]))?;
    let others: Vec<&Figures> =
        among.iter().filter(close).filter(|place| **place != taken).map(|place| fitting[*place]).collect();
    let why = reason(fitting[taken], fitting[best], &others, goal);
    let text = match (among.len(), bears) {
        (1, true) => format!(
            "{} is the only one that meets every need, bears the loss of a drive, and can be made by Brindle",
            name(fitting[taken])
        ),
        (count, true) => {
            format!(
                "of the {count} that meet every need, that Brindle can make, and that bear the loss of a drive, {why}"
            )
        }
        (_, false) => {
            format!("none that meets every need and that Brindle can make bears the loss of a drive; {why}")
        }
    };
    Some((taken, text))
}

/// `raid5 3+1 of 4 drives`.
fn name(of: &Figures) -> String {
    match of.config.contains("over") {
        true => format!("{} {} drives", of.level, of.config),
        false => format!("{} {} of {} drives", of.level, of.config, of.disks),
    }
}

/// The advantage of the chosen configuration over those that are equally good, or over the best.
fn reason(taken: &Figures, best: &Figures, others: &[&Figures], goal: Goal) -> String {
    let what = name(taken);
    let over = if others.iter().any(|other| safety(other) > safety(taken)) {
        "loses data at the fewest failures"
    } else if others.iter().any(|other| other.usable() < taken.usable()) {
        "has the most room"
    } else {
        "is no worse in anything else"
    };
    if goal.merit(taken) < goal.merit(best) {
        return format!(
            "{what} comes within 2 % of {}, which {}, and {over}",
            name(best),
            goal.in_words(best)
        );
    }
    let why = if others.is_empty() {
        String::new()
    } else {
        format!(", and of those within 2 % of that it {over}")
    };
    format!("{what} {}{why}", goal.in_words(taken))
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
            let (place, why) = recommend(&all.iter().collect::<Vec<_>>(), goal).expect("one");
            (format!("{} {}", all[place].level, all[place].config), why)
        };
        let (one, why) = taken(4, Goal::WriteIops);
        assert_eq!(one, "raid10 2x(1+1)");
        assert!(why.contains("400 a second") && why.contains("fewest failures"), "{why}");
        assert_eq!(taken(4, Goal::Capacity).0, "raid5 3+1");
        assert_eq!(taken(6, Goal::Balance).0, "raid10 3x(1+1)");
        let (one, why) = taken(6, Goal::Capacity);
        assert!(why.contains(&format!("{one} of 6 drives has the most room (10.00 TB)")), "{why}");
        assert!(
            taken(6, Goal::Rebuild).1.contains("give --mb-s")
                && taken(6, Goal::Price).1.contains("give --price")
        );
        assert_eq!(taken(6, Goal::Loss).0, "raid10 n3 over 6".replace("n3 over 6", "2x(1+2)"));
    }

    #[test]
    fn the_best_stand_first() {
        let mut all = all(6);
        all.sort_by(|a, b| compare(a, b, Goal::Capacity));
        assert_eq!(all[0].level, "raid0");
        assert!(all.is_sorted_by(|a, b| a.usable() >= b.usable()));
    }
}
