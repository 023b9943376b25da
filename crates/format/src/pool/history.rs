//! Pages of the history of a pool: commands that changed it, and some of what it did of its own accord.
//!
//! Records have as many bytes as their texts need, one behind the other. None is parted: one that does not fit goes to the next page.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::impossible;
use super::page::{BODY, PageKind, fill, parse};
use super::{MAX_NAME, PoolError};

/// The most pages of a history.
pub const HISTORY_PAGES: u32 = 32;
/// The most bytes of the text of a record.
pub const HISTORY_TEXT: usize = 1024;
/// Bytes before the texts of a record.
const HEAD: usize = 16;
/// The user of a record that no user asked for.
const NOBODY: u32 = u32::MAX;

/// The origin of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryKind {
    /// A command, as it was typed, by the user of this number.
    Command {
        /// The user, as the host numbers them; `None` if it is not known.
        user: Option<u32>,
    },
    /// Something that happened, or that the pool did of its own accord.
    Internal,
}

/// A record of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRecord {
    /// Seconds since 1970.
    pub time: u64,
    /// The origin.
    pub kind: HistoryKind,
    host: String,
    text: String,
}

/// A text of at most so many bytes, without control characters: each of them becomes a blank.
fn fitting(text: &str, most: usize) -> String {
    let end = (0..=text.len().min(most)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    let (kept, _) = text.split_at(end);
    // Some control characters take two bytes, and a blank takes one.
    kept.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

impl HistoryRecord {
    /// A record. Of its texts what fits is kept, with blanks in the place of control characters.
    pub fn new(time: u64, kind: HistoryKind, host: &str, text: &str) -> Self {
        Self { time, kind, host: fitting(host, MAX_NAME), text: fitting(text, HISTORY_TEXT) }
    }

    /// The name of the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The command, or what happened.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Bytes that it takes of a page.
    fn bytes(&self) -> usize {
        HEAD.saturating_add(self.host.len()).saturating_add(self.text.len())
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHistoryRecord {
    time: U64,
    user: U32,
    kind: u8,
    host: u8,
    text: U16,
}

const _: () = assert!(size_of::<RawHistoryRecord>() == HEAD);

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHistory {
    records: [u8; BODY],
}

/// A page of history: records from the oldest to the youngest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPage(Vec<HistoryRecord>);

impl HistoryPage {
    /// Its records, from the oldest on.
    pub fn records(&self) -> &[HistoryRecord] {
        &self.0
    }

    /// Takes one more record; gives it back if the page has no room for it.
    ///
    /// # Errors
    /// The record.
    pub fn add(&mut self, record: HistoryRecord) -> Result<(), HistoryRecord> {
        let taken: usize = self.0.iter().map(HistoryRecord::bytes).sum();
        if taken.saturating_add(record.bytes()) > BODY {
            return Err(record);
        }
        self.0.push(record);
        Ok(())
    }

    /// Takes one more record; the oldest go as long as it has no room for it.
    pub fn make_room(&mut self, mut record: HistoryRecord) {
        while let Err(back) = self.add(record) {
            if self.0.is_empty() {
                return;
            }
            drop(self.0.remove(0));
            record = back;
        }
    }

    /// The page's bytes.
    ///
    /// # Errors
    /// None: a page takes no more than fits.
    pub fn encode(&self, number: u64) -> Result<Vec<u8>, PoolError> {
        let mut raw = RawHistory::new_zeroed();
        let mut left = &mut raw.records[..];
        for record in &self.0 {
            let (kind, user) = match record.kind {
                HistoryKind::Command { user } => (0, user.unwrap_or(NOBODY)),
                HistoryKind::Internal => (1, NOBODY),
            };
            let head = RawHistoryRecord {
                time: record.time.into(),
                user: user.into(),
                kind,
                host: record.host.len() as u8,
                text: (record.text.len() as u16).into(),
            };
            for bytes in [head.as_bytes(), record.host.as_bytes(), record.text.as_bytes()] {
                let (place, rest) = left.split_at_mut_checked(bytes.len()).ok_or_else(too_many)?;
                place.copy_from_slice(bytes);
                left = rest;
            }
        }
        fill(PageKind::History, number, self.0.len(), BODY / HEAD, raw.as_bytes())
    }

    /// Reads a page.
    ///
    /// # Errors
    /// [`PoolError`] if it is none, not that one, or holds what can't be.
    pub fn parse(bytes: &[u8], number: u64) -> Result<Self, PoolError> {
        let (count, mut left) = parse(bytes, PageKind::History, number, BODY / HEAD)?;
        let mut records = Vec::new();
        for _ in 0..count {
            let (record, rest) = record_of(left)?;
            records.push(record);
            left = rest;
        }
        Ok(Self(records))
    }
}

fn too_many() -> PoolError {
    PoolError::TooMany {
        what: "bytes of a page of history",
        count: (BODY as u64).saturating_add(1),
        most: BODY as u64,
    }
}

/// The record that stands here first, and what is behind it.
fn record_of(bytes: &[u8]) -> Result<(HistoryRecord, &[u8]), PoolError> {
    let what = "record of history";
    let short = |need| PoolError::Short { what, have: bytes.len(), need };
    let (head, rest) = RawHistoryRecord::ref_from_prefix(bytes).map_err(|_| short(HEAD))?;
    let (host, text) = (usize::from(head.host), usize::from(head.text.get()));
    if host > MAX_NAME {
        return Err(impossible(what, "host", head.host));
    }
    if text > HISTORY_TEXT {
        return Err(impossible(what, "text", head.text.get()));
    }
    let need = HEAD.saturating_add(host).saturating_add(text);
    let (host, rest) = rest.split_at_checked(host).ok_or(short(need))?;
    let (text, rest) = rest.split_at_checked(text).ok_or(short(need))?;
    let of = |field, bytes: &[u8]| {
        let text = core::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control));
        text.map(str::to_owned).ok_or(impossible(what, field, bytes.len() as u64))
    };
    let user = Some(head.user.get()).filter(|&user| user != NOBODY);
    let kind = match (head.kind, user) {
        (0, user) => HistoryKind::Command { user },
        (1, None) => HistoryKind::Internal,
        (1, Some(user)) => return Err(impossible(what, "user", user)),
        (kind, _) => return Err(PoolError::unknown(what, "kind", kind)),
    };
    Ok((
        HistoryRecord { time: head.time.get(), kind, host: of("host", host)?, text: of("text", text)? },
        rest,
    ))
}
