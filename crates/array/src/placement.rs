//! Maps bytes of an array to a family of levels: one, or two on either side of a reshape position.

use core::ops::Range;
use std::rc::Rc;

use brindle_io::Slice;
use brindle_layout::{Family as Map, Geometry};
use brindle_members::copies::Copies;
use brindle_members::direct::send_reads;
use brindle_members::door::{Done, Door, Moved};
use brindle_members::lock::{RangeGuard, RangeLock};
use brindle_volume::{Allocation, VolumeError, bytes};
use smallvec::{SmallVec, smallvec};

use crate::channels::shared::Unit;
use crate::core::Core;
use crate::data::allocation::look_for_holes;
use crate::data::list::part;
use crate::data::mirrored::Mirror;
use crate::data::parity::Parity;
use crate::data::report::{SyncMode, SyncReport};
use crate::data::striped::Stripes;

mod split;

pub(crate) use split::{Split, rows_of};

/// The family of an array's level, which carries out its requests.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one or two of it in an array, which lives on the heap"
)]
pub(crate) enum Family {
    /// Linear and RAID 0.
    Stripes(Stripes),
    /// RAID 1 and RAID 10.
    Mirror(Mirror),
    /// RAID 4, 5 and 6.
    Parity(Parity),
}

impl Family {
    /// The family of a geometry; `moved` says where members have its data, if that is not where they say.
    pub(crate) fn new(core: &Rc<Core>, geometry: &Geometry, moved: Option<Moved>) -> Self {
        match geometry.family() {
            Map::Striped(map) => Self::Stripes(Stripes::new(core, map, moved)),
            Map::Mirrored(map) => Self::Mirror(Mirror::new(core, geometry, map, moved)),
            Map::Parity(map) => Self::Parity(Parity::new(core, map, moved)),
        }
    }

    /// Scratch bytes of an array of this geometry that asks for `wanted` bytes.
    pub(crate) fn scratch_bytes(geometry: &Geometry, wanted: usize) -> usize {
        match geometry.family() {
            Map::Striped(_) => Stripes::SCRATCH,
            Map::Mirrored(map) => Mirror::scratch_bytes(map, wanted),
            Map::Parity(map) => Parity::scratch_bytes(map, wanted),
        }
    }

    /// The family's way to the members.
    pub(crate) fn door(&self) -> Door<'_> {
        match self {
            Self::Stripes(stripes) => stripes.door(),
            Self::Mirror(mirror) => mirror.door(),
            Self::Parity(parity) => parity.door(),
        }
    }

    /// Reads a range that is not empty.
    pub(crate) async fn read(&self, offset: u64, into: &[Slice]) -> Result<(), VolumeError> {
        let sent = match self {
            Self::Stripes(stripes) => send_reads(stripes.door(), offset, into, |at| stripes.place(at))?,
            Self::Mirror(mirror) => return mirror.read(offset, into).await,
            Self::Parity(parity) if parity.reads_straight() => {
                send_reads(parity.door(), offset, into, |at| parity.place(at))?
            }
            Self::Parity(parity) => return Box::pin(parity.read_each(offset, into)).await,
        };
        let done = sent.await;
        if done.is_ok() { Ok(()) } else { Box::pin(self.read_on(offset, into, done)).await }
    }

    /// Its lock, and the units that reactors hold against each other: none where requests hold nothing.
    pub(crate) fn locks(&self) -> Option<(&RangeLock, Unit)> {
        match self {
            Self::Stripes(_) => None,
            Self::Mirror(mirror) => Some((mirror.locks(), Unit::Bytes)),
            Self::Parity(parity) => Some((parity.locks(), Unit::Row)),
        }
    }

    /// Appends the known holes in a range that is not empty; its parts are of whole blocks, in bytes.
    pub(crate) async fn allocation(&self, block: u64, range: Range<u64>, found: &mut Vec<Allocation>) {
        let door = self.door();
        match self {
            Self::Stripes(all) => look_for_holes(door, block, range, |at| all.sources(at), found).await,
            Self::Mirror(all) => look_for_holes(door, block, range, |at| all.sources(at), found).await,
            Self::Parity(all) => look_for_holes(door, block, range, |at| all.sources(at), found).await,
        }
    }

    /// Goes on with a read that was sent straight to members, of which some did not give their part.
    pub(crate) async fn read_on(&self, offset: u64, into: &[Slice], done: Done) -> Result<(), VolumeError> {
        match self {
            Self::Stripes(stripes) => Err(stripes.unread(into, &done).await),
            // Mirrors send no read straight: a copy is chosen first.
            Self::Mirror(mirror) => mirror.read(offset, into).await,
            Self::Parity(parity) => parity.read_on(offset, into, &done).await,
        }
    }
}

