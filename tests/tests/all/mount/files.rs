//! Bytes, holes and partitions of arrays, as files.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::{Duration, Instant};

use brindle_tests::program::{self, Server};
use brindle_tests::tools::{self, or_skip};
use rustix::process::Signal;

use super::stage::{Folder, Stage, available, run, stop, umount, wait_until_gone};

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
