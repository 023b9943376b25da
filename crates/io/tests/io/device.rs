//! Opening members and listeners: refusals, and the facts of open devices.

use std::fs::{File, FileTimes};
use std::io::Write as _;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use brindle_io::device::{DeviceAccess, DeviceErrorKind, OpenDevice};
use brindle_io::uring::{ListenError, Uring};
use brindle_io::{Io, PAGE};
use brindle_testkit::skip::{Missing, or_skip};
use tempfile::TempDir;

fn image(dir: &TempDir, name: &str, bytes: u64) -> PathBuf {
    let path = dir.path().join(name);
    File::create(&path).unwrap().set_len(bytes).unwrap();
    path
}

/// A ring, or that there is none here.
fn ring() -> Option<Uring> {
    or_skip(Uring::new().map_err(|error| Missing::new(error.to_string())))
}

/// Why a path is refused; the message must name it.
fn refusal(path: &Path, access: DeviceAccess) -> DeviceErrorKind {
    let error = OpenDevice::open(path, access).expect_err("it is refused");
    assert!(error.to_string().starts_with(&format!("{}: ", path.display())), "{error}");
    error.kind
}

#[test]
fn what_is_no_member_is_refused_by_kind() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    assert_eq!(refusal(&path("missing"), DeviceAccess::Read), DeviceErrorKind::Missing);
    assert_eq!(refusal(dir.path(), DeviceAccess::Read), DeviceErrorKind::NotStorage("a directory"));
    let character = refusal(Path::new("/dev/null"), DeviceAccess::Write);
    assert_eq!(character, DeviceErrorKind::NotStorage("a character device"));
    let _listener = UnixListener::bind(path("socket")).unwrap();
    assert_eq!(refusal(&path("socket"), DeviceAccess::Read), DeviceErrorKind::NotStorage("a socket"));
    assert_eq!(refusal(&image(&dir, "empty", 0), DeviceAccess::Read), DeviceErrorKind::Empty);
    assert_eq!(refusal(&image(&dir, "tiny", 511), DeviceAccess::Read), DeviceErrorKind::Empty);
    // Must not hang, as opening a pipe without a writer does.
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    assert_eq!(refusal(&path("pipe"), DeviceAccess::Read), DeviceErrorKind::NotStorage("a pipe"));
}

#[test]
fn reading_leaves_the_access_time() {
    let dir = TempDir::new().unwrap();
    let path = image(&dir, "a", 1 << 20);
    // Older than the last change: the next read would bring it up to date.
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_times(FileTimes::new().set_accessed(long_ago))
        .unwrap();
    for reactor in [Uring::new(), Uring::on_threads()] {
        let Some(uring) = or_skip(reactor.map_err(|error| Missing::new(error.to_string()))) else { continue };
        let member = uring.add_member(OpenDevice::open(&path, DeviceAccess::Read).unwrap());
        let io = Io::new(Box::new(uring));
        let pool = io.pool(1 << 20);
        io.block_on(async {
            let buf = pool.alloc(PAGE).await;
            let mut group = io.group();
            group.read(member, 0, &buf.all());
            group.submit().await.ok().unwrap();
        });
    }
    assert_eq!(std::fs::metadata(&path).unwrap().accessed().unwrap(), long_ago);
}

#[test]
fn locks_keep_a_second_brindle_away() {
    let dir = TempDir::new().unwrap();
    let path = image(&dir, "a", 1 << 20);
    let writer = OpenDevice::open(&path, DeviceAccess::Write).unwrap();
    assert_eq!(refusal(&path, DeviceAccess::Write), DeviceErrorKind::Busy);
    assert_eq!(refusal(&path, DeviceAccess::Read), DeviceErrorKind::Busy);
    OpenDevice::open(&path, DeviceAccess::Examine).expect("looking is free");
    drop(writer);
    let readers = [
        OpenDevice::open(&path, DeviceAccess::Read).unwrap(),
        OpenDevice::open(&path, DeviceAccess::Read).unwrap(),
    ];
    assert_eq!(refusal(&path, DeviceAccess::Write), DeviceErrorKind::Busy);
    drop(readers);
    OpenDevice::open(&path, DeviceAccess::Write).unwrap();
}

#[test]
fn a_ring_that_ends_lets_go_of_its_members_at_once() {
    let dir = TempDir::new().unwrap();
    let path = image(&dir, "a", 1 << 20);
    for _ in 0..20 {
        let Some(uring) = ring() else { return };
        uring.add_member(OpenDevice::open(&path, DeviceAccess::Write).unwrap());
        drop(brindle_io::Io::new(Box::new(uring)));
    }
    let Some(uring) = ring() else { return };
    let member = uring.add_member(OpenDevice::open(&path, DeviceAccess::Write).unwrap());
    uring.close_member(member);
    OpenDevice::open(&path, DeviceAccess::Write).expect("a closed member is unlocked while its ring lives");
}

