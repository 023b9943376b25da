//! open-iscsi, out of the distribution's archive: unpacked, never installed, since it would bring services to this machine.

use std::fs::File;
use std::path::PathBuf;

use super::apt::Apt;
use crate::tools::{self, Missing};

/// The package, and the beginnings of the names of those that come with it.
const PACKAGE: &str = "open-iscsi";
const LIBRARIES: [&str; 2] = ["libopeniscsiusr", "libisns"];

/// Where it is unpacked: in the cache, downloaded if it is not there.
///
/// # Errors
/// It can't be downloaded.
pub(super) fn open_iscsi() -> Result<PathBuf, Missing> {
    let cache = tools::cache_dir("vm");
    // Test binaries may run side by side; only one of them downloads.
    let lock = File::create(cache.join("lock")).expect("the cache can be written");
    lock.lock().expect("the cache can be locked");
    let folder = cache.join(PACKAGE);
    if folder.is_dir() {
        return Ok(folder);
    }
    let apt = Apt::of_machine();
    let needed = apt.dependencies(PACKAGE).or_else(|| {
        apt.update();
        apt.dependencies(PACKAGE)
    });
    let needed = needed.ok_or_else(|| Missing::new(format!("apt knows no package {PACKAGE}")))?;
    let fresh = tempfile::tempdir_in(&cache).expect("the cache can be written");
    apt.unpack(PACKAGE, fresh.path())?;
    for library in needed.iter().filter(|name| LIBRARIES.iter().any(|library| name.starts_with(library))) {
        apt.unpack(library, fresh.path())?;
    }
    // Renamed last, so that a half-done download is never taken for a whole one.
    std::fs::rename(fresh.path(), &folder).expect("a folder can be renamed");
    Ok(folder)
}
