//! A daemon and its file of settings.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;

use super::*;

/// Disks in one folder: a RAID 5 `a`, a RAID 1 `b`, and a RAID 1 `c` of which a member is damaged; all of host `here`.
struct Disks {
    set: Set,
    file: PathBuf,
}

impl Disks {
    fn new() -> Self {
        let set = Set::sparse(7, 4 * MIB);
        run("create -l 5 -c 64K -N here:a", &set.members[..3]).ok();
        run("create -l 1 -N here:b", &set.members[3..5]).ok();
        run("create -l 0 -c 64K -N here:c", &set.members[5..]).ok();
        std::fs::remove_file(&set.members[6]).unwrap();
        let file = set.path("brindle.toml");
        Self { set, file }
    }

    /// Settings: the folder of the disks, and these lines. The folder is that of the file, and of no member.
    fn settings(&self, lines: &str) {
        let head = format!("homehost = \"here\"\nwait = \"1ms\"\ndevices = [{:?}]\n", self.set.dir.path());
        std::fs::write(&self.file, head + lines).unwrap();
    }

    fn start(&self, env: &[(&str, &str)]) -> Server {
        Server::start_by(
            "daemon",
            &self.set.runtime(),
            words("--config", std::slice::from_ref(&self.file)),
            env,
        )
    }

    fn ask(&self, command: &str) -> Ran {
        run(&format!("{command} --runtime-dir {}", self.set.runtime().display()), &[])
    }

    /// The report of an array.
    fn of(&self, name: &str) -> Value {
        run(&format!("status --json --runtime-dir {} {name}", self.set.runtime().display()), &[]).json()
    }
}

const SETTINGS: &str = "[tuning]\nmemory = \"64M\"\n[[arrays]]\nname = \"b\"\naccess = \"read-only\"\nlimits = { iops = 100, bandwidth = \"1M\" }\n";

#[test]
fn all_that_can_be_is_served_in_one_process_and_the_rest_is_reported() {
    let disks = Disks::new();
    disks.settings(SETTINGS);
    let server = disks.start(&[]);
    let (a, b) = (disks.of("a"), disks.of("b"));
    assert_eq!(a["pid"], b["pid"]);
    assert_eq!(a["server"], "brindle");
    assert!(state(&b["array"]).contains(&"read-only") && !state(&a["array"]).contains(&"read-only"));
    assert_eq!(b["limits"]["bandwidth"], MIB);
    assert_eq!(a["limits"], Value::Null);
    // One that is served by this daemon is not served by another.
    let other =
        format!("daemon --config {} --runtime-dir {}", name(&disks.file), disks.set.runtime().display());
    run(&other, &[]).ended(1);
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.contains("c is not served: "), "{code}: {err}");
}

#[test]
fn settings_are_read_anew_and_kept_where_they_are_wrong() {
    let disks = Disks::new();
    disks.settings(SETTINGS);
    let server = disks.start(&[]);
    let none = disks.ask("reload").ok().text();
    assert!(none.starts_with("c is not served: ") && none.lines().count() == 1, "{none}");
    disks.settings(&SETTINGS.replace("1M", "2M").replace("64M", "65M"));
    let reported = disks.ask("reload").ok().text();
    assert!(
        reported.contains("limits of b are changed")
            && reported.contains("tuning has changed: it takes effect"),
        "{reported}"
    );
    assert_eq!(disks.of("b")["limits"]["bandwidth"], 2 * MIB);
    assert_eq!(disks.of("a")["limits"], Value::Null);
    disks.settings("colour = 1\n");
    disks.ask("reload").refused(1, &[name(&disks.file), "line 4", "colour"]);
    assert_eq!(disks.of("b")["limits"]["bandwidth"], 2 * MIB);
    // The signal does the same.
    disks.settings(&format!("{SETTINGS}[exports]\nlimits = {{ iops = 7 }}\n"));
    server.send(Signal::HUP);
    let begun = std::time::Instant::now();
    while disks.of("a")["limits"]["iops"] != 7 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", disks.of("a"));
        std::thread::sleep(Duration::from_millis(20));
    }
    server.signal(Signal::TERM);
}

