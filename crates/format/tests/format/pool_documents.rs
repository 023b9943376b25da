//! `docs/formats/pool.md` and the code say the same; what is written is read again, and what is damaged is refused.

#![allow(clippy::unwrap_used)]

use brindle_format::pool::place::Address;
use brindle_format::pool::{
    BLOCK, Batch, Branch, CONFIG_BYTES, ConfigName, DeadPages, Entry, EntryKind, Features, Host, Label, Leaf,
    LeafEntry, LeafForms, LeafKind, MAX_NUMBER, MemberRecord, MemberState, Node, Nodes, Pointer, Pointers,
    PoolError, Root, Rooted, Run, ScrubRecord, ScrubState, SegmentClass, SegmentRecord, SegmentState,
    Segments, Subtree, SubtreeState, Uberblock, Vdev, VdevKind, VolumeRecord, Volumes, leaf_takes,
};
use proptest::prelude::*;
use uuid::Uuid;

const PAGE: &str = include_str!("../../../../docs/formats/pool.md");
const SOURCES: [(&str, &str, &[&str]); 11] = [
    ("scrub.rs", include_str!("../../src/pool/scrub.rs"), &["RawScrub"]),
    ("history.rs", include_str!("../../src/pool/history.rs"), &["RawHistory", "RawHistoryRecord"]),
    ("label.rs", include_str!("../../src/pool/label.rs"), &["RawLabel"]),
    ("vdev.rs", include_str!("../../src/pool/vdev.rs"), &["RawVdev", "RawMember", "RawRun"]),
    ("uberblock.rs", include_str!("../../src/pool/uberblock.rs"), &["RawUberblock", "RawRooted"]),
    ("page.rs", include_str!("../../src/pool/page.rs"), &["RawPage", "RawPointer", "RawPointers", "RawRoot"]),
    ("batch.rs", include_str!("../../src/pool/batch.rs"), &["RawBatch", "RawBatchEntry"]),
    (
        "leaf.rs",
        include_str!("../../src/pool/leaf.rs"),
        &["RawLeaf", "RawLeafEntry", "RawDense", "RawDenseEntry", "RawRunLeaf", "RawLeafRun"],
    ),
    ("tree.rs", include_str!("../../src/pool/tree.rs"), &["RawSubtree", "RawBranch"]),
    ("segment.rs", include_str!("../../src/pool/segment.rs"), &["RawSegment", "RawSegments"]),
    (
        "volume.rs",
        include_str!("../../src/pool/volume.rs"),
        &["RawVolume", "RawVolumes", "RawNode", "RawNodes"],
    ),
];

/// Names of a struct's fields, in their order.
fn declared<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let start = source.find(&format!("struct {name} {{")).unwrap_or_else(|| panic!("no struct {name}"));
    let body = source[start..].lines().skip(1).take_while(|line| *line != "}");
    body.filter_map(|line| Some(line.trim().split_once(": ")?.0)).collect()
}

/// Names, offsets and widths of a table's rows, and the size of the structure.
fn table(name: &str) -> (Vec<(&'static str, usize, usize)>, usize) {
    let at = PAGE.find(&format!("Layout: `{name}`")).unwrap_or_else(|| panic!("no table of {name}"));
    let line = PAGE[..at].rsplit('\n').next().unwrap();
    let size = line.split_whitespace().rev().nth(1).unwrap().parse().unwrap();
    let rows = PAGE[at..].lines().skip(2).skip_while(|line| !line.starts_with("| ")).skip(2);
    let rows = rows.take_while(|line| line.starts_with("| ")).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let offset: usize = cells[0].parse().unwrap();
        assert_eq!(cells[1], format!("{offset:#x}"), "{line}");
        (cells[4].trim_matches('`'), offset, cells[2].parse().unwrap())
    });
    (rows.collect(), size)
}

#[test]
fn tables_have_the_names_of_the_structs_and_leave_no_byte_out() {
    for (file, source, names) in SOURCES {
        for name in names {
            let (rows, size) = table(name);
            let mut fields = declared(source, name);
            // A tail of no bytes has no row.
            if rows.len() + 1 == fields.len() && fields.last() == Some(&"tail") {
                fields.pop();
            }
            assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), fields, "{name} in {file}");
            let mut at = 0;
            for (field, offset, width) in rows {
                assert_eq!(offset, at, "{name}.{field}");
                at += width;
            }
            assert_eq!(at, size, "{name}");
        }
    }
}

