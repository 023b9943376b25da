//! The neutral superblock: one struct for 0.90 and 1.x.

use core::fmt;

use super::{DEFAULT_MAX_DEV_1, DeviceRole, Endian, Features, SUPERBLOCK_BYTES, Uuid, Version};

/// A moment as md records it: seconds since 1970 (40 bits in 1.x, 32 in 0.90) and microseconds (24 bits, 1.x only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 UTC.
    pub seconds: u64,
    /// Microseconds; 0 where the version does not keep them.
    pub micros: u32,
}

/// Flags of one device of a 1.x array; in 0.90 they stand in the device table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DeviceFlags {
    /// Read from this member only when no other can answer (RAID 1).
    pub write_mostly: bool,
    /// Fail requests to this member at once instead of retrying.
    pub failfast: bool,
}

/// Where a member keeps its list of bad blocks (1.x).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BadBlockLog {
    /// Bytes from the start of the superblock to the log; may be negative.
    pub offset: i64,
    /// Bytes reserved for the log.
    pub size: u64,
    /// Log2 of the sectors that one unit of an entry stands for; mdadm writes 0.
    pub shift: u8,
}

/// Where a member keeps its partial parity log (1.x, RAID 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ppl {
    /// Bytes from the start of the superblock to the log; may be negative.
    pub offset: i64,
    /// Bytes of the log.
    pub size: u64,
}

/// A reshape under way: old geometry on one side of `position`, new on the other.
///
/// Until its end the superblock's own `level`, `layout` and `chunk` are those of the old geometry; `raid_disks` counts
/// the members of the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reshape {
    /// Byte of the array up to which the reshape has come (from which it still has to go, if it runs backwards).
    pub position: u64,
    /// Level after the reshape.
    pub new_level: i32,
    /// Layout after the reshape.
    pub new_layout: u32,
    /// Chunk after the reshape, bytes.
    pub new_chunk: u64,
    /// New number of raid disks minus the old; negative when the array shrinks.
    pub delta_disks: i32,
    /// Bytes by which the data of this member move, if they do (`NEW_OFFSET`).
    pub new_offset: Option<i64>,
}

