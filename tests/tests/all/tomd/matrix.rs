//! Which arrays Brindle makes for md: every level and layout; metadata, chunk and sector size vary from one to the next.

use brindle_tests::files::MIB;
use brindle_tests::golden::{PARITY_LAYOUTS, RAID6_LAYOUTS};

const METADATA: [&str; 4] = ["0.90", "1.0", "1.1", "1.2"];
const CHUNKS: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 128 << 10, 512 << 10];

/// An array to be made, in the words of `brindle create`.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) level: &'static str,
    pub(super) layout: Option<&'static str>,
    pub(super) metadata: &'static str,
    /// Bytes; none for levels without chunks.
    pub(super) chunk: Option<u64>,
    /// Size of each member in bytes.
    pub(super) members: Vec<u64>,
    /// Logical sector size of the members, bytes.
    pub(super) sector: u32,
}

impl Shape {
    pub(super) fn name(&self) -> String {
        let layout = self.layout.map(|layout| format!(" {layout}")).unwrap_or_default();
        let chunk = self.chunk.map(|chunk| format!(" chunk {}K", chunk >> 10)).unwrap_or_default();
        let (level, count) = (self.level, self.members.len());
        format!("level {level}{layout} of {count}{chunk}, {}, sectors of {}", self.metadata, self.sector)
    }

    /// Members that may be lost wherever they stand.
    pub(super) fn tolerance(&self) -> usize {
        match (self.level, self.layout) {
            ("1", _) => self.members.len() - 1,
            ("10", Some(layout)) if layout.ends_with('3') => 2,
            ("6", _) => 2,
            ("4" | "5" | "10", _) => 1,
            _ => 0,
        }
    }
}

/// Layouts and numbers of members of one level (for RAID 10: of one kind of layout), and how many arrays to make.
struct Family {
    level: &'static str,
    shapes: Vec<(Option<&'static str>, usize)>,
    arrays: usize,
}

fn families() -> Vec<Family> {
    let family = |level, shapes: &[(Option<&'static str>, usize)], arrays| Family {
        level,
        shapes: shapes.to_vec(),
        arrays,
    };
    let all = |layouts: &[&'static str], members| -> Vec<(Option<&'static str>, usize)> {
        layouts.iter().map(|&layout| (Some(layout), members)).collect()
    };
    let copies =
        |two, three| [(Some(two), 4), (Some(three), 5), (Some(two), 5), (Some(three), 4), (Some(two), 3)];
    vec![
        family("linear", &[(None, 3)], 4),
        family("0", &[(None, 3), (None, 2)], 5),
        family("0", &[(Some("original"), 3), (Some("alternate"), 3)], 5),
        family("1", &[(None, 2), (None, 3)], 4),
        family("4", &[(None, 4), (None, 3)], 5),
        family("5", &all(&PARITY_LAYOUTS, 4), 6),
        family("6", &[all(&PARITY_LAYOUTS, 5), all(&RAID6_LAYOUTS, 5)].concat(), 14),
        family("10", &copies("n2", "n3"), 5),
        family("10", &copies("f2", "f3"), 5),
        family("10", &copies("o2", "o3"), 5),
    ]
}

/// All arrays. Any two of family, metadata, chunk and sector meet in some array with each of their values, as far as
/// they can.
pub(super) fn all() -> Vec<Shape> {
    let mut all = Vec::new();
    for (shift, family) in families().iter().enumerate() {
        for number in 0..family.arrays {
            let (layout, count) = family.shapes[number % family.shapes.len()];
            let mut metadata = METADATA[(number + shift) % METADATA.len()];
            let uneven = matches!(layout, Some("original" | "alternate"));
            if uneven && metadata == "0.90" {
                // It has no place for the layout of a RAID 0.
                metadata = "1.2";
            }
            let chunk = CHUNKS[(number + 2 * shift) % CHUNKS.len()];
            let least = if chunk > 128 << 10 { 6 * MIB } else { 4 * MIB };
            let members = if uneven || family.level == "linear" {
                (0..count as u64).map(|role| least + [0, 3, 1][role as usize % 3] * MIB).collect()
            } else {
                vec![least; count]
            };
            all.push(Shape {
                level: family.level,
                layout,
                metadata,
                chunk: (!["1", "linear"].contains(&family.level)).then_some(chunk),
                members,
                sector: if (number / 2 + shift) % 2 == 0 { 512 } else { 4096 },
            });
        }
    }
    all
}

#[test]
fn every_two_values_meet() {
    let all = all();
    let has = |what: &dyn Fn(&Shape) -> bool| all.iter().any(what);
    let kind = |shape: &Shape| (shape.level, shape.layout.filter(|_| shape.level == "10").map(|l| &l[..1]));
    for family in ["linear", "0", "1", "4", "5", "6"].map(|level| (level, None)).into_iter().chain([
        ("10", Some("n")),
        ("10", Some("f")),
        ("10", Some("o")),
    ]) {
        for metadata in METADATA {
            assert!(has(&|s| kind(s) == family && s.metadata == metadata), "{family:?} {metadata}");
        }
        for sector in [512, 4096] {
            assert!(has(&|s| kind(s) == family && s.sector == sector), "{family:?} {sector}");
        }
        for chunk in CHUNKS.iter().filter(|_| !["1", "linear"].contains(&family.0)) {
            assert!(has(&|s| kind(s) == family && s.chunk == Some(*chunk)), "{family:?} {chunk}");
        }
    }
    for sector in [512, 4096] {
        for metadata in METADATA {
            assert!(has(&|s| (s.metadata, s.sector) == (metadata, sector)), "{metadata} {sector}");
        }
        for chunk in CHUNKS {
            assert!(has(&|s| (s.chunk, s.sector) == (Some(chunk), sector)), "{chunk} {sector}");
        }
    }
    for metadata in METADATA {
        for chunk in CHUNKS {
            assert!(has(&|s| (s.chunk, s.metadata) == (Some(chunk), metadata)), "{chunk} {metadata}");
        }
    }
}
