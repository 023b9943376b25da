//! Nothing in the repository may depend on where it was written.

use crate::report::Offence;
use crate::workspace::Workspace;

/// Folders that exist on one person's machine only. Written in parts, so that this file does not offend.
const MACHINE_FOLDERS: [&str; 4] =
    [concat!("/", "work/"), concat!("/", "home/"), concat!("/", "Users/"), concat!("/", "root/")];

/// Checks every text file for absolute paths of somebody's machine.
pub(super) fn check(workspace: &Workspace) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in &workspace.files {
        for (index, line) in file.text.lines().enumerate() {
            for folder in MACHINE_FOLDERS.iter().filter(|f| names_folder(line, f)) {
                offences.push(Offence {
                    file: file.path.clone(),
                    line: index + 1,
                    rule: "machine-path",
                    what: format!("names a folder under `{folder}`"),
                    way_out: "use a path relative to the repository, a temporary folder or $HOME".to_owned(),
                });
            }
        }
    }
    offences
}

/// Whether `line` has `folder` as the beginning of a path, not as the middle of one (`net/work/x`, `"$DIR"/work/x`).
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].trim_end_matches('"');
        !before.ends_with(|c: char| c.is_alphanumeric() || ['_', '-', '.', '}', ')', '*'].contains(&c))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_files;
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&with_files(&[("README.md", text)])).into_iter().map(|o| o.line).collect()
    }

    #[test]
    fn absolute_paths_of_a_machine_are_refused() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(lines(&format!("fine\nsee {folder}me/brindle\n")), [2]);
            assert_eq!(lines(&format!("dir = \"{folder}x\"")), [1]);
        }
    }

    #[test]
    fn other_paths_pass() {
        for before in ["net", ".", "$HOME", "${DIR}", "\"$DIR\"", "/var"] {
            assert!(lines(&format!("cd {before}{}x", MACHINE_FOLDERS[0])).is_empty(), "{before}");
        }
    }
}
