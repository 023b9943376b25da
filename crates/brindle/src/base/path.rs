//! Names of files that others understand, in another folder or by another name.

use std::path::{Path, PathBuf};

/// The name of a file when all links are followed; as it is, where that can't be done. Waits for the file system.
pub(crate) fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The name of a file for processes in other folders; as it is, where this process's folder can't be told.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
