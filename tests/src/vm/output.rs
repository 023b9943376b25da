//! Data that a script hands over to be hashed. An emulated processor hashes 30 MB in a second and copies ten times as
//! much. So the helper `sha` copies a device to the machine's last disk and prints `content:PLACE:SIZE`, both in
//! bytes; the host puts the hash into its place.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::files;

/// How the words begin that tell of a copy.
const COPY: &str = "content:";

/// `results` with the hash in place of each word that tells of a copy on the disk `output`.
///
/// # Panics
/// If there is no such copy.
pub(super) fn hashed(results: &str, output: &Path) -> String {
    let mut hashed = String::with_capacity(results.len());
    for word in results.split_inclusive([' ', '\n']) {
        let (text, end) = word.split_at(word.trim_end_matches([' ', '\n']).len());
        match text.strip_prefix(COPY) {
            // A word without an end may be half there.
            Some(copy) if !end.is_empty() => {
                hashed += &hash(output, copy);
                hashed += end;
            }
            _ => hashed += word,
        }
    }
    hashed
}

fn hash(output: &Path, copy: &str) -> String {
    let numbers = copy.split_once(':').and_then(|(at, len)| Some((at.parse().ok()?, len.parse().ok()?)));
    let (at, len): (u64, usize) = numbers.unwrap_or_else(|| panic!("no copy: {COPY}{copy}"));
    let mut content = vec![0; len];
    let read = File::open(output).and_then(|file| file.read_exact_at(&mut content, at));
    read.unwrap_or_else(|e| panic!("{}: {e}", output.display()));
    files::sha256_of(&content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_become_hashes_and_all_else_stays() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("output");
        std::fs::write(&path, "xxabcxx").expect("a file");
        let abc = files::sha256_of(b"abc");
        let results = "BEGIN a\nSET size 3\nSET sha 3 content:2:3\nSET half content:2:3";
        let expected = format!("BEGIN a\nSET size 3\nSET sha 3 {abc}\nSET half content:2:3");
        assert_eq!(hashed(results, &path), expected);
    }
}
