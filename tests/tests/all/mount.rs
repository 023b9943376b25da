//! Arrays as files, on this machine: what programs, loop devices and file systems make of them, and the ends that a mount can have.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use brindle_tests::files;
use brindle_tests::program::{self, Ran, Server, brindle};
use brindle_tests::tools::{self, Missing, or_skip};
use rustix::process::Signal;
use tempfile::TempDir;

/// Longest wait of anything that touches a mount, whose server may be gone or hang.
const PATIENCE: &str = "60";

/// A folder on which something is mounted. Whatever becomes of the test, it is unmounted, and its connection is ended first: nothing waits for
/// it then.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new(dir: &Path, name: &str) -> Self {
        let path = dir.join(name);
        fs::create_dir(&path).unwrap();
        Self { path }
    }

    fn text(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// The file of that name in it.
    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The kernel's number of the connection, if something is mounted.
    fn connection(&self) -> Option<u32> {
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
            let _ = fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1");
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
fn run(program: &str, args: &[&str]) -> Ran {
    let mut command = Command::new("timeout");
    command.args(["--signal", "KILL", PATIENCE, program]).args(args);
    Ran::of(command)
}

/// Whether there is all that mounts need beside the program.
fn available() -> Result<(), Missing> {
    if !Path::new("/dev/fuse").exists() {
        return Err(Missing::new("/dev/fuse is not there"));
    }
    if rustix::process::geteuid().is_root() { Ok(()) } else { tools::find("fusermount3").map(drop) }
}

/// An array in files, with its runtime folder.
struct Stage {
    dir: TempDir,
    members: Vec<PathBuf>,
}

impl Stage {
    fn new(level: &str, count: usize, size: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let members = files::members(dir.path(), "m", count, size);
        let mut words = vec!["create", "--level", level, "--name", "data", "--assume-clean"];
        words.extend(members.iter().map(|member| member.to_str().unwrap()));
        brindle(words).ended(0);
        Self { dir, members }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn runtime(&self) -> PathBuf {
        self.path().join("run")
    }

    fn serve(&self, flags: &[&str]) -> Server {
        let members = self.members.iter().map(|member| member.to_str().unwrap());
        Server::start(&self.runtime(), flags.iter().copied().chain(members))
    }

    /// Runs `brindle COMMAND --runtime-dir ... ARGS`.
    fn ask(&self, command: &str, args: &[&str]) -> Ran {
        let runtime = self.runtime();
        let mut words = vec![command, "--runtime-dir", runtime.to_str().unwrap()];
        words.extend(args);
        run(program::path().to_str().unwrap(), &words)
    }

    fn sums(&self) -> Vec<String> {
        self.members.iter().map(|member| files::sha256(member)).collect()
    }
}

/// Ends a server in order, which has told of so many members that were failed by command, and of nothing else but rights that it lacks.
#[track_caller]
fn stop(server: Server, failed: usize) {
    let (code, err) = server.signal(Signal::TERM);
    let lacks = |line: &&str| line.contains("when memory is short");
    let usual =
        |line: &&str| line.contains("it starts again only with --force") || line.contains(" is slow: ");
    let rest: Vec<&str> = err.lines().filter(|line| !lacks(line) && !usual(line)).collect();
    let by_command = rest.iter().filter(|line| line.ends_with("by command")).count();
    assert!(code == 0 && by_command == failed && rest.len() == failed, "{code}: {err}");
}

fn umount(folder: &Folder) -> Ran {
    run(program::path().to_str().unwrap(), &["umount", folder.text()])
}

/// Waits until nothing is mounted there any more.
#[track_caller]
fn wait_until_gone(folder: &Folder) {
    let begun = Instant::now();
    while folder.connection().is_some() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} stays mounted", folder.text());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_array_and_its_partitions_are_files() {
    let Some(()) = or_skip(available()) else { return };
    let Some(sfdisk) = or_skip(tools::find("sfdisk")) else { return };
    let stage = Stage::new("5", 3, 16 << 20);
    let server = stage.serve(&[]);
    let folder = Folder::new(stage.path(), "folder");
    let mounted = stage.ask("mount", &["--write", "data", folder.text()]).ok().text();
    assert_eq!(mounted, format!("data is mounted at {}\n", folder.text()));
    let file = folder.file("data");
    let size = fs::metadata(&file).unwrap().len();
    // Wherever programs write, and however little.
    let mut content = vec![0u8; size as usize];
    {
        let file = File::options().read(true).write(true).open(&file).unwrap();
        for (round, (at, len)) in
            [(0, 4096), (5, 1), (511, 2), (1 << 20, 3 << 20), (777_777, 100_001), (size as usize - 3, 3)]
                .into_iter()
                .enumerate()
        {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + round * 31 + 1) as u8).collect();
            file.write_all_at(&bytes, at as u64).unwrap();
            content[at..at + len].copy_from_slice(&bytes);
        }
        assert_eq!(file.write_at(b"beyond", size).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        assert!(file.set_len(size + 1).is_err(), "an array does not grow by its file");
        file.sync_all().unwrap();
    }
    assert!(fs::read(&file).unwrap() == content);
    // A table of partitions is found at the next mount.
    let script = "label: gpt\nstart=2048, size=8192\nstart=12288, size=16384\n";
    let shell = format!("printf '{script}' | '{}' --quiet '{}'", sfdisk.display(), file.display());
    run("sh", &["-c", &shell]).ended(0);
    umount(&folder).ok();
    stage.ask("mount", &["data", folder.text()]).ok();
    let mut names: Vec<_> =
        fs::read_dir(&folder.path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["data", "data-part1", "data-part2"]);
    let (whole, part) = (fs::read(&file).unwrap(), fs::read(folder.file("data-part1")).unwrap());
    assert!(part == whole[2048 * 512..][..8192 * 512]);
    let of = fs::metadata(&file).unwrap();
    assert_eq!((of.len(), of.permissions().mode() & 0o777), (size, 0o400));
    let why = File::options().write(true).open(&file).unwrap_err();
    assert_eq!(why.raw_os_error(), Some(libc::EROFS));
    // The mount is a client as any other.
    let status = stage.ask("status", &["data", "--json"]).json();
    let client = status["clients"].as_array().unwrap().iter().find(|one| one["protocol"] == "fuse").unwrap();
    assert!(client["bytes_read"].as_u64().unwrap() >= size, "{client}");
    umount(&folder).ok();
    stop(server, 0);
    let out = stage.path().join("content");
    program::cat(&stage.members, &out);
    assert!(fs::read(out).unwrap() == whole);
}

#[test]
fn holes_are_told_and_made() {
    let Some(()) = or_skip(available()) else { return };
    let stage = Stage::new("1", 2, 16 << 20);
    let server = stage.serve(&[]);
    let folder = Folder::new(stage.path(), "folder");
    stage.ask("mount", &["--write", "data", folder.text()]).ok();
    let file = folder.file("data");
    let text = file.to_str().unwrap();
    let open = File::options().read(true).write(true).open(&file).unwrap();
    open.write_all_at(&[7; 1 << 20], 2 << 20).unwrap();
    // Within blocks, too.
    run("fallocate", &["--punch-hole", "--offset", "2097252", "--length", "300000", text]).ok();
    run("fallocate", &["--zero-range", "--keep-size", "--offset", "2500000", "--length", "1000", text]).ok();
    let mut bytes = vec![1; 1 << 20];
    open.read_exact_at(&mut bytes, 2 << 20).unwrap();
    let zero = |at: usize| (100..300_100).contains(&at) || (402_848..403_848).contains(&at);
    assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == if zero(at) { 0 } else { 7 }));
    let data = rustix::fs::seek(&open, rustix::fs::SeekFrom::Data(0)).unwrap();
    assert!(data <= 2 << 20, "{data}");
    let hole = rustix::fs::seek(&open, rustix::fs::SeekFrom::Hole(data)).unwrap();
    assert!(hole > data, "{hole}");
    drop(open);
    umount(&folder).ok();
    stop(server, 0);
}

