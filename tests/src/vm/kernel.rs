//! The distribution's own kernels, small and with md as everybody has it: Debian's for clouds, Ubuntu's for virtual
//! machines.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::apt::{Apt, Distribution};
use super::bzimage;
use crate::tools::{self, Missing};

/// Packages that depend on the newest kernel of a release, of which each distribution has one.
const OF_RELEASE: [&str; 2] = ["linux-image-cloud-amd64", "linux-image-virtual"];

/// The kernel of the distribution that a machine boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The one that the release came with: 6.1 for Debian 12.
    Release,
    /// The newest that the distribution has for this release: Debian's backports, Ubuntu's hardware enablement.
    Newer,
    /// 5.10, the one that Debian 11 came with: too old for the ring.
    Old,
}

/// The release of Debian whose kernel is [`Kernel::Old`].
const OLD: &str = "bullseye";

impl Kernel {
    /// The kernels of the release.
    pub const ALL: [Self; 2] = [Self::Release, Self::Newer];

    /// Folder in the cache.
    fn folder(self) -> &'static str {
        match self {
            Self::Release => "kernel",
            Self::Newer => "kernel-newer",
            Self::Old => "kernel-old",
        }
    }

    fn download(self, dir: &Path) -> Result<(), Missing> {
        match self {
            Self::Release => download(&Apt::of_machine(), &OF_RELEASE, dir),
            Self::Old => {
                let system = Distribution::of_machine()?;
                let lists = tempfile::tempdir_in(dir).expect("the cache can be written");
                let apt = Apt::of_suite(lists.path(), &system.codename, OLD)?;
                download(&apt, &OF_RELEASE[..1], dir)
            }
            Self::Newer => {
                let system = Distribution::of_machine()?;
                match system.id.as_str() {
                    "debian" => {
                        let suite = format!("{}-backports", system.codename);
                        let lists = tempfile::tempdir_in(dir).expect("the cache can be written");
                        let apt = Apt::of_suite(lists.path(), &system.codename, &suite)?;
                        download(&apt, &OF_RELEASE[..1], dir)
                    }
                    "ubuntu" => {
                        let package = format!("linux-image-virtual-hwe-{}", system.version);
                        download(&Apt::of_machine(), &[&package], dir)
                    }
                    other => Err(Missing::new(format!(
                        "a kernel newer than the release's is known for Debian and Ubuntu, not for {other}"
                    ))),
                }
            }
        }
    }
}

/// A kernel in the cache.
#[derive(Debug)]
pub(super) struct Unpacked {
    /// The kind of the kernel.
    pub(super) of: Kernel,
    /// The image to boot: unpacked if QEMU can start that.
    pub(super) image: PathBuf,
    /// Folder of its modules.
    pub(super) modules: PathBuf,
    /// Major and minor number of its version.
    pub(super) version: (u32, u32),
}

impl Unpacked {
    /// The kernel in the cache; downloaded into it if it is not there.
    ///
    /// # Errors
    /// It is not there and cannot be downloaded.
    pub(super) fn find(kernel: Kernel) -> Result<Self, Missing> {
        let cache = tools::cache_dir("vm");
        // Test binaries may run side by side; only one of them downloads.
        let lock = File::create(cache.join("lock")).expect("the cache can be written");
        lock.lock().expect("the cache can be locked");
        let folder = cache.join(kernel.folder());
        if !folder.is_dir() {
            let fresh = tempfile::tempdir_in(&cache).expect("the cache can be written");
            kernel.download(fresh.path())?;
            // Renamed last, so that a half-done download is never taken for a kernel.
            std::fs::rename(fresh.path(), &folder).expect("a folder can be renamed");
        }
        let image = unpacked(&folder)?;
        let modules = only_entry(&folder.join("lib/modules"), "")?;
        let name = modules.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            of: kernel,
            image,
            modules: modules.join("kernel"),
            version: version(&name)
                .ok_or_else(|| Missing::new(format!("{name} is no version of a kernel")))?,
        })
    }
}

/// The unpacked kernel of this folder of the cache, which boots fastest; it is kept there.
fn unpacked(folder: &Path) -> Result<PathBuf, Missing> {
    let (packed, kept) = (only_entry(&folder.join("boot"), "vmlinuz-")?, folder.join("vmlinux"));
    if !kept.is_file() {
        let Some(kernel) = bzimage::kernel(&packed)? else { return Ok(packed) };
        // Renamed last, like the folder itself.
        let fresh = folder.join("fresh");
        std::fs::write(&fresh, kernel).expect("the cache can be written");
        std::fs::rename(fresh, &kept).expect("a file can be renamed");
    }
    Ok(kept)
}

/// Unpacks the kernel for which the first known of `packages` stands, and its modules where they are a package.
fn download(apt: &Apt, packages: &[&str], dir: &Path) -> Result<(), Missing> {
    let newest = || packages.iter().find_map(|package| apt.dependencies(package));
    let meta = newest().or_else(|| {
        // A machine just made has no package lists yet.
        apt.update();
        newest()
    });
    let image = meta
        .and_then(|names| names.into_iter().find(|name| name.starts_with("linux-image-")))
        .ok_or_else(|| {
            Missing::new(format!(
                "apt knows no package {}; run apt-get update on Debian or Ubuntu for amd64",
                packages.join(" or ")
            ))
        })?;
    apt.unpack(&image, dir)?;
    let beside = apt.dependencies(&image).unwrap_or_default();
    for modules in beside.iter().filter(|name| name.starts_with("linux-modules-")) {
        apt.unpack(modules, dir)?;
    }
    Ok(())
}

/// Major and minor number at the start of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("6.1.0-56-cloud-amd64"), Some((6, 1)));
        assert_eq!(version("6.12.95+deb12-cloud-amd64"), Some((6, 12)));
        assert_eq!(version("7.0-rc1"), Some((7, 0)));
        assert_eq!(version("kernel"), None);
    }
}
