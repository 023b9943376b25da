//! Settings: written from what runs, checked with all that they name, and read with units and rights as people write them.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use super::*;

/// `brindle config --check` of a text, in a folder of its own that the text may name as DIR.
fn checked(set: &Set, text: &str) -> Ran {
    let file = set.path("brindle.toml");
    std::fs::write(&file, text.replace("DIR", name(set.dir.path()))).unwrap();
    run(&format!("config --check {}", name(&file)), &[])
}

#[test]
fn a_time_has_a_unit_and_a_mode_is_octal() {
    let set = Set::sparse(0, 0);
    for taken in [
        "wait = 0",
        "wait = \"0\"",
        "wait = \"1500ms\"\nstop-timeout = \"1m\"",
        "[monitor]\ndelay = \"10s\"",
        "[exports]\nlimits = { iops = 7, burst = \"250ms\" }",
        "[exports.unix-rights]\nmode = \"0660\"\ngroup = \"root\"",
        "[exports.unix-rights]\nmode = \"660\"\nowner = 0",
        "[exports.unix-rights]\nmode = 0o660",
    ] {
        checked(&set, taken).ok();
    }
    for (refused, words) in [
        ("wait = 30", "30 has no unit: write 30s"),
        ("wait = \"30\"", "30 has no unit: write 30s"),
        ("stop-timeout = 5", "5 has no unit"),
        ("[monitor]\ndelay = 10", "10 has no unit"),
        ("[exports]\nlimits = { burst = 100 }", "100 has no unit"),
        ("[[arrays]]\nname = \"a\"\nlimits = { iops = 1, burst = \"100\" }", "100 has no unit"),
        ("[[pools]]\nname = \"a\"\nlimits = { bandwith = \"1M\" }", "unknown field `bandwith`"),
        ("[exports.unix-rights]\nmode = 660", "0o1224"),
        ("[exports.unix-rights]\nmode = 0o1777", "0o777"),
        ("[exports.unix-rights]\nmode = \"888\"", "no mode"),
        ("[exports.unix-rights]\nmode = \"1660\"", "no mode"),
        ("[exports.unix-rights]\ngroup = \"no-such-group\"", "the group of Unix sockets: /etc/group has no"),
    ] {
        checked(&set, refused).refused(1, &[words]);
    }
    for flags in
        ["monitor --delay 60", "assemble --wait 30", "serve --stop-timeout 5", "serve --member-timeout 3 m"]
    {
        let refused = run(flags, &[]).ended(2);
        assert!(refused.err.contains("has no unit"), "{}", refused.err);
    }
}

#[test]
fn rights_of_settings_are_those_of_the_socket() {
    let set = Set::sparse(2, 4 * MIB);
    set.create("-l 1 -N here:a").ok();
    let (file, socket) = (set.path("brindle.toml"), set.path("s"));
    let text = format!(
        "homehost = \"here\"\ndevices = {:?}\n[exports]\nnbd = [\"unix:{}\"]\n[exports.unix-rights]\nmode = \"0660\"\n",
        set.members,
        name(&socket)
    );
    std::fs::write(&file, text).unwrap();
    let server = Server::start_by("daemon", &set.runtime(), words("--config", &[file]), &[]);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o7777, 0o660);
    assert_eq!(server.signal(Signal::TERM).0, 0);
}

