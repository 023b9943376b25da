//! The entries of a leaf in memory: twelve bytes each, where they are of one node and close to each other, and little more than four where
//! they lie in order.

use core::cmp::Ordering;

use brindle_format::pool::place::Address;
use brindle_format::pool::{LeafEntry, LeafForms, LeafKind, leaf_takes, near, runs_of};

/// Bytes of a checksum, in memory and in a page, and what a run takes beside that in a page.
const SUM: usize = 4;
const RUN: usize = 10;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Located {
    /// It was never written, or is zeroes.
    Zeroes,
    /// There, and it sums to that.
    At(Address, u32),
    /// The block is lost.
    Lost,
}

impl Located {
    /// Its segment, if it has one.
    pub(crate) fn segment(self) -> Option<u32> {
        match self {
            Self::At(address, _) => Some(address.segment()),
            Self::Zeroes | Self::Lost => None,
        }
    }
}

/// An entry, by how far it is behind the first block. One that is lost has no address.
#[derive(Clone, Copy)]
struct Near {
    block: u16,
    high: u16,
    low: u32,
    checksum: u32,
}

const _: () = assert!(size_of::<Near>() == 12);

impl Near {
    fn new(first: u64, entry: &LeafEntry) -> Self {
        let (address, block) = (entry.address.0, entry.block.wrapping_sub(first) as u16);
        Self { block, high: (address >> 32) as u16, low: address as u32, checksum: entry.checksum }
    }

    fn address(self) -> Address {
        Address(u64::from(self.high) << 32 | u64::from(self.low))
    }

    fn entry(self, first: u64, node: u32) -> LeafEntry {
        let address = self.address();
        let kind = if address == Address::NONE { LeafKind::Lost } else { LeafKind::Plain };
        LeafEntry { block: first + u64::from(self.block), node, kind, address, checksum: self.checksum }
    }
}

/// Blocks one behind the other at places one behind the other, by how far they are behind the first block; or some that are lost.
#[derive(Clone, Copy)]
struct InOrder {
    block: u16,
    /// The number of its first entry.
    entry: u16,
    high: u16,
    low: u32,
}

impl InOrder {
    fn address(self, behind: usize) -> Address {
        let begin = Address(u64::from(self.high) << 32 | u64::from(self.low));
        begin.behind(behind as u32).unwrap_or(Address::NONE)
    }
}

/// Entries of one node, of which each run is held once, and the checksum of each.
#[derive(Clone)]
struct Runs {
    first: u64,
    node: u32,
    runs: Vec<InOrder>,
    sums: Vec<u32>,
}

impl Runs {
    fn new(entries: &[LeafEntry]) -> Self {
        let (first, node) = entries.first().map_or((0, 0), |entry| (entry.block, entry.node));
        let (mut runs, mut count) = (Vec::new(), 0);
        for run in brindle_format::pool::runs(entries) {
            let Near { block, high, low, .. } = Near::new(first, &run[0]);
            runs.push(InOrder { block, entry: count as u16, high, low });
            count += run.len();
        }
        runs.shrink_to_fit();
        Self { first, node, runs, sums: entries.iter().map(|entry| entry.checksum).collect() }
    }

    /// The number behind the last entry of a run.
    fn end(&self, run: usize) -> usize {
        self.runs.get(run + 1).map_or(self.sums.len(), |next| next.entry.into())
    }

    /// How many entries are of blocks before this one.
    fn before(&self, block: u64) -> usize {
        let Some(block) = block.checked_sub(self.first) else { return 0 };
        let behind = self.runs.partition_point(|run| u64::from(run.block) < block);
        let Some(last) = behind.checked_sub(1) else { return 0 };
        let run = self.runs[last];
        let within = (block - u64::from(run.block)) as usize;
        (usize::from(run.entry) + within).min(self.end(last))
    }

    /// The run of an entry, and how far that is behind its first one.
    fn of(&self, at: usize) -> Option<(InOrder, usize)> {
        let behind = self.runs.partition_point(|run| usize::from(run.entry) <= at);
        let run = *self.runs.get(behind.checked_sub(1)?)?;
        (at < self.sums.len()).then(|| (run, at - usize::from(run.entry)))
    }

    fn block(&self, at: usize) -> Option<u64> {
        let (run, behind) = self.of(at)?;
        Some(self.first + u64::from(run.block) + behind as u64)
    }

