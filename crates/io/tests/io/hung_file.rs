//! A member that really hangs, under the real ring, and under threads: a file of a file system in user space that stops answering.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::uring::Uring;
use brindle_io::{Duration, Io, Mapped, MemberId, OpError, OpSpan, PAGE, Pool};
use brindle_testkit::hang::{Hang, HangingFiles};
use brindle_testkit::skip::{Missing, or_skip};
use tempfile::TempDir;

const SIZE: usize = 1 << 20;
const SHORT: Duration = Duration::from_millis(50);
/// So long nothing takes on any machine, unless it hangs.
const LONG: Duration = Duration::from_secs(60);

/// Three members: two files that may hang, and one of the machine's own.
struct World {
    hanging: HangingFiles,
    folder: TempDir,
    uring: Uring,
    io: Io,
    pool: Pool,
    hung: MemberId,
    beside: MemberId,
    well: MemberId,
}

fn world(threads: bool) -> Option<World> {
    let hanging = or_skip(HangingFiles::mount(2, SIZE))?;
    let reactor = if threads { Uring::on_threads() } else { Uring::new() };
    let uring = or_skip(reactor.map_err(|error| Missing::new(error.to_string())))?;
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("well"), vec![7; SIZE]).unwrap();
    let open = |path: &Path| uring.add_member(OpenDevice::open(path, DeviceAccess::Write).unwrap());
    let [hung, beside] = [0, 1].map(|file| open(&hanging.path(file)));
    let well = open(&folder.path().join("well"));
    let io = Io::new(Box::new(uring.clone()));
    Some(World { pool: io.pool(4 << 20), hanging, folder, uring, io, hung, beside, well })
}

impl World {
    async fn write(&self, member: MemberId, page: u64, patience: Duration) -> Result<(), OpError> {
        let buf = self.pool.alloc(PAGE).await;
        buf.bytes_mut().fill(page as u8 + 1);
        let mut group = self.io.group();
        group.write(member, page * PAGE as u64, &buf.all(), false);
        group.submit_by(self.io.now().after(patience)).await.ok()
    }

    async fn read(&self, member: MemberId, page: u64, patience: Duration) -> Result<u8, OpError> {
        let buf = self.pool.alloc(PAGE).await;
        let mut group = self.io.group();
        group.read(member, page * PAGE as u64, &buf.all());
        group.submit_by(self.io.now().after(patience)).await.ok()?;
        Ok(buf.bytes()[0])
    }

    async fn flush(&self, member: MemberId, patience: Duration) -> Result<(), OpError> {
        let mut group = self.io.group();
        group.flush(member);
        group.submit_by(self.io.now().after(patience)).await.ok()
    }
}

/// Another process that locks files on request. It must exist before anything hangs: a new process begins by closing
/// the files of its parent, and closing one that hangs waits.
struct Other(Child);

