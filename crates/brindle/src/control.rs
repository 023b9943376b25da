//! The control socket: one JSON object a line, asked and answered. See docs/cli-json.md.

mod message;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::runtime;
pub(crate) use message::{Answer, Request};

/// A line longer than this is nobody's request.
const MAX_LINE: u64 = 64 * 1024;

/// How long a server may think about an answer; stopping waits for requests in flight.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks the server of that name.
pub(crate) fn ask(folder: &Path, name: &str, request: &Request) -> Result<serde_json::Value, Failure> {
    runtime::check_name(name)?;
    let path = runtime::control_socket(folder, name);
    let lost = |source: io::Error| no_server(folder, name, &source);
    let mut stream = UnixStream::connect(&path).map_err(lost)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
    let mut line = serde_json::to_vec(request).map_err(|error| lost(error.into()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(lost)?;
    let answer = read_line(&stream).map_err(lost)?;
    match serde_json::from_slice(&answer).map_err(|error| lost(error.into()))? {
        Answer::Ok(report) => Ok(report),
        Answer::Error(why) => Err(Failure::Refused(why)),
    }
}

/// Waits until the server has ended: it answers a request to stop before it drains and flushes.
pub(crate) fn wait_until_gone(folder: &Path, name: &str) -> Result<(), Failure> {
    let path = runtime::control_socket(folder, name);
    let deadline = Instant::now() + PATIENCE;
    while UnixStream::connect(&path).is_ok() {
        if Instant::now() > deadline {
            return Err(Failure::Refused(format!(
                "'{name}' is still stopping: requests in flight take their time"
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn no_server(folder: &Path, name: &str, source: &io::Error) -> Failure {
    let others = runtime::servers(folder);
    let known = if others.is_empty() { "none runs".to_owned() } else { others.join(", ") };
    Failure::NoServer(format!(
        "no server of array '{name}' answers in {} ({source}); servers there: {known}",
        folder.display()
    ))
}

fn read_line(stream: &UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(stream.take(MAX_LINE)).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the connection was closed without an answer",
        ));
    }
    Ok(line)
}

/// Answers requests on a thread of its own until the process ends; `handle` hands them to the array's reactor.
pub(crate) fn listen(
    listener: UnixListener,
    handle: impl Fn(Request) -> Answer + Send + 'static,
) -> io::Result<()> {
    std::thread::Builder::new().name("control".into()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // One at a time: a client that says nothing may hold up others only for a moment.
            let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
            let _ = stream.set_write_timeout(Some(Duration::from_secs(2)));
            let Ok(line) = read_line(&stream) else { continue };
            if let Ok(line) = message::reply(&line, &handle) {
                let _ = (&stream).write_all(&line); // a client that has left is no concern of the array's
            }
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_a_stable_shape() {
        let fail = Request::Fail { member: "/dev/sda".into() };
        let text = serde_json::to_string(&fail).unwrap();
        assert_eq!(text, r#"{"ask":"fail","member":"/dev/sda"}"#);
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), fail);
        assert_eq!(serde_json::to_string(&Answer::Error("no".into())).unwrap(), r#"{"error":"no"}"#);
    }

    #[test]
    fn a_server_answers_and_garbage_is_told_so() {
        let folder = std::env::temp_dir().join(format!("brindle-control-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = runtime::control_socket(&folder, "a");
        let listener = UnixListener::bind(&path).unwrap();
        listen(listener, |request| Answer::Ok(serde_json::to_value(request).unwrap())).unwrap();
        let report = ask(&folder, "a", &Request::Status).unwrap();
        assert_eq!(report, serde_json::json!({"ask": "status"}));
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"{\"ask\":\"dance\"}\n").unwrap();
        let answer = String::from_utf8(read_line(&stream).unwrap()).unwrap();
        assert!(answer.starts_with(r#"{"error":"not a request"#), "{answer}");
        let missing = ask(&folder, "b", &Request::Status).unwrap_err().to_string();
        assert!(missing.contains("array 'b'") && missing.ends_with("servers there: a"), "{missing}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
