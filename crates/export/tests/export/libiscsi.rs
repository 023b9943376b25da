//! The conformance suite of libiscsi, against disks in RAM behind two portals.
//!
//! One suite at a time, each a process of its own with its time. The result is what its XML says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use brindle_export::iscsi::login::{Chap, Credentials};
use brindle_export::iscsi::{IscsiConfig, Server, TargetSpec};
use brindle_export::scsi::Identity;
use brindle_export::scsi::reservation::Reservations;
use brindle_export::{Config, Gate};
use brindle_io::Io;
use brindle_io::uring::Uring;
use brindle_testkit::ram::RamVolume;
use brindle_testkit::skip;

/// Much more than a suite takes on an idle machine: a suite that hangs is to be told of.
const PATIENCE: Duration = Duration::from_secs(120);
const SIZE: u64 = 16 << 20;

/// Disks: the usual one; a fresh one, whose blocks are zero, as a test of several paths assumes; one whose physical
/// blocks are no larger than its logical ones, for a test of unmapped blocks. Also one that takes no writes, and one
/// with room for the longest copy twice.
const DISKS: [&str; 5] = ["disk", "fresh", "plain", "ro", "large"];

/// Suites that have another disk than the usual one.
const OTHER_DISKS: [(&str, &str); 4] =
    [("MultipathIO", "fresh"), ("GetLBAStatus", "plain"), ("ReadOnly", "ro"), ("ExtendedCopy", "large")];

/// Tests that suites skip: a disk need not have these.
const SKIPPED: [(&str, &str); 8] = [
    // Of 1.20: a test that is given no session.
    ("iSCSITMF", "Not an iSCSI device"),
    ("PreventAllow", "not removable"),
    ("NoMedia", "not removable"),
    ("StartStopUnit", "not removable"),
    ("ReadDefectData10", "not implemented"),
    ("ReadDefectData12", "not implemented"),
    ("Sanitize", "sanitize"),
    ("WriteAtomic16", "not implemented"),
];

/// Tests of 1.20 that reject correct behaviour. One means to send COMPARE AND WRITE with a wrong count, sends the
/// right one, and fails because the command is carried out. The other offers SHA-256 for CHAP, which goes before MD5
/// here, and knows MD5 alone.
const MISTAKEN: [(&str, &str); 2] = [("CompareAndWrite", "InvalidDataOutSize"), ("iSCSICHAP", "> Simple <")];

/// A suite of 1.20 that waits for ever: it asks for SendTargets=All in a session that is not for discovery, where RFC 7143 (appendix C) has it
/// refused, and takes an answer in words for the end of the connection.
const NOT_RUN: [&str; 1] = ["iSCSISendTargets"];

/// The suite that needs initiators to prove themselves.
const CHAP: &str = "iSCSICHAP";
const SECRET: &str = "a-secret-of-20-bytes";

fn name(disk: &str) -> String {
    format!("iqn.2026-11.dev.brindle:{disk}")
}

/// A server of the disks.
fn server(io: &Io, chap: Option<Chap>) -> Server<RamVolume> {
    let config = IscsiConfig { session: Config::default(), chap, random: Box::new(|bytes| bytes.fill(7)) };
    let server = Server::new(io, config);
    for (at, disk) in DISKS.into_iter().enumerate() {
        let volume = RamVolume::with(io, |limits| {
            limits.size = if disk == "large" { 4 * SIZE } else { SIZE };
            limits.preferred = if disk == "plain" { 512 } else { 4096 };
            limits.read_only = disk == "ro";
        });
        let identity = Identity { uuid: [at as u8 + 1; 16], product: disk.to_owned(), target: name(disk) };
        let (reservations, gate) = (Reservations::default(), Rc::<Gate>::default());
        server.add_target(TargetSpec { identity, volume, reservations, keep: None, gate });
    }
    server
}

