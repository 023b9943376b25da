//! Volumes, and the nodes under which their blocks are written.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::page::{BODY, PageKind, RawRoot, Root, fill, parse};
use super::{MAX_NAME, PoolError, name_field, name_of};
use crate::pool::error::impossible;

/// Volumes of a page.
pub const VOLUMES: usize = 31;
/// Nodes of a page.
pub const NODES: usize = 63;
/// Bytes of a volume's block, as a power of two: no other is made.
const BLOCK_OF_VOLUMES: u8 = 12;
const VOLUMES_TAIL: usize = BODY - VOLUMES * 128;
const NODES_TAIL: usize = BODY - NODES * 64;

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// The volume's number, never used again.
    pub id: u32,
    /// The node under which it is written.
    pub node: u32,
    /// Bytes.
    pub size: u64,
    /// Seconds since 1970 when it was made.
    pub created: u64,
    /// The volume is being destroyed: all that is left is to give its blocks back.
    pub destroyed: bool,
    /// The volume's name within the pool.
    pub name: String,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawVolume {
    id: U32,
    node: U32,
    size: U64,
    created: U64,
    destroyed: u8,
    block: u8,
    thin: u8,
    reserved: [u8; 5],
    name: [u8; 64],
    reservation: U64,
    properties: RawRoot,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawVolumes {
    volumes: [RawVolume; VOLUMES],
    tail: [u8; VOLUMES_TAIL],
}

/// A page of volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volumes(pub Vec<VolumeRecord>);

impl Volumes {
    /// The page's bytes.
    ///
    /// # Errors
    /// [`PoolError::TooMany`], also of bytes of a name.
    pub fn encode(&self, number: u64) -> Result<Vec<u8>, PoolError> {
        let mut raw = RawVolumes::new_zeroed();
        for (place, volume) in raw.volumes.iter_mut().zip(&self.0) {
            *place = RawVolume {
                id: volume.id.into(),
                node: volume.node.into(),
                size: volume.size.into(),
                created: volume.created.into(),
                destroyed: u8::from(volume.destroyed),
                block: BLOCK_OF_VOLUMES,
                thin: 0,
                reserved: [0; 5],
                name: name_field::<MAX_NAME>(&volume.name)?,
                reservation: 0.into(),
                properties: Root::default().raw(),
            };
        }
        fill(PageKind::Volumes, number, self.0.len(), VOLUMES, raw.as_bytes())
    }

    /// Reads a page.
    ///
    /// # Errors
    /// [`PoolError`] if it is none, not that one, or holds what can't be.
    pub fn parse(bytes: &[u8], number: u64) -> Result<Self, PoolError> {
        let (count, body) = parse(bytes, PageKind::Volumes, number, VOLUMES)?;
        let raw = RawVolumes::ref_from_bytes(body).map_err(|_| PoolError::Magic { what: "page" })?;
        let of = |raw: &RawVolume| {
            let name = name_of(&raw.name).ok_or(impossible("volume", "name", raw.id.get()))?;
            if raw.destroyed > 1 {
                return Err(impossible("volume", "destroyed", raw.destroyed));
            }
            let kept_free = [
                ("block", u64::from(raw.block), u64::from(BLOCK_OF_VOLUMES)),
                ("thin", raw.thin.into(), 0),
                ("reservation", raw.reservation.get(), 0),
                ("properties", Root::of(&raw.properties)?.pages.into(), 0),
            ];
            if let Some((field, value, _)) = kept_free.into_iter().find(|(_, value, known)| value != known) {
                return Err(PoolError::unknown("volume", field, value));
            }
            // 2^48 blocks are what an entry of the map can name.
            if !raw.size.get().is_multiple_of(512) || raw.size.get() >= 1 << 60 {
                return Err(impossible("volume", "size", raw.size.get()));
            }
            Ok(VolumeRecord {
                id: raw.id.get(),
                node: raw.node.get(),
                size: raw.size.get(),
                created: raw.created.get(),
                destroyed: raw.destroyed == 1,
                name,
            })
        };
        raw.volumes.iter().take(count).map(of).collect::<Result<_, _>>().map(Self)
    }
}

/// A node. Blocks written under a node belong to it and to its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The volume's number, never used again.
    pub id: u32,
    /// The parent node; 0 if there is none.
    pub parent: u32,
    /// The volume that it was made for.
    pub volume: u32,
    /// No further writes belong to this node.
    pub frozen: bool,
    /// Blocks that were freed under this node: pages of addresses.
    pub dead: Root,
    /// Blocks in that list.
    pub dead_blocks: u64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawNode {
    id: U32,
    parent: U32,
    volume: U32,
    frozen: u8,
    reserved: [u8; 3],
    dead: RawRoot,
    dead_blocks: U64,
    reserved2: [u8; 16],
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawNodes {
    nodes: [RawNode; NODES],
    tail: [u8; NODES_TAIL],
}

/// A page of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes(pub Vec<Node>);

impl Nodes {
    /// The page's bytes.
    ///
    /// # Errors
    /// [`PoolError::TooMany`].
    pub fn encode(&self, number: u64) -> Result<Vec<u8>, PoolError> {
        let mut raw = RawNodes::new_zeroed();
        for (place, node) in raw.nodes.iter_mut().zip(&self.0) {
            *place = RawNode {
                id: node.id.into(),
                parent: node.parent.into(),
                volume: node.volume.into(),
                frozen: u8::from(node.frozen),
                reserved: [0; 3],
                dead: node.dead.raw(),
                dead_blocks: node.dead_blocks.into(),
                reserved2: [0; 16],
            };
        }
        fill(PageKind::Nodes, number, self.0.len(), NODES, raw.as_bytes())
    }

    /// Reads a page.
    ///
    /// # Errors
    /// [`PoolError`] if it is none, not that one, or holds what can't be.
    pub fn parse(bytes: &[u8], number: u64) -> Result<Self, PoolError> {
        let (count, body) = parse(bytes, PageKind::Nodes, number, NODES)?;
        let raw = RawNodes::ref_from_bytes(body).map_err(|_| PoolError::Magic { what: "page" })?;
        let of = |raw: &RawNode| {
            if raw.frozen > 1 {
                return Err(impossible("node", "frozen", raw.frozen));
            }
            Ok(Node {
                id: raw.id.get(),
                parent: raw.parent.get(),
                volume: raw.volume.get(),
                frozen: raw.frozen == 1,
                dead: Root::of(&raw.dead)?,
                dead_blocks: raw.dead_blocks.get(),
            })
        };
        raw.nodes.iter().take(count).map(of).collect::<Result<_, _>>().map(Self)
    }
}
