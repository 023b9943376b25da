//! Every kernel that this CPU can run against the byte-table reference. No dependencies, so that
//! the same file runs under an emulator of another CPU (`scripts/test-neon`).

use brindle_parity::reference::Tables;
use brindle_parity::{Kernel, available};

/// Bytes beside every block that must stay as they are.
const GUARD: u8 = 0xa5;

/// Lengths around the widths of all vectors and unrolled groups, and of a page.
const LENGTHS: &[usize] = &[
    0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 513, 777, 4095, 4096, 4097,
];

/// A small generator (xorshift64*): the tests need spread, not quality.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// A block at a chosen distance from a 64-byte boundary, with guards before and behind it.
#[derive(Clone)]
struct Block {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Block {
    fn new(len: usize, misalignment: usize) -> Self {
        let bytes = vec![GUARD; len + 256];
        let start = bytes.as_ptr().align_offset(64) + misalignment % 64;
        Self { bytes, start, len }
    }

    fn random(len: usize, misalignment: usize, random: &mut Random) -> Self {
        let mut block = Self::new(len, misalignment);
        block.get_mut().fill_with(|| (random.next() >> 32) as u8);
        block
    }

    fn get(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }

    /// The content, after a look at the guards.
    #[track_caller]
    fn checked(&self) -> &[u8] {
        let (before, behind) = (&self.bytes[..self.start], &self.bytes[self.start + self.len..]);
        assert!(before.iter().chain(behind).all(|byte| *byte == GUARD), "wrote outside of the block");
        self.get()
    }
}

/// The data of a row with its parities from the reference.
struct Row {
    blocks: Vec<Block>,
    empty: Vec<bool>,
    len: usize,
    parity: [Vec<u8>; 3],
}

impl Row {
    /// `slots` blocks, each `skew` bytes further from alignment than the one before it. Every slot
    /// whose number is 2 modulo `holes` is empty.
    fn new(tables: &Tables, slots: usize, len: usize, skew: usize, holes: usize) -> Self {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (slots * 8191 + len * 31 + skew) as u64);
        let blocks: Vec<_> = (0..slots).map(|i| Block::random(len, i * skew, &mut random)).collect();
        let empty: Vec<_> = (0..slots).map(|i| holes != 0 && i % holes == 2).collect();
        let mut row = Self { blocks, empty, len, parity: Default::default() };
        row.parity = row.reference(tables);
        row
    }

    fn reference(&self, tables: &Tables) -> [Vec<u8>; 3] {
        let slots = self.slots(&[]);
        [0, 1, 2].map(|step| (0..self.len).map(|at| tables.parity(&slots, step, at)).collect())
    }

    /// The slots, with those that are lost empty.
    fn slots(&self, lost: &[usize]) -> Vec<&[u8]> {
        let slot = |i: usize| -> &[u8] {
            if self.empty[i] || lost.contains(&i) { &[] } else { self.blocks[i].get() }
        };
        (0..self.blocks.len()).map(slot).collect()
    }

    /// The expected result of recovering a slot.
    fn expected(&self, slot: usize) -> Vec<u8> {
        if self.empty[slot] { vec![0; self.len] } else { self.blocks[slot].get().to_vec() }
    }
}

fn out<const N: usize>(len: usize, misalignment: [usize; N]) -> [Block; N] {
    misalignment.map(|misalignment| Block::new(len, misalignment))
}

/// All ways to generate parity give what the reference gives.
#[track_caller]
fn check_generate(kernel: &Kernel, row: &Row, misalignment: [usize; 3]) {
    let slots = row.slots(&[]);
    let [p, q, r] = &row.parity;
    let named = |call: &str| format!("{} {call}: {} slots of {}", kernel.name(), slots.len(), row.len);
    let [mut a] = out(row.len, [misalignment[0]]);
    kernel.xor(&slots, a.get_mut());
    assert!(a.checked() == p, "{}", named("xor"));
    if slots.len() > 255 {
        return;
    }
    let [mut b] = out(row.len, [misalignment[1]]);
    kernel.q(&slots, b.get_mut());
    assert!(b.checked() == q, "{}", named("q"));
    let [mut a, mut b] = out(row.len, [misalignment[0], misalignment[1]]);
    kernel.pq(&slots, a.get_mut(), b.get_mut());
    assert!(a.checked() == p && b.checked() == q, "{}", named("pq"));
    let [mut a, mut b, mut c] = out(row.len, misalignment);
    kernel.pqr(&slots, a.get_mut(), b.get_mut(), c.get_mut());
    assert!(a.checked() == p && b.checked() == q && c.checked() == r, "{}", named("pqr"));
}

