//! Arrays and pools that a daemon should serve and can't: it serves the others, stays, and tells.

use std::process::{Child, Command, Stdio};

use super::*;

/// A folder of disks, and settings that mean all of them and name `b` and a pool.
struct Nas {
    set: Set,
    disks: PathBuf,
    file: PathBuf,
}

impl Nas {
    fn new(members: usize) -> Self {
        let set = Set::sparse(members, 4 * MIB);
        let (disks, file) = (set.path("disks"), set.path("brindle.toml"));
        std::fs::create_dir(&disks).unwrap();
        Self { set, disks, file }
    }

    /// Members come to the folder.
    fn come(&self, members: std::ops::Range<usize>) {
        for member in &self.set.members[members] {
            std::fs::rename(member, self.disks.join(member.file_name().unwrap())).unwrap();
        }
    }

    /// They go from it.
    fn go(&self, members: std::ops::Range<usize>) {
        for member in &self.set.members[members] {
            std::fs::rename(self.disks.join(member.file_name().unwrap()), member).unwrap();
        }
    }

    fn settings(&self, more: &str) {
        let sendmail = self.set.path("sendmail");
        std::fs::write(&sendmail, format!("#!/bin/sh\ncat >> {}\n", self.set.path("mails").display()))
            .unwrap();
        std::fs::set_permissions(&sendmail, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let text = format!(
            "homehost = \"any\"\nwait = \"1ms\"\ndevices = [{:?}]\n{more}[monitor]\nmail = \"root\"\nsendmail = {sendmail:?}\ndelay = \"100ms\"\n",
            self.disks
        );
        std::fs::write(&self.file, text).unwrap();
    }

    fn daemon(&self) -> Server {
        Server::start_by(
            "daemon",
            &self.set.runtime(),
            words("--config", std::slice::from_ref(&self.file)),
            &[],
        )
    }

    fn ask(&self, command: &str) -> Ran {
        run(&format!("{command} --runtime-dir {}", self.set.runtime().display()), &[])
    }

    fn mails(&self) -> String {
        std::fs::read_to_string(self.set.path("mails")).unwrap_or_default()
    }
}

const NAMED: &str = "[[arrays]]\nname = \"b\"\n[[pools]]\nname = \"tank\"\n";

#[test]
fn what_the_settings_name_and_nobody_serves_is_told_and_comes_later() {
    let nas = Nas::new(5);
    run("create -l 1 -N here:a", &nas.set.members[..2]).ok();
    run("create -l 5 -c 64K -N here:b", &nas.set.members[2..]).ok();
    nas.come(0..5);
    nas.settings(NAMED);
    // All disks are known from here on.
    let server = nas.daemon();
    until("disks are on record", || {
        std::fs::read_dir(nas.set.path("state/disks")).is_ok_and(|files| files.count() == 2)
    });
    until("the pool is missed", || nas.mails().contains("DeviceDisappeared event was seen on tank."));
    assert!(!nas.mails().contains("seen on b"), "{}", nas.mails());
    assert_eq!(server.signal(rustix::process::Signal::TERM).0, 0);

    // Of three members one is left: the others are served.
    nas.go(2..4);
    let server = nas.daemon();
    until("b is missed", || nas.mails().contains("DeviceDisappeared event was seen on b."));
    let mails = nas.mails();
    for role in 0..2 {
        let last = nas.disks.join(nas.set.members[2 + role].file_name().unwrap());
        assert!(
            mails.contains(&format!("Disk: member {role}, missing, last seen as {}", name(&last))),
            "{mails}"
        );
    }
    let status = nas.ask("status --json b").ended(1).report();
    assert_eq!(
        (&status["kind"], &status["missing"]),
        (&"array".into(), &serde_json::json!(["0", "1"])),
        "{status}"
    );
    let tested = nas.ask("status --test").ended(2);
    assert!(tested.text().contains("b: not served: ") && tested.text().contains("tank: not served: "));
    let metrics = nas.ask("metrics").ok().text();
    for line in [
        "array_served{array=\"a\"} 1",
        "array_served{array=\"b\"} 0",
        "array_configured{array=\"b\"} 1",
        "pool_served{pool=\"tank\"} 0",
    ] {
        assert!(metrics.contains(&format!("brindle_{line}\n")), "{line}");
    }
    assert_eq!(server.signal(rustix::process::Signal::TERM).0, 0);

    // All disks are away: it stays, and takes them when they come.
    nas.go(4..5);
    nas.go(0..2);
    let server = nas.daemon();
    assert_eq!(nas.ask("status --json").json().as_array().unwrap().len(), 2);
    until("b is missed again", || nas.mails().matches("DeviceDisappeared event was seen on b.").count() == 2);
    nas.come(0..5);
    let hand =
        format!("incremental --config {} --runtime-dir {}", name(&nas.file), nas.set.runtime().display());
    run(&hand, &[nas.disks.join("m3.img")]).ok();
    assert_eq!(state(&nas.ask("status --json b").json()["array"]), ["clean"]);
    until("b is there again", || nas.mails().contains("NewArray event was seen on b."));
    nas.ask("reload").ok();
    assert_eq!(state(&nas.ask("status --json a").json()["array"]), ["clean"]);
    // It ends with the last that it serves.
    nas.ask("stop a").ok();
    nas.ask("stop b").ok();
    assert_eq!(server.signal_or_ended().0, 0);
}

/// A process, ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn one_array_that_another_brindle_has_keeps_no_other_from_being_served() {
    let nas = Nas::new(6);
    for (at, array) in ["held", "free", "late"].iter().enumerate() {
        run(&format!("create -l 1 -N here:{array}"), &nas.set.members[2 * at..2 * at + 2]).ok();
    }
    nas.come(0..4);
    nas.settings("");
    let members: Vec<PathBuf> = (0..2).map(|at| nas.disks.join(format!("m{at}.img"))).collect();
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Server::start(&elsewhere.path().join("run"), words("--memory 32M", &members));
    let server = nas.daemon();
    let is_told = |status: &Value| {
        let why = status["not_served"].as_str().unwrap_or_default().to_owned();
        assert!(
            why.contains("another Brindle uses it")
                && why.contains(&format!("process {}", other.pid().as_raw_nonzero())),
            "{status}"
        );
    };
    is_told(&nas.ask("status --json held").ended(1).report());
    assert_eq!(state(&nas.ask("status --json free").json()["array"]), ["clean"]);
    // At a reload as well.
    nas.come(4..6);
    let reported = nas.ask("reload").ok().text();
    assert!(reported.contains("late is served\n") && reported.contains("held is not served: "), "{reported}");
    is_told(&nas.ask("status --json held").ended(1).report());
    other.stop();
    nas.ask("reload").ok();
    assert_eq!(state(&nas.ask("status --json held").json()["array"]), ["clean"]);
    let (code, err) = server.signal(rustix::process::Signal::TERM);
    assert!(code == 0 && err.contains("held is not served: "), "{code}: {err}");
}

