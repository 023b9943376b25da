//! The failures that lose data: exact shares of all sets of two and of three drives.

use brindle_layout::Raid10Layout;

use crate::configuration::{Configuration, Part, Scheme};
use crate::fraction::{Fraction, divisor};

/// Failures that are counted.
const MOST: usize = 3;

/// How many sets of 0, 1, 2 and 3 drives.
type Sets = [u64; MOST + 1];

/// Shares of failures that lose data; none where there are too few drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Losses {
    /// The share of sets of two drives that lose data.
    pub double: Option<Fraction>,
    /// The share of sets of three drives that lose data.
    pub triple: Option<Fraction>,
    /// The share of third failures that lose data after two that lost none; `None` where no two are survived.
    pub third: Option<Fraction>,
}

/// Counts the sets that lose data. A set survives in a stripe if it survives in each of its groups, so that the
/// numbers of sets are the coefficients of the product of the groups' polynomials.
pub fn losses(configuration: &Configuration) -> Losses {
    let drives = u64::from(configuration.disks());
    let mut survived: Sets = [1, 0, 0, 0];
    for part in &configuration.parts {
        let of_one = survived_by(part);
        for _ in 0..part.groups {
            survived = product(&survived, &of_one);
        }
    }
    let lost = |failures: usize| {
        let all = choose(drives, failures as u64);
        (all > 0).then(|| Fraction::new(all - survived[failures], all))
    };
    // Each survived pair has as many thirds as there are other drives. A triple that is survived comes of each of its three
    // pairs, since what survives three failures survives any two of them.
    let thirds = survived[2] * drives.saturating_sub(2);
    Losses {
        double: lost(2),
        triple: lost(3),
        third: (thirds > 0).then(|| Fraction::new(thirds - 3 * survived[3], thirds)),
    }
}

fn product(a: &Sets, b: &Sets) -> Sets {
    core::array::from_fn(|failures| (0..=failures).map(|of_a| a[of_a] * b[failures - of_a]).sum())
}

fn survived_by(part: &Part) -> Sets {
    let width = u64::from(part.width);
    let tolerance = part.scheme.tolerance(part.width) as usize;
    core::array::from_fn(|failures| {
        let all = choose(width, failures as u64);
        match part.scheme {
            Scheme::Raid10(layout) => all - lost_by(layout, width, failures),
            _ if failures <= tolerance => all,
            _ => 0,
        }
    })
}

/// Sets of drives that hold all copies of some chunk. The copies of a chunk are on neighbours, the last drive being a
/// neighbour of the first. For near copies such a window begins at each multiple of the common divisor of copies and
/// drives; for far and offset copies it begins anywhere.
fn lost_by(layout: Raid10Layout, width: u64, failures: usize) -> u64 {
    let copies = u64::from(layout.copies());
    let apart = if layout.far > 1 { 1 } else { divisor(copies, width) };
    let windows = if copies == width { 1 } else { width / apart };
    let all = choose(width, failures as u64);
    match failures as u64 {
        failures if failures < copies || all == 0 => 0,
        failures if failures == copies => windows,
        // A triple around a pair. Where pairs share drives, a triple of neighbours is around two of them.
        3 if copies == 2 && width > 3 => windows * (width - 2) - if apart == 1 { width } else { 0 },
        _ => all,
    }
}

/// Binomial coefficients, for up to three of up to a few thousand.
pub(crate) fn choose(of: u64, count: u64) -> u64 {
    if count > of { 0 } else { (0..count).fold(1, |so_far, n| so_far * (of - n) / (n + 1)) }
}

#[cfg(test)]
mod tests {
    use brindle_layout::{Geometry, Layout, Level};

    use super::*;
    use crate::candidates::configurations;
    use crate::testing::set;

