//! What was found on one device that may be a member.

use brindle_format::md::{Probe, Superblock, SuperblockError, Version, probe_offsets};
use brindle_io::{Io, MemberId, MemberInfo, OpError, PAGE, Pool};

/// A place where md's magic number was found on a device.
#[derive(Clone, Debug)]
pub struct Found {
    /// The metadata version of the place.
    pub version: Version,
    /// Byte of the device.
    pub offset: u64,
    /// The superblock there, or why it can't be trusted.
    pub superblock: Result<Superblock, SuperblockError>,
}

/// A device that may be a member of an array, as its reader found it. Pure data: nothing is open here.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// How messages name the device: its path as the user gave it.
    pub label: String,
    /// What the reactor knows of the device.
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
            let superblock = Superblock::parse(probe.version, bytes, member.size);
            let nothing = matches!(
                superblock,
                Err(SuperblockError::NoMagic
                    | SuperblockError::Short { .. }
                    | SuperblockError::WrongVersion { .. })
            );
            (!nothing).then_some(Found { version: probe.version, offset: probe.offset, superblock })
        };
        Self { label: label.into(), member, found: blocks.into_iter().filter_map(parse).collect() }
    }

    /// Reads the superblocks of `member`. Needs one page of `pool` at a time.
    ///
    /// # Errors
    /// What the device answers; [`OpError::Gone`] if the reactor has no such member.
    pub async fn read(
        io: &Io,
        pool: &Pool,
        member: MemberId,
        label: impl Into<String>,
    ) -> Result<Self, OpError> {
        let info = io.member_info(member).ok_or(OpError::Gone)?;
        let mut blocks = Vec::new();
        for probe in probe_offsets(info.size) {
            // The two byte orders of 0.90 share a place.
            if let Some((_, bytes)) =
                blocks.last().filter(|(last, _): &&(Probe, Vec<u8>)| last.offset == probe.offset)
            {
                let bytes = bytes.clone();
                blocks.push((probe, bytes));
                continue;
            }
            let buf = pool.alloc(probe.len.max(PAGE)).await;
            let mut group = io.group();
            group.read(member, probe.offset, &buf.slice(0..probe.len));
            group.submit().await.ok()?;
            let bytes = buf.bytes()[..probe.len].to_vec();
            blocks.push((probe, bytes));
        }
        Ok(Self::from_blocks(label, info, blocks.iter().map(|(probe, bytes)| (*probe, &bytes[..]))))
    }

    /// The superblock that counts: of several that can be trusted the one created last, as mdadm chooses; if none
    /// can be trusted, why the first can't.
    ///
    /// # Errors
    /// `None`: there is no superblock at all.
    pub fn superblock(&self) -> Result<(&Superblock, u64), Option<&SuperblockError>> {
        let sound = self.found.iter().filter_map(|f| Some((f.superblock.as_ref().ok()?, f.offset)));
        // `min_by_key` keeps the first of equals, which is the less ambiguous place.
        match sound.min_by_key(|(sb, _)| core::cmp::Reverse(sb.created)) {
            Some(found) => Ok(found),
            None => Err(self.found.first().and_then(|f| f.superblock.as_ref().err())),
        }
    }
}
