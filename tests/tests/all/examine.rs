//! `mdadm --examine` sees no difference between a member that Brindle made and one that mdadm made.

use std::path::{Path, PathBuf};

use brindle_tests::files;
use brindle_tests::golden::{self, Recipe};
use brindle_tests::mdadm;
use brindle_tests::program;
use brindle_tests::tools::{self, or_skip};

/// Fields that must be equal. The others are identity, time, or a log that an array may have or not.
const FIELDS: [&str; 15] = [
    "Magic",
    "Version",
    "Feature Map",
    "Raid Level",
    "Raid Devices",
    "Total Devices",
    "Avail Dev Size",
    "Array Size",
    "Used Dev Size",
    "Data Offset",
    "Super Offset",
    "State",
    "Layout",
    "Chunk Size",
    "Device Role",
];

/// Makes with Brindle what mdadm makes of `recipe`.
fn create(recipe: &Recipe, dir: &Path) -> Vec<PathBuf> {
    let members: Vec<PathBuf> = recipe
        .members
        .iter()
        .enumerate()
        .map(|(role, &size)| files::members(dir, &format!("role{role}-"), 1, size).remove(0))
        .collect();
    let mut arguments = vec!["create".to_owned(), "--assume-clean".to_owned()];
    let mut add = |flag: &str, value: &str| arguments.extend([flag.to_owned(), value.to_owned()]);
    add("--level", recipe.level);
    add("--metadata", recipe.metadata);
    if let Some(layout) = recipe.layout {
        add("--layout", layout);
    }
    if let Some(chunk) = recipe.chunk {
        add("--chunk", &format!("{}K", chunk >> 10));
    }
    arguments.extend(members.iter().map(|m| m.display().to_string()));
    program::brindle(&arguments).ok();
    members
}

#[test]
fn members_look_as_if_mdadm_had_made_them() {
    let Some(program) = or_skip(tools::find("mdadm")) else { return };
    let Some(made) = or_skip(golden::md_made(&golden::usual())) else { return };
    for array in made {
        let name = array.recipe.name();
        let dir = tempfile::tempdir().unwrap();
        let members = create(&array.recipe, dir.path());
        for (role, (ours, theirs)) in members.iter().zip(&array.members).enumerate() {
            let (ours, theirs) = (mdadm::examine(&program, ours), mdadm::examine(&program, theirs));
            assert!(ours["Checksum"].ends_with("correct"), "{name}, role {role}: {}", &ours["Checksum"]);
            assert_ne!(&ours["Events"], "0", "{name}, role {role}: a new kernel would stamp such an array");
            for field in FIELDS {
                assert_eq!(ours.get(field), theirs.get(field), "{name}, role {role}: {field}");
            }
        }
    }
}
