//! The file that an array is read into: sparse where the array has zeroes.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

use brindle_io::device::{DeviceAccess, Identity, OpenDevice};
use rustix::fs::FallocateFlags;

use crate::base::failure::Failure;

/// Zeroes are left out, or punched, in so many bytes at a time.
const GRAIN: usize = 64 << 10;

pub(super) struct Output {
    file: File,
    path: PathBuf,
    /// The file was made by this process: ranges that were not written read as zeroes.
    fresh: bool,
}

impl Output {
    /// Opens or makes a file for `size` bytes. An output that exists is overwritten only with --overwrite.
    pub(super) fn open(path: &Path, size: u64, over: bool, members: &[Identity]) -> Result<Self, Failure> {
        let fails = |source| Failure::output(path.display(), source);
        match File::options().read(true).write(true).create_new(true).open(path) {
            Ok(file) => {
                file.set_len(size).map_err(fails)?;
                return Ok(Self { file, path: path.to_owned(), fresh: true });
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fails(error)),
        }
        // A file of no bytes is not a device.
        if let Ok(device) = OpenDevice::open(path, DeviceAccess::Examine)
            && members.contains(&device.identity().of_whole())
        {
            return Err(Failure::Refused(format!(
                "{}: it is a member of the array: give another file to write to",
                path.display()
            )));
        }
        if !over {
            return Err(Failure::Refused(format!(
                "{}: it is there already; --overwrite writes over it, and its map (--map) goes on where an interrupted copy was",
                path.display()
            )));
        }
        let file = File::options().read(true).write(true).open(path).map_err(fails)?;
        let kind = file.metadata().map_err(fails)?.file_type();
        if kind.is_file() {
            file.set_len(size).map_err(fails)?;
        } else if kind.is_block_device() {
            let has =
                rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(|error| fails(error.into()))?;
            if has < size {
                let path = path.display();
                return Err(Failure::Refused(format!(
                    "{path}: it has {has} bytes, and {size} are to be written; name a larger one"
                )));
            }
        } else {
            return Err(Failure::Refused(format!(
                "{}: it is neither a file nor a block device; name one that is",
                path.display()
            )));
        }
        Ok(Self { file, path: path.to_owned(), fresh: false })
    }

    /// Writes bytes to a place; zeroes take no room where that can be.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let mut at = offset;
        let mut written = Ok(());
        for part in bytes.chunks(GRAIN) {
            let is_zero = part.iter().all(|byte| *byte == 0);
            let left_out = is_zero && (self.fresh || self.punch(at, part.len() as u64));
            if !left_out {
                written = written.and_then(|()| self.file.write_all_at(part, at));
            }
            at += part.len() as u64;
        }
        written.map_err(|source| Failure::output(self.path.display(), source))
    }

    /// Makes a range read as zeroes without writing them, if the file system can.
    fn punch(&self, offset: u64, len: u64) -> bool {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, flags, offset, len).is_ok()
    }

    /// Flushes the output to stable storage.
    pub(super) fn sync(&self) -> Result<(), Failure> {
        self.file.sync_data().map_err(|source| Failure::output(self.path.display(), source))
    }
}
