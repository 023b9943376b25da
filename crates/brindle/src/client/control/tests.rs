//! The control socket against clients that do not keep to the rules, and a handler that never answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use brindle_host::control::{Answer as Sent, Control, ControlRights, Ended, Handler, Reply, VERSION, listen};
use brindle_host::status::{DeviceStatus, ExportStatus};
use brindle_host::{Done, Volumes};
use serde::de::IgnoredAny;
use serde_json::json;

use super::*;
use crate::base::runtime;
use crate::client::ask::{Order, Target};

/// Answers some members' failure, and keeps what it never answers.
#[derive(Default)]
struct Echo(Mutex<Vec<Reply>>);

impl Handler for Echo {
    fn begin(&self, request: Request, reply: Reply) {
        match &request.ask {
            Ask::Fail { member } if member == "hangs" => self.0.lock().unwrap().push(reply),
            _ => reply.send(Sent::Ok(serde_json::to_value(request).unwrap())),
        }
    }

    fn overdue(&self, _: &Request) -> Sent {
        Sent::Error("it thinks".into())
    }
}

struct Place {
    folder: PathBuf,
    control: Control,
}

impl Place {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("brindle-control-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let listener = UnixListener::bind(runtime::control_socket(&folder, "a")).unwrap();
        Self { control: listen(listener, ControlRights::default(), Echo::default()).unwrap(), folder }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(runtime::control_socket(&self.folder, "a")).unwrap()
    }

