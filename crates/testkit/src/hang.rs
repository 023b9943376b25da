//! Files whose device stops answering, has places that can't be read, or loses unstable writes: a file system in user
//! space (FUSE) that hangs on command.
//!
//! The kernel's protocol is spoken as `linux/fuse.h` has it, as far as members of arrays need it.

use std::collections::VecDeque;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use crate::random::Random;
use crate::skip::Missing;

/// The largest write that the kernel sends at once, in bytes.
const MAX_WRITE: usize = 128 << 10;
const ROOT: u64 = 1;
const NO_ENTRY: i32 = 2;
const INPUT_OUTPUT: i32 = 5;
const NO_SPACE: i32 = 28;
const NOT_SUPPORTED: i32 = 38;
/// A write that is to be stable when it is answered.
const DSYNC: u32 = 0o10_000;
/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// Request numbers, from `linux/fuse.h`.
mod ask {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const SETATTR: u32 = 4;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(super) const WRITE: u32 = 16;
    pub(super) const STATFS: u32 = 17;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FSYNC: u32 = 20;
    pub(super) const FLUSH: u32 = 25;
    pub(super) const INIT: u32 = 26;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const BATCH_FORGET: u32 = 42;
    pub(super) const FALLOCATE: u32 = 43;
}

/// The requests that get no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hang {
    /// Nothing that asks one of the files, by its number.
    File(usize),
    /// fsync of the file.
    Fsync(usize),
    /// Writes to the file.
    Writes(usize),
    /// Nothing at all: as a server of files that was stopped.
    Everything,
}

/// A mounted folder with files of zeroes, `0`, `1` and so on. Unmounted, and everything that waits ended with an error,
/// when dropped.
pub struct HangingFiles {
    folder: TempDir,
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

struct Server {
    device: File,
    state: Mutex<HangState>,
}

struct HangState {
    files: Vec<Vec<u8>>,
    /// Places that can't be read, by the file's node.
    bad: Vec<(u64, Range<usize>)>,
    hang: Option<Hang>,
    held: VecDeque<Vec<u8>>,
    /// The file system is full.
    full: bool,
    /// The cache of each file, if a power cut is to come.
    caches: Vec<Cache>,
}

/// The stable and the unstable writes of a file's device.
struct Cache {
    stable: Vec<u8>,
    /// Since then, in order: where, what, and whether it was to be stable at once.
    written: Vec<(usize, Vec<u8>, bool)>,
}

impl Cache {
    fn flush(&mut self) {
        for (start, data, _) in core::mem::take(&mut self.written) {
            put(&mut self.stable, start, &data);
        }
    }

    /// The content after a power cut: no unstable sector survives, or each does by chance, or all do.
    fn cut(&self, random: &mut Random) -> Vec<u8> {
        let (mut content, percent) = (self.stable.clone(), 50 * random.below(3));
        for (start, data, sure) in &self.written {
            for (at, sector) in data.chunks(SECTOR).enumerate() {
                if *sure || random.below(100) < percent {
                    put(&mut content, start + at * SECTOR, sector);
                }
            }
        }
        content
    }
}

/// Writes to a file, which grows where that is needed.
fn put(file: &mut Vec<u8>, start: usize, data: &[u8]) {
    file.resize(file.len().max(start + data.len()), 0);
    file[start..start + data.len()].copy_from_slice(data);
}

impl HangingFiles {
    /// `count` files of `bytes` bytes.
    ///
    /// # Errors
    /// There is no FUSE here, or this user may not mount.
    pub fn mount(count: usize, bytes: usize) -> Result<Self, Missing> {
        let missing = |why: std::io::Error| {
            Missing::new(format!("a FUSE file system can't be mounted ({why}); run as root, with /dev/fuse"))
        };
        let device = File::options().read(true).write(true).open("/dev/fuse").map_err(missing)?;
        let folder = TempDir::new().map_err(missing)?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = CString::new(options).map_err(|error| missing(error.into()))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("brindle-test", folder.path(), "fuse", flags, Some(options.as_c_str()))
            .map_err(|errno| missing(errno.into()))?;
        let state = HangState {
            files: vec![vec![0; bytes]; count],
            bad: Vec::new(),
            hang: None,
            held: VecDeque::new(),
            full: false,
            caches: Vec::new(),
        };
        let server = Arc::new(Server { device, state: Mutex::new(state) });
        let serving = Arc::clone(&server);
        let thread = std::thread::spawn(move || serving.run());
        Ok(Self { folder, server, thread: Some(thread) })
    }