#[test]
fn all_that_settings_name_is_opened_before_they_are_taken() {
    let set = Set::sparse(0, 0);
    std::fs::write(set.path("access"), "* local write\n").unwrap();
    std::fs::write(set.path("wrong"), "* local fly\n").unwrap();
    std::fs::write(set.path("open"), "").unwrap();
    std::fs::set_permissions(set.path("open"), PermissionsExt::from_mode(0o666)).unwrap();
    for (refused, words) in [
        ("[exports]\naccess = \"DIR/none\"", &["DIR/none", "No such file"][..]),
        ("[exports]\naccess = \"DIR/wrong\"", &["DIR/wrong, line 1"]),
        ("[exports]\naccess = \"DIR/open\"", &["DIR/open", "chmod 644"]),
        ("[exports.tls]\ncert = \"DIR/c.pem\"\nkey = \"DIR/k.pem\"", &["DIR/c.pem"]),
        ("[exports.iscsi]\nportals = [\"127.0.0.1:3260\"]\nsecrets = \"DIR/none\"", &["DIR/none"]),
        ("[exports.iscsi]\nportals = [\"0.0.0.0:3260\"]", &["--iscsi 0.0.0.0:3260 can be reached"]),
        ("[exports]\nnbd = [\"0.0.0.0:10809\"]", &["--nbd 0.0.0.0:10809 can be reached"]),
        ("[exports]\nnbd = [\"unix:DIR/none/s\"]", &["no folder DIR/none"]),
        (
            "[exports]\ninsecure = true\nnbd = [\"192.0.2.1:10809\"]",
            &["192.0.2.1:10809", "does not have that address"],
        ),
        ("[metrics]\nlisten = [\"0.0.0.0:9843\"]", &["--metrics 0.0.0.0:9843 can be reached"]),
        ("[metrics]\nlisten = [\"127.0.0.1:9843\"]\nbearer = \"DIR/none\"", &["DIR/none"]),
        ("[monitor]\nprogram = \"DIR/none\"", &["monitor.program: DIR/none: No such file"]),
        ("[monitor]\nsendmail = \"DIR/access\"", &["monitor.sendmail: DIR/access is no program", "chmod +x"]),
        ("[monitor]\nsmartctl = \"no-such-program\"", &["there is no program no-such-program"]),
        ("[[arrays]]\nname = \"a\"\nbitmap = \"DIR/none\"", &["DIR/none, the bitmap of 'a'"]),
        ("[tuning]\nmemory = \"1M\"", &["--memory 1 MiB is not possible"]),
        ("name = \"a/b\"", &["a/b"]),
    ] {
        let words: Vec<String> = words.iter().map(|word| word.replace("DIR", name(set.dir.path()))).collect();
        let told = checked(&set, refused).ended(1).err;
        let last = told.lines().last().unwrap_or_default();
        assert!(words.iter().all(|word| last.contains(word)), "{words:?} in {told}");
    }
    // All of it is told at once.
    checked(&set, "[exports]\naccess = \"DIR/one\"\n[metrics]\nbearer = \"DIR/two\"")
        .refused(1, &["one", "two"]);
    checked(&set, "[exports]\naccess = \"DIR/access\"\nnbd = [\"unix:DIR/s\", \"127.0.0.1:0\"]").ok();
    let told = checked(&set, "devices = [\"DIR/away\"]").ended(0);
    assert!(told.err.contains("away: it is not there now"), "{}", told.err);
}

#[test]
fn a_drop_in_for_the_unit_is_made_of_settings_also_of_those_that_are_wrong() {
    let set = Set::sparse(0, 0);
    let (file, drop_in) = (set.path("brindle.toml"), set.path("new/folders.conf"));
    std::fs::create_dir(set.path("disks")).unwrap();
    std::fs::create_dir(set.path("elsewhere")).unwrap();
    std::fs::write(set.path("elsewhere/m0"), "").unwrap();
    std::os::unix::fs::symlink(set.path("elsewhere/m0"), set.path("disks/link")).unwrap();
    let check = |text: &str, flag: &str| {
        std::fs::write(&file, text.replace("DIR", name(set.dir.path()))).unwrap();
        run(&format!("config --check {} {flag}", name(&file)), &[])
    };
    let named = "devices = [\"/dev\", \"DIR/disks\"]\n[exports]\nnbd = [\"unix:DIR/sockets/s\"]\n";
    let printed = check(named, "--drop-in").ended(1).text();
    for folder in ["disks", "elsewhere", "sockets"] {
        let line = format!("ReadWritePaths=-{}/{folder}", name(&set.dir.path().canonicalize().unwrap()));
        assert!(printed.lines().any(|own| own == line), "{line} in {printed}");
    }
    assert!(printed.contains("[Service]\nPrivateTmp=no\n"), "{printed}");
    let flag = format!("--drop-in={}", name(&drop_in));
    assert!(check(named, &flag).ended(1).text().contains("folders.conf is written"));
    assert_eq!(std::fs::read_to_string(&drop_in).unwrap(), printed);
    let none = check("devices = [\"/dev\"]", &flag).ended(0);
    assert!(none.text().is_empty() && none.err.contains("no drop-in is needed"), "{}", none.err);
    assert_eq!(std::fs::read_to_string(&drop_in).unwrap(), printed);
    assert_eq!(run("config --schema --drop-in", &[]).code, 2);
}

