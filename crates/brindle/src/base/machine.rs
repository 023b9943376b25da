//! The memory of this machine, or of the container that this process is in.

use std::fs;
use std::path::{Path, PathBuf};

const MACHINE: &str = "/proc/meminfo";
const OWN_GROUP: &str = "/proc/self/cgroup";
const GROUPS: &str = "/sys/fs/cgroup";

/// Bytes that there are taken to be where the kernel does not say.
const UNKNOWN: u64 = 1 << 30;

/// Bytes of memory that this machine has, or fewer if a control group lets this process have fewer.
pub(crate) fn memory() -> u64 {
    let own = fs::read_to_string(OWN_GROUP).unwrap_or_default();
    let machine = kib(Path::new(MACHINE), "MemTotal:").map(|kib| kib << 10);
    machine.into_iter().chain(limit(Path::new(GROUPS), &own)).min().unwrap_or(UNKNOWN)
}

/// The number of a line of /proc that counts KiB.
pub(crate) fn kib(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse().ok())
}

/// The least that a group or one above it allows; `own` names the groups of this process as the kernel does: `0::/a/b` and, of groups of the
/// first kind, `5:memory:/a/b`.
fn limit(groups: &Path, own: &str) -> Option<u64> {
    let limits = own.lines().filter_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (kinds, path) = line.split_once(':')?;
        let (root, file) = match kinds {
            "" => (groups.to_owned(), "memory.max"),
            kinds if kinds.split(',').any(|kind| kind == "memory") => {
                (groups.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        least(&root, path, file)
    });
    limits.min()
}

/// The least number in the files of this name, from a folder up to the root. Within a container its group may be the root, whatever its path.
fn least(root: &Path, path: &str, file: &str) -> Option<u64> {
    let own: PathBuf = root.join(path.trim_start_matches('/'));
    let folders = own.ancestors().take_while(|folder| folder.starts_with(root));
    folders.filter_map(|folder| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let dir = std::env::temp_dir().join(format!("brindle-memory-test-{}", std::process::id()));
        let put = |path: &str, text: &str| {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        assert_eq!(limit(&dir, "0::/a/b\n"), None);
        put("a/b/memory.max", "max\n");
        assert_eq!(limit(&dir, "0::/a/b\n"), None);
        put("a/memory.max", "1073741824\n");
        assert_eq!(limit(&dir, "0::/a/b\n"), Some(1 << 30));
        assert_eq!(limit(&dir, "0::/\n"), None);
        // The group of a container is the root of what it sees.
        put("memory/memory.limit_in_bytes", "536870912\n");
        assert_eq!(limit(&dir, "4:cpu:/x\n5:memory,hugetlb:/docker/x\n0::/a/b\n"), Some(512 << 20));
        fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn this_machine_has_some() {
        assert!(memory() >= 16 << 20, "{}", memory());
    }
}
