//! `brindle cat`: the content of an array, to standard output.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use brindle_array::assembly::{Assembly, DeviceUse, LeftOut};
use brindle_io::device::DeviceAccess;
use brindle_io::{Io, Pool, Slice, Task};
use brindle_volume::{Volume, VolumeError, read_again};

use crate::cli::Cat;
use crate::failure::Failure;
use crate::host::Host;
use crate::pools::{self, Alone};
use crate::progress;
use crate::world::Opening;

/// Bytes of one read of the array, and how many reads run ahead of the output.
const PIECE: usize = 1 << 20;
const AHEAD: u64 = 8;

pub(crate) fn cat(args: &Cat) -> Result<(), Failure> {
    if let Some((first, members)) = args.members.split_first() {
        if pools::label_of(first).is_some() {
            return Err(Failure::Usage(
                "name the volume before the members of its pool: POOL/VOLUME".to_owned(),
            ));
        }
        if pools::are_of_pool(members) {
            return cat_volume(args, &first.to_string_lossy(), members);
        }
    }
    let opening =
        Opening { access: DeviceAccess::Read, force: args.force, tuning: args.tuning, ..Opening::LOOK };
    let host = Host::open_fit(&args.members, opening)?;
    let running = host.only();
    warn_of_unused(&running.found.assembly);
    running.found.set.nested.iter().for_each(|nested| warn_of_unused(&nested.assembly));
    for limit in running.found.limits() {
        eprintln!("brindle: {limit}");
    }
    give(args, &host.world.io, &running.array, "array")
}

/// The content of a volume of a pool: up to as many members may be missing as it has parity.
fn cat_volume(args: &Cat, name: &str, members: &[PathBuf]) -> Result<(), Failure> {
    let (pool, volume) = pools::split(name)?;
    let alone = Alone::open(members, DeviceAccess::Read, args.tuning)?;
    let opened = &alone.opened.pool;
    let (is, has) = (&opened.label().name, opened.volumes());
    let Some(volume) = opened.volume(volume).filter(|_| is == pool) else {
        let has: Vec<String> = has.iter().map(|volume| format!("{is}/{}", volume.name)).collect();
        let has = if has.is_empty() { "no volumes".to_owned() } else { has.join(", ") };
        return Err(Failure::Usage(format!("there is no volume {name}: the pool {is} has {has}")));
    };
    give(args, &alone.world.io, &volume, "volume")
}

/// Copies what is asked for of a volume.
fn give(args: &Cat, io: &Io, from: &(impl Volume + Clone + 'static), what: &str) -> Result<(), Failure> {
    let size = from.limits().size;
    let offset = args.offset.0;
    let length = args.length.map_or(size.saturating_sub(offset), |length| length.0);
    let end = offset.checked_add(length).filter(|&end| end <= size).ok_or_else(|| {
        Failure::Usage(format!(
            "the {what} has {size} bytes: {length} bytes from byte {offset} on go beyond its end"
        ))
    })?;
    let pool = io.pool(PIECE * (AHEAD as usize + 1));
    io.block_on(copy(io, from, &pool, offset..end))
}

/// Tells on standard error of members that are not read, since they missed writes or have failed.
fn warn_of_unused(assembly: &Assembly) {
    for device in &assembly.devices {
        let DeviceUse::LeftOut { why, .. } = device.usage else { continue };
        let why = match why {
            LeftOut::Stale { events } => {
                format!("it is out of date, at event {events} of {}", assembly.events)
            }
            LeftOut::Faulty => "the array says that it has failed".to_owned(),
            LeftOut::Replacement => "it is an unfinished replacement".to_owned(),
        };
        eprintln!("brindle: {}: {why}; going on without it", device.label);
    }
}

/// Copies a range in order; reads run ahead while the pipe is written to.
async fn copy(
    io: &Io,
    array: &(impl Volume + Clone + 'static),
    pool: &Pool,
    range: std::ops::Range<u64>,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    // A larger pipe means fewer turns; where it can't be had, or this is no pipe, the default does.
    let _ = rustix::pipe::fcntl_setpipe_size(out.as_fd(), PIECE);
    let bar = progress::bar("reading", range.end - range.start);
    let block = u64::from(array.limits().block);
    let mut next = range.start / block * block;
    let mut ahead = std::collections::VecDeque::new();
    let mut at = range.start;
    while at < range.end {
        while ahead.len() < AHEAD as usize && next < range.end {
            let len = (range.end.next_multiple_of(block) - next).min(PIECE as u64);
            ahead.push_back((next, read(io, array, pool, next, len as usize)));
            next += len;
        }
        let Some((from, task)) = ahead.pop_front() else { break };
        let buf = task.await.map_err(|source| Failure::Volume { doing: "reading", source })?;
        let bytes = buf.bytes();
        let (first, last) = ((at - from) as usize, (range.end - from).min(bytes.len() as u64) as usize);
        out.write_all(&bytes[first..last]).map_err(|source| Failure::output("standard output", source))?;
        at = from + last as u64;
        bar.set_position(at - range.start);
    }
    bar.finish_and_clear();
    out.flush().map_err(|source| Failure::output("standard output", source))
}

fn read(
    io: &Io,
    array: &(impl Volume + Clone + 'static),
    pool: &Pool,
    offset: u64,
    len: usize,
) -> Task<Result<Slice, VolumeError>> {
    let (array, pool) = (array.clone(), pool.clone());
    io.spawn(async move { read_again(&array, offset, async || pool.alloc(len).await.all()).await })
}
