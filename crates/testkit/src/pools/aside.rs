//! Volumes that are made, written, renamed and destroyed beside the load.

use std::cell::Cell;

use brindle_io::{Duration, Io};
use brindle_pool::{Pool, PoolVolume};
use brindle_volume::Volume;

use crate::random::Random;

/// The beginning of the names of these volumes.
const ASIDE: &str = "aside";
/// The content of their blocks that were written.
const FILL: u8 = 0x5d;
/// Blocks of one.
const BLOCKS: u64 = 24;

/// Makes volumes, writes to them, renames and destroys them, until the load is done.
///
/// # Errors
/// A promise that was broken.
pub(super) async fn change(pool: &Pool, io: &Io, seed: u64, done: &Cell<bool>) -> Result<(), String> {
    let mut random = Random::stream(seed, 0x6173_6964);
    let buf = io.pool(4096).alloc(4096).await;
    let mut number = 0;
    while !done.get() {
        number += 1;
        let (name, renamed) = (format!("{ASIDE}-{number}"), format!("{ASIDE}-{number}-renamed"));
        let wrong = |doing: &str, why: &dyn core::fmt::Display| format!("{name} is not {doing}: {why}");
        let made = pool.create_volume(&name, BLOCKS * 4096).await;
        let volume = made.map_err(|why| wrong("made", &why))?;
        let count = random.below(BLOCKS);
        buf.bytes_mut().fill(FILL);
        for block in 0..count {
            let fua = random.one_in(8);
            volume.write(block * 4096, buf.all(), fua).await.map_err(|why| wrong("written", &why))?;
        }
        pool.rename_volume(&name, &renamed).await.map_err(|why| wrong("renamed", &why))?;
        let volume = pool.volume(&renamed).filter(|_| pool.volume(&name).is_none());
        let volume = volume.ok_or_else(|| format!("{name} has another name than it should have"))?;
        let held = fills(io, &volume).await?;
        if held.iter().zip(0..).any(|(&fill, block)| fill != if block < count { FILL } else { 0 }) {
            return Err(format!("{name} holds {held:?}, and {count} blocks of it were written"));
        }
        if random.one_in(4) {
            io.sleep(Duration::from_micros(random.below(2000))).await;
        }
        pool.destroy_volume(&renamed).await.map_err(|why| wrong("destroyed", &why))?;
        if pool.volume(&renamed).is_some() || volume.read(0, buf.all()).await.is_ok() {
            return Err(format!("{name} is there though it was destroyed"));
        }
    }
    Ok(())
}

/// Those that a power cut left hold what was written to them, and nothing else; they are destroyed.
///
/// # Errors
/// A promise that was broken.
pub(super) async fn is_true(pool: &Pool, io: &Io) -> Result<(), String> {
    for record in pool.volumes().iter().filter(|record| record.name.starts_with(ASIDE)) {
        let name = &record.name;
        let volume = pool.volume(name).ok_or_else(|| format!("{name} is listed and not there"))?;
        let held = fills(io, &volume).await?;
        if held.iter().any(|&fill| fill != 0 && fill != FILL) {
            return Err(format!("{name} holds {held:?}"));
        }
        pool.destroy_volume(name).await.map_err(|why| format!("{name} is not destroyed: {why}"))?;
    }
    Ok(())
}

/// The byte that each block consists of.
async fn fills(io: &Io, volume: &PoolVolume) -> Result<Vec<u8>, String> {
    let (buf, mut fills) = (io.pool(4096).alloc(4096).await, Vec::new());
    for block in 0..volume.limits().size / 4096 {
        let read = volume.read(block * 4096, buf.all()).await;
        read.map_err(|why| format!("block {block} of a volume aside: {why}"))?;
        let bytes = buf.bytes();
        if bytes.iter().any(|&byte| byte != bytes[0]) {
            return Err(format!("block {block} of a volume aside is torn"));
        }
        fills.push(bytes[0]);
    }
    Ok(fills)
}