#[test]
fn a_service_manager_hears_that_it_works_and_that_it_ends() {
    let disks = Disks::new();
    disks.settings("");
    let socket = disks.set.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let server = disks.start(&[("NOTIFY_SOCKET", name(&socket)), ("WATCHDOG_USEC", "200000")]);
    let hear = || {
        let mut words = [0; 512];
        let length = manager.recv(&mut words).unwrap();
        String::from_utf8_lossy(&words[..length]).into_owned()
    };
    assert_eq!(hear(), "READY=1");
    // It has the sockets kept: that for clients, and that of the control thread.
    for socket in ["brindle.control", "brindle.nbd"] {
        let stored = hear();
        assert!(stored.starts_with("FDSTORE=1\nFDNAME=unix=") && stored.ends_with(socket), "{stored}");
    }
    for _ in 0..3 {
        assert_eq!(hear(), "WATCHDOG=1");
    }
    server.send(Signal::TERM);
    let mut last = String::new();
    while last != "STOPPING=1" {
        last = hear();
        assert!(["WATCHDOG=1", "STOPPING=1"].contains(&&*last), "{last}");
    }
}

/// Waits until a file has a line.
fn wait_for(file: &Path, line: &str) {
    let begun = std::time::Instant::now();
    while !std::fs::read_to_string(file).unwrap_or_default().contains(line) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{line}: {:?}", std::fs::read_to_string(file));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn events_are_told_to_whom_the_settings_name() {
    let disks = Disks::new();
    let (program, reported) = (disks.set.path("tell"), disks.set.path("told"));
    std::fs::write(&program, format!("#!/bin/sh\necho \"$@\" >> {}\n", reported.display())).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    disks.settings(&format!("[monitor]\nprogram = {program:?}\ndelay = \"100ms\"\n"));
    let server = disks.start(&[]);
    wait_for(&reported, "NewArray a\n");
    run(
        &format!("fail --runtime-dir {}", disks.set.runtime().display()),
        &["a".into(), disks.set.members[1].clone()],
    )
    .ok();
    wait_for(&reported, &format!("Fail a {}\n", name(&disks.set.members[1])));
    server.signal(Signal::TERM);
}

#[test]
fn settings_are_made_of_what_runs_and_of_mdadms() {
    let disks = Disks::new();
    disks.settings(SETTINGS);
    let server = disks.start(&[]);
    let made = disks.ask("config --from-running").ok().text();
    server.signal(Signal::TERM);
    assert!(made.contains("homehost = \"none\"") && made.contains("access = \"read-only\""), "{made}");
    assert!(made.contains(&format!("devices = [{:?}]", disks.set.dir.path())), "{made}");
    // It serves the same.
    std::fs::write(&disks.file, made).unwrap();
    let checked = run("config --check", std::slice::from_ref(&disks.file)).ok().text();
    assert!(checked.contains("2 arrays and 0 pools by name\n"), "{checked}");
    let lines = run("config --ignore", std::slice::from_ref(&disks.file)).ended(0);
    let printed = lines.text();
    assert_eq!(printed.matches("ARRAY <ignore> UUID=").count(), 2, "{printed}");
    assert!(lines.err.contains("update-initramfs -u"), "{}", lines.err);
    let again = disks.start(&[]);
    assert_eq!(disks.of("b")["limits"]["bandwidth"], MIB);
    again.signal(Signal::TERM);
    // mdadm's lines.
    let conf = disks.set.path("mdadm.conf");
    std::fs::write(
        &conf,
        "MAILADDR root\nARRAY /dev/md/a metadata=1.2 UUID=1:2:3:4 name=here:a\nARRAY <ignore> UUID=5:6:7:8\n",
    )
    .unwrap();
    let made = run("config --json --from", &[conf]).json();
    assert_eq!(made["arrays"].as_array().unwrap().len(), 1);
    assert_eq!((&made["arrays"][0]["name"], &made["monitor"]["mail"]), (&"a".into(), &"root".into()));
}

