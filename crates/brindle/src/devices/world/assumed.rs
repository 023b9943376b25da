//! Arrays whose superblocks are lost, with the geometry that was given by hand. Such an array is only read.

use std::path::PathBuf;
use std::sync::OnceLock;

use brindle_format::md::{DeviceRole, Features, Superblock, Uuid, Version};
use brindle_layout::Level;
use brindle_md::assembly::Found;
use sha2::{Digest, Sha256};

use super::geometry::Assume;
use super::{Named, Set};
use crate::base::failure::Failure;
use crate::base::units::Bytes;

/// The geometry that was given by hand, for every world of this process.
static CHOICE: OnceLock<Assume> = OnceLock::new();

/// Sets the assumed geometry. Called before the first world is made.
pub(crate) fn assume(given: Option<&Assume>) {
    if let Some(given) = given {
        CHOICE.get_or_init(|| given.clone());
    }
}

/// The geometry that was given by hand.
pub(super) fn given() -> Option<&'static Assume> {
    CHOICE.get()
}

/// The byte of each member at which its data end, if that was given by hand.
pub(super) fn end() -> Option<u64> {
    let given = given()?;
    given.size?.checked_add(given.offset)
}

/// The members that were named, in the order of their roles.
pub(super) fn names(given: &Assume) -> Vec<PathBuf> {
    given.order.iter().flatten().cloned().collect()
}

/// Gives members the roles that were given by hand, whatever their superblocks say.
pub(super) fn put_on(given: &Assume, set: &mut Set) -> Result<(), Failure> {
    let used = used(given, &set.members)?;
    for named in &mut set.members {
        let filled = given
            .order
            .iter()
            .position(|name| name.as_ref().is_some_and(|name| name.display().to_string() == named.label));
        // A disk stands for the members in its partitions.
        let Some(role) = filled else {
            return Err(Failure::Usage(format!(
                "--assume: {} is inside of what was named: name the partition, as in DISK#3, or DISK@OFFSET",
                named.label
            )));
        };
        let superblock = superblock(given, named, role as u16, used)?;
        let offset = superblock.super_offset;
        named.candidate.found = vec![Found {
            version: superblock.version,
            offset,
            superblock: Ok(superblock),
            torn: false,
            claim: None,
        }];
    }
    Ok(())
}

/// Bytes that the array uses of each member.
fn used(given: &Assume, members: &[Named]) -> Result<u64, Failure> {
    let mut least = u64::MAX;
    for named in members {
        let has = named.info.size.saturating_sub(given.offset);
        if has == 0 || given.size.is_some_and(|size| size > has) {
            let wants = given.size.map_or_else(|| "data".to_owned(), |size| Bytes(size).to_string());
            return Err(Failure::Usage(format!(
                "--assume: {} has {} bytes, which leaves no room for {wants} from byte {} on; cat --force and serve --read-only \
                 --force read it as far as it goes",
                named.label, named.info.size, given.offset
            )));
        }
        least = least.min(has);
    }
    let used = given.size.unwrap_or(least);
    Ok(used - used % given.chunk.max(4096))
}

/// The superblock that a member would have.
fn superblock(given: &Assume, named: &Named, role: u16, used: u64) -> Result<Superblock, Failure> {
    let mut superblock = Superblock::new(Version::V1_2, named.info.size)
        .ok_or_else(|| Failure::Usage(format!("--assume: {} is too small for a member", named.label)))?;
    let is_filled = |(role, name): (u16, &Option<PathBuf>)| match name {
        Some(_) => DeviceRole::Active(role),
        None => DeviceRole::Faulty,
    };
    superblock.set_uuid = uuid(&given.text, None);
    superblock.device_uuid = uuid(&given.text, Some(role));
    superblock.device_number = role.into();
    superblock.roles = (0u16..).zip(&given.order).map(is_filled).collect();
    superblock.level = given.level.md_number();
    superblock.layout = given.layout.md_number();
    superblock.chunk = given.chunk;
    superblock.raid_disks = given.order.len() as u32;
    superblock.data_offset = given.offset;
    superblock.data_size =
        if given.level.is_redundant() { used } else { given.size.unwrap_or(named.info.size - given.offset) };
    // Redundancy is taken as in sync, since no record says otherwise: the data of a lost member are computed.
    superblock.resync_offset = None;
    superblock.component_size = if given.level.is_redundant() { used } else { 0 };
    if given.level == Level::Raid0 {
        superblock.features |= Features::RAID0_LAYOUT;
    }
    Ok(superblock)
}

/// The UUID derived from the text of `--assume`. Equal texts give equal UUIDs, so that an interrupted copy can go on.
fn uuid(text: &str, role: Option<u16>) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(text);
    hash.update([u8::from(role.is_some())]);
    hash.update(role.unwrap_or(0).to_le_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    Uuid::from_bytes(bytes)
}
