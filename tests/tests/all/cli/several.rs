//! Several arrays in one server: told apart by their superblocks, exports by name, stopped one by one.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use brindle_export::nbd::client::wire;
use brindle_export::nbd::proto::option_code;
use brindle_testkit::hang::{Hang, HangingFiles};
use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::tools::{self, or_skip};
use rustix::process::Signal;
use serde_json::json;

use super::*;

/// A RAID 5 called `a` and a RAID 1 called `b`, or what the names are, in one folder.
struct Pair {
    set: Set,
    a: Vec<PathBuf>,
    b: Vec<PathBuf>,
}

impl Pair {
    fn new() -> Self {
        Self::named(["a", "b"])
    }

    fn named([a, b]: [&str; 2]) -> Self {
        let set = Set::sparse(5, 4 * MIB);
        let (three, two) = set.members.split_at(3);
        let pair = Self { a: three.to_vec(), b: two.to_vec(), set };
        run(&format!("create -l 5 -c 64K -N {a}"), &pair.a).ok();
        run(&format!("create -l 1 -N {b}"), &pair.b).ok();
        pair
    }

    /// In no order; `b` comes first.
    fn mixed(&self) -> Vec<PathBuf> {
        let (a, b) = (&self.a, &self.b);
        [&b[1], &a[2], &b[0], &a[0], &a[1]].map(PathBuf::clone).to_vec()
    }

    #[track_caller]
    fn serve(&self, flags: &str) -> Serving {
        Serving::start(&self.set, flags, &self.mixed())
    }

    fn refused(&self, flags: &str, members: &[PathBuf], code: i32, words: &[&str]) {
        let command = format!("serve --memory 32M --runtime-dir {} {flags}", self.set.runtime().display());
        self.set.unchanged(|| run(&command, members).refused(code, words));
    }
}

/// A server of two, with what it said of each.
struct Serving {
    server: Server,
    said: [Value; 2],
    runtime: PathBuf,
}

impl Serving {
    #[track_caller]
    fn start(set: &Set, flags: &str, members: &[PathBuf]) -> Self {
        let mut server = set.serve_some(&format!("--memory 32M {flags}"), members);
        let second = server.next_event();
        Self { said: [server.said.clone(), second], server, runtime: set.runtime() }
    }

    fn ask(&self, words: &[&str]) -> Ran {
        ask(&self.runtime, words)
    }

    fn uri(&self, array: &str) -> &str {
        let said = self.said.iter().find(|said| said["name"] == array).unwrap();
        said["nbd"][0].as_str().unwrap()
    }

    /// Without a name.
    fn all(&self) -> String {
        let (_, socket) =
            self.server.uri().split_once('?').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        format!("nbd+unix:///?{socket}")
    }
}

fn ask(runtime: &Path, words: &[&str]) -> Ran {
    program::brindle([&[words[0], "--runtime-dir", name(runtime)], &words[1..]].concat())
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|report| report["name"].as_str().unwrap()).collect()
}

fn write(offset: u64, byte: u8) -> Change {
    Change { offset, len: 4096, work: Work::Write { data: vec![byte; 4096], fua: false } }
}