/// Verifying accepts the parities of the reference, and neither with a bit of theirs changed at one of `places`.
#[track_caller]
fn check_verify(kernel: &Kernel, row: &Row, misalignment: [usize; 2], places: &[usize]) {
    let slots = row.slots(&[]);
    let named = |call: &str| format!("{} {call}: {} slots of {}", kernel.name(), slots.len(), row.len);
    let [mut p, mut q] = out(row.len, misalignment);
    p.get_mut().copy_from_slice(&row.parity[0]);
    q.get_mut().copy_from_slice(&row.parity[1]);
    let has_q = slots.len() <= 255;
    assert!(kernel.verify_p(&slots, p.get()), "{}", named("verify_p"));
    assert!(!has_q || kernel.verify_q(&slots, q.get()), "{}", named("verify_q"));
    assert!(!has_q || kernel.verify_pq(&slots, p.get(), q.get()), "{}", named("verify_pq"));
    for &at in places.iter().filter(|at| **at < row.len) {
        let bit = 1 << (at % 8);
        p.get_mut()[at] ^= bit;
        assert!(!kernel.verify_p(&slots, p.get()), "{} {at}", named("verify_p"));
        assert!(!has_q || !kernel.verify_pq(&slots, p.get(), q.get()), "{} {at} of P", named("verify_pq"));
        p.get_mut()[at] ^= bit;
        q.get_mut()[at] ^= bit;
        assert!(!has_q || !kernel.verify_q(&slots, q.get()), "{} {at}", named("verify_q"));
        assert!(!has_q || !kernel.verify_pq(&slots, p.get(), q.get()), "{} {at} of Q", named("verify_pq"));
        q.get_mut()[at] ^= bit;
    }
    assert!(p.checked() == row.parity[0] && q.checked() == row.parity[1], "{}", named("verify"));
}

/// Every loss of one or two members of data, P and Q is made good.
#[track_caller]
fn check_recover(kernel: &Kernel, row: &Row) {
    let (len, count) = (row.len, row.blocks.len());
    let [p, q, _] = &row.parity;
    let named = |call: &str| format!("{} {call}: {count} slots of {len}", kernel.name());
    // P and Q both lost, or one of them: generated again, as in `check_generate`.
    for x in 0..count {
        let slots = row.slots(&[x]);
        let expected = row.expected(x);

        // Data and Q.
        let [mut a] = out(len, [x]);
        let mut sources = slots.clone();
        sources.push(p);
        kernel.xor(&sources, a.get_mut());
        assert!(a.checked() == expected, "{}", named("xor of lost data"));
        // Data and P.
        let [mut a] = out(len, [x + 1]);
        kernel.recover_one_from_q(&slots, x, q, a.get_mut());
        assert!(a.checked() == expected, "{}", named("recover_one_from_q"));
        // Data and data.
        for y in x + 1..count {
            let [mut a, mut b] = out(len, [x, y + 3]);
            kernel.recover_two(&row.slots(&[x, y]), x, y, p, q, a.get_mut(), b.get_mut());
            assert!(a.checked() == expected && b.checked() == row.expected(y), "{}", named("recover_two"));
        }
    }
}