    /// The name of a file.
    pub fn path(&self, file: usize) -> PathBuf {
        self.folder.path().join(file.to_string())
    }

    /// From now on some or all requests are not answered.
    pub fn hang(&self, what: Hang) {
        self.server.state().hang = Some(what);
    }

    /// Answers all waiting requests, and later ones at once.
    pub fn release(&self) {
        let mut state = self.server.state();
        state.hang = None;
        while let Some(request) = state.held.pop_front() {
            self.server.answer(&mut state, &request);
        }
    }

    /// Requests that wait for an answer.
    pub fn held(&self) -> usize {
        self.server.state().held.len()
    }

    /// Requests among them that look for a file, at it, or open it.
    pub fn held_at_open(&self) -> usize {
        let opens = [ask::LOOKUP, ask::GETATTR, ask::OPEN];
        self.server.state().held.iter().filter(|request| opens.contains(&word(request, 4))).count()
    }

    /// From now on these bytes of a file can't be read, until they are written as a whole.
    pub fn spoil(&self, file: usize, bytes: Range<usize>) {
        self.server.state().bad.push((number(file), bytes));
    }

    /// The file system is full from now on, or has room again.
    pub fn fill_up(&self, full: bool) {
        self.server.state().full = full;
    }

    /// Changes a file's bytes beside the kernel's back: rot.
    pub fn change(&self, file: usize, at: usize, change: impl FnOnce(&mut [u8])) {
        change(&mut self.server.state().files[file][at..]);
    }

    /// From now on it is noted what the files' devices have made stable: all of it, to begin with.
    pub fn watch_caches(&self) {
        let mut state = self.server.state();
        let cache = |file: &Vec<u8>| Cache { stable: file.clone(), written: Vec::new() };
        state.caches = state.files.iter().map(cache).collect();
    }

    /// The content of the files if the power went now. The files themselves go on as before.
    ///
    /// # Panics
    /// If that was not [watched](Self::watch_caches).
    pub fn after_power_cut(&self, random: &mut Random) -> Vec<Vec<u8>> {
        let state = self.server.state();
        assert!(!state.caches.is_empty(), "caches are watched");
        state.caches.iter().map(|cache| cache.cut(random)).collect()
    }

