//! The arithmetic of one stripe: parity of its data blocks, and the blocks that are missing from those that are there.

use brindle_format::pool::place::Shape;
use brindle_format::pool::{BLOCK, checksum};
use brindle_parity::kernel;

/// Sets the parity blocks of a stripe, one to three, from its data blocks; an empty one stands for zeroes. One data block gives
/// copies of itself.
pub(crate) fn parity_of(data: &[&[u8]], parity: &mut [&mut [u8]]) {
    match parity {
        [] => {}
        [p] => kernel().xor(data, p),
        [p, q] => kernel().pq(data, p, q),
        [p, q, r, ..] => kernel().pqr(data, p, q, r),
    }
}

/// Whether these are the parity blocks of data blocks.
pub(crate) fn is_parity_of(data: &[&[u8]], parity: &[&[u8]]) -> bool {
    match (data, parity) {
        (_, []) => true,
        ([only], copies) => copies.iter().all(|copy| copy == only),
        (_, [p]) => kernel().verify_p(data, p),
        (_, [p, q]) => kernel().verify_pq(data, p, q),
        _ => parity.iter().eq(&new_parity(data, parity.len())),
    }
}

/// New parity blocks for these data blocks.
pub(crate) fn new_parity(data: &[&[u8]], count: usize) -> Vec<Vec<u8>> {
    let mut parity = vec![vec![0; BLOCK]; count];
    parity_of(data, &mut parity.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
    parity
}

/// Fills in the blocks of a stripe that are missing; `data` of them hold data, the rest P, Q and R. False if too many are.
pub(crate) fn solve(blocks: &mut [Option<Vec<u8>>], data: usize) -> bool {
    let lost: Vec<usize> = (0..data).filter(|&slot| blocks[slot].is_none()).collect();
    let there = blocks[data..].iter().flatten().count();
    if lost.len() > there {
        return false;
    }
    if !lost.is_empty() {
        let given: Vec<Option<&[u8]>> = blocks.iter().map(Option::as_deref).collect();
        let found = recovered(&given, data, &lost);
        for (&slot, block) in lost.iter().zip(found) {
            blocks[slot] = Some(block);
        }
    }
    let count = blocks.len() - data;
    if there < count {
        let parity = {
            let slots: Vec<&[u8]> = blocks[..data].iter().flatten().map(Vec::as_slice).collect();
            new_parity(&slots, count)
        };
        for (place, block) in blocks[data..].iter_mut().zip(parity) {
            place.get_or_insert(block);
        }
    }
    true
}

/// The data blocks of a stripe that are `lost`, no more than parity blocks are there: none of these if they are.
pub(crate) fn recovered(blocks: &[Option<&[u8]>], data: usize, lost: &[usize]) -> Vec<Vec<u8>> {
    let slots: Vec<&[u8]> = blocks[..data].iter().map(|block| block.unwrap_or(&[])).collect();
    let parity = [0, 1, 2].map(|n| blocks.get(data + n).copied().flatten());
    let (mut a, mut b, mut c) = (vec![0; BLOCK], vec![0; BLOCK], vec![0; BLOCK]);
    match *lost {
        [x] => {
            kernel().recover(&slots, [x], parity, [&mut a]);
            vec![a]
        }
        [x, y] => {
            kernel().recover(&slots, [x, y], parity, [&mut a, &mut b]);
            vec![a, b]
        }
        [x, y, z] => {
            kernel().recover(&slots, [x, y, z], parity, [&mut a, &mut b, &mut c]);
            vec![a, b, c]
        }
        _ => Vec::new(),
    }
}

/// A stripe whose data blocks sum to this, with the parity of these; nothing if the blocks that are there don't give it.
pub(crate) fn settle(blocks: &[Option<Vec<u8>>], shape: Shape, expected: &[u32]) -> Option<Vec<Vec<u8>>> {
    let data = usize::from(shape.data());
    let sound =
        |n: usize, block: &Option<Vec<u8>>| block.as_ref().is_some_and(|b| checksum(b) == expected[n]);
    let mut given = blocks.to_vec();
    for (n, block) in given[..data].iter_mut().enumerate() {
        if !sound(n, block) {
            *block = None;
        }
    }
    let bad = given[..data].iter().filter(|block| block.is_none()).count();
    if bad > 0 {
        let there: Vec<usize> = (data..given.len()).filter(|&n| given[n].is_some()).collect();
        let spare = there.len().checked_sub(bad)?;
        given = suspects(&there, None, spare).into_iter().find_map(|set| {
            let mut tried = given.clone();
            set.iter().for_each(|&n| tried[n] = None);
            let solved = solve(&mut tried, data) && (0..data).all(|n| sound(n, &tried[n]));
            solved.then_some(tried)
        })?;
    }
    let mut all: Vec<Vec<u8>> = given.into_iter().take(data).flatten().collect();
    let parity = {
        let slots: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        new_parity(&slots, usize::from(shape.parity))
    };
    all.extend(parity);
    (all.len() == blocks.len()).then_some(all)
}

/// All sets of at most `most` of the slots that `may` be wrong, small ones first; each contains `always`.
pub(crate) fn suspects(may: &[usize], always: Option<usize>, most: usize) -> Vec<Vec<usize>> {
    let mut sets = vec![always.into_iter().collect::<Vec<_>>()];
    let mut last = sets.clone();
    while last.first().is_some_and(|set| set.len() < most) {
        let mut next = Vec::new();
        for set in &last {
            let beyond = set.iter().filter(|&&slot| Some(slot) != always).max().copied();
            let more = may.iter().filter(|&&slot| Some(slot) != always && beyond.is_none_or(|b| slot > b));
            next.extend(more.map(|&slot| [set.as_slice(), &[slot]].concat()));
        }
        if next.is_empty() {
            break;
        }
        sets.extend(next.iter().cloned());
        last = next;
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_blocks_up_to_the_parity_are_found_again() {
        for (data, parity) in [(1, 1), (1, 3), (2, 1), (2, 2), (4, 3), (10, 2)] {
            let blocks: Vec<Vec<u8>> =
                (0..data).map(|n| (0..BLOCK).map(|at| ((at * (n + 3)) >> 2) as u8).collect()).collect();
            let slots: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
            let all = [blocks.clone(), new_parity(&slots, parity)].concat();
            let places: Vec<usize> = (0..data + parity).collect();
            for set in suspects(&places, None, parity) {
                let mut given: Vec<Option<Vec<u8>>> = all.iter().cloned().map(Some).collect();
                set.iter().for_each(|&slot| given[slot] = None);
                assert!(solve(&mut given, data));
                assert!(given.iter().flatten().eq(&all), "{data}+{parity} without {set:?}");
            }
            let mut given: Vec<Option<Vec<u8>>> = all.iter().cloned().map(Some).collect();
            given[..=parity.min(data - 1)].fill(None);
            given[data..].fill(None);
            assert!(!solve(&mut given, data));
        }
    }

    #[test]
    fn suspects_are_all_sets_once() {
        assert_eq!(suspects(&[1, 2, 3], Some(0), 2), [vec![0], vec![0, 1], vec![0, 2], vec![0, 3]].to_vec());
        assert_eq!(suspects(&[0, 1, 2, 3], None, 2).len(), 1 + 4 + 6);
        assert_eq!(suspects(&[0, 1, 2], None, 0), [Vec::<usize>::new()].to_vec());
    }
}
