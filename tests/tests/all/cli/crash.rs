//! Servers that are killed: what is left is told as it is, and the next server makes it good.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use brindle_tests::tools::{self, or_skip};
use rustix::process::Signal;

use super::*;

/// Writes without end; says `ready` when the first write is acknowledged.
const WRITER: &str = "
n = 0
while True:
    h.pwrite(bytes([n % 251 + 1]) * 65536, (n * 65536) % (h.get_size() - 65536) // 65536 * 65536)
    if n == 0: print('ready', flush=True)
    n += 1
";

struct Writer(Child);

impl Writer {
    fn start(nbdsh: &Path, uri: &str) -> Self {
        let mut command = Command::new(nbdsh);
        command.args(["-u", uri, "-c", WRITER]).stdout(Stdio::piped()).stderr(Stdio::null());
        command.env("PATH", SYSTEM_PATH);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills a server under writes. A busy machine may leave a pause between two writes that is long enough for the
/// array to be marked clean, hence more than one try.
fn kill_while_writing(set: &Set, nbdsh: &Path, members: &[PathBuf]) -> Value {
    for _ in 0..10 {
        let server = set.serve_some("", members);
        let writer = Writer::start(nbdsh, &server.uri());
        assert_eq!(server.signal(Signal::KILL).0, -1);
        drop(writer);
        let detail = run("detail --json", members).json();
        if state(&detail)[0] == "active" {
            return detail;
        }
    }
    panic!("ten servers were killed under writes, and all arrays are clean");
}

#[test]
fn a_killed_server_leaves_an_array_that_needs_a_resync_and_the_next_one_does_it() {
    let Some(nbdsh) = or_skip(tools::find("nbdsh")) else { return };
    for flags in ["-l 1", "-l 5 -c 64K", "-l 6 -c 64K -e 0.90", "-l 10 -c 64K"] {
        let set = Set::sparse(4, 4 * MIB);
        set.create(flags).ok();
        let detail = kill_while_writing(&set, &nbdsh, &set.members);
        assert_eq!(state(&detail), ["active", "needs resync"], "{flags}");
        assert!(detail["resync_offset"].is_u64(), "{flags}: {detail}");
        assert!(set.run("detail").ok().text().contains("needs resync"), "{flags}");
        // Old sockets are no obstacle.
        let server = set.serve("");
        server.wait_for_state("needs resync", false);
        server.wait_for_state("clean", true);
        // The last window has made all true; the resync itself ends a moment later.
        let ended = || server.status()["array"]["sync"].is_null();
        let tries = (0..600).take_while(|_| !ended()).map(|_| thread::sleep(Duration::from_millis(100)));
        assert!(tries.count() < 600, "{flags}: the resync does not end");
        assert_eq!(server.ask("wait", &[]).ok().text(), "resynced\n", "{flags}");
        server.stop();
        assert_eq!(state(&set.detail()), ["clean"], "{flags}");
        assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0, "{flags}");
    }
}

#[test]
fn a_resync_that_was_ended_goes_on_when_that_is_asked_for() {
    let Some(nbdsh) = or_skip(tools::find("nbdsh")) else { return };
    let set = Set::sparse(3, 64 * MIB);
    set.create("-l 5 -c 64K -N a").ok();
    kill_while_writing(&set, &nbdsh, &set.members);
    let server = set.serve("--max-speed 1");
    let action = || server.status()["array"]["sync"]["action"].clone();
    assert_eq!(action(), "resync");
    server.ask("action", &["idle"]).ok();
    let ended = server.ask("wait", &[]).ended(1).text();
    assert!(ended.contains("stopped before its end; `brindle action resume` goes on with it"), "{ended}");
    assert_eq!(action(), Value::Null);
    server.ask("action", &["resume"]).ok();
    assert_eq!(action(), "resync");
    server.ask("action", &["speed", "--max-speed", "0"]).ok();
    server.ask("wait", &[]).ok();
    let (code, err) = server.signal(Signal::TERM);
    assert!(
        code == 0 && err.contains("the resync ended: it was stopped before its end; `brindle action"),
        "{err}"
    );
    assert_eq!(state(&set.detail()), ["clean"]);
}

#[test]
fn dirty_and_degraded_is_reported_and_has_to_be_forced() {
    let Some(nbdsh) = or_skip(tools::find("nbdsh")) else { return };
    let set = Set::raid5(3);
    let left = &set.members[1..];
    let mut server = set.serve("");
    let beforehand = "starts again only with --force";
    let exposed = |server: &Server| {
        let text = server.ask("status", &[]).ok().text();
        (server.status()["array"]["exposed"] == true, text.contains(beforehand))
    };
    assert_eq!(exposed(&server), (false, false));
    server.fail("0");
    assert_eq!(exposed(&server), (true, true));
    assert_eq!(
        [server.next_event()["kind"].clone(), server.next_event()["kind"].clone()],
        ["member-failed", "exposed"]
    );
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.contains(beforehand), "{err}");
    let server = set.serve_some("", left);
    assert_eq!(exposed(&server), (true, true));
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.contains(beforehand), "said when it begins: {err}");
    let detail = kill_while_writing(&set, &nbdsh, left);
    assert_eq!(state(&detail), ["active", "degraded", "needs resync"], "{detail}");
    assert_eq!(detail["missing"], serde_json::json!([0]));
    set.unchanged(|| {
        let way_out = ["not stopped cleanly", "--force"];
        run(&format!("serve --runtime-dir {}", set.runtime().display()), left).refused(1, &way_out);
        run("cat", left).refused(1, &way_out);
        run("check", left).refused(1, &["not stopped cleanly"]);
        let cat = run("cat --force", left).ended(0);
        assert!(cat.err.contains("may be wrong"), "{}", cat.err);
        assert_eq!(cat.out.len() as u64, detail["size"].as_u64().unwrap());
    });
    // Nothing has been written: what the members say is said of the array, too.
    let server = set.serve_some("--force", left);
    assert_eq!(state(&server.status()["array"]), ["active", "degraded", "needs resync"]);
    server.stop();
    // Nor is anything at the end, which is said: who turns up yet holds what parity may not give.
    let ends = || {
        let mut serve = Command::new(program::path());
        serve.args(words("serve --force --memory 32M --runtime-dir", &[set.runtime()])).args(left);
        let mut serve = serve.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(serve.stdout.take().unwrap());
        let mut said = String::new();
        out.read_line(&mut said).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_child(&serve), Signal::TERM).unwrap();
        out.read_to_string(&mut said).unwrap();
        serve.wait().unwrap();
        said
    };
    set.unchanged(|| {
        let said = ends();
        assert!(
            said.contains("nothing was written") && said.contains("the next start needs --force, too"),
            "{said}"
        );
    });
    // Once something is, it needs that no more.
    let server = set.serve_some("--force", left);
    drop(Writer::start(&nbdsh, &server.uri()));
    server.stop();
    assert_eq!(state(&run("detail --json", left).json()), ["clean", "degraded"]);
    set.serve_some("", left).stop();
}