/// Serves until the other end of `over` is dropped; tells the ports, of which the last is for initiators that prove themselves.
fn serve(ports: &mpsc::Sender<Vec<u16>>, over: &mpsc::Receiver<()>) {
    let uring = Uring::new().expect("a ring");
    let io = Io::new(Box::new(uring.clone()));
    let known = vec![Credentials { name: "one".to_owned(), secret: SECRET.as_bytes().to_vec() }];
    let (open, closed) =
        (server(&io, None), server(&io, Some(Chap::new(known, None).expect("a good secret"))));
    let listen = |server: &Server<RamVolume>| {
        let socket = uring.listen_tcp(([127, 0, 0, 1], 0).into()).expect("a port");
        let address = uring.local_addr(socket).expect("an address");
        server.serve(socket, Some(address.to_string()));
        address.port()
    };
    ports.send([&open, &open, &closed].map(listen).to_vec()).expect("somebody listens");
    io.block_on(async {
        while over.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
            io.sleep(brindle_io::Duration::from_millis(20)).await;
        }
        open.stop().await;
        closed.stop().await;
    });
}

/// The result of a suite.
struct Came {
    passed: usize,
    failed: Vec<String>,
    skipped: BTreeSet<String>,
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    text.split(from).skip(1).filter_map(|rest| rest.split(to).next()).collect()
}

fn run(program: &Path, folder: &Path, suite: &str, uris: &[String]) -> Came {
    let out = std::fs::File::create(folder.join("out")).expect("a file");
    let mut child = Command::new(program)
        .args(["-d", "-x", "-t", &format!("ALL.{suite}")])
        .args(uris)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("the file again"))
        .stderr(out)
        .spawn()
        .expect("iscsi-test-cu starts");
    let begun = Instant::now();
    while child.try_wait().expect("it runs").is_none() {
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            let _ = std::fs::remove_file(folder.join("CUnitAutomated-Results.xml"));
            return Came { passed: 0, failed: vec!["it does not end".to_owned()], skipped: BTreeSet::new() };
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let said = String::from_utf8_lossy(&std::fs::read(folder.join("out")).expect("its words")).into_owned();
    let results = folder.join("CUnitAutomated-Results.xml");
    let xml = std::fs::read_to_string(&results).unwrap_or_else(|error| panic!("{suite}: {error}: {said}"));
    std::fs::remove_file(results).expect("the next suite writes its own");
    let failed = between(&xml, "<CUNIT_RUN_TEST_FAILURE>", "</CUNIT_RUN_TEST_FAILURE>");
    let mut failed: Vec<String> =
        failed.into_iter().map(|one| one.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    if let Some(last) = failed.last_mut() {
        said.lines().filter(|line| line.contains("FAIL")).for_each(|line| last.extend(["\n", line]));
    }
    let skipped = said.lines().filter(|line| line.contains("[SKIPPED]")).map(|line| line.trim().to_owned());
    Came { passed: xml.matches("<CUNIT_RUN_TEST_SUCCESS>").count(), failed, skipped: skipped.collect() }
}

fn suites(program: &Path) -> Vec<String> {
    let list = Command::new(program).arg("-l").output().expect("iscsi-test-cu starts");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let suite =
        |line: &str| Some(line.trim().strip_prefix("ALL.")?.to_owned()).filter(|name| !name.contains('.'));
    list.lines().filter_map(suite).collect()
}

/// The suite of this machine, and that of Debian 13 if `scripts/install-test-deps.sh` could unpack it.
fn programs() -> Vec<(&'static str, PathBuf)> {
    let Some(usual) = skip::or_skip(skip::find("iscsi-test-cu")) else { return Vec::new() };
    let test = std::env::current_exe().expect("path of the test");
    let target = test.ancestors().nth(3).expect("target folder");
    let newer = target.join("libiscsi-1.20/iscsi-test-cu");
    let mut programs = vec![("of this machine", usual)];
    match newer.is_file() {
        true => programs.push(("1.20", newer)),
        false => println!("without libiscsi 1.20: {} is not there", newer.display()),
    }
    programs
}

/// All suites but those of `without`, one after the other: how many tests passed, what was wrong, and the longest time.
fn all(
    program: &Path,
    without: &[&str],
    uris: impl Fn(&str) -> Vec<String>,
) -> (usize, Vec<String>, Duration) {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut passed, mut wrong, mut longest) = (0, Vec::new(), Duration::ZERO);
    for suite in suites(program).into_iter().filter(|suite| !without.contains(&&**suite)) {
        let begun = Instant::now();
        let came = run(program, folder.path(), &suite, &uris(&suite));
        longest = longest.max(begun.elapsed());
        passed += came.passed;
        wrong.extend(came.failed.into_iter().map(|one| format!("{suite}: {one}")));
        let allowed = |line: &&String| {
            SKIPPED
                .iter()
                .any(|(one, why)| *one == suite && line.to_lowercase().contains(&why.to_lowercase()))
        };
        let skipped: Vec<&String> = came.skipped.iter().filter(|line| !allowed(line)).collect();
        if !skipped.is_empty() {
            wrong.push(format!("{suite} skipped {skipped:?}"));
        }
    }
    (passed, wrong, longest)
}

