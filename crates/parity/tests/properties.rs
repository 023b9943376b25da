//! Properties of parity on random rows, for every kernel that this CPU can run.

use std::collections::BTreeSet;

use brindle_parity::available;
use brindle_parity::reference::Tables;
use proptest::collection::vec;
use proptest::prelude::*;

/// A row: the length of its blocks, where in memory they start, and which slots are empty.
#[derive(Clone, Debug)]
struct Shape {
    len: usize,
    /// One slot each: distance of the block from its allocation's start, and whether it is empty.
    slots: Vec<(usize, bool)>,
    seed: u64,
}

fn shape(slots: std::ops::Range<usize>) -> impl Strategy<Value = Shape> {
    let lengths = prop_oneof![0..700usize, 4000..4200usize, (1..32usize).prop_map(|pages| pages * 512)];
    let slot = (0..70usize, prop::bool::weighted(0.1));
    (lengths, vec(slot, slots), any::<u64>()).prop_map(|(len, slots, seed)| Shape { len, slots, seed })
}

/// Bytes of a random walk: cheap, and without a pattern that parity could hide.
fn fill(bytes: &mut [u8], seed: &mut u64) {
    for byte in bytes {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (*seed >> 56) as u8;
    }
}

impl Shape {
    /// The memory of all slots; empty ones have none.
    fn data(&self) -> Vec<Vec<u8>> {
        let mut seed = self.seed;
        let block = |&(skew, empty): &(usize, bool)| {
            let mut bytes = vec![0; if empty { 0 } else { skew + self.len }];
            fill(&mut bytes, &mut seed);
            bytes
        };
        self.slots.iter().map(block).collect()
    }

    /// The slots in that memory, without those that are lost.
    fn slots<'a>(&self, data: &'a [Vec<u8>], lost: &[usize]) -> Vec<&'a [u8]> {
        let start =
            |i: usize| if self.slots[i].1 || lost.contains(&i) { data[i].len() } else { self.slots[i].0 };
        data.iter().enumerate().map(|(i, bytes)| &bytes[start(i)..]).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn parity_is_that_of_the_reference(shape in shape(0..24), skew in 0..70usize) {
        let tables = Tables::new();
        let data = shape.data();
        let slots = shape.slots(&data, &[]);
        let expected: [Vec<u8>; 3] =
            [0, 1, 2].map(|step| (0..shape.len).map(|at| tables.parity(&slots, step, at)).collect());
        for kernel in available() {
            let mut out: [Vec<u8>; 3] = std::array::from_fn(|_| vec![0xa5; skew + shape.len]);
            let [p, q, r] = out.each_mut().map(|block| &mut block[skew..]);
            kernel.pqr(&slots, p, q, r);
            prop_assert_eq!([&p, &q, &r], [&expected[0], &expected[1], &expected[2]], "{}", kernel.name());
        }
    }

    /// Verifying tells what the reference tells, of parities with any bytes changed and of data that changed since.
    #[test]
    fn verifying_is_comparing_with_the_reference(
        shape in shape(1..24),
        spoils in vec((0..3usize, any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let tables = Tables::new();
        let mut data = shape.data();
        let parity = |data: &[Vec<u8>], step: usize| -> Vec<u8> {
            let slots = shape.slots(data, &[]);
            (0..shape.len).map(|at| tables.parity(&slots, step, at)).collect()
        };
        let mut stored = [parity(&data, 0), parity(&data, 1)];
        for (which, pick, change) in &spoils {
            let block = match *which {
                2 => &mut data[pick.index(shape.slots.len())],
                which => &mut stored[which],
            };
            if !block.is_empty() {
                let at = pick.index(block.len());
                block[at] ^= change;
            }
        }
        let [p, q] = [parity(&data, 0) == stored[0], parity(&data, 1) == stored[1]];
        let slots = shape.slots(&data, &[]);
        for kernel in available() {
            prop_assert_eq!(kernel.verify_p(&slots, &stored[0]), p, "{}", kernel.name());
            prop_assert_eq!(kernel.verify_q(&slots, &stored[1]), q, "{}", kernel.name());
            prop_assert_eq!(kernel.verify_pq(&slots, &stored[0], &stored[1]), p && q, "{}", kernel.name());
        }
    }

    #[test]
    fn what_is_lost_comes_back(
        shape in shape(3..40),
        picks in prop::array::uniform3(any::<prop::sample::Index>()),
    ) {
        let data = shape.data();
        let whole = shape.slots(&data, &[]);
        let zeroes = vec![0; shape.len];
        let expected = |slot: usize| if whole[slot].is_empty() { &zeroes[..] } else { whole[slot] };
        let lost: BTreeSet<_> = picks.iter().map(|pick| pick.index(whole.len())).collect();
        for kernel in available() {
            let [mut p, mut q, mut r] = std::array::from_fn(|_| vec![0; shape.len]);
            kernel.pqr(&whole, &mut p, &mut q, &mut r);
            let [mut a, mut b, mut c] = std::array::from_fn(|_| vec![0xa5; shape.len]);
            match *lost.iter().copied().collect::<Vec<_>>() {
                [x] => {
                    kernel.recover_one_from_q(&shape.slots(&data, &[x]), x, &q, &mut a);
                    prop_assert_eq!(&a, expected(x), "{}", kernel.name());
                }
                [x, y] => {
                    kernel.recover_two(&shape.slots(&data, &[x, y]), x, y, &p, &q, &mut a, &mut b);
                    prop_assert_eq!((&a[..], &b[..]), (expected(x), expected(y)), "{}", kernel.name());
                }
                [x, y, z] => {
                    let slots = shape.slots(&data, &[x, y, z]);
                    kernel.recover_three(&slots, [x, y, z], &p, &q, &r, [&mut a, &mut b, &mut c]);
                    prop_assert_eq!(
                        [&a[..], &b[..], &c[..]],
                        [expected(x), expected(y), expected(z)],
                        "{}",
                        kernel.name()
                    );
                }
                _ => unreachable!("one to three distinct picks"),
            }
        }
    }

    /// Any number of read-modify-writes leaves the parity that a full-stripe write would have made.
    #[test]
    fn updates_add_up(
        shape in shape(2..12),
        writes in vec((any::<prop::sample::Index>(), any::<u64>()), 1..8),
    ) {
        for kernel in available() {
            let mut data = shape.data();
            let [mut p, mut q] = std::array::from_fn(|_| vec![0; shape.len]);
            kernel.pq(&shape.slots(&data, &[]), &mut p, &mut q);
            for (pick, seed) in &writes {
                let slot = pick.index(data.len());
                if shape.slots[slot].1 {
                    continue;
                }
                let mut new = data[slot].clone();
                fill(&mut new, &mut seed.clone());
                let skew = shape.slots[slot].0;
                kernel.update_pq(slot, &data[slot][skew..], &new[skew..], &mut p, &mut q);
                data[slot] = new;
            }
            let [mut full_p, mut full_q] = std::array::from_fn(|_| vec![0; shape.len]);
            kernel.pq(&shape.slots(&data, &[]), &mut full_p, &mut full_q);
            prop_assert_eq!((p, q), (full_p, full_q), "{}", kernel.name());
        }
    }
}