#[test]
fn arrays_are_exports_by_name() {
    let clients = ["nbdinfo", "nbdcopy", "qemu-img"].map(|name| or_skip(tools::find(name)));
    let [Some(nbdinfo), Some(nbdcopy), Some(qemu_img)] = clients else { return };
    let pair = Pair::new();
    let serving = pair.serve("");
    assert_eq!(serving.said.each_ref().map(|said| said["name"].as_str().unwrap()), ["b", "a"]);
    let listed = tools::run(&nbdinfo, ["--list", "--json", &serving.all()]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let exports = listed["exports"].as_array().unwrap();
    let shown = |at: usize, key: &str| exports[at][key].clone();
    assert_eq!(
        (exports.len(), shown(0, "export-name"), shown(1, "export-name")),
        (2, "b".into(), "a".into())
    );
    assert_eq!(
        [shown(0, "description"), shown(1, "description")],
        ["raid1 of 2 members", "raid5 of 3 members"]
    );
    let mut sources = Vec::new();
    for (seed, (array, members)) in [("a", &pair.a), ("b", &pair.b)].into_iter().enumerate() {
        let uri = serving.uri(array);
        let size = run("detail --json", members).json()["size"].as_u64().unwrap();
        let export = exports.iter().find(|export| export["export-name"] == array).unwrap();
        assert_eq!(export["export-size"], size);
        let info: Value =
            serde_json::from_str(&tools::run(&qemu_img, ["info", "--output=json", uri])).unwrap();
        assert_eq!(info["virtual-size"], size);
        let (source, back) = (pair.set.path(&format!("{array}.source")), pair.set.path("back"));
        files::write_pattern(&source, size, seed as u64);
        tools::run(&nbdcopy, ["--flush", name(&source), uri]);
        tools::run(&nbdcopy, [uri, name(&back)]);
        assert_eq!(files::sha256(&source), files::sha256(&back));
        sources.push((members, files::sha256(&source)));
    }
    // No client gets an array that was not named.
    for wrong in [serving.all(), serving.all().replace("///", "///c")] {
        let mut command = std::process::Command::new(&nbdinfo);
        command.arg(&wrong);
        let ran = Ran::of(command).ended(1);
        assert!(ran.err.contains("No such file or directory"), "{}", ran.err);
    }
    serving.server.stop();
    for (members, hash) in sources {
        assert_eq!(files::sha256_of(&run("cat --memory 32M", members).ok().out), hash);
        assert_eq!(state(&run("detail --json", members).json()), ["clean"]);
    }
}

#[test]
fn each_array_is_reported_and_found_by_any_of_its_names() {
    let pair = Pair::new();
    let serving = pair.serve("");
    let all = serving.ask(&["status", "--json"]).json();
    assert_eq!(names(&all), ["b", "a"]);
    assert_eq!((&all[0]["server"], &all[1]["server"]), (&json!("b"), &json!("b")));
    let uuid = all[1]["array"]["uuid"].as_str().unwrap().to_owned();
    let link = pair.set.path("link");
    std::os::unix::fs::symlink(&pair.a[1], &link).unwrap();
    for called in ["a", &uuid, &uuid.replace(':', "-"), name(&pair.a[1]), name(&link)] {
        assert_eq!(serving.ask(&["status", called, "--json"]).json()["name"], "a", "{called}");
    }
    let text = serving.ask(&["status"]).ok().text();
    assert!(text.contains("b: raid1 of") && text.contains("\na: raid5 of"), "{text}");
    serving.ask(&["status", "c"]).refused(1, &["no server of array 'c'", "servers there: b"]);
    serving.ask(&["fail", "a", name(&pair.b[0])]).refused(1, &["is not a member of a"]);
    // A role's number needs its array, a path none.
    serving.ask(&["fail", "0"]).refused(1, &["several arrays", "name the array"]);
    let failed = serving.ask(&["fail", name(&pair.b[0]), "--json"]).json();
    assert_eq!((&failed["name"], &failed["array"]["missing"]), (&json!("b"), &json!([0])), "{failed}");
    serving.ask(&["fail", &uuid, "2"]).ok();
    assert_eq!(serving.ask(&["status", "a", "--json"]).json()["array"]["missing"], json!([2]));
    let (code, err) = serving.server.signal(Signal::TERM);
    let reported = ["a: ", "b: "]
        .map(|of| err.lines().filter(|line| line.starts_with(&format!("brindle: {of}"))).count());
    // Of the one with parity it is told, too, that it is exposed.
    assert_eq!((code, reported), (0, [2, 1]), "{err}");
}

#[test]
fn one_of_two_is_stopped_while_the_other_is_written_to() {
    let pair = Pair::new();
    let mut serving = pair.serve("--name both");
    let ended = AtomicBool::new(false);
    let uri = serving.uri("b").to_owned();
    let mut idle = Client::connect(serving.uri("a"));
    idle.all_at_once(&[write(0, 1)]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = Client::connect(&uri);
            let mut turns = 0_u64;
            while turns < 64 || !ended.load(Relaxed) {
                let at = turns % 64 * 4096;
                client.all_at_once(&[write(at, turns as u8)]);
                assert_eq!(client.read(at, 4096), vec![turns as u8; 4096]);
                turns += 1;
            }
        });
        let stopped = serving.ask(&["stop", "a", "--json"]).json();
        assert_eq!(stopped, json!({"name": "a", "stopped": true}));
        // Its members are free, and clean; the other is what it was.
        assert_eq!(state(&run("detail --json", &pair.a).json()), ["clean"]);
        let again = pair.set.serve_some("--memory 32M --name again", &pair.a);
        assert_eq!(Client::connect(&again.uri()).read(0, 4096), [1; 4096]);
        assert_eq!(names(&serving.ask(&["status", "--json"]).json()), ["again", "b"]);
        again.stop();
        ended.store(true, Relaxed);
        writer.join().unwrap();
    });
    assert_eq!(serving.server.next_event(), json!({"event": "stopped", "name": "a"}));
    let read = std::panic::AssertUnwindSafe(move || idle.read(0, 4096));
    assert!(std::panic::catch_unwind(read).is_err(), "its clients are sent away");
    serving.ask(&["status", "a"]).refused(1, &["no server of array 'a'"]);
    serving.ask(&["stop", "b"]).ok();
    // With nothing left to serve it ends.
    assert_eq!(serving.server.end(), (0, String::new()));
    assert_eq!(state(&run("detail --json", &pair.b).json()), ["clean"]);
}

