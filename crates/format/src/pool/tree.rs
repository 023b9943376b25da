//! The map is a tree of pages: leaves say where blocks of volumes lie, branches name leaves or branches below them.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::PoolError;
use super::error::impossible;
use super::leaf::{Leaf, MOST_ENTRIES};
use super::page::{BODY, PageKind, Pointer, fill, parse};
use super::place::Address;

/// Pages that a branch names.
pub const BRANCH_REFS: usize = 127;
/// The most levels of branches above leaves: more than any pool can have, where each but the last of a level names two pages at least.
pub const MAX_LEVELS: u8 = 8;
const TAIL: usize = BODY - BRANCH_REFS * 32;

/// Whether something finds a block in a page of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubtreeState {
    /// Blocks are found in it.
    Live,
    /// Its entries are zeroes by now, and still count in their segments.
    Dead,
    /// The same; but those in segments that were used again do not count: they are of before.
    Outlived,
}

/// A page of the map, with all below it, as a branch, an uberblock or the list of dead pages names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subtree {
    /// The volume of its first leaf,
    pub volume: u32,
    /// and the first block that this one may hold. It holds those up to the first of the page behind it.
    pub first: u64,
    /// Levels of pages below it: a leaf has none.
    pub level: u8,
    /// Whether something finds a block in it.
    pub state: SubtreeState,
    /// Entries of all its leaves.
    pub blocks: u64,
    /// Pages, itself among them.
    pub pages: u32,
    /// The place of the page.
    pub pointer: Pointer,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawSubtree {
    volume: U32,
    first: [u8; 6],
    address: [u8; 6],
    checksum: U32,
    pages: U32,
    blocks: [u8; 6],
    level: u8,
    state: u8,
}

