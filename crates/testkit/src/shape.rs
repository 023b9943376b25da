//! Arrays on paper: from a level and a number of members to superblocks.

use brindle_format::md::{DeviceRole, Endian, SUPERBLOCK_BYTES, Superblock, Uuid, Version, probe_offsets};
use brindle_io::MemberInfo;
use brindle_layout::{Layout, Level};
use brindle_md::assembly::Candidate;
use brindle_md::create::{CreateSpec, NewBitmap, NewMember, Plan, plan};

const MIB: u64 = 1 << 20;

/// The versions that can be created.
pub const VERSIONS: [Version; 4] =
    [Version::V0_90(Endian::Little), Version::V1_0, Version::V1_1, Version::V1_2];

/// The facts of a device with 512-byte sectors.
pub fn info(size: u64) -> MemberInfo {
    MemberInfo {
        size,
        logical_block: 512,
        physical_block: 512,
        rotational: false,
        discard: true,
        write_zeroes: true,
    }
}

/// Device `n` of a new array.
pub fn new_member(n: usize, size: u64) -> NewMember {
    NewMember {
        label: format!("disk{n}"),
        info: info(size),
        uuid: Uuid::from_u128(0x100 + n as u128),
        old_superblocks: Vec::new(),
        flags: Default::default(),
    }
}

/// An array of `members` devices of 8 MiB with chunks of 64 KiB, said to be in sync.
pub fn spec(level: Level, members: usize, version: Version) -> CreateSpec {
    CreateSpec {
        version,
        level,
        layout: None,
        chunk: (!matches!(level, Level::Raid1 | Level::Linear)).then_some(64 << 10),
        size: None,
        data_offset: None,
        bitmap: NewBitmap::None,
        write_behind: 0,
        name: if version.is_v1() { "data".into() } else { String::new() },
        homehost: Some("host".into()),
        roles: (0..members).map(|n| Some(new_member(n, 8 * MIB))).collect(),
        spares: Vec::new(),
        assume_clean: true,
        uuid: Uuid::from_u128(0xabcd),
        now: 1_700_000_000,
    }
}

/// The devices of an array in their order: roles, then spares.
pub fn given(spec: &CreateSpec) -> Vec<NewMember> {
    spec.roles.iter().flatten().chain(&spec.spares).cloned().collect()
}

/// The writes that make the array.
///
/// # Panics
/// If it can't be made.
pub fn planned(spec: &CreateSpec) -> Plan {
    plan(spec).unwrap_or_else(|error| panic!("{error}"))
}

/// The superblocks of the array, as they will be read from its devices, in their order.
///
/// # Panics
/// If it can't be made.
pub fn superblocks(spec: &CreateSpec) -> Vec<Superblock> {
    let plan = planned(spec);
    let parse = |(m, w): (&NewMember, &brindle_md::create::PlannedWrite)| {
        Superblock::parse(spec.version, &w.bytes, m.info.size).unwrap()
    };
    given(spec).iter().zip(&plan.superblocks).map(parse).collect()
}

/// A superblock as it stands on a device.
///
/// # Panics
/// If it can't be encoded.
pub fn encoded(sb: &Superblock) -> Vec<u8> {
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    sb.encode(&mut bytes).unwrap();
    bytes
}

/// A device of `size` bytes that carries one superblock.
pub fn candidate(label: &str, sb: &Superblock, size: u64) -> Candidate {
    device(label, size, &[(sb.super_offset, encoded(sb))])
}

/// A device of `size` bytes that carries blocks at offsets, and zeroes elsewhere.
pub fn device(label: &str, size: u64, blocks: &[(u64, Vec<u8>)]) -> Candidate {
    let zeroes = vec![0; SUPERBLOCK_BYTES];
    let at = |offset| blocks.iter().find(|(at, _)| *at == offset).map_or(&zeroes, |(_, bytes)| bytes);
    Candidate::from_blocks(label, info(size), probe_offsets(size).map(|p| (p, &at(p.offset)[..])))
}

/// An array for storms: small, so that a run takes a millisecond, with several rows.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Level.
    pub level: Level,
    /// Layout; `None` for mdadm's choice.
    pub layout: Option<Layout>,
    /// Members.
    pub members: usize,
    /// Chunk, bytes; of RAID 1 the unit in which its size is counted.
    pub chunk: u64,
    /// Chunks of each member.
    pub rows: u64,
    /// Version of the metadata.
    pub version: Version,
    /// Entries of the table of roles (1.x): from 129 on a superblock takes more than one sector. 0: mdadm's choice. The
    /// members are the last in the table, so that the loss of one changes two sectors of a long one.
    pub table: usize,
    /// Redundancy is in sync from the start.
    pub in_sync: bool,
    /// Devices that wait, after the members.
    pub spares: usize,
    /// Bytes to a bit of the write-intent bitmap, if there is one.
    pub bitmap: Option<u64>,
    /// The bitmap stands in a file: [`Shape::bitmap_file`].
    pub filed: bool,
    /// Writes that may lag behind on the first member, which is write-mostly then; 0: none.
    pub behind: u32,
}

