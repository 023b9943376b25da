//! Tests of a map of 16 million leaves, whose pages are computed when they are asked for.

use brindle_format::pool::place::Address;
use brindle_format::pool::{Branch, Leaf, LeafEntry, LeafForms, LeafKind, Pointer, Subtree, SubtreeState};

use super::tests::{merge_with, write};
use super::{ENDLESS, Found, GiveStep, LAST, Map, Page, Tree};
use crate::store::leaf::Located;
use crate::store::owed::Coming;

/// Pages that a branch names, and blocks of a leaf: as many as fit wherever they lie, and as many as fit in order.
const WIDE: u64 = 127;
const BLOCKS: u64 = 337;
const IN_ORDER: u64 = 1009;
/// The level of the top, and how many pages it names.
const TOP: u8 = 4;
const TOPS: u64 = 8;
/// Leaves in all.
const LEAVES: u64 = TOPS * WIDE * WIDE * WIDE;

fn leaves_below(level: u8) -> u64 {
    if level == TOP { LEAVES } else { WIDE.pow(level.into()) }
}

/// The page of a level with this number.
fn page(level: u8, n: u64) -> Subtree {
    page_of(level, n, BLOCKS)
}

/// The same of leaves of so many blocks.
fn page_of(level: u8, n: u64, each: u64) -> Subtree {
    let leaves = leaves_below(level);
    let branches: u64 = (1..=level).map(|below| leaves / leaves_below(below)).sum();
    Subtree {
        volume: 1,
        first: n * leaves * each,
        level,
        state: SubtreeState::Live,
        blocks: leaves * each,
        pages: (leaves + branches) as u32,
        pointer: Pointer { address: Address(u64::from(level) << 40 | n), checksum: 0 },
    }
}

/// The bytes of a page.
fn bytes(page_at: Page, each: u64) -> Vec<u8> {
    let n = page_at.pointer.address.0 & ((1 << 40) - 1);
    if page_at.level == 0 {
        let entry = |block| LeafEntry {
            block,
            node: 1,
            kind: LeafKind::Plain,
            address: Address(block),
            checksum: block as u32,
        };
        return Leaf((n * each..(n + 1) * each).map(entry).collect())
            .encode(1, LeafForms::ALL)
            .expect("it fits");
    }
    let count = if page_at.level == TOP { TOPS } else { WIDE };
    let below = (n * count..(n + 1) * count).map(|n| page_of(page_at.level - 1, n, each));
    Branch(below.collect()).encode(page_at.level).expect("it fits")
}

/// The map, its memory, and how many pages of it were read.
struct Large {
    map: Map,
    memory: usize,
    read: usize,
    /// Blocks of a leaf.
    each: u64,
}

/// Reads a page, for which others go.
fn read(map: &mut Map, memory: usize, page: Page, each: u64) {
    let most = map.for_pages(memory).saturating_sub(page.bytes());
    let _enough = map.tree.shrink(most, 64, Some(page.at));
    map.loaded(page, &bytes(page, each)).expect("it is that page");
}

impl Large {
    fn new() -> Self {
        Self::of(BLOCKS)
    }

    fn of(each: u64) -> Self {
        let mut map = Map::found(LeafForms::ALL, Vec::new());
        map.tree = Tree::found(page_of(TOP, 0, each));
        Self { map, memory: usize::MAX, read: 0, each }
    }

    fn find(&mut self, block: u64) -> Located {
        loop {
            match self.map.find((1, block)) {
                Found::Here(located) => return located,
                Found::Unread(page) => self.load(page),
            }
        }
    }

    fn load(&mut self, page: Page) {
        self.read += 1;
        read(&mut self.map, self.memory, page, self.each);
    }

    /// Reads all branches but those of the lowest level.
    fn know_branches(&mut self) {
        for n in 0..LEAVES / (WIDE * WIDE) {
            while let Found::Unread(page) = self.map.find((1, n * WIDE * WIDE * BLOCKS))
                && page.level > 1
            {
                self.load(page);
            }
        }
    }

    /// Changes go into leaves, and all that changed is written; gives how many pages that were.
    fn checkpoint(&mut self) -> usize {
        let Self { map, memory, read: count, each } = self;
        merge_with(map, &mut |map, page| {
            *count += 1;
            read(map, *memory, page, *each);
        });
        let written = write(map);
        let _paid = map.pay_debt();
        written
    }
}

#[test]
fn an_opening_reads_nothing_and_a_look_up_one_page_of_each_level() {
    let mut large = Large::new();
    assert_eq!(large.map.tree.totals(), (u64::from(page(TOP, 0).pages), LEAVES * BLOCKS));
    for (block, read) in [(5, 5), (6, 5), (LEAVES * BLOCKS - 1, 9), (LEAVES * BLOCKS / 2, 13)] {
        assert_eq!(large.find(block), Located::At(Address(block), block as u32));
        assert_eq!(large.read, read, "block {block}");
    }
    assert_eq!(large.find(LEAVES * BLOCKS), Located::Zeroes);
}

/// Leaves that are full of blocks in order are parted by the first change.
#[test]
fn a_checkpoint_writes_pages_that_changed_and_those_above_them() {
    for (each, parts) in [(BLOCKS, 1), (IN_ORDER, 2)] {
        let mut large = Large::of(each);
        for changes in [1, 10, 100] {
            let owed_before = large.map.debt(Coming::default()).pages;
            let (mut state, read): (u64, _) = (changes, large.read);
            for n in 0..changes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let block = (state >> 20) % (LEAVES * each);
                let _before = large.map.set((1, block), Located::At(Address(n << 9), 0));
            }
            let owed = large.map.debt(Coming::default()).pages;
            let written = large.checkpoint();
            // A branch is full, too, and parted with a leaf.
            let most = changes as usize * (usize::from(TOP) + 1) * parts;
            assert!(written <= most.min(owed), "{changes} changes: {written} pages written, {owed} owed");
            assert!(owed - owed_before <= 2 * most, "{changes} changes: {owed} owed, {owed_before} before");
            assert!(large.read - read <= 2 * most, "{changes} changes: {} pages read", large.read - read);
        }
    }
}