fn pointer(n: u64) -> Pointer {
    Pointer { address: Address(n), checksum: n as u32 * 7 }
}

fn label() -> Label {
    let vdev = |kind, parity, unit, members, units| Vdev { kind, parity, unit, members, units };
    let run = |first_segment, units, first_unit, vdev| Run { first_segment, units, first_unit, vdev };
    let roles = [(0, 1), (1, 1), (0, 0), (0, 4), (0, 2), (1, 0), (0, 3)].map(Some);
    let member = |(n, role): (u128, Option<(u16, u16)>)| MemberRecord {
        id: Uuid::from_u128(n),
        size: 1 << 30,
        role,
        units: if role.is_some_and(|(vdev, _)| vdev == 0) { 99 } else { 70 },
        state: match (role, n) {
            (Some(_), 3) => MemberState::Offline,
            (Some(_), _) => MemberState::InUse,
            (None, 7) => MemberState::Spare,
            (None, 9) => MemberState::Successor { vdev: 0, role: 4 },
            (None, _) => MemberState::Gone,
        },
    };
    Label {
        pool: Uuid::from_u128(0x11),
        name: "tank".into(),
        created: 1_800_000_000,
        features: Features { compatible: 1, read_only: 2, incompatible: 4 },
        generation: 0x1234_5678_9abc,
        member: 3,
        vdevs: vec![vdev(VdevKind::Raidz, 2, 20, 5, 99), vdev(VdevKind::Mirror, 1, 16, 2, 70)],
        members: (0..).zip(roles.into_iter().chain([None, None, None])).map(member).collect(),
        // The first vdev has grown beside the second one, and something was between them.
        runs: vec![run(0, 60, 0, 0), run(100, 70, 0, 1), run(170, 39, 60, 0)],
    }
}

fn uberblock() -> Uberblock {
    let root = Root { top: Some(pointer(77)), pages: 300, levels: 2 };
    Uberblock {
        pool: Uuid::from_u128(0x11),
        record: 9,
        opening: 0xfeed,
        checkpoint: 4,
        sequence: 1000,
        time: 1_800_000_007,
        next_volume: 3,
        next_node: 5,
        map: Some(Subtree { level: 2, pages: 90, blocks: 700, ..subtree(7) }),
        dead: root,
        segments: Root { pages: 1, levels: 0, ..root },
        volumes: Root::default(),
        nodes: root,
        history: Root { pages: 32, levels: 1, ..root },
        out: core::array::from_fn(|n| n as u8),
        stopped: true,
        lineage: vec![5, 4, 3],
        rooted: vec![Rooted {
            segment: 6,
            stripe: 5,
            parity: 2,
            unit: 20,
            chunk: 16,
            members: 0x1f,
            missing: 0x4,
        }],
        config: ConfigName { generation: 5, checksum: 0xdead_beef },
        host: Host::new(Uuid::from_u128(0x22), "box"),
        exported: true,
        scrub: ScrubRecord { state: ScrubState::Paused, whole: 7, ..ScrubRecord::default() },
    }
}

fn batch() -> Batch {
    let entry =
        |kind, count| Entry { kind, volume: 1, node: 2, block: 0x1234_5678_9abc, count, checksum: 0xabcd };
    Batch {
        pool: Uuid::from_u128(0x11),
        opening: 0xfeed,
        sequence: 1001,
        durable: 999,
        address: Address::new(7, 40),
        stripes: 3,
        entries: vec![
            entry(EntryKind::Data, 1),
            entry(EntryKind::Zeroes, 77),
            entry(EntryKind::Lost, 1),
            entry(EntryKind::Destroyed, 1),
            entry(EntryKind::Page, 1),
        ],
    }
}

fn leaf() -> Leaf {
    let entry = |n: u64| LeafEntry {
        block: n * 3,
        node: 1,
        kind: if n == 5 { LeafKind::Lost } else { LeafKind::Plain },
        address: if n == 5 { Address::NONE } else { Address(n) },
        checksum: n as u32,
    };
    Leaf((0..169).map(entry).collect())
}

