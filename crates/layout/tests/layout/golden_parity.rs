//! The parity layouts as they are drawn in documentation, chunk by chunk: the oracle that does not come
//! from our code.
//!
//! RAID 5 as in the kernel's and mdadm's descriptions of left/right, symmetric/asymmetric; DDF as in SNIA's
//! DDF 1.2. `P` and `Q` are parity; numbers are the array's chunks. Rows run from the start of the members.

use brindle_layout::{Family, Level};

use crate::draw::{check, draw, geometry};

#[test]
fn raid4() {
    check(Level::Raid4, "none", 5, "0 1 2 3 P\n4 5 6 7 P\n8 9 10 11 P");
    check(Level::Raid4, "parity-last", 5, "0 1 2 3 P\n4 5 6 7 P\n8 9 10 11 P");
}

#[test]
fn raid5_left() {
    let asymmetric = "
         0  1  2  3  P
         4  5  6  P  7
         8  9  P 10 11
        12  P 13 14 15
         P 16 17 18 19
        20 21 22 23  P";
    let symmetric = "
         0  1  2  3  P
         5  6  7  P  4
        10 11  P  8  9
        15  P 12 13 14
         P 16 17 18 19
        20 21 22 23  P";
    check(Level::Raid5, "left-asymmetric", 5, asymmetric);
    check(Level::Raid5, "ddf-N-restart", 5, asymmetric);
    check(Level::Raid5, "left-symmetric", 5, symmetric);
    check(Level::Raid5, "ddf-N-continue", 5, symmetric);
}

#[test]
fn raid5_right() {
    let asymmetric = "
         P  0  1  2  3
         4  P  5  6  7
         8  9  P 10 11
        12 13 14  P 15
        16 17 18 19  P
         P 20 21 22 23";
    let symmetric = "
         P  0  1  2  3
         7  P  4  5  6
        10 11  P  8  9
        13 14 15  P 12
        16 17 18 19  P
         P 20 21 22 23";
    check(Level::Raid5, "right-asymmetric", 5, asymmetric);
    check(Level::Raid5, "ddf-zero-restart", 5, asymmetric);
    check(Level::Raid5, "right-symmetric", 5, symmetric);
}

#[test]
fn raid5_fixed() {
    check(Level::Raid5, "parity-first", 5, "P 0 1 2 3\nP 4 5 6 7");
    check(Level::Raid5, "parity-last", 5, "0 1 2 3 P\n4 5 6 7 P");
}

#[test]
fn raid6_left() {
    let asymmetric = "
         Q  0  1  2  P
         3  4  5  P  Q
         6  7  P  Q  8
         9  P  Q 10 11
         P  Q 12 13 14
         Q 15 16 17  P";
    let symmetric = "
         Q  0  1  2  P
         3  4  5  P  Q
         7  8  P  Q  6
        11  P  Q  9 10
         P  Q 12 13 14
         Q 15 16 17  P";
    check(Level::Raid6, "left-asymmetric", 5, asymmetric);
    check(Level::Raid6, "left-symmetric", 5, symmetric);
}

#[test]
fn raid6_right() {
    let asymmetric = "
         P  Q  0  1  2
         3  P  Q  4  5
         6  7  P  Q  8
         9 10 11  P  Q
         Q 12 13 14  P
         P  Q 15 16 17";
    let symmetric = "
         P  Q  0  1  2
         5  P  Q  3  4
         7  8  P  Q  6
         9 10 11  P  Q
         Q 12 13 14  P
         P  Q 15 16 17";
    check(Level::Raid6, "right-asymmetric", 5, asymmetric);
    check(Level::Raid6, "right-symmetric", 5, symmetric);
}

#[test]
fn raid6_fixed() {
    check(Level::Raid6, "parity-first", 5, "P Q 0 1 2\nP Q 3 4 5");
    check(Level::Raid6, "parity-last", 5, "0 1 2 P Q\n3 4 5 P Q");
}

