//! The bytes of the array that may be moved at a time.

use brindle_layout::ParityRows;

/// Rows of zeroes that a window makes at most, for each row of data that one moves: nothing is read for them.
const ZEROES: u64 = 8;

/// The end of the window that may be moved from `border` on, `most` bytes on at most: a multiple of a new row's data. `shift`: bytes by
/// which data begin earlier on each member.
///
/// As long as there are data to be moved, new rows up to there end where old ones have moved, or before all of them. Then rows of
/// zeroes follow, up to the end of the members.
pub(super) fn end(old: &ParityRows, new: &ParityRows, shift: u64, border: u64, most: u64) -> u64 {
    let row = new.row_data_bytes();
    let most = (most - most % row).max(row);
    let data = end_of_data(old, new);
    if border >= data {
        return (border + most * ZEROES).min(row * new.rows());
    }
    // An old row that has moved in part is needed as a whole: its parity stands for what has not.
    let needed = border / old.row_data_bytes() * old.chunk();
    let free = (needed + shift) / new.chunk() * row;
    free.min(border + most).min(data)
}

/// Where the new rows end that have data of the old ones.
pub(super) fn end_of_data(old: &ParityRows, new: &ParityRows) -> u64 {
    (old.row_data_bytes() * old.rows()).next_multiple_of(new.row_data_bytes())
}

#[cfg(test)]
mod tests {
    use brindle_layout::{Family, Geometry, Layout, Level, ParityLayout};
    use proptest::prelude::*;

    use super::*;

    fn geometry(members: u16, chunk: u64, rows: u64) -> Geometry {
        let sizes = vec![chunk * rows; members.into()];
        Geometry::new(Level::Raid5, Layout::Parity(ParityLayout::LeftSymmetric), chunk, &sizes)
            .expect("an array")
    }

    fn rows(geometry: &Geometry) -> &ParityRows {
        match geometry.family() {
            Family::Parity(rows) => rows,
            _ => unreachable!("RAID 5"),
        }
    }

    proptest! {
        #[test]
        fn windows_reach_the_end_and_no_row_lands_on_bytes_that_are_needed(
            from in 2_u16..8, more in 1_u16..5, count in 1_u64..200, chunks in 1_u64..6, most in 1_u64..40,
        ) {
            let chunk = 4096;
            let (old, new) = (geometry(from, chunk, count), geometry(from + more, chunk, count));
            let (old, new) = (rows(&old), rows(&new));
            let (shift, mut border, data) = (chunks * chunk, 0, end_of_data(old, new));
            let most = most * chunk;
            while border < data {
                let end = end(old, new, shift, border, most);
                prop_assert!(end > border && end.is_multiple_of(new.row_data_bytes()) && end <= data);
                prop_assert!(end - border <= most.max(new.row_data_bytes()));
                // On a member: where the last new row ends, and where the first row begins that is needed, by the old start.
                let written = (end / new.row_data_bytes() * chunk) as i64 - shift as i64;
                let needed = (border / old.row_data_bytes() * chunk) as i64;
                prop_assert!(written <= needed, "{written} {needed}");
                border = end;
            }
            while border < new.row_data_bytes() * new.rows() {
                let end = end(old, new, shift, border, most);
                prop_assert!(end > border && end.is_multiple_of(new.row_data_bytes()));
                border = end;
            }
            prop_assert_eq!(border, new.row_data_bytes() * new.rows());
        }
    }
}
