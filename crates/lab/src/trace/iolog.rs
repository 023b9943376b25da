//! fio's iolog. Version 2 has `FILE ACTION [OFFSET LENGTH]`, with `wait` lines of microseconds; version 3 (since 3.31) has
//! the microseconds since its beginning before that, and no `wait`. fio's HOWTO describes both.

use std::collections::HashSet;
use std::io::BufRead;

use super::error::{TraceError, TraceErrorKind, field};
use super::lines::Lines;
use super::{Act, TraceEntry, request};
use crate::job::Direction;

const VERSIONS: [&str; 2] = ["fio version 2 iolog", "fio version 3 iolog"];

pub(super) fn is_one(start: &[u8]) -> bool {
    VERSIONS.iter().any(|version| start.starts_with(version.as_bytes()))
}

/// The entries of an iolog.
pub(super) struct Iolog<R> {
    lines: Lines<R>,
    /// Whether lines begin with their time, once the first has been read.
    stamped: Option<bool>,
    /// Nanoseconds.
    now: u64,
    /// The files that the log has added, which all others must be among (HOWTO, `add`).
    added: HashSet<String>,
}

impl<R: BufRead> Iolog<R> {
    pub(super) fn new(lines: Lines<R>) -> Self {
        Self { lines, stamped: None, now: 0, added: HashSet::new() }
    }

    fn begin(&mut self) -> Result<bool, TraceError> {
        let first = self.lines.next_line()?.map(str::to_owned);
        let at = VERSIONS.iter().position(|version| Some(*version) == first.as_deref());
        at.map(|at| at == 1).ok_or_else(|| self.lines.wrong(TraceErrorKind::Version))
    }
}

impl<R: BufRead> Iterator for Iolog<R> {
    type Item = Result<TraceEntry, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let stamped = match self.stamped.map_or_else(|| self.begin(), Ok) {
            Ok(stamped) => stamped,
            Err(error) => return Some(Err(error)),
        };
        self.stamped = Some(stamped);
        let (now, added) = (&mut self.now, &mut self.added);
        self.lines.find(|line| if line.is_empty() { Ok(None) } else { entry(line, stamped, now, added) })
    }
}

fn entry(
    line: &str,
    stamped: bool,
    now: &mut u64,
    added: &mut HashSet<String>,
) -> Result<Option<TraceEntry>, TraceErrorKind> {
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    let found = fields.len();
    if stamped {
        *now = micros(fields.remove(0))?;
    }
    let act = match fields[..] {
        [file, "add"] => {
            added.insert(file.to_owned());
            None
        }
        [file, action, ..] if action != "wait" && !added.contains(file) => {
            return Err(field(file, "file that a line before adds"));
        }
        [_, "open" | "close"] => None,
        [_, "wait", time] | [_, "wait", time, _] if !stamped => {
            *now = now.saturating_add(micros(time)?);
            None
        }
        [_, "sync" | "datasync", ..] => Some(Act::Flush),
        // A hint to the page cache, which is gone round here.
        [_, "sync_file_range", ..] => None,
        [_, action, offset, len] => {
            let direction = match action {
                "read" => Direction::Read,
                "write" => Direction::Write,
                "trim" => Direction::Trim,
                _ => {
                    return Err(field(
                        action,
                        "known action: read, write, trim, sync, datasync, wait, add, open, close",
                    ));
                }
            };
            request(direction, Some(number(offset)?), Some(number(len)?))?
        }
        _ => {
            let wanted = "[TIME] FILE ACTION [OFFSET LENGTH] is a line of an iolog";
            return Err(TraceErrorKind::Fields { found, wanted });
        }
    };
    Ok(act.map(|act| TraceEntry { at: *now, act }))
}

fn number(text: &str) -> Result<u64, TraceErrorKind> {
    text.parse().map_err(|_| field(text, "number of bytes"))
}

fn micros(text: &str) -> Result<u64, TraceErrorKind> {
    let micros = text.parse::<u64>().ok().and_then(|micros| micros.checked_mul(1000));
    micros.ok_or_else(|| field(text, "time in microseconds"))
}
