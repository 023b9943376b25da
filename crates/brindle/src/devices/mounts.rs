//! File systems of this program: mounted by mount(2) where that is allowed, else by fusermount3, found again, and unmounted.
//!
//! A mount's own folder is never looked at: its server may be this process, or be gone.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use brindle_io::receive_with;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{getegid, geteuid};

use crate::base::failure::Failure;
use crate::base::path::absolute;

/// Through which file systems in user space are made.
const DEVICE: &str = "/dev/fuse";
/// The file that tells of mounts.
const TOLD: &str = "/proc/self/mountinfo";
/// The kernel's number of file systems in user space (statfs(2)).
const FUSE_SUPER_MAGIC: rustix::fs::FsWord = 0x6573_5546;
/// The helper of users who may not mount.
const HELPER: &str = "fusermount3";
/// The kind of these mounts.
const KIND: &str = "fuse.brindle";
/// Links that are followed one after the other, as by the kernel (path_resolution(7)).
const LINKS: usize = 40;
/// Time that the helper may take to hand the descriptor over.
const HANDED: Duration = Duration::from_secs(10);
/// Time that a server may take to end whose mount has gone.
const ENDING: Duration = Duration::from_secs(30);

/// A mount that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountPoint {
    /// The array, or POOL/VOLUME.
    pub(crate) source: String,
    pub(crate) folder: PathBuf,
    /// The number of the file system, which no other has at the time.
    number: String,
}

/// A file system that was mounted just now: the reader of its descriptor serves it. Dropped before that, it is unmounted.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) folder: PathBuf,
    number: Option<String>,
    descriptor: Option<OwnedFd>,
}

/// A mount, to be found again.
#[derive(Clone, Debug)]
pub(crate) struct Mounted {
    folder: PathBuf,
    number: Option<String>,
}

impl Mounted {
    /// Takes it out of sight, if it is still there: another may be by now.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        let is_there = match &self.number {
            Some(number) => at(&self.folder).into_iter().any(|one| one.number == *number),
            None => is_untold(&self.folder),
        };
        if is_there { unmount(&self.folder, true) } else { Ok(()) }
    }
}

impl Fresh {
    /// The mount, to be found again.
    pub(crate) fn mounted(&self) -> Mounted {
        Mounted { folder: self.folder.clone(), number: self.number.clone() }
    }

    /// The descriptor, for the server.
    pub(crate) fn hand_over(mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if self.descriptor.take().is_some() {
            // The reason why nobody serves it is told.
            let _ = unmount(&self.folder, true);
        }
    }
}

/// All mounts of this program that this process can see, the last one first.
pub(crate) fn all() -> Vec<MountPoint> {
    let mut all = found_in(&std::fs::read(TOLD).unwrap_or_default());
    all.reverse();
    all
}

/// Whether a mount that a server of this program may have is at a place, where nothing tells of mounts: /proc is not there.
pub(crate) fn is_untold(place: &Path) -> bool {
    !Path::new(TOLD).exists() && rustix::fs::statfs(place).is_ok_and(|found| found.f_type == FUSE_SUPER_MAGIC)
}

fn found_in(text: &[u8]) -> Vec<MountPoint> {
    let of_line = |line: &[u8]| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let behind = words.iter().position(|word| *word == b"-")?;
        let is_own = words.get(behind + 1).is_some_and(|kind| *kind == KIND.as_bytes());
        let source = String::from_utf8_lossy(&plain(words.get(behind + 2)?)).into_owned();
        let folder = PathBuf::from(OsString::from_vec(plain(words.get(4)?)));
        let number = String::from_utf8_lossy(words.get(2)?).into_owned();
        is_own.then_some(MountPoint { source, folder, number })
    };
    text.split(|byte| *byte == b'\n').filter_map(of_line).collect()
}

/// A word of mountinfo, whose spaces and the like are written as three octal digits.
fn plain(word: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::new(), word);
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| first == b'\\');
        let octal = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &behind[3..] } else { behind };
    }
    plain
}

/// A folder from the root, with all links of the way to it followed, and those that it is itself. What is mounted there is not asked.
pub(crate) fn place(folder: &Path) -> PathBuf {
    let mut folder = absolute(folder);
    for _ in 0..LINKS {
        // Of a folder that is mounted on, the kernel knows by itself that it is none.
        let Ok(to) = std::fs::read_link(&folder) else { break };
        folder = folder.parent().map_or(to.clone(), |parent| parent.join(to));
    }
    match (folder.parent().map(std::fs::canonicalize), folder.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => folder,
    }
}

