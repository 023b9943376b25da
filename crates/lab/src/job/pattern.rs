//! `buffer_pattern` and `verify_pattern`: bytes in hexadecimal, numbers, text.

use super::error::Wants;

/// Most bytes of a pattern.
const LONGEST: usize = 512;
const WANTS: Wants = Wants(
    "at most 512 bytes: 0xdeadface, a number of 32 bits, \"text\", or some of these one after the other; in verify_pattern %o, too",
);

/// Bytes that come over and over, some of which say where they stand: `verify_pattern`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    bytes: Vec<u8>,
    /// Where an offset of eight bytes stands among them, little-endian: fio's `%o`.
    offsets: Vec<usize>,
}

/// Bytes of an offset.
const OFFSET: usize = 8;

impl Pattern {
    /// A pattern of bytes, and where offsets stand in them.
    pub const fn new(bytes: Vec<u8>, offsets: Vec<usize>) -> Self {
        Self { bytes, offsets }
    }

    /// The pattern in a request at `offset`.
    pub fn at(&self, offset: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for at in &self.offsets {
            if let Some(place) = bytes.get_mut(*at..*at + OFFSET) {
                place.copy_from_slice(&offset.to_le_bytes());
            }
        }
        bytes
    }
}

/// A pattern in which `%o` stands for the offset of the request.
pub(super) fn with_offsets(text: &str) -> Result<Pattern, Wants> {
    let mut pattern = Pattern::new(Vec::new(), Vec::new());
    for (nth, part) in text.trim().split("%o").enumerate() {
        if nth > 0 {
            pattern.offsets.push(pattern.bytes.len());
            pattern.bytes.extend([0; OFFSET]);
        }
        if !part.is_empty() {
            pattern.bytes.extend(bytes(part)?);
        }
    }
    if pattern.bytes.is_empty() || pattern.bytes.len() > LONGEST { Err(WANTS) } else { Ok(pattern) }
}

/// The bytes of a pattern, such as `0xdeadface"abcd"-12`.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, Wants> {
    let mut rest = text.trim();
    let mut bytes = Vec::new();
    while !rest.is_empty() {
        rest = part(rest, &mut bytes).ok_or(WANTS)?;
    }
    if bytes.is_empty() || bytes.len() > LONGEST { Err(WANTS) } else { Ok(bytes) }
}

/// Reads one part; returns what follows.
fn part<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    if let Some(rest) = text.strip_prefix('"') {
        let (inner, rest) = rest.split_once('"')?;
        bytes.extend_from_slice(inner.as_bytes());
        return Some(rest);
    }
    if let Some(rest) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let (digits, rest) = split(rest, char::is_ascii_hexdigit);
        hexadecimal(digits, bytes)?;
        return Some(rest);
    }
    let sign = usize::from(text.starts_with('-'));
    let (digits, rest) = split(&text[sign..], char::is_ascii_digit);
    let number: i64 = text[..sign + digits.len()].parse().ok()?;
    let number = i32::try_from(number).map(|n| n as u32).or_else(|_| u32::try_from(number)).ok()?;
    let all = number.to_le_bytes();
    // As many bytes as the number needs.
    let needed = if sign == 1 { 4 } else { (4 - number.leading_zeros() as usize / 8).max(1) };
    bytes.extend_from_slice(&all[..needed]);
    Some(rest)
}

fn split(text: &str, is_part: fn(&char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is_part(&c)).unwrap_or(text.len()))
}

/// Two digits a byte, in their order; a single first one is a byte.
fn hexadecimal(digits: &str, bytes: &mut Vec<u8>) -> Option<()> {
    if digits.is_empty() || digits.len() > 2 * LONGEST {
        return None;
    }
    let (head, tail) = digits.split_at(digits.len() % 2);
    if !head.is_empty() {
        bytes.push(u8::from_str_radix(head, 16).ok()?);
    }
    for at in (0..tail.len()).step_by(2) {
        bytes.push(u8::from_str_radix(&tail[at..at + 2], 16).ok()?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_one_another() {
        assert_eq!(bytes("0xdeadface"), Ok(vec![0xde, 0xad, 0xfa, 0xce]));
        assert_eq!(bytes("\"abcd\""), Ok(b"abcd".to_vec()));
        assert_eq!(bytes("0xf00\"a\"-12"), Ok(vec![0x0f, 0, b'a', 0xf4, 0xff, 0xff, 0xff]));
        assert_eq!(bytes("7"), Ok(vec![7]));
        assert_eq!(bytes("256"), Ok(vec![0, 1]));
        for wrong in ["", "0x", "abc", "\"", "\"a", "-", "4294967296", "-2147483649", "0xzz", "'file'", "é"]
        {
            assert_eq!(bytes(wrong), Err(WANTS), "{wrong}");
        }
        let placed = with_offsets("0xff%o\"ab\"").expect("a pattern");
        assert_eq!(placed.at(0x0102), [&[0xff, 2, 1, 0, 0, 0, 0, 0, 0][..], b"ab"].concat());
        assert_eq!(with_offsets("%o%o").map(|pattern| pattern.at(1).len()), Ok(16));
        assert!(with_offsets("").is_err() && with_offsets("%x").is_err());
        assert!(bytes(&format!("0x{}", "ab".repeat(512))).is_ok());
        assert!(bytes(&format!("0x{}", "ab".repeat(513))).is_err());
    }
}