#[test]
fn an_array_that_is_not_served_now_is_named_when_settings_are_made_of_what_runs() {
    let disks = Disks::new();
    disks.settings(&format!("{SETTINGS}\n[[arrays]]\nname = \"later\"\n"));
    let server = disks.start(&[]);
    let made = disks.ask("config --from-running").ended(0);
    server.signal(Signal::TERM);
    assert!(made.err.contains("'later' is not served now and is left out"), "{}", made.err);
    assert!(!made.err.contains("'a'") && !made.text().contains("later"), "{}{}", made.text(), made.err);
}

#[test]
fn settings_that_are_no_settings_are_refused_with_line_and_reason() {
    let disks = Disks::new();
    for (lines, words) in [
        ("[tuning]\nmemory = \"12Q\"\n", &["line 5", "unknown unit"][..]),
        ("[[arrays]]\n", &["arrays, entry 1"]),
        ("[exports]\nnbd = [\"nowhere\"]\n", &["line 5", "HOST:PORT"]),
        ("\u{0}", &["line 4"]),
    ] {
        disks.settings(lines);
        let all: Vec<&str> = [&[name(&disks.file)], words].concat();
        run("config --check", std::slice::from_ref(&disks.file)).refused(1, &all);
        let before: Vec<String> = disks.set.members[..6].iter().map(|member| files::sha256(member)).collect();
        run("daemon --config", std::slice::from_ref(&disks.file)).refused(1, &all);
        let after: Vec<String> = disks.set.members[..6].iter().map(|member| files::sha256(member)).collect();
        assert_eq!(before, after);
    }
    std::fs::write(&disks.file, vec![b'#'; 2 << 20]).unwrap();
    run("config --check", std::slice::from_ref(&disks.file)).refused(1, &["1048576 at most"]);
    run("daemon --config", &[disks.set.path("nowhere")]).refused(1, &["nowhere"]);
    disks.settings("[[arrays]]\nname = \"z\"\n");
    let empty = tempfile::tempdir().unwrap();
    std::fs::write(&disks.file, format!("devices = [{:?}]\nwait = \"1ms\"\n", empty.path())).unwrap();
    run("daemon --config", std::slice::from_ref(&disks.file))
        .refused(1, &["nothing that the settings name", "examine --scan"]);
}

#[test]
fn a_report_tells_all_but_who_uses_it() {
    let disks = Disks::new();
    disks.settings("");
    let server = disks.start(&[]);
    let file = disks.set.path("report.json");
    let command = format!("report --runtime-dir {} -o", disks.set.runtime().display());
    run(&command, &[file.clone(), disks.set.dir.path().to_owned()]).ok();
    server.signal(Signal::TERM);
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let names: Vec<&str> =
        report["found"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(["here:a", "here:b", "here:c"].iter().all(|name| names.contains(name)), "{names:?}");
    // Arrays come in the order of their UUIDs.
    let served = report["servers"][0]["status"].as_array().unwrap();
    let status = served.iter().find(|one| one["array"]["level"] == "raid5").expect("the array a");
    assert_eq!((&status["clients"], &status["nbd"]), (&"left out".into(), &"left out".into()));
}

/// The schema in docs/ is what the program prints: editors are given it from there.
#[test]
fn the_schema_is_that_of_the_docs() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/brindle.schema.json");
    let printed = run("config --schema", &[]).ok().text();
    if std::env::var_os("BRINDLE_GOLDENS").is_some_and(|word| word == "write") {
        std::fs::write(&file, &printed).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), printed, "BRINDLE_GOLDENS=write writes it");
}

