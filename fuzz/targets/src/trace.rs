//! Traces, maps of their columns and sets of them, from others. Input: which (1 byte), then the bytes; of a trace
//! in columns, the map and the trace with a zero byte between them.

use std::io::Cursor;

use brindle_lab::trace::{
    Act, Format, LARGEST, Pacing, columns, entries, msr, paced, recognised, set, survey,
};

/// Takes the bytes as a trace of some format, or as a set of traces.
pub fn run(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else { return };
    let format = match which % 7 {
        0 => Format::Iolog,
        1 => Format::Blktrace,
        2 => Format::Blkparse,
        3 => Format::Csv(msr()),
        4 => match recognised(rest) {
            Some(format) => format,
            None => return,
        },
        5 => return in_columns(rest),
        _ => {
            if let Ok(set) = set("s.toml", &String::from_utf8_lossy(rest)) {
                assert!(!set.trace.is_empty() && set.trace.iter().all(|one| one.weight > 0.0));
            }
            return;
        }
    };
    check(&format, rest);
}

fn in_columns(data: &[u8]) {
    let (map, trace) = match data.iter().position(|byte| *byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &data[..0]),
    };
    match columns("map.toml", &String::from_utf8_lossy(map)) {
        Ok(map) => check(&Format::Csv(map), trace),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Requests that are read can be sent, whatever was written; times of a replay never go back.
fn check(format: &Format, trace: &[u8]) {
    let all = || entries("t", format.clone(), Cursor::new(trace.to_vec()));
    let mut due = core::time::Duration::ZERO;
    for entry in paced(Pacing::default(), all()) {
        let Ok((at, act)) = entry else { break };
        assert!(at >= due);
        due = at;
        if let Act::Request(request) = act {
            assert!(request.len > 0 && request.offset.checked_add(request.len).is_some());
            let trim = request.direction == brindle_lab::job::Direction::Trim;
            assert!(trim || request.len <= LARGEST);
        }
    }
    match survey("t", all()) {
        Ok(found) => assert!(found.end > 0 && found.idle <= found.span),
        Err(error) => assert!(!error.to_string().is_empty() && error.file == "t"),
    }
}
