//! Taking numbers and strings off the front of bytes that a peer sent.

/// The bytes not read yet.
pub(in crate::nbd) struct Reader<'a>(pub(in crate::nbd) &'a [u8]);

impl<'a> Reader<'a> {
    pub(in crate::nbd) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    pub(in crate::nbd) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(in crate::nbd) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(in crate::nbd) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(in crate::nbd) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(first)
    }

    /// Bytes with their length, 32 bits, before them.
    pub(in crate::nbd) fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.bytes(usize::try_from(len).ok()?)
    }

    pub(in crate::nbd) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
