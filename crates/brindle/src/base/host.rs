//! The identity of this host, which pools record, and the folder of what outlives servers.
//!
//! A container has no identity that lasts: the machine's is that of its image, or is made anew with each container. One that is made here says so
//! itself, so that a pool is not locked out by a container that was started anew.

use std::fs;
use std::path::{Path, PathBuf};

use brindle_format::pool::Host;
use uuid::Uuid;

use super::random::random_uuid;
use super::replace::replace;

const STATE: &str = "/var/lib/brindle";
const MACHINE: &str = "/etc/machine-id";
/// There while the machine's identity is made anew at each boot.
const PASSING: &str = "/run/machine-id";
/// Marks of containers: of Docker's and Podman's.
const CONTAINERS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];
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

/// This host: by the identity that it keeps, else that of the machine, else by one that is made and kept.
pub(crate) fn this_host() -> Host {
    known_host(&state_folder()).unwrap_or_else(|| make(&state_folder()))
}

/// The same, and nothing is made.
pub(crate) fn host_as_it_is() -> Host {
    known_host(&state_folder()).unwrap_or_else(|| Host::new(Uuid::nil(), &name()))
}

fn known_host(state: &Path) -> Option<Host> {
    let is_there = |path: &str| Path::new(path).exists();
    let is_container =
        CONTAINERS.iter().any(|mark| is_there(mark)) || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let machine = (!is_container && !is_there(PASSING)).then_some(Path::new(MACHINE));
    identity(machine, state).map(|id| Host::new(id, &name()))
}

fn name() -> String {
    fs::read_to_string(NAME).unwrap_or_default().trim().to_owned()
}

/// The identity that is kept, which may be somebody's choice, else that of the machine.
fn identity(machine: Option<&Path>, state: &Path) -> Option<Uuid> {
    let read = |path: &Path| Uuid::parse_str(fs::read_to_string(path).ok()?.trim()).ok();
    [Some(&*kept(state)), machine].into_iter().flatten().filter_map(read).find(|id| !id.is_nil())
}

fn kept(state: &Path) -> PathBuf {
    state.join("host-id")
}

/// Makes an identity, and keeps it where that can be.
fn make(state: &Path) -> Host {
    let Ok(id) = random_uuid() else { return Host::new(Uuid::nil(), &name()) };
    let made = Host::made(id, &name());
    let _kept = fs::create_dir_all(state)
        .is_ok_and(|()| replace(&kept(state), format!("{}\n", made.id).as_bytes()).is_ok());
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_kept_or_the_machine_has_one_or_one_is_made() {
        let dir = std::env::temp_dir().join(format!("brindle-host-test-{}", std::process::id()));
        let (machine, state) = (dir.join("machine-id"), dir.join("state"));
        fs::create_dir_all(&dir).expect("made");
        let of = |machine| identity(machine, &state);
        assert_eq!(of(Some(&*machine)), None);
        fs::write(&machine, "uninitialized\n").expect("written");
        assert_eq!(of(Some(&*machine)), None);
        fs::write(&machine, "0123456789abcdef0123456789abcdef\n").expect("written");
        let machines = of(Some(&*machine)).expect("the machine has one");
        assert_eq!(machines.to_string(), "01234567-89ab-cdef-0123-456789abcdef");
        assert!(Host::new(machines, "nas").is_lasting());
        // The machine's is not that of a container.
        assert_eq!(of(None), None);
        let made = make(&state);
        assert!(!made.is_lasting());
        assert_eq!((of(None), of(Some(&*machine))), (Some(made.id), Some(made.id)), "it is kept");
        fs::remove_dir_all(&dir).expect("removed");
    }
}
