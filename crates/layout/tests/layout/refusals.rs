//! Geometries that no array can have, and the message of each refusal.

use brindle_layout::{
    Family, Geometry, GeometryError, Layout, Level, MAX_RAID6_MEMBERS, ParityLayout, Raid10Layout,
};

const CHUNK: u64 = 65536;

fn refusal(level: Level, layout: Layout, chunk: u64, sizes: &[u64]) -> GeometryError {
    Geometry::new(level, layout, chunk, sizes).unwrap_err()
}

fn default(level: Level) -> Layout {
    Layout::default_for(level)
}

#[test]
fn numbers_of_members() {
    let minima = [
        (Level::Linear, 1),
        (Level::Raid0, 1),
        (Level::Raid1, 1),
        (Level::Raid4, 2),
        (Level::Raid5, 2),
        (Level::Raid6, 4),
        (Level::Raid10, 2),
    ];
    for (level, min) in minima {
        assert!(Geometry::new(level, default(level), CHUNK, &vec![CHUNK; min]).is_ok(), "{level}");
        let error = refusal(level, default(level), CHUNK, &vec![CHUNK; min - 1]);
        assert_eq!(error, GeometryError::TooFewMembers { level, members: min - 1, min: min as u16 });
        for members in [1921, 65536 + min] {
            let error = refusal(level, default(level), CHUNK, &vec![CHUNK; members]);
            assert!(
                matches!(error, GeometryError::TooManyMembers { members: m, .. } if m == members),
                "{error}"
            );
        }
        let most = if level == Level::Raid6 { MAX_RAID6_MEMBERS } else { 1920 };
        assert!(Geometry::new(level, default(level), CHUNK, &vec![CHUNK; most.into()]).is_ok(), "{level}");
    }
    let error = refusal(Level::Raid6, default(Level::Raid6), CHUNK, &[CHUNK; 3]);
    assert_eq!(error.to_string(), "raid6 needs at least 4 members, not 3; name more");
}

#[test]
fn chunks() {
    for level in Level::ALL {
        let refused = |chunk| Geometry::new(level, default(level), chunk, &[1 << 30; 4]).err();
        for chunk in [1, 512, 2048, 4097, 65536 + 512, (64 << 20) + 4096, 128 << 20, u64::MAX, 1 << 63] {
            let expected = (level != Level::Raid1).then_some(GeometryError::Chunk { chunk });
            assert_eq!(refused(chunk), expected, "{level} {chunk}");
        }
        let may_be_0 = matches!(level, Level::Raid1 | Level::Linear);
        assert_eq!(refused(0).is_none(), may_be_0, "{level}");
        let any_multiple = matches!(level, Level::Raid0 | Level::Raid1 | Level::Linear);
        let expected = (!any_multiple).then_some(GeometryError::ChunkNotPowerOfTwo { level, chunk: 12288 });
        assert_eq!(refused(12288), expected);
        for chunk in [4096, 524_288, 64 << 20] {
            assert_eq!(refused(chunk), None, "{level} {chunk}");
        }
    }
}

#[test]
fn layouts_of_other_levels() {
    let foreign = [
        (Level::Raid5, Layout::None),
        (Level::Raid5, Layout::Parity(ParityLayout::LeftSymmetric6)),
        (Level::Raid5, Layout::Parity(ParityLayout::DdfNContinue)),
        (Level::Raid4, Layout::Parity(ParityLayout::LeftSymmetric)),
        (Level::Raid1, Layout::Parity(ParityLayout::LeftSymmetric)),
        (Level::Raid6, Layout::Raid10(Raid10Layout::near(2))),
        (Level::Raid10, Layout::None),
        (Level::Raid0, Layout::Raid10(Raid10Layout::near(2))),
        (Level::Linear, default(Level::Raid0)),
    ];
    for (level, layout) in foreign {
        let error = refusal(level, layout, CHUNK, &[1 << 30; 6]);
        assert_eq!(error, GeometryError::LayoutOfOtherLevel { level, layout });
    }
}

#[test]
fn copies() {
    let refused = |layout: Raid10Layout, members: u16| {
        Geometry::new(Level::Raid10, Layout::Raid10(layout), CHUNK, &vec![1 << 30; members.into()]).err()
    };
    let copies = |layout, copies, members| {
        Some(GeometryError::Copies { layout: Layout::Raid10(layout), copies, members })
    };
    let wide = Raid10Layout { near: 255, ..Raid10Layout::far(255) };
    assert_eq!(refused(Raid10Layout::near(1), 4), copies(Raid10Layout::near(1), 1, 4));
    assert_eq!(refused(Raid10Layout::far(5), 4), copies(Raid10Layout::far(5), 5, 4));
    assert_eq!(refused(wide, 384), copies(wide, 65025, 384));
    let none = Raid10Layout { near: 0, ..Raid10Layout::far(2) };
    assert_eq!(refused(none, 4), copies(none, 0, 4));
    let layout = Raid10Layout { near: 2, ..Raid10Layout::offset(2) };
    let collide = GeometryError::CopiesCollide { layout: Layout::Raid10(layout), members: 5 };
    assert_eq!(refused(layout, 5), Some(collide));
    assert_eq!(refused(layout, 6), None);
    assert_eq!(refused(Raid10Layout::near(255), 255), None);
    // The most that a superblock can ask for.
    let most = Raid10Layout { near: 7, ..Raid10Layout::far(255) };
    assert_eq!(refused(most, 1920), None);
}