/// Mounts of this program at a place, the last one first.
pub(crate) fn at(place: &Path) -> Vec<MountPoint> {
    all().into_iter().filter(|one| one.folder == place).collect()
}

/// A folder on which something can be mounted. What a server has left there that is gone is unmounted first.
pub(crate) fn prepare(folder: &Path) -> Result<PathBuf, Failure> {
    let place = place(folder);
    let shown = place.display();
    for old in at(&place) {
        if !is_dead(&place) {
            return Err(Failure::Refused(format!(
                "{shown}: {} is mounted there already: `brindle umount {shown}` ends that",
                old.source
            )));
        }
        unmount(&place, true)?;
    }
    let real = std::fs::canonicalize(&place)
        .map_err(|source| Failure::system(format!("{shown}: nothing can be mounted there"), source))?;
    let mut inside = std::fs::read_dir(&real)
        .map_err(|source| Failure::system(format!("{shown}: nothing can be mounted there"), source))?;
    if inside.next().is_some() {
        return Err(Failure::Refused(format!(
            "{shown}: it is not empty, and what is in it could not be seen: give an empty folder"
        )));
    }
    Ok(real)
}

/// Unmounts what servers have left that are gone, as far as this user may.
pub(crate) fn clear() {
    for old in all() {
        if is_dead(&old.folder) {
            // One of another user stays as it is: `mount` and `umount` tell of it.
            let _ = unmount(&old.folder, true);
        }
    }
}

/// Whether the server of a mount is gone. One that only is silent is not.
fn is_dead(place: &Path) -> bool {
    let place = place.to_owned();
    let (tell, told) = std::sync::mpsc::channel();
    // A server that is stopped answers nothing, and nothing but its end wakes the thread.
    let looks = std::thread::Builder::new().name("look".into()).spawn(move || {
        let looked = rustix::fs::statfs(&place);
        let _ = tell.send(matches!(looked, Err(Errno::NOTCONN | Errno::CONNABORTED)));
    });
    looks.is_ok() && told.recv_timeout(Duration::from_millis(1000)).unwrap_or(false)
}

/// Marks a folder that is about to be mounted on, until this process has ended: its server is there for the mount alone. Whoever unmounts it
/// waits for that ([`wait_for_server`]).
pub(crate) fn mark(place: &Path) {
    let Ok(folder) = File::open(place) else { return };
    // Some file systems have no locks for folders: nobody waits there.
    if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
        // Closed by the kernel, behind the members.
        std::mem::forget(folder);
    }
}

/// Waits until a server has ended that was there for a mount alone, which is unmounted. Gives whether it has.
pub(crate) fn wait_for_server(place: &Path) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < ENDING {
        let Ok(folder) = File::open(place) else { return true };
        match flock(&folder, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(10)),
            _ => return true,
        }
    }
    false
}

/// Mounts on a folder that was prepared.
pub(crate) fn mount(place: &Path, source: &str, write: bool) -> Result<Fresh, Failure> {
    let descriptor = match mount_by_itself(place, source, write) {
        Err(Errno::PERM | Errno::ACCESS) => mount_by_helper(place, source, write)?,
        mounted => mounted.map_err(|errno| refused(place, errno))?,
    };
    let number = at(place).into_iter().next().map(|one| one.number);
    Ok(Fresh { folder: place.to_owned(), number, descriptor: Some(descriptor) })
}

fn refused(place: &Path, errno: Errno) -> Failure {
    let way_out = match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => {
            ": load the driver (modprobe fuse); a container needs the device (--device /dev/fuse)"
        }
        _ => "",
    };
    let what = if way_out.is_empty() { place.display().to_string() } else { DEVICE.to_owned() };
    Failure::system(format!("{what}: a file system in user space can't be mounted{way_out}"), errno.into())
}

fn mount_by_itself(place: &Path, source: &str, write: bool) -> Result<OwnedFd, Errno> {
    let device = match File::options().read(true).write(true).open(DEVICE) {
        Ok(device) => OwnedFd::from(device),
        Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::NOENT)),
    };
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let number = device.as_raw_fd();
    let data = format!("fd={number},rootmode=40000,user_id={user},group_id={group}");
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    if !write {
        flags |= MountFlags::RDONLY;
    }
    rustix::mount::mount(source, place, KIND, flags, Some(data.as_c_str()))?;
    Ok(device)
}

