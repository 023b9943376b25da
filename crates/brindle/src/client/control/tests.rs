//! The control socket against clients that do not keep to the rules, and a handler that never answers.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use brindle_host::control::{Answer, Control, Ended, Handler, Reply, listen};
use serde_json::json;

use super::*;
use crate::base::runtime;

/// Answers some members' failure, and keeps what it never answers.
#[derive(Default)]
struct Echo(Mutex<Vec<Reply>>);

impl Handler for Echo {
    fn begin(&self, request: Request, reply: Reply) {
        match &request.ask {
            Ask::Fail { member } if member == "hangs" => self.0.lock().unwrap().push(reply),
            _ => reply.send(Answer::Ok(serde_json::to_value(request).unwrap())),
        }
    }

    fn overdue(&self, _: &Request) -> Answer {
        Answer::Error("it thinks".into())
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
        Self { control: listen(listener, Echo::default()).unwrap(), folder }
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
    match ask(folder, "a", request).unwrap() {
        Response::Report(report) => report,
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
    assert_eq!(serde_json::to_string(&Answer::Error("no".into())).unwrap(), r#"{"error":"no"}"#);
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
    let Err(missing) = ask(&place.folder, "b", &Ask::Status.into()) else { panic!("no such server") };
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
                let why = ask(&place.folder, "a", &fail).err().unwrap().to_string();
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
            let stopped = scope.spawn(|| stop(&folder, "a", None, has_its_answer));
            waiting.wait();
            place.control.end(ended);
            match stopped.join().unwrap() {
                Ok(answer) => assert_eq!((answer, comes), (Some(json!({"ask": "stop"})), "Ok")),
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
    assert!(matches!(ask(&place.folder, "a", &Ask::Status.into()), Ok(Response::Stale)));
}
