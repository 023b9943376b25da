//! The power goes in the middle of writes: what was flushed is there, and redundancy can be made true again.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::assembly::{AssembleOptions, Candidate, assemble};
use brindle_array::create::{CreateSpec, plan};
use brindle_array::{Array, OpenConfig, RoleState, SyncMode, Volume};
use brindle_format::md::Version;
use brindle_io::memory::Memory;
use brindle_io::sim::{Model, Sim};
use brindle_io::{Duration, Io, MemberId, Pool};
use brindle_layout::{Family, Level};

use crate::common::*;
use crate::world::*;

const SIZE: u64 = 3 * MIB;
const BLOCK: usize = 4096;
const LANES: u64 = 6;
/// Blocks that are written, from the start: few, so that writes meet in rows.
const BLOCKS: u64 = 96;

/// What a block may hold: what was made stable last, and whatever was written since.
#[derive(Clone, Default)]
struct Block {
    stable: u64,
    since: Vec<u64>,
}

type Blocks = Rc<RefCell<Vec<Block>>>;

async fn open(io: &Io, pool: &Pool, ids: &[MemberId], config: OpenConfig) -> Array {
    let mut candidates = Vec::new();
    for id in ids {
        candidates.push(Candidate::read(io, pool, *id, format!("drive{}", id.0)).await.unwrap());
    }
    let assembly = assemble(&candidates, AssembleOptions::default()).unwrap();
    Array::open(io, assembly, ids, config).await.unwrap()
}

/// Writes to every `LANES`th block for ever, with a flush now and then.
async fn lane(array: Array, pool: Pool, model: Blocks, lane: u64, seed: u64) {
    let mut state = seed * 64 + lane + 1;
    for value in 1.. {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = ((state >> 33) % (BLOCKS / LANES) * LANES + lane) as usize;
        let (value, fua) = (value * LANES + lane, (state >> 60).is_multiple_of(4));
        let buf = pool.alloc(BLOCK).await;
        buf.bytes_mut().chunks_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
        model.borrow_mut()[at].since.push(value);
        array.write((at * BLOCK) as u64, buf.all(), fua).await.unwrap();
        if fua {
            model.borrow_mut()[at] = Block { stable: value, since: Vec::new() };
        }
        if (state >> 50).is_multiple_of(5) {
            array.flush().await.unwrap();
            for block in model.borrow_mut().iter_mut().skip(lane as usize).step_by(LANES as usize) {
                block.stable = block.since.pop().unwrap_or(block.stable);
                block.since.clear();
            }
        }
    }
}

/// Runs lanes until the power goes; gives the members' bytes and what the blocks may hold.
fn crash(spec: &CreateSpec, seed: u64) -> (Vec<Vec<u8>>, Vec<Block>) {
    let sim = Sim::new(seed);
    let io = Io::new(Box::new(sim.clone()));
    let pool = io.pool(4 << 20);
    let model: Blocks = Rc::new(RefCell::new(vec![Block::default(); BLOCKS as usize]));
    let ids: Vec<_> = spec.roles.iter().map(|_| sim.add_drive(Model::sata_ssd(), SIZE)).collect();
    let images = io.block_on(async {
        plan(spec).unwrap().write(&io, &pool, &ids).await.unwrap();
        let array = open(&io, &pool, &ids, patient()).await;
        for number in 0..LANES {
            drop(io.spawn(lane(array.clone(), pool.clone(), Rc::clone(&model), number, seed)));
        }
        io.sleep(Duration::from_micros(2000 + seed * 777)).await;
        sim.cut_power();
        // Taken at once: nothing that the engine does about its cancelled operations belongs to the crash.
        let image = |&id: &MemberId| {
            let mut bytes = vec![0; SIZE as usize];
            sim.peek(id, 0, &mut bytes);
            bytes
        };
        ids.iter().map(image).collect()
    });
    let blocks = model.borrow().clone();
    io.shutdown();
    (images, blocks)
}

impl Block {
    /// Whether each word is of what was stable or of a write since.
    fn explains(&self, bytes: &[u8]) -> bool {
        let mut words = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        words.all(|value| value == self.stable || self.since.contains(&value))
    }
}

/// Reads all blocks; each sector is of what was stable or of a write since.
async fn check(array: &Array, pool: &Pool, blocks: &[Block], who: &str) -> Vec<u8> {
    let mut all = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let bytes = read(pool, array, (at * BLOCK) as u64, BLOCK).await.unwrap();
        let found = &bytes[..8];
        assert!(
            block.explains(&bytes),
            "{who}: block {at}: {found:?}, not {} or {:?}",
            block.stable,
            block.since
        );
        all.extend(bytes);
    }
    all
}

