//! Stripes as the second reader sees them: where blocks lie, and how those that are missing come out of the others.

use std::collections::BTreeMap;

const BLOCK: usize = 4096;
/// The first bytes of a block, by which most choices of members are seen to be wrong.
const HEAD: usize = 64;

/// The part of a segment's record that says where its blocks lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) stripe: u8,
    pub(super) parity: u8,
    pub(super) chunk: u8,
    pub(super) turn: u8,
    pub(super) members: u64,
    pub(super) missing: u64,
}

/// Reads a block of a member: its number in the pool, and the byte of its units.
type Block<'a> = &'a dyn Fn(usize, u64) -> Option<Vec<u8>>;

/// A run of segments.
pub(super) struct Run {
    /// Its first segment, how many there are, and the unit of the first.
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) unit: u32,
    /// The logarithm of a unit's bytes.
    pub(super) log: u8,
    /// The members of its vdev by role: their numbers in the pool.
    pub(super) members: Vec<usize>,
}

/// All segments.
pub(super) struct Rows {
    runs: Vec<Run>,
    segments: BTreeMap<u32, Segment>,
}

fn times(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b > 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a = (a << 1) ^ if a & 0x80 > 0 { 0x1d } else { 0 };
        b >>= 1;
    }
    product
}

fn inverse(a: u8) -> u8 {
    (1..=255).find(|&b| times(a, b) == 1).unwrap_or(0)
}

/// The factor of data slot `n` in parity block `which`.
fn factor(which: usize, n: usize) -> u8 {
    (0..n * which).fold(1, |power, _| times(power, 2))
}

/// Adds `by` times a block to another.
fn add(to: &mut [u8], from: &[u8], by: u8) {
    let mut table = [0; 256];
    (0..=255).for_each(|byte: u8| table[usize::from(byte)] = times(byte, by));
    to.iter_mut().zip(from).for_each(|(to, &from)| *to ^= table[usize::from(from)]);
}

impl Rows {
    pub(super) fn new(runs: Vec<Run>) -> Self {
        Self { runs, segments: BTreeMap::new() }
    }

    pub(super) fn put(&mut self, n: u32, segment: Segment) {
        self.segments.insert(n, segment);
    }

    fn run(&self, segment: u32) -> Option<&Run> {
        self.runs.iter().find(|run| (run.first..run.first + run.count).contains(&segment))
    }

    pub(super) fn stripes(&self, n: u32) -> u32 {
        let (Some(segment), Some(run)) = (self.segments.get(&n), self.run(n)) else { return 0 };
        (segment.members.count_ones() << (run.log - 12)) / u32::from(segment.stripe)
    }

    /// The address of the `n`th data block from a stripe on.
    pub(super) fn data_address(&self, segment: u32, stripe: u32, n: u32) -> u64 {
        let Some(shape) = self.segments.get(&segment) else { return 0 };
        let (data, chunk) = (u32::from(shape.stripe - shape.parity), u32::from(shape.chunk).max(1));
        let (stripe, slot) = (stripe + n / data, n % data);
        let place = stripe / chunk * (chunk * data) + slot * chunk + stripe % chunk;
        u64::from(segment) << 20 | u64::from(place)
    }

    /// The stripe and the slot of an address.
    fn place(&self, address: u64) -> Option<(u32, u32)> {
        let (shape, place) = (self.segments.get(&((address >> 20) as u32))?, (address & 0xf_ffff) as u32);
        let (data, chunk) = (u32::from(shape.stripe - shape.parity), u32::from(shape.chunk).max(1));
        let (before, within) = (place / (data * chunk), place % (data * chunk));
        Some((before * chunk + within % chunk, within / chunk))
    }

