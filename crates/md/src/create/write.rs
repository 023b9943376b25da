//! Carrying out a plan.

use brindle_io::{Buf, Io, MemberId, OpClass, OpError, Pool};

use super::{Plan, PlannedWrite};

/// A device that could not be written to. What was written before stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct PlanError {
    /// The device's number in the plan.
    pub device: usize,
    /// The reason.
    pub error: OpError,
}

impl Plan {
    /// Makes the array: zeroes over old superblocks, then bitmaps and the new superblocks, each to stable storage. `devices` are the
    /// reactor's numbers of the plan's devices, in their order. Needs 4 KiB of `pool` at a time.
    ///
    /// # Errors
    /// A [`PlanError`] that names the first device that refused, with what it said; [`OpError::Gone`] if there is no such.
    pub async fn write(&self, io: &Io, pool: &Pool, devices: &[MemberId]) -> Result<(), PlanError> {
        for write in self.writes() {
            let refused = |error| PlanError { device: write.device, error };
            let id = *devices.get(write.device).ok_or_else(|| refused(OpError::Gone))?;
            let buf = filled(pool, write).await;
            let mut group = io.group_of(OpClass::Metadata);
            group.write(id, write.offset, &buf.all(), true);
            group.submit().await.ok().map_err(refused)?;
        }
        Ok(())
    }
}

async fn filled(pool: &Pool, write: &PlannedWrite) -> Buf {
    let buf = pool.alloc(write.bytes.len()).await;
    buf.bytes_mut().copy_from_slice(&write.bytes);
    buf
}
