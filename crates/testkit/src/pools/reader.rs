//! A second reader of pools, written from `docs/formats/pool.md` alone: it shares no code with the engine, nor with its parsers, but
//! for CRC-32C. What it reads from the members at rest is held against what the pool says.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::rows::{Rows, Run, Segment};

const NOWHERE: u64 = (1 << 48) - 1;
/// Where uberblocks stand in a label, and how many.
const RING: (u64, u64) = (32 << 10, 48);

/// Reads a block of a device: its number, and the byte. None if it can't be read.
pub type Peek<'a> = &'a dyn Fn(usize, u64) -> Option<Vec<u8>>;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn u48_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u16_at(bytes, at + 4)) << 32
}

fn sum(bytes: &[u8]) -> u32 {
    brindle_format::pool::checksum(bytes)
}

/// Whether a structure has this magic number and a right checksum.
fn is_sound(bytes: &[u8], magic: &[u8]) -> bool {
    let mut zeroed = bytes.to_vec();
    zeroed[8..12].fill(0);
    bytes.starts_with(magic) && sum(&zeroed) == u32_at(bytes, 8)
}

/// An uberblock, as far as a reader needs it.
#[derive(Clone)]
struct Head(Vec<u8>);

impl Head {
    fn record(&self) -> u64 {
        u64_at(&self.0, 32)
    }

    fn opening(&self) -> u64 {
        u64_at(&self.0, 40)
    }

    fn comes_from(&self, opening: u64) -> bool {
        let count = usize::from(u16_at(&self.0, 208)).min(64);
        self.opening() == opening || (0..count).any(|n| u64_at(&self.0, 232 + n * 8) == opening)
    }

    fn is_after(&self, other: &Self) -> bool {
        if self.opening() == other.opening() {
            self.record() > other.record()
        } else {
            self.comes_from(other.opening())
        }
    }

    /// The generation and the checksum of the config that counts.
    fn config(&self) -> (u64, u32) {
        (u64_at(&self.0, 224), u32_at(&self.0, 3824))
    }

    fn is_out(&self, member: usize) -> bool {
        self.0[176 + member / 8] >> (member % 8) & 1 == 1
    }
}

/// A device with a label.
struct Labelled {
    device: usize,
    member: usize,
    /// All configs on it.
    configs: Vec<Vec<u8>>,
    head: Option<Head>,
}

/// The generation of a config, and its checksum as uberblocks name it: as member 0 has it.
fn name_of(config: &[u8]) -> (u64, u32) {
    let mut zeroed = config.to_vec();
    zeroed[8..12].fill(0);
    zeroed[64..66].fill(0);
    (u64_at(config, 136), sum(&zeroed))
}

/// The content of a pool.
#[derive(Debug, Default)]
pub struct PoolContent {
    /// Blocks by volume and number; those that are not there are zeroes, and `None` is lost.
    pub blocks: BTreeMap<(u32, u64), Option<Vec<u8>>>,
    /// Numbers and sizes of volumes by their names.
    pub volumes: BTreeMap<String, (u32, u64)>,
    /// The pool was stopped in order.
    pub stopped: bool,
    /// Members whose content is not believed.
    pub out: Vec<usize>,
    /// Segments with a wrong count of live blocks: the number, the count on record, the real count.
    pub miscounted: Vec<(u32, u32, u32)>,
    /// The name of the pool, and the generation of the config that has it.
    pub name: (String, u64),
    /// Times, hosts and texts of its history, from the oldest on.
    pub history: Vec<(u64, String, String)>,
}

