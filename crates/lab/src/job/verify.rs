//! `verify`: how fio, and so this program, knows that a block is what was written.

/// The way in which a block is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// `crc32c`: a header with a checksum of the rest, as of the others.
    Crc32c,
    /// `crc32`, with the polynomial of Ethernet.
    Crc32,
    /// `crc16`.
    Crc16,
    /// `crc7`.
    Crc7,
    /// `crc64`.
    Crc64,
    /// `xxhash`.
    Xxhash,
    /// `md5`.
    Md5,
    /// `sha1`.
    Sha1,
    /// `sha256`.
    Sha256,
    /// `sha512`.
    Sha512,
    /// `sha3-224` and so on, with its bits.
    Sha3(u16),
    /// `meta`: the header alone, and the pattern if there is one.
    Header,
    /// `pattern_hdr`: a header, and the pattern behind it.
    PatternWithHeader,
    /// `pattern`: nothing but the pattern.
    Pattern,
    /// `null`: all that is read is taken for right.
    Nothing,
}

impl Verify {
    /// fio's names.
    pub const NAMES: &'static [(&'static str, Self)] = &[
        ("crc32c", Self::Crc32c),
        ("crc32c-intel", Self::Crc32c),
        ("crc32", Self::Crc32),
        ("crc16", Self::Crc16),
        ("crc7", Self::Crc7),
        ("crc64", Self::Crc64),
        ("xxhash", Self::Xxhash),
        ("md5", Self::Md5),
        ("sha1", Self::Sha1),
        ("sha256", Self::Sha256),
        ("sha512", Self::Sha512),
        ("sha3-224", Self::Sha3(224)),
        ("sha3-256", Self::Sha3(256)),
        ("sha3-384", Self::Sha3(384)),
        ("sha3-512", Self::Sha3(512)),
        ("meta", Self::Header),
        ("pattern_hdr", Self::PatternWithHeader),
        ("pattern", Self::Pattern),
        ("null", Self::Nothing),
    ];

    /// The number by which headers name it.
    pub const fn number(self) -> u16 {
        match self {
            Self::Header => 1,
            Self::Md5 => 2,
            Self::Crc64 => 3,
            Self::Crc32 => 4,
            Self::Crc32c => 5,
            Self::Crc16 => 7,
            Self::Crc7 => 8,
            Self::Sha256 => 9,
            Self::Sha512 => 10,
            Self::Sha3(224) => 11,
            Self::Sha3(256) => 12,
            Self::Sha3(384) => 13,
            Self::Sha3(_) => 14,
            Self::Xxhash => 15,
            Self::Sha1 => 16,
            Self::PatternWithHeader => 17,
            Self::Pattern => 18,
            Self::Nothing => 19,
        }
    }

    /// Bytes that fio keeps of the checksum, behind the header.
    pub const fn sum_len(self) -> usize {
        match self {
            Self::Crc32c | Self::Crc32 | Self::Xxhash => 4,
            Self::Crc16 => 2,
            Self::Crc7 => 1,
            Self::Crc64 => 8,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 64,
            Self::Sha512 => 128,
            Self::Sha3(bits) => bits as usize / 8,
            Self::Header | Self::PatternWithHeader | Self::Pattern | Self::Nothing => 0,
        }
    }

    /// Whether blocks begin with a header.
    pub const fn has_header(self) -> bool {
        !matches!(self, Self::Pattern | Self::Nothing)
    }

    /// Whether the pattern is compared, where there is one.
    pub const fn has_pattern(self) -> bool {
        matches!(self, Self::Header | Self::PatternWithHeader | Self::Pattern)
    }

    /// Whether there must be one.
    pub const fn needs_pattern(self) -> bool {
        matches!(self, Self::PatternWithHeader | Self::Pattern)
    }

    /// Bytes of the least block: a header, its checksum and some data.
    pub const fn least_block(self) -> u64 {
        if self.has_header() { 40 + self.sum_len() as u64 + 1 } else { 1 }
    }
}