    fn find(&self, block: u64) -> Option<usize> {
        let at = self.before(block);
        (self.block(at) == Some(block)).then_some(at)
    }

    fn address(&self, at: usize) -> Address {
        self.of(at).map_or(Address::NONE, |(run, behind)| run.address(behind))
    }

    fn entry(&self, at: usize) -> Option<LeafEntry> {
        let (block, address) = (self.block(at)?, self.address(at));
        let kind = if address == Address::NONE { LeafKind::Lost } else { LeafKind::Plain };
        Some(LeafEntry { block, node: self.node, kind, address, checksum: *self.sums.get(at)? })
    }
}

/// All entries of a leaf.
#[derive(Clone)]
enum Held {
    /// They are of one node, and the blocks within some of the first.
    Near(u64, u32, Vec<Near>),
    /// The same, and there are few runs.
    Runs(Runs),
    Loose(Vec<LeafEntry>),
}

/// The entries of a leaf in the order of their blocks.
#[derive(Clone)]
pub(crate) struct Entries(Held);

impl From<Vec<LeafEntry>> for Entries {
    /// Held as what takes the least memory, whatever the page is.
    fn from(entries: Vec<LeafEntry>) -> Self {
        let Some((&LeafEntry { block: first, node, .. }, runs)) = entries.first().zip(runs_of(&entries))
        else {
            return Self(Held::Loose(entries));
        };
        if runs * size_of::<InOrder>() + entries.len() * SUM < entries.len() * size_of::<Near>() {
            return Self(Held::Runs(Runs::new(&entries)));
        }
        Self(Held::Near(first, node, entries.iter().map(|entry| Near::new(first, entry)).collect()))
    }
}

impl Entries {
    /// So many blocks that are lost, from one on.
    pub(crate) fn lost(first: u64, node: u32, count: usize) -> Self {
        let (high, low) = ((Address::NONE.0 >> 32) as u16, Address::NONE.0 as u32);
        let runs = vec![InOrder { block: 0, entry: 0, high, low }];
        Self(Held::Runs(Runs { first, node, runs, sums: vec![0; count] }))
    }

    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Held::Near(_, _, entries) => entries.len(),
            Held::Runs(runs) => runs.sums.len(),
            Held::Loose(entries) => entries.len(),
        }
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        match &self.0 {
            Held::Near(_, _, entries) => entries.len() * size_of::<Near>(),
            Held::Runs(runs) => runs.runs.len() * size_of::<InOrder>() + runs.sums.len() * SUM,
            Held::Loose(entries) => entries.len() * size_of::<LeafEntry>(),
        }
    }

    /// Bytes that they take of a page, which may be more than that has.
    pub(crate) fn bytes_of_page(&self, forms: LeafForms) -> usize {
        forms.bytes(self.len(), self.runs())
    }

    /// More than one page takes.
    pub(crate) fn is_too_large(&self, forms: LeafForms) -> bool {
        // Most leaves have room, however many runs there are.
        let may_fit = matches!(self.0, Held::Near(..)) && forms.fit(self.len(), Some(self.len()));
        !may_fit && !forms.fit(self.len(), self.runs())
    }

    /// How many runs they are of, if they are of one node and within few blocks.
    fn runs(&self) -> Option<usize> {
        match &self.0 {
            Held::Near(first, node, entries) => {
                let all: Vec<LeafEntry> = entries.iter().map(|entry| entry.entry(*first, *node)).collect();
                runs_of(&all)
            }
            Held::Runs(runs) => Some(runs.runs.len()),
            Held::Loose(entries) => runs_of(entries),
        }
    }

    /// How many entries are of blocks before this one.
    pub(crate) fn before(&self, block: u64) -> usize {
        match &self.0 {
            Held::Near(first, _, entries) => {
                entries.partition_point(|entry| first + u64::from(entry.block) < block)
            }
            Held::Runs(runs) => runs.before(block),
            Held::Loose(entries) => entries.partition_point(|entry| entry.block < block),
        }
    }

    /// The entry of a block.
    pub(crate) fn find(&self, block: u64) -> Option<usize> {
        match &self.0 {
            Held::Near(first, _, entries) => {
                let block = u16::try_from(block.checked_sub(*first)?).ok()?;
                // Most leaves have all blocks.
                if entries.get(usize::from(block)).is_some_and(|entry| entry.block == block) {
                    return Some(block.into());
                }
                entries.binary_search_by_key(&block, |entry| entry.block).ok()
            }
            Held::Runs(runs) => runs.find(block),
            Held::Loose(entries) => entries.binary_search_by_key(&block, |entry| entry.block).ok(),
        }
    }

    /// The last block.
    pub(crate) fn last(&self) -> Option<u64> {
        self.block(self.len().checked_sub(1)?)
    }

    /// The block of an entry.
    pub(crate) fn block(&self, at: usize) -> Option<u64> {
        match &self.0 {
            Held::Near(first, _, entries) => entries.get(at).map(|entry| first + u64::from(entry.block)),
            Held::Runs(runs) => runs.block(at),
            Held::Loose(entries) => entries.get(at).map(|entry| entry.block),
        }
    }

    /// Where a block is.
    pub(crate) fn located(&self, block: u64) -> Located {
        self.find(block).map_or(Located::Zeroes, |at| self.at(at))
    }

    /// Where the block of an entry is.
    pub(crate) fn at(&self, at: usize) -> Located {
        let (address, checksum) = match &self.0 {
            Held::Near(_, _, entries) => (entries[at].address(), entries[at].checksum),
            Held::Runs(runs) => (runs.address(at), runs.sums[at]),
            Held::Loose(entries) => (entries[at].address, entries[at].checksum),
        };
        if address == Address::NONE { Located::Lost } else { Located::At(address, checksum) }
    }

    /// Where all blocks are.
    pub(crate) fn all(&self) -> impl Iterator<Item = Located> {
        (0..self.len()).map(|at| self.at(at))
    }

    /// Puts an entry in the place of another of the same block; false where that can't be.
    pub(crate) fn replace(&mut self, at: usize, entry: LeafEntry) -> bool {
        match &mut self.0 {
            Held::Near(first, node, entries) if *node == entry.node => {
                entries[at] = Near::new(*first, &entry);
                true
            }
            Held::Near(..) | Held::Runs(_) => false,
            Held::Loose(entries) => {
                entries[at] = entry;
                true
            }
        }
    }

    /// All of them as a page has them.
    pub(crate) fn to_vec(&self) -> Vec<LeafEntry> {
        match &self.0 {
            Held::Near(first, node, entries) => entries.iter().map(|e| e.entry(*first, *node)).collect(),
            Held::Runs(runs) => (0..runs.sums.len()).filter_map(|at| runs.entry(at)).collect(),
            Held::Loose(entries) => entries.clone(),
        }
    }
}

