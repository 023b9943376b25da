//! A map of an array: the places that have been read and those that have not, in the form of GNU ddrescue's, whose tools read it, too (its manual, "Mapfile
//! structure"). Comments say of which array it is.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use crate::base::text;

/// State of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyState {
    /// The range was not tried yet.
    Untried,
    /// The range can't be read.
    Bad,
    /// The range has been read, and is in the file.
    Done,
}

/// The source of a map: these lines must be equal for a copy to go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Of {
    /// UUID of the array.
    pub(super) array: String,
    /// Event count of the array.
    pub(super) events: u64,
    /// The part of the array that is read.
    pub(super) range: Range<u64>,
    /// Event counts of members, by their lasting identity. One that is missing now was not changed.
    pub(super) members: BTreeMap<String, u64>,
}

/// A map of `0..size`, bytes of the file.
#[derive(Debug)]
pub(super) struct Map {
    size: u64,
    /// From each byte here on, up to the next, it is so.
    places: BTreeMap<u64, CopyState>,
}

impl CopyState {
    fn letter(self) -> char {
        match self {
            Self::Untried => '?',
            Self::Bad => '-',
            Self::Done => '+',
        }
    }

    /// ddrescue's statuses: places that it has tried only in part count as untried.
    fn of(letter: &str) -> Option<Self> {
        Some(match letter {
            "?" | "*" | "/" => Self::Untried,
            "-" => Self::Bad,
            "+" => Self::Done,
            _ => return None,
        })
    }
}

impl Map {
    /// A map of a copy that has not begun.
    pub(super) fn new(size: u64) -> Self {
        Self { size, places: BTreeMap::from([(0, CopyState::Untried)]) }
    }

    /// Bytes of the file.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Notes the state of a range.
    pub(super) fn set(&mut self, range: Range<u64>, place: CopyState) {
        let end = range.end.min(self.size);
        if range.start >= end {
            return;
        }
        let at = |places: &BTreeMap<u64, CopyState>, byte: u64| {
            places.range(..=byte).next_back().map_or(CopyState::Untried, |(_, place)| *place)
        };
        let after = at(&self.places, end);
        let inside: Vec<u64> = self.places.range(range.start..end).map(|(start, _)| *start).collect();
        for start in inside {
            self.places.remove(&start);
        }
        let before = self.places.range(..range.start).next_back().map(|(_, place)| *place);
        if before != Some(place) {
            self.places.insert(range.start, place);
        }
        if end < self.size && after != place {
            self.places.insert(end, after);
        } else if after == place {
            self.places.remove(&end);
        }
    }

    /// The ranges in this state, in order.
    pub(super) fn ranges(&self, wanted: CopyState) -> Vec<Range<u64>> {
        self.all().filter(|(_, place)| *place == wanted).map(|(range, _)| range).collect()
    }

    /// Bytes in this state.
    pub(super) fn bytes(&self, wanted: CopyState) -> u64 {
        self.ranges(wanted).iter().map(|range| range.end - range.start).sum()
    }

    fn all(&self) -> impl Iterator<Item = (Range<u64>, CopyState)> + '_ {
        let ends = self.places.keys().skip(1).copied().chain([self.size]);
        self.places.iter().zip(ends).map(|((start, place), end)| (*start..end, *place))
    }

    /// The text of the map's file; `notes` tell what was taken so without proof.
    pub(super) fn text(&self, of: &Of, notes: &[String]) -> String {
        let mut text = format!(
            "# Mapfile. Created by brindle {}\n# Array: {}\n# Events: {}\n# Range: {} {}\n",
            env!("CARGO_PKG_VERSION"),
            of.array,
            of.events,
            of.range.start,
            of.range.end
        );
        for (member, events) in &of.members {
            let _ = writeln!(text, "# Member: {member} {events}");
        }
        for note in notes {
            let _ = writeln!(text, "# Not proved: {}", text::shown(note).replace('\n', " "));
        }
        let next = self.ranges(CopyState::Untried).first().map_or(self.size, |range| range.start);
        let finished = self.ranges(CopyState::Untried).is_empty();
        let _ = writeln!(
            text,
            "# current_pos  current_status  current_pass\n0x{next:08X}     {}               1",
            if finished { '+' } else { '?' }
        );
        text.push_str("#      pos        size  status\n");
        for (range, place) in self.all().filter(|(range, _)| !range.is_empty()) {
            let _ = writeln!(
                text,
                "0x{:08X}  0x{:08X}  {}",
                range.start,
                range.end - range.start,
                place.letter()
            );
        }
        text
    }

    /// Parses the file of a map of `size` bytes, and its source. The error is a text for people.
    pub(super) fn parse(text: &str, size: u64) -> Result<(Self, Of), String> {
        let mut of = Of { array: String::new(), events: 0, range: 0..0, members: BTreeMap::new() };
        let mut lines = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.strip_prefix('#') {
                Some(comment) => {
                    comment_of(comment, &mut of)
                        .ok_or_else(|| format!("'{line}' is not a comment of such a map"))?;
                }
                None => lines.push(line),
            }
        }
        if of.array.is_empty() {
            return Err("it does not say of which array it is".to_owned());
        }
        // The first line says where ddrescue was.
        let mut map = Self::new(size);
        let mut end = 0;
        for line in lines.iter().skip(1) {
            let (range, place) = block(line)
                .ok_or_else(|| format!("'{line}' is not a line of a map: position, size and status"))?;
            if range.start != end || range.end > size {
                return Err(format!("'{line}' is out of order, or beyond {size} bytes"));
            }
            end = range.end;
            map.set(range, place);
        }
        if end == size { Ok((map, of)) } else { Err(format!("it ends at byte {end} of {size}")) }
    }
}