/// New arrays of the settings are served by a reload, and those whose members come later by `incremental`.
#[test]
fn arrays_come_to_a_daemon_that_runs() {
    let set = Set::sparse(7, 4 * MIB);
    let folder = set.path("disks");
    std::fs::create_dir(&folder).unwrap();
    run("create -l 1 -N here:a", &set.members[..2]).ok();
    run("create -l 5 -c 64K -N here:b", &set.members[2..5]).ok();
    run("create -l 1 -N there:c", &set.members[5..]).ok();
    let come = |at: usize| {
        let (from, to) = (&set.members[at], folder.join(set.members[at].file_name().unwrap()));
        std::fs::rename(from, &to).unwrap();
        to
    };
    let file = set.path("brindle.toml");
    let settings = |lines: &str| {
        let head = format!("homehost = \"here\"\nwait = \"1ms\"\ndevices = [{folder:?}]\n");
        std::fs::write(&file, head + lines).unwrap();
    };
    settings("");
    (0..2).for_each(|at| drop(come(at)));
    let server =
        Server::start_by("daemon", &set.runtime(), words("--config", std::slice::from_ref(&file)), &[]);
    let ask = |command: &str| run(&format!("{command} --runtime-dir {}", set.runtime().display()), &[]);
    let hand = |flags: &str, device: &Path| {
        run(
            &format!(
                "incremental --json {flags} --config {} --runtime-dir {}",
                name(&file),
                set.runtime().display()
            ),
            &[device.to_owned()],
        )
        .ended(0)
        .report()
    };
    assert_eq!(hand("", &folder.join("m0.img"))["outcome"], "served");
    let nothing = folder.join("nothing");
    std::fs::File::create(&nothing).unwrap().set_len(MIB).unwrap();
    assert_eq!(hand("", &nothing)["outcome"], "no-member");

    // Two of three: a reload leaves them, and who hands one over waits for the third.
    let (second, third) = (come(2), come(3));
    ask("reload").ok();
    ask("status b").ended(1);
    let late = set.members[4].clone();
    let (last, here) = (folder.join("m4.img"), late.clone());
    let comes = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1500));
        std::fs::rename(here, last).unwrap();
    });
    assert_eq!(hand("--wait 10m", &second)["outcome"], "started");
    comes.join().unwrap();
    let status = |array: &str| ask(&format!("status --json {array}")).json();
    assert_eq!(state(&status("b")["array"]), ["clean"]);
    assert_eq!(status("b")["server"], "brindle");
    // It takes writes as any other does, and goes by itself.
    ask("action b check").ok();
    ask("wait b").ok();
    ask("stop b").ok();
    std::fs::rename(folder.join("m4.img"), &late).unwrap();
    let started = hand("--wait 100ms", &third);
    assert!(
        started["changed"][0].as_str().unwrap().contains("b is served: member 2 of b was there"),
        "{started}"
    );
    assert!(state(&status("b")["array"]).contains(&"degraded"));

    // Another host's is served when the settings name it.
    let foreign = come(5);
    come(6);
    assert_eq!(hand("", &foreign)["outcome"], "foreign");
    settings("[[arrays]]\nname = \"c\"\nlimits = { iops = 9 }\n");
    let reported = ask("reload").ok().text();
    assert!(reported.contains("c is served\n") && !reported.contains("takes effect"), "{reported}");
    assert_eq!(status("c")["limits"]["iops"], 9);
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn changes_are_kept_in_the_settings_when_that_is_asked_for() {
    let disks = Disks::new();
    disks.settings("# mine\n[[arrays]]\nname = \"b\" # the mirror\n");
    let server = disks.start(&[]);
    let save = format!("--save={}", name(&disks.file));
    let text = || std::fs::read_to_string(&disks.file).unwrap();
    disks.ask(&format!("unexport {save} b")).ok();
    assert!(text().contains("name = \"b\" # the mirror\nwithdrawn = true\n"), "{}", text());
    disks.ask(&format!("export {save} --max-iops 9 a")).ok();
    let spare = disks.set.path("spare.img");
    std::fs::File::create(&spare).unwrap().set_len(4 * MIB).unwrap();
    disks.ask(&format!("add {save} a {}", name(&spare))).ok();
    server.signal(Signal::TERM);
    let again = disks.start(&[]);
    assert_eq!((&disks.of("b")["exported"], &disks.of("a")["exported"]), (&false.into(), &true.into()));
    assert_eq!(disks.of("a")["limits"]["iops"], 9);
    disks.ask(&format!("export {save} b")).ok();
    assert!(
        !text().contains("withdrawn") && text().starts_with("homehost") && text().contains("# mine"),
        "{}",
        text()
    );
    // A file that can't be taken is refused before anything changes.
    disks.settings("colour = 1\n");
    disks.ask(&format!("unexport {save} b")).refused(1, &["line 4", "colour"]);
    assert_eq!(disks.of("b")["exported"], true);
    again.signal(Signal::TERM);
}