/// Parts entries that are more than one page takes, each piece for one. Of those that were written in order all pages but the last are
/// full. Others go into halves, as often as it takes: where blocks lie in runs these are of as many bytes, since changes of either
/// are as likely.
pub(crate) fn part(mut rest: Vec<LeafEntry>, forms: LeafForms, in_order: bool) -> Vec<Vec<LeafEntry>> {
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let mut takes = leaf_takes(&rest, forms);
        if !in_order && takes < rest.len() {
            let near = near(&rest);
            takes = match takes.cmp(&near) {
                // Others are too far away.
                Ordering::Equal => takes,
                Ordering::Less => half_of(&rest[..near], forms),
                Ordering::Greater => takes * 3 / 4,
            };
        }
        let behind = rest.split_off(takes.max(1));
        pieces.push(core::mem::replace(&mut rest, behind));
    }
    pieces
}

/// How many of the first of some entries are half of them, or half of that, until a page takes them.
fn half_of(entries: &[LeafEntry], forms: LeafForms) -> usize {
    let mut some = entries;
    while some.len() > 1 && !forms.fit(some.len(), runs_of(some)) {
        let weights =
            || brindle_format::pool::runs(some).flat_map(|run| (0..run.len()).map(|n| weight(n, forms)));
        let (all, mut half) = (weights().sum::<usize>(), 0);
        let count = weights().take_while(|own| {
            half += own;
            2 * half <= all
        });
        some = &some[..count.count().clamp(1, some.len() - 1)];
    }
    some.len()
}

