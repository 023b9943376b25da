//! An array in files, the folder on which it is mounted, and a loop device over that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use brindle_tests::files;
use brindle_tests::program::{self, Ran, Server, brindle};
use brindle_tests::tools::{self, Missing};
use rustix::process::Signal;
use tempfile::TempDir;

/// Longest wait of anything that touches a mount, whose server may be gone or hang.
const PATIENCE: &str = "60";

/// A folder on which something is mounted. Whatever becomes of the test, it is unmounted, and its connection is ended first: nothing waits for
/// it then.
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

impl Folder {
    pub(super) fn new(dir: &Path, name: &str) -> Self {
        let path = dir.join(name);
        fs::create_dir(&path).unwrap();
        Self { path }
    }

    pub(super) fn text(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// The file of that name in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The kernel's number of the connection, if something is mounted.
    pub(super) fn connection(&self) -> Option<u32> {
        let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let of = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            (words.get(4) == Some(&self.text())).then(|| words[2].split_once(':')?.1.parse().ok())?
        };
        text.lines().find_map(of)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        while let Some(number) = self.connection() {
            abort(number);
            let ended = Command::new("umount").arg("--lazy").arg(&self.path).status();
            let helped = || Command::new("fusermount3").args(["-u", "-z"]).arg(&self.path).status();
            if !ended.is_ok_and(|ended| ended.success()) && !helped().is_ok_and(|ended| ended.success()) {
                return;
            }
        }
    }
}

/// Runs something that touches a mount, for no longer than it may take.
#[track_caller]
pub(super) fn run(program: &str, args: &[&str]) -> Ran {
    let mut command = Command::new("timeout");
    command.args(["--signal", "KILL", PATIENCE, program]).args(args);
    Ran::of(command)
}

/// Whether there is all that mounts need beside the program.
pub(super) fn available() -> Result<(), Missing> {
    if !Path::new("/dev/fuse").exists() {
        return Err(Missing::new("/dev/fuse is not there"));
    }
    if rustix::process::geteuid().is_root() { Ok(()) } else { tools::find("fusermount3").map(drop) }
}

/// An array in files, with its runtime folder.
pub(super) struct Stage {
    dir: TempDir,
    pub(super) members: Vec<PathBuf>,
}

impl Stage {
    pub(super) fn new(level: &str, count: usize, size: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let members = files::members(dir.path(), "m", count, size);
        let mut words = vec!["create", "--level", level, "--name", "data", "--assume-clean"];
        words.extend(members.iter().map(|member| member.to_str().unwrap()));
        brindle(words).ended(0);
        Self { dir, members }
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn runtime(&self) -> PathBuf {
        self.path().join("run")
    }

    pub(super) fn serve(&self, flags: &[&str]) -> Server {
        let members = self.members.iter().map(|member| member.to_str().unwrap());
        Server::start(&self.runtime(), flags.iter().copied().chain(members))
    }

    /// Runs `brindle COMMAND --runtime-dir ... ARGS`.
    pub(super) fn ask(&self, command: &str, args: &[&str]) -> Ran {
        let runtime = self.runtime();
        let mut words = vec![command, "--runtime-dir", runtime.to_str().unwrap()];
        words.extend(args);
        run(program::path().to_str().unwrap(), &words)
    }

    pub(super) fn sums(&self) -> Vec<String> {
        self.members.iter().map(|member| files::sha256(member)).collect()
    }
}

/// Ends a server in order, which has told of so many members that were failed by command, and of nothing else but rights that it lacks.
#[track_caller]
pub(super) fn stop(server: Server, failed: usize) {
    let (code, err) = server.signal(Signal::TERM);
    let lacks = |line: &&str| line.contains("when memory is short");
    let usual =
        |line: &&str| line.contains("it starts again only with --force") || line.contains(" is slow: ");
    let rest: Vec<&str> = err.lines().filter(|line| !lacks(line) && !usual(line)).collect();
    let by_command = rest.iter().filter(|line| line.ends_with("by command")).count();
    assert!(code == 0 && by_command == failed && rest.len() == failed, "{code}: {err}");
}

pub(super) fn umount(folder: &Folder) -> Ran {
    run(program::path().to_str().unwrap(), &["umount", folder.text()])
}

/// Has a connection of the kernel's answer with errors from now on.
fn abort(connection: u32) {
    let _ = fs::write(format!("/sys/fs/fuse/connections/{connection}/abort"), "1");
}

/// Tries until it is so.
#[track_caller]
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until nothing is mounted there any more.
#[track_caller]
pub(super) fn wait_until_gone(folder: &Folder) {
    until("it stays mounted", || folder.connection().is_none());
}

/// A loop device over a file of a mount, with a file system of it that may be mounted. Whatever becomes of the test, neither stays.
pub(super) struct LoopDevice {
    pub(super) node: String,
    /// The folder on which its file system is mounted.
    pub(super) inner: PathBuf,
    connection: Option<u32>,
}

impl LoopDevice {
    /// A device over the file of that name; `direct` is `on` or `off`.
    pub(super) fn over(folder: &Folder, name: &str, direct: &str) -> Result<Self, Missing> {
        let (inner, file) = (folder.path.with_file_name("inner"), folder.file(name));
        let made =
            run("losetup", &["--find", "--show", &format!("--direct-io={direct}"), file.to_str().unwrap()]);
        if made.code != 0 {
            return Err(Missing::new(format!("no loop device can be had: {}", made.err.trim())));
        }
        let device = Self { node: made.text().trim().to_owned(), inner, connection: folder.connection() };
        fs::create_dir_all(&device.inner).unwrap();
        Ok(device)
    }

    pub(super) fn mount(&self) {
        run("mount", &[&self.node, self.inner.to_str().unwrap()]).ended(0);
    }

    pub(super) fn unmount(&self) {
        run("umount", &[self.inner.to_str().unwrap()]).ended(0);
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Its server may hang: nothing may wait for that.
            self.connection.into_iter().for_each(abort);
        }
        let quietly = |program: &str, args: &[&str]| {
            let mut command = Command::new("timeout");
            command.args(["--signal", "KILL", PATIENCE, program]).args(args);
            command.output().is_ok_and(|ended| ended.status.success())
        };
        let inner = self.inner.to_str().unwrap();
        let _ = quietly("umount", &[inner]) || quietly("umount", &["--lazy", inner]);
        quietly("losetup", &["--detach", &self.node]);
    }
}
