//! The superblocks and logs found on one device that may be a member.

use brindle_format::md::{
    Features, Probe, SUPERBLOCK_BYTES, Superblock, SuperblockError, Uuid, Version, probe_offsets,
};
use brindle_format::signature::Sample;
use brindle_format::signature::partitions::{Covering, covering};
use brindle_io::{Io, MemberId, MemberInfo, OpClass, OpError, PAGE, Pool};
use brindle_members::patience::Patience;

use super::bad_log_place;

/// A place where md's magic number was found on a device.
#[derive(Clone, Debug)]
pub struct Found {
    /// The metadata version of the place.
    pub version: Version,
    /// Byte of the device.
    pub offset: u64,
    /// The superblock there, or why it can't be trusted.
    pub superblock: Result<Superblock, SuperblockError>,
    /// The power went while it was written: of the roles in its table, one may be older or newer than the rest.
    pub torn: bool,
    /// The claims of a superblock that can't be used.
    pub claim: Option<Claim>,
}

/// The claims of a superblock that can't be used: it is damaged, or not as it should be on this device. Nothing proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The array of the device.
    pub array: Uuid,
    /// Its event count.
    pub events: u64,
}

impl Found {
    /// Parses `bytes`, read at `offset` of a device of `device_bytes`, as a superblock of this version.
    pub(crate) fn parse(version: Version, offset: u64, bytes: &[u8], device_bytes: u64) -> Self {
        let superblock = Superblock::parse(version, bytes, device_bytes);
        let mixed = superblock.as_ref().is_ok_and(Superblock::is_mixed);
        if (mixed || matches!(superblock, Err(SuperblockError::Checksum { .. })))
            && let Some(superblock) = Superblock::parse_torn(version, bytes, device_bytes)
        {
            return Self { version, offset, superblock: Ok(superblock), torn: true, claim: None };
        }
        let claimed = || Superblock::claimed(version, bytes);
        let claim =
            superblock.is_err().then(claimed).flatten().map(|(array, events)| Claim { array, events });
        Self { version, offset, superblock, torn: false, claim }
    }
}

/// A device that may be a member of an array, as its reader found it. Pure data: nothing is open here.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// How messages name the device: its path as the user gave it.
    pub label: String,
    /// The device's size and block sizes, as the reactor gives them.
    pub member: MemberInfo,
    /// Every place of the device that carries md's magic number, in the order of [`Version::ALL`].
    pub found: Vec<Found>,
}

impl Candidate {
    /// A candidate from the bytes at the places that [`probe_offsets`] names; places without a superblock are left
    /// out.
    pub fn from_blocks<'a>(
        label: impl Into<String>,
        member: MemberInfo,
        blocks: impl IntoIterator<Item = (Probe, &'a [u8])>,
    ) -> Self {
        let parse = |(probe, bytes): (Probe, &[u8])| {
            let found = Found::parse(probe.version, probe.offset, bytes, member.size);
            let nothing = matches!(
                found.superblock,
                Err(SuperblockError::NoMagic
                    | SuperblockError::Short { .. }
                    | SuperblockError::WrongVersion { .. })
            );
            (!nothing).then_some(found)
        };
        Self { label: label.into(), member, found: blocks.into_iter().filter_map(parse).collect() }
    }

    /// [`Candidate::from_blocks`] of the places that can be read.
    ///
    /// # Errors
    /// Why the first place can't be read that can't: that matters only where no other holds a superblock, since of most
    /// members all places but one are within the data.
    pub fn from_places<E>(
        label: impl Into<String>,
        member: MemberInfo,
        places: impl IntoIterator<Item = (Probe, Result<Vec<u8>, E>)>,
    ) -> Result<Self, E> {
        let (mut blocks, mut unread) = (Vec::new(), None);
        for (probe, bytes) in places {
            match bytes {
                Ok(bytes) => blocks.push((probe, bytes)),
                Err(error) => unread = unread.or(Some(error)),
            }
        }
        let blocks = blocks.iter().map(|(probe, bytes)| (*probe, &bytes[..]));
        let candidate = Self::from_blocks(label, member, blocks);
        match unread {
            Some(error) if candidate.found.is_empty() => Err(error),
            _ => Ok(candidate),
        }
    }

    /// Finds out whether the superblock at the device's end belongs to a partition. `read` are pages of the device
    /// that are known. Gives the next page to read, with its length; `None` once the answer is known.
    ///
    /// Only 0.90 needs this: 1.x records its place. The partition must also hold the bytes that the array uses, not
    /// just the superblock. So a table that was left on a disk when all of it became a member covers nothing
    /// (libblkid has the same rule; md has none).
    pub fn look_for_partition(&mut self, read: &[(u64, Vec<u8>)]) -> Option<(u64, usize)> {
        let is_old = |found: &&mut Found| matches!(found.version, Version::V0_90(_));
        let found = self.found.iter_mut().filter(is_old).find(|found| found.superblock.is_ok())?;
        let start = found.offset.saturating_sub(found.superblock.as_ref().ok()?.component_size);
        let range = start..found.offset.saturating_add(SUPERBLOCK_BYTES as u64);
        let pages: Vec<Sample<'_>> =
            read.iter().map(|(offset, bytes)| Sample { offset: *offset, bytes }).collect();
        match covering(self.member.size, self.member.logical_block.into(), range, &pages) {
            Covering::Nothing => None,
            Covering::Unread { offset, len } => Some((offset, len)),
            Covering::Partition(partition) => {
                let (number, table) = (partition.number, partition.table);
                found.superblock = Err(SuperblockError::OfPartition { number, table });
                None
            }
        }
    }