#[test]
fn facts_and_identity() {
    let dir = TempDir::new().unwrap();
    // Not a multiple of any block.
    let path = image(&dir, "a", (1 << 20) + 700);
    let device = OpenDevice::open(&path, DeviceAccess::Read).unwrap();
    let info = device.info();
    assert!(info.logical_block == 512 || info.logical_block == 4096, "{info:?}");
    assert_eq!(info.size, ((1 << 20) + 700) / u64::from(info.logical_block) * u64::from(info.logical_block));
    let (linked, other) = (dir.path().join("link"), image(&dir, "b", 1 << 20));
    symlink(&path, &linked).unwrap();
    let identity = |path: &Path| OpenDevice::open(path, DeviceAccess::Read).unwrap().identity();
    assert_eq!(identity(&linked), device.identity());
    assert_ne!(identity(&other), device.identity());
}

#[test]
fn files_of_file_systems_in_memory_are_told_from_others() {
    let Some(uring) = ring() else { return };
    let io = brindle_io::Io::new(Box::new(uring.clone()));
    for place in [std::env::temp_dir(), PathBuf::from("/dev/shm")] {
        let Ok(dir) = TempDir::new_in(&place) else { continue };
        let system = Command::new("stat").args(["-f", "-c", "%T"]).arg(dir.path()).output().unwrap().stdout;
        let in_memory = matches!(system.trim_ascii(), b"tmpfs" | b"ramfs");
        let device = OpenDevice::open(image(&dir, "a", 1 << 20), DeviceAccess::Read).unwrap();
        assert_eq!(io.is_in_memory(uring.add_member(device)), in_memory, "{}", place.display());
    }
}

#[test]
fn a_descriptor_excludes_others_as_a_name_does() {
    let dir = TempDir::new().unwrap();
    let path = image(&dir, "a", 1 << 20);
    let linked = dir.path().join("b");
    std::fs::hard_link(&path, &linked).unwrap();
    let file = || File::options().read(true).write(true).open(&path).unwrap();
    let own = file();
    let given = OpenDevice::given(own.try_clone().unwrap(), "the first", DeviceAccess::Write).unwrap();
    assert_eq!(given.path(), Path::new("the first"));
    assert_eq!(refusal(&path, DeviceAccess::Write), DeviceErrorKind::Busy);
    assert_eq!(refusal(&linked, DeviceAccess::Read), DeviceErrorKind::Busy);
    for again in [own, file()] {
        let why = OpenDevice::given(again, "the second", DeviceAccess::Write).expect_err("it is in use");
        assert_eq!(why.kind, DeviceErrorKind::Busy);
        assert!(why.to_string().starts_with("the second: "), "{why}");
    }
    let seen = OpenDevice::given(file(), "seen", DeviceAccess::Examine).unwrap();
    assert_eq!((seen.identity(), seen.info().size), (given.identity(), 1 << 20));
    drop(given);
    OpenDevice::open(&linked, DeviceAccess::Write).expect("it is free again");
}

#[test]
fn a_descriptor_must_allow_its_use() {
    let dir = TempDir::new().unwrap();
    let path = image(&dir, "a", 1 << 20);
    let [read, write] = [(true, false), (false, true)]
        .map(|(read, write)| move |path: &Path| File::options().read(read).write(write).open(path).unwrap());
    let given = |file: File, access| OpenDevice::given(file, "it", access).map_err(|why| why.kind);
    assert_eq!(given(read(&path), DeviceAccess::Write).unwrap_err(), DeviceErrorKind::NotGivenFor("writing"));
    assert_eq!(given(write(&path), DeviceAccess::Read).unwrap_err(), DeviceErrorKind::NotGivenFor("reading"));
    let folder = given(File::open(dir.path()).unwrap(), DeviceAccess::Read).unwrap_err();
    assert_eq!(folder, DeviceErrorKind::NotStorage("a directory"));
    given(read(&path), DeviceAccess::Read).expect("it may be read");
    // A file that has no name any more.
    let nameless = File::options().read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let device = OpenDevice::given(nameless, "it", DeviceAccess::Write).unwrap();
    let Some(uring) = ring() else { return };
    let member = uring.add_member(device);
    let io = brindle_io::Io::new(Box::new(uring));
    let probe = io.block_on(io.probe(member, brindle_io::Instant::from_nanos(u64::MAX))).unwrap();
    assert_eq!((probe.size, probe.place), (1 << 20, brindle_io::PathTarget::There));
    io.shutdown();
}

