//! Files that have write-intent bitmaps: looked at, opened, and made.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use brindle_array::BitmapFile;
use brindle_format::md::Uuid;
use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapSuper};
use brindle_io::device::{DeviceAccess, Identity, OpenDevice};
use brindle_io::{MemberId, PAGE};
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;

use super::{Assembled, World};
use crate::base::failure::Failure;

/// The folder in which the kernel lists block devices by their numbers.
const DEVICES: &str = "/sys/dev/block";

/// A file that was given for an array's bitmap.
pub(crate) struct SeenBitmap {
    pub(crate) path: PathBuf,
    /// Its first bytes, as many as a bitmap's superblock has.
    head: Vec<u8>,
    len: u64,
}

impl SeenBitmap {
    /// The array of the bitmap, by its superblock.
    pub(crate) fn array(&self) -> Option<Uuid> {
        BitmapSuper::parse(&self.head).ok().map(|head| head.uuid)
    }

    /// Holds the file against an array, whose bitmap it becomes.
    pub(crate) fn become_that_of(
        &self,
        assembled: &mut Assembled,
        id: Option<MemberId>,
    ) -> Result<(), Failure> {
        let file = BitmapFile { label: self.path.display().to_string(), id };
        assembled.accept_bitmap(file, &self.head, self.len)
    }
}

/// Looks at a file that is to have a bitmap.
pub(crate) fn see_bitmap(path: &Path) -> Result<SeenBitmap, Failure> {
    let reported = |source| Failure::system(path.display().to_string(), source);
    // Looked at before it is opened: opening a pipe waits for its other end.
    refuse_other_kinds(path, &std::fs::metadata(path).map_err(reported)?)?;
    let file = File::open(path).map_err(reported)?;
    let len = file.metadata().map_err(reported)?.len();
    let mut head = Vec::new();
    file.take(BITMAP_SUPER_BYTES as u64).read_to_end(&mut head).map_err(reported)?;
    Ok(SeenBitmap { path: path.to_owned(), head, len })
}

fn refuse_other_kinds(path: &Path, found: &std::fs::Metadata) -> Result<(), Failure> {
    let what = match found.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_block_device() => "a block device",
        _ => "no regular file",
    };
    let path = path.display();
    Err(Failure::Refused(format!("{path}: it is {what}; a write-intent bitmap is in a regular file")))
}

/// Refuses a device that is part of an array already, by its identity.
fn refuse_known(path: &Path, known: &[(Identity, String)]) -> Result<(), Failure> {
    let Ok(device) = OpenDevice::open(path, DeviceAccess::Examine) else { return Ok(()) };
    match known.iter().find(|(identity, _)| *identity == device.identity()) {
        Some((_, what)) => Err(Failure::Refused(format!("{}: it is {what}", path.display()))),
        None => Ok(()),
    }
}

/// A file that was made for a bitmap, or is to be overwritten with one.
pub(crate) struct MadeBitmap {
    pub(crate) path: PathBuf,
    pub(crate) device: OpenDevice,
    /// The file did not exist before.
    is_new: bool,
}

impl MadeBitmap {
    /// Whether the file is new. A new file is removed if the change fails.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Removes the file again if the change fails.
    pub(crate) fn undo(&self) -> impl FnOnce() + Send + use<> {
        let new = self.is_new.then(|| self.path.clone());
        move || {
            // A file that can't be removed does no harm.
            let _ = new.map(std::fs::remove_file);
        }
    }
}

/// How a file is to be made.
pub(crate) struct Make {
    pub(crate) path: PathBuf,
    /// The size that the file is to have, in bytes.
    pub(crate) bytes: u64,
    /// The file's old content may be lost, and its place is not checked.
    pub(crate) force: bool,
    /// Files and devices in use already, each with its use.
    pub(crate) known: Vec<(Identity, String)>,
}

impl Make {
    /// Makes the file, with room for all of it, and opens it. Makes the file with `content`, or with zeroes, which
    /// are not a bitmap. Waits for the file system.
    pub(crate) fn make(&self, content: Option<&[u8]>) -> Result<MadeBitmap, Failure> {
        let path = &*self.path;
        let reported = |source| Failure::system(path.display().to_string(), source);
        if let Ok(found) = std::fs::metadata(path) {
            refuse_other_kinds(path, &found)?;
            refuse_known(path, &self.known)?;
            if !self.force {
                let path = path.display();
                return Err(Failure::Refused(format!(
                    "{path}: it is there already; name another file, or use --force to have it overwritten"
                )));
            }
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let device = std::fs::metadata(folder).map_err(reported)?.dev();
        if let Some(nbd) = nbd_below(Path::new(DEVICES), device).filter(|_| !self.force) {
            return Err(Failure::Refused(format!(
                "{}: it lies on {nbd}, which may be this array: a bitmap can't be on its own array; name a file elsewhere, or use \
                 --force if {nbd} is another",
                path.display()
            )));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let new = options.clone().create_new(true).open(path);
        let (mut file, is_new) = match new {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                (options.open(path).map_err(reported)?, false)
            }
            new => (new.map_err(reported)?, true),
        };
        let filled = self.fill(&mut file, content).and_then(|()| File::open(folder)?.sync_all());
        drop(file);
        let opened = filled.map_err(reported).and_then(|()| Ok(OpenDevice::open(path, DeviceAccess::Write)?));
        match opened {
            Ok(device) => Ok(MadeBitmap { path: self.path.clone(), device, is_new }),
            Err(why) => {
                if is_new {
                    let _ = std::fs::remove_file(path); // told of is what went wrong first
                }
                Err(why)
            }
        }
    }

    fn fill(&self, file: &mut File, content: Option<&[u8]>) -> io::Result<()> {
        lock(file)?;
        file.set_len(0)?;
        match rustix::fs::fallocate(&*file, FallocateFlags::empty(), 0, self.bytes) {
            Ok(()) => {}
            // A file system that can't reserve room gets it by writing.
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                file.write_all(&vec![0; self.bytes as usize])?;
            }
            Err(errno) => return Err(errno.into()),
        }
        if let Some(content) = content {
            io::Seek::rewind(file)?;
            file.write_all(content)?;
        }
        file.sync_all()
    }
}

