//! Linear and RAID 0 as md(4) describes them, with members of different sizes.

use brindle_layout::{Family, Level};

use crate::draw::{CHUNK, check, check_forward, draw, geometry, table};

#[track_caller]
fn check_unequal(level: Level, layout: &str, chunks: &[u64], expected: &str) {
    let expected = table(expected);
    let geometry = geometry(level, layout, chunks);
    assert_eq!(draw(&geometry, expected.lines().count() as u64), expected);
    assert_eq!(geometry.size(), chunks.iter().sum::<u64>() * CHUNK);
    check_forward(&geometry, &expected);
}

#[test]
fn linear() {
    check_unequal(Level::Linear, "none", &[2, 3, 1], "0 2 5\n1 3 -\n- 4 -");
}

#[test]
fn raid0_of_one_size() {
    for layout in ["original", "alternate"] {
        check(Level::Raid0, layout, 3, "0 1 2\n3 4 5\n6 7 8");
        check(Level::Raid0, layout, 1, "0\n1\n2");
    }
}

/// Chunk 3 opens the second zone: the whole array's count sends it to the second of the zone's two members,
/// the zone's own count to the first.
#[test]
fn raid0_two_zones() {
    let original = "
        0 1 2
        - 4 3
        - 6 5";
    let alternate = "
        0 1 2
        - 3 4
        - 5 6";
    check_unequal(Level::Raid0, "original", &[1, 3, 3], original);
    check_unequal(Level::Raid0, "alternate", &[1, 3, 3], alternate);
}

/// Zones of 4, 3, 2 and 1 members, whose members are not neighbours. First chunks of the zones: 4 (4 mod 3
/// = 1), 10 (10 mod 2 = 0), 12.
#[test]
fn raid0_four_zones() {
    let original = "
         0  1  2  3
         6  -  4  5
         9  -  7  8
        10  -  - 11
         -  -  - 12
         -  -  - 13";
    let alternate = "
         0  1  2  3
         4  -  5  6
         7  -  8  9
        10  -  - 11
         -  -  - 12
         -  -  - 13";
    check_unequal(Level::Raid0, "original", &[4, 1, 3, 6], original);
    check_unequal(Level::Raid0, "alternate", &[4, 1, 3, 6], alternate);
}

#[test]
fn extents_run_as_far_as_bytes_are_contiguous() {
    let located = |layout: &str, chunks: &[u64], offset| {
        let level = if layout == "none" { Level::Linear } else { Level::Raid0 };
        let geometry = geometry(level, layout, chunks);
        let Family::Striped(striped) = geometry.family() else { panic!("{level} is striped") };
        let extent = striped.locate(offset);
        (extent.member, extent.offset, extent.len)
    };
    // To the end of the chunk.
    assert_eq!(located("original", &[4, 4], CHUNK + 512), (1, 512, CHUNK - 512));
    // To the end of the member.
    assert_eq!(located("none", &[2, 3], 2 * CHUNK + 512), (1, 512, 3 * CHUNK - 512));
    // To the end of a zone of one member.
    assert_eq!(located("original", &[1, 3], 3 * CHUNK + 512), (1, 2 * CHUNK + 512, CHUNK - 512));
    assert_eq!(located("alternate", &[7], 512), (0, 512, 7 * CHUNK - 512));
}
