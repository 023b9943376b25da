//! Lines of blkparse in its usual format: `MAJOR,MINOR CPU SEQUENCE SECONDS PID ACTION RWBS SECTOR + SECTORS [PROCESS]`. What is
//! asked is taken where it is queued (`Q`); what becomes of it below is the old device's own affair.

use std::io::BufRead;

use super::error::{TraceError, TraceErrorKind, field};
use super::lines::Lines;
use super::{Act, TraceEntry, request};
use crate::job::Direction;

/// Whether a line is one.
pub(super) fn is_one(line: &str) -> bool {
    device(line.split_whitespace().next().unwrap_or_default()) && line.split_whitespace().count() >= 7
}

fn device(text: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once(',').is_some_and(|(major, minor)| number(major) && number(minor))
}

/// The entries of a blkparse text.
pub(super) struct Events<R> {
    lines: Lines<R>,
    /// The summary has begun.
    ended: bool,
}

impl<R: BufRead> Events<R> {
    pub(super) const fn new(lines: Lines<R>) -> Self {
        Self { lines, ended: false }
    }
}

impl<R: BufRead> Iterator for Events<R> {
    type Item = Result<TraceEntry, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let ended = &mut self.ended;
        self.lines.find(|line| {
            let summary = (line.starts_with("CPU") || line.starts_with("Total")) && line.ends_with("):");
            *ended |= summary;
            if *ended || line.is_empty() { Ok(None) } else { entry(line) }
        })
    }
}

fn entry(line: &str) -> Result<Option<TraceEntry>, TraceErrorKind> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let wrong = || TraceErrorKind::Fields {
        found: fields.len(),
        wanted: "MAJOR,MINOR CPU SEQUENCE SECONDS PID ACTION RWBS SECTOR + SECTORS is a line of blkparse",
    };
    let [own, _, _, seconds, _, action, ref rest @ ..] = fields[..] else { return Err(wrong()) };
    if !device(own) {
        return Err(field(own, "device, as 8,0"));
    }
    let at = nanos(seconds).ok_or_else(|| field(seconds, "time in seconds"))?;
    if action != "Q" {
        return Ok(None);
    }
    let (rwbs, place) = rest.split_first().ok_or_else(wrong)?;
    let Some(direction) = direction(rwbs)? else { return Ok(Some(TraceEntry { at, act: Act::Flush })) };
    let [sector, "+", sectors, ..] = place else {
        // A flush before a write without data.
        return if rwbs.starts_with('F') {
            Ok(Some(TraceEntry { at, act: Act::Flush }))
        } else {
            Err(wrong())
        };
    };
    let bytes = |text: &str| {
        let count = text.parse::<u64>().map_err(|_| field(text, "number of sectors"))?;
        Ok::<_, TraceErrorKind>(count.checked_mul(512))
    };
    let act = request(direction, bytes(sector)?, bytes(sectors)?)?;
    Ok(act.map(|act| TraceEntry { at, act }))
}

/// The direction of the request; `None` for a flush alone.
fn direction(rwbs: &str) -> Result<Option<Direction>, TraceErrorKind> {
    // A leading F is a flush before the operation; a later F is FUA.
    match rwbs.trim_start_matches('F').bytes().next() {
        Some(b'R') => Ok(Some(Direction::Read)),
        Some(b'W') => Ok(Some(Direction::Write)),
        Some(b'D') => Ok(Some(Direction::Trim)),
        Some(b'N' | b'S') | None if rwbs.starts_with('F') => Ok(None),
        _ => Err(field(rwbs, "kind of request: R, W, D or F")),
    }
}

/// Seconds with up to nine digits behind the point.
fn nanos(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if part.is_empty() || part.len() > 9 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part: u64 = format!("{part:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}
