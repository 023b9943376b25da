//! Traces in columns: which means what, as TOML. That of MSR Cambridge is known.

use std::io::BufRead;

use serde::Deserialize;

use super::error::{TraceError, TraceErrorKind, field};
use super::lines::Lines;
use super::{TraceEntry, request};
use crate::job::Direction;

/// The meaning of a trace's columns. Columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// The separator of columns.
    #[serde(default = "comma")]
    pub separator: char,
    /// Lines before the first request.
    #[serde(default)]
    pub header: u64,
    /// The column with the time of submission.
    pub time: usize,
    /// In which unit; a fraction may follow.
    pub time_unit: Unit,
    /// The column with the offset.
    pub offset: usize,
    /// The unit in bytes.
    #[serde(default = "one")]
    pub offset_unit: u32,
    /// The column with the length.
    pub size: usize,
    /// The unit in bytes.
    #[serde(default = "one")]
    pub size_unit: u32,
    /// The column of the operation.
    pub kind: usize,
    /// The words that mean a read.
    pub read: Vec<String>,
    /// The words that mean a write.
    pub write: Vec<String>,
    /// The words that mean a trim.
    #[serde(default)]
    pub trim: Vec<String>,
    /// On which volume.
    #[serde(default)]
    pub volume: Option<usize>,
    /// The volume whose requests are taken.
    #[serde(default)]
    pub only: Option<String>,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Unit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millis,
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// Windows' own.
    #[serde(rename = "100ns")]
    Filetime,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanos,
}

const fn comma() -> char {
    ','
}

const fn one() -> u32 {
    1
}

impl Unit {
    /// Digits of its nanoseconds.
    const fn digits(self) -> usize {
        match self {
            Self::Seconds => 9,
            Self::Millis => 6,
            Self::Micros => 3,
            Self::Filetime => 2,
            Self::Nanos => 0,
        }
    }

    /// Parses a time as nanoseconds; smaller digits are cut off.
    fn nanos(self, text: &str) -> Option<u64> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        if !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = self.digits();
        let part: String = part.chars().chain(core::iter::repeat('0')).take(digits).collect();
        let part = if part.is_empty() { 0 } else { part.parse::<u64>().ok()? };
        whole.parse::<u64>().ok()?.checked_mul(10u64.pow(digits as u32))?.checked_add(part)
    }
}

/// Reads a map of columns.
///
/// # Errors
/// If the text is not TOML, lacks a column or holds an impossible value.
pub fn columns(file: &str, text: &str) -> Result<Columns, TraceError> {
    let wrong = |at: usize, why: String| {
        let place = text.bytes().take(at).filter(|byte| *byte == b'\n').count() as u64 + 1;
        TraceError { file: file.to_owned(), place, kind: TraceErrorKind::Toml(why) }
    };
    let map: Columns = toml::from_str(text)
        .map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    let all = [map.time, map.offset, map.size, map.kind, map.volume.unwrap_or(1)];
    if all.iter().any(|column| !(1..=1024).contains(column)) {
        return Err(wrong(0, "columns count from 1 to 1024".to_owned()));
    }
    if map.only.is_some() != map.volume.is_some() {
        return Err(wrong(0, "volume (a column) and only (what stands there) go together".to_owned()));
    }
    if map.offset_unit == 0 || map.size_unit == 0 {
        return Err(wrong(0, "a unit has at least one byte".to_owned()));
    }
    Ok(map)
}

/// The columns of MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, with times as Windows counts them.
pub fn msr() -> Columns {
    Columns {
        separator: ',',
        header: 0,
        time: 1,
        time_unit: Unit::Filetime,
        offset: 5,
        offset_unit: 1,
        size: 6,
        size_unit: 1,
        kind: 4,
        read: vec!["Read".to_owned()],
        write: vec!["Write".to_owned()],
        trim: Vec::new(),
        volume: None,
        only: None,
    }
}

pub(super) fn is_msr(line: &str) -> bool {
    let cells: Vec<&str> = line.trim().split(',').collect();
    matches!(cells[..], [_, _, _, "Read" | "Write", _, _, _])
}

/// The entries of a trace in columns.
pub(super) struct Rows<R> {
    lines: Lines<R>,
    columns: Columns,
    skip: u64,
}

impl<R: BufRead> Rows<R> {
    pub(super) const fn new(lines: Lines<R>, columns: Columns) -> Self {
        let skip = columns.header;
        Self { lines, columns, skip }
    }
}

impl<R: BufRead> Iterator for Rows<R> {
    type Item = Result<TraceEntry, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (columns, skip) = (&self.columns, &mut self.skip);
        self.lines.find(|line| {
            if *skip > 0 {
                *skip -= 1;
                return Ok(None);
            }
            if line.is_empty() { Ok(None) } else { row(line, columns) }
        })
    }
}

fn row(line: &str, map: &Columns) -> Result<Option<TraceEntry>, TraceErrorKind> {
    let cells: Vec<&str> = line.split(map.separator).map(str::trim).collect();
    let cell = |column: usize| {
        let wanted = "there is none where the map has a column";
        cells.get(column - 1).copied().ok_or(TraceErrorKind::Fields { found: cells.len(), wanted })
    };
    if let (Some(volume), Some(only)) = (map.volume, &map.only)
        && cell(volume)? != only
    {
        return Ok(None);
    }
    let time = cell(map.time)?;
    let at = map.time_unit.nanos(time).ok_or_else(|| field(time, "time"))?;
    let kind = cell(map.kind)?;
    let is = |names: &[String]| names.iter().any(|name| name == kind);
    let direction = match () {
        () if is(&map.read) => Direction::Read,
        () if is(&map.write) => Direction::Write,
        () if is(&map.trim) => Direction::Trim,
        () => return Err(field(kind, "kind of request that the map knows")),
    };
    let bytes = |column: usize, unit: u32| {
        let text = cell(column)?;
        let count = text.parse::<u64>().map_err(|_| field(text, "number"))?;
        Ok::<_, TraceErrorKind>(count.checked_mul(unit.into()))
    };
    let act = request(direction, bytes(map.offset, map.offset_unit)?, bytes(map.size, map.size_unit)?)?;
    Ok(act.map(|act| TraceEntry { at, act }))
}
