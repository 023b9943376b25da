//! The engine, unchanged, in the sim world: virtual time, modelled drives that die, and runs that a seed replays.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::{Array, Config, Device, Volume};
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Io, MemberId, Pool};
use brindle_layout::{Geometry, Layout, Level};

const MIB: u64 = 1 << 20;
const BLOCK: usize = 4096;
/// Each lane writes blocks of its own, so that the model needs no order between lanes.
const LANES: u64 = 8;
const ROUNDS: u64 = 24;

struct Run {
    trace: (u64, u64),
    nanos: u64,
    content: Vec<u8>,
}

/// Random reads and writes by parallel lanes, with members dying on the way, every answer compared with a model.
fn run(level: Level, layout: &str, members: u16, deaths: &[u16], seed: u64) -> Run {
    let sim = Sim::new(seed);
    let io = Io::new(Box::new(sim.clone()));
    let drives: Vec<MemberId> = (0..members).map(|_| sim.add_drive(Model::sata_ssd(), 2 * MIB)).collect();
    let layout =
        if layout.is_empty() { Layout::default_for(level) } else { Layout::parse(level, layout).unwrap() };
    let geometry = Geometry::new(level, layout, 16 << 10, &vec![MIB; usize::from(members)]).unwrap();
    let devices = drives.iter().map(|&id| Some(Device { id, data_offset: MIB })).collect();
    let array = Array::volatile(&io, geometry, devices, Config::default());
    let pool = io.pool(8 << 20);
    let model = Rc::new(RefCell::new(vec![0; array.limits().size as usize]));
    io.block_on(async {
        let lanes = (0..LANES).map(|lane| {
            let (array, pool, model) = (array.clone(), pool.clone(), Rc::clone(&model));
            io.spawn(async move { drive_lane(&array, &pool, &model, lane, seed).await })
        });
        let lanes: Vec<_> = lanes.collect();
        for &dead in deaths {
            io.sleep(brindle_io::Duration::from_millis(3)).await;
            sim.kill(drives[usize::from(dead)]);
        }
        join_all(lanes).await;
    });
    let content = io.block_on(read_all(&array, &pool));
    assert!(content == *model.borrow(), "{} lost or made up bytes (seed {seed})", level.name());
    let run = Run { trace: sim.trace(), nanos: io.now().as_nanos(), content };
    io.shutdown();
    run
}

async fn drive_lane(array: &Array, pool: &Pool, model: &RefCell<Vec<u8>>, lane: u64, seed: u64) {
    let blocks = array.limits().size / BLOCK as u64;
    let mut state = seed ^ (lane + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for round in 0..ROUNDS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = (state >> 33) % (blocks / LANES) * LANES + lane;
        let (offset, at) = (block * BLOCK as u64, block as usize * BLOCK);
        let buf = pool.alloc(BLOCK).await;
        if state >> 62 == 0 {
            array.read(offset, buf.all()).await.unwrap();
            assert!(*buf.bytes() == model.borrow()[at..at + BLOCK], "block {block} (seed {seed})");
        } else {
            buf.bytes_mut().fill((lane * ROUNDS + round) as u8);
            array.write(offset, buf.all(), round % 7 == 0).await.unwrap();
            model.borrow_mut()[at..at + BLOCK].copy_from_slice(&buf.bytes());
        }
    }
}

async fn read_all(array: &Array, pool: &Pool) -> Vec<u8> {
    let mut all = Vec::new();
    for offset in (0..array.limits().size).step_by(MIB as usize) {
        let len = MIB.min(array.limits().size - offset) as usize;
        let buf = pool.alloc(len).await;
        array.read(offset, buf.all()).await.unwrap();
        all.extend_from_slice(&buf.bytes());
    }
    all
}

/// Every redundant family, with as many deaths as it tolerates.
const ARRAYS: [(Level, &str, u16, &[u16]); 6] = [
    (Level::Raid1, "", 3, &[0, 2]),
    (Level::Raid10, "n2", 4, &[1, 2]),
    (Level::Raid10, "f2", 5, &[3]),
    (Level::Raid4, "", 4, &[0]),
    (Level::Raid5, "left-symmetric", 5, &[4]),
    (Level::Raid6, "left-symmetric", 6, &[1, 4]),
];

#[test]
fn the_same_seed_gives_the_same_run_to_the_byte() {
    for (level, layout, members, deaths) in ARRAYS {
        let (first, second) =
            (run(level, layout, members, deaths, 7), run(level, layout, members, deaths, 7));
        assert_eq!(first.trace, second.trace, "{}", level.name());
        assert_eq!(first.nanos, second.nanos);
        assert!(first.content == second.content);
        assert!(first.trace.1 > LANES * ROUNDS, "something was done: {} events", first.trace.1);
    }
}

#[test]
fn no_seed_loses_a_byte_while_members_die() {
    for (level, layout, members, deaths) in ARRAYS {
        let traces: Vec<_> = (0..12).map(|seed| run(level, layout, members, deaths, seed).trace).collect();
        assert!(traces.windows(2).all(|pair| pair[0] != pair[1]), "{}: seeds differ", level.name());
    }
}

#[test]
fn striped_levels_run_in_the_sim_too() {
    let (first, second) = (run(Level::Raid0, "", 4, &[], 1), run(Level::Raid0, "", 4, &[], 1));
    assert_eq!(first.trace, second.trace);
    run(Level::Linear, "", 3, &[], 1);
}

#[test]
fn a_bad_sector_is_mended_while_other_reads_fill_the_same_buffer() {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let io = Io::new(Box::new(sim.clone()));
        let drives: Vec<MemberId> = (0..2).map(|_| sim.add_drive(Model::sata_ssd(), 2 * MIB)).collect();
        let geometry = Geometry::new(Level::Raid1, Layout::None, 0, &[MIB, MIB]).unwrap();
        let devices = drives.iter().map(|&id| Some(Device { id, data_offset: MIB })).collect();
        let array = Array::volatile(&io, geometry, devices, Config::default());
        let buf = io.pool(MIB as usize).try_alloc(MIB as usize).unwrap();
        buf.bytes_mut().fill(7);
        io.block_on(array.write(0, buf.all(), true)).unwrap();
        buf.bytes_mut().fill(0);
        sim.spoil(drives[seed as usize % 2], MIB, MIB / 2);
        // As an array of arrays does: one request, whose parts are read by and by.
        let reads = (0..16u64).map(|part| {
            let (array, io) = (array.clone(), io.clone());
            let into = buf.slice(part as usize * BLOCK..(part as usize + 1) * BLOCK);
            async move {
                io.sleep(brindle_io::Duration::from_micros(part * 20)).await;
                array.read(part * (16 << 10), into).await
            }
        });
        let results = io.block_on(join_all(reads));
        assert!(results.iter().all(Result::is_ok));
        assert!(buf.bytes()[..16 * BLOCK].iter().all(|&byte| byte == 7));
        drop(array);
        io.shutdown();
    }
}
