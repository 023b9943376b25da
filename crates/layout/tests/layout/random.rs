//! Random and hostile geometries: nothing panics (overflow checks are on), and what is accepted leads back.

use brindle_layout::{Family, Geometry, Layout, Level, Place};
use proptest::prelude::*;

use crate::bijection::check_byte;

fn any_chunk() -> impl Strategy<Value = u64> {
    prop_oneof![
        (12_u32..=26).prop_map(|shift| 1 << shift),
        (1_u64..=16384).prop_map(|n| n * 4096),
        any::<u64>()
    ]
}

fn any_size() -> impl Strategy<Value = u64> {
    prop_oneof![(9_u32..=60, any::<u64>()).prop_map(|(shift, n)| n % (1 << shift)), any::<u64>()]
}

/// Sizes of members: all alike, alike but for a few, or all at random.
fn any_sizes() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        (1_usize..=384, any_size()).prop_map(|(members, size)| vec![size; members]),
        (prop::collection::vec(any_size(), 1..=3), 1_usize..=384).prop_map(|(sizes, members)| sizes
            .into_iter()
            .cycle()
            .take(members)
            .collect()),
        prop::collection::vec(any_size(), 1..=384),
    ]
}

fn any_layout() -> impl Strategy<Value = (Level, Layout)> {
    let raid10 = |most: u32| (1..=most, 1..=most, 0_u32..8).prop_map(|(n, f, x)| n | f << 8 | x << 16);
    let number = prop_oneof![0_u32..=20, raid10(4), raid10(255)];
    (prop::sample::select(&Level::ALL[..]), prop_oneof![number, any::<u32>()]).prop_map(|(level, number)| {
        (level, Layout::from_md(level, number).unwrap_or(Layout::default_for(level)))
    })
}

fn check(geometry: &Geometry, draws: &[u64], members: &[u16], offsets: &[u64]) {
    let size = geometry.size();
    assert!(size > 0 && size <= i64::MAX as u64);
    for offset in draws.iter().map(|n| n % size).chain([0, size - 1]) {
        check_byte(geometry, offset);
    }
    for &member in members {
        for &offset in offsets {
            let place = geometry.place(member, offset);
            if let Place::Data { array_offset, .. } = place {
                assert!(array_offset < size && member < geometry.members());
                check_byte(geometry, array_offset);
            }
            if let (Place::P { row } | Place::Q { row }, Family::Parity(rows)) = (place, geometry.family()) {
                assert!(row < rows.rows() && row == offset / geometry.chunk());
            }
        }
    }
    assert!(geometry.can_lose(&[]));
    let few = geometry.tolerance();
    assert!(geometry.can_lose(&members[..usize::from(few).min(members.len())]));
    assert!(!geometry.can_lose(&(0..geometry.members()).collect::<Vec<_>>()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_geometry_panics(
        (level, layout) in any_layout(),
        chunk in any_chunk(),
        sizes in any_sizes(),
        draws in prop::collection::vec(any::<u64>(), 8),
        members in prop::collection::vec(prop_oneof![0_u16..384, any::<u16>()], 4),
        offsets in prop::collection::vec(any_size(), 4),
    ) {
        if let Ok(geometry) = Geometry::new(level, layout, chunk, &sizes) {
            check(&geometry, &draws, &members, &offsets);
        }
    }

    /// The same with values that are accepted, so that large arrays are looked into often.
    #[test]
    fn large_geometries_lead_back(
        level in prop::sample::select(&Level::ALL[..]),
        members in 4_usize..=255,
        shift in 12_u32..=26,
        size in (1_u64 << 28)..(1 << 55),
        draws in prop::collection::vec(any::<u64>(), 16),
        some in prop::collection::vec(0_u16..255, 4),
        offsets in prop::collection::vec(0_u64..(1 << 55), 4),
    ) {
        let geometry = Geometry::new(level, Layout::default_for(level), 1 << shift, &vec![size; members]).unwrap();
        check(&geometry, &draws, &some, &offsets);
    }

    /// RAID 10 as wide as md can have it, with as many copies as members allow.
    #[test]
    fn wide_raid10(
        members in 1_u32..=1920,
        copies in (1_u32..=255, 1_u32..=255),
        flags in 0_u32..6,
        draws in prop::collection::vec(any::<u64>(), 2),
        some in prop::collection::vec(0_u16..1920, 4),
        offsets in prop::collection::vec(0_u64..(1 << 22), 4),
    ) {
        let far = copies.1.min(members);
        let near = copies.0.min(members / far);
        let layout = Layout::from_md(Level::Raid10, near | far << 8 | flags << 16).unwrap();
        if let Ok(geometry) = Geometry::new(Level::Raid10, layout, 4096, &vec![1 << 22; members as usize]) {
            check(&geometry, &draws, &some, &offsets);
        }
    }
}
