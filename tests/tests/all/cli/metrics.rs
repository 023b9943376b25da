//! Metrics as Prometheus reads them: by scrapes, in a file, and checked by its own tool.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use brindle_tests::tools::{self, or_skip};

use super::*;

/// Samples by their names and labels, as they are written.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let all = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    });
    let all: Vec<_> = all.collect();
    let by_name: BTreeMap<_, _> = all.iter().cloned().collect();
    assert_eq!(by_name.len(), all.len(), "a sample stands there twice");
    by_name
}

/// The answer to a request on a connection.
fn asked(mut stream: impl Read + Write, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    (head.to_owned(), body.to_owned())
}

fn get(address: &str, path: &str) -> (String, String) {
    asked(TcpStream::connect(address).unwrap(), &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
}

/// The address that `serve` says.
fn address(server: &mut Server) -> String {
    let said = server.next_event();
    assert_eq!(said["event"], "metrics", "{said}");
    let at = said["at"][0].as_str().and_then(|at| at.strip_prefix("http://")?.strip_suffix("/metrics"));
    at.unwrap_or_else(|| panic!("{said}")).to_owned()
}

/// `brindle metrics FLAGS` of the servers of a set.
fn metrics(set: &Set, flags: &str) -> Ran {
    run(&format!("metrics --runtime-dir {} {flags}", set.runtime().display()), &[])
}

/// Prometheus' own tool.
fn promtool() -> Option<PathBuf> {
    let unpacked = tools::cache_dir("promtool").join("promtool");
    if unpacked.is_file() { Some(unpacked) } else { or_skip(tools::find("promtool")) }
}

/// Asserts that Prometheus' own tool finds nothing to complain about.
fn check(text: &str) {
    let Some(promtool) = promtool() else { return };
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.is_empty(), "{said}");
}

