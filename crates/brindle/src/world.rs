//! The real world: one ring on this thread, and the arrays on it.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use brindle_array::assembly::Assembly;
use brindle_array::{Array, OpenConfig};
use brindle_io::device::Access as DeviceAccess;
use brindle_io::uring::Uring;
use brindle_io::{Io, MemberId};

use crate::cli::{ReadPolicy, Tuning};
use crate::failure::Failure;
use crate::members::{self, Member};

/// A ring and its executor.
pub(crate) struct World {
    pub(crate) uring: Uring,
    pub(crate) io: Io,
}

impl World {
    pub(crate) fn new() -> Result<Self, Failure> {
        let uring = Uring::new()?;
        Ok(Self { io: Io::new(Box::new(uring.clone())), uring })
    }

    /// Hands devices to the ring, in their order.
    pub(crate) fn adopt(&self, members: Vec<Member>) -> Vec<MemberId> {
        members.into_iter().map(|member| self.uring.add_member(member.device)).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.io.shutdown();
    }
}

/// An array that was put together from devices, and the world in which it runs.
pub(crate) struct Running {
    pub(crate) world: World,
    pub(crate) array: Array,
    pub(crate) assembly: Assembly,
}

/// How an array is to be opened.
pub(crate) struct Opening<'a> {
    pub(crate) paths: &'a [PathBuf],
    pub(crate) access: DeviceAccess,
    pub(crate) force: bool,
    pub(crate) tuning: Tuning,
}

/// Opens the devices and the array on them.
pub(crate) fn open(opening: &Opening<'_>) -> Result<Running, Failure> {
    let members = members::open_all(opening.paths, opening.access)?;
    let assembly = members::assembly(&members, opening.force)?;
    let world = World::new()?;
    let ids = world.adopt(members);
    let array = world.io.block_on(Array::open(&world.io, assembly.clone(), &ids, config(opening)))?;
    Ok(Running { world, array, assembly })
}

fn config(opening: &Opening<'_>) -> OpenConfig {
    let access = match opening.access {
        DeviceAccess::Write => brindle_array::Access::ReadWrite,
        DeviceAccess::Read | DeviceAccess::Examine => brindle_array::Access::ReadOnly,
    };
    OpenConfig {
        scratch_bytes: (opening.tuning.memory.0 / 4) as usize,
        read_policy: match opening.tuning.read_policy {
            ReadPolicy::LeastOutstanding => brindle_array::ReadPolicy::LeastOutstanding,
            ReadPolicy::RoundRobin => brindle_array::ReadPolicy::RoundRobin,
            ReadPolicy::First => brindle_array::ReadPolicy::First,
        },
        ..OpenConfig::new(access, seconds_since_1970)
    }
}

/// The time of day, for the superblocks.
pub(crate) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