    fn say(&self, text: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(text).unwrap();
        rest(&stream)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.control.end(Ended::Well);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn rest(mut stream: &UnixStream) -> String {
    let mut text = String::new();
    // A line that was not read to its end makes the end of the connection an error.
    let _ = stream.read_to_string(&mut text);
    text
}

fn report(folder: &Path, request: &Request) -> serde_json::Value {
    match ask::<IgnoredAny>(folder, "a", request).unwrap() {
        Response::Report(report) => serde_json::to_value(report).unwrap(),
        Response::Stale => panic!("a server listens"),
    }
}

#[test]
fn requests_have_a_stable_shape() {
    let fail = Ask::Fail { member: "/dev/sda".into() }.of(None);
    let text = serde_json::to_string(&fail).unwrap();
    assert_eq!(text, r#"{"ask":"fail","member":"/dev/sda"}"#);
    assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), fail);
    let one = Ask::Stop.of(String::from("b"));
    assert_eq!(serde_json::to_string(&one).unwrap(), r#"{"ask":"stop","array":"b"}"#);
    assert_eq!(serde_json::from_str::<Request>(r#"{"ask":"stop"}"#).unwrap(), Ask::Stop.of(None));
    assert_eq!(serde_json::to_string(&Sent::Error("no".into())).unwrap(), r#"{"error":"no"}"#);
    assert_eq!(serde_json::to_string(&Ended::Well).unwrap(), r#"{"ended":"well"}"#);
    let badly = Ended::Badly { why: "so".into() };
    assert_eq!(serde_json::to_string(&badly).unwrap(), r#"{"ended":"badly","why":"so"}"#);
}

#[test]
fn a_server_answers_and_garbage_is_told_so() {
    let place = Place::new("answers");
    assert_eq!(report(&place.folder, &Ask::Status.into()), json!({"ask": "status"}));
    for garbage in [&b"{\"ask\":\"dance\"}\n"[..], b"\n", b"\xff\x00{\n", &[b'x'; 80_000]] {
        let answer = place.say(garbage);
        assert!(answer.starts_with(r#"{"error":"not a request"#), "{answer}");
    }
    // A client that hangs up after half a line, or before the answer, disturbs no other.
    place.connect().write_all(b"{\"ask\":").unwrap();
    place.connect().write_all(b"{\"ask\":\"status\"}\n").unwrap();
    assert_eq!(report(&place.folder, &Ask::Status.into()), json!({"ask": "status"}));
    let Err(missing) = ask::<IgnoredAny>(&place.folder, "b", &Ask::Status.into()) else {
        panic!("no such server")
    };
    let missing = missing.to_string();
    assert!(missing.contains("array 'b'") && missing.ends_with("servers there: a"), "{missing}");
}

#[test]
fn silence_and_half_lines_are_dropped_and_disturb_nobody() {
    let place = Place::new("silence");
    let silent: Vec<UnixStream> = (0..300).map(|_| place.connect()).collect();
    let mut half = place.connect();
    half.write_all(b"{\"ask\":").unwrap();
    let talker = place.connect();
    // A byte now and then does not make a line's time longer.
    let drips = std::thread::spawn(move || {
        while (&talker).write_all(b" ").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    });
    assert_eq!(report(&place.folder, &Ask::Status.into()), json!({"ask": "status"}));
    for stream in silent.iter().chain([&half]) {
        assert_eq!(rest(stream), "", "dropped");
    }
    drips.join().unwrap();
    assert_eq!(report(&place.folder, &Ask::Status.into()), json!({"ask": "status"}));
}

#[test]
fn an_array_that_thinks_for_ever_holds_up_neither_its_client_nor_others() {
    let place = Place::new("thinks");
    let fail = Ask::Fail { member: "hangs".into() }.of(None);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let why = ask::<IgnoredAny>(&place.folder, "a", &fail).err().unwrap().to_string();
                assert_eq!(why, "it thinks");
            });
        }
        assert_eq!(report(&place.folder, &Ask::Status.into()), json!({"ask": "status"}));
    });
}

#[test]
fn a_wait_for_the_end_ends_with_it() {
    for (ended, comes) in [(Ended::Well, "Ok"), (Ended::Badly { why: "m2 hangs".into() }, "m2 hangs")] {
        let place = Place::new(comes);
        let folder = place.folder.clone();
        let waiting = std::sync::Barrier::new(2);
        let has_its_answer = || {
            waiting.wait();
        };
        std::thread::scope(|scope| {
            let stopped =
                scope.spawn(|| stop(Line::open(&folder, "a").unwrap().unwrap(), None, has_its_answer));
            waiting.wait();
            place.control.end(ended);
            match stopped.join().unwrap() {
                Ok(answer) => assert_eq!((json!(answer), comes), (json!({"ask": "stop"}), "Ok")),
                Err(failure) => assert_eq!(failure.to_string(), comes),
            }
        });
    }
}

#[test]
fn what_was_asked_just_before_the_end_is_answered() {
    let place = Place::new("end");
    let mut streams: Vec<UnixStream> = (0..4).map(|_| place.connect()).collect();
    for stream in &mut streams {
        stream.write_all(b"{\"ask\":\"fail\",\"member\":\"hangs\"}\n").unwrap();
    }
    place.control.end(Ended::Well);
    for stream in &streams {
        assert_eq!(rest(stream), "{\"error\":\"it thinks\"}\n");
    }
    assert!(matches!(ask::<IgnoredAny>(&place.folder, "a", &Ask::Status.into()), Ok(Response::Stale)));
}

/// A server of its own making, and the lines that it was asked.
fn stranger(answer: impl Fn(&str) -> String + Send + 'static, test: impl FnOnce(&Path)) -> Vec<String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("brindle-stranger-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let listener = UnixListener::bind(runtime::control_socket(&folder, "a")).unwrap();
    let server = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            match line.trim_end() {
                "" => break,
                line => asked.push(line.to_owned()),
            }
            (&stream).write_all(answer(&line).as_bytes()).unwrap();
        }
        asked
    });
    test(&folder);
    drop(UnixStream::connect(runtime::control_socket(&folder, "a")));
    let asked = server.join().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    asked
}

/// Asks a server of that version, or one that tells none, for its status.
fn status_of_stranger(version: Option<u32>, answer: &str) -> Result<Answer<Volumes>, String> {
    let (answer, mut got) = (answer.to_owned(), None);
    let answers = move |line: &str| match version {
        _ if !line.contains("version") => answer.clone(),
        Some(version) => format!("{{\"ok\":{{\"version\":{version}}}}}\n"),
        None => String::new(),
    };
    stranger(answers, |folder| {
        got = Some(match ask(folder, "a", &Ask::Status.into()) {
            Ok(Response::Report(answer)) => Ok(answer),
            Ok(Response::Stale) => panic!("a server listens"),
            Err(failure) => Err(failure.to_string()),
        });
    });
    got.unwrap()
}

fn fail(folder: &Path, member: &str) -> Result<Answer<Done>, String> {
    let target = Target::find(folder, "a");
    let order = Order::of(folder, &target, Some("a")).unwrap();
    order.of_member(member, |member| Ask::Fail { member }).map_err(|failure| failure.to_string())
}

#[test]
fn an_order_is_all_that_a_server_of_this_folder_is_asked() {
    let asked = stranger(
        |_| "{\"ok\":{\"name\":\"a\"}}\n".to_owned(),
        |folder| assert_eq!(fail(folder, "m2").unwrap().name, "a"),
    );
    // Behind that stands who asked, with the command line.
    let begin = r#"{"ask":"fail","member":"m2","array":"a","by":{"command":"#;
    assert!(asked.len() == 1 && asked[0].starts_with(begin), "{asked:?}");
}

#[test]
fn a_member_that_was_refused_is_named_as_its_server_knows_it() {
    let files = std::env::temp_dir().join(format!("brindle-links-{}", std::process::id()));
    std::fs::create_dir_all(&files).unwrap();
    let files = files.canonicalize().unwrap();
    let [link, file] = ["link", "file"].map(|name| files.join(name).display().to_string());
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for known in [&link, &file] {
        let (name, device) = (known.clone(), link.clone());
        let answers = move |line: &str| match line {
            line if line.contains("status") => {
                let mut report = serde_json::to_value(ExportStatus::default()).unwrap();
                report["array"]["devices"] =
                    json!([DeviceStatus { path: name.clone(), ..DeviceStatus::default() }]);
                json!({"ok": report}).to_string() + "\n"
            }
            line if line.contains(&device) => "{\"error\":\"it is refused\"}\n".to_owned(),
            _ => "{\"ok\":{\"name\":\"a\"}}\n".to_owned(),
        };
        let mut failed = None;
        let asked = stranger(answers, |folder| failed = Some(fail(folder, &link)));
        match known == &link {
            // Its own name was right, and so is the reason.
            true => {
                assert_eq!((failed.unwrap().err().unwrap(), asked.len()), ("it is refused".to_owned(), 2));
            }
            false => assert!(failed.unwrap().is_ok() && asked[2].contains(&file), "{asked:?}"),
        }
    }
    std::fs::remove_dir_all(&files).unwrap();
}

#[test]
fn answers_that_can_not_be_read_name_both_versions() {
    let deep = format!("{{\"ok\":{}}}\n", "[".repeat(300));
    let wrong = [
        "{\"ok\":{\"name\":\"a\",\"pid\":",
        "{\"ok\":{\"name\":\"a\"}}\n",
        "{\"ok\":{\"array\":{\"devices\":7}}}\n",
        "{\"ok\":7}\n",
        "\u{0}\n",
        "{\"okay\":[]}\n",
        &deep,
    ];
    for (answer, theirs) in wrong.into_iter().flat_map(|answer| [(answer, Some(7)), (answer, None)]) {
        let why = status_of_stranger(theirs, answer).unwrap_err();
        assert!(why.contains(&format!("this program version {VERSION}")), "{answer}: {why}");
        let told =
            theirs.map_or("a version that it does not tell".to_owned(), |theirs| format!("version {theirs}"));
        assert!(why.contains(&format!("the server speaks {told}")), "{answer}: {why}");
    }
}

#[test]
fn servers_of_other_versions_are_read_as_far_as_they_tell() {
    let older = "{\"ok\":{\"name\":\"a\",\"pid\":7,\"array\":{\"state\":[\"clean\"]}}}\n";
    let read = status_of_stranger(Some(7), older).unwrap();
    assert_eq!((read.all()[0].name(), read.all()[0].pid(), read.all()[0].nbd().len()), ("a", 7, 0));
    // Of this version it is a fault, which tests find.
    let why = status_of_stranger(Some(VERSION), older).unwrap_err();
    assert!(why.contains("lacks"), "{why}");
    let newer = "{\"ok\":[{\"name\":\"a\",\"not_served\":\"no\",\"colour\":\"red\"}]}\n";
    let read = status_of_stranger(Some(VERSION + 1), newer).unwrap();
    assert_eq!((read.all()[0].is_absent(), json!(read)[0]["colour"].clone()), (true, json!("red")));
}

#[test]
fn a_request_that_a_server_does_not_know_changes_nothing_and_says_so() {
    let unknown = "{\"error\":\"not a request: unknown variant `status`\"}\n";
    let why = status_of_stranger(Some(3), unknown).unwrap_err();
    for words in ["version 3", "nothing was changed", &format!("version {VERSION}"), "unknown variant"] {
        assert!(why.contains(words), "{why}");
    }
    assert_eq!(status_of_stranger(Some(VERSION), "{\"error\":\"no\"}\n").unwrap_err(), "no");
}
