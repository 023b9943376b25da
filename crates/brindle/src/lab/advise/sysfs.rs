//! Facts about devices from the kernel, under a root that may be a copy.

use std::fs;
use std::path::{Path, PathBuf};

use brindle_planner::advice::{Drive, Facts, Md, MemberPath};

use crate::base::path::real;

/// A tree as the kernel's /sys.
pub(super) struct Sysfs {
    root: PathBuf,
    /// A copy of another machine's: files have the names of its devices.
    copy: bool,
}

impl Sysfs {
    pub(super) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), copy: root != Path::new("/sys") }
    }

    fn dir(&self, path: &Path) -> Option<PathBuf> {
        let path = real(path);
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
        found.filter(|(dir, _)| dir.join("md").is_dir()).map(|(dir, name)| md(name, &dir)).next()
    }

    /// The settings of each member.
    pub(super) fn drives(&self, facts: &Facts) -> Vec<Drive> {
        let drive = |member: &MemberPath| match self.dir(Path::new(&member.path)) {
            Some(dir) => drive(&member.path, &dir),
            None => Drive { path: member.path.clone(), ..Drive::default() },
        };
        facts.members.iter().map(drive).collect()
    }
}

fn md(name: String, dir: &Path) -> Md {
    Md {
        name,
        read_ahead: number(&dir.join("queue/read_ahead_kb")).map(|kib| kib << 10),
        stripe_cache: number(&dir.join("md/stripe_cache_size")),
        discard_max: number(&dir.join("queue/discard_max_bytes")),
        last_action: read(&dir.join("md/last_sync_action")),
        mismatches: number(&dir.join("md/mismatch_cnt")),
    }
}

/// A device, and the disk that it is or lies on.
fn drive(path: &str, dir: &Path) -> Drive {
    let disk_dir = disk_of(dir);
    let of = |attribute: &str| number(&disk_dir.join(attribute));
    let start = dir.join("partition").exists().then(|| number(&dir.join("start"))).flatten();
    Drive {
        path: path.to_owned(),
        disk: disk_dir.file_name().and_then(|name| Some(name.to_str()?.to_owned())),
        start: start.map(|sectors| sectors.saturating_mul(512)),
        rotates: of("queue/rotational").map(|rotates| rotates == 1),
        scheduler: read(&disk_dir.join("queue/scheduler")),
        queue_depth: of("device/queue_depth"),
        requests: of("queue/nr_requests"),
        write_cache: read(&disk_dir.join("queue/write_cache")),
        discard_max: of("queue/discard_max_bytes"),
        physical_block: of("queue/physical_block_size"),
        optimal_io: of("queue/optimal_io_size"),
    }
}

/// The disk that a partition lies on: the folder above its own.
fn disk_of(dir: &Path) -> PathBuf {
    let own = real(dir);
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

fn number(path: &Path) -> Option<u64> {
    read(path)?.parse().ok()
}
