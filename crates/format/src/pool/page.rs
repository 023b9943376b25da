//! Pages: 4 KiB of records of one kind. The checksum of a page stands with whoever points to it.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::impossible;
use super::place::Address;
use super::{BLOCK, PoolError, VERSION, check_version};

const MAGIC: [u8; 8] = *b"BRNDPAGE";
const HEADER: usize = 32;
/// Bytes behind a page's header.
pub(super) const BODY: usize = BLOCK - HEADER;
/// Pointers of a page.
pub const POINTERS: usize = 254;

/// The content of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Pointers to pages.
    Pointers,
    /// Blocks of volumes.
    Leaf,
    /// Segments.
    Segments,
    /// Volumes.
    Volumes,
    /// Nodes.
    Nodes,
    /// Blocks of volumes, of which twice as many fit.
    DenseLeaf,
    /// Pages of the map, with their first keys.
    Branch,
    /// Pages of the map in which no block is found any more.
    DeadPages,
    /// Blocks of volumes that lie in order at places in order, of which six times as many fit.
    RunLeaf,
    /// Commands that changed the pool, and what happened to it.
    History,
}

impl PageKind {
    const fn number(self) -> u8 {
        match self {
            Self::Pointers => 1,
            Self::Leaf => 2,
            Self::Segments => 4,
            Self::Volumes => 5,
            Self::Nodes => 6,
            Self::DenseLeaf => 7,
            Self::Branch => 8,
            Self::DeadPages => 9,
            Self::RunLeaf => 10,
            Self::History => 11,
        }
    }

    /// A page says that it is of this kind.
    pub(super) fn is_of(self, bytes: &[u8]) -> bool {
        bytes.get(MAGIC.len()) == Some(&self.number())
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPage {
    magic: [u8; 8],
    kind: u8,
    reserved: u8,
    count: U16,
    version: U32,
    number: U64,
    reserved2: U64,
}

const _: () = assert!(size_of::<RawPage>() == HEADER);

/// A page of a kind: a header, and `body` behind it.
pub(super) fn fill(
    kind: PageKind,
    number: u64,
    count: usize,
    most: usize,
    body: &[u8],
) -> Result<Vec<u8>, PoolError> {
    if count > most {
        return Err(PoolError::TooMany { what: "records of a page", count: count as u64, most: most as u64 });
    }
    let header = RawPage {
        magic: MAGIC,
        kind: kind.number(),
        reserved: 0,
        count: (count as u16).into(),
        version: VERSION.into(),
        number: number.into(),
        reserved2: 0.into(),
    };
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes.resize(BLOCK, 0);
    Ok(bytes)
}

/// The records of a page and its body.
pub(super) fn parse(
    bytes: &[u8],
    kind: PageKind,
    number: u64,
    most: usize,
) -> Result<(usize, &[u8]), PoolError> {
    let what = "page";
    let short = PoolError::Short { what, have: bytes.len(), need: BLOCK };
    let (header, body) =
        RawPage::ref_from_prefix(bytes.get(..BLOCK).ok_or(short)?).map_err(|_| PoolError::Magic { what })?;
    if header.magic != MAGIC {
        return Err(PoolError::Magic { what });
    }
    check_version(what, header.version.get())?;
    if header.kind != kind.number() || header.number.get() != number {
        return Err(PoolError::Foreign { what });
    }
    let count = usize::from(header.count.get());
    if count > most {
        return Err(impossible(what, "count", header.count.get()));
    }
    Ok((count, body))
}

/// The place of a page, and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Its place.
    pub address: Address,
    /// Its checksum.
    pub checksum: u32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPointer {
    address: U64,
    checksum: U32,
    reserved: U32,
}

impl Pointer {
    fn raw(self) -> RawPointer {
        RawPointer { address: self.address.0.into(), checksum: self.checksum.into(), reserved: 0.into() }
    }

    fn of(raw: &RawPointer) -> Result<Self, PoolError> {
        let address = Address(raw.address.get());
        if address.0 >= Address::NONE.0 {
            return Err(impossible("pointer", "address", address.0));
        }
        Ok(Self { address, checksum: raw.checksum.get() })
    }
}

/// A page of pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointers(pub Vec<Pointer>);

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPointers {
    pointers: [RawPointer; POINTERS],
}

impl Pointers {
    /// The page's bytes.
    ///
    /// # Errors
    /// [`PoolError::TooMany`].
    pub fn encode(&self, number: u64) -> Result<Vec<u8>, PoolError> {
        let mut raw = RawPointers::new_zeroed();
        for (place, pointer) in raw.pointers.iter_mut().zip(&self.0) {
            *place = pointer.raw();
        }
        fill(PageKind::Pointers, number, self.0.len(), POINTERS, raw.as_bytes())
    }

    /// Reads a page.
    ///
    /// # Errors
    /// [`PoolError`] if it is none, not that one, or holds what can't be.
    pub fn parse(bytes: &[u8], number: u64) -> Result<Self, PoolError> {
        let (count, body) = parse(bytes, PageKind::Pointers, number, POINTERS)?;
        let raw = RawPointers::ref_from_bytes(body).map_err(|_| PoolError::Magic { what: "page" })?;
        raw.pointers.iter().take(count).map(Pointer::of).collect::<Result<_, _>>().map(Self)
    }
}

/// A list of pages of one kind: the one page, or a page of pointers to pages, and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// The page at the top; `None` of a list of none.
    pub top: Option<Pointer>,
    /// Pages of the list.
    pub pages: u32,
    /// Levels of pointers above the pages.
    pub levels: u8,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawRoot {
    address: U64,
    checksum: U32,
    pages: U32,
    levels: u8,
    reserved: [u8; 7],
}

impl Root {
    /// Levels that a list of that many pages has.
    pub fn levels_of(pages: u32) -> u8 {
        let (mut levels, mut left) = (0u8, pages as usize);
        while left > 1 {
            left = left.div_ceil(POINTERS);
            levels = levels.saturating_add(1);
        }
        levels
    }

    pub(super) fn raw(self) -> RawRoot {
        let top = self.top.unwrap_or(Pointer { address: Address::NONE, checksum: 0 });
        RawRoot {
            address: top.address.0.into(),
            checksum: top.checksum.into(),
            pages: self.pages.into(),
            levels: self.levels,
            reserved: [0; 7],
        }
    }

    pub(super) fn of(raw: &RawRoot) -> Result<Self, PoolError> {
        let (address, pages) = (Address(raw.address.get()), raw.pages.get());
        let none = address == Address::NONE;
        if address.0 > Address::NONE.0 || none != (pages == 0) {
            return Err(impossible("root", "address", address.0));
        }
        if raw.levels != Self::levels_of(pages) {
            return Err(impossible("root", "levels", raw.levels));
        }
        let top = (!none).then_some(Pointer { address, checksum: raw.checksum.get() });
        Ok(Self { top, pages, levels: raw.levels })
    }
}