#[test]
fn who_may_not_read_a_file_is_told_so() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let set = Set::sparse(0, 0);
    let (access, file) = (set.path("access"), set.path("brindle.toml"));
    std::fs::write(&access, "* local write\n").unwrap();
    std::fs::set_permissions(&access, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::set_permissions(set.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(&file, format!("[exports]\naccess = {access:?}\n")).unwrap();
    let mut command = std::process::Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ]);
    command.arg(copied(&set)).args(["config", "--check"]).arg(&file);
    Ran::of(command).refused(1, &[name(&access), "may not be read by this user"]);
}

/// The program where anybody may run it.
fn copied(set: &Set) -> PathBuf {
    let copy = set.path("brindle");
    std::fs::copy(program::path(), &copy).unwrap();
    copy
}

/// Names, UUIDs and limits of all that is served, without what changes by itself.
fn served(set: &Set) -> Vec<Value> {
    let all = run(&format!("status --json --runtime-dir {}", set.runtime().display()), &[]).json();
    let of = |report: &Value| {
        let kind = if report["pool"].is_object() { "pool" } else { "array" };
        let words = ["uuid", "missing"].map(|word| report[kind][word].clone());
        serde_json::json!([
            report["name"],
            kind,
            words,
            report["limits"],
            report["exported"],
            report["nbd"],
            report["volumes"]
        ])
    };
    let mut all: Vec<Value> = all.as_array().unwrap().iter().map(of).collect();
    all.sort_by_key(ToString::to_string);
    all
}

#[test]
fn what_runs_is_served_again_by_the_settings_that_are_made_of_it() {
    let set = Set::sparse(10, 8 * MIB);
    run("create -l 5 -c 64K -N there:a", &set.members[..3]).ok();
    run("create -l 1 -N there:b", &set.members[3..5]).ok();
    run("pool create tank raidz1", &set.members[5..8]).ok();
    run(
        "volume create --array",
        &set.members[5..8]
            .iter()
            .cloned()
            .chain(["--", "tank/v", "1M"].map(PathBuf::from))
            .collect::<Vec<_>>(),
    )
    .ok();
    run("create -l 1 -N there:other", &set.members[8..]).ok();
    let (access, socket) = (set.path("access"), set.path("s"));
    std::fs::write(&access, "* local write\n").unwrap();
    // Names in the folder of the server; other processes are in another folder.
    let names: Vec<String> =
        set.members[..8].iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let mut command = std::process::Command::new(program::path());
    command.current_dir(set.dir.path()).args(["serve", "--background", "--memory", "32M", "--name", "store"]);
    command
        .args(["--nbd", "unix:s", "--access", "access", "--read-errors", "3", "--runtime-dir"])
        .arg(set.runtime());
    command.args(&names);
    Ran::of(command).ok();
    let ask = |command: &str| run(&format!("{command} --runtime-dir {}", set.runtime().display()), &[]);
    ask("export b --max-iops 50 --burst 250ms").ended(0);
    ask("unexport a").ended(0);
    let before = served(&set);
    assert_eq!(before.len(), 3, "{before:?}");

    let written = ask("config --from-running").ok().text();
    for line in [
        format!("access = \"{}\"", name(&access)),
        format!("nbd = [\"unix:{}\"]", name(&socket)),
        "memory = 33554432".to_owned(),
        "read-errors = 3".to_owned(),
        "burst = \"250ms\"".to_owned(),
    ] {
        assert!(written.contains(&line), "{line} is not in\n{written}");
    }
    ask("stop store").ended(0);
    let file = set.path("brindle.toml");
    std::fs::write(&file, &written).unwrap();
    run(&format!("config --check {}", name(&file)), &[]).ok();
    let daemon =
        || Server::start_by("daemon", &set.runtime(), words("--config", std::slice::from_ref(&file)), &[]);
    let server = daemon();
    assert_eq!(served(&set), before);
    // A daemon's own settings are written as well as a server's flags.
    let again = ask("config --from-running").ok().text();
    assert_eq!(again, written);
    assert_eq!(server.signal(Signal::TERM).0, 0);
}

