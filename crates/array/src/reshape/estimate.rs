//! How long data are going to be moved, told before it begins.

use core::num::NonZeroU64;

use brindle_io::sync::{Either, race};
use brindle_io::{Duration, Instant};
use brindle_volume::{Volume, VolumeError};

use super::rows;
use crate::array::Array;
use crate::grow::GrowPlan;

/// Parts of the array that are read for it, from its start to its end.
const PARTS: u64 = 4;
/// Most bytes of a part.
const PART: u64 = 8 << 20;
/// Nothing is told if members take longer.
const PATIENCE: Duration = Duration::from_secs(3);
const NANOS: u128 = 1_000_000_000;

impl Array {
    /// The time that the data of a plan are going to be moved, about: at the pace at which parts of the array are read now, beside its
    /// clients. `None` if nothing is to be moved, or members don't answer.
    pub async fn time_to_move(&self, plan: &GrowPlan) -> Option<Duration> {
        let (old, new) = (rows(&plan.from)?, rows(&plan.to)?);
        if plan.moved() == 0 {
            return None;
        }
        let (bytes, nanos) = self.read_now().await?;
        // Members are read, and then written to, all at the same time; rows of zeroes come last.
        let of_each = u128::from(new.chunk() * new.rows()) * u128::from(old.data_members());
        let copied = (u128::from(plan.moved()) + of_each) * nanos / u128::from(bytes);
        let total = u128::from(new.row_data_bytes() * new.rows());
        let paced = self.speeds().pace.map_or(0, |pace| total * NANOS / u128::from(NonZeroU64::get(pace)));
        u64::try_from(copied.max(paced)).ok().map(Duration::from_nanos)
    }

    /// Bytes of some parts of the array, and the nanoseconds that it took to read them.
    async fn read_now(&self) -> Option<(u64, u128)> {
        let io = self.0.core.io.clone();
        let (array, begun) = (self.clone(), io.now());
        let reading = io.spawn(async move { array.read_parts().await });
        match race(reading, io.sleep(PATIENCE)).await {
            Either::First(Ok(bytes)) if bytes > 0 => Some((bytes, since(begun, io.now()))),
            _ => None,
        }
    }

    async fn read_parts(&self) -> Result<u64, VolumeError> {
        let limits = self.limits();
        let block = u64::from(limits.block).max(1);
        let len = PART.min(limits.size / PARTS) / block * block;
        let buf = self.0.core.io.pool(PART as usize).alloc(len as usize).await;
        for part in 0..PARTS {
            let at = limits.size / PARTS * part / block * block;
            self.read(at, [buf.slice(0..len as usize)]).await?;
        }
        Ok(len * PARTS)
    }
}

fn since(begun: Instant, now: Instant) -> u128 {
    now.since(begun).as_nanos().max(1)
}