    /// The bytes of a slot of a stripe.
    fn raw(&self, n: u32, stripe: u32, slot: u32, block: Block<'_>) -> Option<Vec<u8>> {
        let (segment, run) = (self.segments.get(&n)?, self.run(n)?);
        let (w, k) = (segment.members.count_ones(), u32::from(segment.stripe));
        // The least number of stripes that is a whole number of rows.
        let cycle = (1..=w).find(|c| c * k % w == 0).unwrap_or(w);
        let before = stripe / u32::from(segment.chunk).max(1);
        let spot = stripe * k + (slot + before % cycle + before / cycle + u32::from(segment.turn)) % k;
        let bit = (0..64).filter(|bit| segment.members >> bit & 1 == 1).nth((spot % w) as usize)?;
        if segment.missing >> bit & 1 == 1 {
            return None;
        }
        let unit = u64::from(run.unit + n - run.first) << run.log;
        block(*run.members.get(bit)?, unit + u64::from(spot / w) * BLOCK as u64)
    }

    /// A stripe by slots.
    fn stripe(&self, n: u32, stripe: u32, block: Block<'_>) -> Vec<Option<Vec<u8>>> {
        let wide = self.segments.get(&n).map_or(0, |segment| u32::from(segment.stripe));
        (0..wide).map(|slot| self.raw(n, stripe, slot, block)).collect()
    }

    /// The block at an address, as its member gives it.
    fn own(&self, address: u64, block: Block<'_>) -> Option<Vec<u8>> {
        let (stripe, slot) = self.place(address)?;
        self.raw((address >> 20) as u32, stripe, slot, block)
    }

    /// The block at an address, if need be out of the others of its stripe; the first that is right.
    pub(super) fn find(
        &self,
        address: u64,
        block: Block<'_>,
        right: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        let own = self.own(address, block).filter(|bytes| right(bytes));
        own.or_else(|| self.solved_to(address, block, right, &[], &[]))
    }

