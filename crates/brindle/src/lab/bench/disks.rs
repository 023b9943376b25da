//! The kernel's counters of the disks on which targets lie.

use std::fs;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use brindle_lab::report::DiskStats;

use crate::devices::world;

/// Disks, each once, and their counters at a moment.
pub(crate) struct Disks {
    begun: Instant,
    disks: Vec<(PathBuf, Counters)>,
}

/// The first eleven of the kernel's counters of a disk (Documentation/block/stat): four of reads, four of writes, how many are
/// in flight, milliseconds in which any was, and milliseconds of all of them.
type Counters = [u64; 11];

impl Disks {
    /// The disks below block devices and files, counted from now on. A file that lies on no disk, as a file in memory does, has none.
    pub(crate) fn under<'a>(targets: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut dirs: Vec<PathBuf> = targets.into_iter().filter_map(disk_of).collect();
        dirs.sort();
        dirs.dedup();
        let disks = dirs.into_iter().filter_map(|dir| counters(&dir).map(|counters| (dir, counters)));
        Self { disks: disks.collect(), begun: Instant::now() }
    }

    /// The work of each disk since then.
    pub(crate) fn since(&self) -> Vec<DiskStats> {
        let millis = self.begun.elapsed().as_secs_f64() * 1000.0;
        let one = |(dir, before): &(PathBuf, Counters)| {
            let now = counters(dir)?;
            let done: [u64; 11] = core::array::from_fn(|at| now[at].saturating_sub(before[at]));
            // The kernel has merged ones before sectors, this has them behind.
            let four = |at: usize| [done[at], done[at + 2], done[at + 1], done[at + 3]];
            Some(DiskStats {
                name: dir.file_name()?.to_string_lossy().into_owned(),
                reads: four(0),
                writes: four(4),
                in_queue: done[10],
                busy: (done[9] as f64 / millis.max(1.0) * 100.0).min(100.0),
            })
        };
        self.disks.iter().filter_map(one).collect()
    }
}

/// The folder in /sys of the disk that a device or partition is, or on which a file lies.
fn disk_of(target: &Path) -> Option<PathBuf> {
    let meta = fs::metadata(world::file_of(target)).ok()?;
    let device = if meta.file_type().is_block_device() { meta.st_rdev() } else { meta.st_dev() };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let dir = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    match dir.parent() {
        Some(disk) if dir.join("partition").exists() => Some(disk.to_owned()),
        _ => Some(dir),
    }
}

fn counters(dir: &Path) -> Option<Counters> {
    parsed(&fs::read_to_string(dir.join("stat")).ok()?)
}

fn parsed(text: &str) -> Option<Counters> {
    let all: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    all.get(..11)?.try_into().ok()
}

/// The description of the disk below a target: its name, model and scheduler, as far as there are any.
pub(crate) fn about(target: &Path) -> String {
    let Some(dir) = disk_of(target) else { return "no disk below it".to_owned() };
    let text =
        |attribute: &str| fs::read_to_string(dir.join(attribute)).unwrap_or_default().trim().to_owned();
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let scheduler = text("queue/scheduler");
    // Of several the one in use stands in brackets.
    let scheduler =
        scheduler.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("none", |of| of.0);
    match text("device/model").as_str() {
        "" => format!("on {name}, scheduler {scheduler}"),
        model => format!("on {name} ({model}), scheduler {scheduler}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_eleven_numbers_and_more() {
        let line = "  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n";
        assert_eq!(parsed(line), Some([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]));
        assert_eq!(parsed("1 2 3"), None);
        assert_eq!(parsed("1 2 3 4 5 x 7 8 9 10 11"), None);
    }
}
