//! Pools of version 2 open for ever: their members, as they were when the power went, are kept in `golden`. One of version 1, of which there
//! was no release, is refused by name.
//!
//! A file has, for each sector that is not zeroes, the member (1 byte), the sector (4), the bytes that follow (2), and the sector up to
//! its last byte that is not zero. A release that changes what is written adds a file with `BRINDLE_GOLDENS=write`; none is ever changed.

use std::path::PathBuf;

use brindle_io::Io;
use brindle_io::sim::{Model, Sim};
use brindle_pool::{How, Pool};
use brindle_testkit::pools::house::{House, Kind, MEMBER};
use brindle_testkit::pools::reader;
use brindle_volume::Volume;

const BLOCK: usize = 4096;
/// Blocks of the volume that are not zeroes: those up to the first number, but for those from the second to the third; the last ones
/// stand in the log alone.
const WRITTEN: (u64, u64, u64) = (24, 4, 7);

/// The files: of pools of version 2. Of the first one leaves can't be of runs.
const FILES: [&str; 2] = ["version-2.members", "version-2-runs.members"];
/// A pool of version 1.
const OLDER: &str = "version-1.members";

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

/// The content of a block: little of it, so that the file is small.
fn content(block: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    if block < WRITTEN.0 && !(WRITTEN.1..WRITTEN.2).contains(&block) {
        bytes[..8].copy_from_slice(&(block + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
    bytes
}

fn house(seed: u64) -> (Sim, House) {
    let sim = Sim::new(seed);
    let house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    (sim, house)
}

/// Makes the pool, and lets the power go.
fn make() -> Vec<u8> {
    let (sim, house) = house(1);
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        house.create(&io).await;
        let pool = house.open(&io, 2).await;
        let volume = pool.create_volume("one", 1 << 20).await.expect("room");
        let buf = io.pool(1 << 20).alloc(BLOCK).await;
        for block in 0..WRITTEN.0 {
            if block == 16 {
                pool.checkpoint().await.expect("a checkpoint");
            }
            let bytes = if block == WRITTEN.1 { vec![7; BLOCK] } else { content(block) };
            buf.bytes_mut().copy_from_slice(&bytes);
            volume.write(block << 12, buf.all(), true).await.expect("written");
        }
        volume.discard(WRITTEN.1 << 12, (WRITTEN.2 - WRITTEN.1) << 12).await.expect("given back");
        volume.flush().await.expect("flushed");
    });
    sim.cut_power();
    io.shutdown();
    let mut file = Vec::new();
    for (member, &id) in (0u8..).zip(&house.ids) {
        for (sector, at) in (0u32..).zip((0..MEMBER).step_by(512)) {
            let mut bytes = vec![0; 512];
            sim.peek(id, at, &mut bytes);
            let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            if len > 0 {
                file.push(member);
                file.extend(sector.to_le_bytes());
                file.extend((len as u16).to_le_bytes());
                file.extend(&bytes[..len]);
            }
        }
    }
    file
}

/// The members of a file.
fn members(mut file: &[u8]) -> (Sim, House) {
    let (sim, house) = house(9);
    while let [member, a, b, c, d, l, h, rest @ ..] = file {
        let sector = u32::from_le_bytes([*a, *b, *c, *d]);
        let len = usize::from(u16::from_le_bytes([*l, *h]));
        sim.poke(house.ids[usize::from(*member)], u64::from(sector) * 512, &rest[..len]);
        file = &rest[len..];
    }
    (sim, house)
}

async fn holds(io: &Io, pool: &Pool) {
    let volume = pool.volume("one").expect("it is there");
    assert_eq!(volume.limits().size, 1 << 20);
    let buf = io.pool(1 << 20).alloc(BLOCK).await;
    for block in 0..256 {
        volume.read(block << 12, buf.all()).await.expect("read");
        assert!(*buf.bytes() == content(block)[..], "block {block}");
    }
}

#[test]
fn a_pool_of_version_2_opens_without_any_of_its_members_and_holds_what_it_held() {
    for file in FILES {
        if std::env::var("BRINDLE_GOLDENS").is_ok_and(|what| what == "write") && !path(file).exists() {
            std::fs::write(path(file), make()).expect("a folder that can be written");
        }
        opens(&std::fs::read(path(file)).expect("a golden pool"));
    }
}

fn opens(file: &[u8]) {
    for missing in [None, Some(0), Some(1), Some(2)] {
        for how in [How::ReadOnly, How::degraded(3)] {
            let (sim, house) = members(file);
            let io = Io::new(Box::new(sim));
            io.block_on(async {
                let there = (0..3).filter(|n| Some(*n) != missing).map(|n| house.ids[n]);
                let there: Vec<_> = there.collect();
                let (pool, recovered) =
                    brindle_pool::open(&io, &there, how, None, house.config()).await.expect("it opens");
                assert!(recovered.batches > 0 && recovered.lost == 0, "{recovered:?}");
                holds(&io, &pool).await;
                let found = pool.check(|_| {}).await.expect("it can be gone over");
                assert_eq!((found.wrong, found.lost, found.mismatches), (0, 0, 0));
                pool.stop().await.expect("it stops");
            });
            io.shutdown();
        }
    }
}

#[test]
fn a_pool_of_version_1_is_refused_by_name_with_the_way_out_and_nothing_is_changed() {
    let (sim, house) = members(&std::fs::read(path(OLDER)).expect("a golden pool"));
    let io = Io::new(Box::new(sim.clone()));
    let whole = |id| {
        let mut bytes = vec![0; MEMBER as usize];
        sim.peek(id, 0, &mut bytes);
        bytes
    };
    let before: Vec<Vec<u8>> = house.ids.iter().map(|&id| whole(id)).collect();
    for how in [How::ReadOnly, How::degraded(3)] {
        let opened = io.block_on(async {
            brindle_pool::open(&io, &house.ids, how, None, house.config()).await.map(drop)
        });
        let why = opened.expect_err("it is of another version").to_string();
        let words = ["the pool's label has version 1", "builds of 0.1.0", "copy each volume into a new pool"];
        assert!(words.iter().all(|words| why.contains(words)), "{why}");
    }
    assert!(house.ids.iter().map(|&id| whole(id)).eq(before), "nothing was written");
    io.shutdown();
}

#[test]
fn the_second_reader_reads_the_same() {
    for file in FILES {
        is_read(&std::fs::read(path(file)).expect("a golden pool"));
    }
}

fn is_read(file: &[u8]) {
    let (sim, house) = members(file);
    for missing in [3, 0, 1, 2] {
        let peek = |device: usize, at: u64| {
            let mut bytes = vec![0; BLOCK];
            sim.peek(house.ids[device], at, &mut bytes);
            (device != missing).then_some(bytes)
        };
        let read = reader::read(&[MEMBER; 3], &peek).expect("it is read");
        let &(volume, size) = read.volumes.get("one").expect("it is there");
        assert_eq!((size, read.stopped), (1 << 20, false));
        for block in 0..256 {
            let zeroes = Some(vec![0; BLOCK]);
            let found = read.blocks.get(&(volume, block)).unwrap_or(&zeroes);
            assert!(found.as_ref() == Some(&content(block)), "block {block} without {missing}");
        }
    }
}

/// Two devices with one identity: a copy, or two ways to one device.
#[test]
fn a_member_that_is_there_twice_is_named_and_neither_is_taken() {
    let file = std::fs::read(path(FILES[0])).expect("a golden pool");
    let (sim, house) = members(&file);
    let mut whole = vec![0; MEMBER as usize];
    sim.peek(house.ids[1], 0, &mut whole);
    sim.poke(house.ids[2], 0, &whole);
    let io = Io::new(Box::new(sim.clone()));
    let opened = io.block_on(async {
        brindle_pool::open(&io, &house.ids, How::writing(3), None, house.config()).await.map(drop)
    });
    let reported = opened.map_err(|why| why.to_string());
    assert!(
        reported.as_ref().is_err_and(|reported| reported.contains(" both are member 0.1")),
        "{reported:?}"
    );
    let mut after = vec![0; MEMBER as usize];
    sim.peek(house.ids[1], 0, &mut after);
    assert!(after == whole, "nothing was written");
    io.shutdown();
}