#[test]
fn all_are_stopped_by_a_word_to_their_server() {
    for words in [&["stop"][..], &["stop", "--all", "a"], &["stop", "both"]] {
        let pair = Pair::new();
        let mut serving = pair.serve("--name both");
        serving.ask(words).ok();
        assert_eq!(serving.server.end(), (0, String::new()));
        for members in [&pair.a, &pair.b] {
            assert_eq!(state(&run("detail --json", members).json()), ["clean"]);
        }
    }
    let (pair, alone) = (Pair::new(), Set::raid5(3));
    let serving = pair.serve("--name both");
    let other = Server::start(&serving.runtime, words("--memory 32M --name c", &alone.members));
    serving.ask(&["stop"]).refused(2, &["several servers", "both, c", "name an array"]);
    other.stop();
    // A name that another server uses is not used twice.
    for flags in ["--name b", "--name a --read-only"] {
        let command = format!("serve --memory 32M --runtime-dir {} {flags}", serving.runtime.display());
        alone.unchanged(|| run(&command, &alone.members).refused(1, &["'both'", "an array named", "--name"]));
    }
    serving.server.stop();
}

#[test]
fn arrays_of_one_name_are_called_by_their_uuids() {
    let pair = Pair::named(["same", "same"]);
    let serving = pair.serve("");
    let uuids = [&pair.b, &pair.a]
        .map(|members| run("detail --json", members).json()["uuid"].as_str().unwrap().replace(':', "-"));
    assert_eq!(
        serving.said.each_ref().map(|said| said["name"].as_str().unwrap()),
        uuids.each_ref().map(|uuid| &**uuid)
    );
    assert_eq!(serving.ask(&["status", &uuids[1], "--json"]).json()["array"]["level"], "raid5");
    Client::connect(serving.uri(&uuids[0])).close();
    serving.server.stop();
}

#[test]
fn nothing_is_served_if_one_can_not_be() {
    let pair = Pair::new();
    let few = [&pair.b[..], &pair.a[..1]].concat();
    let uuid = run("detail --json", &pair.a).json()["uuid"].as_str().unwrap().to_owned();
    let words = [
        "array",
        &uuid,
        "missing",
        name(&pair.a[0]),
        name(&pair.b[0]),
        "give those of one, or enough of each",
    ];
    pair.refused("", &few, 1, &words);
    let twice = [&pair.mixed()[..], &pair.a[..1]].concat();
    pair.refused("", &twice, 2, &["the same device", name(&pair.a[0]), "once"]);
    let copy = pair.set.path("copy");
    std::fs::copy(&pair.a[1], &copy).unwrap();
    let copied = [&pair.mixed()[..], std::slice::from_ref(&copy)].concat();
    pair.refused("", &copied, 1, &[name(&copy), name(&pair.a[1]), "give one of them"]);
    let blank = pair.set.path("blank");
    files::sparse(&blank, 4 * MIB);
    let blanks = [&pair.mixed()[..], std::slice::from_ref(&blank)].concat();
    pair.refused("", &blanks, 1, &[name(&blank), "no md superblock"]);
    // Somebody else has a member of the second: the first is let go as it was.
    let held = std::fs::File::open(&pair.a[0]).unwrap();
    held.lock().unwrap();
    pair.refused("", &pair.mixed(), 1, &[name(&pair.a[0]), "another Brindle"]);
    drop(held);
    pair.serve("").server.stop();
}

#[test]
fn an_array_that_can_only_be_read_does_not_limit_the_other() {
    let pair = Pair::new();
    pair.b.iter().for_each(|member| limits::patch(member, |sb| sb.bitmap_offset = Some(4096)));
    let serving = pair.serve("");
    let all = serving.ask(&["status", "--json"]).json();
    assert!(
        state(&all[0]["array"]).contains(&"read-only") && !state(&all[1]["array"]).contains(&"read-only"),
        "{all}"
    );
    Client::connect(serving.uri("a")).all_at_once(&[write(0, 5)]);
    let (code, err) = serving.server.signal(Signal::TERM);
    assert!(code == 0 && err.contains("b: serving read-only") && err.lines().count() == 1, "{err}");
    pair.refused("--read-write", &pair.mixed(), 1, &["array 'b'", "can't be written to"]);
}

