//! The workspace as the checks see it: crates, what they depend on, and the files under version control.

use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::Failure;

/// Everything `tidy` looks at.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// Members of the workspace.
    pub(crate) crates: Vec<Crate>,
    /// Text files under version control, or new and not ignored.
    pub(crate) files: Vec<File>,
}

/// One member of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    /// Package name.
    pub(crate) name: String,
    /// Folder, relative to the root of the workspace.
    pub(crate) dir: PathBuf,
    /// Text of its `Cargo.toml`.
    pub(crate) manifest: String,
    /// Its dependencies of any kind.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One edge of the dependency graph.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// Package name, not the name it may be renamed to.
    pub(crate) name: String,
    /// Only tests, benches and examples are built with it.
    pub(crate) dev: bool,
}

/// One text file.
#[derive(Debug)]
pub(crate) struct File {
    /// Path relative to the root of the workspace.
    pub(crate) path: PathBuf,
    /// Content.
    pub(crate) text: String,
}

impl File {
    /// Whether this is Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|e| e == "rs")
    }
}

/// Root folder of the workspace that cargo runs this program for. Not that which it was built in: a build folder may have
/// been copied, and then another tree would be judged.
pub(crate) fn root() -> Result<PathBuf, Failure> {
    let own = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    Ok(own.parent().ok_or("xtask has no parent folder")?.to_path_buf())
}

impl Workspace {
    /// Asks cargo for the crates and git for the files.
    pub(crate) fn load() -> Result<Self, Failure> {
        let root = root()?;
        let metadata = MetadataCommand::new().current_dir(&root).no_deps().exec()?;
        let crates = metadata
            .workspace_packages()
            .into_iter()
            .map(|package| {
                let path = package.manifest_path.as_std_path();
                let dir = path.parent().unwrap_or(path).strip_prefix(&root)?.to_path_buf();
                let dependencies = package
                    .dependencies
                    .iter()
                    .map(|d| Dependency { name: d.name.clone(), dev: d.kind == DependencyKind::Development })
                    .collect();
                Ok(Crate {
                    name: package.name.to_string(),
                    dir,
                    manifest: std::fs::read_to_string(path)?,
                    dependencies,
                })
            })
            .collect::<Result<_, Failure>>()?;
        Ok(Self { crates, files: text_files(&root)? })
    }
}

fn text_files(root: &Path) -> Result<Vec<File>, Failure> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim()).into());
    }
    let mut files = Vec::new();
    for name in String::from_utf8(listed.stdout)?.split('\0').filter(|n| !n.is_empty()) {
        let full = root.join(name);
        // A file deleted but not yet committed is still listed; a link is judged where it points to.
        if !full.is_file() || full.is_symlink() {
            continue;
        }
        // A file that is not UTF-8 is data, not text.
        if let Ok(text) = String::from_utf8(std::fs::read(&full)?) {
            files.push(File { path: name.into(), text });
        }
    }
    Ok(files)
}