/// A superblock of any version, every size and offset in bytes and checked.
///
/// The block it was parsed from is kept inside: [`encode`](Self::encode) changes only what differs from it, so bytes
/// that this crate does not know survive a rewrite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Version; decides the place and the form.
    pub version: Version,
    /// Identity of the array. For 0.90 the four words, each most significant byte first, whatever the byte order of
    /// the superblock: then [`display_uuid`](super::display_uuid) shows what mdadm shows.
    pub set_uuid: Uuid,
    /// Name, `host:name` as a rule (see [`split_name`](super::split_name)); empty in 0.90. Bytes that are no UTF-8
    /// are shown as U+FFFD, and kept on disk as long as the name is not changed.
    pub name: String,
    /// When the array was created.
    pub created: Timestamp,
    /// When this superblock was last written.
    pub updated: Timestamp,
    /// Level as md counts it: -1 linear, 0, 1, 4, 5, 6, 10.
    pub level: i32,
    /// Layout, whose meaning depends on the level.
    pub layout: u32,
    /// Chunk, bytes; 0 for RAID 1. For linear, the rounding of member sizes.
    pub chunk: u64,
    /// Members of the complete array. While a reshape is under way: those of the new geometry
    /// ([`old_raid_disks`](Self::old_raid_disks) has the others).
    pub raid_disks: u32,
    /// Bytes that the array uses of each member; 0 for linear and RAID 0, which use all of each ([`data_size`](Self::data_size)).
    pub component_size: u64,
    /// Byte of the device at which its data start; 0 in 0.90.
    pub data_offset: u64,
    /// Bytes usable for data from there on.
    pub data_size: u64,
    /// Byte of the device at which the superblock stands.
    pub super_offset: u64,
    /// Event count: grows with every change of state; a member that lags has missed something.
    pub events: u64,
    /// Identity of this device; nil in 0.90.
    pub device_uuid: Uuid,
    /// Number of this device: index into [`roles`](Self::roles).
    pub device_number: u32,
    /// Role of every device by number. In 1.x its length is the superblock's `max_dev`.
    pub roles: Vec<DeviceRole>,
    /// Byte of each member up to which redundancy is known to agree; `None`: everywhere (the array is clean).
    pub resync_offset: Option<u64>,
    /// Byte of this member (from `data_offset`) up to which it has been recovered; `None`: fully.
    pub recovery_offset: Option<u64>,
    /// Feature bits. On encoding, the bits that say whether an `Option` of this struct is present (`BITMAP_OFFSET`,
    /// `RECOVERY_OFFSET`, `RESHAPE_ACTIVE`, `NEW_OFFSET`) follow that option.
    pub features: Features,
    /// Bytes from the start of the superblock to the write-intent bitmap; may be negative. In 0.90 always 4096.
    pub bitmap_offset: Option<i64>,
    /// Space reserved for the list of bad blocks.
    pub bad_block_log: Option<BadBlockLog>,
    /// Partial parity log, if `PPL` or `MULTIPLE_PPLS` is set.
    pub ppl: Option<Ppl>,
    /// Byte of the journal device, from `data_offset`, at which replay starts, if this device is the journal.
    pub journal_tail: Option<u64>,
    /// Reshape under way.
    pub reshape: Option<Reshape>,
    /// Flags of this device.
    pub flags: DeviceFlags,
    /// Read errors of this device that were corrected by writing the data back (1.x).
    pub corrected_reads: u32,
    /// Logical block size of the array, bytes; 0 if never set. Kernels from 6.19 write it, kernels up to 6.18 refuse
    /// a superblock that has it. It has no feature bit.
    pub logical_block_size: u32,
    /// The bytes from which this was parsed; zeroes in a new one.
    pub(super) raw: RawBlock,
}

/// Whether a superblock's checksum must be right.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    /// The checksum must be right.
    Checked,
    /// The checksum is not checked: the caller has another proof, or needs none; see [`Superblock::parse_torn`] and
    /// [`Superblock::claimed`].
    Ignored,
}

/// The block from which a superblock was parsed, so that a rewrite keeps what it does not know.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RawBlock(pub(super) Box<[u8; SUPERBLOCK_BYTES]>);

/// Zero-filled if there are fewer bytes than a block.
impl From<&[u8]> for RawBlock {
    fn from(bytes: &[u8]) -> Self {
        let mut block = Box::new([0; SUPERBLOCK_BYTES]);
        for (to, from) in block.iter_mut().zip(bytes) {
            *to = *from;
        }
        Self(block)
    }
}

/// Leaves out the 4096 bytes, which would hide the fields.
impl fmt::Debug for RawBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl Superblock {
    /// An empty superblock of `version` for a device of `device_bytes`: fields at their neutral values, table of
    /// roles empty (0.90) or of the length that mdadm gives up to 128 devices,
    /// all spare (1.x). `None` if the device is too small.
    ///
    /// The event count starts at 1: kernels from 6.19 stamp a logical block size into arrays whose count is 0, and
    /// older kernels then refuse them.
    pub fn new(version: Version, device_bytes: u64) -> Option<Self> {
        let super_offset = version.superblock_offset(device_bytes)?;
        let roles = if version.is_v1() { vec![DeviceRole::Spare; DEFAULT_MAX_DEV_1] } else { Vec::new() };
        Some(Self {
            version,
            set_uuid: Uuid::nil(),
            name: String::new(),
            created: Timestamp::default(),
            updated: Timestamp::default(),
            level: 0,
            layout: 0,
            chunk: 0,
            raid_disks: 0,
            component_size: 0,
            data_offset: 0,
            data_size: 0,
            super_offset,
            events: 1,
            device_uuid: Uuid::nil(),
            device_number: 0,
            roles,
            resync_offset: Some(0),
            recovery_offset: None,
            features: Features::NONE,
            bitmap_offset: None,
            bad_block_log: None,
            ppl: None,
            journal_tail: None,
            reshape: None,
            flags: DeviceFlags::default(),
            corrected_reads: 0,
            logical_block_size: 0,
            raw: RawBlock::from(&[][..]),
        })
    }

