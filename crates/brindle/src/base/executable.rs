//! Programs by their names, and this one, to be started by itself: where nothing is mounted, too.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Path of this program. Without /proc, as in an empty chroot, it is the name by which the program was started.
///
/// # Errors
/// It was called by a name that is not to be found.
pub(crate) fn program() -> io::Result<PathBuf> {
    std::env::current_exe().or_else(|error| {
        let name = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
        called(&name).ok_or(error)
    })
}

/// The file that this process would run for `name`, by its `PATH`.
pub(crate) fn called(name: &Path) -> Option<PathBuf> {
    found(name, std::env::var_os("PATH").as_deref().unwrap_or_default())
}

/// The file that a shell would run for `name`.
fn found(name: &Path, path: &std::ffi::OsStr) -> Option<PathBuf> {
    let is_path = name.parent().is_some_and(|parent| !parent.as_os_str().is_empty());
    let places = std::env::split_paths(path).map(|folder| folder.join(name));
    let mut places: Box<dyn Iterator<Item = PathBuf>> =
        if is_path { Box::new(std::iter::once(name.to_owned())) } else { Box::new(places) };
    places.find(|place| place.is_file()).and_then(|place| place.canonicalize().ok())
}

/// /dev/null, for output that nobody reads: /dev/null, or a pipe where there is none.
pub(crate) fn nothing() -> Stdio {
    File::options().read(true).write(true).open("/dev/null").map_or_else(|_| Stdio::piped(), Stdio::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let file = std::env::current_exe().unwrap().canonicalize().unwrap();
        let path = std::env::join_paths([Path::new("/nowhere"), file.parent().unwrap()]).unwrap();
        assert_eq!(found(Path::new(file.file_name().unwrap()), &path), Some(file.clone()));
        assert_eq!(found(&file, "".as_ref()), Some(file));
        assert_eq!(found(Path::new("no such program"), &path), None);
        assert_eq!(found(Path::new(""), &path), None);
    }
}