#[test]
fn blocks_in_order_cost_the_leaves_that_they_are_in() {
    let mut large = Large::new();
    let begin = LEAVES * BLOCKS / 3;
    for block in begin..begin + 100 * BLOCKS {
        let _before = large.map.set((1, block), Located::At(Address(block), 1));
        if let Some(page) = large.map.take_many() {
            large.load(page);
        }
    }
    let owed = large.map.debt(Coming::default()).pages;
    let written = large.checkpoint();
    assert!(written <= 101 + 2 * usize::from(TOP) && written <= owed && owed < 450, "{written}, {owed} owed");
}

/// A volume that is destroyed, or nearly all of it discarded, names subtrees.
#[test]
fn what_is_given_back_is_named_by_few_pages_and_needs_few_to_be_read() {
    for (from, to) in [(0, ENDLESS), (0, LEAVES * BLOCKS - 1), (BLOCKS * 5 + 3, LEAVES * BLOCKS / 2 + 7)] {
        let mut large = Large::new();
        // Some of it is in memory.
        for n in 0..200 {
            let _found = large.find(n * LEAVES * BLOCKS / 200);
        }
        large.read = 0;
        let _changes = large.map.clear(1, from, to);
        let hidden = large.map.hidden();
        let most = to.min(LEAVES * BLOCKS) - from;
        assert!(hidden.abs_diff(most) <= most / 100, "{hidden} of {most}");
        let owed = large.map.debt(Coming::default()).pages;
        let written = large.checkpoint();
        assert!(written <= owed, "{written}, {owed} owed");
        assert!(written <= 2 * (usize::from(TOP) + 1), "{written} written");
        assert!(large.read <= if to == ENDLESS { 0 } else { 40 }, "{} read", large.read);
        let dead: u64 = large.map.dead.iter().map(|dead| dead.0.blocks).sum();
        assert!(large.map.dead.len() <= 2 * 127 * usize::from(TOP) && most - dead < 3 * BLOCKS, "{dead}");
        let (_, blocks) = large.map.tree.totals();
        assert_eq!(blocks, LEAVES * BLOCKS - most);
        assert_eq!(large.find(from.max(1) + 1), Located::Zeroes);
    }
}

#[test]
fn memory_is_bounded_and_the_highest_pages_stay() {
    const MOST: usize = 8 << 20;
    let mut large = Large::new();
    for n in 0..20_000u64 {
        let block = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (LEAVES * BLOCKS);
        let _found = large.find(block);
        let _enough = large.map.tree.shrink(MOST, 4, None);
    }
    assert!(large.map.tree.shrink(MOST, 1000, None), "{} bytes", large.map.tree.cached);
    let read = large.read;
    for n in 20_000..21_000u64 {
        let _found = large.find(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (LEAVES * BLOCKS));
        let _enough = large.map.tree.shrink(MOST, 4, None);
    }
    assert!(large.read - read <= 3100, "{} pages read for 1000 look-ups", large.read - read);
    // A step of a discard is small, too, whatever is in memory.
    assert!(matches!(
        large.map.step_of((1, 0), LAST),
        GiveStep::Unread(_) | GiveStep::GiveUp { .. } | GiveStep::Fold { .. }
    ));
}

#[test]
fn a_checkpoint_takes_no_more_memory_than_was_said_to_wait() {
    for (changes, apart) in [(1, 1), (700, 977), (3, 1 << 30), (500, 1 << 30), (500, 5 * BLOCKS)] {
        let mut large = Large::new();
        large.know_branches();
        for n in 1..=changes {
            let _before = large.map.set((1, n * apart % (LEAVES * BLOCKS)), Located::At(Address(n), 0));
        }
        let (said, before) = (large.map.waiting(Coming::default()), large.map.bytes());
        let _written = large.checkpoint();
        let took = large.map.most_bytes() - before;
        assert!(took <= said, "{changes} changes {apart} apart: {took} bytes, {said} said");
        let is_scattered = apart == 1 << 30;
        assert!(!is_scattered || said <= took + took / 4, "{changes} changes: {took} bytes, {said} said");
    }
}

/// A map of 20 TiB of which all that has to be known takes two thirds of its memory.
#[test]
fn a_map_that_is_written_at_random_holds_the_bound_of_its_memory() {
    const MEMORY: usize = 64 << 20;
    /// Branches of the lowest level, and a number that has no factor of theirs.
    const LOWEST: u64 = LEAVES / WIDE;
    const APART: u64 = 77_777;
    let mut large = Large { memory: MEMORY, ..Large::new() };
    large.know_branches();
    let mut written = 0;
    for n in 0..3000 {
        // Each below another branch, since pages that were written can't be computed.
        let block = (n * APART % LOWEST * WIDE + n % WIDE) * BLOCKS + n % BLOCKS;
        let _found = large.find(block);
        let _before = large.map.set((1, block), Located::At(Address(n), 0));
        if large.map.waiting(Coming::default()) >= large.map.for_changes(MEMORY / 4) {
            written += large.checkpoint();
        }
        assert!(large.map.most_bytes() <= MEMORY, "{} bytes, {n} changes", large.map.most_bytes());
    }
    // A leaf and a branch for each, and those above.
    assert!((2 * 2500..4 * 3000).contains(&written), "{written} pages written");
    assert!(large.map.bytes() > MEMORY / 4 * 3, "{} bytes", large.map.bytes());
}