fn dense_leaf() -> Leaf {
    let lost = |n: u64| n == 7;
    let entry = |n: u64| LeafEntry {
        block: 0x1234_5678 + n * 195 - u64::from(n == 336),
        node: 3,
        kind: if lost(n) { LeafKind::Lost } else { LeafKind::Plain },
        address: if lost(n) { Address::NONE } else { Address(n << 39 | 5) },
        checksum: n as u32,
    };
    Leaf((0..337).map(entry).collect())
}

/// Blocks in order at places in order, but for one that is lost, and one that lies elsewhere.
fn leaf_of_runs() -> Leaf {
    let entry = |n: u64| LeafEntry {
        block: 0x1234_5678 + n + n / 500,
        node: 3,
        kind: if n == 77 { LeafKind::Lost } else { LeafKind::Plain },
        address: match n {
            77 => Address::NONE,
            78 => Address::new(9, 1),
            _ => Address::new(7, n as u32),
        },
        checksum: n as u32 * 5,
    };
    Leaf((0..999).map(entry).collect())
}

/// A leaf as a branch names it.
fn subtree(n: u64) -> Subtree {
    Subtree {
        volume: 1,
        first: n,
        level: 0,
        state: SubtreeState::Live,
        blocks: 9,
        pages: 1,
        pointer: pointer(n),
    }
}

/// A full branch, and how it is named itself.
fn branch() -> (Vec<Subtree>, Subtree) {
    let refs: Vec<Subtree> = (0..127).map(subtree).collect();
    let top = Subtree { level: 1, pages: 128, blocks: 127 * 9, ..subtree(0) };
    (refs, top)
}

/// Trees with loops, with pages that stand in them twice, or in which nothing would be found, can't be.
#[test]
fn a_page_that_is_not_what_its_branch_says_is_refused_by_name() {
    let wrong = |change: fn(&mut Vec<Subtree>), level: u8, end: (u32, u64)| {
        let (mut refs, top) = branch();
        change(&mut refs);
        match top.branch(&Branch(refs).encode(level).unwrap(), Some(end)) {
            Err(PoolError::Impossible { what: "branch", field, .. }) => field,
            Err(PoolError::Foreign { .. }) => "number",
            other => panic!("{other:?}"),
        }
    };
    let whole = (1, 127);
    for (change, field) in [
        ((|refs| refs[5].first = 4) as fn(&mut Vec<Subtree>), "first"),
        (|refs| refs.swap(7, 8), "first"),
        (|refs| refs[0].volume = 0, "first"),
        (|refs| refs[3] = Subtree { level: 1, pages: 128, ..refs[3] }, "level"),
        (|refs| refs[3] = Subtree { level: 9, pages: 128, ..refs[3] }, "level"),
        (|refs| refs[9].state = SubtreeState::Dead, "state"),
        (|refs| refs[9].blocks = 8, "blocks"),
        (|refs| refs[9].blocks = 0, "blocks"),
        (|refs| refs[9].pages = 2, "pages"),
        (|refs| refs.truncate(126), "pages"),
        (Vec::clear, "count"),
    ] {
        assert_eq!(wrong(change, 1, whole), field);
    }
    assert_eq!(wrong(|_| {}, 2, whole), "number", "a branch of another level");
    assert_eq!(wrong(|_| {}, 1, (1, 126)), "first", "beyond the range that its own branch gives it");
    let own = Subtree { blocks: 169, volume: 9, ..subtree(0) };
    let bytes = leaf().encode(9, LeafForms::default()).unwrap();
    assert!(own.leaf(&bytes, Some((10, 0))).is_ok());
    for (own, end) in [
        (Subtree { blocks: 168, ..own }, None),
        (Subtree { first: 1, ..own }, None),
        (own, Some((9, 3 * 168))),
        (Subtree { volume: 8, ..own }, None),
    ] {
        assert!(own.leaf(&bytes, end).is_err(), "{own:?}");
    }
    let dead = DeadPages(vec![subtree(1)]).encode(0).unwrap();
    assert!(matches!(DeadPages::parse(&dead, 0), Err(PoolError::Impossible { field: "state", .. })));
    for top in [subtree(1), Subtree { level: 9, pages: 90, ..subtree(1) }] {
        let bytes = Uberblock { map: Some(top), ..uberblock() }.encode().unwrap();
        assert!(matches!(Uberblock::parse(&bytes, Uuid::from_u128(0x11)), Err(PoolError::Impossible { .. })));
    }
}

