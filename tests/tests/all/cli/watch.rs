//! The live view, on a terminal of few rows and for programs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use brindle_tests::tools::{self, or_skip};

use super::*;

#[test]
fn a_terminal_of_few_rows_never_scrolls_and_is_as_it_was_in_the_end() {
    let Some(script) = or_skip(tools::find("script")) else { return };
    let set = Set::raid5(12);
    let server = set.serve("");
    let watch = format!(
        "stty rows 10 cols 80; exec {} watch --interval 10ms --runtime-dir {} a",
        program::path().display(),
        set.runtime().display()
    );
    let mut command = Command::new(script);
    command.args(["-qec", &watch, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
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
    let shown = &drawn[..drawn.find(leave).unwrap()];
    for frame in shown.split("\x1b[H").skip(1) {
        assert_eq!(frame.matches('\n').count(), 9, "{frame:?}");
        // A busy server may have a line of its own that says so.
        let is_cut = ["\n6 more lines\x1b[K", "\n7 more lines\x1b[K"].iter().any(|last| frame.contains(last));
        assert!(frame.starts_with("a: raid5 of ") && is_cut, "{frame:?}");
    }
}

#[test]
fn programs_get_reports_with_rates() {
    let set = Set::raid5(3);
    let server = set.serve("");
    let told = server.ask("watch", &["--json", "--interval", "10ms"]).json();
    assert_eq!((&told[0]["name"], &told[0]["rates"]["requests"]), (&"a".into(), &0.0.into()), "{told}");
    assert!(told[0]["rates"]["seconds"].as_f64() >= Some(0.01), "{told}");
    assert_eq!(told[0]["array"]["devices"][2]["rates"]["writes"], 0.0, "{told}");
    server.stop();
}
