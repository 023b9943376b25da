//! Every crate takes the lints of the workspace, and who has examples in its comments lets them be tested.

use serde::Deserialize;

use crate::Failure;
use crate::report::Offence;
use crate::workspace::Workspace;

#[derive(Deserialize)]
struct Manifest {
    lints: Option<Lints>,
    lib: Option<Lib>,
}

#[derive(Deserialize)]
struct Lib {
    /// Building and linking the examples of a crate that has none takes seconds.
    doctest: Option<bool>,
}

#[derive(Deserialize)]
struct Lints {
    #[serde(default)]
    workspace: bool,
}

/// Checks that every member says `[lints] workspace = true`, and `doctest = false` only where there is no example.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<Offence>, Failure> {
    let mut offences = Vec::new();
    for member in &workspace.crates {
        let manifest: Manifest = toml::from_str(&member.manifest)?;
        if !manifest.lints.is_some_and(|l| l.workspace) {
            offences.push(Offence {
                file: member.dir.join("Cargo.toml"),
                line: 0,
                rule: "lints",
                what: "does not take the lints of the workspace".to_owned(),
                way_out: "add `[lints]` with `workspace = true`".to_owned(),
            });
        }
        let untested = manifest.lib.is_some_and(|lib| lib.doctest == Some(false));
        offences.extend(workspace.files.iter().filter(|_| untested).filter_map(|file| {
            let line = file.path.starts_with(member.dir.join("src")).then(|| example(&file.text))??;
            Some(Offence {
                file: file.path.clone(),
                line,
                rule: "doctest",
                what: "has an example that no test runs".to_owned(),
                way_out: format!("take `doctest = false` out of {}/Cargo.toml", member.dir.display()),
            })
        }));
    }
    Ok(offences)
}

/// Line of the first example that `cargo test` would build and run: a fence without a word that says otherwise.
fn example(text: &str) -> Option<usize> {
    let mut inside = false;
    for (number, line) in (1..).zip(text.lines()) {
        let comment = line.trim_start();
        let text = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
        let Some(words) = text.and_then(|text| text.trim_start().strip_prefix("```")) else { continue };
        if !inside && matches!(words.trim(), "" | "rust" | "should_panic") {
            return Some(number);
        }
        inside = !inside;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::tests::{with_dependencies, with_files};
    use super::*;

    fn offends(manifest: &str) -> bool {
        let mut member = with_dependencies("brindle-io", &[]);
        member.manifest = manifest.to_owned();
        let workspace = Workspace { crates: vec![member], files: Vec::new() };
        !check(&workspace).expect("a manifest").is_empty()
    }

    #[test]
    fn lints_of_the_workspace_are_required() {
        assert!(offends("[package]\nname = \"x\"\n"));
        assert!(offends("[lints]\nworkspace = false\n"));
        assert!(offends("[lints.rust]\nmissing_docs = \"warn\"\n"));
        assert!(!offends("[lints]\nworkspace = true\n"));
    }

    #[test]
    fn examples_are_tested() {
        for (source, is_example) in [
            ("/// Adds.\nfn add() {}", false),
            ("/// ```text\n/// a b\n/// ```\nfn add() {}", false),
            ("//! ```no_run\n//! add()\n//! ```\n//!\n//! ```\n//! add()\n//! ```", true),
            ("/// ```\n/// add()\n/// ```\nfn add() {}", true),
        ] {
            let mut workspace = with_files(&[("crates/io/src/lib.rs", source)]);
            assert!(
                check(&workspace).expect("a manifest").is_empty(),
                "they are tested where nothing is said"
            );
            workspace.crates[0].manifest.push_str("[lib]\ndoctest = false\n");
            assert_eq!(!check(&workspace).expect("a manifest").is_empty(), is_example, "{source}");
        }
    }
}
