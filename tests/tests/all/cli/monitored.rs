//! The monitor: events with mdadm's names, told by lines, programs and mail.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

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
    assert_eq!([next(), next()], ["NewArray", "DegradedArray"]);
    server.stop_after_failing(1);
    assert_eq!(next(), "DeviceDisappeared");
    assert!(run("monitor --scan --webhook nowhere", &[]).ended(2).err.contains("http://"));
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