fn lock(file: &File) -> io::Result<()> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(io::Error::other("another Brindle uses it")),
        locked => Ok(locked?),
    }
}

/// The NBD device that is this device, or lies below it, if there is one.
fn nbd_below(devices: &Path, device: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    nbd_of(&std::fs::canonicalize(devices.join(format!("{major}:{minor}"))).ok()?)
}

fn nbd_of(dir: &Path) -> Option<String> {
    if dir.join("partition").exists() {
        return nbd_of(dir.parent()?);
    }
    let name = dir.file_name()?.to_str()?;
    if name.starts_with("nbd") {
        return Some(name.to_owned());
    }
    let slaves = std::fs::read_dir(dir.join("slaves")).ok()?;
    slaves.flatten().find_map(|slave| nbd_of(&std::fs::canonicalize(slave.path()).ok()?))
}

/// Opens a bitmap's file to be kept, in whole pages: mdadm makes one that ends with the last bit.
fn open_kept(path: &Path) -> Result<OpenDevice, Failure> {
    let reported = |source| Failure::system(path.display().to_string(), source);
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(reported)?;
    lock(&file).map_err(reported)?;
    let len = file.metadata().map_err(reported)?.len();
    let whole = len.next_multiple_of(PAGE as u64);
    if len < whole {
        file.set_len(whole).and_then(|()| file.sync_all()).map_err(reported)?;
    }
    drop(file);
    Ok(OpenDevice::open(path, DeviceAccess::Write)?)
}

impl World {
    /// Looks at a file that was given for a bitmap, and is none of the members.
    pub(crate) fn look_at_bitmap(&self, path: &Path) -> Result<SeenBitmap, Failure> {
        let known = self.known().into_iter();
        let member = "a member, and can't have the bitmap too".to_owned();
        let known: Vec<_> = known.map(|(identity, _)| (identity, member.clone())).collect();
        let (label, path) = (path.display().to_string(), path.to_owned());
        self.ask(&label, move || {
            let seen = see_bitmap(&path)?;
            refuse_known(&path, &known)?;
            Ok(seen)
        })
    }

    /// Opens the file of an array's bitmap, to be kept.
    pub(crate) fn open_bitmap(&self, path: &Path) -> Result<MemberId, Failure> {
        self.add(path, self.keep_bitmap(path)?)
    }

    /// As [`World::open_bitmap`], for another world.
    pub(crate) fn keep_bitmap(&self, path: &Path) -> Result<OpenDevice, Failure> {
        let (label, file) = (path.display().to_string(), path.to_owned());
        self.ask(&label, move || open_kept(&file))
    }

    /// A file that was made for a bitmap is one of this world's from now on.
    pub(crate) fn take_bitmap(&self, made: MadeBitmap) -> Result<BitmapFile, Failure> {
        let id = self.add(&made.path, made.device)?;
        Ok(BitmapFile::open(made.path.display().to_string(), id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lies_on_an_nbd_device_whatever_is_between() {
        let dir = std::env::temp_dir().join(format!("brindle-below-{}", std::process::id()));
        let at = |path: &str| {
            let path = dir.join(path);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let (nbd, part, dm, sda) =
            (at("block/nbd3"), at("block/nbd3/nbd3p1"), at("block/dm-0"), at("block/sda"));
        std::fs::write(part.join("partition"), "1").unwrap();
        let slaves = at("block/dm-0/slaves");
        std::os::unix::fs::symlink(&part, slaves.join("nbd3p1")).unwrap();
        let devices = at("dev");
        for (number, target) in [("43:3", &nbd), ("43:4", &part), ("253:0", &dm), ("8:0", &sda)] {
            std::os::unix::fs::symlink(target, devices.join(number)).unwrap();
        }
        let below = |major, minor| nbd_below(&devices, rustix::fs::makedev(major, minor));
        for (major, minor) in [(43, 3), (43, 4), (253, 0)] {
            assert_eq!(below(major, minor).as_deref(), Some("nbd3"));
        }
        assert_eq!((below(8, 0), below(0, 33)), (None, None));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
