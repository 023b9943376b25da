//! Small sets of members with superblocks, and changes to them that keep the checksums true.

use brindle_format::SECTOR;
use brindle_format::md::ppl::{self, PPL_HEADER_BYTES, PplEntry, PplHeader};
use brindle_format::md::{
    DeviceRole, Endian, Features, SUPERBLOCK_BYTES, Superblock, Uuid, Version, probe_offsets,
};
use brindle_io::MemberInfo;
use brindle_md::assembly::Candidate;

use crate::checksum;
use crate::feed::Feed;

/// Numbers that arithmetic stumbles over.
pub const EXTREMES: [u64; 22] = [
    0,
    1,
    2,
    3,
    7,
    8,
    0x7f,
    0xff,
    0x7fff,
    0x8000,
    0xfffd,
    0xfffe,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    (1 << 54) - 1,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Place and bytes of every number in the head of a 1.x superblock, and the first of its roles.
pub const FIELDS_1: [(usize, usize); 37] = [
    (4, 4),
    (8, 4),
    (64, 8),
    (72, 4),
    (76, 4),
    (80, 8),
    (88, 4),
    (92, 4),
    (96, 4),
    (96, 2),
    (98, 2),
    (100, 4),
    (104, 8),
    (112, 4),
    (116, 4),
    (120, 4),
    (124, 4),
    (128, 8),
    (136, 8),
    (144, 8),
    (152, 8),
    (160, 4),
    (164, 4),
    (184, 1),
    (185, 1),
    (186, 2),
    (188, 4),
    (192, 8),
    (200, 8),
    (208, 8),
    (220, 4),
    (224, 4),
    (256, 2),
    (258, 2),
    (260, 2),
    (262, 2),
    (264, 2),
];

/// The same for 0.90, in words: generic part, state, personality, and the first of the descriptors.
pub const FIELDS_0: [(usize, usize); 42] = [
    (4, 4),
    (8, 4),
    (12, 4),
    (16, 4),
    (24, 4),
    (28, 4),
    (32, 4),
    (36, 4),
    (40, 4),
    (44, 4),
    (48, 4),
    (128, 4),
    (132, 4),
    (136, 4),
    (156, 8),
    (156, 4),
    (160, 4),
    (164, 8),
    (172, 4),
    (176, 8),
    (184, 4),
    (188, 4),
    (192, 4),
    (196, 4),
    (256, 4),
    (260, 4),
    (512, 4),
    (516, 4),
    (520, 4),
    (524, 4),
    (528, 4),
    (640, 4),
    (652, 4),
    (656, 4),
    (768, 4),
    (780, 4),
    (784, 4),
    (3968, 4),
    (3972, 4),
    (3976, 4),
    (3980, 4),
    (3984, 4),
];

/// One member: its device and what it is called.
#[derive(Clone)]
pub struct Member {
    /// All bytes of the device.
    pub image: Vec<u8>,
    /// How messages name it.
    pub label: String,
}

/// The shape of a set before anything is changed. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Version of the metadata.
    pub version: Version,
    /// Level as md counts it.
    pub level: i32,
    /// Layout as md counts it.
    pub layout: u32,
    /// Members.
    pub members: u16,
    /// Chunk.
    pub chunk: u64,
    /// Chunks of each member.
    pub chunks: u64,
    /// Each member has so many chunks more than the one before it.
    pub growth: u64,
}

impl Shape {
    /// Reads a shape: six bytes.
    pub(crate) fn read(feed: &mut Feed<'_>) -> Self {
        const KINDS: [(i32, u32); 16] = [
            (-1, 0),
            (0, 1),
            (0, 2),
            (1, 0),
            (4, 0),
            (5, 2),
            (5, 0),
            (5, 4),
            (6, 2),
            (6, 8),
            (6, 18),
            (10, 0x102),
            (10, 0x201),
            (10, 0x1_0201),
            (10, 0x4_0201),
            (10, 0x103),
        ];
        let version = Version::ALL[usize::from(feed.u8()) % Version::ALL.len()];
        let (level, layout) = KINDS[usize::from(feed.u8()) % KINDS.len()];
        Self {
            version,
            level,
            layout,
            members: 1 + u16::from(feed.u8() % 6),
            chunk: 4096 << (feed.u8() % 3),
            chunks: 1 + u64::from(feed.u8() % 4),
            growth: if level <= 0 { u64::from(feed.u8() % 3) } else { 0 },
        }
    }

