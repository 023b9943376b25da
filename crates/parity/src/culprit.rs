//! Finds the one wrong block of a row from P and Q. H. P. Anvin, "The mathematics of RAID-6", section 4.
//!
//! If data block z has become `D_z + e`, P recomputed differs by `e` from the P that is stored, and Q by `g^z e`. So the
//! quotient of the two differences is `g^z` in each byte that has changed, and both are zero in all others.

use crate::gf;

/// The one block of a row that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// P itself.
    P,
    /// Q itself.
    Q,
    /// The data of this slot: `P + P computed` is what has to be added to it.
    Slot(usize),
}

/// The one block that is wrong, given P and Q as they are stored, and as they are computed of the data that is
/// stored: `None` if nothing is, or if no block alone explains every byte. No other slot than the returned one
/// explains them, since each byte that has changed names the slot; but where two blocks or more are wrong, they may
/// look like a third one.
///
/// # Panics
/// If the lengths differ.
pub fn culprit(p: &[u8], q: &[u8], computed_p: &[u8], computed_q: &[u8]) -> Option<Culprit> {
    let lengths = [q.len(), computed_p.len(), computed_q.len()];
    assert!(lengths.iter().all(|&len| len == p.len()), "{} bytes of P, and {lengths:?}", p.len());
    let of_p = p.iter().zip(computed_p).map(|(a, b)| a ^ b);
    let mut differences = of_p.zip(q.iter().zip(computed_q).map(|(a, b)| a ^ b));
    let (p, q) = differences.clone().find(|&difference| difference != (0, 0))?;
    match (p, q) {
        (_, 0) => differences.all(|(_, q)| q == 0).then_some(Culprit::P),
        (0, _) => differences.all(|(p, _)| p == 0).then_some(Culprit::Q),
        _ => {
            let factor = gf::multiply(q, gf::invert(p));
            let slot = (0..gf::ORDER).find(|&slot| gf::power(slot) == factor)?;
            differences.all(|(p, q)| gf::multiply(p, factor) == q).then_some(Culprit::Slot(slot))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const LEN: usize = 512;

    /// A row of so many slots, and its P and Q.
    fn row(slots: usize, seed: usize) -> (Vec<Vec<u8>>, Vec<u8>, Vec<u8>) {
        let byte = |slot: usize, at: usize| ((slot * 131 + at * 17 + seed * 29) ^ (at >> 3)) as u8;
        let data: Vec<Vec<u8>> = (0..slots).map(|slot| (0..LEN).map(|at| byte(slot, at)).collect()).collect();
        let (p, q) = parity(&data);
        (data, p, q)
    }

    fn parity(data: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
        let slots: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let (mut p, mut q) = (std::vec![0; LEN], std::vec![0; LEN]);
        crate::kernel().pq(&slots, &mut p, &mut q);
        (p, q)
    }

    #[test]
    fn each_block_is_told_whatever_has_become_of_it() {
        for slots in [2, 3, 10, 255] {
            let (data, p, q) = row(slots, slots);
            assert_eq!(culprit(&p, &q, &p, &q), None);
            for (first, len, change) in [(0, 1, 1), (511, 1, 255), (100, 40, 7), (0, LEN, 90)] {
                let spoil = |block: &mut Vec<u8>| {
                    block[first..first + len]
                        .iter_mut()
                        .zip((0..=255_u8).cycle())
                        .for_each(|(byte, n)| *byte ^= change ^ (n & 2));
                };
                for slot in [0, slots / 2, slots - 1] {
                    let mut data = data.clone();
                    spoil(&mut data[slot]);
                    let (now_p, now_q) = parity(&data);
                    assert_eq!(
                        culprit(&p, &q, &now_p, &now_q),
                        Some(Culprit::Slot(slot)),
                        "{slot} of {slots}"
                    );
                    // The block is mended by the difference in P.
                    data[slot].iter_mut().zip(p.iter().zip(&now_p)).for_each(|(byte, (a, b))| *byte ^= a ^ b);
                    assert_eq!(parity(&data), (p.clone(), q.clone()));
                }
                let (mut wrong_p, mut wrong_q) = (p.clone(), q.clone());
                spoil(&mut wrong_p);
                spoil(&mut wrong_q);
                assert_eq!(culprit(&wrong_p, &q, &p, &q), Some(Culprit::P));
                assert_eq!(culprit(&p, &wrong_q, &p, &q), Some(Culprit::Q));
            }
        }
    }

    #[test]
    fn what_no_one_block_explains_is_told_of_none() {
        let (data, p, q) = row(6, 1);
        let with = |changes: &[(usize, usize)]| {
            let mut data = data.clone();
            changes.iter().for_each(|&(slot, at)| data[slot][at] ^= 5);
            let (now_p, now_q) = parity(&data);
            culprit(&p, &q, &now_p, &now_q)
        };
        assert_eq!(with(&[(1, 10), (1, 300)]), Some(Culprit::Slot(1)));
        assert_eq!(with(&[(1, 10), (2, 11)]), None);
        // By the same change in the same place, two slots look like Q.
        assert_eq!(with(&[(1, 10), (2, 10)]), Some(Culprit::Q));
        assert_eq!(with(&[(1, 10), (2, 10), (3, 11)]), None);
        // P in one place and Q in another; a slot, and P elsewhere.
        let (mut wrong_p, mut wrong_q) = (p.clone(), q.clone());
        wrong_p[3] ^= 1;
        wrong_q[4] ^= 1;
        assert_eq!(culprit(&wrong_p, &wrong_q, &p, &q), None);
        let mut spoilt = data.clone();
        spoilt[0][9] ^= 1;
        let (now_p, now_q) = parity(&spoilt);
        assert_eq!(culprit(&wrong_p, &q, &now_p, &now_q), None);
    }
}