/// Reads a pool from devices of these sizes.
///
/// # Errors
/// Why it can't be read.
pub fn read(sizes: &[u64], peek: Peek<'_>) -> Result<PoolContent, String> {
    let mut devices = Vec::new();
    for (device, &size) in sizes.iter().enumerate() {
        devices.extend(look(device, size, peek));
    }
    let head = choose(&devices)?;
    let is_named = |config: &&Vec<u8>| name_of(config) == head.config();
    let label = devices.iter().flat_map(|one| &one.configs).find(is_named);
    let label = label.ok_or("the config that counts is nowhere")?.clone();
    let mut at = vec![None; usize::from(u16_at(&label, 68))];
    for one in &devices {
        let follows = one.head.as_ref().is_none_or(|own| head.comes_from(own.opening()));
        let record = |config: &[u8]| config[2304 + one.member * 32..][..32].to_vec();
        let own =
            one.configs.iter().find(|own| one.head.as_ref().is_some_and(|h| name_of(own) == h.config()));
        // A device that another has taken the place of, or that was about to take one's, has another identity.
        let is_it = record(own.unwrap_or(&one.configs[0]))[..16] == record(&label)[..16];
        let is_in_use = is_it && record(&label)[30] == 0;
        if follows && is_in_use && !head.is_out(one.member) {
            at[one.member] = Some(one.device);
        }
    }
    let out = (0..at.len()).filter(|&n| at[n].is_none()).collect();
    let block = |member: usize, byte: u64| peek(at.get(member).copied().flatten()?, (1 << 20) + byte);
    let reader = Reader { head, rows: RefCell::new(Rows::new(runs(&label))), label, block: &block };
    let name = String::from_utf8_lossy(&reader.label[72..136]).trim_end_matches('\0').to_owned();
    let name = (name, u64_at(&reader.label, 136));
    Ok(PoolContent { out, name, ..reader.content()? })
}

/// Runs of segments: which vdev each is of, and which members that has.
fn runs(label: &[u8]) -> Vec<Run> {
    let records = |at: usize, bytes: usize, count: usize| {
        (0..usize::from(u16_at(label, count))).map(move |n| &label[at + n * bytes..][..bytes])
    };
    let run = |run: &[u8]| {
        let vdev = u16_at(run, 12);
        // A successor (4) has its role later.
        let has_role = |member: &[u8]| u16_at(member, 22) == vdev && member[30] != 4;
        let members = records(2304, 32, 68).enumerate().filter(|(_, member)| has_role(member));
        let mut roles: Vec<(u16, usize)> = members.map(|(n, member)| (u16_at(member, 24), n)).collect();
        roles.sort_unstable();
        Run {
            first: u32_at(run, 0),
            count: u32_at(run, 4),
            unit: u32_at(run, 8),
            log: label[256 + usize::from(vdev) * 32 + 2],
            members: roles.into_iter().map(|(_, n)| n).collect(),
        }
    };
    records(10496, 16, 70).map(run).collect()
}

/// The label of a device and its youngest uberblock.
fn look(device: usize, size: u64, peek: Peek<'_>) -> Option<Labelled> {
    let (mut configs, mut heads): (Vec<Vec<u8>>, _) = (Vec::new(), Vec::new());
    for at in [32 << 10, size / 4096 * 4096 - (256 << 10)] {
        for place in [0, 12 << 10] {
            let config: Option<Vec<Vec<u8>>> = (0..3).map(|n| peek(device, at + place + n * 4096)).collect();
            let config = config.unwrap_or_default().concat();
            if !config.is_empty() && is_sound(&config, b"BRNDPOOL") && u32_at(&config, 12) == 2 {
                configs.push(config);
            }
        }
        heads.extend((0..RING.1).filter_map(|n| peek(device, at + RING.0 + n * 4096)));
    }
    let label = configs.first()?;
    let is_head = |bytes: &Vec<u8>| is_sound(bytes, b"BRNDUBER") && bytes[16..32] == label[16..32];
    let heads = heads.into_iter().filter(is_head).map(Head);
    let head = heads.reduce(|best, next| if next.is_after(&best) { next } else { best });
    Some(Labelled { device, member: usize::from(u16_at(label, 64)), configs, head })
}

