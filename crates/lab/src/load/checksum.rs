//! The checksums of fio's verify headers, in the bytes that fio keeps of them (`crc/` and `verify.h` of fio 3.33 to 3.42).

use crc::{Algorithm, CRC_7_MMC, CRC_16_ARC, CRC_64_REDIS, Crc, Table};
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha512;
use sha2::block_api::compress256;
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use xxhash_rust::xxh32::xxh32;

use crate::job::Verify;

/// The polynomial of Ethernet, highest bit first, that begins with 0 and ends as it is.
const PLAIN_32: Algorithm<u32> = Algorithm {
    width: 32,
    poly: 0x04c1_1db7,
    init: 0,
    refin: false,
    refout: false,
    xorout: 0,
    check: 0x89a1_897f,
    residue: 0,
};
static CRC_7: Crc<u8, Table<1>> = Crc::<u8, Table<1>>::new(&CRC_7_MMC);
static CRC_16: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_ARC);
static CRC_32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&PLAIN_32);
static CRC_64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The longest of all.
pub(super) const LONGEST: usize = 128;

/// CRC-32C as fio has it: its bits are not turned at the end.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    !::crc32c::crc32c(bytes)
}

/// The checksum of `data`, and how many bytes of it count: as `newer` versions of fio have it, whose headers have a version, or those
/// before.
pub(super) fn sum(kind: Verify, data: &[u8], newer: bool) -> ([u8; LONGEST], usize) {
    let mut out = [0; LONGEST];
    let mut put = |bytes: &[u8]| out[..bytes.len()].copy_from_slice(bytes);
    match kind {
        Verify::Crc32c => put(&crc32c(data).to_le_bytes()),
        Verify::Crc32 => put(&CRC_32.checksum(data).to_le_bytes()),
        Verify::Crc16 => put(&CRC_16.checksum(data).to_le_bytes()),
        Verify::Crc7 => put(&[CRC_7.checksum(data)]),
        Verify::Crc64 => put(&CRC_64.checksum(data).to_le_bytes()),
        Verify::Xxhash => put(&xxh32(data, 1).to_le_bytes()),
        Verify::Md5 => put(&Md5::digest(data)),
        Verify::Sha1 => put(&words_turned(Sha1::digest(data).into())),
        Verify::Sha256 => put(&sha256(data)),
        Verify::Sha512 if newer => put(&sha512(data)),
        Verify::Sha512 => put(&unfinished_sha512(data)),
        Verify::Sha3(224) => put(&Sha3_224::digest(data)),
        Verify::Sha3(256) => put(&Sha3_256::digest(data)),
        Verify::Sha3(384) => put(&Sha3_384::digest(data)),
        Verify::Sha3(_) => put(&Sha3_512::digest(data)),
        Verify::Header | Verify::PatternWithHeader | Verify::Pattern | Verify::Nothing => {}
    }
    (out, kind.sum_len())
}

/// fio keeps SHA-1's words as a little-endian processor has them.
fn words_turned(mut digest: [u8; 20]) -> [u8; 20] {
    digest.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    digest
}

/// The last block of `data` as the digests pad it: what is left, a bit, zeroes, and the length.
fn last_block<const BLOCK: usize>(data: &[u8], length: &[u8]) -> [u8; BLOCK] {
    let rest = data.len() % BLOCK;
    let mut block = [0; BLOCK];
    if rest < BLOCK - length.len() {
        block[..rest].copy_from_slice(&data[data.len() - rest..]);
        block[rest] = 0x80;
    }
    block[BLOCK - length.len()..].copy_from_slice(length);
    block
}

/// The SHA-256 of fio: the length is padded little-endian, and its buffer is kept. That holds the last block, and before it the
/// lowest byte of each word of the state.
fn sha256(data: &[u8]) -> [u8; 64] {
    let bits = (data.len() as u64) << 3;
    let mut last = last_block::<64>(data, &bits.to_le_bytes());
    let (whole, rest) = data.as_chunks::<64>();
    let mut state: [u32; 8] = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];
    compress256(&mut state, whole);
    if rest.len() >= 56 {
        let mut block = [0; 64];
        block[..rest.len()].copy_from_slice(rest);
        block[rest.len()] = 0x80;
        compress256(&mut state, &[block]);
    }
    compress256(&mut state, &[last]);
    for (byte, word) in last.iter_mut().zip(state) {
        *byte = word as u8;
    }
    last
}

/// SHA-512, behind which the rest of fio's buffer stands: the second half of the last block.
fn sha512(data: &[u8]) -> [u8; 128] {
    let bits = (data.len() as u128) << 3;
    let mut last = last_block::<128>(data, &bits.to_be_bytes());
    last[..64].copy_from_slice(&Sha512::digest(data));
    last
}

/// The SHA-512 of older versions of fio, which never end it: its buffer is kept, with the first block and what is left for the last. It
/// covers no more of the data.
fn unfinished_sha512(data: &[u8]) -> [u8; 128] {
    let (whole, rest) = data.as_chunks::<128>();
    let mut buffer = whole.first().copied().unwrap_or([0; 128]);
    buffer[..rest.len()].copy_from_slice(rest);
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_their_catalogues() {
        let of = |kind| {
            let (sum, len) = sum(kind, b"123456789", false);
            sum[..len].to_vec()
        };
        // Rocksoft's check values; CRC-32C lacks its last step, and Ethernet's polynomial is that of CRC-32/CKSUM without.
        assert_eq!(of(Verify::Crc32c), (!0xe306_9283u32).to_le_bytes());
        assert_eq!(of(Verify::Crc32), 0x89a1_897fu32.to_le_bytes());
        assert_eq!(of(Verify::Crc16), 0xbb3du16.to_le_bytes());
        assert_eq!(of(Verify::Crc7), [0x75]);
        assert_eq!(of(Verify::Crc64), 0xe9c6_d914_c4b8_d9cau64.to_le_bytes());
        // FIPS 180: the digest of "abc" begins with a9993e36.
        assert_eq!(sum(Verify::Sha1, b"abc", false).0[..4], [0x36, 0x3e, 0x99, 0xa9]);
        assert_eq!(sum(Verify::Sha512, b"abc", true).0[..4], [0xdd, 0xaf, 0x35, 0xa1]);
    }
}