/// A host is called by its whole name, as mdadm writes it: the daemon has a name of its own in a namespace.
#[test]
fn arrays_are_those_of_a_host_by_its_whole_name_and_others_are_told_with_theirs() {
    let set = Set::sparse(10, 8 * MIB);
    let names = ["nas.example.org:data", "nas:short", "old.example.org:kept", "nas.other.org:far"];
    for (array, members) in names.iter().zip(set.members.chunks(2)) {
        run(&format!("create -l 1 -N {array}"), members).ok();
    }
    run("pool create tank mirror", &set.members[8..]).ok();
    let file = set.path("brindle.toml");
    let daemon = |host: &str, then: &str| {
        let text = format!("devices = {:?}\nwait = \"1s\"\n", set.members);
        std::fs::write(&file, text).unwrap();
        let script = format!(
            "hostname {host} && \"$1\" daemon --config \"$2\" --runtime-dir \"$3\" & \
             for n in $(seq 300); do kill -0 $! 2>/dev/null || break;  \"$1\" status data --runtime-dir \"$3\" >/dev/null 2>&1 && break; sleep 0.1; done; {then}; wait"
        );
        let mut command = std::process::Command::new("unshare");
        command.args(["--map-root-user", "--uts", "timeout", "60", "sh", "-c", &script, "sh"]);
        command.arg(program::path()).arg(&file).arg(set.runtime());
        Ran::of(command)
    };
    let ran = daemon(
        "nas.example.org",
        "\"$1\" status --json --runtime-dir \"$3\"; \"$1\" stop --runtime-dir \"$3\" brindle",
    );
    let all = ran.text();
    assert!(
        // A pool says itself whose it is, whatever the host is called.
        ["data", "short", "tank"].iter().all(|name| all.contains(&format!("\"name\": \"{name}\""))),
        "{all}\n{}",
        ran.err
    );
    for words in [
        "array kept: it is of host old.example.org, and this host is nas.example.org",
        "array far: it is of host nas.other.org",
        "homehost = \"old.example.org\"",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    assert!(!ran.err.contains("array data") && !ran.err.contains("array short"), "{}", ran.err);
    // A host that was renamed, with a pool that it has given away.
    run("pool export --array", &[&set.members[8..], &["--".into(), "tank".into()]].concat()).ok();
    let ran = daemon("new", "true");
    let last = ran.err.lines().last().unwrap_or_default();
    for words in [
        "array data: it is of host nas.example.org, and this host is new",
        "pool tank: no host has it: `brindle pool import tank` makes it this host's",
    ] {
        assert!(last.contains(words), "{words}: {}", ran.err);
    }
}

/// mdadm's files are those of this machine: the daemon sees others in a mount namespace of its own.
#[test]
fn arrays_that_a_file_of_mdadms_folder_names_are_left_to_md() {
    let disks = Disks::new();
    disks.settings("");
    std::fs::remove_file(&disks.set.members[5]).unwrap();
    let folder = disks.set.path("mdadm/mdadm.conf.d");
    std::fs::create_dir_all(&folder).unwrap();
    let by_members = format!("ARRAY /dev/md9 devices={}/m[34].*\n", disks.set.dir.path().display());
    std::fs::write(folder.join("10.conf"), format!("ARRAY /dev/md/a\n{by_members}")).unwrap();
    let script = "mount --bind \"$1\" /etc/mdadm && shift && exec timeout 60 \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(disks.set.path("mdadm"));
    command.arg(program::path()).args(["daemon", "--runtime-dir"]).arg(disks.set.runtime());
    command.arg("--config").arg(&disks.file);
    let ran = Ran::of(command).ended(1);
    for words in ["a is left to md", "b is left to md", "nothing that the settings name"] {
        assert!(ran.err.contains(words), "{}", ran.err);
    }
}
