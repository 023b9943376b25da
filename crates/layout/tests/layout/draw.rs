//! Draws arrays as documentation does, to compare with tables written by hand.

use brindle_layout::{Family, Geometry, Layout, Level, Place};

pub(crate) const CHUNK: u64 = 4096;

/// The geometry of an array whose members have these numbers of chunks.
pub(crate) fn geometry(level: Level, layout: &str, chunks: &[u64]) -> Geometry {
    let layout = Layout::parse(level, layout).unwrap();
    let sizes: Vec<u64> = chunks.iter().map(|n| n * CHUNK).collect();
    Geometry::new(level, layout, CHUNK, &sizes).unwrap()
}

/// The first rows of an array, a column a member: numbers of chunks, `P`, `Q`, `-` for unused.
pub(crate) fn draw(geometry: &Geometry, rows: u64) -> String {
    let mut lines = Vec::new();
    for row in 0..rows {
        let cells = (0..geometry.members()).map(|member| match geometry.place(member, row * CHUNK) {
            Place::Data { array_offset, .. } => (array_offset / CHUNK).to_string(),
            Place::P { .. } => "P".into(),
            Place::Q { .. } => "Q".into(),
            Place::Unused => "-".into(),
        });
        lines.push(cells.collect::<Vec<_>>().join(" "));
    }
    lines.join("\n")
}

/// A table without its indentation.
pub(crate) fn table(text: &str) -> String {
    let lines = text.trim().lines();
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("\n")
}

/// Compares an array whose members are as long as the table with it, read from members and from the array.
#[track_caller]
pub(crate) fn check(level: Level, layout: &str, members: usize, expected: &str) {
    let expected = table(expected);
    let rows = expected.lines().count() as u64;
    let geometry = geometry(level, layout, &vec![rows; members]);
    assert_eq!(draw(&geometry, rows), expected, "{level} {layout}");
    check_forward(&geometry, &expected);
}

/// Every number in the table is where the array's own look-up finds it.
#[track_caller]
pub(crate) fn check_forward(geometry: &Geometry, table: &str) {
    for chunk in 0..geometry.size() / CHUNK {
        for (member, row) in cells(geometry, chunk * CHUNK) {
            let cell = table.lines().nth(row as usize).and_then(|l| l.split(' ').nth(member.into()));
            assert_eq!(cell, Some(chunk.to_string().as_str()), "member {member} row {row}");
        }
    }
}

/// The cells that hold a byte of the array.
fn cells(geometry: &Geometry, offset: u64) -> Vec<(u16, u64)> {
    match geometry.family() {
        Family::Striped(striped) => {
            let extent = striped.locate(offset);
            vec![(extent.member, extent.offset / CHUNK)]
        }
        Family::Mirrored(mirrored) => {
            let extents = (0..mirrored.copies()).map(|copy| mirrored.locate(offset, copy));
            extents.map(|e| (e.member, e.offset / CHUNK)).collect()
        }
        Family::Parity(rows) => {
            let position = rows.position(offset);
            vec![(rows.row(position.row).data_member(position.data_index), position.row)]
        }
    }
}
