//! Where running servers are found: a control socket each, named after the array, in the runtime folder.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};

use crate::cli::Runtime;
use crate::failure::Failure;

/// Longest name of an array's sockets: a Unix socket's path has room for about 100 bytes in all.
const MAX_NAME: usize = 64;

/// The runtime folder.
pub(crate) fn folder(flags: &Runtime) -> PathBuf {
    if let Some(folder) = &flags.runtime_dir {
        return folder.clone();
    }
    if let Some(base) = std::env::var_os("XDG_RUNTIME_DIR").filter(|base| !base.is_empty()) {
        return Path::new(&base).join("brindle");
    }
    if rustix::process::geteuid().is_root() {
        return "/run/brindle".into();
    }
    std::env::temp_dir().join(format!("brindle-{}", rustix::process::geteuid().as_raw()))
}

/// Makes the runtime folder, for this user only.
pub(crate) fn make_folder(flags: &Runtime) -> Result<PathBuf, Failure> {
    let folder = folder(flags);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|source| Failure::output(folder.display(), source))?;
    Ok(folder)
}

/// The control socket of an array.
pub(crate) fn control_socket(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.control"))
}

/// The NBD socket of an array that was told of no other address.
pub(crate) fn nbd_socket(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.nbd"))
}

/// Whether a name can be part of a path, and be printed.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = !name.is_empty() && name.len() <= MAX_NAME && !name.starts_with('.');
    fits && !name.contains('/') && !name.contains(char::is_control)
}

/// Refuses what can't name a server.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    if is_name(name) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "'{}' can't name a server: use 1 to {MAX_NAME} bytes without slashes (--name NAME)",
        name.escape_debug()
    )))
}

/// Names of the servers that have a control socket here, in order.
pub(crate) fn servers(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".control")?.to_owned()))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_the_folder_are_refused() {
        for wrong in ["", "..", "a/b", ".hidden", "a\nb", &"x".repeat(65)] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
        assert!(check_name("host:data-1").is_ok());
    }
}
