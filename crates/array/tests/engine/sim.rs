//! The engine, unchanged, in the sim world: virtual time, modelled drives that die, and runs that a seed replays.

use brindle_array::RoleState;
use brindle_io::Duration;
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_layout::Level;
use brindle_testkit::load::Mix;
use brindle_testkit::running::Running;
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{World, patient};
use brindle_volume::Volume;

const BLOCK: usize = 4096;
const LANES: u64 = 8;
const ROUNDS: u64 = 24;

fn start(shape: &Shape, seed: u64) -> Running<Sim> {
    Running::start(World::in_sim(shape, Model::sata_ssd(), seed), patient())
}

#[derive(Debug, PartialEq, Eq)]
struct Ran {
    trace: (u64, u64),
    nanos: u64,
    content: Vec<u8>,
}

/// Clients side by side, with members dying on the way; every answer and the whole in the end are judged.
fn run(shape: &Shape, deaths: &[usize], seed: u64) -> Ran {
    let run = start(shape, seed);
    let client = run.client(&run.oracle());
    run.run(async |run| {
        let (asking, io) = (client.clone(), run.io.clone());
        let mix = Mix { crowd: 64 << 10, ..Mix::default() };
        let load = run.io.spawn(async move { asking.side_by_side(&io, LANES, ROUNDS, mix, seed).await });
        for &dead in deaths {
            run.io.sleep(Duration::from_millis(3)).await;
            run.bench.kill(run.ids[dead]);
        }
        let troubles = load.await;
        assert!(troubles.is_empty(), "{shape}, seed {seed}: {}", troubles[0]);
        client.read_all().await.unwrap_or_else(|trouble| panic!("{shape}, seed {seed}: {trouble}"));
    });
    let content = run.run(async |run| run.read_all().await).unwrap();
    run.stop();
    assert!(
        deaths.iter().all(|&dead| run.array.state(dead as u16) == RoleState::Failed),
        "{shape}, seed {seed}"
    );
    Ran { trace: run.bench.trace(), nanos: run.io.now().as_nanos(), content }
}

/// Every redundant family, with as many deaths as it tolerates.
fn arrays() -> [(Shape, &'static [usize]); 6] {
    let shape = |level, layout: &str, members| {
        let shape = Shape { chunk: 16 << 10, rows: 32, ..Shape::new(level, members) };
        if layout.is_empty() { shape } else { shape.layout(layout) }
    };
    [
        (shape(Level::Raid1, "", 3), &[0, 2]),
        (shape(Level::Raid10, "n2", 4), &[1, 2]),
        (shape(Level::Raid10, "f2", 5), &[3]),
        (shape(Level::Raid4, "", 4), &[0]),
        (shape(Level::Raid5, "left-symmetric", 5), &[4]),
        (shape(Level::Raid6, "left-symmetric", 6), &[1, 4]),
    ]
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_byte() {
    for (shape, deaths) in arrays() {
        let (first, second) = (run(&shape, deaths, 7), run(&shape, deaths, 7));
        assert!(first == second, "{shape}");
        assert!(first.trace.1 > LANES * ROUNDS, "something was done: {} events", first.trace.1);
    }
}

#[test]
fn no_seed_loses_a_byte_while_members_die() {
    for (shape, deaths) in arrays() {
        let traces: Vec<_> = (0..16).map(|seed| run(&shape, deaths, seed).trace).collect();
        assert!(traces.windows(2).all(|pair| pair[0] != pair[1]), "{shape}: seeds differ");
    }
}

#[test]
fn striped_levels_run_in_the_sim_too() {
    let striped = Shape::new(Level::Raid0, 4);
    assert!(run(&striped, &[], 1) == run(&striped, &[], 1));
    run(&Shape::new(Level::Linear, 3), &[], 1);
}

#[test]
fn a_bad_sector_is_mended_while_other_reads_fill_the_same_buffer() {
    let shape = Shape { chunk: 64 << 10, rows: 8, ..Shape::new(Level::Raid1, 2) };
    for seed in 0..20 {
        let run = start(&shape, seed);
        let len = 16 * BLOCK;
        run.run(async |run| {
            run.write_all(&vec![7; run.size() as usize]).await.unwrap();
            run.bench.spoil(run.ids[seed as usize % 2], run.data_offset, shape.chunk * shape.rows / 2);
            let buf = run.pool.alloc(len).await;
            buf.bytes_mut().fill(0);
            // As an array of arrays does: one request, whose parts are read by and by.
            let reads = (0..16u64).map(|part| {
                let into = buf.slice(part as usize * BLOCK..(part as usize + 1) * BLOCK);
                async move {
                    run.io.sleep(Duration::from_micros(part * 20)).await;
                    run.array.read(part * (16 << 10), into).await
                }
            });
            let results = join_all(reads).await;
            assert!(results.iter().all(Result::is_ok));
            assert!(buf.bytes().iter().all(|&byte| byte == 7));
        });
    }
}