/// ext4 on a loop device over the file, while members come and go: what was written is there, and it is clean.
fn file_system(direct: &str) -> Result<(), Missing> {
    available()?;
    if !rustix::process::geteuid().is_root() {
        return Err(Missing::new("loop devices need root"));
    }
    for tool in ["losetup", "mkfs.ext4", "e2fsck", "mount"] {
        tools::find(tool)?;
    }
    let stage = Stage::new("6", 5, 64 << 20);
    let server = stage.serve(&[]);
    let folder = Folder::new(stage.path(), "folder");
    let inner = stage.path().join("inner");
    fs::create_dir(&inner).unwrap();
    stage.ask("mount", &["--write", "data", folder.text()]).ok();
    let file = folder.file("data");
    let made =
        run("losetup", &["--find", "--show", &format!("--direct-io={direct}"), file.to_str().unwrap()]);
    if made.code != 0 {
        return Err(Missing::new(format!("no loop device can be had: {}", made.err.trim())));
    }
    let device = made.text().trim().to_owned();
    let detached = Detached(device.clone(), inner.clone());
    run("mkfs.ext4", &["-q", "-F", &device]).ended(0);
    run("mount", &[&device, inner.to_str().unwrap()]).ended(0);
    let bytes: Vec<u8> = (0..24 << 20).map(|at: u32| (at ^ at >> 11) as u8).collect();
    for round in 0..4 {
        let to = inner.join(round.to_string());
        fs::write(&to, &bytes[round..]).unwrap();
        File::open(&to).unwrap().sync_all().unwrap();
        if round < 2 {
            server.fail(&round.to_string());
        }
        if round == 1 {
            fs::remove_file(inner.join("0")).unwrap();
            run("fstrim", &[inner.to_str().unwrap()]).ended(0);
        }
    }
    fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
    for round in 1..4 {
        assert!(fs::read(inner.join(round.to_string())).unwrap() == bytes[round..], "file {round}");
    }
    run("umount", &[inner.to_str().unwrap()]).ended(0);
    run("e2fsck", &["-f", "-n", &device]).ended(0);
    // It is in use, and stays mounted.
    umount(&folder).refused(1, &["loop devices", "--lazy"]);
    drop(detached);
    let begun = Instant::now();
    while umount(&folder).code != 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it stays in use");
        std::thread::sleep(Duration::from_millis(50));
    }
    stop(server, 2);
    Ok(())
}

