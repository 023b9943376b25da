//! Members of a pool, some bytes of which are anything. Input: for each patch which block of those that are no zeroes (2 bytes), offset
//! in it (2), length (1), bytes. Checksums are corrected again, those of pages in whatever points to them, too.

use std::sync::OnceLock;

use brindle_format::pool::checksum;
use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Duration, Io};
use brindle_pool::How;
use brindle_testkit::pools::house::{House, Kind, MEMBER};
use brindle_volume::Volume;

use crate::feed::Feed;

const BLOCK: usize = 4096;
/// Volumes that are larger are not gone over.
const SMALL: u64 = 16 << 20;

/// A block of a member that is no zeroes: the member, where it stands, what it holds.
type FoundBlock = (usize, u64, Vec<u8>);

/// A pool whose power went: labels, pages, and a log to be recovered.
fn sound() -> &'static [FoundBlock] {
    static SOUND: OnceLock<Vec<FoundBlock>> = OnceLock::new();
    SOUND.get_or_init(|| {
        let (sim, house) = house(1, &[]);
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            house.create(&io).await;
            let pool = house.open(&io, 2).await;
            let volume = pool.create_volume("one", 1 << 20).await.expect("room");
            let buf = io.pool(1 << 20).alloc(64 << 10).await;
            buf.bytes_mut().iter_mut().enumerate().for_each(|(n, byte)| *byte = (n / 700) as u8 | 1);
            for at in 0..4 {
                volume.write(at << 17, buf.all(), false).await.expect("written");
            }
            pool.checkpoint().await.expect("a checkpoint");
            volume.write(300 << 10, buf.slice(0..3 * BLOCK), true).await.expect("written");
            volume.discard(0, 64 << 10).await.expect("given back");
            volume.flush().await.expect("flushed");
        });
        sim.cut_power();
        io.shutdown();
        let mut held = Vec::new();
        for (member, &id) in house.ids.iter().enumerate() {
            for at in (0..MEMBER).step_by(BLOCK) {
                let mut bytes = vec![0; BLOCK];
                sim.peek(id, at, &mut bytes);
                if bytes.iter().any(|byte| *byte != 0) {
                    held.push((member, at, bytes));
                }
            }
        }
        held
    })
}

fn house(seed: u64, held: &[FoundBlock]) -> (Sim, House) {
    let sim = Sim::new(seed);
    let house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    for (member, at, bytes) in held {
        sim.poke(house.ids[*member], *at, bytes);
    }
    (sim, house)
}

/// Opens what is left of a pool, for reading and for writing, and uses what opens.
pub fn run(data: &[u8]) {
    let (mut feed, mut held) = (Feed(data), sound().to_vec());
    while !feed.is_empty() {
        let which = usize::from(feed.u16()) % held.len();
        let at = usize::from(feed.u16()) % BLOCK;
        let len = usize::from(feed.u8());
        let from = feed.bytes(len);
        let (member, place, block) = &mut held[which];
        let end = (at + from.len()).min(BLOCK);
        let old = checksum(block);
        block[at..end].copy_from_slice(&from[..end - at]);
        let whole = (*member, *place);
        seal(&mut held, which, whole, old, 0);
    }
    for how in [How::ReadOnly, How::degraded(3)] {
        let (sim, house) = house(2, &held);
        let io = Io::new(Box::new(sim.clone()));
        sim.cut_power_at(When::Moment(io.now().after(Duration::from_secs(36_000))));
        let ended = io.block_on(sim.until_end(&io, use_it(&io, &house, how)));
        assert!(ended.is_some(), "it comes to no end");
        io.shutdown();
    }
}

async fn use_it(io: &Io, house: &House, how: How) {
    let Ok((pool, _)) = house.open_without(io, 0, how).await else { return };
    let _status = pool.status();
    let volumes = pool.volumes();
    if volumes.iter().all(|volume| volume.size <= SMALL) {
        let _checked = pool.check(|_| {}).await;
    }
    for record in volumes.iter().take(4) {
        let Some(volume) = pool.volume(&record.name) else { continue };
        let buf = io.pool(1 << 20).alloc(64 << 10).await;
        for at in (0..volume.limits().size.min(1 << 20)).step_by(64 << 10) {
            let len = (volume.limits().size - at).min(64 << 10) as usize;
            let _read = volume.read(at, buf.slice(0..len)).await;
        }
        let len = volume.limits().size.min(8192) as usize;
        let _written = volume.write(0, buf.slice(0..len), true).await;
    }
    let _made = pool.create_volume("another", 64 << 10).await;
    let _stopped = pool.stop().await;
}

