//! Sectors that tell which write they are of, and where they belong.

/// Bytes of a sector.
pub const SECTOR: usize = 512;

/// The stamp in a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// All zeroes.
    Zeroes,
    /// The data of the write with this number.
    Write(u64),
    /// No write has put these bytes here.
    Strange,
}

/// Makes `bytes` sectors of write `number`, the first of which is sector `place` of the volume.
pub fn stamp(bytes: &mut [u8], place: u64, number: u64) {
    for (place, sector) in (place..).zip(bytes.chunks_exact_mut(SECTOR)) {
        for pair in sector.chunks_exact_mut(16) {
            pair[..8].copy_from_slice(&number.to_le_bytes());
            pair[8..].copy_from_slice(&place.to_le_bytes());
        }
    }
}

/// The stamp of the sector at `place`.
pub fn read(sector: &[u8], place: u64) -> Stamp {
    let (pairs, _) = sector.as_chunks::<16>();
    let Some(first) = pairs.first() else { return Stamp::Strange };
    if pairs.iter().any(|pair| pair != first) {
        return Stamp::Strange;
    }
    let word = |at: usize| first[at..at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    match (word(0), word(8)) {
        (0, 0) => Stamp::Zeroes,
        (number, at) if number > 0 && at == place => Stamp::Write(number),
        _ => Stamp::Strange,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_where_it_was_made_and_nowhere_else() {
        let mut bytes = [0; 2 * SECTOR];
        assert_eq!(read(&bytes[..SECTOR], 0), Stamp::Zeroes);
        stamp(&mut bytes, 6, 9);
        assert_eq!(
            (read(&bytes[..SECTOR], 6), read(&bytes[SECTOR..], 7)),
            (Stamp::Write(9), Stamp::Write(9))
        );
        assert_eq!(read(&bytes[..SECTOR], 7), Stamp::Strange);
        bytes[300] ^= 1;
        assert_eq!(read(&bytes[..SECTOR], 6), Stamp::Strange);
    }
}
