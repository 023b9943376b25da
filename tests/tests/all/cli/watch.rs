//! The live view, on a terminal of few rows and for programs.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use brindle_tests::tools::{self, or_skip};

use super::*;

/// A shell's words on a terminal of its own, whose keys come from `stdin`.
fn on_terminal(words: &str, stdin: Stdio) -> Option<Command> {
    let script = or_skip(tools::find("script"))?;
    let mut command = Command::new(script);
    command.args(["-qec", words, "/dev/null"]).stdin(stdin).stdout(Stdio::piped());
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    Some(command)
}

/// The drawn text, without colours.
fn plain(drawn: &str) -> String {
    let mut parts = drawn.split("\x1b[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('m') {
            Some((code, rest)) if code.bytes().all(|byte| byte.is_ascii_digit() || byte == b';') => {
                text.push_str(rest);
            }
            _ => {
                text.push_str("\x1b[");
                text.push_str(part);
            }
        }
    }
    text
}

#[test]
fn a_terminal_of_few_rows_never_scrolls_and_is_as_it_was_in_the_end() {
    let set = Set::raid5(12);
    let server = set.serve("");
    let watch = format!(
        "stty rows 10 cols 80; exec {} watch --interval 10ms --runtime-dir {} a",
        program::path().display(),
        set.runtime().display()
    );
    let Some(mut command) = on_terminal(&watch, Stdio::null()) else { return };
    let mut child = command.spawn().unwrap();
    let (mut out, mut drawn) = (BufReader::new(child.stdout.take().unwrap()), Vec::new());
    // Three frames: each begins in the upper left corner.
    while drawn.windows(3).filter(|bytes| bytes == b"\x1b[H").count() < 4 {
        assert!(out.read_until(b'H', &mut drawn).unwrap() > 0, "{}", String::from_utf8_lossy(&drawn));
    }
    // Its array is gone, and so is what it shows.
    server.stop();
    out.read_to_end(&mut drawn).unwrap();
    child.wait().unwrap();
    let drawn = String::from_utf8_lossy(&drawn).into_owned();
    let (enter, leave) = ("\x1b[?1049h", "\x1b[?1049l");
    assert_eq!((drawn.find(enter), drawn.matches(leave).count()), (Some(0), 1), "{drawn:?}");
    let shown = plain(&drawn[..drawn.find(leave).unwrap()]);
    for frame in shown.split("\x1b[H").skip(1) {
        assert_eq!(frame.matches('\n').count(), 9, "{frame:?}");
        // A busy server may have a line of its own that says so.
        let is_cut =
            ["\n7 more lines  q quit", "\n8 more lines  q quit"].iter().any(|last| frame.contains(last));
        assert!(frame.starts_with("a: ") && frame.contains("; raid5 of ") && is_cut, "{frame:?}");
    }
}

#[test]
fn keys_sort_explain_and_end_and_the_terminal_is_left_as_it_was() {
    let set = Set::raid5(4);
    let server = set.serve("");
    let watch = |before: &str| {
        format!(
            "stty rows 24 cols 80; stty -g; {before} {} watch --interval 200ms --runtime-dir {}; echo ended $?; stty -g",
            program::path().display(),
            set.runtime().display()
        )
    };
    let Some(mut command) = on_terminal(&watch(""), Stdio::piped()) else { return };
    let mut child = command.spawn().unwrap();
    let mut keys = child.stdin.take().unwrap();
    let (mut out, mut drawn) = (BufReader::new(child.stdout.take().unwrap()), Vec::new());
    let mut until = |wanted: &str| {
        while !plain(&String::from_utf8_lossy(&drawn)).contains(wanted) {
            let count = out.read_until(b'K', &mut drawn).unwrap();
            assert!(count > 0, "{wanted}: {:?}", String::from_utf8_lossy(&drawn));
        }
        String::from_utf8_lossy(&drawn).into_owned()
    };
    let first = until("sort: role");
    for member in &set.members {
        let file = member.file_name().unwrap().to_str().unwrap();
        assert!(first.contains(&format!(" {file} ")), "{file}: {first:?}");
    }
    assert!(first.contains("\x1b[32min-sync"), "colour by state: {first:?}");
    keys.write_all(b"s").unwrap();
    until("sort: state");
    keys.write_all(b"?").unwrap();
    until("half came within 64 us");
    keys.write_all(b"q").unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    child.wait().unwrap();
    assert!(rest.contains("\x1b[?1049l") && rest.contains("ended 0"), "{rest:?}");
    // The terminal's mode, before and after it.
    let mode = |text: &str| {
        text.lines().find(|line| line.matches(':').count() > 20).map(|line| line.trim().to_owned())
    };
    assert!(mode(&rest).is_some() && first.contains(&mode(&rest).unwrap()), "{first:?} {rest:?}");
    // Without colours where none are wanted.
    let mut command = on_terminal(&watch("NO_COLOR=1"), Stdio::piped()).unwrap();
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"q").unwrap();
    let mut drawn = String::new();
    child.stdout.take().unwrap().read_to_string(&mut drawn).unwrap();
    child.wait().unwrap();
    assert!(drawn.contains("in-sync") && drawn.contains("ended 0"), "{drawn:?}");
    assert_eq!(plain(&drawn), drawn);
    server.stop();
}

#[test]
fn programs_get_reports_with_rates() {
    let set = Set::raid5(3);
    let server = set.serve("");
    let reported = server.ask("watch", &["--json", "--interval", "10ms"]).json();
    assert_eq!(
        (&reported[0]["name"], &reported[0]["rates"]["requests"]),
        (&"a".into(), &0.0.into()),
        "{reported}"
    );
    assert!(reported[0]["rates"]["seconds"].as_f64() >= Some(0.01), "{reported}");
    assert_eq!(reported[0]["array"]["devices"][2]["rates"]["writes"], 0.0, "{reported}");
    server.stop();
}
