//! The ends of a mount: its server is killed under load, its client is sent away, or it never begins.

use std::fs::{self, File};
use std::io::Error;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use brindle_tests::program;
use brindle_tests::tools::{self, Missing, or_skip};
use rustix::process::Signal;

use super::stage::{Folder, LoopDevice, Stage, available, run, stop, umount, until, wait_until_gone};

/// Bytes of each write.
const PIECE: usize = 1 << 20;

/// A load of writes in order, each of which tells that it has ended. It ends with the first that fails, and with why.
struct Load {
    written: Arc<AtomicU64>,
    thread: JoinHandle<Error>,
}

impl Load {
    fn of(mut write: impl FnMut(u64) -> Result<(), Error> + Send + 'static) -> Self {
        let written = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&written);
        let thread = std::thread::spawn(move || {
            loop {
                if let Err(why) = write(told.load(Ordering::Relaxed)) {
                    return why;
                }
                told.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { written, thread }
    }

    /// Waits until so many were written, while it goes on.
    fn has(&self, count: u64) {
        let enough = || self.written.load(Ordering::Relaxed) >= count || self.thread.is_finished();
        until("the load goes on", enough);
    }

    /// How many were written, and why no more were.
    fn end(self) -> (u64, Error) {
        let why = self.thread.join().expect("it ends by itself");
        (self.written.load(Ordering::Relaxed), why)
    }
}

/// An error that a file has whose server is gone.
#[track_caller]
fn is_of_a_server_that_is_gone(why: &Error) {
    let known = [libc::EIO, libc::ENOTCONN, libc::ECONNABORTED];
    assert!(known.contains(&why.raw_os_error().unwrap()), "{why}");
}

#[test]
fn a_killed_server_leaves_errors_and_no_wrong_bytes() {
    let Some(()) = or_skip(available()) else { return };
    let stage = Stage::new("5", 3, 32 << 20);
    let server = stage.serve(&[]);
    let folder = Folder::new(stage.path(), "folder");
    stage.ask("mount", &["--write", "data", folder.text()]).ok();
    let path = folder.file("data");
    let size = fs::metadata(&path).unwrap().len();
    let pieces = size / PIECE as u64;
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let load = Load::of(move |number| {
        let (bytes, mut read) = (vec![number as u8; PIECE], vec![0; PIECE]);
        let place = (number % pieces) * PIECE as u64;
        file.write_all_at(&bytes, place)?;
        file.read_exact_at(&mut read, place)?;
        assert!(read == bytes, "wrong bytes");
        Ok(())
    });
    load.has(8);
    server.signal(Signal::KILL);
    let (written, why) = load.end();
    is_of_a_server_that_is_gone(&why);
    assert_eq!(fs::metadata(&path).unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    // The next mount clears the folder, and all that was written is there.
    let server = stage.serve(&["--force"]);
    stage.ask("mount", &["data", folder.text()]).ok();
    let content = fs::read(&path).unwrap();
    assert_eq!(content.len() as u64, size);
    for (place, piece) in (0..pieces).zip(content.chunks_exact(PIECE)) {
        // One write may have been under way.
        let last = (0..written).rev().find(|number| number % pieces == place);
        let is_whole = piece.iter().all(|byte| *byte == last.map_or(0, |number| number as u8));
        assert!(is_whole || written % pieces == place, "piece {place} of {written} writes");
    }
    umount(&folder).ok();
    wait_until_gone(&folder);
    drop(server);
}

fn content(number: u64) -> Vec<u8> {
    (0..3 * PIECE as u64 / 8).map(|at| (at ^ at >> 7 ^ (number * 31)) as u8).collect()
}

fn file_of(inner: &Path, number: u64) -> PathBuf {
    inner.join(number.to_string())
}

/// A file system whose device dies tells errors, and what was flushed is there when the server is there again.
fn is_killed_under_a_file_system() -> Result<(), Missing> {
    available()?;
    if !rustix::process::geteuid().is_root() {
        return Err(Missing::new("loop devices need root"));
    }
    for tool in ["losetup", "mount", "mkfs.ext4", "e2fsck"] {
        tools::find(tool)?;
    }
    let stage = Stage::new("6", 4, 64 << 20);
    let server = stage.serve(&[]);
    let folder = Folder::new(stage.path(), "folder");
    stage.ask("mount", &["--write", "data", folder.text()]).ok();
    let device = LoopDevice::over(&folder, "data", "on")?;
    run("mkfs.ext4", &["-q", "-F", &device.node]).ended(0);
    device.mount();
    let inner = device.inner.clone();
    let load = Load::of(move |number| {
        // There is room for all: the oldest go.
        if let Some(old) = number.checked_sub(100) {
            fs::remove_file(file_of(&inner, old))?;
        }
        fs::write(file_of(&inner, number), content(number))?;
        File::open(file_of(&inner, number))?.sync_all()
    });
    load.has(8);
    server.signal(Signal::KILL);
    let (written, why) = load.end();
    // A journal that can't be written makes the file system read-only.
    if why.raw_os_error() != Some(libc::EROFS) {
        is_of_a_server_that_is_gone(&why);
    }
    drop(device);
    let server = stage.serve(&["--force"]);
    stage.ask("mount", &["--write", "data", folder.text()]).ok();
    let device = LoopDevice::over(&folder, "data", "on")?;
    device.mount();
    for number in written.saturating_sub(99)..written {
        let read = fs::read(file_of(&device.inner, number)).unwrap();
        assert!(read == content(number), "file {number} of {written}");
    }
    device.unmount();
    run("e2fsck", &["-f", "-n", &device.node]).ended(0);
    drop(device);
    until("it stays in use", || umount(&folder).code == 0);
    drop(server);
    Ok(())
}

#[test]
fn a_file_system_has_what_it_flushed_when_its_server_is_there_again() {
    let _ = or_skip(is_killed_under_a_file_system());
}

#[test]
fn what_can_not_be_mounted_is_refused_and_leaves_nothing() {
    let Some(()) = or_skip(available()) else { return };
    let stage = Stage::new("1", 2, 8 << 20);
    let server = stage.serve(&["--read-only"]);
    let folder = Folder::new(stage.path(), "folder");
    stage.ask("mount", &["nothing", folder.text()]).refused(1, &["nothing"]);
    stage.ask("mount", &["data", &format!("{}/none", folder.text())]).refused(1, &["none"]);
    fs::write(folder.file("there"), b"1").unwrap();
    stage.ask("mount", &["data", folder.text()]).refused(1, &["not empty", "give an empty folder"]);
    fs::remove_file(folder.file("there")).unwrap();
    stage.ask("mount", &["--write", "data", folder.text()]).refused(1, &["read-only", "without --write"]);
    assert_eq!(folder.connection(), None, "what was not served is unmounted");
    umount(&folder).refused(1, &[folder.text(), "mounted is"]);
    stage.ask("mount", &["data", folder.text()]).ok();
    stage.ask("mount", &["data", folder.text()]).refused(1, &["data is mounted there already"]);
    // By a link to the folder, too.
    let link = stage.path().join("link");
    std::os::unix::fs::symlink("folder", &link).unwrap();
    let through = link.to_str().unwrap();
    stage.ask("mount", &["data", through]).refused(1, &["data is mounted there already"]);
    run(program::path().to_str().unwrap(), &["umount", through]).ok();
    assert_eq!(folder.connection(), None);
    stage.ask("mount", &["data", through]).ok();
    let kept = File::open(folder.file("data")).unwrap();
    umount(&folder).refused(1, &["--lazy"]);
    // A client that is disconnected is gone, and its files say so.
    stage.ask("disconnect", &["data", "local"]).ok();
    let mut byte = [0];
    let why = kept.read_exact_at(&mut byte, 0).unwrap_err().raw_os_error();
    assert!(matches!(why, Some(libc::ENOTCONN | libc::ECONNABORTED)), "{why:?}");
    drop(kept);
    umount(&folder).ok();
    stop(server, 0);
    // Members that are served are not opened a second time, and nothing stays mounted.
    let args: Vec<&str> = ["--members", stage.members[0].to_str().unwrap(), "--", folder.text()].into();
    let none = stage.path().join("none");
    let mut missing = args.clone();
    missing[1] = none.to_str().unwrap();
    stage.ask("mount", &missing).refused(1, &["none"]);
    assert_eq!(folder.connection(), None);
}