    /// All sets of `failures` drives.
    fn subsets(drives: u16, failures: usize) -> Vec<Vec<u16>> {
        let mut all = vec![Vec::new()];
        for _ in 0..failures {
            all = all
                .iter()
                .flat_map(|set: &Vec<u16>| {
                    let from = set.last().map_or(0, |last| last + 1);
                    (from..drives).map(move |next| [set.as_slice(), &[next]].concat())
                })
                .collect();
        }
        all
    }

    /// By the layout itself: the geometry says what it bears.
    fn survives(part: &Part, lost: &[u16]) -> bool {
        let (level, layout) = match part.scheme {
            Scheme::Stripe => (Level::Raid0, Layout::default_for(Level::Raid0)),
            Scheme::Mirror => (Level::Raid1, Layout::None),
            Scheme::Raid10(layout) => (Level::Raid10, Layout::Raid10(layout)),
            Scheme::DedicatedParity => (Level::Raid4, Layout::None),
            Scheme::Parity(1) => (Level::Raid5, Layout::default_for(Level::Raid5)),
            Scheme::Parity(_) => (Level::Raid6, Layout::default_for(Level::Raid6)),
            // No layout of md's: by its definition.
            Scheme::RaidZ(parity) => return lost.len() <= parity as usize,
        };
        let sizes = vec![16 << 20; part.width as usize];
        Geometry::new(level, layout, 64 << 10, &sizes).expect("a geometry").can_lose(lost)
    }

    #[test]
    fn shares_are_those_that_the_layouts_themselves_have() {
        let mut seen = 0;
        for drives in 2..=12 {
            for configuration in configurations(&[set(drives)]) {
                let found = losses(&configuration);
                let part = configuration.parts[0];
                let survived = |lost: &Vec<u16>| {
                    (0..part.groups).all(|group| {
                        let first = (group * part.width) as u16;
                        let own = first..first + part.width as u16;
                        let lost: Vec<u16> =
                            lost.iter().filter(|one| own.contains(one)).map(|one| one - first).collect();
                        survives(&part, &lost)
                    })
                };
                let counted = |failures: usize| {
                    let all = subsets(drives as u16, failures);
                    let lost = all.iter().filter(|lost| !survived(lost)).count();
                    (!all.is_empty()).then(|| Fraction::new(lost as u64, all.len() as u64))
                };
                let what = format!("{} {}", configuration.level(), configuration.config());
                assert_eq!((found.double, found.triple), (counted(2), counted(3)), "{what}");
                let pairs = subsets(drives as u16, 2).into_iter().filter(|pair| survived(pair));
                let thirds = pairs.flat_map(|pair| {
                    (0..drives as u16)
                        .filter(|third| !pair.contains(third))
                        .map(|third| survived(&[pair.as_slice(), &[third]].concat()))
                        .collect::<Vec<_>>()
                });
                let (all, fine) = thirds.fold((0, 0), |(all, fine), one| (all + 1, fine + u64::from(one)));
                let expected = (all > 0).then(|| Fraction::new(all - fine, all));
                assert_eq!(found.third, expected, "{what}");
                assert_eq!(
                    configuration.tolerance() >= 2,
                    found.double.is_none_or(|of| of == Fraction::NONE)
                );
                seen += 1;
            }
        }
        assert!(seen > 150, "{seen} configurations");
    }

    #[test]
    fn odd_members_and_far_copies_are_worse_than_pairs() {
        let double = |drives, level: &str, config: &str| {
            let all = configurations(&[set(drives)]);
            let one = all.iter().find(|one| one.level() == level && one.config() == config);
            losses(one.expect(config)).double.map(|share| share.to_string())
        };
        assert_eq!(double(6, "raid10", "3x(1+1)").as_deref(), Some("1/5"));
        assert_eq!(double(6, "raid10", "f2 over 6").as_deref(), Some("2/5"));
        assert_eq!(double(5, "raid10", "n2 over 5").as_deref(), Some("1/2"));
        assert_eq!(double(6, "raidz10", "2x(2+1)").as_deref(), Some("2/5"));
    }
}
