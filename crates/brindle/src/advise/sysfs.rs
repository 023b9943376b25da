//! Facts about devices from the kernel, under a root that may be a copy.

use std::fs;
use std::path::{Path, PathBuf};

use super::array::Facts;

/// A tree as the kernel's /sys.
pub(super) struct Sysfs {
    root: PathBuf,
    /// A copy of another machine's: files have the names of its devices.
    copy: bool,
}

/// An array that the kernel runs.
pub(super) struct Md {
    pub(super) name: String,
    dir: PathBuf,
}

/// A member's device, and the disk that it is or lies on.
pub(super) struct Drive {
    pub(super) path: String,
    /// Name of the disk.
    pub(super) disk: Option<String>,
    dir: Option<PathBuf>,
    disk_dir: Option<PathBuf>,
}

impl Sysfs {
    pub(super) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), copy: root != Path::new("/sys") }
    }

    fn dir(&self, path: &Path) -> Option<PathBuf> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_device = || {
            use std::os::unix::fs::FileTypeExt;
            fs::metadata(&path).is_ok_and(|meta| meta.file_type().is_block_device())
        };
        let dir = self.root.join("class/block").join(path.file_name()?);
        ((self.copy || is_device()) && dir.is_dir()).then_some(dir)
    }

    /// Members of the array that this is, beside it; none if it is no array that the kernel runs.
    pub(super) fn members_of(&self, path: &Path) -> Option<Vec<PathBuf>> {
        let dir = self.dir(path).filter(|dir| dir.join("md").is_dir())?;
        let beside = if self.copy { path.parent()?.to_owned() } else { PathBuf::from("/dev") };
        let mut members: Vec<PathBuf> =
            names(&dir.join("slaves")).iter().map(|name| beside.join(name)).collect();
        members.sort();
        Some(members)
    }

    /// The array that the kernel runs on one of these.
    pub(super) fn array_of(&self, members: &[PathBuf]) -> Option<Md> {
        let holders =
            members.iter().filter_map(|member| self.dir(member)).flat_map(|dir| names(&dir.join("holders")));
        let found = holders.map(|name| (self.root.join("class/block").join(&name), name));
        found.filter(|(dir, _)| dir.join("md").is_dir()).map(|(dir, name)| Md { name, dir }).next()
    }

    /// Of each member.
    pub(super) fn drives(&self, facts: &Facts) -> Vec<Drive> {
        let drive = |member: &super::array::MemberPath| {
            let dir = self.dir(Path::new(&member.path));
            let disk_dir = dir.as_ref().map(|dir| disk_of(dir));
            let disk = disk_dir.as_ref().and_then(|dir| Some(dir.file_name()?.to_str()?.to_owned()));
            Drive { path: member.path.clone(), disk, dir, disk_dir }
        };
        facts.members.iter().map(drive).collect()
    }
}

/// The disk that a partition lies on: the folder above its own.
fn disk_of(dir: &Path) -> PathBuf {
    let own = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    match own.parent() {
        Some(disk) if own.join("partition").exists() => disk.to_owned(),
        _ => own,
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

impl Md {
    /// An attribute of it, as `md/stripe_cache_size`.
    pub(super) fn text(&self, attribute: &str) -> Option<String> {
        read(&self.dir.join(attribute))
    }

    pub(super) fn number(&self, attribute: &str) -> Option<u64> {
        self.text(attribute)?.parse().ok()
    }
}

impl Drive {
    /// An attribute of the disk, as `queue/scheduler`.
    pub(super) fn text(&self, attribute: &str) -> Option<String> {
        read(&self.disk_dir.as_ref()?.join(attribute))
    }

    pub(super) fn number(&self, attribute: &str) -> Option<u64> {
        self.text(attribute)?.parse().ok()
    }

    /// Where a partition begins on its disk, in bytes; none for a whole disk, or what is no device.
    pub(super) fn start(&self) -> Option<u64> {
        let dir = self.dir.as_ref().filter(|dir| dir.join("partition").exists())?;
        read(&dir.join("start"))?.parse::<u64>().ok().map(|sectors| sectors.saturating_mul(512))
    }

    /// The model that ships for drives of its kind.
    pub(super) fn kind(&self) -> Option<&'static str> {
        let disk = self.disk.as_deref()?;
        match self.number("queue/rotational")? {
            0 if disk.starts_with("nvme") => Some("nvme"),
            0 => Some("sata-ssd"),
            _ => Some("hdd-7200"),
        }
    }
}
