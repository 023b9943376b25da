//! Names and numbers of levels and layouts, as mdadm spells and md stores them.

use brindle_layout::{
    FarSets, Layout, Level, ParityLayout, Raid0Layout, Raid10Layout, UnknownLayout, UnknownLevel,
};

use crate::shapes;

#[test]
fn levels() {
    let spellings = [
        (Level::Linear, -1, ["linear", "-1", "linear"]),
        (Level::Raid0, 0, ["raid0", "0", "stripe"]),
        (Level::Raid1, 1, ["raid1", "1", "mirror"]),
        (Level::Raid4, 4, ["raid4", "4", "raid4"]),
        (Level::Raid5, 5, ["raid5", "5", "raid5"]),
        (Level::Raid6, 6, ["raid6", "6", "raid6"]),
        (Level::Raid10, 10, ["raid10", "10", "raid10"]),
    ];
    for (level, number, names) in spellings {
        assert_eq!((level.md_number(), Level::from_md(number)), (number, Ok(level)));
        assert_eq!(level.to_string(), names[0]);
        for name in names {
            assert_eq!(name.parse(), Ok(level));
        }
    }
    assert_eq!(Level::from_md(-4), Err(UnknownLevel::Number(-4)));
    assert_eq!("RAID5".parse::<Level>(), Err(UnknownLevel::Name("RAID5".into())));
    let message = "raid7".parse::<Level>().unwrap_err().to_string();
    assert_eq!(message, "'raid7' is not a RAID level; use linear, 0, 1, 4, 5, 6 or 10");
}

#[test]
fn every_layout_keeps_its_name_and_number() {
    for (level, layout) in shapes::layouts(4) {
        assert_eq!(Layout::from_md(level, layout.md_number()), Ok(layout), "{level} {layout}");
        assert_eq!(Layout::parse(level, &layout.name()), Ok(layout), "{level} {layout}");
        assert_eq!(
            Layout::from_md(level, Layout::default_for(level).md_number()),
            Ok(Layout::default_for(level))
        );
    }
}

#[test]
fn parity_layouts() {
    use ParityLayout as L;
    let numbers = [
        (L::LeftAsymmetric, 0, "la"),
        (L::RightAsymmetric, 1, "ra"),
        (L::LeftSymmetric, 2, "ls"),
        (L::RightSymmetric, 3, "rs"),
        (L::ParityFirst, 4, "parity-first"),
        (L::ParityLast, 5, "parity-last"),
        (L::DdfZeroRestart, 8, "ddf-zero-restart"),
        (L::DdfNRestart, 9, "ddf-N-restart"),
        (L::DdfNContinue, 10, "ddf-N-continue"),
        (L::LeftAsymmetric6, 16, "left-asymmetric-6"),
        (L::RightAsymmetric6, 17, "right-asymmetric-6"),
        (L::LeftSymmetric6, 18, "left-symmetric-6"),
        (L::RightSymmetric6, 19, "right-symmetric-6"),
        (L::ParityFirst6, 20, "parity-first-6"),
    ];
    for (layout, number, name) in numbers {
        assert_eq!(layout.md_number(), number);
        assert_eq!(Layout::parse(Level::Raid6, name), Ok(Layout::Parity(layout)));
        let of_raid5 = Layout::from_md(Level::Raid5, number);
        let expected = Layout::Parity(layout);
        assert_eq!(of_raid5.ok(), (number <= 5).then_some(expected));
    }
    assert_eq!(Layout::parse(Level::Raid5, "ddf-N-continue"), Ok(Layout::Parity(L::LeftSymmetric)));
    assert_eq!(Layout::parse(Level::Raid5, "default"), Ok(Layout::Parity(L::LeftSymmetric)));
    assert!(Layout::parse(Level::Raid5, "left-symmetric-6").is_err());
    for number in [6, 7, 11, 15, 21, u32::MAX] {
        assert_eq!(
            Layout::from_md(Level::Raid6, number),
            Err(UnknownLayout::Number { level: Level::Raid6, number })
        );
    }
    assert_eq!(Layout::from_md(Level::Raid4, 0), Ok(Layout::None));
    assert_eq!(Layout::from_md(Level::Raid4, 5), Ok(Layout::Parity(L::ParityLast)));
}

#[test]
fn raid0_layouts() {
    for (number, name, layout) in
        [(1, "original", Raid0Layout::Original), (2, "alternate", Raid0Layout::Alternate)]
    {
        assert_eq!(Layout::from_md(Level::Raid0, number), Ok(Layout::Raid0(layout)));
        assert_eq!(Layout::parse(Level::Raid0, name), Ok(Layout::Raid0(layout)));
    }
    assert_eq!(Layout::from_md(Level::Raid0, 0), Ok(Layout::None));
    assert!(Layout::from_md(Level::Raid0, 3).is_err());
    assert!(Layout::parse(Level::Raid1, "original").is_err());
}

#[test]
fn raid10_layouts() {
    let numbers = [
        ("n2", 0x102, Raid10Layout::near(2)),
        ("n3", 0x103, Raid10Layout::near(3)),
        ("f2", 0x201, Raid10Layout::far(2)),
        ("o3", 0x1_0301, Raid10Layout::offset(3)),
        ("n2f2", 0x202, Raid10Layout { near: 2, ..Raid10Layout::far(2) }),
        ("f2-broken-far-sets", 0x2_0201, Raid10Layout { far_sets: FarSets::Broken, ..Raid10Layout::far(2) }),
        ("o2-far-sets", 0x5_0201, Raid10Layout { far_sets: FarSets::On, ..Raid10Layout::offset(2) }),
    ];
    for (name, number, layout) in numbers {
        assert_eq!((layout.md_number(), layout.to_string().as_str()), (number, name));
        assert_eq!(Layout::from_md(Level::Raid10, number), Ok(Layout::Raid10(layout)));
        assert_eq!(Layout::parse(Level::Raid10, name), Ok(Layout::Raid10(layout)));
    }
    for bad in
        ["", "n", "2", "n0", "n256", "f2n2", "n2f", "f2o2", "x2", "n2-", "n+2", "nñ", "n2é", "-far-sets"]
    {
        assert!(Layout::parse(Level::Raid10, bad).is_err(), "{bad}");
    }
    for bad in [0, 0x100, 0x002, 0x6_0102, 0x8_0102, 0x8000_0102] {
        assert!(Layout::from_md(Level::Raid10, bad).is_err(), "{bad:#x}");
    }
}