/// Waits until a scrape says so of a sample.
#[track_caller]
fn wait_for(address: &str, sample: &str, value: f64) {
    let begun = Instant::now();
    loop {
        let (_, text) = get(address, "/metrics");
        let found = samples(&text).get(sample).copied();
        if found == Some(value) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{sample} is {found:?} and not {value}\n{text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_happens_to_an_array_can_be_scraped() {
    let set = Set::raid5(4);
    let mut server = set.serve_some("--memory 32M --metrics 127.0.0.1:0", &set.members);
    let at = address(&mut server);
    let (head, text) = get(&at, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("text/plain; version=0.0.4"), "{head}");
    check(&text);
    let first = samples(&text);
    let of = |name: &str| first.get(name).copied().unwrap_or_else(|| panic!("{name} is not in\n{text}"));
    assert_eq!(of("brindle_array_members_required{array=\"a\"}"), 4.0);
    assert_eq!(
        of("brindle_array_size_bytes{array=\"a\"}"),
        server.status()["array"]["size"].as_f64().unwrap()
    );
    // Each state is there, also those that nothing is in.
    let states = |state: &str| of(&format!("brindle_array_members{{array=\"a\",state=\"{state}\"}}"));
    for state in ["recovering", "replacement", "spare", "journal", "failed", "faulty", "stale", "removed"] {
        assert_eq!(states(state), 0.0, "{state}");
    }
    assert_eq!(states("in-sync"), 4.0);

    wait_for(&at, "brindle_array_redundancy_left{array=\"a\"}", 1.0);
    server.ask("fail", &["1"]).ok();
    wait_for(&at, "brindle_array_members{array=\"a\",state=\"failed\"}", 1.0);
    wait_for(&at, "brindle_array_state{array=\"a\",state=\"degraded\"}", 1.0);
    wait_for(&at, "brindle_array_redundancy_left{array=\"a\"}", 0.0);
    assert_eq!(server.status()["array"]["redundancy_left"], 0);
    server.ask("remove", &["failed"]).ok();
    wait_for(&at, "brindle_array_members{array=\"a\",state=\"removed\"}", 1.0);
    wait_for(&at, "brindle_array_members{array=\"a\",state=\"failed\"}", 0.0);
    server.ask("action", &["check"]).ok();
    server.ask("wait", &[]);
    wait_for(&at, "brindle_array_mismatch_sectors{array=\"a\",action=\"check\"}", 0.0);
    server.stop_after_failing(1);
}

#[test]
fn an_array_has_a_hundred_series_at_most_until_more_are_asked_for() {
    let set = Set::sparse(24, 4 * MIB);
    set.create("-l 6 -c 64K -N a --bitmap internal").ok();
    let mut server = set.serve_some("--memory 32M --metrics 127.0.0.1:0 --iscsi 127.0.0.1:0", &set.members);
    let at = address(&mut server);
    server.ask("action", &["check"]).ok();
    server.ask("wait", &[]);
    wait_for(&at, "brindle_array_mismatch_sectors{array=\"a\",action=\"check\"}", 0.0);
    let of_array = |text: &str| samples(text).keys().filter(|name| name.contains("array=\"a\"")).count();
    let (_, text) = get(&at, "/metrics");
    check(&text);
    assert!((60..=100).contains(&of_array(&text)), "{} in\n{text}", of_array(&text));
    // Each member is told from the others.
    let member =
        |text: &str, metric: &str| samples(text).keys().filter(|name| name.starts_with(metric)).count();
    assert_eq!(member(&text, "brindle_member_errors_total{"), 24);
    assert_eq!(member(&text, "brindle_member_reads_total{"), 0);
    assert!(of_array(&metrics(&set, "").ok().text()) <= 100);
    let full = metrics(&set, "--full").ok().text();
    check(&full);
    assert_eq!(member(&full, "brindle_member_reads_total{"), 24);
    assert!(of_array(&full) > 1000 && full.contains("brindle_export_read_latency_seconds_bucket{"));
    server.stop();
    let mut server = set.serve_some("--memory 32M --metrics 127.0.0.1:0 --metrics-full", &set.members);
    let at = address(&mut server);
    assert!(of_array(&get(&at, "/metrics").1) > 1000);
    server.stop();
}

#[test]
fn metrics_are_put_in_a_file_as_a_whole() {
    let set = Set::raid5(3);
    let server = set.serve("");
    let printed = metrics(&set, "").ok().text();
    check(&printed);
    let file = set.path("brindle.prom");
    metrics(&set, &format!("--textfile {}", file.display())).ok();
    let names = |text: &str| samples(text).into_keys().collect::<Vec<_>>();
    assert_eq!(names(&std::fs::read_to_string(&file).unwrap()), names(&printed));
    let left: Vec<_> =
        std::fs::read_dir(set.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".new")), "{left:?}");
    let nowhere = set.path("no/such/folder");
    metrics(&set, &format!("--textfile {}", nowhere.display()))
        .refused(1, &["no/such/folder", "No such file"]);
    let reported = metrics(&set, "--json").json();
    assert_eq!(reported[0]["name"], "brindle_server_info");
    server.stop();
    assert_eq!(metrics(&set, "").ok().text(), "");
}

#[test]
fn only_those_who_know_the_secret_get_an_answer() {
    let set = Set::raid5(3);
    let (socket, secret) = (set.path("scrape"), set.path("secret"));
    std::fs::write(&secret, "s3cret\n").unwrap();
    let flags =
        format!("--memory 32M --metrics unix:{} --metrics-bearer {}", socket.display(), secret.display());
    let server = set.serve_some(&flags, &set.members);
    let ask = |header: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{header}\r\n");
        asked(UnixStream::connect(&socket).unwrap(), &request)
    };
    for wrong in [
        "",
        "Authorization: Bearer s3cre\r\n",
        "Authorization: Bearer s3cret2\r\n",
        "Authorization: Basic s3cret\r\n",
    ] {
        let (head, body) = ask(wrong);
        assert!(head.starts_with("HTTP/1.1 401") && !body.contains("brindle_"), "{wrong}: {head}");
    }
    let (head, body) = ask("authorization: bearer s3cret\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && body.contains("brindle_array_info"), "{head}");
    server.stop();
    assert!(!socket.exists(), "the socket is removed at the end");
    for (flags, words) in [
        ("--metrics 0.0.0.0:0", ["--metrics 0.0.0.0:0", "127.0.0.1"]),
        ("--metrics 127.0.0.1:0 --metrics-bearer /dev/null", ["/dev/null", "first line"]),
    ] {
        set.unchanged(|| set.serve_refused(flags).refused(2, &words));
    }
}

#[test]
fn requests_that_are_wrong_slow_or_many_disturb_nobody() {
    let set = Set::raid5(3);
    let mut server = set.serve_some("--memory 32M --metrics 127.0.0.1:0", &set.members);
    let at = address(&mut server);
    let ask = |request: &str| asked(TcpStream::connect(&at).unwrap(), request).0;
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "200"),
        ("HEAD /metrics HTTP/1.1\r\n\r\n", "200"),
        ("GET /metrics?x=y HTTP/1.0\r\n\r\n", "200"),
        ("GET /secret HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405"),
        ("\0\r\n\r\n", "400"),
        ("GET /metrics\r\n\r\n", "400"),
    ] {
        let head = ask(request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {head}");
    }
    let mut huge = TcpStream::connect(&at).unwrap();
    let _ = huge.write_all(format!("GET /{}", "x".repeat(9000)).as_bytes());
    let mut head = [0; 12];
    huge.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 431");
    // Clients that never end their requests make room for those that do.
    let slow: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = TcpStream::connect(&at).unwrap();
            stream.write_all(b"GET /metr").unwrap();
            stream
        })
        .collect();
    let (head, text) = get(&at, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(text.contains("brindle_array_info{array=\"a\""), "{text}");
    assert_eq!(server.status()["array"]["state"][0], "clean");
    drop(slow);
    server.stop();
}