impl Shape {
    /// Chunks of 4 KiB, metadata 1.2.
    pub fn new(level: Level, members: usize) -> Self {
        let (layout, chunk, rows) = (None, 4096, 16);
        let (version, table, in_sync) = (Version::V1_2, 0, true);
        let (spares, bitmap, filed, behind) = (0, None, false, 0);
        Self { level, layout, members, chunk, rows, version, table, in_sync, spares, bitmap, filed, behind }
    }

    /// Another layout, by its name.
    ///
    /// # Panics
    /// If the level has none of that name.
    #[must_use]
    pub fn layout(self, name: &str) -> Self {
        let layout = Layout::parse(self.level, name).unwrap_or_else(|_| panic!("{name} of {}", self.level));
        Self { layout: Some(layout), ..self }
    }

    /// Other metadata.
    #[must_use]
    pub fn metadata(self, version: Version, table: usize) -> Self {
        Self { version, table, ..self }
    }

    /// The specification of the array for `create`.
    pub fn spec(&self) -> CreateSpec {
        let first = matches!(self.version, Version::V1_1 | Version::V1_2);
        let mut spec = spec(self.level, self.members, self.version);
        spec.layout = self.layout;
        spec.chunk = spec.chunk.map(|_| self.chunk);
        spec.size = self.level.is_redundant().then_some(self.chunk * self.rows);
        spec.data_offset = first.then_some(DATA_OFFSET);
        spec.assume_clean = self.in_sync;
        spec.bitmap = match self.bitmap {
            None => NewBitmap::None,
            chunk if self.filed => NewBitmap::File { chunk },
            chunk => NewBitmap::Internal { chunk },
        };
        let device = |n| new_member(n, self.device_bytes());
        spec.roles = (0..self.members).map(|n| Some(device(n))).collect();
        spec.write_behind = self.behind;
        if let (1.., Some(first)) = (self.behind, &mut spec.roles[0]) {
            first.flags.write_mostly = true;
        }
        spec.spares = (self.members..self.members + self.spares).map(device).collect();
        spec
    }

    /// Sectors that a superblock takes.
    pub fn sectors_of_superblock(&self) -> usize {
        if self.version.is_v1() { (256 + 2 * self.table.max(128)).div_ceil(512) } else { 8 }
    }

    /// Where data begin on each device.
    pub fn data_offset(&self) -> u64 {
        if matches!(self.version, Version::V1_1 | Version::V1_2) { DATA_OFFSET } else { 0 }
    }

    /// Bytes of each device.
    pub fn device_bytes(&self) -> u64 {
        (DATA_OFFSET + self.chunk * self.rows).next_multiple_of(64 << 10) + (128 << 10)
    }

    /// The content of the write-intent bitmap on each device.
    ///
    /// # Panics
    /// If the array can't be made.
    pub fn bitmaps(&self) -> Vec<(usize, u64, Vec<u8>)> {
        let bitmaps = planned(&self.spec()).bitmaps;
        bitmaps.into_iter().map(|write| (write.device, write.offset, write.bytes)).collect()
    }

    /// The content of the write-intent bitmap's file, if there is one.
    ///
    /// # Panics
    /// If the array can't be made.
    pub fn bitmap_file(&self) -> Option<Vec<u8>> {
        planned(&self.spec()).bitmap_file
    }

    /// Where each device's superblock goes, and what it is.
    ///
    /// # Panics
    /// If the array can't be made.
    pub fn superblocks(&self) -> Vec<(u64, Vec<u8>)> {
        let mut sbs = superblocks(&self.spec());
        for sb in sbs.iter_mut().filter(|_| self.table > 0) {
            let first = self.table - self.members;
            let members = sb.roles[..self.members].to_vec();
            sb.roles = vec![DeviceRole::Spare; first];
            sb.roles.extend(members);
            // Spares stay where they are, in front.
            sb.device_number += if (sb.device_number as usize) < self.members { first as u32 } else { 0 };
        }
        sbs.iter().map(|sb| (sb.super_offset, encoded(sb))).collect()
    }
}

/// Where data begin with metadata 1.1 and 1.2.
pub const DATA_OFFSET: u64 = 64 << 10;

impl core::fmt::Display for Shape {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} of {}, metadata {}", self.level, self.members, self.version)?;
        if let Some(layout) = self.layout {
            write!(f, ", {layout}")?;
        }
        if self.table > 0 {
            write!(f, ", table of {}", self.table)?;
        }
        match self.spares {
            0 => {}
            1 => f.write_str(", a spare")?,
            spares => write!(f, ", {spares} spares")?,
        }
        if let Some(chunk) = self.bitmap {
            write!(f, ", bitmap with chunks of {chunk}{}", if self.filed { " in a file" } else { "" })?;
        }
        if self.behind > 0 {
            write!(f, ", {} writes behind", self.behind)?;
        }
        Ok(())
    }
}
