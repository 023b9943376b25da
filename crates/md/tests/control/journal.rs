//! Arrays with a journal: read only if it holds nothing that the members don't.

use brindle_array::{Access, Array, OpenConfig};
use brindle_format::md::journal::{self, MetaBlock, Payload};
use brindle_format::md::{DeviceRole, Features, SUPERBLOCK_BYTES, Superblock, Uuid, Version};
use brindle_layout::Level;
use brindle_md::OpenError;
use brindle_md::assembly::{AssembleOptions, AssemblyError, Limitation};

use crate::common::*;

const BLOCK: u64 = 4096;
/// Blocks of the log.
const RING: u64 = 256;

/// A RAID 5 of three members in chunks of 64 KiB, and the log on its journal.
struct Journaled {
    world: World,
    superblock: Superblock,
    head: u64,
    sequence: u64,
}

/// Reasons why the array is not written to, in words.
fn limits(array: &Array) -> Vec<String> {
    array.detail().limits.iter().map(ToString::to_string).collect()
}

impl Journaled {
    /// An array full of a pattern, whose log has its tail at this block and is empty.
    fn new(tail: u64) -> Self {
        let mut world = World::create(&spec(Level::Raid5, 3, Version::V1_2));
        let array = world.open();
        world.write(&array, 0, &pattern(1, MIB as usize)).unwrap();
        world.stop(&array);
        let mut superblock = world.superblock(0);
        for member in 0..3 {
            world.change(member, |sb| {
                sb.features |= Features::JOURNAL;
                sb.roles[3] = DeviceRole::Journal;
            });
        }
        superblock.features |= Features::JOURNAL;
        superblock.roles[3] = DeviceRole::Journal;
        superblock.device_number = 3;
        superblock.device_uuid = Uuid::from_u128(0x999);
        superblock.journal_tail = Some(tail * BLOCK);
        superblock.data_size = RING * BLOCK;
        let id = world.bench.add_ram(8 * MIB);
        world.ids.push(id);
        let mut this = Self { world, superblock, head: tail, sequence: 7 };
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        this.superblock.encode(&mut bytes).unwrap();
        this.world.bench.poke(id, this.superblock.super_offset, &bytes);
        this.log(&[]);
        this
    }

    fn sum(&self, block: &[u8]) -> u32 {
        journal::checksum(self.superblock.set_uuid, block)
    }

    fn poke(&self, block: u64, bytes: &[u8]) {
        let offset = self.superblock.data_offset + block % RING * BLOCK;
        self.world.bench.poke(*self.world.ids.last().unwrap(), offset, bytes);
    }

    /// Appends a unit: blocks of data by their offset in the array.
    fn log(&mut self, data: &[(u64, Vec<u8>)]) {
        let payload = |(offset, bytes): &(u64, Vec<u8>)| Payload::Data {
            offset: *offset,
            flags: 0,
            checksums: vec![self.sum(bytes)],
        };
        let payloads = data.iter().map(payload).collect();
        let blocks: Vec<Vec<u8>> = data.iter().map(|(_, bytes)| bytes.clone()).collect();
        self.append(payloads, &blocks);
    }

    fn append(&mut self, payloads: Vec<Payload>, blocks: &[Vec<u8>]) {
        let meta = MetaBlock { sequence: self.sequence, position: self.head * BLOCK, payloads };
        self.poke(self.head, &meta.encode(self.superblock.set_uuid).unwrap());
        for (n, block) in (1..).zip(blocks) {
            self.poke(self.head + n, block);
        }
        self.head = (self.head + 1 + blocks.len() as u64) % RING;
        self.sequence += 1;
    }

    fn try_open(&self, force: bool) -> Result<Array, OpenError> {
        let assembly = self.world.assembly_with(AssembleOptions { force, partial: false }).unwrap();
        self.world.try_open(assembly, OpenConfig::new(Access::ReadOnly, || NOW))
    }

    /// The journal holds nothing that the members don't: the array opens, read-only, and reads well.
    #[track_caller]
    fn opens(&self) {
        let array = self.try_open(false).unwrap();
        assert_eq!(limits(&array), [Limitation::Journal.to_string()]);
        assert_eq!(self.world.read(&array, 0, MIB as usize).unwrap(), pattern(1, MIB as usize));
    }

    /// The array is refused, and opens by force with a word about it.
    #[track_caller]
    fn is_refused(&self) {
        let label = self.world.ids.last().unwrap().to_string();
        assert_eq!(self.try_open(false).err(), Some(OpenError::Journal { label: label.clone() }));
        let array = self.try_open(true).unwrap();
        let pending = Limitation::JournalPending { label };
        assert_eq!(limits(&array), [Limitation::Journal.to_string(), pending.to_string()]);
    }
}

/// The block of the array's content at this offset.
fn there(offset: u64) -> (u64, Vec<u8>) {
    let (from, all) = (offset as usize, pattern(1, MIB as usize));
    (offset, all[from..from + BLOCK as usize].to_vec())
}

/// Other bytes for that block.
fn new(offset: u64) -> (u64, Vec<u8>) {
    (offset, pattern(offset + 99, BLOCK as usize))
}