#[test]
fn reads_at_any_alignment() {
    let dir = TempDir::new().unwrap();
    let path = image(&dir, "a", 0);
    let bytes: Vec<u8> = (0..100_352u32).map(|at| (at * 7 + (at >> 8)) as u8).collect();
    File::create(&path).unwrap().write_all(&bytes).unwrap();
    let device = OpenDevice::open(&path, DeviceAccess::Read).unwrap();
    let size = device.info().size as usize;
    for (offset, len) in [(0, 4096), (1, 1), (511, 2), (4095, 8194), (0, size), (size - 1, 1), (77, 0)] {
        assert_eq!(
            device.read_at(offset as u64, len).unwrap(),
            bytes[offset..offset + len],
            "{offset}+{len}"
        );
    }
    for (offset, len) in [(size as u64, 1), (0, size + 1), (u64::MAX, 1)] {
        let error = device.read_at(offset, len).expect_err("beyond the end");
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn holes_are_known_and_data_is_not_taken_for_one() {
    let dir = TempDir::new().unwrap();
    let path = image(&dir, "a", 8 << 20);
    let device = OpenDevice::open(&path, DeviceAccess::Examine).unwrap();
    let sparse = device.is_hole(0, 8 << 20).unwrap();
    File::options().write(true).open(&path).unwrap().write_all_at(&[1], 4 << 20).unwrap();
    assert!(!device.is_hole(0, 8 << 20).unwrap());
    assert!(!device.is_hole(4 << 20, 1).unwrap());
    if sparse {
        assert!(device.is_hole(0, 2 << 20).unwrap() && device.is_hole(6 << 20, 2 << 20).unwrap());
    }
}

/// Loop devices need root; refused permissions need another user.
#[test]
fn block_devices_and_permissions() {
    let dir = TempDir::new().unwrap();
    let path = image(&dir, "a", 4 << 20);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    if File::open(&path).is_err() {
        assert_eq!(refusal(&path, DeviceAccess::Read), DeviceErrorKind::Permission);
        let root: Result<(), Missing> = Err(Missing::new("loop devices need root"));
        assert_eq!(or_skip(root), None);
        return;
    }
    let made = Command::new("losetup").args(["--find", "--show"]).arg(&path).output();
    let made = made.ok().filter(|made| made.status.success());
    let Some(made) = or_skip(made.ok_or_else(|| Missing::new("no loop devices here"))) else { return };
    let device = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
    let result = std::panic::catch_unwind(|| {
        assert_eq!(refusal(&path, DeviceAccess::Write), DeviceErrorKind::BacksLoop(device.clone()));
        let opened = OpenDevice::open(&device, DeviceAccess::Write).unwrap();
        assert_eq!(opened.info().size, 4 << 20);
        assert!(opened.direct());
        assert_eq!(opened.read_at(0, 4096).unwrap(), [0; 4096]);
        assert_eq!(refusal(&device, DeviceAccess::Write), DeviceErrorKind::InUse);
        drop(opened);
        assert!(Command::new("blockdev").arg("--setro").arg(&device).status().unwrap().success());
        assert_eq!(refusal(&device, DeviceAccess::Write), DeviceErrorKind::ReadOnly);
        OpenDevice::open(&device, DeviceAccess::Read).expect("reading does no harm");
    });
    // It would stay read-only for its next user.
    assert!(Command::new("blockdev").arg("--setrw").arg(&device).status().unwrap().success());
    assert!(Command::new("losetup").arg("--detach").arg(&device).status().unwrap().success());
    result.unwrap();
}

#[test]
fn socket_paths_in_use() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("socket");
    let (Some(first), Some(second)) = (ring(), ring()) else { return };
    first.listen_unix(&path).unwrap();
    let error = second.listen_unix(&path).expect_err("somebody listens");
    assert!(matches!(&error, ListenError::InUse(at) if *at == path), "{error:?}");
    assert!(error.to_string().starts_with("socket path in use: "));
    UnixStream::connect(&path).expect("the live one was left alone");
    drop(first);
    assert!(!path.exists(), "removed with its listener");

    // A server that was killed leaves its file.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    second.listen_unix(&path).expect("nobody listens any more");
    UnixStream::connect(&path).unwrap();

    let file = image(&dir, "file", 10);
    assert!(matches!(second.listen_unix(&file), Err(ListenError::NotASocket(_))));
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 10);
    let nowhere = dir.path().join("missing/socket");
    assert!(matches!(second.listen_unix(nowhere), Err(ListenError::Path { .. })));

    // A name that another program has taken over is not removed.
    std::fs::remove_file(&path).unwrap();
    let _theirs = UnixListener::bind(&path).unwrap();
    drop(second);
    assert!(path.exists());
}

#[test]
fn tcp_addresses_in_use() {
    let Some(uring) = ring() else { return };
    let listener = uring.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = uring.local_addr(listener).unwrap();
    assert_ne!(address.port(), 0);
    let taken = uring.listen_tcp(address);
    assert!(matches!(taken, Err(ListenError::AddressInUse(at)) if at == address));
    let elsewhere = uring.listen_tcp("192.0.2.1:0".parse().unwrap());
    assert!(matches!(elsewhere, Err(ListenError::Address { .. })));
}
