//! Protocol data units: the basic header segment of 48 bytes, and what follows it (RFC 7143, 11).

/// Bytes of a basic header segment.
pub const BHS: usize = 48;
/// The task tag that stands for no task.
pub const NO_TAG: u32 = u32::MAX;

/// Opcodes of initiators.
#[allow(missing_docs, reason = "named as the RFC names them")]
pub mod request {
    pub const NOP: u8 = 0x00;
    pub const COMMAND: u8 = 0x01;
    pub const TASK: u8 = 0x02;
    pub const LOGIN: u8 = 0x03;
    pub const TEXT: u8 = 0x04;
    pub const DATA: u8 = 0x05;
    pub const LOGOUT: u8 = 0x06;
}

/// Opcodes of targets.
#[allow(missing_docs, reason = "named as the RFC names them")]
pub mod response {
    pub const NOP: u8 = 0x20;
    pub const COMMAND: u8 = 0x21;
    pub const TASK: u8 = 0x22;
    pub const LOGIN: u8 = 0x23;
    pub const TEXT: u8 = 0x24;
    pub const DATA: u8 = 0x25;
    pub const LOGOUT: u8 = 0x26;
    pub const R2T: u8 = 0x31;
    pub const REJECT: u8 = 0x3f;
}

/// Why a PDU is rejected.
#[allow(missing_docs, reason = "named as the RFC names them")]
pub mod reject {
    pub const PROTOCOL: u8 = 0x04;
    pub const NOT_SUPPORTED: u8 = 0x05;
    pub const RESOURCES: u8 = 0x06;
    pub const INVALID: u8 = 0x09;
}

/// A basic header segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header(pub [u8; BHS]);

impl Header {
    /// A header of an operation with the final bit set, for a task.
    pub fn new(opcode: u8, task: u32) -> Self {
        let mut bytes = [0; BHS];
        (bytes[0], bytes[1]) = (opcode, FINAL);
        bytes[16..20].copy_from_slice(&task.to_be_bytes());
        Self(bytes)
    }

    /// The operation.
    pub const fn opcode(&self) -> u8 {
        self.0[0] & 0x3f
    }

    /// The PDU is to be taken at once, and has no number of its own.
    pub const fn is_immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// The second byte.
    pub const fn flags(&self) -> u8 {
        self.0[1]
    }

    /// Bytes of additional header segments.
    pub const fn additional(&self) -> usize {
        self.0[4] as usize * 4
    }

    /// Bytes of data.
    pub fn data(&self) -> usize {
        u32::from_be_bytes([0, self.0[5], self.0[6], self.0[7]]) as usize
    }

    /// Bytes of data with what fills them up to a multiple of four.
    pub fn padded(&self) -> usize {
        self.data().next_multiple_of(4)
    }

    /// A field of four bytes.
    pub fn word(&self, at: usize) -> u32 {
        self.0[at..at + 4].iter().fold(0, |all, &byte| all << 8 | u32::from(byte))
    }

    /// The logical unit number.
    pub fn lun(&self) -> u64 {
        u64::from(self.word(8)) << 32 | u64::from(self.word(12))
    }

    /// The initiator's tag of the task.
    pub fn task(&self) -> u32 {
        self.word(16)
    }

    /// Sets a field of four bytes.
    #[must_use]
    pub fn with(mut self, at: usize, word: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&word.to_be_bytes());
        self
    }

    /// Sets a byte.
    #[must_use]
    pub const fn byte(mut self, at: usize, byte: u8) -> Self {
        self.0[at] = byte;
        self
    }

    /// Sets the length of the data segment.
    #[must_use]
    pub fn with_data(mut self, len: usize) -> Self {
        self.0[5..8].copy_from_slice(&(len as u32).to_be_bytes()[1..]);
        self
    }
}

/// The final bit, of every PDU's second byte.
pub const FINAL: u8 = 0x80;

/// The index of a logical unit in its flat number (SAM-5, 4.7): of one or two bytes; `None` for other forms.
pub const fn lun_index(lun: u64) -> Option<u64> {
    if lun & 0xffff_ffff_ffff != 0 {
        return None;
    }
    match lun >> 62 {
        0 if lun >> 56 == 0 => Some(lun >> 48),
        1 => Some(lun >> 48 & 0x3fff),
        _ => None,
    }
}

/// The digest of bytes in several stretches: CRC32C, its lowest byte first.
pub fn digest<'a>(stretches: impl IntoIterator<Item = &'a [u8]>) -> [u8; 4] {
    stretches.into_iter().fold(0, crc32c::crc32c_append).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_rfc() {
        // RFC 7143, B.4: 32 zeroes, 32 ones, 0 to 31.
        assert_eq!(digest([&[0_u8; 32][..]]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(digest([&[0xff_u8; 16][..], &[0xff; 16]]), [0x43, 0xab, 0xa8, 0x62]);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(digest([&rising[..]]), [0x4e, 0x79, 0xdd, 0x46]);
    }

    #[test]
    fn units_have_flat_numbers() {
        assert_eq!(lun_index(0), Some(0));
        assert_eq!(lun_index(0x0001_0000_0000_0000), Some(1));
        assert_eq!(lun_index(0x4001_0000_0000_0000), Some(1));
        assert_eq!(lun_index(0xc101_0000_0000_0000), None);
        assert_eq!(lun_index(1), None);
    }
}
