//! Where running servers are found: a control socket each, named after the array, in the runtime folder.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_io::uring;

use crate::base::failure::Failure;

/// Longest name of an array's sockets: a Unix socket's path has room for about 100 bytes in all.
const MAX_NAME: usize = 64;

/// How often, and how far apart, the folder is tried to be held: two seconds in all.
const HOLD_TRIES: u32 = 100;
const HOLD_REST: Duration = Duration::from_millis(20);

/// The runtime folder: the one that was said, or the usual one.
pub(crate) fn folder(said: Option<&Path>) -> Result<PathBuf, Failure> {
    let user = rustix::process::geteuid();
    let base = std::env::var_os("XDG_RUNTIME_DIR").filter(|base| !base.is_empty());
    let folder = match (said, base) {
        (Some(folder), _) => folder.to_owned(),
        (None, Some(base)) => Path::new(&base).join("brindle"),
        (None, None) if user.is_root() => "/run/brindle".into(),
        (None, None) => {
            let folder = std::env::temp_dir().join(format!("brindle-{}", user.as_raw()));
            check_private(&folder, user.as_raw())?;
            return Ok(folder);
        }
    };
    // One of root's that is named is one that settings share with a group.
    if !(said.is_some() && is_roots(&folder)) {
        check_own(&folder, user.as_raw())?;
    }
    Ok(folder)
}

/// Whether a folder is root's, who may do anything in any.
fn is_roots(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|meta| meta.is_dir() && meta.uid() == 0)
}

/// Lets a group into the runtime folder, where it can see which servers there are. Each socket and file has rights of its own.
pub(crate) fn share(folder: &Path, group: u32) -> Result<(), Failure> {
    let failed = |source: std::io::Error| Failure::output(folder.display(), source);
    std::os::unix::fs::chown(folder, None, Some(group)).map_err(failed)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o750)).map_err(failed)
}

/// The names of this host by which it knows its own arrays: whole, as mdadm writes it, and up to its first dot.
pub(crate) fn host_names() -> Vec<String> {
    names_of(&rustix::system::uname().nodename().to_string_lossy())
}

fn names_of(whole: &str) -> Vec<String> {
    let short = whole.split('.').next().unwrap_or_default();
    let mut names = vec![whole.to_owned(), short.to_owned()];
    names.dedup();
    names.retain(|name| !name.is_empty());
    names
}

/// The name of this host that stands before an array's own in a superblock: the longest for which there is room.
pub(crate) fn host_before(own: &str) -> Option<String> {
    fitting(host_names(), own)
}

fn fitting(names: Vec<String>, own: &str) -> Option<String> {
    // mdadm leaves out a host with which the name has more than 31 bytes.
    names.into_iter().find(|name| !name.contains(':') && name.len() + own.len() < 31)
}

/// The default folders for sockets of servers.
pub(crate) fn usual_folders() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let base = std::env::var_os("XDG_RUNTIME_DIR").filter(|base| !base.is_empty());
    let own = base.map(|base| Path::new(&base).join("brindle"));
    let temporary = std::env::temp_dir().join(format!("brindle-{user}"));
    own.into_iter().chain([PathBuf::from("/run/brindle"), temporary]).collect()
}

/// Refuses a folder of somebody else, who could put other sockets into it. One that does not exist, or can't be looked at,
/// is fine: whoever uses it learns why he can't.
fn check_own(folder: &Path, user: u32) -> Result<(), Failure> {
    let Ok(meta) = fs::metadata(folder) else { return Ok(()) };
    if !meta.is_dir() {
        return Err(refused(folder, "it is not a folder"));
    }
    if meta.uid() != user {
        return Err(refused(folder, &format!("it belongs to user {}, and this is user {user}", meta.uid())));
    }
    Ok(())
}

fn refused(folder: &Path, why: &str) -> Failure {
    Failure::Refused(format!(
        "{}: can't be the runtime folder: {why}; remove it, or choose another with --runtime-dir",
        folder.display()
    ))
}

/// Refuses a folder in a place where everybody may make one, unless nobody but `user` can have made it or can use it.
/// One that does not exist is fine.
fn check_private(folder: &Path, user: u32) -> Result<(), Failure> {
    // Symlinks are not followed: anybody can make one.
    let Ok(meta) = fs::symlink_metadata(folder) else { return Ok(()) };
    let mode = meta.mode() & 0o7777;
    let wrong = if meta.file_type().is_symlink() {
        "it is a symlink".to_owned()
    } else if !meta.is_dir() {
        "it is not a folder".to_owned()
    } else if meta.uid() != user {
        format!("it belongs to user {}", meta.uid())
    } else if mode & 0o077 != 0 {
        format!("others may enter it (mode {mode:04o})")
    } else {
        return Ok(());
    };
    Err(refused(folder, &wrong))
}

/// Makes the runtime folder, for this user only.
pub(crate) fn make_folder(said: Option<&Path>) -> Result<PathBuf, Failure> {
    let folder = folder(said)?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|source| Failure::output(folder.display(), source))?;
    // Again: somebody may have been faster.
    self::folder(said)
}

