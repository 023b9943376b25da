//! A file system on an array that is served to be read, with its journal replayed on an overlay: what docs/rescue.md says.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use brindle_tests::tools::{Missing, find, or_skip};

use super::*;

const TOOLS: [&str; 9] =
    ["mkfs.ext4", "debugfs", "e2fsck", "qemu-img", "qemu-nbd", "nbdkit", "nbdfuse", "nbdcopy", "fusermount3"];

/// A program in the background, ended whatever becomes of the test.
struct Running(Child);

impl Running {
    fn start(name: &str, args: &[&str]) -> Self {
        let mut command = Command::new(find(name).unwrap_or_else(|missing| panic!("{missing}")));
        Self(command.args(args).stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::TERM,
        );
        let _ = self.0.wait();
    }
}

fn tool(tool: &str, args: &[&str]) -> Ran {
    let mut command = Command::new(find(tool).unwrap_or_else(|missing| panic!("{missing}")));
    command.args(args);
    Ran::of(command)
}

fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} does not appear", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A file system in whose one file stands `old`, and in whose journal what was to come after it: `new`.
fn interrupted(file: &Path, size: u64, dir: &Path) {
    files::sparse(file, size);
    let [old, new] = ["old", "new"].map(|word| (dir.join(word), word.repeat(400)));
    std::fs::write(&old.0, &old.1[..1024]).unwrap();
    std::fs::write(&new.0, &new.1[..1024]).unwrap();
    tool("mkfs.ext4", &["-q", "-F", "-b", "1024", name(file)]).ended(0);
    tool("debugfs", &["-w", "-R", &format!("write {} f", name(&old.0)), name(file)]).ended(0);
    let block = tool("debugfs", &["-R", "bmap f 0", name(file)]).ended(0).text().trim().to_owned();
    let script = dir.join("script");
    std::fs::write(&script, format!("jo\njw -b {block} {}\njc\n", name(&new.0))).unwrap();
    tool("debugfs", &["-w", "-f", name(&script), name(file)]).ended(0);
    assert_eq!(content(file), "old");
}

/// The first word of the one file.
fn content(file_system: &Path) -> String {
    // With the journal as it is.
    tool("debugfs", &["-R", "cat f", name(file_system)]).ended(0).text()[..3].to_owned()
}

/// Replays the journal of what is served on this socket.
fn repaired(socket: &Path, dir: &Path) {
    let _ = std::fs::create_dir(dir);
    let uri = format!("nbd+unix:///?socket={}", name(socket));
    let fuse = Running::start("nbdfuse", &[&format!("{}/", name(dir)), &uri]);
    let shown = dir.join("nbd");
    wait_for(&shown);
    let reported = tool("e2fsck", &["-f", "-y", name(&shown)]);
    assert!(
        reported.text().contains("recovering journal") || reported.err.contains("recovering journal"),
        "{reported:?}"
    );
    assert!(reported.code == 0 || reported.code == 1, "{reported:?}");
    tool("e2fsck", &["-f", "-n", name(&shown)]).ended(0);
    assert_eq!(content(&shown), "new");
    tool("fusermount3", &["-u", name(dir)]).ended(0);
    drop(fuse);
}

#[test]
fn a_journal_is_replayed_on_an_overlay_and_the_members_stay_as_they_are() {
    let there = |name: &str| or_skip(find(name)).is_some();
    let fuse =
        Path::new("/dev/fuse").exists().then_some(()).ok_or_else(|| Missing::new("there is no /dev/fuse"));
    if !TOOLS.iter().all(|name| there(name)) || or_skip(fuse).is_none() {
        return;
    }
    let set = Set::sparse(3, 12 * MIB);
    set.create("-l 5 -c 64K -N nas").ok();
    let file = set.path("fs");
    interrupted(&file, set.detail()["size"].as_u64().unwrap(), set.dir.path());
    let server = set.serve("");
    tool("nbdcopy", &["--", name(&file), &server.uri()]).ended(0);
    server.stop();
    set.unchanged(|| {
        let socket = set.path("rescue.sock");
        let server = set.serve(&format!("--read-only --nbd unix:{}", name(&socket)));
        let uri = format!("nbd+unix:///?socket={}", name(&socket));

        let (overlay, over) = (set.path("overlay.qcow2"), set.path("qemu.sock"));
        tool("qemu-img", &["create", "-q", "-f", "qcow2", "-F", "raw", "-b", &uri, name(&overlay)]).ended(0);
        let qemu = Running::start(
            "qemu-nbd",
            &["--persistent", "--socket", name(&over), "-f", "qcow2", name(&overlay)],
        );
        wait_for(&over);
        repaired(&over, &set.path("by-qemu"));
        drop(qemu);

        let cow = set.path("cow.sock");
        let at = format!("socket={}", name(&socket));
        // The array's smallest block is no concern of who writes to the overlay.
        let filters = ["--filter=blocksize-policy", "--filter=cow", "nbd", "blocksize-minimum=1", &at];
        let mut args = vec!["--foreground", "--unix", name(&cow)];
        args.extend(filters);
        let nbdkit = Running::start("nbdkit", &args);
        wait_for(&cow);
        repaired(&cow, &set.path("by-nbdkit"));
        drop(nbdkit);
        server.stop();
    });
}
