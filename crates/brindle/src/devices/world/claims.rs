//! Opens devices for use that another world has only looked at.

use std::path::PathBuf;

use brindle_io::MemberId;
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_volume::nest;

use super::members::NESTED_SLOTS;
use super::{Cut, Named, Nested, Opened, Set, World, place};
use crate::base::failure::Failure;

impl World {
    /// Opens for use what another world has only looked at. No superblock is looked for again: `brindle_md::open` makes sure
    /// that each is still the one that was assembled. A device that did not answer there is asked nothing here.
    pub(crate) fn claim(&mut self, found: Set, look: &World, access: DeviceAccess) -> Result<Set, Failure> {
        let mut set = Set { left_out: found.left_out, bitmap: found.bitmap, ..Set::default() };
        for nested in found.nested {
            set.nested.push(self.claim_array(nested, look, access)?);
        }
        for nested in found.unused {
            set.unused.push(self.claim_array(nested, look, DeviceAccess::Read)?);
        }
        for named in found.members {
            let array = set.nested.iter().chain(&set.unused).find(|nested| nested.label == named.label);
            let id = match array {
                Some(nested) => nest::serve(&self.io, nested.array.clone(), NESTED_SLOTS),
                None => self.claim_device(look.device(named.id), named.info.size, access)?,
            };
            set.members.push(Named { id, ..named });
        }
        Ok(set)
    }

    fn claim_array(&mut self, found: Nested, look: &World, access: DeviceAccess) -> Result<Nested, Failure> {
        let mut members = Vec::with_capacity(found.members.len());
        for named in found.members {
            let id = self.claim_device(look.device(named.id), named.info.size, access)?;
            members.push(Named { id, ..named });
        }
        self.options.access = access;
        let array = self.start(&found.assembled, &members)?;
        Ok(Nested { array, members, ..found })
    }

    /// `size`: the bytes that the device is assumed to have.
    fn claim_device(
        &mut self,
        found: Option<Opened>,
        size: u64,
        access: DeviceAccess,
    ) -> Result<MemberId, Failure> {
        let (path, opened) = self.open_again(found, size, access)?;
        self.add(&path, opened)
    }

    /// Opens a device that was looked at for a use in another world.
    pub(crate) fn reopen(
        &self,
        named: &Named,
        access: DeviceAccess,
    ) -> Result<(PathBuf, OpenDevice), Failure> {
        self.open_again(self.device(named.id), named.info.size, access)
    }

    fn open_again(
        &self,
        found: Option<Opened>,
        size: u64,
        access: DeviceAccess,
    ) -> Result<(PathBuf, OpenDevice), Failure> {
        let Some(found) = found else {
            return Err(Failure::Refused("a member is gone: it was closed after a failure".into()));
        };
        let (path, identity, label) = (found.path.clone(), found.identity, found.path.display().to_string());
        let cut = self.options.cut;
        let opened = self.ask(&label, move || {
            let mut device = place::open(&path, access)?;
            if device.identity() == identity {
                if cut != Cut::Refused {
                    device.stretch(size);
                }
                return Ok(device);
            }
            Err(Failure::Refused(format!(
                "{}: it was replaced by another file just now; try again",
                path.display()
            )))
        })?;
        Ok((found.path, opened))
    }
}