/// Writes memory that others change meanwhile to more members than one: what is written is a copy, which they all get
/// and from which parity is computed. A part beyond the memory at hand goes in steps, one after the other.
pub(crate) async fn write_copied(
    core: &Core,
    offset: u64,
    from: &[Slice],
    write: impl AsyncFn(u64, &[Slice]) -> Result<(), VolumeError>,
) -> Result<(), VolumeError> {
    let copies = core.copies.get_or_init(|| Copies::new(&core.io, core.limits.optimal, core.members.len()));
    let (mut done, len) = (0, bytes(from));
    while done < len {
        let (at, step) = (offset + done, copies.step(offset + done, len - done));
        let copy = copies.of(&part(from, done..done + step)).await;
        // The array may have been stopped while this waited.
        core.check(at, step)?;
        write(at, copy.as_ref()).await?;
        done += step;
    }
    Ok(())
}

/// Where the bytes of an array live.
#[allow(
    clippy::large_enum_variant,
    reason = "an array has one, on the heap; the family is reached without a further step"
)]
pub(crate) enum Placement {
    One(Family),
    Split(Box<Split>),
}

impl Placement {
    /// The one family; redundancy is not compared, nor members rebuilt, while there are two.
    ///
    /// # Errors
    /// [`VolumeError::Reshaping`].
    #[inline]
    pub(crate) fn one(&self) -> Result<&Family, VolumeError> {
        match self {
            Self::One(family) => Ok(family),
            Self::Split(_) => Err(VolumeError::Reshaping),
        }
    }

    /// Compares redundancy in a window, and brings it in sync if that is asked for.
    pub(crate) async fn sync_window(
        &self,
        pos: u64,
        len: u64,
        mode: SyncMode,
    ) -> Result<SyncReport, VolumeError> {
        let mut report = SyncReport::default();
        match self.one()? {
            Family::Stripes(_) => {}
            Family::Mirror(mirror) => mirror.sync(pos, len, mode, &mut report).await?,
            Family::Parity(parity) => parity.sync(pos, len, mode, &mut report).await?,
        }
        Ok(report)
    }

    /// Waits until no request is under way that asks members more than once. None begins as long as the guard lives.
    pub(crate) async fn quiet(&self) -> SmallVec<[RangeGuard<'_>; 2]> {
        match self {
            Self::One(Family::Stripes(_)) => SmallVec::new(),
            Self::One(Family::Mirror(mirror)) => smallvec![mirror.quiet().await],
            Self::One(Family::Parity(parity)) => smallvec![parity.quiet().await],
            Self::Split(split) => split.quiet().await,
        }
    }

    /// Waits until no request is under way in these ranges of roles' data areas. None begins there as long as the
    /// guards live. Requests elsewhere go on.
    pub(crate) async fn quiet_in(&self, parts: &[(u16, Range<u64>)]) -> Vec<RangeGuard<'_>> {
        let held = match self.one() {
            Err(_) | Ok(Family::Stripes(_)) => Vec::new(),
            Ok(Family::Mirror(mirror)) => mirror.enter_all(parts),
            Ok(Family::Parity(parity)) => parity.enter_all(parts),
        };
        for held in &held {
            held.granted().await;
        }
        held
    }

    /// The one or two families.
    pub(crate) fn families(&self) -> impl Iterator<Item = &Family> {
        let families = match self {
            Self::One(family) => [Some(family), None],
            Self::Split(split) => [Some(&split.below), Some(&split.above)],
        };
        families.into_iter().flatten()
    }

    /// The mirrors, if the array has some: they choose by how fast members answer.
    pub(crate) fn mirrors(&self) -> impl Iterator<Item = &Mirror> {
        self.families().filter_map(|family| match family {
            Family::Mirror(mirror) => Some(mirror),
            _ => None,
        })
    }
}
