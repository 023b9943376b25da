//! What was written to an array, which of it was promised to last, and whether a content keeps the promise.
//!
//! Writes are numbered from 1 in the order in which they began; those that overlap never ran at the same time. Every
//! sector says which write it is of and where it belongs, so that a content can be judged without a second copy.

use std::ops::Range;

/// Bytes of a sector.
pub const SECTOR: usize = 512;

/// A sector as write `number` leaves it at sector `place` of the array: both numbers, over and over.
pub fn stamp(number: u64, place: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    for pair in bytes.chunks_exact_mut(16) {
        pair[..8].copy_from_slice(&number.to_le_bytes());
        pair[8..].copy_from_slice(&place.to_le_bytes());
    }
    bytes
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Bytes of the array; whole sectors.
    pub range: Range<u64>,
    /// A flush that began after its end was acknowledged, or it was one that does not need a flush.
    pub kept: bool,
}

impl Write {
    /// What write `number` writes.
    pub fn bytes(&self, number: u64) -> Vec<u8> {
        let sectors = self.range.start / SECTOR as u64..self.range.end / SECTOR as u64;
        sectors.flat_map(|place| stamp(number, place)).collect()
    }
}

/// All writes since the array was full of zeroes.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Write 1 is the first.
    pub writes: Vec<Write>,
}

/// What was found in a content that breaks no promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Sectors that hold what was promised, or something newer.
    pub kept: u64,
    /// Sectors of writes that nothing was promised of.
    pub newer: u64,
}

impl History {
    /// Every sector must hold the last write to it that was promised to last, or one after that. Nothing is asked of
    /// sectors in doubt.
    ///
    /// # Errors
    /// The first sector that holds anything else: which, what, and what it may hold.
    pub fn judge(&self, content: &[u8], in_doubt: impl Fn(u64) -> bool) -> Result<Found, String> {
        let mut oldest = vec![0; content.len() / SECTOR];
        for (number, write) in (1..).zip(&self.writes) {
            if write.kept {
                let Range { start, end } = &write.range;
                oldest[*start as usize / SECTOR..*end as usize / SECTOR].fill(number);
            }
        }
        let mut found = Found::default();
        for ((place, bytes), oldest) in (0..).zip(content.chunks_exact(SECTOR)).zip(oldest) {
            if in_doubt(place * SECTOR as u64) {
                continue;
            }
            let number = self.number_of(bytes, place)?;
            if number < oldest {
                return Err(format!("sector {place} is of write {number}, but write {oldest} was flushed"));
            }
            found.kept += u64::from(oldest > 0);
            found.newer += u64::from(number > oldest);
        }
        Ok(found)
    }

    /// The write that a sector is of; 0 if it was never written.
    fn number_of(&self, bytes: &[u8], place: u64) -> Result<u64, String> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(0);
        }
        let number = bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        let at = place * SECTOR as u64;
        let covers = |write: &Write| write.range.contains(&at);
        let known = number > 0 && self.writes.get(number as usize - 1).is_some_and(covers);
        if known && bytes == stamp(number, place) {
            return Ok(number);
        }
        Err(format!("sector {place} was never written like this: it begins with {:x?}", &bytes[..32]))
    }

    /// Whether a write that nothing was promised of touches these bytes.
    pub fn in_doubt(&self, range: &Range<u64>) -> bool {
        let touches = |write: &&Write| write.range.start < range.end && range.start < write.range.end;
        self.writes.iter().filter(touches).any(|write| !write.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(range: Range<u64>, kept: bool) -> Write {
        Write { range, kept }
    }

    fn content(numbers: [u64; 4]) -> Vec<u8> {
        (0..).zip(numbers).flat_map(|(place, n)| if n == 0 { [0; SECTOR] } else { stamp(n, place) }).collect()
    }

    #[test]
    fn flushed_sectors_may_be_newer_but_not_older() {
        let history =
            History { writes: vec![write(0..1024, true), write(512..1536, true), write(0..512, false)] };
        let judge = |numbers| history.judge(&content(numbers), |_| false);
        assert_eq!(judge([1, 2, 2, 0]), Ok(Found { kept: 3, newer: 0 }));
        assert_eq!(judge([3, 2, 2, 0]), Ok(Found { kept: 3, newer: 1 }));
        for lost in [[0, 2, 2, 0], [1, 1, 2, 0], [1, 2, 0, 0]] {
            assert!(judge(lost).is_err_and(|why| why.contains("was flushed")), "{lost:?}");
        }
        assert!(history.in_doubt(&(0..4096)));
        assert!(!history.in_doubt(&(512..4096)));
    }

    #[test]
    fn sectors_must_hold_one_write_to_their_place() {
        let history = History { writes: vec![write(0..1024, false)] };
        let judge = |bytes: &[u8]| history.judge(bytes, |_| false);
        let good = content([1, 1, 0, 0]);
        assert_eq!(judge(&good), Ok(Found { kept: 0, newer: 2 }));
        let mut torn = good;
        torn[16] = 0;
        let swapped: Vec<u8> = [stamp(1, 1), stamp(1, 0)].concat();
        for bad in [torn, swapped, content([1, 1, 1, 0]), content([2, 1, 0, 0])] {
            assert!(judge(&bad).is_err_and(|why| why.contains("never written")));
            assert!(history.judge(&bad, |_| true).is_ok(), "nothing is asked of bytes in doubt");
        }
    }
}