    fn data_size(&self, role: u16) -> u64 {
        self.chunk * (self.chunks + self.growth * u64::from(role))
    }

    /// Size of the device in `role`; one sector more than is needed.
    fn device_bytes(&self, role: u16) -> u64 {
        let data = self.data_size(role);
        512 + match self.version {
            Version::V0_90(_) => data.next_multiple_of(65536) + 65536,
            Version::V1_0 => data.next_multiple_of(4096) + 8192,
            Version::V1_1 | Version::V1_2 => 8192 + data,
        }
    }

    fn superblock(&self, role: u16) -> Superblock {
        let mut sb = Superblock::new(self.version, self.device_bytes(role)).expect("there is room");
        let v1 = self.version.is_v1();
        sb.set_uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        (sb.level, sb.layout, sb.chunk) = (self.level, self.layout, self.chunk);
        sb.raid_disks = u32::from(self.members);
        sb.component_size = if self.level > 0 { self.chunk * self.chunks } else { 0 };
        sb.data_size = self.data_size(role);
        sb.data_offset = match self.version {
            Version::V1_1 | Version::V1_2 => 8192,
            _ => 0,
        };
        (sb.events, sb.device_number) = (10, u32::from(role));
        if v1 {
            sb.device_uuid = Uuid::from_u128(u128::from(role) + 1);
            sb.roles.truncate(16);
        } else {
            sb.roles.resize(usize::from(self.members), DeviceRole::Spare);
        }
        for role in 0..self.members {
            sb.roles[usize::from(role)] = DeviceRole::Active(role);
        }
        sb.resync_offset = None;
        sb.features = Features::NONE.with(Features::RAID0_LAYOUT, v1 && self.level == 0);
        sb
    }
}

/// Members, some of which lie.
#[derive(Clone)]
pub struct Set {
    /// The metadata version that the members had at first.
    pub version: Version,
    /// The members, in the order of roles at first.
    pub members: Vec<Member>,
    /// Labels given so far: no two members have the same.
    labels: usize,
}

impl Set {
    /// A sound set of that shape.
    pub fn new(shape: &Shape) -> Self {
        let member = |role: u16| {
            let sb = shape.superblock(role);
            let mut image = vec![0; shape.device_bytes(role) as usize];
            sb.encode(&mut image[sb.super_offset as usize..]).expect("a sound superblock");
            Member { image, label: format!("disk{role}") }
        };
        let members: Vec<Member> = (0..shape.members).map(member).collect();
        Self { version: shape.version, labels: members.len(), members }
    }

    /// Changes a number of one superblock.
    pub fn set(&mut self, member: usize, (offset, len): (usize, usize), value: u64) {
        let big = self.version == Version::V0_90(Endian::Big);
        let Some(block) = self.block(member) else { return };
        let bytes = if big { &value.to_be_bytes()[8 - len..] } else { &value.to_le_bytes()[..len] };
        block[offset..offset + len].copy_from_slice(bytes);
    }

    fn block(&mut self, member: usize) -> Option<&mut [u8]> {
        let image = &mut self.members.get_mut(member)?.image;
        let offset = self.version.superblock_offset(image.len() as u64)? as usize;
        image.get_mut(offset..offset + SUPERBLOCK_BYTES)
    }

