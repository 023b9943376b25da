//! `brindle cat` gives what md wrote, whole or with every member lost that may be.

use std::path::PathBuf;

use brindle_tests::files;
use brindle_tests::golden::{self, Made};
use brindle_tests::program;
use brindle_tests::tools::or_skip;

/// How many members an array may lose wherever they stand.
fn tolerance(array: &Made) -> usize {
    match array.recipe.level {
        "1" => array.members.len() - 1,
        "4" | "5" => 1,
        "6" => 2,
        // The default layout is near 2.
        "10" => array.recipe.layout.map_or(1, |l| if l.ends_with('3') { 2 } else { 1 }),
        _ => 0,
    }
}

#[test]
fn brindle_reads_what_md_wrote_and_with_every_member_lost_that_may_be() {
    let Some(made) = or_skip(golden::md_made(&golden::usual())) else { return };
    let dir = tempfile::tempdir().unwrap();
    let content = dir.path().join("content");
    for array in &made {
        let name = array.recipe.name();
        // Whole and in the wrong order; then, for each place, without as many members from there on as may be lost.
        let mut shuffled = array.members.clone();
        shuffled.reverse();
        let mut sets = vec![(shuffled, "none".to_owned())];
        let (count, lost) = (array.members.len(), tolerance(array));
        for first in (0..count).filter(|_| lost > 0) {
            let is_lost = |role: usize| (role + count - first) % count < lost;
            let left: Vec<PathBuf> =
                (0..count).filter(|&r| !is_lost(r)).map(|r| array.members[r].clone()).collect();
            sets.push((left, format!("{lost} from role {first} on")));
        }
        for (members, lost) in sets {
            program::cat(&members, &content);
            assert_eq!(files::sha256(&content), array.sha256, "{name}, lost: {lost}");
        }
    }
}