fn segment(n: u32) -> SegmentRecord {
    SegmentRecord {
        state: [SegmentState::Free, SegmentState::Log, SegmentState::Closed][n as usize % 3],
        class: SegmentClass::Short,
        stripe: 4,
        parity: 2,
        unit: 16,
        chunk: 0,
        turn: 0,
        members: 0x3f,
        missing: u64::from(n % 7),
        copied: 0x2 & u64::from(n % 3),
        live: n,
        stripes: n % 24,
        sequence: u64::from(n) << 33,
        reused: n.is_multiple_of(5),
    }
}

#[test]
fn what_is_written_is_read_again() {
    let pool = Uuid::from_u128(0x11);
    assert_eq!(Label::parse(&label().encode().unwrap()), Ok(label()));
    assert_eq!(Uberblock::parse(&uberblock().encode().unwrap(), pool), Ok(uberblock()));
    assert_eq!(Batch::parse(&batch().encode().unwrap(), pool, batch().address), Ok(batch()));
    for (leaf, kind) in [(leaf(), 7), (dense_leaf(), 7), (leaf_of_runs(), 10)] {
        let bytes = leaf.encode(9, LeafForms::ALL).unwrap();
        assert_eq!((bytes[8], Leaf::parse(&bytes, 9)), (kind, Ok(leaf)));
    }
    assert_eq!(Leaf::parse(&leaf().encode(9, LeafForms::default()).unwrap(), 9), Ok(leaf()));
    let (refs, top) = branch();
    assert_eq!(top.branch(&Branch(refs.clone()).encode(1).unwrap(), Some((1, 127))), Ok(refs));
    let states = [SubtreeState::Dead, SubtreeState::Outlived];
    let dead = |n: u64| Subtree {
        level: n as u8 % 3,
        pages: n as u32 % 3 * 200 + 1,
        state: states[n as usize % 2],
        ..subtree(n)
    };
    let dead = DeadPages((0..127).map(dead).collect());
    assert_eq!(DeadPages::parse(&dead.encode(2).unwrap(), 2), Ok(dead));
    let segments = Segments((0..84).map(segment).collect());
    assert_eq!(Segments::parse(&segments.encode(3).unwrap(), 3), Ok(segments));
    let pointers = Pointers((0..254).map(pointer).collect());
    assert_eq!(Pointers::parse(&pointers.encode(4).unwrap(), 4), Ok(pointers));
    let volume =
        |id| VolumeRecord { id, node: 2, size: 512, created: 7, destroyed: id == 3, name: format!("v{id}") };
    let volumes = Volumes((0..31).map(volume).collect());
    assert_eq!(Volumes::parse(&volumes.encode(0).unwrap(), 0), Ok(volumes));
    let node = |id| Node { id, parent: 1, volume: 2, frozen: id == 4, dead: Root::default(), dead_blocks: 8 };
    let nodes = Nodes((0..63).map(node).collect());
    assert_eq!(Nodes::parse(&nodes.encode(0).unwrap(), 0), Ok(nodes));
}

/// Entries as a writer may have them: runs of any length, at places that may be those behind, elsewhere or none, with gaps.
fn any_leaf() -> impl Strategy<Value = Leaf> {
    let run = (0u64..40, 1u64..60, 0u32..1 << 12, 0u32..1 << 20, any::<bool>());
    (0u64..1 << 40, proptest::collection::vec((run, 0..10u8), 1..60)).prop_map(|(first, runs)| {
        let (mut block, mut entries) = (first, Vec::new());
        for ((gap, blocks, segment, place, goes_on), odd) in runs {
            block += match (goes_on, odd) {
                (true, _) => 0,
                (false, 1) => gap << 12,
                (false, _) => gap,
            };
            for n in 0..blocks {
                let lost = odd == 0;
                let address = Address::new(segment, place.saturating_add(n as u32).min((1 << 20) - 2));
                entries.push(LeafEntry {
                    block,
                    node: 7,
                    kind: if lost { LeafKind::Lost } else { LeafKind::Plain },
                    address: if lost { Address::NONE } else { address },
                    checksum: (block as u32).wrapping_mul(0x9e37_79b9),
                });
                block += 1;
            }
        }
        Leaf(entries)
    })
}

