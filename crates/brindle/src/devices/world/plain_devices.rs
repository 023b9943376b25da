//! Devices that are no members of an array: their content is the caller's affair.

use std::path::Path;

use brindle_io::MemberId;
use brindle_io::device::{DeviceAccess, OpenDevice};

use super::members::open_other;
use super::{Named, PIECE, World, emulate};
use crate::base::failure::Failure;

impl World {
    /// Opens a device, whatever its content; it must be none of the devices that are open.
    pub(crate) fn open_bare(&self, path: &Path, access: DeviceAccess) -> Result<MemberId, Failure> {
        self.add(path, self.open_other(path, access)?)
    }

    /// As [`World::open_bare`], for another world.
    pub(crate) fn open_other(&self, path: &Path, access: DeviceAccess) -> Result<OpenDevice, Failure> {
        emulate::check(path)?;
        let (known, label, named) = (self.known(), path.display().to_string(), path.to_owned());
        self.ask(&label, move || open_other(&named, access, &known))
    }

    /// Writes zeroes over a range of a device, in whole logical blocks, so that they are there after a power cut.
    pub(crate) fn zero(&self, member: &Named, from: u64, to: u64) -> Result<(), Failure> {
        let block = u64::from(member.info.logical_block);
        let (from, to) = (from / block * block, to / block * block);
        (from..to).step_by(PIECE).try_for_each(|at| {
            let len = (to - at).min(PIECE as u64);
            self.put(member.id, &member.label, at, &vec![0; len as usize])
        })
    }

    /// Writes a piece of a device, of whole logical blocks, so that it is there after a power cut.
    pub(crate) fn put(&self, id: MemberId, label: &str, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.io.block_on(async {
            let buf = self.metadata.alloc(bytes.len()).await;
            buf.bytes_mut().copy_from_slice(bytes);
            let mut group = self.io.group();
            group.write(id, at, &buf.all(), true);
            let written = group.submit().await.ok();
            written.map_err(|error| Failure::output(label, std::io::Error::other(error)))
        })
    }
}
