//! Every sensible configuration of some drives.
//!
//! Sensible means that some user could prefer it to all others. Parity has at least two data drives in each group
//! (with one, a mirror has the same room and is faster). Groups of a stripe are equal. No data is kept more than
//! three times, but for mirrors of up to four drives.

use brindle_layout::{MAX_RAID6_MEMBERS, Raid10Layout};

use crate::configuration::{Configuration, Part, Scheme};
use crate::disk::{Disk, Set};

/// Data drives of a group with parity, at least.
const DATA: u32 = 2;
/// Drives of a group with two or more of parity, at most: of RAID 6 the layout says, of RAID-Z `zpool` (`is_grouping`,
/// `cmd/zpool/zpool_vdev.c`).
const WIDEST: u32 = MAX_RAID6_MEMBERS as u32;
/// Drives that a mirror has at most.
const COPIES: u32 = 4;

/// All of them, of one set, or of two that differ: then over all drives, each of which counts as the least of them, and one
/// part of each set.
pub fn configurations(sets: &[Set]) -> Vec<Configuration> {
    let price = sets.iter().map(|set| Some(set.disk.price? * f64::from(set.count))).sum();
    match sets {
        [] => Vec::new(),
        [one] => singles(one.count, one.disk, price, false),
        [first, rest @ ..] => {
            let least = rest.iter().fold(first.disk, |least, set| least.least(set.disk));
            let drives = sets.iter().map(|set| set.count).sum();
            let mut all = singles(drives, least, price, true);
            // RAID 0 has room for all of each drive.
            all.retain(|one| one.parts[0].scheme != Scheme::Stripe);
            let stripe = sets.iter().map(|set| Part::one(Scheme::Stripe, set.count, set.disk)).collect();
            all.insert(0, Configuration { parts: stripe, price, as_the_least: false });
            all.extend(joined(sets, price));
            all
        }
    }
}

fn singles(drives: u32, disk: Disk, price: Option<f64>, as_the_least: bool) -> Vec<Configuration> {
    let one = |scheme| Part::one(scheme, drives, disk);
    let mut parts = Vec::new();
    let mut add = |fits: bool, part: Part| parts.extend(fits.then_some(part));
    add(drives >= 2, one(Scheme::Stripe));
    add((2..=COPIES).contains(&drives), one(Scheme::Mirror));
    add(drives > DATA, one(Scheme::DedicatedParity));
    let (md, zfs) = ([1, 2].map(Scheme::Parity), [1, 2, 3].map(Scheme::RaidZ));
    let groups = |schemes: &[Scheme]| -> Vec<Part> {
        schemes.iter().flat_map(|scheme| stripes(*scheme, drives, disk)).collect()
    };
    let wholes = |schemes: &[Scheme]| -> Vec<Part> {
        schemes.iter().filter(|scheme| sensible(**scheme, drives)).map(|scheme| one(*scheme)).collect()
    };
    parts.extend(wholes(&md).into_iter().chain(groups(&md)).chain(wholes(&zfs)));
    parts.extend(copies(drives).map(|layout| one(Scheme::Raid10(layout))));
    parts.extend(groups(&zfs));
    let configuration = |part| Configuration { parts: vec![part], price, as_the_least };
    parts.into_iter().map(configuration).collect()
}

/// Whether a group with parity can have this many drives, and has use for it.
fn sensible(scheme: Scheme, width: u32) -> bool {
    let widest = if scheme == Scheme::Parity(1) { u32::MAX } else { WIDEST };
    (DATA + scheme.tolerance(width)..=widest).contains(&width)
}

/// Stripes of equal groups.
fn stripes(scheme: Scheme, drives: u32, disk: Disk) -> impl Iterator<Item = Part> {
    let fits = move |groups: &u32| drives.is_multiple_of(*groups) && sensible(scheme, drives / groups);
    (2..=drives / 2).filter(fits).map(move |groups| Part { scheme, width: drives / groups, groups, disk })
}

/// Layouts of RAID 10 that differ from RAID 1 over this many drives.
fn copies(drives: u32) -> impl Iterator<Item = Raid10Layout> {
    let of = |copies| [Raid10Layout::near(copies), Raid10Layout::far(copies), Raid10Layout::offset(copies)];
    let fits = move |layout: &Raid10Layout| match layout.copies() {
        2 => drives >= 2,
        copies => drives > u32::from(copies),
    };
    [2, 3].into_iter().flat_map(of).filter(fits)
}

/// One part of each set: all of md, or all of OpenZFS, where a pair is a mirror too.
fn joined(sets: &[Set], price: Option<f64>) -> Vec<Configuration> {
    let mut all = Vec::new();
    for of_md in [true, false] {
        let mut rows: Vec<Vec<Part>> = vec![Vec::new()];
        for set in sets {
            let options = options(set, of_md);
            let with = |row: &Vec<Part>| {
                options.iter().map(|part| [row.as_slice(), &[*part]].concat()).collect::<Vec<_>>()
            };
            rows = rows.iter().flat_map(with).collect();
        }
        // Mirrors alone are the same for either.
        rows.retain(|row| of_md || row.iter().any(|part| !part.scheme.is_of_md()));
        all.extend(rows.into_iter().map(|parts| Configuration { parts, price, as_the_least: false }));
    }
    all
}