/// The sample of the package, with the settings in its comments or without them.
fn sample(with_comments: bool) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/brindle.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let is_setting = |line: &str| line.starts_with('#') && !line.starts_with("# ");
    let line =
        |line: &str| if with_comments && is_setting(line) { line[1..].to_owned() } else { line.to_owned() };
    text.lines().map(|one| line(one) + "\n").collect()
}

#[test]
fn the_sample_of_the_package_is_right_and_starts_in_a_gibibyte() {
    let set = Set::sparse(2, 4 * MIB);
    set.create("-l 1 -N nas:data").ok();
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let all = sample(true);
    // A machine without the group tells so.
    let all = if groups.contains("\ndisk:") { all } else { all.replace("group = \"disk\"", "group = 0") };
    let all = all.replace("readers = \"brindle\"", "readers = 0");
    let all = all.replace("operators = \"brindle-operators\"", "operators = 0");
    // Programs and disks that are not here are remarks.
    checked(&set, &all).ended(0);
    let runs = |text: &str| {
        text.replace("/run/brindle/nbd.sock", name(&set.path("s")))
            .replace("127.0.0.1:10809", "127.0.0.1:0")
            .replace("127.0.0.1:9750", "127.0.0.1:0")
            .replace("[\"/dev/disk/by-id\"]", &format!("{:?}", set.members))
            .replace("attach = true\n", "")
            .replace("#homehost", "homehost")
            .replace("group = \"disk\"", "group = 0")
            .replace("https://example.org", "http://127.0.0.1:1")
            .replace("wait = \"30s\"", "wait = \"1s\"")
    };
    let plain = format!("devices = {:?}\n{}", set.members, runs(&sample(false)));
    for text in [plain, runs(&all).replace("uuid = \"01234567:89abcdef:01234567:89abcdef\"\n", "")] {
        let file = set.path("brindle.toml");
        std::fs::write(&file, &text).unwrap();
        // All that it maps has to be there, and that is more than it uses; the C library maps much for each thread that it never uses.
        let script = "ulimit -v 1048576 && exec timeout 60 \"$@\"";
        let mut command = std::process::Command::new("sh");
        command
            .env("MALLOC_ARENA_MAX", "1")
            .args(["-c", script, "sh"])
            .arg(program::path())
            .args(["daemon", "--runtime-dir"]);
        command.arg(set.runtime()).arg("--config").arg(&file);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let ask = |command: &str| run(&format!("{command} --runtime-dir {}", set.runtime().display()), &[]);
        let begun = std::time::Instant::now();
        while ask("status data").code != 0 {
            let over = child.try_wait().unwrap();
            assert!(over.is_none() && begun.elapsed().as_secs() < 60, "{over:?}: {text}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        ask("stop data").ok();
        child.wait().unwrap();
    }
}
