//! Where io_uring is forbidden, as the default profiles of containers' managers do, or not there: every command works all the
//! same, by threads, and says once why.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use brindle_tests::nbd::{Change, Client, Work};
use rustix::process::Signal;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::profile::{self, DOCKER, PODMAN};
use super::*;

const SAID: &str = "members are asked by threads";

/// Runs a test in a thread that can't use io_uring, nor can what it starts.
fn without_ring(errno: i32, test: impl FnOnce() + Send + 'static) {
    let calls = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
    let rules: BTreeMap<i64, Vec<_>> = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let refused = SeccompAction::Errno(errno as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).unwrap();
    under(&[BpfProgram::try_from(filter).unwrap()], test);
}

/// Runs a test in a thread under filters, which hold for what it starts, too.
fn under(filters: &[BpfProgram], test: impl FnOnce() + Send + 'static) {
    // The build of the program may use what it likes.
    program::path();
    let filters = filters.to_vec();
    let tested = thread::spawn(move || {
        filters.iter().for_each(|filter| seccompiler::apply_filter(filter).unwrap());
        test();
    });
    if let Err(panic) = tested.join() {
        std::panic::resume_unwind(panic);
    }
}

/// The commands that `brindle --help` names, but for help itself.
fn all_commands() -> BTreeSet<String> {
    let help = program::brindle(["-h"]).ok().text();
    let lines = help.lines().skip_while(|line| *line != "Arrays:").take_while(|line| *line != "Options:");
    // Commands are indented, examples have a sign before them.
    let names = lines
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .filter(|word| *word != ">");
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Notes what was run and sees to it that a ring was done without, and that this was said once at most.
#[derive(Default)]
struct Seen(BTreeSet<String>);

impl Seen {
    #[track_caller]
    fn see(&mut self, command: &str, ran: Ran, asks_members: bool) -> Ran {
        self.0.insert(command.to_owned());
        assert_eq!(ran.err.matches(SAID).count(), usize::from(asks_members), "{command}: {}", ran.err);
        // A file that is measured for so short a time is not to be trusted.
        let may_doubt = command == "calibrate" && ran.code == 7;
        ran.ended(if may_doubt { 7 } else { 0 })
    }
}

#[test]
fn every_command_works_under_the_profile_of_docker() {
    every_command_works(DOCKER, "io_uring is forbidden here");
}

/// Its answer to a call that it does not know is that of a kernel without it.
#[test]
fn every_command_works_under_the_profile_of_podman() {
    every_command_works(PODMAN, "no io_uring");
}

fn every_command_works(profile: &str, why: &'static str) {
    under(&profile::compile(profile), move || {
        // As a whole: what has nothing to do with the ring is refused, too.
        assert_eq!(rustix::process::chroot("/"), Err(rustix::io::Errno::PERM));
        let (set, mut seen) = (Set::sparse(5, 4 * MIB), Seen::default());
        let (three, fourth, fifth) = (&set.members[..3], name(&set.members[3]), name(&set.members[4]));
        let made = seen.see("create", run("create -l 5 -c 64K -N a", three), true);
        assert!(made.err.contains(why) && made.err.contains("--reactor threads"), "{}", made.err);
        seen.see("examine", run("examine", three), false);
        for command in ["detail", "advise", "check", "repair", "cat"] {
            seen.see(command, run(command, three), true);
        }
        seen.see("update", run("update --update resync --dry-run", three), true);
        seen.see("zero-superblock", run("zero-superblock --dry-run", three), true);
        let pond = files::members(set.dir.path(), "p", 2, 8 * MIB);
        seen.see("pool", run("pool create pond mirror", &pond), true);
        seen.see("volume", run("volume list --array", &pond), true);
        let bench = "bench --rw=randread --bs=4k --iodepth=4 --number_ios=40 --output-format=json --array";
        seen.see("bench", run(bench, three), true);

        serves(&set, &mut seen, fourth, fifth);

        let none: &[PathBuf] = &[];
        let others = [
            "simulate --drive nvme --members 1 --level none --rw read --bs 4k",
            "reliability --drives 4 --level 5 --class elerath-2007 --repairs 2/12+6 --years 1 --histories 256",
            "plan --drives 4 --drive hdd-7200 --size 2TB",
            "completions bash",
        ];
        for line in others {
            seen.see(line.split(' ').next().unwrap(), run(line, none), false);
        }
        seen.see("man", run("man", &[set.path("man")]), false);
        let swept = set.path("swept");
        let sweep =
            "sweep --simulate --drive nvme --level 0 --members 2 --chunk 64K --rw randread --bs 64k --output";
        seen.see("sweep", run(sweep, &[swept]), false);
        let raw = set.path("raw");
        std::fs::File::create(&raw).unwrap().set_len(4 * MIB).unwrap();
        files::write_pattern(&raw, 4 * MIB, 1);
        let model = set.path("model");
        seen.see("calibrate", run("calibrate --runtime 10ms --output", &[model, raw]), true);
        // Its own commands are asked, and what they tell is not passed on.
        seen.see("demo", run("demo --member-size 8M --dir", &[set.path("demo")]), false);
        assert_eq!(seen.0, all_commands());
    });
}

/// Commands with a server, and the server's own.
fn serves(set: &Set, seen: &mut Seen, fourth: &str, fifth: &str) {
    let server = set.serve_some("--memory 32M", &set.members[..3]);
    let mut client = Client::connect(&server.uri());
    let data: Vec<u8> = (0..64 * KIB).map(|at| (at % 251) as u8).collect();
    client.all_at_once(&[Change {
        offset: 0,
        len: 64 * KIB,
        work: Work::Write { data: data.clone(), fua: true },
    }]);
    assert_eq!(client.read(0, 64 * KIB), data);
    let asked: [(&str, &[&str]); 12] = [
        ("wait", &[]),
        ("status", &[]),
        ("flag", &["0", "failfast"]),
        ("watch", &["--once", "--interval", "10ms"]),
        ("add", &[fourth]),
        ("replace", &["0", "--with", fourth]),
        ("wait", &[]),
        ("add", &[fifth]),
        ("fail", &["1"]),
        ("wait", &[]),
        ("remove", &["failed"]),
        ("action", &["check"]),
    ];
    for (command, args) in asked {
        seen.see(command, server.ask(command, args), false);
    }
    seen.see("wait", server.ask("wait", &[]), false);
    seen.see("scrub", server.ask("scrub", &["--state", name(&set.path("state"))]), false);
    let assemble = format!("assemble --scan --dry-run --runtime-dir {}", set.runtime().display());
    seen.see("assemble", run(&assemble, &[set.dir.path().to_owned()]), false);
    let monitor = format!("monitor --scan --oneshot --runtime-dir {}", set.runtime().display());
    seen.see("monitor", run(&monitor, &[]), false);
    seen.see("metrics", run(&format!("metrics --runtime-dir {}", set.runtime().display()), &[]), false);
    // The console itself does no I/O of members: its token is all that this program has of it.
    let token = format!("console --token --state {}", set.path("console").display());
    seen.see("console", run(&token, &[]), false);
    seen.see("grow", server.ask("grow", &["--bitmap", "internal"]), false);
    assert_eq!(client.read(0, 64 * KIB), data);
    client.close();
    for command in ["unexport", "export", "disconnect"] {
        seen.see(command, server.ask(command, &[]), false);
    }
    seen.see("stop", server.ask("stop", &[]), false);
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!((code, err.matches(SAID).count()), (0, 1), "{err}");
    seen.0.insert("serve".into());
    daemon(set, seen);
}

/// The same array by a file of settings.
fn daemon(set: &Set, seen: &mut Seen) {
    let file = set.path("brindle.toml");
    let settings = format!(
        "devices = [{:?}]\n[[arrays]]\nname = \"a\"\n[tuning]\nmemory = \"32M\"\n",
        set.members[0].parent().unwrap()
    );
    std::fs::write(&file, settings).unwrap();
    let report = format!("report -o - --runtime-dir {}", set.runtime().display());
    seen.see("report", run(&report, &[set.dir.path().to_owned()]), false);
    seen.see("config", run("config --check", std::slice::from_ref(&file)), false);
    let server =
        Server::start_by("daemon", &set.runtime(), words("--config", std::slice::from_ref(&file)), &[]);
    // No kernel of a test machine has the driver, or a user may not ask it: the server says so.
    for command in ["attach", "detach"] {
        let refused = server.ask(command, &[]);
        assert!(refused.code == 1 && !refused.err.contains(SAID), "{command}: {}", refused.err);
        seen.0.insert(command.into());
    }
    // A folder that is not there: what a mount is has tests of its own.
    for (command, refused) in
        [("mount", server.ask("mount", &["/none"])), ("umount", program::brindle(["umount", "/none"]))]
    {
        assert!(refused.code == 1 && !refused.err.contains(SAID), "{command}: {}", refused.err);
        seen.0.insert(command.into());
    }
    let reload = format!("reload --runtime-dir {}", set.runtime().display());
    seen.see("reload", run(&reload, &[]), false);
    let hand = format!("incremental --config {} --runtime-dir {}", name(&file), set.runtime().display());
    seen.see("incremental", run(&hand, &set.members[..1]), false);
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!((code, err.matches(SAID).count()), (0, 1), "{err}");
    seen.0.insert("daemon".into());
}

#[test]
fn a_kernel_whose_io_uring_is_too_old_is_told_from_others() {
    // The answer of kernels before 5.19 to flags of a ring that they don't know.
    without_ring(libc::EINVAL, || {
        let set = Set::sparse(2, 4 * MIB);
        let made = set.create("-l 1").ended(0);
        assert!(made.err.contains(SAID) && made.err.contains("older than Linux 5.19"), "{}", made.err);
        set.run("cat --reactor threads").ok();
        set.run("cat --reactor uring").refused(1, &["older than Linux 5.19", "--reactor threads"]);
    });
}

#[test]
fn a_kernel_without_io_uring_is_told_from_a_forbidden_one() {
    without_ring(libc::ENOSYS, || {
        let set = Set::sparse(2, 4 * MIB);
        let made = set.create("-l 1").ended(0);
        assert!(made.err.contains(SAID) && made.err.contains("no io_uring"), "{}", made.err);
        set.run("cat --reactor threads").ok();
        set.run("cat --reactor uring").refused(1, &["no io_uring", "--reactor threads"]);
    });
}