proptest! {
    /// A page takes as many entries as it is said to, of whatever kind it may be, and no more.
    #[test]
    fn leaves_of_any_kind_are_read_as_they_were_written(leaf in any_leaf(), dense: bool, runs: bool) {
        let forms = LeafForms { dense, runs };
        let takes = leaf_takes(&leaf.0, forms);
        let some = Leaf(leaf.0[..takes].to_vec());
        let bytes = some.encode(3, forms).unwrap();
        prop_assert_eq!(bytes.len(), BLOCK);
        prop_assert_eq!(Leaf::parse(&bytes, 3), Ok(some));
        if takes < leaf.0.len() {
            let more = Leaf(leaf.0[..=takes].to_vec());
            let too_many = matches!(more.encode(3, forms), Err(PoolError::TooMany { .. }));
            prop_assert!(too_many);
        }
    }

    #[test]
    fn any_bytes_are_a_leaf_that_is_written_again_or_refused(
        at in 32usize..BLOCK,
        bytes: [u8; 4],
        kind in 0usize..3,
    ) {
        let forms = if kind == 0 { LeafForms::default() } else { LeafForms::ALL };
        let mut page = [leaf(), dense_leaf(), leaf_of_runs()][kind].encode(3, forms).unwrap();
        let end = (at + 4).min(BLOCK);
        page[at..end].copy_from_slice(&bytes[..end - at]);
        if let Ok(leaf) = Leaf::parse(&page, 3) {
            prop_assert!(leaf.0.is_sorted_by_key(|entry| (entry.block, entry.node)));
            if leaf_takes(&leaf.0, LeafForms::ALL) == leaf.0.len() {
                let again = leaf.encode(3, LeafForms::ALL).unwrap();
                prop_assert_eq!(Leaf::parse(&again, 3), Ok(leaf));
            }
        }
    }
}

#[test]
fn a_change_of_any_byte_is_found_out() {
    let pool = Uuid::from_u128(0x11);
    let (label, uberblock, batch) =
        (label().encode().unwrap(), uberblock().encode().unwrap(), batch().encode().unwrap());
    assert_eq!((label.len(), uberblock.len(), batch.len()), (CONFIG_BYTES, BLOCK, BLOCK));
    let address = Address::new(7, 40);
    for at in 0..CONFIG_BYTES {
        let flip = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 1 << (at % 8);
            bytes
        };
        assert!(Label::parse(&flip(&label)).is_err(), "{at}");
        if at < BLOCK {
            assert!(Uberblock::parse(&flip(&uberblock), pool).is_err(), "{at}");
            assert!(Batch::parse(&flip(&batch), pool, address).is_err(), "{at}");
        }
    }
    for len in [0, 1, 100, BLOCK - 1] {
        assert!(matches!(Label::parse(&label[..len]), Err(PoolError::Short { .. })));
        assert!(matches!(Uberblock::parse(&uberblock[..len], pool), Err(PoolError::Short { .. })));
        assert!(matches!(Batch::parse(&batch[..len], pool, address), Err(PoolError::Short { .. })));
        assert!(matches!(Leaf::parse(&batch[..len], 1), Err(PoolError::Short { .. })));
    }
    let elsewhere = PoolError::Foreign { what: "batch" };
    assert_eq!(Batch::parse(&batch, pool, Address(0)), Err(elsewhere.clone()));
    assert_eq!(Batch::parse(&batch, Uuid::nil(), address), Err(elsewhere));
}

