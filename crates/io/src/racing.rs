//! Copies from and to memory that others change meanwhile: another process, a guest, a device.
//!
//! No reference is made to such bytes: each is read or written once, as an atomic access of this thread, so that what is
//! copied is some mix of what they were meanwhile, and nothing worse.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// Fills `into` from the bytes at `from`.
///
/// # Safety
/// The bytes at `from` are mapped, readable and writable. Of those that change meanwhile nobody of this process has a
/// reference, nor changes one but by [`store`] or through the kernel.
pub(crate) unsafe fn load(from: *mut u8, into: &mut [u8]) {
    let (head, rest) = into.split_at_mut(head(from, into.len()));
    let (words, tail) = rest.as_chunks_mut::<WORD>();
    let (whole, last) = (head.len(), head.len() + words.len() * WORD);
    for (at, byte) in (0..).zip(head).chain((last..).zip(tail)) {
        // SAFETY: the caller's promise; `at` is within the length of `into`.
        *byte = unsafe { AtomicU8::from_ptr(from.add(at)) }.load(Ordering::Relaxed);
    }
    for (at, word) in (whole..).step_by(WORD).zip(words) {
        // SAFETY: the caller's promise; eight bytes at `at` are within the length of `into`, and `head` has aligned it.
        let found = unsafe { AtomicU64::from_ptr(from.add(at).cast()) }.load(Ordering::Relaxed);
        *word = found.to_ne_bytes();
    }
}

/// Puts `from` at `into`.
///
/// # Safety
/// The bytes at `into` are mapped, readable and writable, `from` is of other memory, and nobody of this process has a
/// reference to any of them, nor changes one meanwhile but by this or through the kernel.
pub(crate) unsafe fn store(from: &[u8], into: *mut u8) {
    let (head, rest) = from.split_at(head(into, from.len()));
    let (words, tail) = rest.as_chunks::<WORD>();
    let (whole, last) = (head.len(), head.len() + words.len() * WORD);
    for (at, &byte) in (0..).zip(head).chain((last..).zip(tail)) {
        // SAFETY: the caller's promise; `at` is within the length of `from`.
        unsafe { AtomicU8::from_ptr(into.add(at)) }.store(byte, Ordering::Relaxed);
    }
    for (at, &word) in (whole..).step_by(WORD).zip(words) {
        // SAFETY: the caller's promise; eight bytes at `at` are within the length of `from`, and `head` has aligned it.
        let place = unsafe { AtomicU64::from_ptr(into.add(at).cast()) };
        place.store(u64::from_ne_bytes(word), Ordering::Relaxed);
    }
}

/// Bytes, of `len`, before the first whole word.
fn head(at: *const u8, len: usize) -> usize {
    at.align_offset(WORD).min(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_copied_and_no_others_wherever_words_begin() {
        for start in 0..9 {
            for len in 0..40 {
                let from: Vec<u8> = (1..=len as u8).collect();
                let mut memory = [0xee; 64];
                // SAFETY: the bytes are of `memory`, to which nobody has a reference meanwhile.
                unsafe { store(&from, memory.as_mut_ptr().add(start)) };
                let mut want = [0xee; 64];
                want[start..start + len].copy_from_slice(&from);
                assert_eq!(memory, want, "{len} at {start}");
                let mut back = vec![0; len];
                // SAFETY: as above.
                unsafe { load(memory.as_mut_ptr().add(start), &mut back) };
                assert_eq!(back, from, "{len} at {start}");
            }
        }
    }
}