fn wide(bytes: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = bytes;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

fn narrow(value: u64) -> [u8; 6] {
    let [a, b, c, d, e, f, ..] = value.to_le_bytes();
    [a, b, c, d, e, f]
}

impl Subtree {
    /// The key at which it begins: volume and block.
    pub fn key(&self) -> (u32, u64) {
        (self.volume, self.first)
    }

    fn raw(&self) -> RawSubtree {
        RawSubtree {
            volume: self.volume.into(),
            first: narrow(self.first),
            address: narrow(self.pointer.address.0),
            checksum: self.pointer.checksum.into(),
            pages: self.pages.into(),
            blocks: narrow(self.blocks),
            level: self.level,
            state: match self.state {
                SubtreeState::Live => 0,
                SubtreeState::Dead => 1,
                SubtreeState::Outlived => 2,
            },
        }
    }

    fn of(raw: &RawSubtree, what: &'static str) -> Result<Self, PoolError> {
        let address = Address(wide(raw.address));
        if address.0 >= Address::NONE.0 {
            return Err(impossible(what, "address", address.0));
        }
        if raw.level > MAX_LEVELS {
            return Err(impossible(what, "level", raw.level));
        }
        let state = match raw.state {
            0 => SubtreeState::Live,
            1 => SubtreeState::Dead,
            2 => SubtreeState::Outlived,
            other => return Err(impossible(what, "state", other)),
        };
        let (pages, blocks) = (raw.pages.get(), wide(raw.blocks));
        // A page of each level at least, and one alone where there is no level below.
        if pages <= u32::from(raw.level) || raw.level == 0 && pages != 1 {
            return Err(impossible(what, "pages", pages));
        }
        if blocks == 0 || blocks > u64::from(pages).saturating_mul(MOST_ENTRIES as u64) {
            return Err(impossible(what, "blocks", blocks));
        }
        let pointer = Pointer { address, checksum: raw.checksum.get() };
        let (volume, first, level) = (raw.volume.get(), wide(raw.first), raw.level);
        Ok(Self { volume, first, level, state, blocks, pages, pointer })
    }

    /// The top of a map, if it has any page: a branch.
    pub(super) fn raw_top(top: Option<Self>) -> RawSubtree {
        let none = RawSubtree { address: narrow(Address::NONE.0), ..RawSubtree::new_zeroed() };
        top.map_or(none, |top| top.raw())
    }

    /// Reads the top of a map.
    pub(super) fn of_top(raw: &RawSubtree) -> Result<Option<Self>, PoolError> {
        if wide(raw.address) == Address::NONE.0 {
            return Ok(None);
        }
        let top = Self::of(raw, "uberblock")?;
        if top.level == 0 || top.state != SubtreeState::Live {
            return Err(impossible("uberblock", "map", top.level));
        }
        Ok(Some(top))
    }

    /// Reads the page, which is a leaf; `end` is the key behind its last one.
    ///
    /// # Errors
    /// [`PoolError`] if it is none, not that one, or holds what can't be.
    pub fn leaf(&self, bytes: &[u8], end: Option<(u32, u64)>) -> Result<Leaf, PoolError> {
        let leaf = Leaf::parse(bytes, self.volume)?;
        if leaf.0.len() as u64 != self.blocks {
            return Err(impossible("leaf", "count", leaf.0.len() as u64));
        }
        let is_beyond = |block: u64| end.is_some_and(|end| (self.volume, block) >= end);
        let outside = leaf.0.iter().find(|entry| entry.block < self.first || is_beyond(entry.block));
        match outside {
            Some(entry) => Err(impossible("leaf", "block", entry.block)),
            None => Ok(leaf),
        }
    }

    /// Reads the page, which is a branch; `end` is the key behind its last one. Gives the pages that it names, in their order. Since each is a
    /// level lower, within its own range and counted, a tree has no loops, and no page stands in it twice.
    ///
    /// # Errors
    /// [`PoolError`] if it is none, not that one, or holds what can't be.
    pub fn branch(&self, bytes: &[u8], end: Option<(u32, u64)>) -> Result<Vec<Self>, PoolError> {
        let (what, below) = ("branch", self.level.checked_sub(1).ok_or(impossible("branch", "level", 0u8))?);
        let refs = subtrees(bytes, PageKind::Branch, self.level.into(), what)?;
        let (mut pages, mut blocks) = (1u64, 0u64);
        for (n, own) in refs.iter().enumerate() {
            if own.level != below {
                return Err(impossible(what, "level", own.level));
            }
            if own.state != SubtreeState::Live {
                return Err(impossible(what, "state", own.state as u8));
            }
            let follows = match n.checked_sub(1).and_then(|n| refs.get(n)) {
                Some(before) => before.key() < own.key(),
                None => own.key() == self.key(),
            };
            if !follows || end.is_some_and(|end| own.key() >= end) {
                return Err(impossible(what, "first", own.first));
            }
            (pages, blocks) = (pages.saturating_add(own.pages.into()), blocks.saturating_add(own.blocks));
        }
        if refs.is_empty() {
            return Err(impossible(what, "count", 0u8));
        }
        if pages != u64::from(self.pages) {
            return Err(impossible(what, "pages", pages));
        }
        if blocks != self.blocks {
            return Err(impossible(what, "blocks", blocks));
        }
        Ok(refs)
    }
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawBranch {
    pages: [RawSubtree; BRANCH_REFS],
    tail: [u8; TAIL],
}

fn page_of(kind: PageKind, number: u64, refs: &[Subtree]) -> Result<Vec<u8>, PoolError> {
    let mut raw = RawBranch::new_zeroed();
    for (place, own) in raw.pages.iter_mut().zip(refs) {
        *place = own.raw();
    }
    fill(kind, number, refs.len(), BRANCH_REFS, raw.as_bytes())
}

fn subtrees(
    bytes: &[u8],
    kind: PageKind,
    number: u64,
    what: &'static str,
) -> Result<Vec<Subtree>, PoolError> {
    let (count, body) = parse(bytes, kind, number, BRANCH_REFS)?;
    let raw = RawBranch::ref_from_bytes(body).map_err(|_| PoolError::Magic { what: "page" })?;
    raw.pages.iter().take(count).map(|raw| Subtree::of(raw, what)).collect()
}

/// A branch: pages of one level, in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch(pub Vec<Subtree>);

impl Branch {
    /// The page's bytes; pages that it names are a level below `level`.
    ///
    /// # Errors
    /// [`PoolError::TooMany`].
    pub fn encode(&self, level: u8) -> Result<Vec<u8>, PoolError> {
        page_of(PageKind::Branch, level.into(), &self.0)
    }
}

/// A page of the list of dead pages, which are of any level, and in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadPages(pub Vec<Subtree>);

impl DeadPages {
    /// The page's bytes.
    ///
    /// # Errors
    /// [`PoolError::TooMany`].
    pub fn encode(&self, number: u64) -> Result<Vec<u8>, PoolError> {
        page_of(PageKind::DeadPages, number, &self.0)
    }

    /// Reads a page.
    ///
    /// # Errors
    /// [`PoolError`] if it is none, not that one, or holds what can't be.
    pub fn parse(bytes: &[u8], number: u64) -> Result<Self, PoolError> {
        let refs = subtrees(bytes, PageKind::DeadPages, number, "list of dead pages")?;
        match refs.iter().find(|own| own.state == SubtreeState::Live) {
            Some(_) => Err(impossible("list of dead pages", "state", 0u8)),
            None => Ok(Self(refs)),
        }
    }
}

const _: () = assert!(size_of::<RawSubtree>() == 32);