/// Version 2 took the place of version 1, which nobody got; and whatever a later one puts into bytes that are kept free is refused by name.
#[test]
fn other_versions_and_values_that_are_kept_free_are_refused_by_name() {
    fn with(mut bytes: Vec<u8>, sum: Option<usize>, at: usize, to: u8) -> Vec<u8> {
        bytes[at] = to;
        if let Some(sum) = sum {
            bytes[sum..sum + 4].fill(0);
            let own = brindle_format::pool::checksum(&bytes);
            bytes[sum..sum + 4].copy_from_slice(&own.to_le_bytes());
        }
        bytes
    }
    let label = |at, to| Label::parse(&with(label().encode().unwrap(), Some(8), at, to)).map(drop);
    let pool = Uuid::from_u128(0x11);
    let uberblock =
        |at, to| Uberblock::parse(&with(uberblock().encode().unwrap(), Some(8), at, to), pool).map(drop);
    let volume =
        VolumeRecord { id: 1, node: 2, size: 512, created: 7, destroyed: false, name: "one".to_owned() };
    let page = Volumes(vec![volume]).encode(0).unwrap();
    let volume = |at: usize, to| Volumes::parse(&with(page.clone(), None, 32 + at, to), 0).map(drop);
    let unknown = |what, field, value| Err(PoolError::Unknown { what, field, value });
    assert_eq!(label(12, 1), Err(PoolError::Older { what: "label", version: 1 }));
    assert_eq!(label(12, 3), Err(PoolError::Version { what: "label", version: 3 }));
    assert_eq!(uberblock(12, 1), Err(PoolError::Older { what: "uberblock", version: 1 }));
    assert_eq!(uberblock(12, 3), Err(PoolError::Version { what: "uberblock", version: 3 }));
    assert_eq!(label(144, 1), unknown("label", "reserved", 1));
    assert_eq!(label(256, 3), unknown("vdev", "kind", 3));
    assert_eq!(label(2304 + 30, 5), unknown("member", "state", 5));
    assert_eq!(label(2304 + 31, 1), unknown("label", "reserved", 1));
    assert_eq!(uberblock(3828, 1), unknown("uberblock", "checksum_kind", 1));
    assert_eq!(uberblock(4032, 5), unknown("scrub", "state", 5));
    assert_eq!(uberblock(4033, 2), unknown("scrub", "action", 2));
    assert!(matches!(uberblock(3924, 33), Err(PoolError::Impossible { field: "history", .. })));
    assert_eq!(volume(25, 14), unknown("volume", "block", 14));
    assert_eq!(volume(26, 1), unknown("volume", "thin", 1));
    assert_eq!(volume(97, 1), unknown("volume", "reservation", 256));
    assert!(matches!(uberblock(3829, 2), Err(PoolError::Impossible { field: "exported", .. })));
    // Numbers that would wrap.
    assert!(matches!(label(143, 0x80), Err(PoolError::Impossible { field: "generation", .. })));
    for (at, name) in [(39, "record"), (55, "checkpoint"), (63, "sequence")] {
        assert!(
            matches!(uberblock(at, 0x80), Err(PoolError::Impossible { field, .. }) if field == name),
            "{name}"
        );
    }
    for (at, name) in [(47, "sequence"), (55, "durable")] {
        let bytes = with(batch().encode().unwrap(), Some(8), at, 0x80);
        let parsed = Batch::parse(&bytes, pool, batch().address);
        assert!(matches!(parsed, Err(PoolError::Impossible { field, .. }) if field == name), "{name}");
    }
}

#[test]
fn numbers_that_no_reader_takes_are_not_written() {
    for change in [
        (|uberblock, number| uberblock.record = number) as fn(&mut Uberblock, u64),
        |uberblock, number| uberblock.checkpoint = number,
        |uberblock, number| uberblock.sequence = number,
    ] {
        let encoded = |number| {
            let mut uberblock = uberblock();
            change(&mut uberblock, number);
            uberblock.encode()
        };
        let last = encoded(MAX_NUMBER).unwrap();
        assert!(Uberblock::parse(&last, Uuid::from_u128(0x11)).is_ok());
        assert!(matches!(encoded(MAX_NUMBER + 1), Err(PoolError::Impossible { .. })));
    }
}