#[test]
fn a_client_that_lists_for_ever_costs_nothing() {
    const LISTS: usize = 10_000;
    let pair = Pair::new();
    let serving = pair.serve("");
    let all = serving.all();
    let stream = UnixStream::connect(all.split_once("socket=").unwrap().1).unwrap();
    let mut said = [0; 18];
    (&stream).read_exact(&mut said).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lists = wire::option(option_code::LIST, b"").repeat(LISTS);
            (&stream).write_all(&[&3_u32.to_be_bytes()[..], &lists].concat()).unwrap();
        });
        // Of each: two names with what they are, and the end.
        let entries: usize =
            ["b", "a"].iter().map(|name| 20 + 4 + name.len() + "raid1 of 2 members".len()).sum();
        let mut heard = vec![0; (entries + 20) * LISTS];
        (&stream).read_exact(&mut heard).unwrap();
        assert!(heard.chunks(entries + 20).all(|replies| replies == &heard[..entries + 20]));
    });
    let resident = memory::bytes(&serving.server, "VmHWM");
    assert!(resident <= memory::REST, "{resident} bytes");
    Client::connect(serving.uri("a")).close();
    serving.server.stop();
}

struct Hung {
    /// Before the server: what waits for them ends when they go.
    files: HangingFiles,
    serving: Serving,
}

#[test]
fn an_array_that_hangs_is_given_up_alone() {
    let Some(files) = or_skip(HangingFiles::mount(2, 4 << 20)) else { return };
    let set = Set::raid5(3);
    let members: Vec<PathBuf> = (0..2).map(|file| files.path(file)).collect();
    run("create -l 0 -c 64K -N h", &members).ok();
    let both = [&members[..], &set.members[..]].concat();
    let hung = Hung { serving: Serving::start(&set, "--stop-timeout 1s", &both), files };
    let uri = hung.serving.uri("h").to_owned();
    hung.files.hang(Hang::Everything);
    let writer = std::thread::spawn(move || Client::connect(&uri).all_at_once(&[write(0, 7)]));
    let wait = |done: &dyn Fn() -> bool| {
        while !done() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    wait(&|| hung.files.held() > 0);
    let stopped = hung.serving.ask(&["stop", "h"]).ended(1);
    assert!(stopped.err.contains("h: did not stop in time"), "{}", stopped.err);
    let mut client = Client::connect(hung.serving.uri("a"));
    client.all_at_once(&[write(0, 9)]);
    assert_eq!(client.read(0, 4096), [9; 4096]);
    client.close();
    hung.serving.ask(&["stop", "a"]).ok();
    assert_eq!(state(&set.detail()), ["clean"]);
    wait(&|| hung.serving.server.is_over());
    let Hung { files, mut serving } = hung;
    drop(files);
    let (code, err) = serving.server.end();
    assert!(code == 1 && err.contains("h: did not stop in time"), "{code}: {err}");
    assert!(writer.join().is_err(), "the write was not acknowledged");
}

#[test]
fn an_array_of_arrays_is_served_beside_another() {
    let set = Set::sparse(7, 8 * MIB);
    let (inner, outer) = set.members.split_at(4);
    inner.chunks(2).for_each(|pair| drop(run("create -l 1", pair).ok()));
    let joined: Vec<PathBuf> =
        inner.chunks(2).map(|pair| format!("{}+{}", name(&pair[0]), name(&pair[1])).into()).collect();
    run("create -l 0 -c 64K -N big", &joined).ok();
    run("create -l 5 -c 64K -N a", outer).ok();
    // A member that an inner array lacks is not reported for the other one.
    flip(&inner[3], 4096 + 72);
    let serving = Serving::start(&set, "", &[&outer[..2], &joined, &outer[2..]].concat());
    let all = serving.ask(&["status", "--json"]).json();
    assert_eq!(names(&all), ["a", "big"]);
    assert_eq!((&all[0]["left_out"], &all[1]["left_out"][0]["path"]), (&json!([]), &json!(name(&inner[3]))));
    assert_eq!(all[1]["arrays"].as_array().map(Vec::len), Some(2), "{all}");
    for array in ["a", "big"] {
        Client::connect(serving.uri(array)).all_at_once(&[write(0, 3)]);
    }
    serving.ask(&["stop", "big"]).ok();
    assert_eq!(run("cat --length 4K", &joined).ended(0).out, [3; 4096]);
    assert_eq!(state(&run("detail --json", &inner[..2]).json()), ["clean"]);
    let (code, err) = serving.server.signal(Signal::TERM);
    assert!(code == 0 && err.contains(name(&inner[3])) && err.lines().count() == 1, "{err}");
}