/// Members with these bytes.
fn found(images: &[Vec<u8>]) -> (Memory, Vec<MemberId>) {
    let memory = Memory::new();
    let ids: Vec<_> = images.iter().map(|_| memory.add_ram(SIZE)).collect();
    ids.iter().zip(images).for_each(|(&id, image)| memory.poke(id, 0, image));
    (memory, ids)
}

#[test]
fn what_was_flushed_survives_a_power_cut_and_a_resync_makes_redundancy_true() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 5)] {
        let mut spec = spec(level, members, Version::V1_2);
        spec.roles.iter_mut().flatten().for_each(|member| member.info.size = SIZE);
        for seed in 0..4 {
            let who = format!("{level} seed {seed}");
            let (images, blocks) = crash(&spec, seed);
            assert!(blocks.iter().any(|block| block.stable > 0), "{who}: something was flushed");
            let (memory, ids) = found(&images);
            let io = Io::new(Box::new(memory.clone()));
            let pool = io.pool(4 << 20);
            io.block_on(async {
                let array = open(&io, &pool, &ids, patient()).await;
                assert!(array.needs_resync(), "{who}");
                let before = check(&array, &pool, &blocks, &who).await;
                array.resync(|_| ()).await.unwrap();
                assert_eq!(array.check(SyncMode::Check, |_| ()).await.unwrap().mismatch_sectors, 0, "{who}");
                for lost in 0..members as u16 - 1 {
                    assert!(
                        check(&array, &pool, &blocks, &who).await == before,
                        "{who}: {lost} members less"
                    );
                    if array.fail(lost).await.is_err() {
                        break;
                    }
                }
                array.stop().await.unwrap();
            });
            io.shutdown();
        }
    }
}

#[test]
fn a_member_lost_in_the_resync_after_a_power_cut() {
    for (level, members) in [(Level::Raid5, 3), (Level::Raid6, 5)] {
        let mut spec = spec(level, members, Version::V1_2);
        spec.roles.iter_mut().flatten().for_each(|member| member.info.size = SIZE);
        for seed in [1, 4] {
            let (images, blocks) = crash(&spec, seed);
            for after in [0, 7, 20, 45, 90, 200] {
                let lost = (seed + after) as usize % members;
                let who = format!("{level} seed {seed}: {lost} lost after {after}");
                let (memory, ids) = found(&images);
                let io = Io::new(Box::new(memory.clone()));
                io.block_on(lose_in_resync(&io, &memory, &ids, (lost, after), &mut blocks.clone(), &who));
                io.shutdown();
            }
        }
    }
}

/// Resyncs and writes while a member vanishes; what is written is there, what was stable is there or an error.
async fn lose_in_resync(
    io: &Io,
    memory: &Memory,
    ids: &[MemberId],
    (lost, after): (usize, u64),
    blocks: &mut [Block],
    who: &str,
) {
    let pool = io.pool(4 << 20);
    let array = open(io, &pool, ids, OpenConfig { scratch_bytes: 0, ..patient() }).await;
    memory.strike_after(after, ids[lost], false);
    let other = array.clone();
    let resync = io.spawn(async move { other.resync(|_| ()).await });
    for at in (0..BLOCKS as usize).step_by(3) {
        let value = 1 << 40 | at as u64;
        let bytes = value.to_le_bytes().repeat(BLOCK / 8);
        write(&pool, &array, (at * BLOCK) as u64, &bytes)
            .await
            .unwrap_or_else(|error| panic!("{who}: {error}"));
        blocks[at] = Block { stable: value, since: Vec::new() };
    }
    resync.await.unwrap();
    let Family::Parity(map) = array.geometry().family() else { unreachable!("levels with parity") };
    for (at, block) in blocks.iter().enumerate() {
        let offset = (at * BLOCK) as u64;
        let position = map.position(offset);
        let role = map.row(position.row).data_member(position.data_index);
        match read(&pool, &array, offset, BLOCK).await {
            Ok(bytes) => assert!(block.explains(&bytes), "{who}: block {at}"),
            Err(error) => {
                assert!(at % 3 > 0, "{who}: block {at} was written after the crash: {error}");
                assert_eq!(
                    (usize::from(role), array.state(role)),
                    (lost, RoleState::Failed),
                    "{who}: {error}"
                );
            }
        }
    }
    array.stop().await.unwrap();
}
