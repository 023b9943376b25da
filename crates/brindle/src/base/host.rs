//! The identity of this host, which pools record, and the folder of what outlives servers.

use std::fs;
use std::path::{Path, PathBuf};

use brindle_format::pool::Host;
use uuid::Uuid;

use super::random::random_uuid;
use super::replace::replace;

const STATE: &str = "/var/lib/brindle";
const MACHINE: &str = "/etc/machine-id";
const NAME: &str = "/proc/sys/kernel/hostname";

/// The folder of what outlives servers: a service is told, root has the usual one, a user one of his own.
pub(crate) fn state_folder() -> PathBuf {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // Of several folders the first.
    let told = of("STATE_DIRECTORY").and_then(|all| {
        let all = all.to_string_lossy().into_owned();
        all.split(':').next().map(PathBuf::from)
    });
    let own = || of("XDG_STATE_HOME").or_else(|| of("HOME").map(|home| home.join(".local/state")));
    told.or_else(|| {
        (!rustix::process::geteuid().is_root()).then(own).flatten().map(|state| state.join("brindle"))
    })
    .unwrap_or_else(|| STATE.into())
}

/// This host: by the machine's identity, else by one that is made once and kept; of none of these it has none.
pub(crate) fn this_host() -> Host {
    let id = identity(Path::new(MACHINE), &state_folder()).unwrap_or_default();
    Host::new(id, fs::read_to_string(NAME).unwrap_or_default().trim())
}

fn identity(machine: &Path, state: &Path) -> Option<Uuid> {
    let read = |path: &Path| Uuid::parse_str(fs::read_to_string(path).ok()?.trim()).ok();
    let kept = state.join("host-id");
    let is_one = |id: &Uuid| !id.is_nil();
    read(machine).filter(is_one).or_else(|| read(&kept).filter(is_one)).or_else(|| {
        let made = random_uuid().ok()?;
        fs::create_dir_all(state).ok()?;
        replace(&kept, format!("{made}\n").as_bytes()).ok()?;
        Some(made)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_one_or_one_is_made_and_kept() {
        let dir = std::env::temp_dir().join(format!("brindle-host-test-{}", std::process::id()));
        let (machine, state) = (dir.join("machine-id"), dir.join("state"));
        let made = identity(&machine, &state).expect("one is made");
        assert_eq!(identity(&machine, &state), Some(made));
        fs::write(&machine, "uninitialized\n").expect("written");
        assert_eq!(identity(&machine, &state), Some(made));
        fs::write(&machine, "0123456789abcdef0123456789abcdef\n").expect("written");
        let machine = identity(&machine, &state).expect("the machine has one");
        assert_eq!(machine.to_string(), "01234567-89ab-cdef-0123-456789abcdef");
        fs::remove_dir_all(&dir).expect("removed");
    }
}
