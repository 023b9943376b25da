//! Lists of slices: the memory of one request, in pieces.

use brindle_io::Slice;

/// Bytes of a list in all.
#[inline]
pub fn bytes(list: &[Slice]) -> u64 {
    match list {
        // Most requests have one: the loop is made for many, and takes 45 instructions for that.
        [one] => one.len() as u64,
        all => all.iter().map(|slice| slice.len() as u64).sum(),
    }
}

/// The slices of a list that begins at `offset` of a volume, each with the byte at which it begins.
#[inline]
pub fn stretches(offset: u64, list: &[Slice]) -> impl Iterator<Item = (u64, &Slice)> {
    list.iter().scan(offset, |next, slice| {
        let at = *next;
        *next += slice.len() as u64;
        Some((at, slice))
    })
}
