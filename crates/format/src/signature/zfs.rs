//! Members of ZFS pools (the ZFS On-Disk Specification, chapter 1).
//!
//! A member has four labels of 256 KiB, two at either end. Each holds from byte 16 KiB on a list of names and values
//! that describes the pool, and in its second half a ring of uberblocks. Either tells a member: spares and new ones
//! have no uberblock yet, a rewritten list may be damaged.

use super::sample::Samples;
use super::{Found, Signature, bare};

const KIB: u64 = 1 << 10;
const LABEL: u64 = 256 * KIB;
/// List of names and values within a label.
const LIST: u64 = 16 * KIB;
/// The list's whole area.
const LIST_BYTES: usize = 112 << 10;
/// First word of an uberblock, in the byte order of the machine that wrote it.
const UBERBLOCK: u64 = 0x00ba_b10c;
/// The least distance between uberblocks.
const SLOT: u64 = KIB;

/// Bytes of the longest name that a pool can have (`ZFS_MAX_DATASET_NAME_LEN` without its end).
const LONGEST_NAME: usize = 255;

/// Type of a value in the list: a number of 64 bits.
const NUMBER: u32 = 8;
/// Type of a value in the list: text.
const TEXT: u32 = 9;

/// The first sign of a pool, with the pool's name and number if a list tells them.
pub(super) fn find(device: &Samples<'_>) -> Option<Found> {
    let end = device.bytes & !LABEL.wrapping_sub(1);
    let places = [Some(0), end.checked_sub(LABEL), end.checked_sub(LABEL.wrapping_mul(2))];
    let labels = || places.into_iter().flatten();
    labels().find_map(|label| list(device, label)).or_else(|| labels().find_map(|label| ring(device, label)))
}

fn ring(device: &Samples<'_>, label: u64) -> Option<Found> {
    let slots = (128..256u64).map(|slot| label.saturating_add(slot.wrapping_mul(SLOT)));
    let magic = [UBERBLOCK.to_le_bytes(), UBERBLOCK.to_be_bytes()];
    let mut used = slots.filter(|slot| magic.iter().any(|magic| device.has(*slot, magic)));
    used.next().map(|slot| bare(Signature::Zfs, slot))
}

fn list(device: &Samples<'_>, label: u64) -> Option<Found> {
    let place = label.checked_add(LIST)?;
    let mut found = None;
    for pair in pairs(device.at(place, LIST_BYTES)?)? {
        let found = found.get_or_insert_with(|| bare(Signature::Zfs, place));
        match (pair.name, pair.kind) {
            (b"name", TEXT) => found.label = text(pair.value),
            (b"pool_guid", NUMBER) => {
                found.uuid = pair.value.first_chunk().map(|bytes| u64::from_be_bytes(*bytes).to_string());
            }
            _ => {}
        }
    }
    found
}

struct Pair<'a> {
    name: &'a [u8],
    kind: u32,
    value: &'a [u8],
}

/// The pairs of a list in XDR (RFC 4506), as far as they make sense; `None` if it does not begin as one.
fn pairs(list: &[u8]) -> Option<impl Iterator<Item = Pair<'_>>> {
    // Encoding XDR, byte order of the host, two reserved; version 0, names are unique.
    let (head, rest) = list.split_at_checked(12)?;
    let begins = matches!(head, [1, 0 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let mut rest = begins.then_some(rest)?;
    Some(core::iter::from_fn(move || {
        let size = usize::try_from(word(rest, 0)?).ok()?;
        let (bytes, next) = rest.split_at_checked(size).filter(|_| size > 0)?;
        rest = next;
        pair(bytes)
    }))
}

/// Two sizes, a name, type and number of values, the values.
fn pair(bytes: &[u8]) -> Option<Pair<'_>> {
    let len = usize::try_from(word(bytes, 8)?).ok()?;
    let name = bytes.get(12..)?.get(..len)?;
    let rest = bytes.get(12..)?.get(len.checked_next_multiple_of(4)?..)?;
    Some(Pair { name, kind: word(rest, 0)?, value: rest.get(8..)? })
}

fn text(value: &[u8]) -> Option<String> {
    let len = usize::try_from(word(value, 0)?).ok().filter(|len| *len <= LONGEST_NAME)?;
    let text = String::from_utf8_lossy(value.get(4..)?.get(..len)?).into_owned();
    (!text.is_empty()).then_some(text)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
