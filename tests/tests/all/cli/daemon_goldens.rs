//! Reports of a daemon and on its settings against their golden files, and those of commands that look at all of a machine.

use std::fs;

use brindle_tests::report::Goldens;
use brindle_tests::report::Shape::{Exact, Keys};
use rustix::process::Signal;

use super::*;

#[test]
fn reports_of_a_daemon_are_as_they_were() {
    let set = Set::sparse(9, 4 * MIB);
    let goldens = Goldens::new(set.dir.path());
    let hold = |name: &str, ran: Ran| goldens.hold(name, Exact, &[], &ran);
    let (disks, file) = (set.path("disks"), set.path("brindle.toml"));
    fs::create_dir(&disks).unwrap();
    for (of, members) in ["here:a", "here:b", "there:c", "here:d"].iter().zip(set.members.chunks(2)) {
        run(&format!("create -l 1 -N {of}"), members).ok();
    }
    let come = |at: usize| {
        let to = disks.join(set.members[at].file_name().unwrap());
        fs::rename(&set.members[at], &to).unwrap();
        to
    };
    let settings = |lines: &str| {
        let head = format!("homehost = \"here\"\nwait = \"1ms\"\ndevices = [{disks:?}]\n");
        fs::write(&file, head + lines).unwrap();
    };
    let ask = |words: &str| run(&format!("{words} --runtime-dir {}", name(&set.runtime())), &[]);
    let hand = |device: PathBuf| {
        let config = format!("incremental --json --wait 1ms --config {}", name(&file));
        run(&format!("{config} --runtime-dir {}", name(&set.runtime())), &[device])
    };
    settings("[[arrays]]\nname = \"a\"\naccess = \"read-only\"\nlimits = { iops = 100 }\n");
    hold("config-check", run("config --json --check", std::slice::from_ref(&file)));
    let [first, _] = [0, 1].map(come);
    let server =
        Server::start_by("daemon", &set.runtime(), words("--config", std::slice::from_ref(&file)), &[]);
    hold("config-ignore", run("config --json --ignore", std::slice::from_ref(&file)));
    hold("config-from-running", ask("config --json --from-running"));
    hold("incremental-served", hand(first));
    let [blank, foreign, lacking] = [8, 4, 6].map(come);
    hold("incremental-no-member", hand(blank));
    hold("incremental-foreign", hand(foreign));
    hold("incremental-started", hand(lacking));
    hold("reload-nothing", ask("reload --json"));
    settings("");
    (2..4).for_each(|at| drop(come(at)));
    hold("reload", ask("reload --json"));
    hold("daemon-status", ask("status --json"));
    for of in ["version", "settings", "reload"] {
        let answer =
            super::goldens::asked(&set.runtime().join("brindle.control"), &format!("{{\"ask\":\"{of}\"}}"));
        goldens.hold_value(&format!("socket-{of}"), Exact, 0, answer);
    }
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!(code, 0, "{err}");
    let conf = set.path("mdadm.conf");
    fs::write(&conf, "MAILADDR root\nARRAY /dev/md/a metadata=1.2 UUID=1:2:3:4 name=here:a\n").unwrap();
    hold("config-from", run("config --json --from", &[conf]));
}

#[test]
fn reports_of_all_servers_and_devices_are_as_they_were() {
    let set = Set::sparse(5, 4 * MIB);
    let goldens = Goldens::new(set.dir.path());
    let hold = |name: &str, ran: Ran| goldens.hold(name, Exact, &[], &ran);
    run("create -l 5 -c 64K -N host:a", &set.members[..3]).ok();
    run("create -l 1 -N host:b", &set.members[3..]).ok();
    let runtime = set.runtime();
    let folder = set.path("found");
    fs::create_dir(&folder).unwrap();
    for (at, member) in set.members[3..].iter().enumerate() {
        fs::copy(member, folder.join(format!("b{at}"))).unwrap();
    }
    let places = std::slice::from_ref(&folder);
    hold(
        "assemble-dry-run",
        run(&format!("assemble --scan -n --json --homehost any --runtime-dir {}", name(&runtime)), places),
    );
    let copies = [0, 1].map(|at| folder.join(format!("b{at}")));
    hold("update", run("update --json --update name --name q", &copies));
    hold("zero-superblock", run("zero-superblock --json", &copies[..1]));

    let server = set.serve_some("--memory 32M", &set.members[..3]);
    let moving = ["array", "events", "last_action"];
    let held = |name: &str, words: &str| {
        let (command, flags) = words.split_once(' ').unwrap();
        let flags: Vec<&str> = flags.split_whitespace().collect();
        goldens.hold(name, Exact, &moving, &server.ask(command, &flags));
    };
    held("unexport", "unexport --json");
    held("export", "export --json --max-iops 9");
    held("disconnect", "disconnect --json");
    let state = set.path("scrubs");
    let scrub = server.ask("scrub", &["--json", "--state", name(&state)]);
    goldens.hold("scrub", Exact, &["last"], &scrub);
    let conf = set.path("conf");
    fs::write(&conf, "").unwrap();
    let monitored = server.ask("monitor", &["--json", "--oneshot", "--test", "--config", name(&conf)]);
    goldens.hold("monitor", Exact, &[], &monitored);
    let all = std::slice::from_ref(&runtime);
    // They are those of a moment ago.
    let has_check = || run("metrics --json --runtime-dir", all).text().contains("_last_check_");
    until("the check is in the metrics", has_check);
    goldens.hold("metrics", Keys, &[], &run("metrics --json --runtime-dir", all));
    goldens.hold("metrics-full", Keys, &[], &run("metrics --json --full --runtime-dir", all));
    let report = set.path("report.json");
    let ran = run(&format!("report --runtime-dir {} -o", name(&runtime)), &[report.clone(), folder.clone()]);
    let mut written: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    written["mdstat"] = "apart".into();
    goldens.hold_value("report", Keys, ran.code, written);
    server.stop();
}
