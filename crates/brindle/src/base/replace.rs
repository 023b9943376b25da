//! Files that take the place of others as a whole: readers and a power cut see one or the other.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::base::path::real;

/// Puts a file in the place of another, with its permissions. A link stays one.
///
/// # Errors
/// Those of files; the old one stays as it is then.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = real(path);
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(name);
    // One that a process of this number left. Whatever else has the name is not written to.
    let _ = fs::remove_file(&new);
    let old = fs::metadata(&file).ok().map(|meta| meta.permissions());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(if old.is_some() { 0o600 } else { 0o666 });
    let written = options.open(&new).and_then(|mut to| {
        old.map_or(Ok(()), |old| to.set_permissions(old))?;
        to.write_all(bytes)?;
        to.sync_all()?;
        fs::rename(&new, &file)
    });
    written.inspect_err(|_| drop(fs::remove_file(&new)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_and_permissions_stay_and_nothing_else_is_written_to() {
        let dir = std::env::temp_dir().join(format!("brindle-replace-test-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (file, link, other) = (dir.join("a"), dir.join("link"), dir.join("other"));
        for path in [&file, &other] {
            fs::write(path, "old").unwrap();
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        symlink(&other, dir.join(format!("a.{}.new", std::process::id()))).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!((fs::read(&file).unwrap(), fs::read(&other).unwrap()), (b"new".to_vec(), b"old".to_vec()));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3, "nothing is left over");
        assert!(replace(&dir.join("none/a"), b"").is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