/// Holds the runtime folder while sockets are made or cleared in it: between its making and its listening a socket looks
/// like that of a dead server. Who holds it too long, since it is stopped for instance, is not waited for.
pub(crate) fn hold(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    for _ in 0..HOLD_TRIES {
        match file.try_lock() {
            Ok(()) => return Some(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(HOLD_REST),
            Err(TryLockError::Error(_)) => return None,
        }
    }
    None
}

/// Logs of servers in the background.
pub(crate) fn logs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut logs: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|of| of == "log")).collect();
    logs.sort();
    logs
}

/// Removes the sockets of a server that is gone, and reports it.
pub(crate) fn clear_stale(folder: &Path, name: &str) -> String {
    let held = hold(folder);
    let sockets = [control_socket(folder, name), nbd_socket(folder, name)];
    let stale = |path: &&PathBuf| held.is_some() && uring::is_abandoned(path);
    let removed: Vec<String> = sockets
        .iter()
        .filter(stale)
        .filter(|path| fs::remove_file(path).is_ok())
        .map(|path| path.display().to_string())
        .collect();
    let gone = format!("the server of '{name}' is gone, and did not end in order");
    match removed.is_empty() {
        true => format!("{gone}; remove {}", sockets[0].display()),
        false => format!("{gone}; removed {}", removed.join(", ")),
    }
}

/// The control socket of an array.
pub(crate) fn control_socket(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.control"))
}

/// The NBD socket of an array without another address.
pub(crate) fn nbd_socket(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.nbd"))
}

/// Whether a name can be part of a path, and be printed.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = !name.is_empty() && name.len() <= MAX_NAME && !name.starts_with('.');
    fits && !name.contains('/') && !name.contains(char::is_control)
}

/// The name of an array whose own name can't be part of a path, or is another's: its UUID.
pub(crate) fn uuid_name(uuid: &str) -> String {
    uuid.replace(':', "-")
}

/// An array's own name, if it can be part of a path; else its UUID.
pub(crate) fn name_or_uuid(own: &str, uuid: &str) -> String {
    if is_name(own) { own.to_owned() } else { uuid_name(uuid) }
}

/// Refuses a text that can't name a server.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    if is_name(name) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "'{}' can't name a server: use 1 to {MAX_NAME} bytes without slashes (--name NAME)",
        name.escape_debug()
    )))
}

/// Names of the servers that have a control socket here, in order.
pub(crate) fn servers(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
        // Nobody answers on a socket that this process is about to take over.
        .filter(|entry| !uring::is_unclaimed(&entry.path()))
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".control")?.to_owned()))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_by_its_whole_name_and_up_to_its_first_dot() {
        assert_eq!(names_of("nas.example.org"), ["nas.example.org", "nas"]);
        assert_eq!(names_of("nas"), ["nas"]);
        assert_eq!(names_of(""), [""; 0]);
        let before = |whole: &str, own: &str| fitting(names_of(whole), own);
        assert_eq!(before("nas.example.org", "data").as_deref(), Some("nas.example.org"));
        // 31 bytes in all, with the colon.
        assert_eq!(before("nas.example.org", &"x".repeat(15)).as_deref(), Some("nas.example.org"));
        assert_eq!(before("nas.example.org", &"x".repeat(16)).as_deref(), Some("nas"));
        assert_eq!(before("nas", &"x".repeat(28)), None);
    }

    #[test]
    fn names_that_would_leave_the_folder_are_refused() {
        for wrong in ["", "..", "a/b", ".hidden", "a\nb", &"x".repeat(65)] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
        assert!(check_name("host:data-1").is_ok());
    }

    #[test]
    fn a_folder_that_others_could_have_made_or_can_use_is_refused() {
        let user = rustix::process::geteuid().as_raw();
        let base = std::env::temp_dir().join(format!("brindle-private-test-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let folder = base.join("folder");
        assert!(check_private(&folder, user).is_ok(), "what is not there can be made");
        fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
        assert!(check_private(&folder, user).is_ok());
        assert!(check_own(&base.join("nowhere"), user).is_ok() && check_own(&folder, user).is_ok());
        let named = check_own(&folder, user + 1).unwrap_err().to_string();
        assert!(
            named.contains(&format!("belongs to user {user}")) && named.contains("--runtime-dir"),
            "{named}"
        );
        let refused = |folder: &Path, user| check_private(folder, user).unwrap_err().to_string();
        assert!(refused(&folder, user + 1).contains(&format!("belongs to user {user}")));
        let link = base.join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let said = refused(&link, user);
        assert!(said.contains("a symlink") && said.contains("--runtime-dir"), "{said}");
        for mode in [0o755, 0o770, 0o701] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            assert!(refused(&folder, user).contains(&format!("{mode:04o}")));
        }
        let file = base.join("file");
        fs::write(&file, "").unwrap();
        assert!(refused(&file, user).contains("not a folder"));
        fs::remove_dir_all(&base).unwrap();
    }
}
