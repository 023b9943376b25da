//! RAID 5 with partial parity logs, not stopped and without a member: what that held is worked out by the logs.

use brindle_array::{Access, Array, OpenConfig, SyncMode};
use brindle_format::md::ppl::{self, PPL_HEADER_BYTES, PplEntry, PplHeader};
use brindle_format::md::{Features, Ppl, Version};
use brindle_layout::{Family, Level, ParityRows};
use brindle_md::OpenError;
use brindle_md::assembly::{AssembleOptions, AssemblyError, Limitation, PplFault};
use brindle_volume::Volume;

use crate::common::*;

const MEMBERS: usize = 4;
const AREA: u64 = 512 << 10;
/// From the superblock to the log.
const LOG: i64 = 8192;

/// A dirty array, and what its logs are to hold.
struct Logged {
    world: World,
    map: ParityRows,
    content: Vec<u8>,
    start: u64,
    /// By role: entries with their parity.
    logs: Vec<Vec<(PplEntry, Vec<u8>)>>,
}

fn xor(into: &mut [u8], from: &[u8]) {
    into.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

impl Logged {
    fn new() -> Self {
        let mut spec = spec(Level::Raid5, MEMBERS, Version::V1_2);
        (spec.data_offset, spec.size) = (Some(2 * MIB), Some(2 * MIB));
        let world = World::create(&spec);
        let array = world.open();
        let content = pattern(5, array.limits().size as usize);
        for at in (0..content.len()).step_by(MIB as usize) {
            world.write(&array, at as u64, &content[at..content.len().min(at + MIB as usize)]).unwrap();
        }
        world.stop(&array);
        let Family::Parity(map) = array.geometry().family() else { panic!("no rows") };
        let (map, start) = (map.clone(), world.superblock(0).data_offset);
        for n in 0..MEMBERS {
            world.change(n, |sb| {
                (sb.resync_offset, sb.bitmap_offset, sb.bad_block_log) = (Some(0), None, None);
                sb.features = sb.features.without(Features::BITMAP_OFFSET) | Features::PPL;
                sb.ppl = Some(Ppl { offset: LOG, size: AREA });
            });
        }
        let this = Self { world, map, content, start, logs: vec![Vec::new(); MEMBERS] };
        this.write_logs(|_| ());
        this
    }

    fn at(&self, row: u64, index: u16, column: u64) -> u64 {
        row * self.map.row_data_bytes() + u64::from(index) * self.map.chunk() + column
    }

    /// Writes new bytes to some blocks of a row, and logs it; only `landed` of them reach their members, and parity if `parity`.
    /// Gives the entry.
    fn tear(
        &mut self,
        row: u64,
        first: u16,
        count: u16,
        column: u64,
        len: u64,
        landed: &[u16],
        parity: bool,
    ) {
        let roles = self.map.row(row);
        let all = roles.data_members();
        let block = |this: &Self, index: u16| {
            let at = this.at(row, index, column) as usize;
            this.content[at..at + len as usize].to_vec()
        };
        let (mut partial, mut full) = (vec![0; len as usize], vec![0; len as usize]);
        let new = |index: u16| pattern(row * 100 + u64::from(index) + 1000, len as usize);
        for index in 0..all {
            if (first..first + count).contains(&index) {
                xor(&mut full, &new(index));
            } else {
                xor(&mut partial, &block(self, index));
                xor(&mut full, &block(self, index));
            }
        }
        let place = self.start + self.map.row_offset(row) + column;
        for &index in landed {
            self.world.bench.poke(self.world.ids[usize::from(roles.data_member(index))], place, &new(index));
            let at = self.at(row, index, column) as usize;
            self.content[at..at + len as usize].copy_from_slice(&new(index));
        }
        if parity {
            self.world.bench.poke(self.world.ids[usize::from(roles.p())], place, &full);
        }
        if count == all {
            partial.clear();
        }
        let entry = PplEntry {
            data_offset: self.at(row, first, column),
            data_bytes: (len * u64::from(count)) as u32,
            parity_bytes: partial.len() as u32,
            parity_role: roles.p().into(),
            checksum: ppl::parity_checksum(&partial),
        };
        self.logs[usize::from(roles.p())].push((entry, partial));
        self.write_logs(|_| ());
    }

    fn write_logs(&self, edit: impl Fn(&mut PplHeader)) {
        for (n, log) in self.logs.iter().enumerate() {
            let sb = self.world.superblock(n);
            let entries = log.iter().map(|(entry, _)| *entry).collect();
            let mut header = PplHeader { signature: ppl::signature(sb.set_uuid), generation: 9, entries };
            edit(&mut header);
            let mut bytes = header.encode().unwrap().to_vec();
            log.iter().for_each(|(_, parity)| bytes.extend_from_slice(parity));
            // Older ones stand behind.
            header.generation = 3;
            bytes.extend_from_slice(&header.encode().unwrap());
            self.world.bench.poke(self.world.ids[n], (sb.super_offset as i64 + LOG) as u64, &bytes);
        }
    }

    fn without(&self, lost: usize) -> World {
        self.world.reboot().without(&[lost])
    }
}

fn read_only() -> OpenConfig {
    OpenConfig::new(Access::ReadOnly, || NOW)
}

fn opened(world: &World, force: bool) -> Result<Array, OpenError> {
    world.try_open(world.assembly_with(AssembleOptions { force, partial: false }).unwrap(), read_only())
}

#[test]
fn blocks_beside_those_that_were_being_written_are_as_they_were() {
    let mut logged = Logged::new();
    let chunk = logged.map.chunk();
    // Data that landed in part, with parity and without; blocks that join, whole chunks, whole rows.
    logged.tear(0, 0, 1, 0, 4096, &[0], false);
    logged.tear(1, 1, 1, 8192, 4096, &[], true);
    logged.tear(2, 0, 2, 512, 3072, &[1], true);
    logged.tear(3, 1, 2, 0, chunk, &[1], false);
    logged.tear(4, 0, 3, 4096, 4096, &[0, 2], false);
    logged.tear(5, 2, 1, chunk - 4096, 4096, &[2], false);
    logged.tear(9, 0, 2, 0, 16 << 10, &[0], true);
    logged.tear(9, 1, 1, 32 << 10, 4096, &[1], false);
    for lost in 0..MEMBERS {
        let world = logged.without(lost);
        let before: Vec<_> = (0..MEMBERS - 1).map(|n| world.image(n)).collect();
        let array = opened(&world, false).unwrap();
        let read = whole(&world, &array);
        let mut wrong: Vec<usize> = (0..read.len())
            .step_by(512)
            .filter(|&at| read[at..at + 512] != logged.content[at..at + 512])
            .collect();
        // No log can tell what the missing member was being given itself.
        wrong.retain(|&at| {
            let position = logged.map.position(at as u64);
            let row = logged.map.row(position.row);
            let own = usize::from(row.data_member(position.data_index)) == lost;
            let entries = logged.logs.iter().flatten().map(|(entry, _)| entry);
            let was_written = |entry: &PplEntry| {
                let first = logged.map.position(entry.data_offset);
                let columns = entry.data_bytes.checked_div(entry.parity_bytes).unwrap_or(3);
                let height = u64::from(entry.data_bytes) / u64::from(columns);
                let count = u64::from(entry.data_bytes) / height;
                first.row == position.row
                    && (u64::from(first.data_index)..u64::from(first.data_index) + count)
                        .contains(&position.data_index.into())
                    && (first.column..first.column + height).contains(&position.column)
            };
            !(own && entries.into_iter().any(was_written))
        });
        assert!(wrong.is_empty(), "without {lost}: {wrong:?}");
        // Small reads and large ones take other ways.
        for at in (0..read.len()).step_by(4096).take(500) {
            assert!(
                world.read(&array, at as u64, 4096).unwrap() == read[at..at + 4096],
                "{at} without {lost}"
            );
        }
        for at in (0..read.len() - 300_000).step_by(70_144).take(40) {
            assert!(
                world.read(&array, at as u64, 200_704).unwrap() == read[at..at + 200_704],
                "{at} without {lost}"
            );
        }
        let detail = array.detail();
        assert_eq!((detail.forced_offset, detail.resync_offset), (Some(0), None), "members say as before");
        assert!(detail.limits.iter().all(|limit| limit.to_string().contains("feature ppl")));
        world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
        let after: Vec<_> = (0..MEMBERS - 1).map(|n| world.image(n)).collect();
        assert!(before == after, "nothing is written");
        // By force it is the same.
        assert!(whole(&world, &opened(&world, true).unwrap()) == read);
    }
}

#[test]
fn a_log_that_is_damaged_needs_force_and_is_told_of() {
    let fault = |logged: &Logged, lost: usize| {
        let world = logged.without(lost);
        let refused = match opened(&world, false) {
            Err(OpenError::Ppl { label, why }) => (label, why),
            other => panic!("{:?}", other.map(|_| ())),
        };
        let array = opened(&world, true).unwrap();
        assert!(array.detail().limits.iter().any(|limit| limit.to_string().contains("is damaged")));
        assert_eq!(whole(&world, &array).len(), logged.content.len());
        refused.1
    };
    let torn = || {
        let mut logged = Logged::new();
        logged.tear(0, 0, 1, 0, 4096, &[0], false);
        let role = usize::from(logged.map.row(0).p());
        (logged, role)
    };
    let edited = |edit: &dyn Fn(&mut PplEntry)| {
        let (mut logged, role) = torn();
        edit(&mut logged.logs[role][0].0);
        logged.write_logs(|_| ());
        fault(&logged, usize::from(logged.map.row(0).data_member(1)))
    };
    assert_eq!(edited(&|entry| entry.checksum ^= 1), PplFault::Checksum { entry: 0 });
    for edit in [
        &(|entry: &mut PplEntry| entry.data_offset = 1 << 50) as &dyn Fn(&mut PplEntry),
        &|entry| entry.parity_role += 1,
        &|entry| entry.data_bytes = 4096 * 3 + 512,
        &|entry| entry.data_bytes = 4096 * 4,
        &|entry| entry.data_bytes = 0,
        &|entry| entry.data_bytes = 4096 * 1000,
        &|entry| entry.data_offset = 3 * (64 << 10),
        &|entry| entry.parity_bytes = u32::MAX - 511,
    ] {
        let why = edited(edit);
        // The last one may run into the next block of its chunk as well as out of the row.
        assert!(
            matches!(why, PplFault::Outside { entry: 0, .. } | PplFault::Checksum { entry: 0 }),
            "{why:?}"
        );
    }
    let (mut logged, role) = torn();
    let twice = logged.logs[role][0].clone();
    logged.logs[role].push(twice);
    logged.write_logs(|_| ());
    assert_eq!(fault(&logged, usize::from(logged.map.row(0).data_member(1))), PplFault::Overlap { entry: 1 });
    // No header that can be trusted.
    let (logged, role) = torn();
    let at = (logged.world.superblock(role).super_offset as i64 + LOG) as u64;
    logged.world.bench.poke(logged.world.ids[role], at + 600, &[0x5a; 64]);
    assert!(matches!(fault(&logged, usize::from(logged.map.row(0).data_member(1))), PplFault::Header(_)));
    assert_eq!(PPL_HEADER_BYTES, 4096);
    // A log that is nowhere.
    let (logged, role) = torn();
    logged.world.change(role, |sb| sb.ppl = Some(Ppl { offset: LOG, size: 512 }));
    assert_eq!(fault(&logged, usize::from(logged.map.row(0).data_member(1))), PplFault::Place);
}

#[test]
fn of_several_headers_the_newest_counts() {
    let mut logged = Logged::new();
    logged.tear(0, 0, 1, 0, 4096, &[0], false);
    let role = usize::from(logged.map.row(0).p());
    let sb = logged.world.superblock(role);
    let (entry, parity) = logged.logs[role][0].clone();
    let signature = ppl::signature(sb.set_uuid);
    let header = |generation, entries| PplHeader { signature, generation, entries }.encode().unwrap();
    // One that is empty, then that of the write, then what an earlier round left.
    let mut bytes = header(5, vec![]).to_vec();
    bytes.extend_from_slice(&header(6, vec![entry]));
    bytes.extend_from_slice(&parity);
    bytes.extend_from_slice(&header(2, vec![PplEntry { checksum: 7, ..entry }]));
    logged.world.bench.poke(logged.world.ids[role], (sb.super_offset as i64 + LOG) as u64, &bytes);
    let world = logged.without(usize::from(logged.map.row(0).data_member(1)));
    let array = opened(&world, false).unwrap();
    assert!(whole(&world, &array) == logged.content);
}

#[test]
fn without_logs_force_is_needed_as_before() {
    let logged = Logged::new();
    for n in 0..MEMBERS {
        logged.world.change(n, |sb| {
            sb.ppl = None;
            sb.features = sb.features.without(Features::PPL);
        });
    }
    assert!(matches!(logged.without(1).assembly(), Err(AssemblyError::DirtyDegraded { .. })));
    // Whole, nothing has to be worked out, whatever the logs say.
    let logged = Logged::new();
    logged.world.bench.poke(
        logged.world.ids[0],
        (logged.world.superblock(0).super_offset as i64 + LOG) as u64,
        &[7; 4096],
    );
    let array = opened(&logged.world.reboot(), false).unwrap();
    assert!(array.detail().limits.iter().all(|limit| !limit.to_string().contains("damaged")));
    assert!(!logged.world.reboot().assembly().unwrap().limits.contains(&Limitation::Journal));
}