/// Parses a comment line; `None` if it contradicts itself.
fn comment_of(comment: &str, of: &mut Of) -> Option<()> {
    let Some((what, said)) = comment.trim().split_once(": ") else { return Some(()) };
    match what {
        "Array" => of.array = said.to_owned(),
        "Events" => of.events = said.parse().ok()?,
        "Range" => {
            let (start, end) = said.split_once(' ')?;
            of.range = start.parse().ok()?..end.parse().ok()?;
        }
        "Member" => {
            let (member, events) = said.rsplit_once(' ')?;
            of.members.insert(member.to_owned(), events.parse().ok()?);
        }
        _ => {}
    }
    Some(())
}

fn block(line: &str) -> Option<(Range<u64>, CopyState)> {
    let mut words = line.split_whitespace();
    let (start, len) = (number(words.next()?)?, number(words.next()?)?);
    Some((start..start.checked_add(len)?, CopyState::of(words.next()?)?))
}

/// Parses a number in hexadecimal, as ddrescue writes it, or in decimal.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of() -> Of {
        let members = BTreeMap::from([("device a b".to_owned(), 7)]);
        Of { array: "0:1:2:3".into(), events: 7, range: 0..100, members }
    }

    #[test]
    fn what_was_noted_is_kept() {
        let mut map = Map::new(100);
        map.set(0..40, CopyState::Done);
        map.set(60..200, CopyState::Done);
        map.set(20..30, CopyState::Bad);
        map.set(50..50, CopyState::Bad);
        assert_eq!(map.ranges(CopyState::Done), [0..20, 30..40, 60..100]);
        assert_eq!((map.bytes(CopyState::Bad), map.bytes(CopyState::Untried)), (10, 20));
        map.set(20..30, CopyState::Done);
        map.set(40..60, CopyState::Done);
        assert_eq!((map.bytes(CopyState::Done), map.places.len()), (100, 1));
        map.set(0..100, CopyState::Untried);
        assert_eq!(map.places.len(), 1);
    }

    #[test]
    fn a_map_is_read_as_it_was_written() {
        let mut map = Map::new(100);
        map.set(0..40, CopyState::Done);
        map.set(99..100, CopyState::Bad);
        let (read, of_it) = Map::parse(&map.text(&of(), &["a: b".into(), "c".into()]), 100).unwrap();
        assert_eq!((read.places, of_it), (map.places, of()));
        assert!(map_of("0x0 100 +").is_ok() && map_of("0x0 0x32 *\n0x32 50 /").is_ok());
    }

    fn map_of(blocks: &str) -> Result<(Map, Of), String> {
        Map::parse(&format!("# Array: 0:1:2:3\n0x0 ? 1\n{blocks}"), 100)
    }

    #[test]
    fn what_is_no_map_is_reported() {
        let most = u64::MAX;
        for wrong in [
            "",
            "0x0 0x32 +",
            "0x0 101 +",
            "1 99 +",
            "0 50 +\n49 51 +",
            "0 100 x",
            "0 -1 +",
            "0 100",
            &format!("0 {most} +\n{most} 1 +"),
        ] {
            assert!(map_of(wrong).is_err(), "{wrong}");
        }
        assert!(Map::parse("0x0 ? 1\n0 100 +", 100).is_err());
        assert!(Map::parse("# Array: a\n# Events: x\n0x0 ? 1\n0 100 +", 100).is_err());
    }
}
