//! Which members may be lost: `can_lose` against brute force over all that an array keeps.

use std::collections::BTreeSet;

use brindle_layout::{Family, Geometry, Layout, Level, Place};

use crate::bijection::extents;
use crate::shapes;

/// Every set of members that has to be intact at once: for each chunk its copies, for each row its members.
fn groups(geometry: &Geometry, chunk: u64) -> BTreeSet<Vec<u16>> {
    match geometry.family() {
        Family::Parity(rows) => (0..rows.rows()).map(|_| (0..geometry.members()).collect()).collect(),
        _ => (0..geometry.size())
            .step_by(chunk as usize)
            .map(|offset| extents(geometry, offset).into_iter().map(|e| e.member).collect())
            .collect(),
    }
}

fn lost_of(bits: u32, members: u16) -> Vec<u16> {
    (0..members).filter(|m| bits >> m & 1 == 1).collect()
}

#[test]
fn brute_force_over_every_set_of_members() {
    let chunk = 4096;
    let count = shapes::for_each(8, 3, chunk, |geometry| {
        let members = geometry.members();
        let groups = groups(geometry, chunk);
        let may_be_lost = |group: &[u16]| match geometry.family() {
            Family::Striped(_) => 0,
            Family::Mirrored(_) => group.len() - 1,
            Family::Parity(rows) => usize::from(rows.parity_members()),
        };
        let mut always = members;
        for bits in 0..1_u32 << members {
            let lost = lost_of(bits, members);
            let survives = groups.iter().all(|group| {
                group.iter().filter(|member| lost.contains(member)).count() <= may_be_lost(group)
            });
            let label = format!("{} {} on {members} without {lost:?}", geometry.level(), geometry.layout());
            assert_eq!(geometry.can_lose(&lost), survives, "{label}");
            if !survives {
                always = always.min(lost.len() as u16 - 1);
            }
        }
        assert_eq!(geometry.tolerance(), always, "{} {} on {members}", geometry.level(), geometry.layout());
    });
    assert!(count > 250, "only {count} geometries");
}

/// Copies lie within groups, and where groups are apart the smallest ones are given.
#[test]
fn copies_lie_within_groups_of_members() {
    let (chunk, mut split) = (4096, 0);
    shapes::for_each(8, 3, chunk, |geometry| {
        let Family::Mirrored(map) = geometry.family() else { return };
        let group = map.group();
        assert!(geometry.members().is_multiple_of(group) && group >= map.copies());
        for copies in groups(geometry, chunk) {
            assert!(copies.iter().all(|member| member / group == copies[0] / group), "{}", geometry.layout());
        }
        split += u32::from(group < geometry.members());
    });
    assert!(split > 3, "n2 and n3 on more members: {split}");
}

/// The losses that common RAID 10s bear, as administrators know them.
#[test]
fn raid10_by_hand() {
    let array = |layout: &str, members: usize| {
        let layout = Layout::parse(Level::Raid10, layout).unwrap();
        Geometry::new(Level::Raid10, layout, 65536, &vec![1 << 30; members]).unwrap()
    };
    // Mirrored pairs: one of each.
    assert!(array("n2", 4).can_lose(&[0, 2]) && array("n2", 4).can_lose(&[1, 2]));
    assert!(!array("n2", 4).can_lose(&[0, 1]) && !array("n2", 4).can_lose(&[2, 3]));
    assert!(array("n2", 6).can_lose(&[0, 3, 5]));
    // A ring: no two neighbours.
    for layout in ["f2", "o2"] {
        assert!(array(layout, 4).can_lose(&[0, 2]) && array(layout, 4).can_lose(&[1, 3]));
        for pair in [[0, 1], [1, 2], [2, 3], [3, 0]] {
            assert!(!array(layout, 4).can_lose(&pair), "{layout} {pair:?}");
        }
    }
    // An odd number of members makes a ring of near copies, too.
    assert!(!array("n2", 5).can_lose(&[0, 4]) && array("n2", 5).can_lose(&[0, 2]));
    assert!(array("n3", 3).can_lose(&[0, 2]) && array("f3", 5).can_lose(&[1, 2]));
    assert!(!array("f3", 5).can_lose(&[4, 0, 1]));
}

#[test]
fn twice_named_and_foreign_members_do_not_count() {
    let raid5 = Geometry::new(Level::Raid5, Layout::default_for(Level::Raid5), 65536, &[1 << 30; 3]).unwrap();
    assert!(raid5.can_lose(&[1, 1, 3, 65535]));
    assert!(!raid5.can_lose(&[1, 2]));
    assert_eq!(raid5.place(3, 0), Place::Unused);
}

/// An array of one chunk never reaches the members that its layout would turn to next.
#[test]
fn only_what_is_there_counts() {
    let layout = Layout::parse(Level::Raid10, "n2").unwrap();
    let geometry = Geometry::new(Level::Raid10, layout, 4096, &[4096; 3]).unwrap();
    assert_eq!(geometry.size(), 4096);
    assert!(geometry.can_lose(&[2, 0]) && geometry.can_lose(&[2, 1]) && !geometry.can_lose(&[0, 1]));
}
