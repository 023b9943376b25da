//! Address to extent to address is a bijection, exhaustively for all small arrays.

use std::collections::{BTreeSet, HashMap};

use brindle_layout::{Extent, Family, Geometry, Layout, Level, Place, Raid0Layout, Raid10Layout};

use crate::shapes;

/// The copies of a byte, each with the bytes that follow it.
pub(crate) fn extents(geometry: &Geometry, offset: u64) -> Vec<Extent> {
    match geometry.family() {
        Family::Striped(striped) => vec![striped.locate(offset)],
        Family::Mirrored(mirrored) => (0..mirrored.copies()).map(|c| mirrored.locate(offset, c)).collect(),
        Family::Parity(rows) => {
            let position = rows.position(offset);
            vec![Extent {
                member: rows.row(position.row).data_member(position.data_index),
                offset: rows.row_offset(position.row) + position.column,
                len: rows.chunk() - position.column,
            }]
        }
    }
}

/// A byte's copies, and the ends of the extents that begin there, lead back to it.
pub(crate) fn check_byte(geometry: &Geometry, offset: u64) {
    for (copy, extent) in extents(geometry, offset).into_iter().enumerate() {
        assert!(extent.len > 0 && offset + extent.len <= geometry.size());
        for step in [0, extent.len / 2, extent.len - 1] {
            let expected = Place::Data { array_offset: offset + step, copy: copy as u16 };
            assert_eq!(geometry.place(extent.member, extent.offset + step), expected);
        }
    }
}

/// All of it, for one array whose chunks are `unit` bytes or multiples of that; `sizes` are those of its
/// members.
fn check(geometry: &Geometry, unit: u64, sizes: &[u64]) {
    let label = format!("{} {} on {sizes:?}", geometry.level(), geometry.layout());
    let mut seen = HashMap::new();
    for offset in (0..geometry.size()).step_by(unit as usize) {
        check_byte(geometry, offset);
        check_byte(geometry, (offset + unit - 1).min(geometry.size() - 1));
        let copies = extents(geometry, offset);
        let members: BTreeSet<u16> = copies.iter().map(|e| e.member).collect();
        assert_eq!(members.len(), copies.len(), "{label}: copies of {offset} share a member");
        for extent in copies {
            assert!(extent.offset < sizes[usize::from(extent.member)], "{label}: behind the end");
            let other = seen.insert((extent.member, extent.offset), offset);
            assert_eq!(other, None, "{label}: {offset} shares a place");
        }
    }
    let mut data = 0;
    for (member, size) in sizes.iter().enumerate() {
        for offset in (0..size + 2 * unit).step_by(unit as usize) {
            if let Place::Data { array_offset, copy } = geometry.place(member as u16, offset) {
                let extent = extents(geometry, array_offset)[usize::from(copy)];
                assert_eq!((usize::from(extent.member), extent.offset), (member, offset), "{label}");
                data += 1;
            }
        }
    }
    assert_eq!(data, seen.len(), "{label}: a member holds data that the array does not");
    check_parity(geometry, &label);
}

/// Every member has exactly one role in each row, and its own term in Q if it has data.
fn check_parity(geometry: &Geometry, label: &str) {
    let Family::Parity(rows) = geometry.family() else { return };
    assert_eq!(rows.data_members() + rows.parity_members(), geometry.members());
    for number in 0..rows.rows() {
        let row = rows.row(number);
        let mut roles: BTreeSet<u16> = [row.p()].into_iter().chain(row.q()).collect();
        assert_eq!(roles.len(), usize::from(rows.parity_members()), "{label}: P and Q share a member");
        let mut slots = BTreeSet::new();
        for index in 0..rows.data_members() {
            assert!(
                roles.insert(row.data_member(index)),
                "{label}: data shares a member with parity or data"
            );
            assert!(row.data_slot(index) < row.slots() && slots.insert(row.data_slot(index)), "{label}");
        }
        assert!(roles.into_iter().eq(0..geometry.members()), "{label}");
        for member in 0..geometry.members() {
            let expected = if member == row.p() {
                Place::P { row: number }
            } else if Some(member) == row.q() {
                Place::Q { row: number }
            } else {
                continue;
            };
            for column in [0, rows.chunk() - 1] {
                assert_eq!(geometry.place(member, rows.row_offset(number) + column), expected, "{label}");
            }
        }
    }
}

#[test]
fn every_layout_on_up_to_12_equal_members() {
    for chunk in [4096, 65536] {
        let count = shapes::for_each(12, 3, chunk, |geometry| {
            let member = geometry.member_size() + if geometry.level() == Level::Raid1 { 0 } else { 512 };
            check(geometry, chunk, &vec![member; geometry.members().into()]);
        });
        assert!(count > 500, "only {count} geometries");
    }
}