impl Other {
    fn new() -> Self {
        let script = "while read -r path; do flock -n -x \"$path\" true && echo yes || echo no; done";
        let mut shell = Command::new("sh");
        Self(shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn can_lock(&mut self, path: &Path) -> bool {
        writeln!(self.0.stdin.as_mut().unwrap(), "{}", path.display()).unwrap();
        let mut answer = [0; 8];
        let len = self.0.stdout.as_mut().unwrap().read(&mut answer).unwrap();
        answer[..len] == *b"yes\n"
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn a_write_behind_an_fsync_that_hangs_does_not_hold_the_executor(threads: bool) {
    let Some(world) = world(threads) else { return };
    let World { hanging, io, hung, well, .. } = &world;
    hanging.hang(Hang::Fsync(0));
    io.block_on(async {
        world.write(*hung, 0, LONG).await.unwrap();
        let mut group = io.group();
        group.flush(*hung);
        let flush = group.submit();
        while hanging.held() == 0 {
            io.yield_now().await;
        }
        // Its lock is held by the fsync now.
        assert_eq!(world.write(*hung, 1, SHORT).await, Err(OpError::TimedOut));
        world.write(*well, 0, LONG).await.unwrap();
        assert_eq!(world.read(*well, 0, LONG).await, Ok(1));
        hanging.release();
        flush.await.ok().unwrap();
        io.orphans_ended(*hung).await;
    });
}

fn a_member_with_hundreds_of_requests_that_hang_leaves_the_others_their_workers(threads: bool) {
    let Some(world) = world(threads) else { return };
    let World { hanging, io, hung, well, pool, .. } = &world;
    hanging.hang(Hang::Everything);
    io.block_on(async {
        let mut pending = Vec::new();
        for page in 0..200 {
            let mut group = io.group();
            group.read(*hung, page * PAGE as u64, &pool.alloc(PAGE).await.all());
            pending.push(group.submit());
        }
        while hanging.held() == 0 {
            io.yield_now().await;
        }
        for page in 0..50 {
            assert_eq!(world.read(*well, page, LONG).await, Ok(7));
            world.write(*well, page, LONG).await.unwrap();
        }
        world.flush(*well, LONG).await.unwrap();
        io.forsake(*hung);
        for pending in pending {
            assert_eq!(pending.await.ok(), Err(OpError::Gone));
        }
        hanging.release();
        io.orphans_ended(*hung).await;
    });
    assert_eq!(pool.free_bytes(), pool.capacity());
}

fn a_read_that_was_given_up_and_answered_late_fills_only_its_own_memory(threads: bool) {
    let Some(world) = world(threads) else { return };
    let World { hanging, io, hung, well, .. } = &world;
    io.block_on(async {
        world.write(*hung, 3, LONG).await.unwrap();
        hanging.hang(Hang::File(0));
        for _ in 0..20 {
            assert_eq!(world.read(*hung, 3, SHORT / 10).await, Err(OpError::TimedOut));
            assert_eq!(world.read(*well, 3, LONG).await, Ok(7));
        }
        assert!(io.probe(*hung, io.now().after(SHORT)).await.is_err(), "its size is not known either");
        hanging.release();
        io.orphans_ended(*hung).await;
        assert_eq!(world.read(*hung, 3, LONG).await, Ok(4));
    });
    assert_eq!(io.in_flight(), 0);
}

fn whoever_asks_a_hung_member_for_holes_waits_alone_and_the_member_is_thought_no_worse_of(threads: bool) {
    let Some(world) = world(threads) else { return };
    let World { hanging, io, hung, well, pool, uring, .. } = world;
    hanging.hang(Hang::Everything);
    io.block_on(async {
        let asked = io.map(hung, 0, SIZE as u64);
        while hanging.held() == 0 {
            io.yield_now().await;
        }
        assert_eq!(io.map(well, 0, SIZE as u64).await, Ok(Mapped { len: SIZE as u64, hole: false }));
        let oldest = io.oldest(hung, OpSpan::Map).expect("it is under way");
        drop(asked);
        assert_eq!((io.oldest(hung, OpSpan::Map), io.orphans(hung)), (Some(oldest), 0));
        drop(io.map(hung, 0, SIZE as u64));
    });
    io.set_grace(SHORT);
    io.shutdown();
    assert!(io.in_flight() > 0, "what hangs is left behind");
    drop((io, uring, pool));
    hanging.release();
}

fn the_end_of_a_ring_with_a_hung_member_lets_all_others_go_at_once(threads: bool) {
    let mut other = Other::new();
    let Some(world) = world(threads) else { return };
    let well_path = world.folder.path().join("well");
    assert!(!other.can_lock(&well_path), "it is ours");
    let World { hanging, folder, uring, io, pool, hung, beside, well } = world;
    let listening = folder.path().join("socket");
    uring.listen_unix(&listening).unwrap();
    hanging.hang(Hang::Everything);
    let (mut read, mut write) = (io.group(), io.group());
    let (a, b) = (pool.try_alloc(PAGE).unwrap(), pool.try_alloc(PAGE).unwrap());
    read.read(hung, 0, &a.all());
    write.write(hung, PAGE as u64, &b.all(), true);
    write.flush(well);
    drop((read.submit(), write.submit(), a, b));
    io.block_on(async {
        io.sleep(SHORT).await;
        // Of a busy disk it takes longer, and that file is not closed before.
        while io.oldest(well, OpSpan::Slow).is_some() {
            io.sleep(SHORT).await;
        }
    });
    io.set_grace(SHORT);
    let began = std::time::Instant::now();
    io.shutdown();
    assert!(io.in_flight() > 0, "what hangs is left behind");
    drop((io, uring));
    let took = began.elapsed();
    assert!(took < LONG, "it took {took:?}");
    assert!(!listening.exists());
    assert!(other.can_lock(&well_path));
    drop(OpenDevice::open(&well_path, DeviceAccess::Write).unwrap());
    // The other file is of the same file system: closing it waits, and nobody for that.
    hanging.release();
    let again = [0, 1].map(|file| hanging.path(file));
    assert!(OpenDevice::open(&again[1], DeviceAccess::Write).is_ok(), "{beside:?}");
    assert_eq!(pool.free_bytes() % PAGE, 0);
    drop(hanging);
}

/// Each test on the ring and on threads.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod ring {
            $(#[test] fn $name() { super::$name(false); })*
        }
        mod threads {
            $(#[test] fn $name() { super::$name(true); })*
        }
    };
}

on_both!(
    a_write_behind_an_fsync_that_hangs_does_not_hold_the_executor,
    a_member_with_hundreds_of_requests_that_hang_leaves_the_others_their_workers,
    a_read_that_was_given_up_and_answered_late_fills_only_its_own_memory,
    whoever_asks_a_hung_member_for_holes_waits_alone_and_the_member_is_thought_no_worse_of,
    the_end_of_a_ring_with_a_hung_member_lets_all_others_go_at_once,
);