/// Read-modify-write of every slot brings parity to what the reference gives for the new data.
#[track_caller]
fn check_update(kernel: &Kernel, tables: &Tables, row: &mut Row, skew: usize) {
    let len = row.len;
    let mut random = Random(7 + len as u64);
    for slot in (0..row.blocks.len()).filter(|i| !row.empty[*i]).collect::<Vec<_>>() {
        let before = row.parity.clone();
        let filled = |i: usize| {
            let mut block = Block::new(len, i * 5 + skew);
            block.get_mut().copy_from_slice(&before[i]);
            block
        };
        let new = Block::random(len, skew, &mut random);
        let old = std::mem::replace(&mut row.blocks[slot], new);
        let new = row.blocks[slot].clone();
        row.parity = row.reference(tables);
        let [p, q, r] = &row.parity;
        let named = |call: &str| format!("{} {call}: slot {slot} of {len}", kernel.name());

        let (mut a, mut b) = (filled(0), filled(1));
        kernel.update_pq(slot, old.get(), new.get(), a.get_mut(), b.get_mut());
        assert!(a.checked() == p && b.checked() == q, "{}", named("update_pq"));
        let (mut a, mut b) = (filled(0), filled(1));
        kernel.update_p(old.get(), new.get(), a.get_mut());
        kernel.update_q(slot, old.get(), new.get(), b.get_mut());
        assert!(a.checked() == p && b.checked() == q, "{}", named("update_p, update_q"));

        let mut delta = old;
        kernel.xor_into(new.get(), delta.get_mut());
        let (mut a, mut b, mut c) = (filled(0), filled(1), filled(2));
        kernel.xor_into(delta.checked(), a.get_mut());
        kernel.mul_into(slot, delta.get(), b.get_mut());
        kernel.mul_into(2 * slot, delta.get(), c.get_mut());
        assert!(a.checked() == p, "{}", named("xor_into"));
        assert!(b.checked() == q && c.checked() == r, "{}", named("mul_into"));
    }
}

#[test]
fn the_reference_agrees_with_the_definition() {
    let tables = Tables::new();
    // By hand: 2^8 = x^8 = x^4 + x^3 + x^2 + 1, and onwards by shifting; 2^255 = 1 closes the cycle.
    let powers = [1, 2, 4, 8, 16, 32, 64, 128, 0x1d, 0x3a, 0x74, 0xe8, 0xcd, 0x87, 0x13, 0x26];
    for (i, power) in powers.into_iter().enumerate() {
        assert_eq!(tables.power(i), power, "2^{i}");
    }
    assert_eq!((tables.power(254), tables.power(255)), (0x8e, 1));
    assert_eq!(tables.multiply(0x8e, 2), 1, "2^254 is the inverse of 2");
    // (x^7 + 1)(x + 1) = x^8 + x^7 + x + 1 = x^7 + x^4 + x^3 + x^2 + x
    assert_eq!(tables.multiply(0x81, 0x03), 0x9e);
    // P, Q and R of three slots: Q = 0x80 + 2 * 0x80 + 4 * 0x80, R = 0x80 + 4 * 0x80 + 16 * 0x80.
    let slots: [&[u8]; 3] = [&[0x80], &[0x80], &[0x80]];
    assert_eq!([0, 1, 2].map(|step| tables.parity(&slots, step, 0)), [0x80, 0xa7, 0x80 ^ 0x3a ^ 0xe8]);
    assert_eq!(tables.parity(&[&[5], &[], &[1]], 1, 0), 5 ^ 4, "an empty slot is zero");
}

#[test]
fn portable_comes_first_and_the_best_last() {
    let names: Vec<_> = available().map(Kernel::name).collect();
    println!("kernels: {}", names.join(", "));
    assert_eq!(names.first(), Some(&"portable"));
    assert_eq!(names.last(), Some(&brindle_parity::kernel().name()));
    if cfg!(target_arch = "aarch64") {
        assert_eq!(names, ["portable", "neon"]);
    }
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = std::arch::is_x86_feature_detected!("avx2");
        assert_eq!(names.contains(&"avx2"), avx2);
        assert_eq!(names.contains(&"avx2-gfni"), avx2 && std::arch::is_x86_feature_detected!("gfni"));
    }
}

#[test]
fn parity_of_every_slot_count() {
    let tables = Tables::new();
    for slots in (0..=32).chain([255, 384]) {
        for holes in [0, 3] {
            let row = Row::new(&tables, slots, 777, 13, holes);
            available().for_each(|kernel| check_generate(kernel, &row, [1, 2, 3]));
        }
    }
}