    /// Does to the set what the input says, then corrects every checksum.
    pub(crate) fn mutate(&mut self, feed: &mut Feed<'_>) {
        let fields: &[(usize, usize)] = if self.version.is_v1() { &FIELDS_1 } else { &FIELDS_0 };
        while !feed.is_empty() {
            let (op, member) = (feed.u8(), usize::from(feed.u8()) % self.members.len().max(1));
            match op % 16 {
                0..=5 => {
                    let field = fields[usize::from(feed.u8()) % fields.len()];
                    let extreme = EXTREMES[usize::from(feed.u8()) % EXTREMES.len()];
                    self.set(member, field, extreme);
                }
                6..=10 => {
                    let field = fields[usize::from(feed.u8()) % fields.len()];
                    let value = if op & 0x80 == 0 { u64::from(feed.u8()) } else { feed.u64() };
                    self.set(member, field, value);
                }
                11 => {
                    let (at, byte) = (usize::from(feed.u16()) % SUPERBLOCK_BYTES, feed.u8());
                    self.set(member, (at, 1), u64::from(byte));
                }
                12 => {
                    let from = usize::from(feed.u8()) % self.members.len().max(1);
                    let Some(block) = self.block(from).map(|block| block.to_vec()) else { continue };
                    if let Some(to) = self.block(member) {
                        to.copy_from_slice(&block);
                    }
                }
                13 if self.members.len() < 8 => {
                    if let Some(twin) = self.members.get(member).cloned() {
                        let label = format!("disk{}", self.labels);
                        self.labels += 1;
                        self.members.push(Member { label, ..twin });
                    }
                }
                14 if self.members.len() > 1 => {
                    self.members.remove(member);
                }
                15 if op & 0x10 != 0 => self.log(member, feed),
                _ => {
                    let cut = usize::from(feed.u16());
                    if let Some(member) = self.members.get_mut(member) {
                        member.image.truncate(member.image.len().saturating_sub(cut));
                    }
                }
            }
        }
        self.seal();
    }

    /// Gives each member the feature of partial parity logs, and one of them an entry in its log.
    fn log(&mut self, member: usize, feed: &mut Feed<'_>) {
        let (size, sectors) = (u64::from(feed.u8() % 32), |n: u16| u64::from(n) * SECTOR);
        let entry = PplEntry {
            data_offset: sectors(feed.u16()),
            data_bytes: sectors(feed.u16() % 64) as u32,
            parity_bytes: sectors(feed.u16() % 16) as u32,
            parity_role: u32::from(feed.u8() % 8),
            checksum: feed.u8().into(),
        };
        for n in 0..self.members.len() {
            // Dirty, with a log of so many sectors behind a page.
            self.set(n, (8, 4), 512);
            self.set(n, (96, 4), 8 | (8 + size) << 16);
            self.set(n, (208, 8), 0);
        }
        let Some(offset) = self.version.superblock_offset(self.members[member].image.len() as u64) else {
            return;
        };
        let Some(block) = self.block(member) else { return };
        let uuid = Uuid::from_bytes(block[16..32].try_into().unwrap_or_default());
        let (start, image) = (offset as usize + 4096, &mut self.members[member].image);
        let behind = start + PPL_HEADER_BYTES;
        let own = image.get(behind..behind + entry.parity_bytes as usize).map(ppl::parity_checksum);
        let checksum = own.filter(|_| !entry.checksum.is_multiple_of(4)).unwrap_or(entry.checksum);
        let header = PplHeader {
            signature: ppl::signature(uuid),
            generation: 1,
            entries: vec![PplEntry { checksum, ..entry }],
        };
        if let (Some(place), Ok(header)) = (image.get_mut(start..behind), header.encode()) {
            place.copy_from_slice(&header);
        }
    }

    /// Makes the superblocks those of `other`, a set of the same shape. Cheaper than a new set.
    pub fn restore(&mut self, other: &Self) {
        for (member, sound) in self.members.iter_mut().zip(&other.members) {
            let Some(offset) = other.version.superblock_offset(sound.image.len() as u64) else { continue };
            let block = offset as usize..offset as usize + SUPERBLOCK_BYTES;
            member.image[block.clone()].copy_from_slice(&sound.image[block]);
        }
    }

    /// Makes every checksum true.
    pub fn seal(&mut self) {
        for member in 0..self.members.len() {
            let version = self.version;
            if let Some(block) = self.block(member) {
                checksum::superblock(version, block);
            }
        }
    }

    /// The members as their reader finds them.
    pub fn candidates(&self) -> Vec<Candidate> {
        self.members.iter().map(Member::candidate).collect()
    }
}

impl Member {
    /// The device's size and block sizes, as the reactor gives them.
    pub fn info(&self) -> MemberInfo {
        MemberInfo {
            size: self.image.len() as u64,
            logical_block: 512,
            physical_block: 512,
            rotational: false,
            discard: true,
            write_zeroes: true,
        }
    }

    fn candidate(&self) -> Candidate {
        let blocks = probe_offsets(self.image.len() as u64).map(|probe| {
            let at = probe.offset as usize;
            (probe, &self.image[at..at + probe.len])
        });
        Candidate::from_blocks(self.label.clone(), self.info(), blocks)
    }
}
