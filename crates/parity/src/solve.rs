//! The combination of parity differences that gives back the lost slots.
//!
//! Let `S_k` be parity k plus the same sum over the slots that are left. Then for lost slots x, y,
//! z: `S_k = c^x D_x + c^y D_y + c^z D_z`, where c is 1, 2 and 4 for P, Q and R. Any one to three
//! of these equations have one solution: c^x differs for all x below 255, since 2 and 4 both
//! generate the field, and for two of three parities a common factor can be taken out.

use crate::gf;

/// Row i has the factors of the three parity differences that add up to lost slot i. Uses the
/// first parities that are there, as many as are lost; the columns of all others are zero.
///
/// # Panics
/// If a slot occurs twice in `lost`, or fewer parities are there than slots are lost.
pub(crate) fn matrix<const LOST: usize>(lost: [usize; LOST], there: [bool; 3]) -> [[u8; 3]; 3] {
    for (i, x) in lost.iter().enumerate() {
        assert!(!lost[..i].contains(x), "slot {x} can be lost only once");
    }
    let mut used = [0; LOST];
    let mut parities = (0..3).filter(|&k| there[k]);
    for used in &mut used {
        let parity = parities.next();
        assert!(parity.is_some(), "{LOST} lost slots need as many parities");
        *used = parity.unwrap_or_default();
    }

    let mut equations = [[0; LOST]; LOST];
    for (row, k) in equations.iter_mut().zip(used) {
        // Parity k has the coefficient (2^k)^x, but P's are all 1 (k = 0).
        *row = lost.map(|x| gf::power(k * x));
    }
    let inverse = invert(equations);
    let mut matrix = [[0; 3]; 3];
    for (row, solution) in matrix.iter_mut().zip(inverse) {
        for (k, factor) in used.into_iter().zip(solution) {
            row[k] = factor;
        }
    }
    matrix
}

/// The inverse of a regular matrix, by Gauss and Jordan.
fn invert<const N: usize>(mut a: [[u8; N]; N]) -> [[u8; N]; N] {
    let mut inverse = [[0; N]; N];
    for (i, row) in inverse.iter_mut().enumerate() {
        row[i] = 1;
    }
    for column in 0..N {
        let pivot = (column..N).find(|&row| a[row][column] != 0).unwrap_or(column);
        a.swap(column, pivot);
        inverse.swap(column, pivot);
        let factor = gf::invert(a[column][column]);
        a[column] = a[column].map(|value| gf::multiply(value, factor));
        inverse[column] = inverse[column].map(|value| gf::multiply(value, factor));
        for row in (0..N).filter(|&row| row != column) {
            let factor = a[row][column];
            for i in 0..N {
                a[row][i] ^= gf::multiply(factor, a[column][i]);
                inverse[row][i] ^= gf::multiply(factor, inverse[column][i]);
            }
        }
    }
    inverse
}
