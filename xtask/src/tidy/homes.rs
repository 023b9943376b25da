//! Words that name one type in one file: whoever reads one of them need not ask which is meant.

use std::collections::BTreeMap;
use std::path::Path;

use super::names::is_test_module;
use crate::report::Offence;
use crate::workspace::Workspace;

/// Types that several files once had, each in a sense of its own.
const WORDS: [&str; 20] = [
    "Access",
    "Asked",
    "Content",
    "Device",
    "Disk",
    "Entry",
    "Event",
    "Extent",
    "Job",
    "Kept",
    "Member",
    "OpenError",
    "Piece",
    "Place",
    "Plan",
    "State",
    "Step",
    "Tally",
    "Window",
    "World",
];

/// The word of the glossary that a tool of the tests has beside the product: members, and an executor over them.
const OF_TESTS: (&str, &str) = ("World", "testkit");

/// Checks that no other file defines a type of these names.
pub(super) fn check(workspace: &Workspace) -> Vec<Offence> {
    let mut homes: BTreeMap<&str, Vec<(&Path, usize)>> = BTreeMap::new();
    for file in &workspace.files {
        let Some(home) = home(&file.path) else { continue };
        for (line, text) in (1..).zip(file.text.lines()) {
            let word = defined(text).and_then(|name| WORDS.into_iter().find(|word| *word == name));
            if let Some(word) = word.filter(|word| (*word, home) != OF_TESTS) {
                homes.entry(word).or_default().push((&file.path, line));
            }
        }
    }
    let shared = homes.iter().filter(|(_, places)| places.len() > 1);
    shared
        .flat_map(|(word, places)| places.iter().map(|&(file, line)| (*word, file, line)))
        .map(|(word, file, line)| Offence {
            file: file.to_path_buf(),
            line,
            rule: "homes",
            what: format!("several types are called {word}"),
            way_out: "call all but one of them by a name of their own".to_owned(),
        })
        .collect()
}

/// The crate whose product the file is a part of.
fn home(path: &Path) -> Option<&str> {
    let mut parts = path.to_str()?.split('/');
    let home = (parts.next() == Some("crates")).then(|| parts.next()).flatten()?;
    let is_source = parts.next() == Some("src") && path.extension().is_some_and(|kind| kind == "rs");
    (is_source && !is_test_module(path)).then_some(home)
}

/// The name of the type that a line begins to define. An alias for a type of the same name is none of its own.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().filter(|word| !word.starts_with("pub"));
    let kind = words.next()?;
    let name = words.next().filter(|_| ["struct", "enum", "type", "union"].contains(&kind))?;
    let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let means_itself =
        |path: &str| path.split('<').next().and_then(|path| path.rsplit("::").next()) == Some(name);
    (kind != "type" || !words.next_back().is_some_and(means_itself)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_files;
    use super::*;

    #[test]
    fn a_word_of_the_house_names_a_type_of_one_file() {
        let once = ("crates/io/src/a.rs", "pub(crate) struct Device {\n");
        let again = ("crates/io/src/b.rs", "pub struct Device<'a>(&'a u8);\n");
        let other = ("crates/lab/src/a.rs", "/// One.\n    enum Device {}\n");
        let alias = ("crates/lab/src/c.rs", "pub type Device = io::Device<u8>;\n");
        let test = ("crates/lab/tests/a.rs", "struct Device;\n");
        let unit = ("crates/lab/src/a/tests.rs", "struct Device;\n");
        let free = ("crates/lab/src/b.rs", "struct Devices;\nimpl Device {}\nlet Device = 1;\n");
        assert_eq!(check(&with_files(&[once, alias, test, unit, free])), []);
        for second in [again, other] {
            let offences = check(&with_files(&[once, second]));
            let places: Vec<_> = offences.iter().map(|o| o.file.to_str().unwrap()).collect();
            assert_eq!(places, [once.0, second.0]);
        }
    }

    #[test]
    fn the_world_of_tests_stands_beside_that_of_the_product() {
        let product = ("crates/brindle/src/devices/world.rs", "struct World {\n");
        let tests = ("crates/testkit/src/world.rs", "pub struct World<B> {\n");
        assert_eq!(check(&with_files(&[product, tests])), []);
        assert_eq!(check(&with_files(&[product, ("crates/io/src/a.rs", "struct World;\n")])).len(), 2);
    }
}
