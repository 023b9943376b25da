//! Members, contents and hashes.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use brindle_testkit::random::Random;
use sha2::{Digest, Sha256};

/// One kibibyte in bytes.
pub const KIB: u64 = 1 << 10;

/// One mebibyte in bytes.
pub const MIB: u64 = 1 << 20;

/// Makes `count` sparse files of `size` bytes in `dir`, called `PREFIX0.img` and so on.
///
/// # Panics
/// If one cannot be made.
pub fn members(dir: &Path, prefix: &str, count: usize, size: u64) -> Vec<PathBuf> {
    (0..count)
        .map(|i| {
            let path = dir.join(format!("{prefix}{i}.img"));
            sparse(&path, size);
            path
        })
        .collect()
}

/// Makes a file of `size` bytes that takes no room.
///
/// # Panics
/// If it cannot be made.
pub fn sparse(path: &Path, size: u64) {
    let made = File::create(path).and_then(|file| file.set_len(size));
    made.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// SHA-256 of a whole file, in lower-case hexadecimal digits.
///
/// # Panics
/// If it cannot be read.
pub fn sha256(path: &Path) -> String {
    let mut file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut hash = Sha256::new();
    let mut buffer = vec![0; MIB as usize];
    loop {
        let n = file.read(&mut buffer).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if n == 0 {
            return hex(&hash.finalize());
        }
        hash.update(&buffer[..n]);
    }
}

/// SHA-256 of `bytes`, in lower-case hexadecimal digits.
pub fn sha256_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes `size` bytes to `path` that never repeat and depend on `seed`, so that a block in a wrong place shows.
///
/// # Panics
/// If it cannot be written.
pub fn write_pattern(path: &Path, size: u64, seed: u64) {
    let mut file = File::create(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut random = Random::new(seed);
    let mut left = size;
    let mut buffer = vec![0; MIB as usize];
    while left > 0 {
        random.fill(&mut buffer);
        let n = left.min(buffer.len() as u64);
        file.write_all(&buffer[..n as usize]).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        left -= n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_everybody() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("abc");
        std::fs::write(&path, "abc").expect("a file");
        // FIPS 180-2, appendix B.1.
        assert_eq!(sha256(&path), sha256_of(b"abc"));
        assert_eq!(sha256(&path), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn patterns_have_their_size_and_seed() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |name: &str, seed| {
            let path = dir.path().join(name);
            write_pattern(&path, MIB + 512, seed);
            std::fs::read(path).expect("a file")
        };
        let (one, two) = (write("1", 1), write("2", 2));
        assert_eq!(one.len() as u64, MIB + 512);
        assert_ne!(one[..512], two[..512]);
        assert_ne!(one[..512], one[MIB as usize..]);
        assert_eq!(one, write("again", 1));
    }
}
