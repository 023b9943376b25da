//! No source file is longer than a person reads in one sitting, with a list of exceptions that only shrinks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Failure;
use crate::report::Offence;
use crate::workspace::Workspace;

/// Most lines that a source file may have.
const MOST_LINES: usize = 600;

/// The list of exceptions, each with the length it has now and may not exceed.
const RATCHET: &str = "xtask/ratchet.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ratchet {
    #[serde(default)]
    lines: BTreeMap<PathBuf, usize>,
}

/// Checks the length of every source file.
///
/// # Errors
/// A ratchet file that cannot be understood.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<Offence>, Failure> {
    let text = workspace.files.iter().find(|f| f.path == Path::new(RATCHET)).map_or("", |f| &f.text);
    let mut tolerated = toml::from_str::<Ratchet>(text).map_err(|e| format!("{RATCHET}: {e}"))?.lines;
    let mut offences = Vec::new();
    for file in workspace.files.iter().filter(|f| is_source(&f.path)) {
        let lines = file.text.lines().count();
        let offence = |path: &Path, what: String, way_out: String| Offence {
            file: path.to_path_buf(),
            line: 0,
            rule: "length",
            what,
            way_out,
        };
        match tolerated.remove(&file.path) {
            None if lines > MOST_LINES => offences.push(offence(
                &file.path,
                format!("{lines} lines, {MOST_LINES} at most"),
                "split it along its seams".to_owned(),
            )),
            Some(most) if lines > most => offences.push(offence(
                &file.path,
                format!("{lines} lines, was {most} and may only shrink"),
                "split it along its seams".to_owned(),
            )),
            Some(most) if lines < most => offences.push(offence(
                Path::new(RATCHET),
                format!("{} is down to {lines} lines", file.path.display()),
                if lines > MOST_LINES {
                    format!("put {lines} in the place of {most}")
                } else {
                    "take it off the list".to_owned()
                },
            )),
            _ => {}
        }
    }
    for path in tolerated.into_keys() {
        offences.push(Offence {
            file: RATCHET.into(),
            line: 0,
            rule: "length",
            what: format!("{} is not a source file", path.display()),
            way_out: "take it off the list".to_owned(),
        });
    }
    Ok(offences)
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "rs" || e == "sh" || e == "py") || path.starts_with("scripts")
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_files;
    use super::*;

    fn offences(lines: usize, ratchet: &str) -> Vec<PathBuf> {
        let text = "//\n".repeat(lines);
        let workspace = with_files(&[("crates/io/src/lib.rs", &text), (RATCHET, ratchet)]);
        check(&workspace).expect("a ratchet").into_iter().map(|o| o.file).collect()
    }

    #[test]
    fn long_files_are_refused() {
        assert!(offences(MOST_LINES, "").is_empty());
        assert_eq!(offences(MOST_LINES + 1, ""), [Path::new("crates/io/src/lib.rs")]);
    }

    #[test]
    fn exceptions_only_shrink() {
        let ratchet = "[lines]\n\"crates/io/src/lib.rs\" = 700\n";
        assert!(offences(700, ratchet).is_empty());
        assert_eq!(offences(701, ratchet), [Path::new("crates/io/src/lib.rs")]);
        assert_eq!(offences(699, ratchet), [Path::new(RATCHET)]);
        assert_eq!(offences(10, ratchet), [Path::new(RATCHET)]);
    }

    #[test]
    fn exceptions_for_absent_files_are_refused() {
        assert_eq!(offences(1, "[lines]\n\"crates/io/src/gone.rs\" = 700\n"), [Path::new(RATCHET)]);
        assert!(check(&with_files(&[(RATCHET, "lines = 3")])).is_err());
    }
}