/// A loop device, with what may be mounted of it.
struct Detached(String, PathBuf);

impl Drop for Detached {
    fn drop(&mut self) {
        let _ = Command::new("timeout").args([PATIENCE, "umount", "--quiet"]).arg(&self.1).status();
        let _ = Command::new("timeout").args([PATIENCE, "losetup", "--detach", &self.0]).status();
    }
}

#[test]
fn ext4_lives_on_a_direct_loop_device() {
    let _ = or_skip(file_system("on"));
}

#[test]
fn ext4_lives_on_a_buffered_loop_device() {
    let _ = or_skip(file_system("off"));
}

#[test]
fn members_are_browsed_and_stay_as_they_are() {
    let Some(()) = or_skip(available()) else { return };
    let stage = Stage::new("6", 4, 16 << 20);
    let server = stage.serve(&[]);
    let folder = Folder::new(stage.path(), "folder");
    stage.ask("mount", &["--write", "data", folder.text()]).ok();
    let bytes: Vec<u8> = (0..8 << 20).map(|at: u32| (at ^ at >> 9) as u8).collect();
    File::options().write(true).open(folder.file("data")).unwrap().write_all_at(&bytes, 12345).unwrap();
    umount(&folder).ok();
    stop(server, 0);
    let before = stage.sums();
    // Without one of them, and in another order.
    let mut args = vec!["--json", "--members"];
    args.extend(stage.members[1..].iter().rev().map(|member| member.to_str().unwrap()));
    args.extend(["--", folder.text()]);
    let mut server = Server::start_by("mount", &stage.runtime(), &args[1..], &[]);
    let begun = Instant::now();
    while folder.connection().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is mounted");
        std::thread::sleep(Duration::from_millis(20));
    }
    let read = run(
        "dd",
        &[
            "iflag=skip_bytes,count_bytes",
            "skip=12345",
            "count=8388608",
            "bs=1M",
            "status=none",
            &format!("if={}", folder.file("data").display()),
        ],
    );
    assert!(read.ok().out == bytes);
    run("sh", &["-c", &format!("echo 1 > '{}'", folder.file("data").display())]).ended(2);
    // The server ends with the mount.
    umount(&folder).ok();
    let (code, err) = server.end();
    assert_eq!(code, 0, "{err}");
    // And the mount with the server.
    let server = Server::start_by("mount", &stage.runtime(), &args[1..], &[]);
    let begun = Instant::now();
    while folder.connection().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is mounted");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (code, err) = server.signal(Signal::INT);
    assert_eq!(code, 0, "{err}");
    wait_until_gone(&folder);
    assert_eq!(stage.sums(), before, "nothing is written to members");
}