    /// A file's bytes, beside the kernel's back.
    pub fn content(&self, file: usize) -> Vec<u8> {
        self.server.state().files[file].clone()
    }
}

impl Drop for HangingFiles {
    fn drop(&mut self) {
        // Forced: whatever waits for an answer gets an error, else its process could never end.
        let _ = unmount(self.folder.path(), UnmountFlags::FORCE | UnmountFlags::DETACH);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Hang {
    fn concerns(self, asked: u32, node: u64) -> bool {
        let of = |file: usize| node == number(file);
        match self {
            Self::Everything => true,
            Self::File(file) => of(file),
            Self::Fsync(file) => of(file) && asked == ask::FSYNC,
            Self::Writes(file) => of(file) && asked == ask::WRITE,
        }
    }
}

/// The kernel's number of a file: its node.
fn number(file: usize) -> u64 {
    ROOT + 1 + file as u64
}

/// A field of a request.
fn field<const N: usize>(request: &[u8], at: usize) -> [u8; N] {
    request.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

fn word(request: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(field(request, at))
}

fn long(request: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(field(request, at))
}

/// Bytes of the header of a request; its fields follow.
const HEADER: usize = 40;

impl Server {
    fn state(&self) -> MutexGuard<'_, HangState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes requests until the file system is unmounted.
    fn run(&self) {
        let mut buffer = vec![0; MAX_WRITE + 4096];
        loop {
            let len = match (&self.device).read(&mut buffer) {
                Ok(len) => len,
                Err(error) if error.raw_os_error() == Some(NO_ENTRY) => continue, // it was interrupted
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let request = &buffer[..len];
            let (asked, node) = (word(request, 4), long(request, 16));
            let mut state = self.state();
            if state.hang.is_some_and(|hang| hang.concerns(asked, node)) {
                state.held.push_back(request.to_vec());
            } else {
                self.answer(&mut state, request);
            }
        }
    }

    fn answer(&self, state: &mut HangState, request: &[u8]) {
        let (asked, unique) = (word(request, 4), long(request, 8));
        if matches!(asked, ask::FORGET | ask::BATCH_FORGET | ask::INTERRUPT) {
            return;
        }
        let (error, body) = match state.carry_out(asked, request) {
            Ok(body) => (0, body),
            Err(errno) => (-errno, Vec::new()),
        };
        let mut reply = Vec::with_capacity(16 + body.len());
        reply.extend(((16 + body.len()) as u32).to_ne_bytes());
        reply.extend(error.to_ne_bytes());
        reply.extend(unique.to_ne_bytes());
        reply.extend(body);
        // Fails for a request that was interrupted meanwhile.
        let _ = (&self.device).write(&reply);
    }
}

impl HangState {
    fn carry_out(&mut self, asked: u32, request: &[u8]) -> Result<Vec<u8>, i32> {
        let node = long(request, 16);
        let at = |offset: usize| long(request, HEADER + offset);
        match asked {
            ask::INIT => Ok(init(request)),
            ask::LOOKUP => {
                let name = request[HEADER..].split(|&byte| byte == 0).next().unwrap_or_default();
                let name = std::str::from_utf8(name).ok().and_then(|name| name.parse::<usize>().ok());
                let file = name.filter(|&file| file < self.files.len()).ok_or(NO_ENTRY)?;
                let mut entry = words(&[number(file), 0, 0, 0, 0]);
                entry.extend(self.attributes(number(file)));
                Ok(entry)
            }
            ask::GETATTR => Ok([words(&[0, 0]), self.attributes(node)].concat()),
            ask::SETATTR => {
                const SIZE: u32 = 1 << 3;
                if word(request, HEADER) & SIZE != 0 {
                    let size = at(16) as usize;
                    self.file(node)?.resize(size, 0);
                    if let Some(cache) = self.cache(node) {
                        cache.flush();
                        cache.stable.resize(size, 0);
                    }
                }
                Ok([words(&[0, 0]), self.attributes(node)].concat())
            }
            ask::OPEN => Ok(words(&[0, 0])),
            ask::READ => {
                let start = at(8) as usize;
                let end = start + word(request, HEADER + 16) as usize;
                let spoiled =
                    |(of, bad): &(u64, Range<usize>)| *of == node && bad.start < end && start < bad.end;
                if self.bad.iter().any(spoiled) {
                    return Err(INPUT_OUTPUT);
                }
                let file = self.file(node)?;
                Ok(file[start.min(file.len())..end.min(file.len())].to_vec())
            }
            ask::WRITE => {
                if self.full {
                    return Err(NO_SPACE);
                }
                let (start, data) = (at(8) as usize, &request[HEADER + 40..]);
                let whole = start..start + data.len();
                self.bad.retain(|(of, bad)| *of != node || bad.start < whole.start || whole.end < bad.end);
                put(self.file(node)?, start, data);
                let sure = word(request, HEADER + 32) & DSYNC != 0;
                if let Some(cache) = self.cache(node) {
                    cache.written.push((start, data.to_vec(), sure));
                }
                Ok([(data.len() as u32).to_ne_bytes(), [0; 4]].concat())
            }
            ask::FALLOCATE => {
                let file = self.file(node)?;
                let start = (at(8) as usize).min(file.len());
                let end = (start + at(16) as usize).min(file.len());
                file[start..end].fill(0);
                if let Some(cache) = self.cache(node) {
                    cache.written.push((start, vec![0; end - start], false));
                }
                Ok(Vec::new())
            }
            ask::STATFS => Ok(vec![0; 80]),
            ask::FSYNC => {
                if let Some(cache) = self.cache(node) {
                    cache.flush();
                }
                Ok(Vec::new())
            }
            ask::FLUSH | ask::RELEASE => Ok(Vec::new()),
            _ => Err(NOT_SUPPORTED),
        }
    }

    fn file(&mut self, node: u64) -> Result<&mut Vec<u8>, i32> {
        node.checked_sub(number(0)).and_then(|at| self.files.get_mut(at as usize)).ok_or(NO_ENTRY)
    }

    fn cache(&mut self, node: u64) -> Option<&mut Cache> {
        node.checked_sub(number(0)).and_then(|at| self.caches.get_mut(at as usize))
    }

    /// `struct fuse_attr`.
    fn attributes(&mut self, node: u64) -> Vec<u8> {
        let size = self.file(node).map_or(0, |file| file.len() as u64);
        let mode: u32 = if node == ROOT { 0o040_777 } else { 0o100_666 };
        let mut attributes = words(&[node, size, size / 512, 0, 0, 0]);
        for field in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0u32] {
            attributes.extend(field.to_ne_bytes());
        }
        attributes
    }
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// `struct fuse_init_out`: what both sides know.
fn init(request: &[u8]) -> Vec<u8> {
    const ASYNC_READ: u32 = 1;
    const BIG_WRITES: u32 = 1 << 5;
    const ASYNC_DIO: u32 = 1 << 15;
    const MAX_PAGES: u32 = 1 << 22;
    let flags = word(request, HEADER + 12) & (ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES);
    let mut reply = Vec::new();
    let mut add = |fields: &[u32]| reply.extend(fields.iter().flat_map(|field| field.to_ne_bytes()));
    let halves = |low: u16, high: u16| {
        let [a, b] = [low.to_ne_bytes(), high.to_ne_bytes()];
        u32::from_ne_bytes([a[0], a[1], b[0], b[1]])
    };
    // Protocol 7.31; requests in the background and from how many on they are many; the largest write; clock; pages.
    add(&[7, 31, 0, flags, halves(64, 48), MAX_WRITE as u32, 1, halves((MAX_WRITE / 4096) as u16, 0)]);
    reply.resize(64, 0);
    reply
}

/// Whether `path` can be looked at within `patience`: a folder of a file system that hangs can't.
pub fn answers(path: &Path, patience: std::time::Duration) -> bool {
    let (path, (send, receive)) = (path.to_path_buf(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let _ = send.send(std::fs::metadata(path).is_ok());
    });
    receive.recv_timeout(patience).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::skip::or_skip;

    #[test]
    fn what_is_spoiled_can_not_be_read_until_it_is_written() {
        use std::os::unix::fs::FileExt;
        let Some(files) = or_skip(HangingFiles::mount(2, 1 << 20)) else { return };
        files.spoil(1, 4096..8192);
        // Each open has its own view: nothing is read from what the kernel keeps.
        let read =
            |file: usize, at: u64| File::open(files.path(file)).unwrap().read_exact_at(&mut [0; 512], at);
        assert_eq!(read(1, 4096).unwrap_err().raw_os_error(), Some(INPUT_OUTPUT));
        assert!(read(0, 4096).is_ok(), "the other is well");
        File::options().write(true).open(files.path(1)).unwrap().write_all_at(&[1; 4096], 4096).unwrap();
        assert!(read(1, 4096).is_ok());
    }

    #[test]
    fn what_is_not_stable_may_be_lost_sector_by_sector() {
        use std::os::unix::fs::FileExt;
        let Some(files) = or_skip(HangingFiles::mount(1, 64 << 10)) else { return };
        files.watch_caches();
        let file = File::options().write(true).open(files.path(0)).unwrap();
        file.write_all_at(&[1; 4096], 0).unwrap();
        file.sync_data().unwrap();
        file.write_all_at(&[2; 4096], 0).unwrap();
        let mut random = Random::new(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..64 {
            let content = files.after_power_cut(&mut random).remove(0);
            let sectors = content[..4096].chunks(SECTOR);
            assert!(sectors.clone().all(|sector| sector.iter().all(|&byte| byte == sector[0] && byte > 0)));
            seen.insert(sectors.filter(|sector| sector[0] == 2).count());
        }
        assert!(seen.contains(&0) && seen.contains(&8) && seen.len() > 2, "{seen:?}");
    }

    #[test]
    fn files_answer_until_they_are_told_not_to() {
        let Some(files) = or_skip(HangingFiles::mount(2, 1 << 20)) else { return };
        std::fs::write(files.path(0), b"hello").unwrap();
        assert_eq!(std::fs::read(files.path(0)).unwrap(), b"hello");
        assert!(!files.path(2).exists());
        assert_eq!(std::fs::metadata(files.path(1)).unwrap().len(), 1 << 20);
        files.hang(Hang::File(1));
        assert!(!answers(&files.path(1), Duration::from_millis(100)));
        assert!(answers(&files.path(0), Duration::from_secs(60)), "the other goes on");
        assert_eq!(files.held(), 1);
        files.release();
        assert!(answers(&files.path(1), Duration::from_secs(60)));
        files.hang(Hang::Everything);
        let path = files.path(0);
        let waiting = std::thread::spawn(move || std::fs::read(path).is_err());
        while files.held() == 0 {
            std::thread::yield_now();
        }
        drop(files);
        assert!(waiting.join().unwrap(), "whoever waited got an error");
    }
}
