//! Memory that others give and change meanwhile: redundancy stays true, nothing waits without end, and what is rebuilt gets
//! there too.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use brindle_array::{Array, Device, SyncMode, SyncReport};
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::sync::{Either, join_all, race};
use brindle_io::uring::Uring;
use brindle_io::{Io, Pages};
use brindle_layout::{Geometry, Layout, Level};
use brindle_testkit::guest::{self, Guest};
use brindle_testkit::random::pattern;
use brindle_testkit::shape::Shape;
use brindle_testkit::skip::{Missing, or_skip};
use brindle_testkit::world::{in_memory, patient};
use brindle_volume::Volume;

use crate::world::Running;

const BLOCK: usize = 4096;

/// Many that together need more memory than there is for copies, of parts of rows and of whole ones.
#[test]
fn large_writes_take_turns() {
    for level in [Level::Raid1, Level::Raid6] {
        let shape = Shape { chunk: 64 << 10, rows: 128, ..Shape::new(level, 4) };
        let run = Running::of(&shape, patient());
        let (size, len) = (run.size() as usize, 5 << 20);
        let guest = Guest::new(&run.io, BLOCK as u32, size / BLOCK);
        // There is memory for four steps of 4 MiB.
        let places = (0..size - len).step_by(400 << 10).map(|at| at + BLOCK).take(7);
        let write = async |at: usize| {
            let from = guest.slice(at / BLOCK..(at + len) / BLOCK);
            run.array.write(at as u64, from, false).await
        };
        let writes = join_all(places.map(write));
        let restless = guest.restless(&run.io, 0..size / BLOCK);
        let written = match run.io.block_on(race(Box::pin(writes), restless)) {
            Either::First(written) => written,
            Either::Second(never) => never,
        };
        assert_eq!(written, [Ok(()); 7], "{level}");
        assert_eq!(run.run(async |r| r.scrub(SyncMode::Check).await), Ok(SyncReport::default()), "{level}");
    }
}

/// Data that a member can't give are computed from the others and written back to it. The written bytes never come
/// from the reader's memory, which others may change.
#[test]
fn what_is_rebuilt_reaches_the_reader_and_the_member() {
    for level in [Level::Raid1, Level::Raid5, Level::Raid6] {
        let run = Running::of(&Shape::new(level, 4), patient());
        let content = pattern(3, run.size() as usize);
        run.run(async |r| r.write_all(&content).await).unwrap();
        let blocks = content.len() / BLOCK;
        let guest = Guest::new(&run.io, BLOCK as u32, blocks);
        run.bench.spoil(run.ids[0], run.data_offset, 2 * BLOCK as u64);
        // Mirrors choose the copy by turns.
        for _ in 0..4 {
            guest.fill(0..blocks);
            run.io.block_on(run.array.read(0, guest.slice(0..blocks))).unwrap();
            assert!(guest.content(0..blocks) == content, "{level}");
        }
        assert!(run.array.corrected(0) > 0, "{level}");
        // Parity that nobody has read is mended now.
        let found = run.run(async |r| r.scrub(SyncMode::Check).await).unwrap();
        assert_eq!((found.mismatch_sectors, found.unreadable), (0, 0), "{level}");
    }
}

/// An array on files.
fn on_files(io: &Io, uring: &Uring, dir: &std::path::Path, level: Level) -> Array {
    let (members, size) = (4, 1 << 20);
    let open = |n: usize| {
        let path = dir.join(format!("{level}-{n}"));
        File::create(&path).unwrap().set_len(size).unwrap();
        let id = uring.add_member(OpenDevice::open(path, DeviceAccess::Write).unwrap());
        Some(Device { id, data_offset: 0 })
    };
    let chunk = if level == Level::Raid1 { 0 } else { 16 << 10 };
    let geometry = Geometry::new(level, Layout::default_for(level), chunk, &vec![size; members]).unwrap();
    in_memory(io, geometry, (0..members).map(open).collect())
}

/// Ends a thread, whatever becomes of the test.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_guest_on_another_core_makes_no_redundancy_false() {
    let dir = tempfile::tempdir().unwrap();
    for level in [Level::Raid1, Level::Raid10, Level::Raid5, Level::Raid6] {
        let uring = Uring::new().map_err(|error| Missing::new(error.to_string()));
        let Some(uring) = or_skip(uring) else { return };
        let io = Io::new(Box::new(uring.clone()));
        let array = on_files(&io, &uring, dir.path(), level);
        let (memory, ended) = (guest::memory(256 << 10), AtomicBool::new(false));
        let given = io.given(&memory, 0, 256 << 10, Pages::Stay).unwrap();
        std::thread::scope(|scope| {
            let _ends = Ends(&ended);
            scope.spawn(|| {
                for n in 0u64.. {
                    if ended.load(Ordering::Relaxed) {
                        break;
                    }
                    memory.write_all_at(&n.to_le_bytes().repeat(512), n % 64 * 4096).unwrap();
                }
            });
            for n in 0..60u64 {
                let (offset, len) = (n * 17 % 64 * 8192, (1 + n as usize % 16) * 8192);
                let from = given.slice(n % 32 * 4096, len, 512).unwrap();
                io.block_on(array.write(offset, from, false)).unwrap();
            }
        });
        let found = io.block_on(array.sync_window(0, array.sync_len(), SyncMode::Check));
        assert_eq!(found, Ok(SyncReport::default()), "{level}");
        drop((array, given));
        io.shutdown();
    }
}
