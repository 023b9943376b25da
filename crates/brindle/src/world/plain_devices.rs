//! Devices that are no members of an array: what stands on them is the caller's affair.

use std::path::Path;

use brindle_io::MemberId;
use brindle_io::device::DeviceAccess;

use super::members::open_other;
use super::{World, emulate};
use crate::failure::Failure;

impl World {
    /// Opens a device, whatever stands on it; it must be another than those that are open.
    pub(crate) fn open_bare(&self, path: &Path, access: DeviceAccess) -> Result<MemberId, Failure> {
        emulate::check(path)?;
        let (known, label, named) = (self.known(), path.display().to_string(), path.to_owned());
        let device = self.ask(&label, move || open_other(&named, access, &known))?;
        self.add(path, device)
    }
}
