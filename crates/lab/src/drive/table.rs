//! Measured tables of single drives, as CSV; what begins with `#` is a comment.

use std::collections::BTreeMap;

use super::error::{DriveError, DriveErrorKind, LONGEST};

/// A table that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The file, as it was named.
    pub file: String,
    /// Its comments, as one text.
    pub about: String,
    /// The measured rows.
    pub rows: Vec<Row>,
}

/// One measured figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Line of its file, from 1.
    pub line: usize,
    /// Bytes of a request.
    pub size: u64,
    /// Per cent of reads among the requests.
    pub reads: u32,
    /// Places are drawn by chance.
    pub random: bool,
    /// The measured quantity.
    pub measure: Measure,
    /// The figure: MiB/s, IOPS or milliseconds.
    pub value: f64,
}

/// The quantity that a figure gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// MiB/s with one request in flight.
    Alone,
    /// IOPS with as many in flight as the drive has use for.
    Saturated,
    /// Mean milliseconds with one in flight.
    Latency,
    /// The most milliseconds: for people only.
    Longest,
}

/// Reads a table. Their headers distinguish three kinds. `pattern,bs_kib,mb_s`: MiB/s of `read`, `write`, `randread`
/// and `randwrite` with one request in flight. `bs,r0,...,r100`: IOPS by block size and per cent of reads with many
/// in flight. `stat,bs,r0,...,r100`: milliseconds (`avg`, `max`) with one in flight.
///
/// # Errors
/// The first thing that is wrong, and its line.
pub fn table(file: &str, text: &str) -> Result<Table, DriveError> {
    let wrong = |line, kind| DriveError { file: file.to_owned(), line, kind };
    if text.len() > LONGEST {
        return Err(wrong(0, DriveErrorKind::TooLong(LONGEST)));
    }
    let mut table = Table { file: file.to_owned(), about: String::new(), rows: Vec::new() };
    let mut header: Option<Header> = None;
    // Rows seen so far, each with its line, to find duplicates.
    let mut seen = BTreeMap::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if let Some(comment) = text.strip_prefix('#') {
            table.about = format!("{} {}", table.about, comment.trim()).trim().to_owned();
            continue;
        }
        let cells: Vec<&str> = text.split(',').map(str::trim).collect();
        if text.is_empty() {
            continue;
        }
        let Some(header) = &header else {
            header = Some(Header::parse(&cells).ok_or_else(|| wrong(line, DriveErrorKind::Header))?);
            continue;
        };
        let before = table.rows.len();
        header.rows(line, &cells, &mut table.rows).map_err(|kind| wrong(line, kind))?;
        for row in &table.rows[before..] {
            let what = (row.measure, row.random, row.reads, row.size);
            if let Some(first) = seen.insert(what, line) {
                return Err(wrong(line, DriveErrorKind::Twice(first)));
            }
        }
    }
    if header.is_none() {
        return Err(wrong(0, DriveErrorKind::Header));
    }
    Ok(table)
}

enum Header {
    Alone,
    /// Per cent of reads of each column; whether a name stands before the size.
    Mixes(Vec<u32>, bool),
}

impl Header {
    fn parse(cells: &[&str]) -> Option<Self> {
        if cells == ["pattern", "bs_kib", "mb_s"] {
            return Some(Self::Alone);
        }
        let (named, rest) = match cells {
            ["stat", "bs", rest @ ..] => (true, rest),
            ["bs", rest @ ..] => (false, rest),
            _ => return None,
        };
        let percent = |cell: &&str| cell.strip_prefix('r')?.parse().ok().filter(|reads| *reads <= 100);
        let reads: Vec<u32> = rest.iter().map(percent).collect::<Option<_>>()?;
        (!reads.is_empty()).then_some(Self::Mixes(reads, named))
    }

    fn rows(&self, line: usize, cells: &[&str], rows: &mut Vec<Row>) -> Result<(), DriveErrorKind> {
        let wanted = match self {
            Self::Alone => 3,
            Self::Mixes(reads, named) => reads.len() + 1 + usize::from(*named),
        };
        if cells.len() != wanted {
            return Err(DriveErrorKind::Columns { found: cells.len(), wanted });
        }
        match self {
            Self::Alone => {
                let (reads, random) = pattern(cells[0])?;
                let size = kib(cells[1])?;
                let value = figure(cells[2])?;
                rows.push(Row { line, size, reads, random, measure: Measure::Alone, value });
            }
            Self::Mixes(all, named) => {
                let measure = match (named, cells[0]) {
                    (false, _) => Measure::Saturated,
                    (true, "avg") => Measure::Latency,
                    (true, "max") => Measure::Longest,
                    (true, other) => return Err(cell(other, "statistic: avg or max")),
                };
                let size = block(cells[usize::from(*named)])?;
                for (&reads, text) in all.iter().zip(&cells[1 + usize::from(*named)..]) {
                    rows.push(Row { line, size, reads, random: true, measure, value: figure(text)? });
                }
            }
        }
        Ok(())
    }
}

fn cell(text: &str, wanted: &'static str) -> DriveErrorKind {
    DriveErrorKind::Cell(text.to_owned(), wanted)
}

fn pattern(text: &str) -> Result<(u32, bool), DriveErrorKind> {
    match text {
        "read" => Ok((100, false)),
        "randread" => Ok((100, true)),
        "write" => Ok((0, false)),
        "randwrite" => Ok((0, true)),
        _ => Err(cell(text, "pattern: read, write, randread or randwrite")),
    }
}

/// Up to 1 GiB.
fn kib(text: &str) -> Result<u64, DriveErrorKind> {
    let kib = text.parse::<u64>().ok().filter(|kib| (1..=1 << 20).contains(kib));
    kib.map(|kib| kib << 10).ok_or_else(|| cell(text, "count of KiB from 1 to 1048576"))
}

/// A size with a unit: 512, 4k, 1m.
fn block(text: &str) -> Result<u64, DriveErrorKind> {
    let lower = text.to_ascii_lowercase();
    let (digits, shift) = match lower.strip_suffix(['k', 'm']) {
        Some(digits) => (digits, if lower.ends_with('k') { 10 } else { 20 }),
        None => (lower.as_str(), 0),
    };
    let bytes =
        digits.parse::<u64>().ok().filter(|count| (1..=1 << 30).contains(count)).map(|count| count << shift);
    bytes.filter(|bytes| *bytes <= 1 << 30).ok_or_else(|| cell(text, "size up to 1 GiB, such as 4k"))
}

fn figure(text: &str) -> Result<f64, DriveErrorKind> {
    let value = text.parse::<f64>().ok().filter(|value| (1e-9..=1e12).contains(value));
    value.ok_or_else(|| cell(text, "positive number"))
}