#[test]
fn members_too_small() {
    for level in Level::ALL {
        let sizes = [1 << 30, CHUNK - 512, 1 << 20, 1 << 20];
        match Geometry::new(level, default(level), CHUNK, &sizes) {
            Ok(_) => assert_eq!(level, Level::Raid1),
            Err(error) => assert_eq!(
                error,
                GeometryError::MemberTooSmall { member: 1, size: CHUNK - 512, needed: CHUNK },
                "{level}"
            ),
        }
        let nothing = refusal(level, default(level), CHUNK, &[1 << 30, 1 << 20, 0, 1 << 20]);
        assert!(matches!(nothing, GeometryError::MemberTooSmall { member: 2, size: 0, .. }), "{nothing}");
    }
    // Far copies need a section each.
    let error = refusal(Level::Raid10, Layout::Raid10(Raid10Layout::far(3)), CHUNK, &[3 * CHUNK - 512; 4]);
    assert_eq!(
        error.to_string(),
        "member 0 offers 196096 bytes, but at least 196608 are needed: use a larger one"
    );
}

#[test]
fn sizes_beyond_any_device() {
    for level in Level::ALL {
        let refused = |sizes: &[u64]| Geometry::new(level, default(level), CHUNK, sizes).err();
        assert_eq!(refused(&[u64::MAX; 4]), Some(GeometryError::TooLarge), "{level}");
        assert_eq!(refused(&[1 << 63; 4]), Some(GeometryError::TooLarge), "{level}");
        let most = refused(&[i64::MAX as u64; 4]);
        assert_eq!(most, (level != Level::Raid1).then_some(GeometryError::TooLarge), "{level}");
        assert_eq!(refused(&[1 << 60; 4]), None, "{level}");
    }
    // Neither zone is too large alone.
    let layout = default(Level::Raid0);
    assert_eq!(refusal(Level::Raid0, layout, CHUNK, &[1 << 61, 3 << 61, 3 << 61]), GeometryError::TooLarge);
}

#[test]
fn raid0_must_know_its_layout_only_where_it_matters() {
    let new = |sizes: &[u64]| Geometry::new(Level::Raid0, Layout::None, CHUNK, sizes);
    assert!(new(&[8 * CHUNK; 3]).is_ok());
    // Sizes that differ by less than a chunk are equal; a second zone of one member has but one order.
    assert!(new(&[8 * CHUNK, 8 * CHUNK + 4096]).is_ok());
    assert!(new(&[8 * CHUNK, 9 * CHUNK]).is_ok());
    assert_eq!(new(&[8 * CHUNK, 9 * CHUNK, 9 * CHUNK]), Err(GeometryError::Raid0LayoutUnknown));
}

/// Used size, array size and best request size by md's arithmetic.
#[test]
fn sizes() {
    let shape = |level: Level, layout: &str, chunk: u64, sizes: &[u64]| {
        let layout = Layout::parse(level, layout).unwrap();
        let g = Geometry::new(level, layout, chunk, sizes).unwrap();
        assert_eq!(
            (g.level(), g.layout(), g.chunk(), usize::from(g.members())),
            (level, layout, chunk, sizes.len())
        );
        (g.size(), g.member_size(), g.row_bytes())
    };
    let uneven = [9 * CHUNK + 5632, 9 * CHUNK + 1023, 10 * CHUNK, 12 * CHUNK];
    assert_eq!(shape(Level::Raid5, "ls", CHUNK, &uneven), (27 * CHUNK, 9 * CHUNK, 3 * CHUNK));
    assert_eq!(shape(Level::Raid6, "ls", CHUNK, &uneven), (18 * CHUNK, 9 * CHUNK, 2 * CHUNK));
    assert_eq!(shape(Level::Raid1, "none", 0, &uneven), (9 * CHUNK + 512, 9 * CHUNK + 512, 0));
    assert_eq!(shape(Level::Raid0, "original", CHUNK, &uneven), (40 * CHUNK, 9 * CHUNK, 4 * CHUNK));
    assert_eq!(shape(Level::Linear, "none", 0, &uneven), (40 * CHUNK + 5632 + 512, 9 * CHUNK + 512, 0));
    assert_eq!(shape(Level::Raid10, "n2", CHUNK, &uneven), (18 * CHUNK, 9 * CHUNK, 2 * CHUNK));
    assert_eq!(shape(Level::Raid10, "n2", CHUNK, &uneven[..3]), (13 * CHUNK, 9 * CHUNK, 3 * CHUNK));
    assert_eq!(shape(Level::Raid10, "f2", CHUNK, &uneven), (16 * CHUNK, 8 * CHUNK, 4 * CHUNK));
    assert_eq!(shape(Level::Raid10, "o3", CHUNK, &uneven), (12 * CHUNK, 9 * CHUNK, 4 * CHUNK));
}

/// md masks RAID 0's sizes with chunk - 1 sectors even where the chunk is not a power of two. So it announces less than
/// the members hold: with 12 KiB (24 sectors, mask 23) on 3 x 24 sectors, 8 sectors each.
#[test]
fn raid0_with_odd_chunks_has_mds_size() {
    let geometry = Geometry::new(Level::Raid0, Layout::None, 12288, &[12288; 3]).unwrap();
    assert_eq!(geometry.size(), 3 * 8 * 512);
    let Family::Striped(striped) = geometry.family() else { panic!("RAID 0 is striped") };
    assert_eq!(striped.locate(0).len, 12288);
    // 101 chunks are 2424 sectors, 0b1001_0111_1000; the mask takes away bit 4.
    let larger = Geometry::new(Level::Raid0, Layout::None, 12288, &[101 * 12288; 2]).unwrap();
    assert_eq!(larger.size(), 2 * 2408 * 512);
}
