//! A device that is to be added to a running array, and its earlier part in it by its superblocks.

use brindle_format::md::{SUPERBLOCK_BYTES, Superblock, display_uuid};
use brindle_io::{MemberId, OpError};
use uuid::Uuid;

use super::Superblocks;
use crate::assembly::{Candidate, read_bad_log};
use crate::reshape_sides::bad_blocks;
use brindle_array::ledger::{AddError, Looked, NewDevice};

/// A device that has been looked at: what it becomes is decided when it comes.
#[derive(Clone, Debug)]
pub(super) struct Newcomer {
    /// The name in messages.
    pub(super) label: String,
    /// The reactor's number.
    pub(super) id: MemberId,
    /// Bytes of the device.
    pub(super) bytes: u64,
    /// The device's identity, random; not recorded in 0.90.
    pub(super) uuid: Uuid,
    /// Offsets of md superblocks on the device. They are overwritten, so that the device has only one.
    pub(super) old_superblocks: Vec<u64>,
    /// The device's earlier part in this array.
    pub(super) former: Former,
    /// The device may become a spare if it can't be re-added.
    pub(super) or_spare: bool,
}

/// The superblocks that were found on a device, and its earlier part.
pub(super) struct Found {
    old_superblocks: Vec<u64>,
    former: Former,
}

/// The earlier part of a device in the array to which it is added.
#[derive(Clone, Debug)]
pub(super) enum Former {
    /// The device has never been part of this array.
    Stranger,
    /// Unknown: its superblock can't be relied on, since it was being written when the power went, or is not the only
    /// one.
    Unsure,
    /// The facts of its superblock.
    Device {
        /// The superblock.
        superblock: Box<Superblock>,
        /// The device's log of bad blocks, where the superblock says that there is something in it.
        bad_log: Option<Vec<u8>>,
    },
}

impl Superblocks {
    /// Reads the superblocks of a device that is to come.
    pub(super) async fn look(&self, device: &NewDevice, force: bool) -> Result<Looked, AddError> {
        let NewDevice { label, id, .. } = device;
        let device_error = |error| AddError::Device { label: label.clone(), error };
        let pool = self.io.pool(SUPERBLOCK_BYTES);
        let candidate = Candidate::read(&self.io, &pool, *id, label.as_str()).await.map_err(device_error)?;
        if let Ok((superblock, _)) = candidate.superblock()
            && superblock.set_uuid != self.identity.uuid
            && !force
        {
            let (array, name) = (display_uuid(superblock.set_uuid).to_string(), superblock.name.clone());
            return Err(AddError::Foreign { label: label.clone(), array, name });
        }
        let former = self.former(&candidate, *id).await.map_err(device_error)?;
        let looked = match &former {
            Former::Device { superblock, bad_log } => {
                let log = bad_log.as_deref().unwrap_or_default();
                let bad = bad_blocks(superblock, superblock.data_offset, log);
                Looked { data_offset: superblock.data_offset, bad }
            }
            _ => Looked::default(),
        };
        let old_superblocks = candidate.found.iter().map(|found| found.offset).collect();
        self.found.borrow_mut().insert(*id, Found { old_superblocks, former });
        Ok(looked)
    }

    /// A device that comes, with what was found on it.
    pub(super) fn newcomer(&self, device: NewDevice) -> Newcomer {
        let NewDevice { label, id, bytes, uuid, or_spare } = device;
        let found = self.found.borrow_mut().remove(&id);
        let Found { old_superblocks, former } =
            found.unwrap_or(Found { old_superblocks: Vec::new(), former: Former::Stranger });
        Newcomer { label, id, bytes, uuid, old_superblocks, former, or_spare }
    }

    /// The earlier part of a device in this array.
    async fn former(&self, candidate: &Candidate, id: MemberId) -> Result<Former, OpError> {
        let Ok((superblock, found)) = candidate.counting() else { return Ok(Former::Stranger) };
        if superblock.set_uuid != self.identity.uuid {
            return Ok(Former::Stranger);
        }
        if found.torn || candidate.found.len() > 1 {
            return Ok(Former::Unsure);
        }
        let bad_log = read_bad_log(&self.io, id, superblock).await?;
        Ok(Former::Device { superblock: Box::new(superblock.clone()), bad_log })
    }
}