/// Bytes that an entry adds to its page, by how far it is behind the first one of its run.
fn weight(behind: usize, forms: LeafForms) -> usize {
    if forms.runs && behind == 0 { RUN + SUM } else { SUM }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: LeafForms = LeafForms { dense: true, runs: false };

    fn entry(block: u64, address: u64) -> LeafEntry {
        let lost = address == Address::NONE.0;
        let kind = if lost { LeafKind::Lost } else { LeafKind::Plain };
        LeafEntry { block, node: 1, kind, address: Address(address), checksum: (block * 7) as u32 }
    }

    /// Runs of all lengths, some of them behind a gap, some lost.
    fn mixed(count: u64) -> Vec<LeafEntry> {
        let (mut entries, mut block, mut run) = (Vec::new(), 5, 0);
        while entries.len() < count as usize {
            run += 1;
            for n in 0..=run % 23 {
                let address = if run % 9 == 0 { Address::NONE.0 } else { run << 20 | n };
                entries.push(entry(block, address));
                block += 1;
            }
            block += run % 3;
        }
        entries.truncate(count as usize);
        entries
    }

    #[test]
    fn entries_are_the_same_however_they_are_held() {
        let runs = mixed(900);
        let held = Entries::from(runs.clone());
        assert!(matches!(held.0, Held::Runs(_)) && held.bytes() < 900 * 6, "{} bytes", held.bytes());
        for held in [held, Entries(Held::Loose(runs.clone()))] {
            assert_eq!(held.to_vec(), runs);
            assert_eq!((held.len(), held.runs()), (900, runs_of(&runs)));
            for block in 0..runs[899].block + 9 {
                let at = runs.iter().position(|entry| entry.block == block);
                assert_eq!(held.find(block), at, "{block}");
                let there = at.map_or(Located::Zeroes, |at| match runs[at].kind {
                    LeafKind::Lost => Located::Lost,
                    LeafKind::Plain => Located::At(runs[at].address, runs[at].checksum),
                });
                assert_eq!(held.located(block), there);
                assert_eq!(held.before(block), runs.iter().filter(|entry| entry.block < block).count());
            }
            assert!((0..901).all(|at| held.block(at) == runs.get(at).map(|entry| entry.block)));
        }
    }

    #[test]
    fn pieces_of_what_is_too_large_are_all_that_was_and_fit_pages() {
        let random: Vec<LeafEntry> = (0..1500).map(|n| entry(n, (n * 7919 % 1500) << 3)).collect();
        let far: Vec<LeafEntry> = (0..700).map(|n| entry(n << 17, n << 9)).collect();
        let around: Vec<LeafEntry> =
            (0..1002u64).map(|n| entry([n, n + 70_000, n + 200_000][n.div_ceil(1000) as usize], n)).collect();
        for (entries, forms, in_order, pieces) in [
            (&random, LeafForms::ALL, true, 5..=5),
            (&random, LeafForms::ALL, false, 5..=8),
            (&random, OLD, false, 5..=8),
            (&random, LeafForms::default(), false, 9..=16),
            (&far, LeafForms::ALL, false, 5..=6),
            (&around, LeafForms::ALL, false, 2..=3),
            (&mixed(900), LeafForms::ALL, false, 1..=2),
            (&mixed(4000), LeafForms::ALL, false, 5..=8),
        ] {
            let parts = part(entries.clone(), forms, in_order);
            assert_eq!(&parts.concat(), entries);
            assert!(pieces.contains(&parts.len()), "{} pieces of {}", parts.len(), entries.len());
            for piece in parts {
                assert!(!Entries::from(piece.clone()).is_too_large(forms), "{} entries", piece.len());
            }
        }
    }

    /// A page that changes cut becomes halves, of which each has room for many more changes.
    #[test]
    fn a_leaf_in_order_that_is_overwritten_becomes_two_then_four() {
        let mut pages = vec![(0..1009).map(|n| entry(n, n)).collect::<Vec<_>>()];
        let mut counts = Vec::new();
        for n in 0..1009u64 {
            let block = n * 389 % 1009;
            let at = pages.iter().rposition(|page| page[0].block <= block).expect("a page");
            let page = &mut pages[at];
            let own = page.iter_mut().find(|entry| entry.block == block).expect("an entry");
            own.address = Address((1 << 30) | (block * 2));
            let parts = part(core::mem::take(page), LeafForms::ALL, false);
            drop(pages.splice(at..=at, parts));
            counts.push(pages.len());
        }
        assert_eq!((counts[0], counts[90], counts[1008]), (2, 2, 4), "{counts:?}");
    }
}
