//! The sim world: virtual time, seeds, caches that forget, and drives that do all that real ones may do.

mod changes;
mod faults;
mod measured;
mod power;
mod sockets;
mod time;

use brindle_io::sim::Sim;
use brindle_io::{Io, MemberId, OpError, PAGE, Pool};

fn world(seed: u64) -> (Sim, Io, Pool) {
    let sim = Sim::new(seed);
    let (io, pool) = start(&sim);
    (sim, io, pool)
}

/// A process begins in a world.
fn start(sim: &Sim) -> (Io, Pool) {
    let io = Io::new(Box::new(sim.clone()));
    let pool = io.pool(8 << 20);
    (io, pool)
}

/// Writes a page of `byte`.
async fn write(
    io: &Io,
    pool: &Pool,
    member: MemberId,
    offset: u64,
    byte: u8,
    fua: bool,
) -> Result<(), OpError> {
    write_bytes(io, pool, member, offset, &[byte; PAGE], fua).await
}

async fn write_bytes(
    io: &Io,
    pool: &Pool,
    member: MemberId,
    offset: u64,
    bytes: &[u8],
    fua: bool,
) -> Result<(), OpError> {
    let buf = pool.alloc(bytes.len()).await;
    buf.bytes_mut().copy_from_slice(bytes);
    let mut group = io.group();
    group.write(member, offset, &buf.all(), fua);
    group.submit().await.ok()
}

async fn read(io: &Io, pool: &Pool, member: MemberId, offset: u64, len: usize) -> Result<Vec<u8>, OpError> {
    let buf = pool.alloc(len).await;
    let mut group = io.group();
    group.read(member, offset, &buf.all());
    group.submit().await.ok()?;
    Ok(buf.bytes().to_vec())
}

async fn flush(io: &Io, member: MemberId) -> Result<(), OpError> {
    let mut group = io.group();
    group.flush(member);
    group.submit().await.ok()
}

/// The bytes that a reader of the drive would see.
fn look(sim: &Sim, member: MemberId, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    sim.peek(member, offset, &mut bytes);
    bytes
}