/// Makes checksums true after a block has changed: its own, or that in whatever points to it.
fn seal(held: &mut [FoundBlock], which: usize, whole: (usize, u64), old: u32, depth: usize) {
    let block = &held[which].2;
    let is_page = block.starts_with(b"BRNDPAGE");
    // A config is of three blocks, the first of which has the sum.
    let config = (0..3).find_map(|n| {
        let at = whole.1.checked_sub(n * BLOCK as u64)?;
        let found = |(member, place, bytes): &FoundBlock| {
            *member == whole.0 && *place == at && bytes.starts_with(b"BRNDPOOL")
        };
        held.iter().position(found)
    });
    if let Some(first) = config {
        let (member, place) = (held[first].0, held[first].1);
        let part = |n: u64| {
            let found = |one: &&FoundBlock| one.0 == member && one.1 == place + n * BLOCK as u64;
            held.iter().find(found).map_or_else(|| vec![0; BLOCK], |one| one.2.clone())
        };
        let mut bytes: Vec<u8> = (0..3).flat_map(part).collect();
        bytes[8..12].fill(0);
        let sum = checksum(&bytes);
        held[first].2[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes[64..66].fill(0);
        // All say what the first member does: else none opens. Another contradicts it.
        if member == 0 {
            spread(held, &bytes);
        }
        name(held, &bytes);
        return;
    }
    if !is_page && [&b"BRNDUBER"[..], b"BRNDBTCH"].iter().any(|magic| block.starts_with(magic)) {
        seal_own(&mut held[which].2);
    }
    let new = checksum(&held[which].2);
    if depth > 4 || new == old {
        return;
    }
    for other in 0..held.len() {
        let bytes = &held[other].2;
        let points = bytes.starts_with(b"BRNDPAGE") || bytes.starts_with(b"BRNDUBER");
        let at = (32..BLOCK - 3).step_by(4).find(|&at| bytes[at..at + 4] == old.to_le_bytes());
        if let Some(at) = at.filter(|_| points && other != which && old != 0) {
            let before = checksum(bytes);
            held[other].2[at..at + 4].copy_from_slice(&new.to_le_bytes());
            let place = (held[other].0, held[other].1);
            seal(held, other, place, before, depth + 1);
        }
    }
}

fn seal_own(block: &mut [u8]) {
    block[8..12].fill(0);
    let sum = checksum(block);
    block[8..12].copy_from_slice(&sum.to_le_bytes());
}

/// Has all uberblocks name a config, of which these are the bytes without checksum and member.
fn name(held: &mut [FoundBlock], config: &[u8]) {
    for (_, _, block) in held.iter_mut().filter(|(_, _, block)| block.starts_with(b"BRNDUBER")) {
        block[224..232].copy_from_slice(&config[136..144]);
        block[3824..3828].copy_from_slice(&checksum(config).to_le_bytes());
        seal_own(block);
    }
}

/// Gives all labels this config, without its checksum and member: members are of one mind then.
fn spread(held: &mut [FoundBlock], config: &[u8]) {
    let is_first = |(_, _, block): &&FoundBlock| block.starts_with(b"BRNDPOOL");
    let labels: Vec<(usize, u64, Vec<u8>)> = held.iter().filter(is_first).cloned().collect();
    for (member, place, old) in labels {
        let mut own = config.to_vec();
        own[64..66].copy_from_slice(&old[64..66]);
        seal_own(&mut own);
        for (n, part) in (0..).zip(own.chunks(BLOCK)) {
            let found = held.iter_mut().find(|one| one.0 == member && one.1 == place + n * BLOCK as u64);
            if let Some(found) = found {
                found.2.copy_from_slice(part);
            }
        }
    }
}