    /// Reads the superblocks of `member`, as [`Candidate::from_places`] has it. Needs one page of `pool` at a time.
    ///
    /// # Errors
    /// The device's error; [`OpError::Gone`] if the reactor has no such member.
    pub async fn read(
        io: &Io,
        pool: &Pool,
        member: MemberId,
        label: impl Into<String>,
    ) -> Result<Self, OpError> {
        let info = io.member_info(member).ok_or(OpError::Gone)?;
        let mut places: Vec<(Probe, Result<Vec<u8>, OpError>)> = Vec::new();
        for probe in probe_offsets(info.size) {
            // The two byte orders of 0.90 share a place.
            let known = places.last().filter(|(last, _)| last.offset == probe.offset);
            let bytes = match known {
                Some((_, bytes)) => bytes.clone(),
                None => read_place(io, pool, member, probe.offset, probe.len).await,
            };
            // A device that does not answer is not asked again: each further read would wait as long.
            if let Err(error @ (OpError::TimedOut | OpError::Gone)) = bytes {
                return Err(error);
            }
            places.push((probe, bytes));
        }
        let mut candidate = Self::from_places(label, info, places)?;
        let mut pages = Vec::new();
        while let Some((offset, len)) = candidate.look_for_partition(&pages) {
            // A place that can't be read shows no partition.
            let bytes = read_place(io, pool, member, offset, len).await.unwrap_or_else(|_| vec![0; len]);
            pages.push((offset, bytes));
        }
        Ok(candidate)
    }

    /// Why the superblock of a member can't be used, if it is there and damaged, with what it claims.
    pub fn damage(&self) -> Option<(&SuperblockError, Option<Claim>)> {
        let why = self.superblock().err().flatten().filter(|why| why.is_damage())?;
        Some((why, self.found.first().and_then(|found| found.claim)))
    }

    /// The superblock that counts: of several that can be trusted the one created last, as mdadm chooses, or another of
    /// the same array by which it was used since; if none can be trusted, why the first can't.
    ///
    /// # Errors
    /// `None`: there is no superblock at all.
    pub fn superblock(&self) -> Result<(&Superblock, u64), Option<&SuperblockError>> {
        self.counting().map(|(superblock, found)| (superblock, found.offset))
    }

    pub(crate) fn counting(&self) -> Result<(&Superblock, &Found), Option<&SuperblockError>> {
        // `min_by_key` keeps the first of equals, which is the less ambiguous place.
        let Some((newest, found)) = self.sound().min_by_key(|(sb, _)| core::cmp::Reverse(sb.created)) else {
            return Err(self.found.first().and_then(|f| f.superblock.as_ref().err()));
        };
        // An array that was used since one of two superblocks of it was made was used by the other.
        let used =
            |(sb, _): &(&Superblock, &Found)| sb.set_uuid == newest.set_uuid && sb.events > newest.events;
        Ok(self.sound().filter(used).max_by_key(|(sb, _)| sb.events).unwrap_or((newest, found)))
    }

    fn sound(&self) -> impl Iterator<Item = (&Superblock, &Found)> {
        self.found.iter().filter_map(|f| Some((f.superblock.as_ref().ok()?, f)))
    }

    /// The device's superblock of `version`, if its event count is not behind the one of the superblock that counts.
    pub(crate) fn unused_since(&self, version: Version) -> Option<(&Superblock, &Found)> {
        let (counting, _) = self.counting().ok()?;
        let is_as_new = |sb: &Superblock| sb.set_uuid == counting.set_uuid && sb.events >= counting.events;
        self.sound().find(|(sb, _)| sb.version == version && is_as_new(sb))
    }

    /// Takes superblocks of one array for those of another.
    pub(crate) fn rename(&mut self, from: Uuid, to: Uuid) {
        let superblocks = self.found.iter_mut().filter_map(|found| found.superblock.as_mut().ok());
        superblocks
            .filter(|superblock| superblock.set_uuid == from)
            .for_each(|superblock| superblock.set_uuid = to);
    }
}

/// The log of bad blocks of a device whose superblock says that there is something in it.
///
/// # Errors
/// The device's error.
pub(crate) async fn read_bad_log(
    io: &Io,
    id: MemberId,
    superblock: &Superblock,
) -> Result<Option<Vec<u8>>, OpError> {
    let used = superblock.features.contains(Features::BAD_BLOCKS);
    let Some((offset, len)) = bad_log_place(superblock).filter(|_| used) else { return Ok(None) };
    let buf = io.pool(len).alloc(len).await;
    let mut group = io.group_of(OpClass::Metadata);
    group.read(id, offset, &buf.all());
    group.submit_by(io.now().after(Patience::default().answer)).await.ok()?;
    Ok(Some(buf.bytes()[..len].to_vec()))
}

async fn read_place(
    io: &Io,
    pool: &Pool,
    member: MemberId,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, OpError> {
    let buf = pool.alloc(len.max(PAGE)).await;
    let mut group = io.group_of(OpClass::Metadata);
    group.read(member, offset, &buf.slice(0..len));
    group.submit_by(io.now().after(Patience::default().answer)).await.ok()?;
    Ok(buf.bytes()[..len].to_vec())
}