#[test]
fn parity_of_every_length_and_alignment() {
    let tables = Tables::new();
    for &len in LENGTHS {
        // Few and many sources are taken in groups of different widths.
        for (slots, skew) in [(3, 0), (5, 0), (3, 1), (5, 16), (5, 24), (5, 63)] {
            let row = Row::new(&tables, slots, len, skew, 0);
            for misalignment in [[0; 3], [1; 3], [32; 3], [63; 3], [0, 8, 16], [64, 32, 3]] {
                available().for_each(|kernel| check_generate(kernel, &row, misalignment));
            }
        }
    }
}

#[test]
fn verifying_every_slot_count() {
    let tables = Tables::new();
    for slots in (0..=32).chain([255, 384]) {
        for holes in [0, 3] {
            let row = Row::new(&tables, slots, 777, 13, holes);
            available().for_each(|kernel| check_verify(kernel, &row, [1, 2], &[0, 255, 256, 511, 770, 776]));
        }
    }
}

#[test]
fn verifying_sees_each_byte_of_every_length() {
    let tables = Tables::new();
    for &len in LENGTHS {
        // Few and many sources are taken in groups of different widths.
        for slots in [1, 3, 5] {
            let row = Row::new(&tables, slots, len, 7, 0);
            let places: Vec<_> = (0..len).collect();
            available().for_each(|kernel| check_verify(kernel, &row, [0, 3], &places));
        }
    }
}

#[test]
fn empty_slots_anywhere() {
    let tables = Tables::new();
    for pattern in 0..64 {
        let mut row = Row::new(&tables, 6, 321, 0, 0);
        row.empty.iter_mut().enumerate().for_each(|(i, empty)| *empty = pattern >> i & 1 != 0);
        row.parity = row.reference(&tables);
        for kernel in available() {
            check_generate(kernel, &row, [0; 3]);
            check_verify(kernel, &row, [0; 2], &[0, 320]);
            check_recover(kernel, &row);
        }
    }
}

#[test]
fn recovery_of_every_pair() {
    let tables = Tables::new();
    for slots in 2..=32 {
        let row = Row::new(&tables, slots, 397, 11, 0);
        available().for_each(|kernel| check_recover(kernel, &row));
    }
}

#[test]
fn recovery_of_every_length() {
    let tables = Tables::new();
    for &len in LENGTHS {
        for (slots, skew) in [(4, 0), (4, 7), (6, 0)] {
            let row = Row::new(&tables, slots, len, skew, 0);
            available().for_each(|kernel| check_recover(kernel, &row));
        }
    }
}

#[test]
fn recovery_with_the_most_slots() {
    let tables = Tables::new();
    let row = Row::new(&tables, 255, 65, 0, 0);
    let [p, q, r] = &row.parity;
    for kernel in available() {
        for (x, y, z) in [(0, 1, 2), (0, 254, 127), (253, 252, 254)] {
            let [mut a, mut b, mut c] = out(row.len, [0; 3]);
            kernel.recover_two(&row.slots(&[x, y]), x, y, p, q, a.get_mut(), b.get_mut());
            assert!(a.checked() == row.expected(x) && b.checked() == row.expected(y), "{}", kernel.name());
            let lost = [x, y, z];
            let outs = [a.get_mut(), b.get_mut(), c.get_mut()];
            kernel.recover_three(&row.slots(&lost), lost, p, q, r, outs);
            for (slot, out) in lost.into_iter().zip([a, b, c]) {
                assert!(out.checked() == row.expected(slot), "{}", kernel.name());
            }
        }
    }
}

/// Recovers `lost` from every set of parities that is large enough.
fn check_recover_any<const LOST: usize>(kernel: &Kernel, row: &Row, lost: [usize; LOST]) {
    let slots = row.slots(&lost);
    for there in (0..8u32).filter(|there| there.count_ones() as usize >= LOST) {
        let parity = [0, 1, 2].map(|i| (there >> i & 1 != 0).then_some(&row.parity[i][..]));
        let mut outs = out(row.len, lost);
        kernel.recover(&slots, lost, parity, outs.each_mut().map(Block::get_mut));
        for (slot, out) in lost.into_iter().zip(&outs) {
            assert!(
                out.checked() == row.expected(slot),
                "{} lost {lost:?}, there {there:03b}",
                kernel.name()
            );
        }
    }
}

