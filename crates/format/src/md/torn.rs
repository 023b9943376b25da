//! Superblocks in whose writing the power went.
//!
//! A drive writes a sector whole or not at all. A superblock of 0.90, and one of 1.x with more than 128 devices, has
//! several sectors, of which a cut leaves each old or new. The first one holds the checksum and all that changes with
//! every update; the others hold entries of the table of roles. Brindle changes one such entry at a time. So the
//! first sector, old or new, always belongs to a table that differs from the one on the device in one role at most.
//! In 0.90 there are two other cases. A device may take the place of a role, which changes two entries, and the copy
//! of the superblock's own entry if it is the superblock's own. Or the flags of the superblock's own device change,
//! which stand there twice.

use std::collections::BTreeSet;

use super::superblock::{RawBlock, Sum};
use super::{DeviceRole, Endian, SUPERBLOCK_BYTES, Superblock, Uuid, Version};
use super::{torn_v0, v0};
use crate::SECTOR;

/// Entries of a 1.x table that stand in the first sector, behind 256 bytes.
const IN_FIRST_SECTOR: usize = 128;
/// Tables that are tried at most: a hostile superblock must not cost more than some milliseconds.
const MOST_TRIES: usize = 8192;

impl Superblock {
    /// Reads a superblock whose checksum is wrong, if the cause is a power cut during its write. Its first sector
    /// must be, to the byte and with its checksum, that of a superblock that has another role for one device.
    ///
    /// All but [`roles`](Self::roles) is then what that first sector says, before or after the update. The roles are
    /// as found: the role of the device that was being changed may be the old or the new one. A role of the
    /// superblock's own device never changes so, except in 0.90: there the first sector gives its number, role and
    /// flags.
    pub fn parse_torn(version: Version, bytes: &[u8], device_bytes: u64) -> Option<Self> {
        let found = Self::parse_with(version, bytes, device_bytes, Sum::Ignored).ok()?;
        let first = bytes.get(..SECTOR as usize)?;
        if !version.is_v1() {
            return torn_v0::explained(&found, first);
        }
        let mut tried = found.clone();
        let mut explains = |(number, role): (usize, DeviceRole)| {
            let was = core::mem::replace(tried.roles.get_mut(number)?, role);
            let mut block = [0; SUPERBLOCK_BYTES];
            let encoded = tried.encode(&mut block).is_ok();
            *tried.roles.get_mut(number)? = was;
            (encoded && block.get(..first.len()) == Some(first)).then_some(block)
        };
        let whole = found.other_roles(IN_FIRST_SECTOR).take(MOST_TRIES).find_map(&mut explains)?;
        Some(Self { raw: RawBlock(Box::new(whole)), ..found })
    }

    /// A superblock of 0.90 with a true checksum that describes its own device in two ways: sums of words may be the same by chance
    /// where the power went while it took the place of a role. [`parse_torn`](Self::parse_torn) can tell.
    pub fn is_mixed(&self) -> bool {
        !self.version.is_v1() && !v0::copy_agrees(self)
    }

    /// The array and the event count that a superblock with a wrong checksum names. Nothing proves them: a reason to
    /// be careful, never one to use the device.
    ///
    /// `None` if there are too few bytes.
    pub fn claimed(version: Version, bytes: &[u8]) -> Option<(Uuid, u64)> {
        // `set_uuid` and `events` of `md_p.h` in either form.
        let long = |at: usize| bytes.get(at..)?.first_chunk::<8>().copied();
        let word = |at: usize| bytes.get(at..)?.first_chunk::<4>().copied();
        let Version::V0_90(endian) = version else {
            let uuid = bytes.get(16..)?.first_chunk::<16>()?;
            return Some((Uuid::from_bytes(*uuid), u64::from_le_bytes(long(200)?)));
        };
        let mut uuid = [0; 16];
        for (to, at) in uuid.chunks_exact_mut(4).zip([20, 52, 56, 60]) {
            to.copy_from_slice(&word(at)?);
            if endian == Endian::Little {
                to.reverse();
            }
        }
        let events = long(156)?;
        let events =
            if endian == Endian::Little { u64::from_le_bytes(events) } else { u64::from_be_bytes(events) };
        Some((Uuid::from_bytes(uuid), events))
    }

    /// The roles that other devices, from entry `beyond` of the table on, may have had before or after the torn
    /// write: faulty, spare, or unused, likely ones first. A change between spare and faulty is not tried: the
    /// checksum could not tell it from decay.
    fn other_roles(&self, beyond: usize) -> impl Iterator<Item = (usize, DeviceRole)> {
        let others = || {
            let all = self.roles.iter().enumerate().skip(beyond);
            all.filter(|(number, _)| u32::try_from(*number) != Ok(self.device_number))
        };
        let which = move |wanted: fn(DeviceRole) -> bool| {
            others().filter(move |(_, role)| wanted(**role)).map(|(number, _)| number)
        };
        let held: BTreeSet<u16> = self.roles.iter().filter_map(|role| role.active()).collect();
        let all = u16::try_from(self.all_raid_disks()).unwrap_or(u16::MAX);
        let (beside, vacant): (Vec<u16>, Vec<u16>) = (0..all).partition(|role| held.contains(role));
        let faulty = move || which(|role| role == DeviceRole::Faulty);
        let spare = move || which(|role| role == DeviceRole::Spare);
        let member = move || which(|role| role.active().is_some());
        let usual = faulty().filter_map(|number| Some((number, u16::try_from(number).ok()?)));
        let came = usual.filter(move |(_, role)| *role < all && !held.contains(role));
        let in_one_of = |roles: Vec<u16>| {
            move |number| roles.clone().into_iter().map(move |role| (number, DeviceRole::Active(role)))
        };
        let moved = faulty().chain(spare()).flat_map(in_one_of(vacant));
        let to = |role| move |number| (number, role);
        member()
            .map(to(DeviceRole::Faulty))
            .chain(came.map(|(number, role)| (number, DeviceRole::Active(role))))
            .chain(moved)
            // A member that fails while its replacement has the role, too.
            .chain(faulty().flat_map(in_one_of(beside)))
            .chain(member().map(to(DeviceRole::Spare)))
    }

    /// The bytes that this was parsed from; zeroes in a new one. Of a torn one, those of the superblock that its first
    /// sector tells of.
    pub fn bytes(&self) -> &[u8; SUPERBLOCK_BYTES] {
        &self.raw.0
    }
}