#[test]
fn a_log_disk_that_is_full_ends_nothing_and_too_few_descriptors_are_told() {
    let nas = Nas::new(7);
    run("create -l 1 -N here:a", &nas.set.members[..2]).ok();
    run("create -l 1 -N here:b", &nas.set.members[2..6]).ok();
    nas.come(0..7);
    nas.settings(NAMED);
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let shell = |limit: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{limit}; exec \"$@\""), "sh"]).arg(program::path());
        command.args(["daemon", "--config", name(&nas.file), "--runtime-dir"]).arg(nas.set.runtime());
        command.env("STATE_DIRECTORY", nas.set.path("state"));
        command
    };
    let running = Running(shell("true").stdout(full()).stderr(full()).spawn().unwrap());
    until("a is served", || nas.ask("status --json a").text().contains("clean"));
    drop(running);
    let mut few = shell("ulimit -n 50");
    let running = Running(few.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("it serves what it can", || nas.ask("status --json").text().contains("not_served"));
    let all = nas.ask("status --json").json();
    let why = |array: &str| {
        let of = all.as_array().unwrap().iter().find(|one| one["name"] == array).unwrap();
        of["not_served"].as_str().unwrap_or_default().to_owned()
    };
    let whys = [why("a"), why("b")].concat();
    assert!(whys.contains("needs 64 with 6 members") && whys.contains("may have 50"), "{all}");
    drop(running);
}

/// Many arrays lose a member at once, and the program that sends mail takes its time.
#[test]
fn a_burst_of_events_is_told_whole_and_in_few_mails() {
    let nas = Nas::new(40);
    for at in 0..20 {
        run(&format!("create -l 1 -N here:x{at}"), &nas.set.members[2 * at..2 * at + 2]).ok();
        nas.come(2 * at..2 * at + 1);
    }
    nas.settings("[tuning]\nmemory = \"64M\"\n");
    let sendmail = nas.set.path("sendmail");
    let slow = format!("#!/bin/sh\ncat >> {}; sleep 1\n", nas.set.path("mails").display());
    std::fs::write(&sendmail, slow).unwrap();
    let server = nas.daemon();
    let all = || (0..20).all(|at| nas.mails().contains(&format!("DegradedArray event was seen on x{at}.\n")));
    until("all are told", all);
    let mails = nas.mails().matches("\nSubject: ").count();
    assert!(mails <= 3, "{mails} mails");
    server.signal(rustix::process::Signal::TERM);
}
