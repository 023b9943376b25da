//! Debian's kernel for clouds: small, and with md as everybody has it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{self, Missing};

/// Package that always depends on the newest kernel of its kind.
const META_PACKAGE: &str = "linux-image-cloud-amd64";

/// An unpacked kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    /// The bootable image.
    pub(super) image: PathBuf,
    /// Folder of its modules.
    pub(super) modules: PathBuf,
}

impl Kernel {
    /// The kernel in the cache; downloaded into it if there is none.
    ///
    /// # Errors
    /// It is not there and cannot be downloaded.
    pub(super) fn find() -> Result<Self, Missing> {
        let cache = tools::cache_dir("vm");
        // Test binaries may run side by side; only one of them downloads.
        let lock = File::create(cache.join("lock")).expect("the cache can be written");
        lock.lock().expect("the cache can be locked");
        let unpacked = cache.join("kernel");
        if !unpacked.is_dir() {
            let fresh = tempfile::tempdir_in(&cache).expect("the cache can be written");
            download(fresh.path())?;
            // Renamed last, so that a half-done download is never taken for a kernel.
            std::fs::rename(fresh.path(), &unpacked).expect("a folder can be renamed");
        }
        Ok(Self {
            image: only_entry(&unpacked.join("boot"), "vmlinuz-")?,
            modules: only_entry(&unpacked.join("lib/modules"), "")?.join("kernel"),
        })
    }
}

fn download(dir: &Path) -> Result<(), Missing> {
    let package = match newest_package() {
        Some(package) => package,
        None => {
            // A machine just made has no package lists yet. Without root this fails, and the next line tells.
            let _ = Command::new("apt-get").args(["update", "-qq"]).output();
            newest_package().ok_or_else(|| {
                Missing::new(format!(
                    "apt knows no package {META_PACKAGE}; run apt-get update on Debian for amd64"
                ))
            })?
        }
    };
    let get = || Command::new("apt-get").args(["download", "-qq", &package]).current_dir(dir).output();
    let mut got = get().map_err(|e| Missing::new(format!("apt-get: {e}")))?;
    if !got.status.success() {
        // Lists that are older than the last security update name a file which is gone.
        let _ = Command::new("apt-get").args(["update", "-qq"]).output();
        got = get().map_err(|e| Missing::new(format!("apt-get: {e}")))?;
    }
    if !got.status.success() {
        let why = String::from_utf8_lossy(&got.stderr);
        return Err(Missing::new(format!("apt-get download {package}: {}", why.trim())));
    }
    let archive = only_entry(dir, &package)?;
    tools::run(&tools::find("dpkg-deb")?, [Path::new("-x"), &archive, dir]);
    std::fs::remove_file(archive).expect("a file in the cache can be removed");
    Ok(())
}

/// Name of the package that the meta-package stands for now.
fn newest_package() -> Option<String> {
    let shown = Command::new("apt-cache").args(["show", META_PACKAGE]).output().ok()?;
    String::from_utf8_lossy(&shown.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("Depends: "))
        .and_then(|depends| depends.split([' ', ',']).find(|name| name.starts_with("linux-image-")))
        .map(str::to_owned)
}

/// The one entry of a folder whose name begins with `prefix`.
fn only_entry(dir: &Path, prefix: &str) -> Result<PathBuf, Missing> {
    let broken =
        || Missing::new(format!("no {prefix}* in {}; remove the folder to have it made anew", dir.display()));
    let entries = std::fs::read_dir(dir).map_err(|_| broken())?;
    entries
        .filter_map(Result::ok)
        .find(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .ok_or_else(broken)
}
