//! Every crate takes the lints of the workspace.

use serde::Deserialize;

use crate::Failure;
use crate::report::Offence;
use crate::workspace::Workspace;

#[derive(Deserialize)]
struct Manifest {
    lints: Option<Lints>,
}

#[derive(Deserialize)]
struct Lints {
    #[serde(default)]
    workspace: bool,
}

/// Checks that every member says `[lints] workspace = true`.
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
    }
    Ok(offences)
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_dependencies;
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
}
