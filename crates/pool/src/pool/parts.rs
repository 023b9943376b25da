//! Parts of what a pool reports of itself.

use brindle_io::{Duration, MemberId};
use brindle_members::members::RoleState;

use crate::role::Role;
use crate::store::map::Map;

/// A member, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolMember {
    /// Its vdev, and its place there.
    pub role: Role,
    /// Its device, if there is one.
    pub device: Option<MemberId>,
    /// How it does.
    pub state: RoleState,
    /// Blocks of it that were found wrong, or could not be read, since the pool was opened,
    pub wrong: u64,
    /// of these those that were rebuilt and written in place,
    pub mended: u64,
    /// and places of it that count as read errors now: half of them are forgotten each hour.
    pub read_errors: u32,
    /// It was taken out by order, and is to be brought back.
    pub is_offline: bool,
    /// It is a member no more: its number, or its role, is another's next.
    pub is_gone: bool,
    /// It is a spare: it waits for a role.
    pub is_spare: bool,
    /// Of a spare the member whose role it is to take, once it has a copy of all that this one has.
    pub succeeds: Option<u16>,
    /// Segments with something live that it lacks.
    pub lacks: usize,
}

impl PoolMember {
    /// It is out of use, since it failed in this run.
    pub fn is_failed(&self) -> bool {
        self.state == RoleState::Failed
    }
}

/// Background work of a pool, which it does of its own accord.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Batches of the log that are under way.
    pub batches: usize,
    /// A checkpoint is being written, or the table of segments alone.
    pub checkpoint: bool,
    /// Segments are being cleaned.
    pub cleaning: bool,
    /// Blocks with less parity than they can have are moved.
    pub raising: bool,
    /// Members get what they lack.
    pub resilvering: bool,
    /// Leaves of what was given back that are still to be gone through.
    pub reaping: usize,
    /// Segments that tasks read: none of them becomes free.
    pub pinned: usize,
    /// Segments that hold something which a member does not have: it is out of use, or lacks it.
    pub lacking: usize,
    /// The failure of a member is not on record yet.
    pub failing: bool,
    /// Open segments that have held something else since the pool was opened.
    pub reused: usize,
    /// Segments that became free since then.
    pub freed: u64,
}

/// How far members have got what they lack, in the pass under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResilverProgress {
    /// Bytes of segments that were gone over,
    pub position: u64,
    /// and of all that the pass goes over.
    pub total: u64,
    /// Bytes a second, where that is known.
    pub speed: Option<u64>,
    /// The time that is left, where that is known.
    pub left: Option<Duration>,
}

/// The map of a pool, as far as it is in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapUse {
    /// Pages that it has.
    pub pages: u64,
    /// Of these, pages in memory.
    pub in_memory: u64,
    /// Bytes of memory that it takes, with changes that no page has yet,
    pub bytes: u64,
    /// the most that it took since the pool was opened,
    pub most: u64,
    /// and the most that it may take.
    pub limit: u64,
    /// Blocks that were looked up since the pool was opened,
    pub asked: u64,
    /// and of these those for which a page had to be read.
    pub missed: u64,
}

impl MapUse {
    pub(super) fn of(map: &Map, limit: usize) -> Self {
        let (asked, missed) = map.asked();
        Self {
            pages: map.tree.totals().0,
            in_memory: map.tree.pages_in_memory() as u64,
            bytes: map.bytes() as u64,
            most: map.most_bytes().max(map.bytes()) as u64,
            limit: limit as u64,
            asked,
            missed,
        }
    }
}