    /// The block at an address as its member gives it, and as the others of its stripe do, which begin with some bytes: a member that
    /// lost a write gives what was there before.
    pub(super) fn find_all(
        &self,
        address: u64,
        block: Block<'_>,
        right: &dyn Fn(&[u8]) -> bool,
        begin: &[u8],
    ) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> =
            self.own(address, block).filter(|bytes| right(bytes)).into_iter().collect();
        while let Some(next) = self.solved_to(address, block, right, begin, &all) {
            all.push(next);
        }
        all
    }

    /// The block at an address that is right, out of the others of its stripe, and none of some whose first bytes differ.
    fn solved_to(
        &self,
        address: u64,
        block: Block<'_>,
        right: &dyn Fn(&[u8]) -> bool,
        begin: &[u8],
        others: &[Vec<u8>],
    ) -> Option<Vec<u8>> {
        let n = (address >> 20) as u32;
        let (stripe, wanted) = self.place(address)?;
        let wanted = wanted as usize;
        let blocks = self.stripe(n, stripe, block);
        let is_blank = |block: &Vec<u8>| block.iter().all(|byte| *byte == 0);
        if !begin.is_empty() && blocks.iter().flatten().all(is_blank) {
            return None;
        }
        let cut: Vec<Option<Vec<u8>>> =
            blocks.iter().map(|b| b.as_ref().map(|b| b[..HEAD].to_vec())).collect();
        self.choices(n, &blocks, Some(wanted)).into_iter().find_map(|without| {
            let of = |blocks| self.slot_of(n, self.solved(n, blocks, &without)?, wanted);
            // Most choices are seen to be wrong by a few bytes.
            let head = of(&cut)?;
            if !head.starts_with(begin) || others.iter().any(|other| other.starts_with(&head)) {
                return None;
            }
            of(&blocks).filter(|bytes| right(bytes))
        })
    }

    /// Sets of slots that may be taken for missing, those that are among them, small sets first.
    fn choices(&self, n: u32, blocks: &[Option<Vec<u8>>], wanted: Option<usize>) -> Vec<Vec<usize>> {
        let parity = self.segments.get(&n).map_or(0, |segment| u32::from(segment.parity));
        let must = (0..blocks.len()).filter(|&slot| blocks[slot].is_none() || wanted == Some(slot));
        let must = must.fold(0u64, |set, slot| set | 1 << slot);
        let mut sets: Vec<u64> =
            (0..1u64 << blocks.len()).filter(|s| s & must == must && s.count_ones() <= parity).collect();
        sets.sort_by_key(|set| set.count_ones());
        let slots = |set: u64| (0..blocks.len()).filter(|slot| set >> slot & 1 == 1).collect();
        sets.into_iter().map(slots).collect()
    }

    /// All data blocks of a stripe, with some taken for missing.
    fn solved(&self, n: u32, blocks: &[Option<Vec<u8>>], without: &[usize]) -> Option<Vec<Vec<u8>>> {
        let segment = self.segments.get(&n)?;
        let data = usize::from(segment.stripe - segment.parity);
        let lost: Vec<usize> = without.iter().copied().filter(|&slot| slot < data).collect();
        let usable = (data..blocks.len()).filter(|slot| !without.contains(slot));
        // One equation for each parity block: what the lost ones must add up to.
        let mut equations: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for slot in usable.take(lost.len()) {
            let mut right = blocks[slot].clone()?;
            for known in (0..data).filter(|slot| !lost.contains(slot)) {
                add(&mut right, blocks[known].as_ref()?, factor(slot - data, known));
            }
            equations.push((lost.iter().map(|&l| factor(slot - data, l)).collect(), right));
        }
        if equations.len() < lost.len() {
            return None;
        }
        for at in 0..lost.len() {
            let pivot = (at..lost.len()).find(|&row| equations[row].0[at] != 0)?;
            equations.swap(at, pivot);
            let (factors, right) = equations[at].clone();
            let by = inverse(factors[at]);
            let factors: Vec<u8> = factors.iter().map(|&f| times(f, by)).collect();
            let mut scaled = vec![0; right.len()];
            add(&mut scaled, &right, by);
            equations[at] = (factors.clone(), scaled.clone());
            for row in (0..lost.len()).filter(|&row| row != at) {
                let by = equations[row].0[at];
                for (to, &from) in equations[row].0.iter_mut().zip(&factors) {
                    *to ^= times(from, by);
                }
                add(&mut equations[row].1, &scaled, by);
            }
        }
        let mut all: Vec<Vec<u8>> = Vec::new();
        for (slot, block) in blocks[..data].iter().enumerate() {
            match lost.iter().position(|&l| l == slot) {
                Some(row) => all.push(equations[row].1.clone()),
                None => all.push(block.clone()?),
            }
        }
        Some(all)
    }

    /// The block in a slot of a stripe whose data blocks these are.
    fn slot_of(&self, n: u32, mut data: Vec<Vec<u8>>, slot: usize) -> Option<Vec<u8>> {
        let segment = self.segments.get(&n)?;
        let Some(which) = slot.checked_sub(usize::from(segment.stripe - segment.parity)) else {
            return Some(data.swap_remove(slot));
        };
        let mut parity = vec![0; data.first().map_or(0, Vec::len)];
        (0..).zip(&data).for_each(|(n, block)| add(&mut parity, block, factor(which, n)));
        Some(parity)
    }

    /// Whether data blocks from a stripe on sum to these, and zeroes behind them, after as many as there is parity were rebuilt.
    pub(super) fn is_whole(&self, n: u32, stripe: u32, stripes: u32, sums: &[u32], block: Block<'_>) -> bool {
        let Some(segment) = self.segments.get(&n) else { return false };
        let data = usize::from(segment.stripe - segment.parity);
        let zero = brindle_format::pool::checksum(&[0; BLOCK]);
        if sums.len() > data * stripes as usize {
            return false;
        }
        (0..stripes as usize).all(|s| {
            let expected: Vec<u32> =
                (0..data).map(|slot| sums.get(s * data + slot).copied().unwrap_or(zero)).collect();
            let right = |slot: usize, bytes: &[u8]| brindle_format::pool::checksum(bytes) == expected[slot];
            let mut blocks = self.stripe(n, stripe + s as u32, block);
            for (slot, found) in blocks[..data].iter_mut().enumerate() {
                *found = found.take().filter(|bytes| right(slot, bytes));
            }
            if blocks[..data].iter().all(Option::is_some) {
                return true;
            }
            self.choices(n, &blocks, None).iter().any(|without| {
                let solved = self.solved(n, &blocks, without);
                solved.is_some_and(|all| (0..data).all(|slot| right(slot, &all[slot])))
            })
        })
    }
}