#[test]
fn recovery_of_every_triple() {
    let tables = Tables::new();
    for slots in 1..=7 {
        let row = Row::new(&tables, slots, 333, 9, 0);
        for kernel in available() {
            for x in 0..slots {
                check_recover_any(kernel, &row, [x]);
                for y in (0..slots).filter(|y| *y != x) {
                    check_recover_any(kernel, &row, [x, y]);
                    for z in (0..slots).filter(|z| *z != x && *z != y) {
                        check_recover_any(kernel, &row, [x, y, z]);
                    }
                }
            }
        }
    }
}

#[test]
fn read_modify_write() {
    let tables = Tables::new();
    for &len in LENGTHS {
        for skew in [0, 3] {
            let mut row = Row::new(&tables, 4, len, skew, 0);
            available().for_each(|kernel| check_update(kernel, &tables, &mut row, skew));
        }
    }
    let mut row = Row::new(&tables, 255, 70, 0, 0);
    row.empty = (0..255).map(|i| ![0, 1, 8, 100, 127, 128, 253, 254].contains(&i)).collect();
    row.parity = row.reference(&tables);
    available().for_each(|kernel| check_update(kernel, &tables, &mut row, 0));
}

#[test]
fn zero_is_found_out() {
    for kernel in available() {
        for len in [0, 1, 255, 256, 257, 4097] {
            let mut bytes = vec![0; len];
            assert!(kernel.is_zero(&bytes));
            for at in 0..len {
                bytes[at] = 0x10;
                assert!(!kernel.is_zero(&bytes), "byte {at} of {len}");
                bytes[at] = 0;
            }
        }
    }
}

/// Calls that must panic rather than touch memory that is not theirs.
mod misuse {
    use brindle_parity::kernel;

    #[test]
    #[should_panic(expected = "source 1 has 3 bytes where 4 or none are needed")]
    fn a_short_source() {
        kernel().xor(&[&[0; 4], &[0; 3]], &mut [0; 4]);
    }

    #[test]
    #[should_panic(expected = "an output has 5 bytes where 4 are needed")]
    fn outputs_of_two_lengths() {
        kernel().pq(&[&[0; 4]], &mut [0; 4], &mut [0; 5]);
    }

    #[test]
    #[should_panic(expected = "a parity has 3 bytes where 4 are needed")]
    fn a_short_parity() {
        kernel().recover_one_from_q(&[&[], &[0; 4]], 0, &[0; 3], &mut [0; 4]);
    }

    #[test]
    #[should_panic(expected = "a parity has 3 bytes where 4 are needed")]
    fn parities_of_two_lengths() {
        kernel().verify_pq(&[&[0; 4]], &[0; 4], &[0; 3]);
    }

    #[test]
    #[should_panic(expected = "256 slots, but 2^i has only 255 distinct values")]
    fn too_many_slots() {
        kernel().pq(&[&[][..]; 256], &mut [0; 4], &mut [0; 4]);
    }

    #[test]
    #[should_panic(expected = "lost slot 0 is not empty")]
    fn a_lost_slot_with_data() {
        kernel().recover_one_from_q(&[&[0; 4]], 0, &[0; 4], &mut [0; 4]);
    }

    #[test]
    #[should_panic(expected = "slot 2 was lost of 2 slots")]
    fn a_lost_slot_that_is_none() {
        kernel().recover_one_from_q(&[&[][..]; 2], 2, &[0; 4], &mut [0; 4]);
    }

    #[test]
    #[should_panic(expected = "slot 1 can be lost only once")]
    fn a_slot_lost_twice() {
        kernel().recover_two(&[&[][..]; 2], 1, 1, &[0; 4], &[0; 4], &mut [0; 4], &mut [0; 4]);
    }

    #[test]
    #[should_panic(expected = "2 lost slots need as many parities")]
    fn too_few_parities() {
        kernel().recover(&[&[][..]; 2], [0, 1], [Some(&[0; 4]), None, None], [&mut [0; 4], &mut [0; 4]]);
    }
}
