//! `cargo xtask tidy`: one module per family of rules, each a pure function from the workspace to offences.

mod comments;
mod dependencies;
mod documents;
mod floors;
mod homes;
mod length;
mod machine;
mod machine_paths;
mod manifests;
pub(crate) mod messages;
mod names;
mod safety;
mod sentences;
mod tokens;

use crate::Failure;
use crate::report::Offence;
use crate::workspace::Workspace;

/// Checks every rule.
///
/// # Errors
/// A source file that cannot be cut into tokens, or a ratchet file that cannot be read.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Offence>, Failure> {
    let mut offences = dependencies::check(workspace);
    offences.extend(floors::check(workspace)?);
    offences.extend(manifests::check(workspace)?);
    offences.extend(names::check(workspace)?);
    offences.extend(machine::check(workspace)?);
    offences.extend(homes::check(workspace));
    offences.extend(comments::check(workspace));
    offences.extend(documents::check(workspace));
    offences.extend(messages::check(workspace)?);
    offences.extend(safety::check(workspace)?);
    offences.extend(sentences::check(workspace));
    offences.extend(length::check(workspace)?);
    offences.extend(machine_paths::check(workspace));
    Ok(offences)
}

/// Small workspaces for the tests of the rules.
#[cfg(test)]
mod tests {
    use crate::workspace::{Crate, Dependency, File, Workspace};

    /// A workspace of these files, with a crate for each folder under `crates/` that they name.
    pub(super) fn with_files(files: &[(&str, &str)]) -> Workspace {
        let mut workspace = Workspace::default();
        for (path, text) in files {
            if let Some(dir) = path.strip_prefix("crates/").and_then(|p| p.split('/').next()) {
                let name = if dir == "brindle" { dir.to_owned() } else { format!("brindle-{dir}") };
                if workspace.crates.iter().all(|c| c.name != name) {
                    workspace.crates.push(with_dependencies(&name, &[]));
                }
            }
            workspace.files.push(File { path: path.into(), text: (*text).to_owned() });
        }
        workspace
    }

    /// A crate with normal dependencies, and `dev:`-prefixed ones for its tests.
    pub(super) fn with_dependencies(name: &str, dependencies: &[&str]) -> Crate {
        Crate {
            name: name.to_owned(),
            dir: format!("crates/{}", name.trim_start_matches("brindle-")).into(),
            manifest: "[lints]\nworkspace = true\n".to_owned(),
            dependencies: dependencies
                .iter()
                .map(|d| Dependency {
                    name: d.trim_start_matches("dev:").to_owned(),
                    dev: d.starts_with("dev:"),
                })
                .collect(),
        }
    }
}
