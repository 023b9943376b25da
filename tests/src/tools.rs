//! Other people's programs: where they are, how they are run, and what a test does without them.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use brindle_testkit::skip::{Missing, find, or_skip};

/// Runs `program` to its end and returns what it printed to standard output.
///
/// # Panics
/// With both outputs if it cannot be started or fails.
pub fn run<S: AsRef<OsStr>>(program: &Path, args: impl IntoIterator<Item = S>) -> String {
    let mut command = Command::new(program);
    command.args(args);
    let output = command.output().unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// Folder `name` under cargo's target folder, made if it is not there: for what is dear to make and can be kept.
///
/// # Panics
/// If it cannot be made.
pub fn cache_dir(name: &str) -> PathBuf {
    // target/PROFILE/deps/TEST-HASH
    let test = std::env::current_exe().expect("path of the test binary");
    let target = test.ancestors().nth(3).expect("target folder");
    let dir = target.join(name);
    std::fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    dir
}

/// Folder of machine-made arrays of one `kind`, kept under cargo's target folder: filled by `make` if what `key` says was
/// not made yet.
///
/// # Errors
/// The errors of `make`; nothing is kept then.
///
/// # Panics
/// If the cache can't be written.
pub fn cached(
    kind: &str,
    key: &str,
    make: impl FnOnce(&Path) -> Result<(), Missing>,
) -> Result<PathBuf, Missing> {
    let cache = cache_dir("vm").join(kind);
    std::fs::create_dir_all(&cache).expect("the cache can be written");
    let key = &crate::files::sha256_of(key.as_bytes())[..16];
    let dir = cache.join(key);
    // Test binaries may run side by side; only one of them makes it.
    let lock = File::create(cache.join(format!("{key}.lock"))).expect("the cache can be written");
    lock.lock().expect("the cache can be locked");
    if !dir.is_dir() {
        let fresh = tempfile::tempdir_in(&cache).expect("the cache can be written");
        make(fresh.path())?;
        // Renamed last, so that what is half done is never taken for whole.
        std::fs::rename(fresh.path(), &dir).expect("a folder can be renamed");
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "exit status: 3")]
    fn a_failing_program_fails_the_test() {
        run(Path::new("/bin/sh"), ["-c", "exit 3"]);
    }
}
