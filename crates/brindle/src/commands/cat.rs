//! `brindle cat`: the content of an array, to standard output or a file.

mod container;
mod map;
mod output;
mod partitions;
mod rescue;
mod volume;

use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use brindle_array::{Array, DeviceUse, LeftOut};
use brindle_host::ArrayDescription;
use brindle_io::device::{DeviceAccess, Identity};
use brindle_io::{Io, Pool, Slice, Task};
use brindle_volume::{Volume, VolumeError, read_again};

use crate::base::exit_status::{PARTIAL, UNREADABLE};
use crate::base::failure::Failure;
use crate::base::{progress, report};
use crate::devices::host::Host;
use crate::devices::world::{self, Through, WorldOptions, place};
use crate::devices::{containers, pools};
use crate::flags::cli::Cat;
use rescue::Wanted;

/// Bytes of one read of the array, and how many reads run ahead of the output.
const PIECE: usize = 1 << 20;
const AHEAD: u64 = 8;

pub(crate) fn cat(args: &Cat) -> Result<ExitCode, Failure> {
    world::assume(args.assuming.assume.as_ref());
    if let Some((first, members)) = args.members.split_first() {
        if pools::label_of(first).is_some() {
            return Err(Failure::Usage(
                "name the volume before the members of its pool: POOL/VOLUME".to_owned(),
            ));
        }
        if pools::are_of_pool(members) {
            return volume::cat(args, &first.to_string_lossy(), members);
        }
    }
    if args.members.iter().any(|name| containers::is_disk(name)) {
        return container::cat(args);
    }
    let asked = partitions::of(args)?;
    let opening = WorldOptions {
        access: DeviceAccess::Read,
        force: args.force,
        tuning: args.tuning.into(),
        search: Through::of(args.searching.search),
        ..WorldOptions::LOOK
    };
    let host = open(args, &asked.members, opening)?;
    let running = &host.array;
    asked.refuse_other(&running.found)?;
    let described = running.found.description();
    warn_of_unused(&described);
    running.found.set.nested.iter().for_each(|nested| warn_of_unused(&nested.description()));
    for limit in running.found.limits() {
        eprintln!("brindle: {limit}");
    }
    let io = &host.world.io;
    let pool = io.pool(PIECE * (AHEAD as usize + 1));
    let range = meant(args, asked.partition, io, &running.array, &pool)?;
    let Some(to) = &args.output else {
        io.block_on(copy(io, &running.array, &pool, range))?;
        return Ok(ExitCode::SUCCESS);
    };
    let members: Vec<Identity> = host.world.known().iter().map(|(identity, _)| identity.of_whole()).collect();
    let (array, of) = (&running.array, rescue::of(&described, range));
    let lacks = running.found.assembled.is_partial().then(|| described.facts.chunk.unwrap_or(0));
    let hopeless = if lacks.is_some() { u64::MAX } else { rescue::HOPELESS };
    let (map, overwrite) = (args.map.as_deref(), args.overwrite);
    let limits = running.found.limits().into_iter().map(|limit| limit.text);
    let notes = world::notes().into_iter().chain(limits).collect();
    save(io, &pool, &Wanted { array, of, hopeless, lacks, to, map, overwrite, members: &members, notes })
}

/// Opens the array. Truncated members are better than none, and so is a part of the array.
fn open(args: &Cat, members: &[PathBuf], opening: WorldOptions) -> Result<Host, Failure> {
    let why = match Host::open_fit(members, opening) {
        Ok(host) => return Ok(host),
        Err(why) => why,
    };
    let (cut, partial) = (args.force, args.partial || args.force && args.output.is_some());
    let ways = [cut.then(|| opening.with_cut()), partial.then(|| opening.with_partial())];
    let opened = ways.into_iter().flatten().find_map(|way| Host::open_fit(members, way).ok());
    opened.ok_or(why)
}

/// Copies into a file, and reports.
fn save<V: Volume + Clone + 'static>(
    io: &Io,
    pool: &Pool,
    wanted: &Wanted<'_, V>,
) -> Result<ExitCode, Failure> {
    let (reported, whole) = rescue::copy(io, pool, wanted)?;
    report::print(&reported)?;
    Ok(match (whole, wanted.lacks) {
        (true, _) => ExitCode::SUCCESS,
        (false, Some(_)) => ExitCode::from(PARTIAL),
        (false, None) => ExitCode::from(UNREADABLE),
    })
}

/// The bytes of the array that are asked for.
fn meant(
    args: &Cat,
    number: Option<u32>,
    io: &Io,
    array: &Array,
    pool: &Pool,
) -> Result<Range<u64>, Failure> {
    let size = array.limits().size;
    let all = match number {
        None => 0..size,
        Some(number) => partition(io, array, pool, number)?,
    };
    part(args, all, if number.is_some() { "partition" } else { "array" })
}

/// The bytes that are asked for of something that lies here.
fn part(args: &Cat, all: Range<u64>, what: &str) -> Result<Range<u64>, Failure> {
    let start = all.start.saturating_add(args.offset.0);
    let length = args.length.map_or(all.end.saturating_sub(start), |length| length.0);
    let end = start.checked_add(length).filter(|&end| end <= all.end);
    end.map(|end| start..end).ok_or_else(|| {
        let (size, offset) = (all.end - all.start, args.offset.0);
        Failure::Usage(format!(
            "the {what} has {size} bytes: {length} bytes from byte {offset} on go beyond its end; give a smaller --offset or --length"
        ))
    })
}

/// The bytes of a partition on the array.
fn partition(io: &Io, array: &Array, pool: &Pool, number: u32) -> Result<Range<u64>, Failure> {
    let limits = array.limits();
    let all = place::of_bytes(limits.size, 512, |offset, len| {
        // The last page of an array may be a short one.
        let whole = len.next_multiple_of(limits.block as usize);
        let read = io.block_on(read(io, array, pool, offset, whole));
        let slice = read.map_err(|source| Failure::Volume { doing: "reading the array", source })?;
        Ok(slice.bytes()[..len].to_vec())
    })?;
    let found = all.iter().find(|one| one.number == number);
    let found = found.ok_or_else(|| place::none("the array", number, &all))?;
    if found.lacks > 0 {
        world::note(format!(
            "partition {number} of the array is cut: the last {} bytes that its table gives it are not there",
            found.lacks
        ));
    }
    Ok(found.start..found.end)
}

/// Tells on standard error of members that are not read, since they missed writes or have failed.
fn warn_of_unused(array: &ArrayDescription) {
    for device in &array.devices {
        let DeviceUse::LeftOut { why, .. } = device.usage else { continue };
        let why = match why {
            LeftOut::Stale { events } => {
                format!("it is out of date, at event {events} of {}", array.events)
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
    range: Range<u64>,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    // A larger pipe means fewer turns; where it is not available, or this is not a pipe, the default does.
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