fn options(set: &Set, of_md: bool) -> Vec<Part> {
    let one = |scheme| Part::one(scheme, set.count, set.disk);
    let parity = |parity: u32| if of_md { Scheme::Parity(parity) } else { Scheme::RaidZ(parity) };
    let most = if of_md { 2 } else { 3 };
    let mut parts: Vec<Part> =
        (1..=most).map(parity).filter(|scheme| sensible(*scheme, set.count)).map(one).collect();
    if (2..=3).contains(&set.count) {
        parts.push(one(Scheme::Mirror));
    } else if set.count.is_multiple_of(2) && of_md {
        parts.push(one(Scheme::Raid10(Raid10Layout::near(2))));
    }
    parts
}

#[cfg(test)]
mod tests {
    use brindle_layout::{Geometry, Layout, Level};

    use super::*;
    use crate::testing::{disk, set};

    fn named(sets: &[Set]) -> Vec<String> {
        configurations(sets).iter().map(|one| format!("{} {}", one.level(), one.config())).collect()
    }

    #[test]
    fn all_sensible_ones_are_listed() {
        assert_eq!(
            named(&[set(2)]),
            ["raid0 2", "raid1 1+1", "raid10 1x(1+1)", "raid10 f2 over 2", "raid10 o2 over 2"]
        );
        let four = named(&[set(4)]);
        for one in ["raid0 4", "raid1 1+3", "raid4 3+1", "raid5 3+1", "raid6 2+2", "raidz 3+1", "raidz2 2+2"]
        {
            assert!(four.iter().any(|other| other == one), "{one} in {four:?}");
        }
        assert!(!four.iter().any(|one| one.starts_with("raidz10") || one.starts_with("raid50")), "{four:?}");
        let twelve = named(&[set(12)]);
        for one in
            ["raid50 4x(2+1)", "raid60 3x(2+2)", "raidz10 3x(3+1)", "raidz20 2x(4+2)", "raidz30 2x(3+3)"]
        {
            assert!(twelve.iter().any(|other| other == one), "{one} in {twelve:?}");
        }
        assert!(named(&[set(1)]).is_empty() && named(&[]).is_empty());
    }

    #[test]
    fn no_group_is_wider_than_its_kind_can_be() {
        let listed = |drives, level: &str| named(&[set(drives)]).iter().any(|one| one.starts_with(level));
        for level in ["raid6 ", "raidz ", "raidz2 ", "raidz3 "] {
            assert!(listed(255, level) && !listed(256, level), "{level}");
        }
        assert!(listed(384, "raid5 383+1") && listed(384, "raid60 2x(190+2)"));
        let wide = named(&[set(300), set(4)]);
        assert!(!wide.iter().any(|one| one.contains("298+2") || one.contains("raidz+")), "{wide:?}");
    }

    #[test]
    fn unlike_sets_are_joined() {
        let large = Disk { size: 4_000_000_000_000, ..disk() };
        let sets = [set(4), Set { count: 2, disk: large }];
        let all = configurations(&sets);
        let net = |level: &str| {
            let one = all.iter().find(|one| one.level() == level).unwrap_or_else(|| panic!("{level}"));
            (one.config(), one.net() / 1_000_000_000_000)
        };
        assert_eq!(net("raid0"), ("6".to_owned(), 16));
        assert_eq!(net("raid5"), ("5+1".to_owned(), 10));
        assert_eq!(net("raid5+raid1"), ("3+1 & 1+1".to_owned(), 10));
        assert_eq!(net("raidz2+raid1"), ("2+2 & 1+1".to_owned(), 8));
        assert_eq!(net("raid10+raid1"), ("2x(1+1) & 1+1".to_owned(), 8));
        // Whichever stands first, all count as the least.
        let turned = configurations(&[sets[1], sets[0]]);
        let one = turned.iter().find(|one| one.level() == "raid5").expect("six drives");
        assert!(one.net() == 10_000_000_000_000 && one.as_the_least, "{one:?}");
    }

    #[test]
    fn md_runs_all_that_it_is_said_to() {
        for drives in (2..40).chain([254, 255, 256, 383, 384]) {
            for one in configurations(&[set(drives)]).iter().filter(|one| one.is_of_md()) {
                let part = one.parts[0];
                let (level, layout) = match part.scheme {
                    Scheme::Raid10(layout) => (Level::Raid10, Layout::Raid10(layout)),
                    Scheme::Parity(parity) => (
                        if parity == 1 { Level::Raid5 } else { Level::Raid6 },
                        Layout::from_md(Level::Raid5, 2).expect("left-symmetric"),
                    ),
                    _ => continue,
                };
                let geometry = Geometry::new(level, layout, 1 << 20, &vec![1 << 30; part.width as usize]);
                let geometry = geometry.unwrap_or_else(|why| panic!("{}: {why}", one.config()));
                assert_eq!(u32::from(geometry.tolerance()), one.tolerance());
            }
        }
    }
}