#[test]
fn raid6_ddf() {
    let zero_restart = "
         P  Q  0  1  2
         3  P  Q  4  5
         6  7  P  Q  8
         9 10 11  P  Q
         Q 12 13 14  P
         P  Q 15 16 17";
    let n_restart = "
         0  1  2  P  Q
         3  4  P  Q  5
         6  P  Q  7  8
         P  Q  9 10 11
         Q 12 13 14  P
        15 16 17  P  Q";
    let n_continue = "
         0  1  2  Q  P
         4  5  Q  P  3
         8  Q  P  6  7
         Q  P  9 10 11
         P 12 13 14  Q
        15 16 17  Q  P";
    check(Level::Raid6, "ddf-zero-restart", 5, zero_restart);
    check(Level::Raid6, "ddf-N-restart", 5, n_restart);
    check(Level::Raid6, "ddf-N-continue", 5, n_continue);
}

/// Each is RAID 5's table of the same name on one member less, with a column of Q behind it.
#[test]
fn raid6_with_q_last() {
    for raid5 in ["left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric", "parity-first"]
    {
        let with_q = draw(&geometry(Level::Raid5, raid5, &[9; 4]), 9)
            .lines()
            .map(|l| format!("{l} Q\n"))
            .collect::<String>();
        check(Level::Raid6, &format!("{raid5}-6"), 5, &with_q);
    }
    let left_symmetric = "
         0  1  2  P  Q
         4  5  P  3  Q
         8  P  6  7  Q
         P  9 10 11  Q
        12 13 14  P  Q";
    check(Level::Raid6, "left-symmetric-6", 5, left_symmetric);
}

/// The exponents of the generator in Q, in the order of data chunks.
fn slots(layout: &str, row: u64) -> (Vec<u16>, u16) {
    let geometry = geometry(Level::Raid6, layout, &[64; 5]);
    let Family::Parity(rows) = geometry.family() else { panic!("RAID 6 is a parity level") };
    let row = rows.row(row);
    ((0..3).map(|i| row.data_slot(i)).collect(), row.slots())
}

/// Q's terms begin behind Q and leave out P; DDF's are the members themselves. Read each line with the
/// tables above.
#[test]
fn order_of_q() {
    // Q 0 1 2 P; 7 8 P Q 6; 11 P Q 9 10: with symmetric data, terms and data agree.
    for row in 0..5 {
        assert_eq!(slots("left-symmetric", row), (vec![0, 1, 2], 3), "row {row}");
        assert_eq!(slots("right-symmetric", row), (vec![0, 1, 2], 3), "row {row}");
    }
    // 6 7 P Q 8: the first term is chunk 8.
    assert_eq!(slots("left-asymmetric", 2), (vec![1, 2, 0], 3));
    // 9 P Q 10 11.
    assert_eq!(slots("left-asymmetric", 3), (vec![2, 0, 1], 3));
    // 3 P Q 4 5.
    assert_eq!(slots("right-asymmetric", 1), (vec![2, 0, 1], 3));
    // 4 5 P 3 Q and 8 P 6 7 Q: terms by member, data round the ring.
    assert_eq!(slots("left-symmetric-6", 1), (vec![2, 0, 1], 3));
    assert_eq!(slots("left-symmetric-6", 2), (vec![1, 2, 0], 3));
    assert_eq!(slots("left-asymmetric-6", 2), (vec![0, 1, 2], 3));
    // 3 P Q 4 5; 3 4 P Q 5; 4 5 Q P 3.
    assert_eq!(slots("ddf-zero-restart", 1), (vec![0, 3, 4], 5));
    assert_eq!(slots("ddf-N-restart", 1), (vec![0, 1, 4], 5));
    assert_eq!(slots("ddf-N-continue", 1), (vec![4, 0, 1], 5));
    assert_eq!(slots("parity-first", 7), (vec![0, 1, 2], 3));
    assert_eq!(slots("parity-last", 7), (vec![0, 1, 2], 3));
}
