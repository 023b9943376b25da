//! Memory that a process keeps after arrays were opened and closed. Runs alone in its process, since it measures all
//! of its memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;

use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::sim::Model;
use brindle_io::uring::Uring;
use brindle_io::{Io, MemberId};
use brindle_layout::Level;
use brindle_testkit::shape::Shape;
use brindle_testkit::skip::{Missing, or_skip};
use brindle_testkit::world::{Bench, World};
use brindle_volume::{Volume, ZeroOptions};

const TIMES: usize = 1000;

/// Real files on the ring.
#[derive(Clone)]
struct Files {
    uring: Uring,
    paths: Rc<Vec<PathBuf>>,
}

impl Files {
    fn file(&self, member: MemberId) -> File {
        File::options().read(true).write(true).open(&self.paths[member.index() / 2]).unwrap()
    }
}

impl Bench for Files {
    fn io(&self) -> Io {
        Io::new(Box::new(self.uring.clone()))
    }
    fn peek(&self, member: MemberId, offset: u64, into: &mut [u8]) {
        self.file(member).read_exact_at(into, offset).unwrap();
    }
    fn poke(&self, member: MemberId, offset: u64, from: &[u8]) {
        self.file(member).write_all_at(from, offset).unwrap();
    }
}

fn shape() -> Shape {
    Shape { chunk: 64 << 10, rows: 32, ..Shape::new(Level::Raid6, 4) }
}

/// Opens the array, uses all kinds of its memory, and closes it.
fn open_once<B: Bench>(world: &World<B>, write: bool) {
    let array = world.open();
    if write {
        world.write(&array, 4096, &[7; 5 * 4096]).unwrap();
        world.io.block_on(array.write_zeroes(1 << 20, 8192, ZeroOptions::default())).unwrap();
    }
    world.read(&array, 0, 64 << 10).unwrap();
    world.stop(&array);
}

/// The rest after each opening: arenas, their bytes, and operations in flight.
fn left<B: Bench>(world: &World<B>) -> [usize; 3] {
    [world.io.arenas(), world.io.arena_bytes(), world.io.in_flight()]
}

/// Opens the array a thousand times, and writes to it each `write`th time.
fn open_often<B: Bench>(world: &World<B>, write: usize) {
    (0..3).for_each(|_| open_once(world, true));
    let (before, resident) = (left(world), status("VmRSS:"));
    let pinned = status("VmPin:");
    for time in 0..TIMES {
        open_once(world, time % write == 0);
        assert_eq!(left(world), before, "after {time} times");
    }
    assert_eq!(status("VmPin:"), pinned, "memory that the kernel keeps in place, in KiB");
    let more = status("VmRSS:").saturating_sub(resident);
    assert!(more < 8 << 10, "{more} KiB more are resident after {TIMES} times");
}

/// A figure of this process, in KiB.
fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn in_files(dir: &tempfile::TempDir) -> Result<World<Files>, Missing> {
    let uring = Uring::new().map_err(|error| Missing::new(error.to_string()))?;
    let shape = shape();
    let make = |(at, (offset, bytes)): (usize, (u64, Vec<u8>))| {
        let path = dir.path().join(at.to_string());
        let file = File::create(&path).unwrap();
        file.set_len(shape.device_bytes()).unwrap();
        file.write_all_at(&bytes, offset).unwrap();
        path
    };
    let paths: Vec<_> = shape.superblocks().into_iter().enumerate().map(make).collect();
    let open = |path| uring.add_member(OpenDevice::open(path, DeviceAccess::Write).unwrap());
    let ids = paths.iter().map(open).collect();
    Ok(World::over(Files { uring, paths: Rc::new(paths) }, ids, shape.version))
}

/// One test after the other: a process has one figure of its memory.
#[test]
fn opening_and_closing_leaves_nothing_behind() {
    open_often(&World::of(&shape()), 1);
    open_often(&World::in_sim(&shape(), Model::nvme(), 1), 1);
    let dir = tempfile::tempdir().unwrap();
    if let Some(world) = or_skip(in_files(&dir)) {
        // Each write has a file system write its journal several times.
        open_often(&world, 20);
    }
}
