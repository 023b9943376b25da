//! Words of the house that name one type, in one crate: whoever reads one of them need not ask which is meant.

use std::collections::BTreeMap;
use std::path::Path;

use crate::report::Offence;
use crate::workspace::Workspace;

/// Types that several crates once had, each in a sense of its own.
const WORDS: [&str; 5] = ["Access", "Device", "Job", "OpenError", "Window"];

/// Checks that no other crate defines a type of these names.
pub(super) fn check(workspace: &Workspace) -> Vec<Offence> {
    let mut homes: BTreeMap<(&str, &str), Vec<(&Path, usize)>> = BTreeMap::new();
    for file in &workspace.files {
        let Some(home) = home(&file.path) else { continue };
        for (line, text) in (1..).zip(file.text.lines()) {
            if let Some(word) = defined(text).and_then(|name| WORDS.into_iter().find(|word| *word == name)) {
                homes.entry((word, home)).or_default().push((&file.path, line));
            }
        }
    }
    let is_shared = |word: &str| homes.keys().filter(|(known, _)| *known == word).count() > 1;
    let shared = homes.iter().filter(|((word, _), _)| is_shared(word));
    shared
        .flat_map(|((word, _), places)| places.iter().map(|&(file, line)| (*word, file, line)))
        .map(|(word, file, line)| Offence {
            file: file.to_path_buf(),
            line,
            rule: "homes",
            what: format!("types of several crates are called {word}"),
            way_out: "call all but one of them by a name of their own".to_owned(),
        })
        .collect()
}

/// The crate whose product the file is a part of.
fn home(path: &Path) -> Option<&str> {
    let mut parts = path.to_str()?.split('/');
    let home = (parts.next() == Some("crates")).then(|| parts.next()).flatten()?;
    (parts.next() == Some("src") && path.extension().is_some_and(|kind| kind == "rs")).then_some(home)
}

/// The name of the type that a line begins to define.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().filter(|word| !word.starts_with("pub"));
    let kind = words.next()?;
    let name = words.next().filter(|_| ["struct", "enum", "type", "union"].contains(&kind))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_files;
    use super::*;

    #[test]
    fn a_word_of_the_house_names_a_type_of_one_crate() {
        let once = ("crates/io/src/a.rs", "pub(crate) struct Device {\n");
        let again = ("crates/io/src/b.rs", "pub struct Device<'a>(&'a u8);\n");
        let other = ("crates/lab/src/a.rs", "/// One.\n    enum Device {}\n");
        let test = ("crates/lab/tests/a.rs", "struct Device;\n");
        let free = ("crates/lab/src/b.rs", "struct Devices;\nimpl Device {}\nlet Device = 1;\n");
        assert_eq!(check(&with_files(&[once, again, test, free])), []);
        let offences = check(&with_files(&[once, other]));
        let places: Vec<_> = offences.iter().map(|o| (o.file.to_str().unwrap(), o.line)).collect();
        assert_eq!(places, [("crates/io/src/a.rs", 1), ("crates/lab/src/a.rs", 2)]);
    }
}
