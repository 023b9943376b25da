//! Virtual time, seeds and how long drives take.

use brindle_io::sim::Model;
use brindle_io::sync::join_all;
use brindle_io::{Duration, PAGE};

use crate::sim::{world, write};

/// Some traffic whose order depends on the drives' jitter.
fn run(seed: u64) -> ((u64, u64), Duration) {
    let (sim, io, pool) = world(seed);
    let members = [sim.add_drive(Model::nvme(), 1 << 24), sim.add_drive(Model::hdd(), 1 << 24)];
    io.block_on(join_all((0..64u64).map(|i| {
        let (io, pool) = (io.clone(), pool.clone());
        async move {
            for round in 0..4 {
                let offset = (i * 37 + round * 11) % 256 * PAGE as u64;
                write(&io, &pool, members[(i % 2) as usize], offset, i as u8, false).await.unwrap();
            }
        }
    })));
    (sim.trace(), io.now().since(brindle_io::Instant::default()))
}

#[test]
fn a_seed_replays_to_the_byte_and_another_differs() {
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first.0, run(2).0);
    assert_eq!(first.0.1, 512, "256 operations, each submitted and completed once");
}

#[test]
fn an_hour_passes_in_no_time() {
    let (_, io, _) = world(0);
    io.block_on(io.sleep(Duration::from_secs(3600)));
    assert_eq!(io.now().as_nanos(), 3_600_000_000_000);
}

#[test]
fn modelled_drives_reach_the_figures_of_their_kind() {
    let iops = |model: Model, ops: u64| {
        let (sim, io, pool) = world(9);
        let member = sim.add_hollow_drive(model, 1 << 40);
        io.block_on(join_all((0..64).map(|lane| {
            let (io, pool) = (io.clone(), pool.clone());
            async move {
                let buf = pool.alloc(PAGE).await;
                for i in 0..ops {
                    let mut group = io.group();
                    group.read(
                        member,
                        (lane * ops + i).wrapping_mul(0x9e37_79b1) % (1 << 28) * 4096,
                        &buf.all(),
                    );
                    group.submit().await.ok().unwrap();
                }
            }
        })));
        64.0 * ops as f64 / io.now().since(brindle_io::Instant::default()).as_secs_f64()
    };
    let (nvme, hdd) = (iops(Model::nvme(), 200), iops(Model::hdd(), 4));
    assert!((300_000.0..500_000.0).contains(&nvme), "{nvme:.0} IOPS of an NVMe drive");
    assert!((50.0..120.0).contains(&hdd), "{hdd:.0} IOPS of a disk at QD 64 without reordering");
}

/// GB/s of 8 lanes that move 256 KiB at a time; of `writes` of 100 transfers the bytes go to the drive.
fn bandwidth(model: Model, writes: u64) -> f64 {
    let (sim, io, pool) = world(11);
    let member = sim.add_hollow_drive(model, 1 << 40);
    let len = 256 << 10;
    io.block_on(join_all((0..8u64).map(|lane| {
        let (io, pool) = (io.clone(), pool.clone());
        async move {
            let buf = pool.alloc(len).await;
            for i in 0..100 {
                let (mut group, offset) = (io.group(), (lane * 100 + i) * len as u64);
                if (i * 37 + lane) % 100 < writes {
                    group.write(member, offset, &buf.all(), false);
                } else {
                    group.read(member, offset, &buf.all());
                }
                group.submit().await.ok().unwrap();
            }
        }
    })));
    800.0 * len as f64 / io.now().as_nanos() as f64
}

#[test]
fn the_link_is_busy_whatever_moves_over_it() {
    // Of a mix, each byte takes the time of its kind.
    for (writes, right) in [(0, 3.0), (100, 2.0), (50, 2.4)] {
        let reached = bandwidth(Model::nvme(), writes);
        assert!((right * 0.97..right * 1.001).contains(&reached), "{reached} GB/s with {writes} % writes");
    }
}

#[test]
#[should_panic(expected = "every task waits")]
fn a_world_in_which_nothing_can_happen_says_so() {
    let (_, io, _) = world(0);
    io.block_on(core::future::pending::<()>());
}
