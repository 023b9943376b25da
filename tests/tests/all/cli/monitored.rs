//! The monitor: events with mdadm's names, told by lines, programs and mail.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use brindle_tests::loops::Loop;
use brindle_tests::tools::{find, or_skip};
use brindle_tests::vm::Vm;
use rustix::process::Signal;

use super::*;

/// A shell script that can be run.
fn script(set: &Set, file: &str, text: &str) -> PathBuf {
    let path = set.path(file);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// `brindle monitor --oneshot FLAGS` of the servers of a set.
fn once(set: &Set, flags: &str) -> Ran {
    run(
        &format!("monitor --oneshot --runtime-dir {} --config /dev/null {flags}", set.runtime().display()),
        &[],
    )
}

/// A monitor that runs, ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_happens_is_told_as_it_happens() {
    let set = Set::raid5(4);
    let spare = set.path("spare");
    std::fs::File::create(&spare).unwrap().set_len(4 * MIB).unwrap();
    let server = set.serve("");
    let mut command = Command::new(program::path());
    command.args(["monitor", "--json", "--delay", "100ms", "--config", "/dev/null", "--runtime-dir"]);
    command.env("STATE_DIRECTORY", set.path("state"));
    let mut running = Running(command.arg(set.runtime()).arg("a").stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    // Of a rebuild of little it may see the end alone.
    let mut wait_for = |event: &str| loop {
        let reported = next();
        if reported["event"] == event {
            return reported;
        }
        assert!(reported["event"].as_str().unwrap().starts_with("Rebuild"), "{reported} instead of {event}");
    };
    assert_eq!(wait_for("NewArray")["array"], "a");
    server.ask("fail", &["2"]).ok();
    assert_eq!(wait_for("Fail")["device"], name(&set.members[2]));
    server.ask("action", &["speed", "--max-speed", "4M"]).ok();
    server.ask("add", &[name(&spare)]).ok();
    assert_eq!(wait_for("SpareActive")["device"], name(&spare));
    server.stop_after_failing(1);
    wait_for("DeviceDisappeared");
}

#[test]
fn programs_and_mail_get_events_and_are_never_waited_for_for_ever() {
    let set = Set::raid5(3);
    let server = set.serve("");
    // Nothing is wrong, and nothing is said.
    assert_eq!(once(&set, "a").ok().text(), "");
    server.ask("fail", &["1"]).ok();
    let reported = set.path("told");
    let program =
        script(&set, "program", &format!("for word; do echo \"$word\"; done >> {}", reported.display()));
    let sendmail = script(&set, "sendmail", &format!("cat > {}", set.path("mail").display()));
    let flags =
        format!("a --program {} --mail root@here --sendmail {}", program.display(), sendmail.display());
    assert_eq!(once(&set, &flags).ok().text(), "DegradedArray on a\n");
    assert_eq!(std::fs::read_to_string(&reported).unwrap(), "DegradedArray\na\n");
    let mail = std::fs::read_to_string(set.path("mail")).unwrap();
    assert!(
        mail.contains("\nTo: root@here\nSubject: DegradedArray event on ") && mail.contains(":a\n"),
        "{mail}"
    );

    let fails = script(&set, "fails", "exit 3");
    let ran = once(&set, &format!("a --test --program {}", fails.display())).ended(0);
    assert!(ran.err.contains("fails ended with") && ran.text().contains("TestMessage on a"), "it is said");
    server.stop_after_failing(1);
    assert_eq!(once(&set, "a").ok().text(), "");
}

#[test]
fn mdadms_configuration_says_who_gets_mail() {
    let set = Set::raid5(3);
    let server = set.serve("");
    server.ask("fail", &["1"]).ok();
    let reported = set.path("told");
    let program = script(&set, "program", &format!("echo \"$@\" >> {}", reported.display()));
    let conf = set.path("mdadm.conf");
    std::fs::write(&conf, format!("# PROGRAM /no\nPROGRAM {}\n", program.display())).unwrap();
    let words =
        format!("monitor --oneshot --runtime-dir {} --config {} a", set.runtime().display(), conf.display());
    run(&words, &[]).ok();
    assert_eq!(std::fs::read_to_string(&reported).unwrap(), "DegradedArray a\n");
    run(&format!("monitor --oneshot --config {} a", set.path("none").display()), &[])
        .refused(1, &["--config", "none"]);
    server.stop_after_failing(1);
}

/// A folder with a program of that name.
fn path_with(set: &Set, program: &str, text: &str) -> PathBuf {
    let folder = set.path("bin");
    std::fs::create_dir_all(&folder).unwrap();
    script(set, &format!("bin/{program}"), &format!("PATH=/usr/bin:/bin\n{text}"));
    folder
}

#[test]
fn a_webhook_is_told_and_one_that_never_answers_holds_up_nothing() {
    let set = Set::raid5(3);
    let server = set.serve("");
    server.ask("fail", &["1"]).ok();
    let told = set.path("told");
    let monitor = |flags: &[&str]| {
        let mut command = Command::new(program::path());
        command.args([
            "monitor",
            "--webhook",
            "http://there/?secret",
            "--config",
            "/dev/null",
            "--runtime-dir",
        ]);
        command.arg(set.runtime()).arg("a").args(flags).env("PATH", set.path("bin"));
        command.env("STATE_DIRECTORY", set.path("state"));
        command
    };
    path_with(&set, "curl", &format!("cat > {}; echo \"$@\" >> {0}", told.display()));
    Ran::of(monitor(&["--oneshot"])).ok();
    let words = std::fs::read_to_string(&told).unwrap();
    assert!(words.contains("url = \"http://there/?secret\"") && words.ends_with("--config -\n"), "{words}");
    assert!(words.contains(r#"\"event\":\"DegradedArray\",\"array\":\"a\""#), "{words}");

    path_with(&set, "curl", "exec sleep 15");
    let mut running =
        Running(monitor(&["--json", "--delay", "100ms"]).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    let mut next =
        || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()["event"].clone();
    assert_eq!([next(), next()], ["DegradedArray", "NewArray"]);
    server.stop_after_failing(1);
    assert_eq!(next(), "DeviceDisappeared");
    assert!(run("monitor --scan --webhook nowhere", &[]).ended(2).err.contains("http://"));
}

/// A request as a server gets it.
struct Posted {
    /// Method, address and version.
    line: String,
    /// Values by names in small letters. A name that comes twice has both, joined.
    headers: BTreeMap<String, String>,
    body: Value,
}

impl Posted {
    fn read(stream: &mut BufReader<TcpStream>) -> Self {
        let mut next = || {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            line.trim_end_matches("\r\n").to_owned()
        };
        let line = next();
        let mut headers = BTreeMap::<String, String>::new();
        loop {
            let header = next();
            let Some((name, value)) = header.split_once(':') else { break };
            headers.entry(name.to_lowercase()).or_default().push_str(value.trim());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        Self { line, headers, body: serde_json::from_slice(&body).unwrap() }
    }
}

/// A server of HTTP that answers the first request by `first`, all others well: its address, and all that it gets.
fn http_server(first: &'static str) -> (String, Receiver<Posted>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hook?secret=a\"b\\c", listener.local_addr().unwrap());
    let (tell, told) = channel();
    let serve = move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.unwrap());
            let posted = Posted::read(&mut stream);
            let status = if number == 0 { first } else { "200 OK" };
            write!(stream.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
                .unwrap();
            // The test has ended, when nobody listens.
            let _ = tell.send(posted);
        }
    };
    std::thread::spawn(serve);
    (address, told)
}

/// `brindle monitor` of the array `a`, with a webhook that the real curl tells. What the user of the test has set for curl does not count.
fn hooked(set: &Set, address: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(program::path());
    command
        .args(["monitor", "--config", "/dev/null", "--webhook", address, "--runtime-dir"])
        .arg(set.runtime());
    command
        .arg("a")
        .args(flags)
        .env("STATE_DIRECTORY", set.path("state"))
        .env("no_proxy", "*")
        .env("HOME", set.dir.path())
        .env("CURL_HOME", set.dir.path());
    command
}

#[test]
fn curl_posts_events_as_json_and_names_are_data_in_it() {
    if or_skip(find("curl")).is_none() {
        return;
    }
    let mut set = Set::sparse(3, 4 * MIB);
    let evil = set.path("m\"\r\nX-Evil: yes\r\n\r\nurl = \"http:\\n\t@%41é");
    std::fs::rename(&set.members[1], &evil).unwrap();
    set.members[1] = evil;
    set.create("-l 5 -c 64K -N a").ok();
    let server = set.serve("");
    let (address, told) = http_server("503 Service Unavailable");
    let mut running = Running(
        hooked(&set, &address, &["--json", "--delay", "100ms"]).stdout(Stdio::piped()).spawn().unwrap(),
    );
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let without_time = |mut event: Value| {
        assert!(event["at"].take().as_u64().is_some(), "{event}");
        event
    };
    // A post that was refused is tried once more.
    let new = without_time(next());
    for _ in 0..2 {
        assert_eq!(without_time(told.recv().unwrap().body), new);
    }
    server.ask("fail", &["1"]).ok();
    let fail = without_time(next());
    assert_eq!((&fail["event"], &fail["device"]), (&"Fail".into(), &name(&set.members[1]).into()));
    let posted = told.recv().unwrap();
    assert_eq!(posted.line, "POST /hook?secret=a\"b\\c HTTP/1.1");
    assert_eq!(posted.headers["content-type"], "application/json");
    assert!(!posted.headers.contains_key("x-evil"), "{:?}", posted.headers);
    assert_eq!(without_time(posted.body), fail);
    // Its own line about the failure has as many lines as the name.
    assert_eq!(server.signal(Signal::TERM).0, 0);
}

#[test]
fn curl_gives_up_on_a_server_that_never_answers_and_the_monitor_goes_on_meanwhile() {
    let Some(curl) = or_skip(find("curl")) else { return };
    let set = Set::raid5(3);
    // The real one, whose ten seconds are one here.
    let text = format!("sed 's/^max-time = 10$/max-time = 1/' | {} \"$@\"", curl.display());
    let path = format!("{}:{}", path_with(&set, "curl", &text).display(), std::env::var("PATH").unwrap());
    let server = set.serve("");
    server.ask("fail", &["1"]).ok();
    // The kernel takes the connections, and nobody ever takes them from it.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", silent.local_addr().unwrap());
    let mut once = hooked(&set, &address, &["--oneshot"]);
    once.env("PATH", &path);
    let mut once = Running(once.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(once.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "DegradedArray on a\n");
    let mut running = hooked(&set, &address, &["--json", "--delay", "100ms"]);
    let mut running = Running(running.env("PATH", &path).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    let mut next =
        || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()["event"].clone();
    assert_eq!([next(), next()], ["DegradedArray", "NewArray"]);
    server.stop_after_failing(1);
    assert_eq!(next(), "DeviceDisappeared");
    // One that ends by itself waits until all was tried: three times curl's whole patience, and some seconds between them.
    let mut said = String::new();
    once.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("the webhook was not told, tried 3 times: curl ended with"), "{said}");
    assert!(once.0.wait().unwrap().success());
}

/// At boot there may be no network: the webhook is told when there is one. A redirection is not followed, and does not count as told.
#[test]
fn a_webhook_is_tried_until_it_is_reached_and_a_redirection_is_no_success() {
    let set = Set::raid5(3);
    let server = set.serve("");
    server.ask("fail", &["1"]).ok();
    let (told, tried) = (set.path("told"), set.path("tried"));
    let mut command = Command::new(program::path());
    command.args([
        "monitor",
        "--delay",
        "100ms",
        "--config",
        "/dev/null",
        "--webhook",
        "http://there/",
        "--runtime-dir",
    ]);
    command
        .arg(set.runtime())
        .arg("a")
        .env("PATH", set.path("bin"))
        .env("STATE_DIRECTORY", set.path("state"));
    // The first three posts find no network. A monitor that is about to end gives up then; this one runs on.
    let text = format!(
        "echo x >> {0}; [ $(wc -l < {0}) -gt 3 ] || exit 6; grep -o '\"event[^,]*' >> {1}; printf 200",
        tried.display(),
        told.display()
    );
    path_with(&set, "curl", &text);
    let running = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let begun = std::time::Instant::now();
    let has = |word: &str| std::fs::read_to_string(&told).unwrap_or_default().contains(word);
    while !(has("DegradedArray") && has("NewArray")) {
        assert!(begun.elapsed().as_secs() < 60, "{:?}", std::fs::read_to_string(&tried));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(running);
    if or_skip(find("curl")).is_some() {
        let (address, _told) = http_server("302 Found");
        let ran = Ran::of(hooked(&set, &address, &["--oneshot"])).ended(0);
        assert!(ran.err.contains("redirection (302)"), "{}", ran.err);
    }
    server.stop_after_failing(1);
}

/// Lines of mdadm.conf: arrays that nobody has, and spares.
#[test]
fn what_mdadms_configuration_lists_is_missed() {
    let set = Set::raid5(3);
    let server = set.serve("");
    let conf = set.path("mdadm.conf");
    let uuid = server.status()["array"]["uuid"].as_str().unwrap().to_owned();
    let lines = format!(
        "ARRAY /dev/md/a UUID={uuid} spares=1\nARRAY /dev/md/gone name=here:gone\nARRAY <ignore> UUID=1:2:3:4\n"
    );
    std::fs::write(&conf, lines).unwrap();
    let words = format!("monitor --scan --oneshot --json --runtime-dir {} --config", set.runtime().display());
    let text = run(&words, &[conf]).ended(0).text();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |array: &str| -> Vec<&Value> {
        events.iter().filter(|event| event["array"] == array).map(|event| &event["event"]).collect()
    };
    assert_eq!(
        (of("a"), of("gone")),
        (vec![&"SparesMissing".into()], vec![&"DeviceDisappeared".into()]),
        "{text}"
    );
    let gone = events.iter().find(|event| event["array"] == "gone").unwrap();
    assert_eq!(gone["severity"], "critical");
    assert!(gone["host"].as_str().is_some_and(|host| !host.is_empty()), "{gone}");
    server.stop();
}

#[test]
fn a_drive_that_smart_calls_failing_is_an_event() {
    let set = Set::raid5(3);
    let server = set.serve("");
    let text = format!(
        "case \"$5\" in {}) echo '{{\"smart_status\": {{\"passed\": false}}, \"serial_number\": \"S1\"}}'; exit 8;; *) echo '{{\"smart_status\": {{\"passed\": true}}}}';; esac",
        name(&set.members[1])
    );
    let smartctl = script(&set, "smartctl", &text);
    let said = once(&set, &format!("a --smart --smartctl {}", smartctl.display())).ok().text();
    assert_eq!(said, format!("DriveFailing on a {} (S1, SMART says that it fails)\n", name(&set.members[1])));
    let wrong = script(&set, "wrong", "echo no JSON");
    assert_eq!(once(&set, &format!("a --smart --smartctl {}", wrong.display())).ok().text(), "");
    server.stop();
}

/// It cannot even tell which kind of drive these are.
#[test]
fn the_real_smartctl_calls_no_drive_failing_that_has_no_smart() {
    let Some(smartctl) = or_skip(find("smartctl")) else { return };
    let set = Set::raid5(3);
    let loops = set.members.iter().map(|member| Loop::over(member, 512)).collect::<Result<Vec<_>, _>>();
    let Some(loops) = or_skip(loops) else { return };
    let devices: Vec<PathBuf> = loops.iter().map(|device| device.path().to_owned()).collect();
    let server = set.serve_some("--memory 32M", &devices);
    let told = set.path("told");
    path_with(&set, "smartctl", &format!("{} \"$@\" | tee -a {}", smartctl.display(), told.display()));
    let mut monitor = Command::new(program::path());
    monitor.args(["monitor", "--oneshot", "--smart", "--config", "/dev/null", "--runtime-dir"]);
    monitor.arg(set.runtime()).arg("a").env("PATH", set.path("bin"));
    assert_eq!(Ran::of(monitor).ok().text(), "");
    let told = std::fs::read(told).unwrap();
    let reports = serde_json::Deserializer::from_slice(&told).into_iter::<Value>();
    let reports = reports.collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(reports.len(), devices.len());
    for report in reports {
        assert_eq!(report["smart_status"], Value::Null, "{report}");
        assert_ne!(report["smartctl"]["exit_status"], 0, "{report}");
    }
    server.stop();
    drop(loops);
    // Files as well, if the program is named.
    let server = set.serve("");
    assert_eq!(once(&set, &format!("a --smart --smartctl {}", smartctl.display())).ok().text(), "");
    server.stop();
}

/// Its words on drives of a machine are given to the monitor as those on members.
#[test]
fn the_real_smartctl_tells_which_drive_of_a_machine_fails() {
    const WARNINGS: [u8; 3] = [0, 4, 0];
    let Some(vm) = or_skip(Vm::new().and_then(|vm| vm.nvme(&WARNINGS))) else { return };
    let look = "for n in 0 1 2; do
            until [ -b /dev/nvme${n}n1 ]; do sleep 0.1; done
            smartctl --json --health --info -- /dev/nvme${n}n1 >/tmp/said || true
            put $n \"$(tr -d '\\n' </tmp/said)\"
        done";
    let report = vm.run(look).unwrap();
    let set = Set::raid5(WARNINGS.len());
    let server = set.serve("");
    let mut failing = None;
    let mut cases = String::new();
    for (number, member) in set.members.iter().enumerate() {
        let said = &report[&*number.to_string()];
        let of: Value = serde_json::from_str(said).unwrap();
        std::fs::write(set.path(&format!("said{number}")), said).unwrap();
        cases += &format!("{}) cat {};; ", name(member), name(&set.path(&format!("said{number}"))));
        // Nothing promises which drive is which: their serial numbers tell.
        if of["serial_number"] == "NVME-1" {
            assert_eq!(of["smart_status"]["passed"], false, "{said}");
            let warning = of["smart_status"]["nvme"]["value"].as_u64().unwrap();
            failing = Some((name(member), of["model_name"].as_str().unwrap().to_owned(), warning));
        }
    }
    let (member, model, warning) = failing.unwrap();
    let smartctl = script(&set, "smartctl", &format!("case \"$5\" in {cases} esac"));
    let said = once(&set, &format!("a --smart --smartctl {}", smartctl.display())).ok().text();
    let why = format!("its critical warning is {warning:#x}");
    assert_eq!(said, format!("DriveFailing on a {member} ({model}, NVME-1, {why})\n"));
    server.stop();
}

#[test]
fn a_scrub_goes_on_in_the_next_window_and_is_put_on_record() {
    let set = Set::sparse(2, 128 * MIB);
    set.create("-l 1 -N a --assume-clean").ok();
    let server = set.serve("");
    let state = set.path("state");
    let scrub = |flags: &[&str]| server.ask("scrub", &[&["--json", "--state", name(&state)], flags].concat());
    let paused = scrub(&["--window", "200ms", "--max-speed", "8M"]).json();
    assert_eq!((&paused["outcome"], &paused["last"]), (&"paused".into(), &Value::Null), "{paused}");
    assert_eq!(server.ask("status", &["--json"]).json()["array"]["sync"]["paused"], true);
    server.ask("action", &["speed", "--max-speed", "0"]).ok();
    let finished = scrub(&["--max-speed", "0"]).json();
    assert_eq!(
        (&finished["outcome"], &finished["mismatch_cnt"]),
        (&"finished".into(), &0.into()),
        "{finished}"
    );
    assert!(finished["last"].as_u64().is_some(), "{finished}");
    assert_eq!(scrub(&["--every", "1"]).json()["outcome"], "not-due");
    assert_eq!(scrub(&["--every", "0"]).json()["outcome"], "finished");
    server.stop();
}