/// Chunks that are no power of two, of all layouts that may have them.
#[test]
fn odd_chunks() {
    for chunk in [3, 5, 7, 12, 1021].map(|n| n * 4096) {
        for members in 1..=12 {
            let sizes = vec![9 * chunk + 4096; members];
            for (level, layout) in [(Level::Linear, Layout::None), (Level::Raid0, Layout::None)] {
                check(&Geometry::new(level, layout, chunk, &sizes).unwrap(), chunk, &sizes);
            }
        }
    }
}

/// Linear and both layouts of RAID 0 over all mixtures of three sizes on up to 6 members.
#[test]
fn unequal_members() {
    for members in 1..=6_u32 {
        for mixture in 0..3_usize.pow(members) {
            let choice = |member| [2, 3, 7][mixture / 3_usize.pow(member) % 3];
            for chunk in [4096, 12288] {
                let sizes: Vec<u64> = (0..members).map(|m| choice(m) * chunk + 512).collect();
                let layouts = [Raid0Layout::Original, Raid0Layout::Alternate];
                for layout in layouts {
                    check(
                        &Geometry::new(Level::Raid0, Layout::Raid0(layout), chunk, &sizes).unwrap(),
                        chunk,
                        &sizes,
                    );
                }
                check(&Geometry::new(Level::Linear, Layout::None, chunk, &sizes).unwrap(), chunk, &sizes);
                check(&Geometry::new(Level::Linear, Layout::None, 0, &sizes).unwrap(), 512, &sizes);
            }
        }
    }
}

/// The places of a chunk's copies by md's rule, computed without any of our tables. The near copies of all chunks
/// come one after the other over the members, row by row. Each far copy is `near` members further on, round its set
/// of members.
fn by_the_rule(layout: Raid10Layout, members: u64, rows: u64, chunk: u64) -> Vec<(u64, u64)> {
    let (near, far) = (u64::from(layout.near), u64::from(layout.far));
    let (first_row, first_member) = (chunk * near / members, chunk * near % members);
    let mut cells = Vec::new();
    for n in 0..near {
        let wraps = first_member + n >= members;
        let mut member = (first_member + n) % members;
        let row = if layout.offset { first_row * far } else { first_row } + u64::from(wraps);
        for f in 0..far {
            cells.push((member, row + f * if layout.offset { 1 } else { rows }));
            let set = match layout.md_number() >> 17 {
                0 => members,
                1 => members / far,
                _ => near * far,
            };
            let last = (members / set - 1) * set;
            let left_over = members % set;
            member = if left_over > 0 && member + near > last {
                last + (member + near - last) % (members - last)
            } else {
                member - member % set + (member % set + near) % set
            };
        }
    }
    cells
}

/// We refuse exactly those layouts of RAID 10 in which the rule makes cells collide, and place by the rule
/// elsewhere.
#[test]
fn raid10_follows_the_rule() {
    let (mut accepted, mut refused) = (0, 0);
    for (level, layout) in shapes::layouts(4).into_iter().filter(|(level, _)| *level == Level::Raid10) {
        let Layout::Raid10(raid10) = layout else { panic!("RAID 10 has its own layouts") };
        for members in raid10.copies().max(2)..=12 {
            let rows = 2 * u64::from(members) + 1;
            let member_size = rows * u64::from(raid10.far) * 4096;
            let chunks = rows * u64::from(members) / u64::from(raid10.near);
            let cells = |chunk| by_the_rule(raid10, members.into(), rows, chunk);
            let all: Vec<(u64, u64)> = (0..chunks).flat_map(cells).collect();
            let distinct = all.iter().collect::<BTreeSet<_>>().len() == all.len();
            let apart = (0..chunks).all(|chunk| {
                let on: BTreeSet<u64> = cells(chunk).into_iter().map(|(member, _)| member).collect();
                on.len() == usize::from(raid10.copies())
            });
            match Geometry::new(level, layout, 4096, &vec![member_size; members.into()]) {
                Ok(geometry) => {
                    assert!(distinct && apart, "{layout} on {members} should be refused");
                    assert_eq!(geometry.size(), chunks * 4096);
                    for chunk in 0..chunks {
                        let ours = extents(&geometry, chunk * 4096).into_iter();
                        assert!(
                            ours.map(|e| (e.member.into(), e.offset / 4096)).eq(cells(chunk)),
                            "{layout}"
                        );
                    }
                    accepted += 1;
                }
                Err(error) => {
                    assert!(raid10.copies() < 2 || !(distinct && apart), "{layout} on {members}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(accepted > 300 && refused > 50, "{accepted} accepted, {refused} refused");
}
