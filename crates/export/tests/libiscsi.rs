//! The conformance suite of libiscsi, against disks in RAM behind two portals.
//!
//! One suite at a time, each a process of its own with its time. The result is what its XML says.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

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

/// Disks: the usual one; a fresh one, whose blocks are zero, which a test of several paths takes for granted; one whose physical
/// blocks are no larger than its logical ones, as a test of unmapped blocks has it; and one that takes no writes.
const DISKS: [&str; 4] = ["disk", "fresh", "plain", "ro"];

/// Suites that have another disk than the usual one.
const OTHER_DISKS: [(&str, &str); 3] =
    [("MultipathIO", "fresh"), ("GetLBAStatus", "plain"), ("ReadOnly", "ro")];

/// Tests that suites skip: a disk need not have these.
const SKIPPED: [(&str, &str); 7] = [
    ("PreventAllow", "not removable"),
    ("NoMedia", "not removable"),
    ("StartStopUnit", "not removable"),
    ("ReadDefectData10", "not implemented"),
    ("ReadDefectData12", "not implemented"),
    ("Sanitize", "sanitize"),
    ("WriteAtomic16", "not implemented"),
];

fn name(disk: &str) -> String {
    format!("iqn.2026-11.dev.brindle:{disk}")
}

/// Serves until the other end of `over` is dropped; tells the ports.
fn serve(ports: &mpsc::Sender<Vec<u16>>, over: &mpsc::Receiver<()>) {
    let uring = Uring::new().expect("a ring");
    let io = Io::new(Box::new(uring.clone()));
    let config =
        IscsiConfig { session: Config::default(), chap: None, random: Box::new(|bytes| bytes.fill(7)) };
    let server = Server::new(&io, config);
    for (at, disk) in DISKS.into_iter().enumerate() {
        let volume = RamVolume::with(&io, |limits| {
            limits.size = SIZE;
            limits.preferred = if disk == "plain" { 512 } else { 4096 };
            limits.read_only = disk == "ro";
        });
        let identity = Identity { uuid: [at as u8 + 1; 16], product: disk.to_owned(), target: name(disk) };
        let (reservations, gate) = (Reservations::default(), Rc::<Gate>::default());
        server.add_target(TargetSpec { identity, volume, reservations, keep: None, gate });
    }
    let listen = |_| {
        let socket = uring.listen_tcp(([127, 0, 0, 1], 0).into()).expect("a port");
        let address = uring.local_addr(socket).expect("an address");
        server.serve(socket, Some(address.to_string()));
        address.port()
    };
    ports.send((0..2).map(listen).collect()).expect("somebody listens");
    io.block_on(async {
        while over.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
            io.sleep(brindle_io::Duration::from_millis(20)).await;
        }
        server.stop().await;
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

fn run(folder: &Path, suite: &str, disk: &str, ports: &[u16]) -> Came {
    let uri = |port: &u16| format!("iscsi://127.0.0.1:{port}/{}/0", name(disk));
    let out = std::fs::File::create(folder.join("out")).expect("a file");
    let mut child = Command::new("iscsi-test-cu")
        .args(["-d", "-x", "-t", &format!("ALL.{suite}")])
        .args(ports.iter().map(uri))
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
            panic!("{suite} does not end");
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
    if !failed.is_empty() {
        failed.push(said.lines().filter(|line| line.contains("FAIL")).collect::<Vec<_>>().join("\n"));
    }
    let skipped = said.lines().filter(|line| line.contains("[SKIPPED]")).map(|line| line.trim().to_owned());
    Came { passed: xml.matches("<CUNIT_RUN_TEST_SUCCESS>").count(), failed, skipped: skipped.collect() }
}

fn suites() -> Vec<String> {
    let list = Command::new("iscsi-test-cu").arg("-l").output().expect("iscsi-test-cu starts");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let suite =
        |line: &str| Some(line.trim().strip_prefix("ALL.")?.to_owned()).filter(|name| !name.contains('.'));
    list.lines().filter_map(suite).collect()
}

#[test]
fn nothing_fails() {
    if skip::or_skip(skip::find("iscsi-test-cu")).is_none() {
        return;
    }
    let (tell, told) = mpsc::channel();
    let (keep, over) = mpsc::channel();
    let server = std::thread::spawn(move || serve(&tell, &over));
    let ports = told.recv().expect("the server listens");
    let folder = tempfile::tempdir().expect("a folder");
    let (mut passed, mut failed) = (0, Vec::new());
    for suite in suites() {
        let disk = OTHER_DISKS.iter().find(|(one, _)| *one == suite).map_or("disk", |(_, disk)| disk);
        let came = run(folder.path(), &suite, disk, &ports);
        passed += came.passed;
        failed.extend(came.failed.into_iter().map(|one| format!("{suite}: {one}")));
        let allowed = SKIPPED.iter().any(|(one, _)| *one == suite);
        if !allowed && !came.skipped.is_empty() {
            failed.push(format!("{suite} skipped {:?}", came.skipped));
        }
    }
    drop(keep);
    server.join().expect("the server ends");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(passed >= 220, "only {passed} tests were run");
}
