//! Holds the list of dead pages against itself and the top of the map.

use brindle_format::pool::{PoolError, Subtree};

/// No page is dead twice, nor is the top of the map: its blocks would be taken for dead that are not.
pub(super) fn refuse_twice(dead: &[Subtree], top: Option<Subtree>) -> Result<(), PoolError> {
    let mut places: Vec<u64> = dead.iter().chain(&top).map(|own| own.pointer.address.0).collect();
    places.sort_unstable();
    match places.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(PoolError::Impossible { what: "list of dead pages", field: "address", value: pair[0] })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use brindle_format::pool::place::Address;
    use brindle_format::pool::{Pointer, SubtreeState};

    use super::*;

    #[test]
    fn pages_that_are_dead_twice_or_the_top_are_refused() {
        let own = |n: u64| {
            let (state, level, blocks, pages) = (SubtreeState::Dead, 1, 1, 2);
            let pointer = Pointer { address: Address(n), checksum: 0 };
            Subtree { volume: 1, first: n, level, state, blocks, pages, pointer }
        };
        assert_eq!(refuse_twice(&[own(5), own(3), own(4)], Some(own(6))), Ok(()));
        for (dead, top) in [(vec![own(5), own(3), own(5)], None), (vec![own(3), own(5)], Some(own(5)))] {
            let refused = refuse_twice(&dead, top);
            assert!(matches!(refused, Err(PoolError::Impossible { field: "address", value: 5, .. })));
        }
    }
}