#[test]
fn nothing_fails() {
    for (which, program) in programs() {
        let (tell, reported) = mpsc::channel();
        let (keep, over) = mpsc::channel();
        let server = std::thread::spawn(move || serve(&tell, &over));
        let ports = reported.recv().expect("the server listens");
        let uris = |suite: &str| {
            let disk = OTHER_DISKS.iter().find(|(one, _)| *one == suite).map_or("disk", |(_, disk)| disk);
            if suite == CHAP {
                return vec![format!("iscsi://one%{SECRET}@127.0.0.1:{}/{}/0", ports[2], name(disk))];
            }
            ports[..2].iter().map(|port| format!("iscsi://127.0.0.1:{port}/{}/0", name(disk))).collect()
        };
        let (passed, mut wrong, longest) = all(&program, &NOT_RUN, uris);
        if which == "1.20" {
            wrong.retain(|one| {
                !MISTAKEN.iter().any(|(suite, test)| one.starts_with(suite) && one.contains(test))
            });
        }
        drop(keep);
        server.join().expect("the server ends");
        println!("libiscsi {which}: {passed} passed, the longest suite took {longest:?}");
        assert!(wrong.is_empty(), "libiscsi {which}:\n{}", wrong.join("\n"));
        assert!(passed >= 220, "only {passed} tests were run");
    }
    if std::env::var_os("BRINDLE_LONG").is_some() {
        beside();
    }
}

/// Results of the same suite against tgt, for comparison: printed, not judged.
fn beside() {
    let programs = (skip::find("iscsi-test-cu"), skip::find("tgtd"), skip::find("tgtadm"));
    let (Ok(program), Ok(tgtd), Ok(tgtadm)) = programs else { return println!("tgt is not there") };
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    std::fs::File::create(&disk).and_then(|file| file.set_len(SIZE)).expect("a file");
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let control = std::process::id() % 30_000 + 10;
    let mut serving = Command::new(tgtd);
    serving.args(["-f", "-C", &control.to_string(), "--iscsi", &format!("portal=127.0.0.1:{port}")]);
    let mut serving = serving.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("tgtd starts");
    let reported = |words: &[&str]| {
        let mut command = Command::new(&tgtadm);
        command.args(["-C", &control.to_string(), "--lld", "iscsi"]).args(words);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let begun = Instant::now();
    while !reported(&["--mode", "target", "--op", "new", "--tid", "1", "-T", "iqn.x:tgt"]) {
        assert!(begun.elapsed() < PATIENCE, "tgtd does not answer: it has to be root's");
        std::thread::sleep(Duration::from_millis(100));
    }
    let disk = disk.to_str().expect("a path");
    assert!(reported(&["--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "-b", disk]));
    assert!(reported(&["--mode", "target", "--op", "bind", "--tid", "1", "-I", "ALL"]));
    let uris = |_: &str| vec![format!("iscsi://127.0.0.1:{port}/iqn.x:tgt/1")];
    let (passed, wrong, longest) = all(&program, &["Sanitize"], uris);
    println!(
        "tgt: {passed} passed, the longest suite took {longest:?}; wrong or skipped:\n{}",
        wrong.join("\n")
    );
    let _ = serving.kill();
    let _ = serving.wait();
}