/// The uberblock that counts.
fn choose(devices: &[Labelled]) -> Result<Head, String> {
    let all: Vec<(usize, &Head)> =
        devices.iter().filter_map(|one| Some((one.member, one.head.as_ref()?))).collect();
    let last: Vec<&Head> =
        all.iter().map(|&(_, head)| head).filter(|head| !all.iter().any(|(_, o)| o.is_after(head))).collect();
    // A device whose number another has by a younger config is a member no more.
    let id = |config: &[u8], member: usize| config[2304 + member * 32..][..16].to_vec();
    let has_left = |a: &Head, one: &Labelled| {
        let counts = devices.iter().flat_map(|one| &one.configs).find(|config| name_of(config) == a.config());
        let own = one.configs.iter().map(|own| u64_at(own, 136)).max();
        counts.is_some_and(|counts| {
            own < Some(a.config().0) && id(counts, one.member) != id(&one.configs[0], one.member)
        })
    };
    let carries =
        |one: &&Labelled, b: &Head| one.head.as_ref().is_some_and(|own| own.opening() == b.opening());
    let excludes = |a: &Head, b: &Head| {
        let mut carriers = devices.iter().filter(|one| carries(one, b));
        carriers.all(|one| a.is_out(one.member) || has_left(a, one))
    };
    let wins = |head: &&&Head| {
        last.iter()
            .all(|other| other.opening() == head.opening() || excludes(head, other) && !excludes(other, head))
    };
    last.iter().find(wins).map(|&head| head.clone()).ok_or_else(|| "no uberblock decides".to_owned())
}

/// The entries of a leaf of runs: runs of ten bytes, and behind them a checksum for each of so many blocks.
fn leaf_of_runs(page: &[u8], count: usize) -> Option<Vec<(u64, u64, u32)>> {
    let (first, runs) = (u64_at(page, 32), usize::from(u16_at(page, 44)));
    let sums = page.get(48 + 10 * runs..)?.get(..4 * count)?;
    let mut entries: Vec<(u64, u64, u32)> = Vec::new();
    for run in page[48..].chunks(10).take(runs) {
        let (block, blocks, address) =
            (first + u64::from(u16_at(run, 0)), u64::from(u16_at(run, 2)), u48_at(run, 4));
        let is_lost = address == NOWHERE;
        let is_behind = entries.last().is_none_or(|last| last.0 < block);
        let is_in_one = is_lost || (address >> 20) == (address + blocks - 1) >> 20;
        if blocks == 0 || !is_behind || !is_in_one || entries.len() + blocks as usize > count {
            return None;
        }
        for n in 0..blocks {
            let place = if is_lost { NOWHERE } else { address + n };
            entries.push((block + n, place, u32_at(sums, 4 * entries.len())));
        }
    }
    (entries.len() == count).then_some(entries)
}

/// Records of a page that have so many bytes each.
fn records(page: &[u8], bytes: usize) -> impl Iterator<Item = &[u8]> {
    page[32..].chunks_exact(bytes).take(usize::from(u16_at(page, 10)))
}

/// Records of a page of history: of each sixteen bytes, a host and a text.
fn history(page: &[u8]) -> Result<Vec<(u64, String, String)>, String> {
    let (mut records, mut left) = (Vec::new(), &page[32..]);
    for _ in 0..u16_at(page, 10) {
        let cut = "a record of history is cut short";
        let (head, rest) = left.split_at_checked(16).ok_or(cut)?;
        let (host, rest) = rest.split_at_checked(head[13].into()).ok_or(cut)?;
        let (text, rest) = rest.split_at_checked(u16_at(head, 14).into()).ok_or(cut)?;
        let of = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|why| why.to_string());
        records.push((u64_at(head, 0), of(host)?, of(text)?));
        left = rest;
    }
    Ok(records)
}

struct Reader<'a> {
    head: Head,
    label: Vec<u8>,
    rows: RefCell<Rows>,
    block: &'a dyn Fn(usize, u64) -> Option<Vec<u8>>,
}

/// A batch that counts.
struct Batch {
    sequence: u64,
    /// Volume, block, kind, count, address, checksum.
    entries: Vec<(u32, u64, u8, u64, u64, u32)>,
}