#[test]
fn a_log_without_writes_is_no_obstacle() {
    Journaled::new(0).opens();
    Journaled::new(RING - 1).opens();
    // md takes a tail that can't be one for the start, and makes a new log where there is none.
    let journaled = Journaled::new(9);
    journaled.poke(9, &[0; BLOCK as usize]);
    journaled.opens();
}

#[test]
fn writes_that_reached_the_members_are_no_obstacle() {
    for tail in [0, 17, RING - 2] {
        let mut journaled = Journaled::new(tail);
        journaled.log(&[there(0), there(65536), there(69632)]);
        journaled.log(&(100..140).map(|n| there(n * BLOCK)).collect::<Vec<_>>());
        journaled.opens();
    }
}

#[test]
fn a_write_that_only_the_journal_holds_refuses_the_array() {
    for tail in [0, 17, RING - 2] {
        let mut journaled = Journaled::new(tail);
        journaled.log(&[there(0), there(4096)]);
        journaled.log(&[there(8192), new(12288)]);
        journaled.is_refused();
    }
}

#[test]
fn of_two_writes_to_a_block_the_later_counts() {
    let mut journaled = Journaled::new(0);
    journaled.log(&[new(8192)]);
    journaled.log(&[there(8192)]);
    journaled.opens();
    journaled.log(&[new(8192)]);
    journaled.is_refused();
}

#[test]
fn what_was_not_written_to_its_end_was_never_acknowledged() {
    let mut journaled = Journaled::new(0);
    let torn = journaled.head + 1;
    journaled.log(&[new(8192)]);
    journaled.poke(torn, &[0xee; 512]);
    journaled.opens();
    // md goes on behind it.
    journaled.log(&[new(16384)]);
    journaled.is_refused();
}

#[test]
fn the_log_ends_where_the_next_unit_is_not_the_next() {
    let mut journaled = Journaled::new(0);
    journaled.sequence += 1; // of an earlier turn of the ring
    journaled.log(&[new(8192)]);
    journaled.opens();
    let mut journaled = Journaled::new(0);
    let (block, at) = (journaled.head, journaled.head + 1);
    journaled.head = at; // a copy of a unit that stands elsewhere
    journaled.log(&[new(8192)]);
    let mut bytes = vec![0; 2 * BLOCK as usize];
    let offset = journaled.superblock.data_offset + at * BLOCK;
    journaled.world.bench.peek(*journaled.world.ids.last().unwrap(), offset, &mut bytes);
    journaled.poke(block, &bytes);
    journaled.opens();
}

#[test]
fn parity_that_only_the_journal_holds_refuses_the_array() {
    // Row 0 of a left-symmetric RAID 5 of three has its parity on member 2.
    let parity = |journaled: &Journaled| {
        let from = journaled.superblock.data_offset as usize;
        journaled.world.image(2)[from..from + BLOCK as usize].to_vec()
    };
    let log = |journaled: &mut Journaled, block: Vec<u8>| {
        let checksums = vec![journaled.sum(&block)];
        journaled.append(vec![Payload::Parity { offset: 0, flags: 0, checksums }], &[block]);
    };
    let mut journaled = Journaled::new(0);
    let block = parity(&journaled);
    log(&mut journaled, block);
    journaled.opens();
    log(&mut journaled, new(0).1);
    journaled.is_refused();
}

#[test]
fn what_a_lost_member_held_is_compared_too() {
    for offset in [0, 65536] {
        let mut journaled = Journaled::new(0);
        journaled.log(&[there(0), there(65536)]);
        journaled.world = journaled.world.without(&[0]);
        journaled.opens();
        journaled.log(&[new(offset)]);
        journaled.is_refused();
    }
}

#[test]
fn a_log_that_makes_no_sense_refuses_the_array() {
    for offset in [1 << 40, (1 << 55) - 4096, 512] {
        let mut journaled = Journaled::new(0);
        journaled.log(&[(offset, vec![0; BLOCK as usize])]);
        journaled.is_refused();
    }
    let mut journaled = Journaled::new(0);
    let checksums = vec![journaled.sum(&[0; BLOCK as usize])];
    let parity = Payload::Parity { offset: 1 << 50, flags: 0, checksums };
    journaled.append(vec![parity], &[vec![0; BLOCK as usize]]);
    journaled.is_refused();
}

#[test]
fn without_its_journal_an_array_needs_force() {
    let mut journaled = Journaled::new(0);
    let journal = journaled.world.ids.pop().unwrap();
    let world = &journaled.world;
    assert_eq!(world.assembly().err(), Some(AssemblyError::JournalMissing { stale: None }));
    let forced = world.assembly_with(AssembleOptions { force: true, partial: false }).unwrap();
    assert_eq!(forced.limits, [Limitation::Journal, Limitation::JournalMissing]);
    for member in 0..3 {
        world.change(member, |sb| sb.events += 2);
    }
    journaled.world.ids.push(journal);
    let stale = Some(journal.to_string());
    assert_eq!(journaled.world.assembly().err(), Some(AssemblyError::JournalMissing { stale }));
}