/// Has the helper mount, which hands the descriptor over a socket.
fn mount_by_helper(place: &Path, source: &str, write: bool) -> Result<OwnedFd, Failure> {
    let failed = |source| Failure::system(format!("{HELPER} can't be started"), source);
    let (own, theirs) = UnixStream::pair().map_err(failed)?;
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty()).map_err(|errno| failed(errno.into()))?;
    let name: String =
        source.chars().flat_map(|c| matches!(c, ',' | '\\').then_some('\\').into_iter().chain([c])).collect();
    let access = if write { "rw" } else { "ro" };
    let options = format!("{access},nosuid,nodev,noatime,fsname={name},subtype=brindle");
    let started = Command::new(HELPER)
        .args([OsStr::new("-o"), OsStr::new(&options), OsStr::new("--")])
        .arg(place)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    drop(theirs);
    let child = started.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::Refused(format!(
            "{}: this user may not mount, and {HELPER} is not there: install fuse3, or ask root",
            place.display()
        )),
        _ => failed(error),
    })?;
    let received = own.set_read_timeout(Some(HANDED)).and_then(|()| receive(&own));
    let ended = child.wait_with_output().map_err(failed)?;
    let said = String::from_utf8_lossy(&ended.stderr);
    match received {
        Ok(descriptor) if ended.status.success() => Ok(descriptor),
        _ => Err(Failure::Refused(format!(
            "{}: {HELPER} does not mount there: {}",
            place.display(),
            if said.trim().is_empty() { "it says nothing" } else { said.trim() }
        ))),
    }
}

fn receive(from: &UnixStream) -> std::io::Result<OwnedFd> {
    let mut descriptor = None;
    receive_with(from, &mut [0], &mut descriptor)?;
    descriptor.ok_or_else(|| ErrorKind::UnexpectedEof.into())
}

/// Unmounts; `lazily` also where files are open, which end with their programs.
pub(crate) fn unmount(place: &Path, lazily: bool) -> Result<(), Failure> {
    let how = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(place, how | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::PERM | Errno::ACCESS) => unmount_by_helper(place, lazily),
        Err(Errno::BUSY) => Err(in_use(place)),
        Err(errno) => {
            Err(Failure::system(format!("{}: it can't be unmounted", place.display()), errno.into()))
        }
    }
}

fn in_use(place: &Path) -> Failure {
    let shown = place.display();
    Failure::Refused(format!(
        "{shown}: programs, loop devices or other mounts have files of it open: end these first; \
         `brindle umount --lazy {shown}` takes it out of sight, and ends it with the last of them"
    ))
}

fn unmount_by_helper(place: &Path, lazily: bool) -> Result<(), Failure> {
    let ended =
        Command::new(HELPER).args(["-u", "-q"]).args(lazily.then_some("-z")).arg("--").arg(place).output();
    let ended = ended.map_err(|source| match source.kind() {
        ErrorKind::NotFound => Failure::Refused(format!(
            "{}: this user may not unmount, and {HELPER} is not there: install fuse3, or ask root",
            place.display()
        )),
        _ => Failure::system(format!("{HELPER} can't be started"), source),
    })?;
    if ended.status.success() {
        return Ok(());
    }
    if !lazily && at(place).iter().any(|one| one.folder == place) {
        return Err(in_use(place));
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(Failure::Refused(format!("{}: {HELPER} does not unmount it: {}", place.display(), said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_this_program_are_found() {
        let text =
            b"36 28 0:44 / /mnt/a\\040b ro,nosuid shared:1 - fuse.brindle tank/vm\\0401 ro,user_id=0\n\
            37 28 0:45 / /mnt/c rw - fuse.sshfs data rw\nodd line\n - \n\
            38 28 0:46 / /mnt/d rw - fuse.brindle data rw\n";
        let of = |source: &str, folder: &str, number: &str| MountPoint {
            source: source.into(),
            folder: folder.into(),
            number: number.into(),
        };
        assert_eq!(found_in(text), [of("tank/vm 1", "/mnt/a b", "0:44"), of("data", "/mnt/d", "0:46")]);
        assert_eq!(plain(b"\\134\\09"), b"\\\\09");
    }
}