#[test]
fn a_killed_server_leaves_errors_and_no_wrong_bytes() {
    let Some(()) = or_skip(available()) else { return };
    let stage = Stage::new("5", 3, 32 << 20);
    let server = stage.serve(&[]);
    let folder = Folder::new(stage.path(), "folder");
    stage.ask("mount", &["--write", "data", folder.text()]).ok();
    let path = folder.file("data");
    let size = fs::metadata(&path).unwrap().len() / (1 << 20);
    let load = std::thread::spawn(move || {
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let (mut written, mut bytes) = (0u64, vec![0; 1 << 20]);
        loop {
            let place = written % size;
            bytes.fill(written as u8);
            if let Err(why) = file.write_all_at(&bytes, place << 20) {
                return (written, why);
            }
            let mut read = vec![0; 1 << 20];
            match file.read_exact_at(&mut read, place << 20) {
                Ok(()) => assert!(read == bytes, "wrong bytes"),
                Err(why) => return (written, why),
            }
            written += 1;
        }
    });
    std::thread::sleep(Duration::from_millis(500));
    server.signal(Signal::KILL);
    let (written, why) = load.join().unwrap();
    let known = [libc::EIO, libc::ENOTCONN, libc::ECONNABORTED];
    assert!(written > 0 && known.contains(&why.raw_os_error().unwrap()), "{written}: {why}");
    assert_eq!(fs::metadata(folder.file("data")).unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    // The next mount clears the folder.
    let server = stage.serve(&["--force"]);
    stage.ask("mount", &["data", folder.text()]).ok();
    assert_eq!(fs::metadata(folder.file("data")).unwrap().len() >> 20, size);
    umount(&folder).ok();
    wait_until_gone(&folder);
    drop(server);
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

#[test]
fn any_user_mounts_by_the_helper() {
    let Some(()) = or_skip(available()) else { return };
    if !rustix::process::geteuid().is_root() {
        return; // all others of these tests are that
    }
    let Some(_) = or_skip(tools::find("fusermount3").and_then(|_| tools::find("setpriv"))) else { return };
    let stage = Stage::new("5", 3, 16 << 20);
    let program = stage.path().join("brindle");
    fs::copy(program::path(), &program).unwrap();
    fs::set_permissions(stage.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = Folder::new(stage.path(), "folder");
    let runtime = stage.path().join("run");
    fs::create_dir(&runtime).unwrap();
    for path in stage.members.iter().chain([&folder.path, &runtime]) {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    let before = stage.sums();
    let as_nobody = |args: &[&str]| {
        let own = ["--reuid=65534", "--regid=65534", "--clear-groups", program.to_str().unwrap()];
        run("setpriv", &[&own[..], args].concat())
    };
    let mut args = vec!["mount", "--background", "--runtime-dir", runtime.to_str().unwrap(), "--members"];
    args.extend(stage.members.iter().map(|member| member.to_str().unwrap()));
    args.extend(["--", folder.text()]);
    as_nobody(&args).ended(0);
    let read = run(
        "setpriv",
        &[
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "sh",
            "-c",
            &format!("stat -c %u:%a '{0}' && head -c 1000000 '{0}' | wc -c", folder.file("data").display()),
        ],
    );
    assert_eq!(read.ok().text(), "65534:400\n1000000\n");
    as_nobody(&["umount", folder.text()]).ok();
    wait_until_gone(&folder);
    let begun = Instant::now();
    while fs::read_dir(&runtime)
        .unwrap()
        .any(|entry| entry.unwrap().metadata().unwrap().mode() & 0o170_000 == 0o140_000)
    {
        assert!(begun.elapsed() < Duration::from_secs(60), "its server stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(stage.sums(), before);
}