impl Reader<'_> {
    /// The block at an address, which must have this checksum.
    fn at(&self, address: u64, expected: u32) -> Option<Vec<u8>> {
        self.rows.borrow().find(address, self.block, &|bytes| sum(bytes) == expected)
    }

    fn page(&self, address: u64, expected: u32, kind: u8) -> Result<Vec<u8>, String> {
        let page = self.at(address, expected).ok_or_else(|| format!("page {address:#x} is lost"))?;
        let is = page.starts_with(b"BRNDPAGE") && page[8] == kind;
        if is { Ok(page) } else { Err(format!("page {address:#x} is not of kind {kind}")) }
    }

    /// The records of a list, `bytes` each; notes where its pages stand.
    fn list(&self, root: usize, kind: u8, bytes: usize, own: &mut Vec<u64>) -> Result<Vec<Vec<u8>>, String> {
        let pages = self.pages(root, kind, own)?;
        Ok(pages.iter().flat_map(|page| records(page, bytes)).map(<[u8]>::to_vec).collect())
    }

    /// The pages of a list; notes where they and pages of pointers stand.
    fn pages(&self, root: usize, kind: u8, own: &mut Vec<u64>) -> Result<Vec<Vec<u8>>, String> {
        let root = self.head.0[root..root + 24].to_vec();
        if u64_at(&root, 0) == NOWHERE {
            return Ok(Vec::new());
        }
        let mut level = vec![(u64_at(&root, 0), u32_at(&root, 8))];
        for left in (0..=root[16]).rev() {
            own.extend(level.iter().map(|&(address, _)| address));
            let kind = if left > 0 { 1 } else { kind };
            let pages = level.iter().map(|&(address, expected)| self.page(address, expected, kind));
            let pages = pages.collect::<Result<Vec<_>, String>>()?;
            if left == 0 {
                return Ok(pages);
            }
            let pointers = pages.iter().flat_map(|page| records(page, 16));
            level = pointers.map(|pointer| (u64_at(pointer, 0), u32_at(pointer, 8))).collect();
        }
        Ok(Vec::new())
    }

    /// Goes down from a page of the map: its leaves, with the state of that page, and all places. Each branch names pages one level below it, in
    /// the order of their keys, from its own key on up to the end of its range, and counts their pages and blocks.
    fn walk(
        &self,
        page: &[u8],
        end: Option<(u32, u64)>,
        leaves: &mut Vec<(Vec<u8>, u8)>,
        own: &mut Vec<u64>,
    ) -> Result<(), String> {
        let (level, state, address) = (page[30], page[31], u48_at(page, 10));
        own.push(address);
        if level == 0 {
            leaves.push((page.to_vec(), state));
            return Ok(());
        }
        let bytes = self.page(address, u32_at(page, 16), 8)?;
        if u64_at(&bytes, 16) != u64::from(level) {
            return Err(format!("branch {address:#x} is of another level"));
        }
        let mut refs: Vec<Vec<u8>> =
            bytes[32..].chunks(32).take(usize::from(u16_at(&bytes, 10))).map(<[u8]>::to_vec).collect();
        let key = |page: &[u8]| (u32_at(page, 0), u48_at(page, 4));
        let (pages, blocks) = refs
            .iter()
            .fold((1, 0), |(pages, blocks), below| (pages + u32_at(below, 20), blocks + u48_at(below, 24)));
        let is_right = refs.iter().all(|below| below[30] + 1 == level && below[31] == 0)
            && refs.windows(2).all(|pair| key(&pair[0]) < key(&pair[1]))
            && refs.first().is_some_and(|first| key(first) == key(page))
            && refs.last().is_some_and(|last| end.is_none_or(|end| key(last) < end))
            && (pages, blocks) == (u32_at(page, 20), u48_at(page, 24));
        if !is_right {
            return Err(format!("branch {address:#x} names what can't be"));
        }
        for n in 0..refs.len() {
            refs[n][31] = state;
            let end = refs.get(n + 1).map(|next| key(next)).or(end);
            self.walk(&refs[n], end, leaves, own)?;
        }
        Ok(())
    }

    /// The entries of a leaf: block, address, checksum.
    fn leaf(&self, address: u64, expected: u32) -> Result<Vec<(u64, u64, u32)>, String> {
        let lost = || format!("leaf {address:#x} is lost");
        let page = self.at(address, expected).ok_or_else(lost)?;
        let count = usize::from(u16_at(&page, 10));
        let loose = |entry: &[u8]| (u48_at(entry, 0), u64_at(entry, 12), u32_at(entry, 20));
        let first = u64_at(&page, 32);
        let dense = |entry: &[u8]| (first + u64::from(u16_at(entry, 0)), u48_at(entry, 2), u32_at(entry, 8));
        match page[8] {
            _ if !page.starts_with(b"BRNDPAGE") => Err(lost()),
            2 => Ok(page[32..].chunks(24).take(count).map(loose).collect()),
            7 => Ok(page[52..].chunks(12).take(count).map(dense).collect()),
            10 => {
                leaf_of_runs(&page, count).ok_or_else(|| format!("leaf {address:#x} has runs that can't be"))
            }
            kind => Err(format!("page {address:#x} is no leaf but of kind {kind}")),
        }
    }

    fn content(&self) -> Result<PoolContent, String> {
        let mut own = Vec::new();
        let rooted = usize::from(u16_at(&self.head.0, 744));
        for n in 0..rooted {
            let shape = &self.head.0[752 + n * 24..][..24];
            let (members, missing) = (u64_at(shape, 8), u64_at(shape, 16));
            let segment =
                Segment { stripe: shape[4], parity: shape[5], chunk: shape[7], turn: 0, members, missing };
            self.rows.borrow_mut().put(u32_at(shape, 0), segment);
        }
        let table = self.list(104, 4, 48, &mut own)?;
        for (n, record) in (0..).zip(&table) {
            let (members, missing) = (u64_at(record, 8), u64_at(record, 16));
            let segment = Segment {
                stripe: record[2],
                parity: record[3],
                chunk: record[6],
                turn: record[7],
                members,
                missing,
            };
            self.rows.borrow_mut().put(n, segment);
        }
        let mut content = PoolContent { stopped: u64_at(&self.head.0, 216) == 1, ..PoolContent::default() };
        // One that is being destroyed is gone.
        for record in self.list(128, 5, 128, &mut own)?.into_iter().filter(|record| record[24] == 0) {
            let name = String::from_utf8_lossy(&record[32..96]).trim_end_matches('\0').to_owned();
            content.volumes.insert(name, (u32_at(&record, 0), u64_at(&record, 8)));
        }
        self.list(152, 6, 64, &mut own)?;
        for page in self.pages(3912, 11, &mut own)? {
            content.history.extend(history(&page)?);
        }
        let mut found: BTreeMap<(u32, u64), (u64, u32)> = BTreeMap::new();
        let dead = self.list(80, 9, 32, &mut own)?;
        let mut leaves = Vec::new();
        let map = self.head.0[3960..3992].to_vec();
        if u48_at(&map, 10) != NOWHERE {
            self.walk(&map, None, &mut leaves, &mut own)?;
        }
        for page in &dead {
            self.walk(page, None, &mut leaves, &mut own)?;
        }
        let behind = dead.iter().any(|page| page[31] == 2);
        let mut counted = own.clone();
        for (leaf, state) in &leaves {
            let (address, volume) = (u48_at(leaf, 10), u32_at(leaf, 0));
            let may_be_of_before = *state == 2 || !behind;
            for (block, address, expected) in self.leaf(address, u32_at(leaf, 16))? {
                let reused = table.get((address >> 20) as usize).is_some_and(|record| record[5] == 1);
                if !(may_be_of_before && reused) {
                    counted.push(address);
                }
                // Blocks of leaves that were given back only count.
                if *state == 0 {
                    found.insert((volume, block), (address, expected));
                }
            }
        }
        content.miscounted = miscounted(&table, counted.into_iter());
        if !content.stopped {
            self.replay(&table, &mut found, &mut content.volumes)?;
        }
        found.retain(|at, _| content.volumes.values().any(|volume| volume.0 == at.0));
        for (key, (address, expected)) in found {
            let block = if address == NOWHERE { None } else { self.at(address, expected) };
            content.blocks.insert(key, block);
        }
        Ok(content)
    }

    /// Applies the batches of the log that count.
    fn replay(
        &self,
        table: &[Vec<u8>],
        found: &mut BTreeMap<(u32, u64), (u64, u32)>,
        volumes: &mut BTreeMap<String, (u32, u64)>,
    ) -> Result<(), String> {
        let (mut batches, mut durable) = (BTreeMap::new(), 0);
        for (n, _) in (0..).zip(table).filter(|(_, record)| record[0] == 1) {
            let stripes = self.rows.borrow().stripes(n);
            let mut stripe = 0;
            while stripe < stripes {
                match self.batch(n, stripe, &mut durable) {
                    Some((batch, wide)) if batch.sequence > 0 => {
                        let known = batches.get(&batch.sequence).map(|known: &Batch| known.entries.len());
                        if known.is_none_or(|known| known < batch.entries.len()) {
                            batches.insert(batch.sequence, batch);
                        }
                        stripe += wide;
                    }
                    // One that a checkpoint has may be of an earlier use, and lie over younger ones.
                    _ => stripe += 1,
                }
            }
        }
        let from = u64_at(&self.head.0, 56) + 1;
        if let Some(lost) = (from..=durable).find(|sequence| !batches.contains_key(sequence)) {
            return Err(format!("batch {lost} was on stable storage and is lost"));
        }
        for (volume, block, kind, count, address, expected) in
            batches.into_values().flat_map(|batch| batch.entries)
        {
            match kind {
                0 => {
                    let _old = found.insert((volume, block), (address, expected));
                }
                4 => {
                    let all = (volume, block)..(volume, block + count);
                    let gone: Vec<_> = found.range(all).map(|(&key, _)| key).collect();
                    gone.iter().for_each(|key| {
                        let _gone = found.remove(key);
                    });
                }
                5 => drop(found.insert((volume, block), (NOWHERE, 0))),
                6 => volumes.retain(|_, own| own.0 != volume),
                _ => {}
            }
        }
        Ok(())
    }

    /// The batch that begins with a stripe, if it counts, and its stripes.
    fn batch(&self, segment: u32, stripe: u32, durable: &mut u64) -> Option<(Batch, u32)> {
        let address = self.rows.borrow().data_address(segment, stripe, 0);
        let is_summary = |bytes: &[u8]| {
            bytes.starts_with(b"BRNDBTCH")
                && bytes[16..32] == self.label[16..32]
                && u64_at(bytes, 56) == address
                && is_sound(bytes, b"BRNDBTCH")
        };
        let mut all = self.rows.borrow().find_all(address, self.block, &is_summary, b"BRNDBTCH");
        all.retain(|summary| u64_at(summary, 32) == self.head.opening());
        all.sort_by_key(|summary| u64::MAX - u64_at(summary, 40));
        all.iter().find_map(|summary| {
            *durable = u64_at(summary, 48).max(*durable);
            self.batch_of(segment, stripe, summary)
        })
    }

    /// The batch of a summary, if it is whole, and its stripes.
    fn batch_of(&self, segment: u32, stripe: u32, summary: &[u8]) -> Option<(Batch, u32)> {
        let rows = self.rows.borrow();
        let (sequence, stripes) = (u64_at(summary, 40), u32::from(u16_at(summary, 12)));
        let (mut next, mut entries, mut sums) = (1, Vec::new(), vec![sum(summary)]);
        for n in 0..usize::from(u16_at(summary, 14)) {
            let entry = &summary[64 + n * 24..][..24];
            let (kind, expected) = (entry[14], u32_at(entry, 20));
            let at = rows.data_address(segment, stripe, next);
            entries.push((
                u32_at(entry, 0),
                u48_at(entry, 8),
                kind,
                u64::from(u32_at(entry, 16)),
                at,
                expected,
            ));
            if kind <= 3 {
                sums.push(expected);
                next += 1;
            }
        }
        if stripe + stripes > rows.stripes(segment)
            || !rows.is_whole(segment, stripe, stripes, &sums, self.block)
        {
            return None;
        }
        if sequence <= u64_at(&self.head.0, 56) {
            entries.clear();
            return Some((Batch { sequence: 0, entries }, stripes));
        }
        Some((Batch { sequence, entries }, stripes))
    }
}

/// Segments whose count of live blocks is wrong.
fn miscounted(table: &[Vec<u8>], all: impl Iterator<Item = u64>) -> Vec<(u32, u32, u32)> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for address in all.filter(|&address| address != NOWHERE) {
        *counts.entry((address >> 20) as u32).or_default() += 1;
    }
    let reported = (0..).zip(table).map(|(n, record)| (n, u32_at(record, 24)));
    let with = reported.map(|(n, reported)| (n, reported, counts.get(&n).copied().unwrap_or(0)));
    with.filter(|(_, reported, there)| reported != there).collect()
}