#[test]
fn names_from_disks_are_labels_and_no_more() {
    let set = Set::sparse(2, 4 * MIB);
    let evil = "x\"} 1";
    let made = program::brindle(
        ["create", "-l", "1", "-N", evil]
            .map(OsString::from)
            .into_iter()
            .chain(set.members.iter().map(OsString::from)),
    );
    made.ok();
    let server = set.serve("-N safe");
    let text = metrics(&set, "").ok().text();
    check(&text);
    assert!(!text.lines().any(|line| line.ends_with("\"} 1\"} 1")), "{text}");
    server.stop();
}

#[test]
fn the_rules_that_are_given_find_what_they_are_for() {
    let Some(promtool) = promtool() else { return };
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics");
    for tests in ["alerts.test.yml", "scrubs.test.yml"] {
        let tested =
            tools::run(&promtool, [OsString::from("test"), "rules".into(), rules.join(tests).into()]);
        assert!(tested.contains("SUCCESS"), "{tested}");
    }
    let alerts = std::fs::read_to_string(rules.join("alerts.yml")).unwrap();
    assert!(!alerts.contains("on (array)"), "arrays of two machines may have one name");
    // Every metric of the rules and of the dashboard is one that docs/metrics.md knows by name.
    let known = std::fs::read_to_string(rules.join("../metrics.md")).unwrap();
    for file in ["alerts.yml", "dashboard.json"] {
        let text = std::fs::read_to_string(rules.join(file)).unwrap();
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        for metric in words.filter(|word| word.starts_with("brindle_")) {
            let plain = metric.trim_end_matches("_bucket");
            let parts = plain.match_indices('_').map(|(at, _)| &plain[at..]);
            let reported = known.contains(&format!("`{plain}`"))
                || parts.clone().any(|part| known.contains(&format!("`{part}`")));
            assert!(reported, "{metric} of {file} is not in docs/metrics.md");
        }
    }
}