    /// Role of this device: its entry in the table, spare if it has none (as the kernel takes it).
    pub fn role(&self) -> DeviceRole {
        self.role_of(self.device_number)
    }

    /// Role of the device with that number, spare if the table does not reach it. A number that no device has reads as the
    /// kernel reads it: faulty if it is that of a role, else spare.
    pub fn role_of(&self, device_number: u32) -> DeviceRole {
        let entry = usize::try_from(device_number).ok().and_then(|n| self.roles.get(n)).copied();
        match entry.unwrap_or(DeviceRole::Spare) {
            DeviceRole::Vacant if device_number < self.raid_disks => DeviceRole::Faulty,
            DeviceRole::Vacant => DeviceRole::Spare,
            role => role,
        }
    }

    /// The value in the table of roles for a number without a device.
    pub fn unused(&self) -> DeviceRole {
        if self.version.is_v1() { DeviceRole::Spare } else { DeviceRole::Vacant }
    }

    /// Takes note of what this has been [encoded](Self::encode) to, and written: the next rewrite changes what differs from that.
    pub fn written(&mut self, block: &[u8; SUPERBLOCK_BYTES]) {
        *self.raw.0 = *block;
    }

    /// The array's UUID as its write-intent bitmaps carry it: for 0.90 each word in the byte order of the host.
    pub fn bitmap_uuid(&self) -> Uuid {
        let mut bytes = self.set_uuid.into_bytes();
        if self.version == Version::V0_90(Endian::Little) {
            bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        }
        Uuid::from_bytes(bytes)
    }

    /// Checksum as it stood in the bytes from which this was parsed; 0 in a new one.
    pub fn checksum(&self) -> u32 {
        // `sb_csum` of `md_p.h` in either form.
        let at = if self.version.is_v1() { 216 } else { 152 };
        let bytes = self.raw.0.get(at..).and_then(<[u8]>::first_chunk::<4>).copied().unwrap_or_default();
        match self.version {
            Version::V0_90(Endian::Big) => u32::from_be_bytes(bytes),
            _ => u32::from_le_bytes(bytes),
        }
    }

    /// Whether the redundancy of the whole array is known to agree.
    pub fn is_clean(&self) -> bool {
        self.resync_offset.is_none()
    }

    /// Members of the geometry that a reshape under way comes from; `raid_disks` if there is none.
    pub fn old_raid_disks(&self) -> u32 {
        let delta = self.reshape.map_or(0, |reshape| reshape.delta_disks);
        self.raid_disks.checked_sub_signed(delta).unwrap_or(0)
    }

    /// Byte of the device at which its data start once a reshape under way has moved them.
    pub fn new_data_offset(&self) -> u64 {
        let shift = self.reshape.and_then(|reshape| reshape.new_offset).unwrap_or(0);
        self.data_offset.saturating_add_signed(shift)
    }

    /// Whether a reshape under way moves from the array's end to its start: always if the array shrinks.
    pub fn reshapes_backwards(&self) -> bool {
        let shrinks = self.reshape.is_some_and(|reshape| reshape.delta_disks < 0);
        shrinks || self.features.contains(Features::RESHAPE_BACKWARDS)
    }

    /// Roles that members may fill: while a reshape is under way, those of its larger side.
    pub fn all_raid_disks(&self) -> u32 {
        self.raid_disks.max(self.old_raid_disks())
    }

    /// Number of the device that fills `role`, if one does.
    pub fn device_in_role(&self, role: u16) -> Option<u32> {
        let n = self.roles.iter().position(|r| *r == DeviceRole::Active(role))?;
        u32::try_from(n).ok()
    }
}
