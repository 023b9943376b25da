//! The parts of a device that have been read, and those still to read.

const KIB: u64 = 1 << 10;

/// Bytes wanted from the start of a device.
const HEAD: u64 = 256 * KIB;
/// A block between start and end that is wanted too: VMFS leaves the first MiB alone.
const MIDDLE: (u64, u64) = (1024 * KIB, 1028 * KIB);
/// Bytes wanted from its end.
const TAIL: u64 = 512 * KIB;
/// Reads are aligned to this, so that they can bypass the page cache.
const ALIGN: u64 = 4 * KIB;

/// Some bytes of a device.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// Offset of the bytes on the device.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The ranges (offset, bytes) of a device of `device_bytes` that [`detect`](super::detect) wants to see: start and end
/// and a block between, or all of a small device. Offsets are multiples of 4 KiB; so are lengths, except where the device ends.
pub fn needed(device_bytes: u64) -> Vec<(u64, usize)> {
    let tail = device_bytes.saturating_sub(TAIL) & !ALIGN.wrapping_sub(1);
    let range = |from: u64, to: u64| {
        let len = usize::try_from(to.saturating_sub(from)).unwrap_or(0);
        (len > 0).then_some((from, len))
    };
    let ranges = if tail <= MIDDLE.1 {
        [range(0, device_bytes), None, None]
    } else {
        [range(0, HEAD), range(MIDDLE.0, MIDDLE.1), range(tail, device_bytes)]
    };
    ranges.into_iter().flatten().collect()
}

/// A device of which only some parts are known.
pub(super) struct Samples<'a> {
    /// Size of the device.
    pub(super) bytes: u64,
    /// The known parts.
    pub(super) samples: &'a [Sample<'a>],
}

impl<'a> Samples<'a> {
    /// `len` bytes at `offset`, if one sample holds them all.
    pub(super) fn at(&self, offset: u64, len: usize) -> Option<&'a [u8]> {
        self.samples.iter().find_map(|sample| {
            let from = usize::try_from(offset.checked_sub(sample.offset)?).ok()?;
            sample.bytes.get(from..from.checked_add(len)?)
        })
    }

    /// A fixed number of bytes at `offset`.
    pub(super) fn array<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        self.at(offset, N)?.try_into().ok()
    }

    /// Whether `magic` stands at `offset`.
    pub(super) fn has(&self, offset: u64, magic: &[u8]) -> bool {
        self.at(offset, magic.len()) == Some(magic)
    }

    /// A little-endian word.
    pub(super) fn le32(&self, offset: u64) -> Option<u32> {
        self.array(offset).map(u32::from_le_bytes)
    }

    /// Text of at most `len` bytes, up to its first NUL and without the spaces around it; `None` if nothing is left.
    pub(super) fn text(&self, offset: u64, len: usize) -> Option<String> {
        let bytes = self.at(offset, len)?.split(|b| *b == 0).next()?;
        let text = String::from_utf8_lossy(bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// UTF-16 text of at most `units` units.
    pub(super) fn text16(&self, offset: u64, units: usize) -> Option<String> {
        let bytes = self.at(offset, units.checked_mul(2)?)?;
        let units = bytes.chunks_exact(2).filter_map(|pair| Some(u16::from_le_bytes(pair.try_into().ok()?)));
        let text: String =
            char::decode_utf16(units.take_while(|u| *u != 0)).map(|c| c.unwrap_or('\u{fffd}')).collect();
        (!text.is_empty()).then_some(text)
    }

    /// A UUID kept as 16 bytes; `None` if it is nil.
    pub(super) fn uuid(&self, offset: u64) -> Option<String> {
        let uuid = uuid::Uuid::from_bytes(self.array(offset)?);
        (!uuid.is_nil()).then(|| uuid.to_string())
    }
}