#[test]
fn what_can_not_be_is_refused() {
    let wrong = |change: fn(&mut Label)| {
        let mut label = label();
        change(&mut label);
        label.encode().and_then(|bytes| Label::parse(&bytes))
    };
    for change in [
        (|label| label.member = 10) as fn(&mut Label),
        |label| label.name = "x\ny".into(),
        |label| label.runs[1].first_segment = 59,
        |label| label.runs[1].vdev = 2,
        |label| label.runs[2].first_unit = 59,
        |label| label.runs[2].first_unit = 61,
        |label| label.runs[2].units = 38,
        |label| label.runs[2].units = 0,
        |label| label.runs[2].first_segment = u32::MAX,
        |label| label.runs[2].first_segment = 1 << 20,
        |label| label.generation = 0,
        |label| label.runs.swap(0, 1),
        |label| label.members[0].role = Some((0, 2)),
        |label| label.members[7].state = MemberState::Successor { vdev: 0, role: 4 },
        |label| label.members[7].state = MemberState::Successor { vdev: 1, role: 2 },
        |label| label.members[0].role = Some((1, 2)),
        |label| label.members[0].role = None,
        |label| label.members[1].id = label.members[0].id,
        |label| label.members[1].units = 69,
        |label| label.vdevs[0].parity = 5,
        |label| label.vdevs[0].unit = 30,
        |label| label.vdevs[0].units = 0,
        |label| label.vdevs[0].units = u32::MAX,
        |label| label.vdevs[0].members = 0,
    ] {
        assert!(matches!(wrong(change), Err(PoolError::Impossible { .. })));
    }
    assert!(matches!(wrong(|label| label.runs = vec![label.runs[0]; 113]), Err(PoolError::TooMany { .. })));
    let mut leaf = leaf();
    leaf.0.swap(2, 3);
    assert!(
        leaf.encode(1, LeafForms::default()).is_ok_and(|bytes| Leaf::parse(&bytes, 1).is_err()),
        "out of order"
    );
    assert!(matches!(
        Leaf(vec![leaf.0[0]; 170]).encode(1, LeafForms::default()),
        Err(PoolError::TooMany { .. })
    ));
    assert!(matches!(Leaf(vec![leaf.0[0]; 338]).encode(1, LeafForms::ALL), Err(PoolError::TooMany { .. })));
    let mut dense = dense_leaf();
    dense.0.swap(2, 3);
    assert!(
        dense.encode(1, LeafForms::ALL).is_ok_and(|bytes| Leaf::parse(&bytes, 1).is_err()),
        "out of order"
    );
    let runs = leaf_of_runs().encode(1, LeafForms::ALL).unwrap();
    let wrong = |at: usize, bytes: &[u8]| {
        let mut page = runs.clone();
        page[at..at + bytes.len()].copy_from_slice(bytes);
        match Leaf::parse(&page, 1) {
            Err(PoolError::Impossible { what: "leaf", field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    // The page's body begins at 32, its runs at 48: 77 blocks, the one that is lost, the one elsewhere, 421, and 499 behind a gap.
    for (at, bytes, field) in [
        (10, &[230, 3][..], "count"),
        (10, &[232, 3], "runs"),
        (32, &[0xff; 8], "first"),
        (44, &[0xff, 0xff], "runs"),
        (44, &[100, 0], "runs"),
        (44, &[4, 0], "count"),
        (50, &[0, 0], "blocks"),
        (50, &[78, 0], "block"),
        (50, &[76, 0], "count"),
        (58, &[76, 0], "block"),
        (60, &[2, 0], "block"),
        (88, &[0xff, 0xff], "block"),
        (52, &[0xff, 0xff, 0x7f], "blocks"),
        (52, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff], "blocks"),
    ] {
        assert_eq!(wrong(at, bytes), field, "{bytes:?} at {at}");
    }
    for record in [
        SegmentRecord { stripe: 9, ..segment(1) },
        SegmentRecord { parity: 4, ..segment(1) },
        SegmentRecord { members: 0, ..segment(1) },
        SegmentRecord { unit: 0, ..segment(1) },
        SegmentRecord { stripes: 1 << 20, ..segment(1) },
        // Columns that it does not have, chunks of short stripes, and of no power of two.
        SegmentRecord { missing: 0x40, ..segment(1) },
        SegmentRecord { copied: 0x40, ..segment(1) },
        SegmentRecord { chunk: 4, ..segment(1) },
        SegmentRecord { stripe: 6, chunk: 12, ..segment(1) },
        // Turns that are no slot, and of short stripes.
        SegmentRecord { stripe: 6, turn: 6, ..segment(1) },
        SegmentRecord { turn: 1, ..segment(1) },
    ] {
        assert!(Segments::parse(&Segments(vec![record]).encode(0).unwrap(), 0).is_err(), "{record:?}");
    }
}
