//! Text from users and from peers of the control socket. Input: kind (1 byte), the text or line.

use core::str::FromStr;

use brindle_format::md::{Version, display_uuid, full_name, parse_uuid, split_name};
use brindle_host::control::message::{self, Answer, Request, request};
use brindle_layout::{Layout, Level};
use units::Bytes;

// The program is not a library; this file of it needs nothing of the rest.
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../../crates/brindle/src/base/units.rs"]
mod units;

const LEVELS: [Level; 7] =
    [Level::Linear, Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6, Level::Raid10];

/// Takes the bytes as a line of the control socket, or as a text of the command line.
pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match kind % 4 {
        0 => line(rest),
        1 => size(&text),
        2 => names(&text),
        _ => uuid(&text),
    }
}

fn line(line: &[u8]) {
    let asked = request(line);
    let answer = match &asked {
        Ok(request) => Answer::Ok(serde_json::to_value(request).expect("requests are plain")),
        Err(answer) => answer.clone(),
    };
    let answer = message::line(&answer);
    let (end, text) = answer.split_last().expect("a line");
    assert!(*end == b'\n' && !text.contains(&b'\n'), "one line for one line");
    // The longest echo of a byte is `\u0000`; the rest is ours: an error names all requests.
    assert!(answer.len() <= 6 * line.len() + 600, "{} bytes for {}", answer.len(), line.len());
    match (serde_json::from_slice(text).expect("an answer"), asked) {
        (Answer::Ok(echo), Ok(request)) => {
            assert_eq!(serde_json::from_value::<Request>(echo).expect("a request"), request);
        }
        (Answer::Error(why), Err(_)) => assert!(why.starts_with("not a request")),
        (answer, asked) => panic!("{answer:?} to {asked:?}"),
    }
}

fn size(text: &str) {
    for parsed in [Bytes::parse(text), Bytes::parse_kib(text)] {
        match parsed {
            Ok(bytes) => {
                assert_eq!(Bytes::parse(&format!("{}b", bytes.0)), Ok(bytes));
                assert!(bytes.to_string().len() < 20);
            }
            Err(why) => assert!(why.len() < 2 * text.len() + 100),
        }
    }
}

fn names(text: &str) {
    if let Ok(level) = Level::from_str(text) {
        assert_eq!(Level::from_str(level.name()), Ok(level));
    }
    for level in LEVELS {
        if let Ok(layout) = Layout::parse(level, text) {
            assert_eq!(Layout::from_md(level, layout.md_number()), Ok(layout));
        }
    }
    if let Ok(version) = Version::from_str(text) {
        assert_eq!(Version::from_str(&version.to_string()), Ok(version));
    }
    let (host, own) = split_name(text);
    if let Some(host) = host {
        assert_eq!(format!("{host}:{own}"), text);
    }
    assert!(full_name("host", text).len() < 32.max(text.len() + 1));
}

fn uuid(text: &str) {
    if let Some(uuid) = parse_uuid(text) {
        assert_eq!(parse_uuid(&display_uuid(uuid).to_string()), Some(uuid));
    }
}
