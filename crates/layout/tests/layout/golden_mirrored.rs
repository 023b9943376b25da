//! RAID 1 and RAID 10 as drawn in md(4) and in the comments of the kernel's driver.

use brindle_layout::{Family, Geometry, Layout, Level, Raid10Layout};

use crate::draw::{CHUNK, check};

#[test]
fn raid1() {
    check(Level::Raid1, "none", 3, "0 0 0\n1 1 1\n2 2 2");
}

#[test]
fn near() {
    check(Level::Raid10, "n2", 2, "0 0\n1 1");
    check(Level::Raid10, "n2", 3, "0 0 1\n1 2 2\n3 3 4\n4 5 5");
    check(Level::Raid10, "n2", 4, "0 0 1 1\n2 2 3 3\n4 4 5 5");
    check(Level::Raid10, "n2", 5, "0 0 1 1 2\n2 3 3 4 4\n5 5 6 6 7\n7 8 8 9 9");
    check(Level::Raid10, "n3", 4, "0 0 0 1\n1 1 2 2\n2 3 3 3");
    check(Level::Raid10, "n3", 5, "0 0 0 1 1\n1 2 2 2 3\n3 3 4 4 4");
}

/// An odd number of members leaves a cell over where the rows end within a chunk's copies.
#[test]
fn near_with_a_remainder() {
    check(Level::Raid10, "n2", 3, "0 0 1\n1 2 2\n3 3 -");
}

#[test]
fn far() {
    check(Level::Raid10, "f2", 3, "0 1 2\n3 4 5\n2 0 1\n5 3 4");
    check(Level::Raid10, "f2", 4, "0 1 2 3\n4 5 6 7\n3 0 1 2\n7 4 5 6");
    check(Level::Raid10, "f3", 4, "0 1 2 3\n4 5 6 7\n3 0 1 2\n7 4 5 6\n2 3 0 1\n6 7 4 5");
}

/// A row that can't be repeated in every section holds nothing.
#[test]
fn far_with_a_remainder() {
    check(Level::Raid10, "f2", 3, "0 1 2\n3 4 5\n2 0 1\n5 3 4\n- - -");
}

#[test]
fn offset() {
    check(Level::Raid10, "o2", 3, "0 1 2\n2 0 1\n3 4 5\n5 3 4");
    check(Level::Raid10, "o2", 4, "0 1 2 3\n3 0 1 2\n4 5 6 7\n7 4 5 6\n- - - -");
    check(Level::Raid10, "o3", 4, "0 1 2 3\n3 0 1 2\n2 3 0 1\n4 5 6 7\n7 4 5 6\n6 7 4 5");
}

#[test]
fn near_and_far() {
    check(Level::Raid10, "n2f2", 4, "0 0 1 1\n2 2 3 3\n1 1 0 0\n3 3 2 2");
    check(Level::Raid10, "n2o2", 4, "0 0 1 1\n1 1 0 0\n2 2 3 3\n3 3 2 2");
    check(Level::Raid10, "n2f2", 5, "0 0 1 1 2\n2 3 3 4 4\n1 2 0 0 1\n4 4 2 3 3");
}

#[test]
fn far_sets() {
    check(Level::Raid10, "f2-far-sets", 4, "0 1 2 3\n1 0 3 2");
    check(Level::Raid10, "f2-far-sets", 5, "0 1 2 3 4\n1 0 4 2 3");
    check(Level::Raid10, "f2-broken-far-sets", 6, "0 1 2 3 4 5\n2 0 1 5 3 4");
    check(Level::Raid10, "o2-far-sets", 4, "0 1 2 3\n1 0 3 2\n4 5 6 7\n5 4 7 6");
}

/// Copies in md's order: what md calls the first copy is what it resyncs the others from.
#[test]
fn order_of_copies() {
    let order = |name: &str| {
        let layout = Layout::parse(Level::Raid10, name).unwrap();
        let geometry = Geometry::new(Level::Raid10, layout, CHUNK, &[8 * CHUNK; 4]).unwrap();
        let Family::Mirrored(mirrored) = geometry.family() else { panic!("RAID 10 is mirrored") };
        let extents = (0..mirrored.copies()).map(|copy| mirrored.locate(CHUNK, copy));
        extents.map(|e| (e.member, e.offset / CHUNK)).collect::<Vec<_>>()
    };
    assert_eq!(order("n2"), [(2, 0), (3, 0)]);
    assert_eq!(order("f2"), [(1, 0), (2, 4)]);
    assert_eq!(order("o2"), [(1, 0), (2, 1)]);
    assert_eq!(order("n2f2"), [(2, 0), (0, 4), (3, 0), (1, 4)]);
}

#[test]
fn a_copy_on_every_member_is_contiguous() {
    for (level, layout) in
        [(Level::Raid1, Layout::None), (Level::Raid10, Layout::Raid10(Raid10Layout::near(3)))]
    {
        let geometry = Geometry::new(level, layout, CHUNK, &[8 * CHUNK; 3]).unwrap();
        let Family::Mirrored(mirrored) = geometry.family() else { panic!("{level} is mirrored") };
        let extent = mirrored.locate(CHUNK + 512, 2);
        assert_eq!((extent.member, extent.offset, extent.len), (2, CHUNK + 512, 7 * CHUNK - 512));
    }
}
