//! md's own arrays: every one that the usual list names can be made, and is what it says.

use std::fs::File;
use std::os::unix::fs::FileExt;

use brindle_tests::golden;
use brindle_tests::tools::or_skip;

/// The four bytes with which every superblock of md begins.
const MAGIC: u32 = 0xa92b_4efc;

/// Where the superblock of each version stands on a member of `size` bytes, from md(4) and the kernel's
/// `Documentation/admin-guide/md.rst`: 0.90 in the last whole 64 KiB but one, 1.0 in 4 KiB that begin between
/// 8 and 12 KiB before the end, 1.1 at the start, 1.2 4 KiB from the start.
fn superblock_at(metadata: &str, size: u64) -> u64 {
    match metadata {
        "0.90" => size / 65536 * 65536 - 65536,
        "1.0" => (size - 8192) / 4096 * 4096,
        "1.1" => 0,
        "1.2" => 4096,
        other => panic!("unknown version {other}"),
    }
}

#[test]
fn md_makes_every_array_of_the_usual_list() {
    let recipes = golden::usual();
    let Some(made) = or_skip(golden::md_made(&recipes)) else { return };
    assert_eq!(made.len(), recipes.len());
    for array in &made {
        let name = array.recipe.name();
        assert!(
            array.size > 0 && array.size <= array.recipe.members.iter().sum(),
            "{name}: {} bytes",
            array.size
        );
        assert_eq!(array.sha256.len(), 64, "{name}");
        for (role, path) in array.members.iter().enumerate() {
            let at = superblock_at(array.recipe.metadata, array.recipe.members[role]);
            let mut magic = [0; 4];
            File::open(path).unwrap().read_exact_at(&mut magic, at).unwrap();
            assert_eq!(u32::from_le_bytes(magic), MAGIC, "{name}, member {role}");
        }
    }
}
