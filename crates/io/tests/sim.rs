//! The sim world: virtual time, seeds, caches that forget.

use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io, MemberId, OpError, PAGE, Pool};

fn world(seed: u64) -> (Sim, Io, Pool) {
    let sim = Sim::new(seed);
    let io = Io::new(Box::new(sim.clone()));
    let pool = io.pool(8 << 20);
    (sim, io, pool)
}

async fn write(
    io: &Io,
    pool: &Pool,
    member: MemberId,
    offset: u64,
    byte: u8,
    fua: bool,
) -> Result<(), OpError> {
    let buf = pool.alloc(PAGE).await;
    buf.bytes_mut().fill(byte);
    let mut group = io.group();
    group.write(member, offset, &buf.all(), fua);
    group.submit().await.ok()
}

async fn flush(io: &Io, member: MemberId) {
    let mut group = io.group();
    group.flush(member);
    group.submit().await.ok().unwrap();
}

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
fn flushed_and_fua_bytes_survive_a_power_cut_and_others_may_not() {
    let mut kept = 0;
    for seed in 0..64 {
        let (sim, io, pool) = world(seed);
        let member = sim.add_drive(Model::sata_ssd(), 1 << 20);
        io.block_on(async {
            write(&io, &pool, member, 0, 1, false).await.unwrap();
            flush(&io, member).await;
            write(&io, &pool, member, 4096, 2, true).await.unwrap();
            write(&io, &pool, member, 8192, 3, false).await.unwrap();
        });
        sim.cut_power();
        let mut bytes = [0; 3 * PAGE];
        sim.peek(member, 0, &mut bytes);
        assert!(bytes[..PAGE].iter().all(|&b| b == 1), "flushed");
        assert!(bytes[PAGE..2 * PAGE].iter().all(|&b| b == 2), "FUA");
        let third = &bytes[2 * PAGE..];
        assert!(third.chunks(512).all(|s| s == [0; 512] || s == [3; 512]), "sectors are whole");
        kept += third.chunks(512).filter(|s| s[0] == 3).count();
    }
    assert!((64..448).contains(&kept), "{kept} of 512 unflushed sectors survived: neither none nor all");
}

#[test]
fn a_flush_does_not_cover_writes_that_complete_after_it_began() {
    let lost = (0..64).any(|seed| {
        let (sim, io, pool) = world(seed);
        let member = sim.add_drive(Model::sata_ssd(), 1 << 20);
        io.block_on(async {
            let flushing = {
                let io = io.clone();
                io.clone().spawn(async move { flush(&io, member).await })
            };
            io.yield_now().await;
            write(&io, &pool, member, 0, 1, false).await.unwrap();
            flushing.await;
        });
        sim.cut_power();
        let mut byte = [0];
        sim.peek(member, 0, &mut byte);
        byte[0] == 0
    });
    assert!(lost);
}

#[test]
fn a_write_under_way_is_torn_at_sectors() {
    let mut torn = 0;
    for seed in 0..32 {
        let (sim, io, pool) = world(seed);
        let member = sim.add_drive(Model::nvme(), 1 << 20);
        let (writer, buffers) = (io.clone(), pool.clone());
        let task = io.spawn(async move { write(&writer, &buffers, member, 0, 1, true).await });
        io.block_on(io.yield_now());
        sim.cut_power();
        assert_eq!(io.block_on(task), Err(OpError::Cancelled));
        let mut bytes = [0; PAGE];
        sim.peek(member, 0, &mut bytes);
        let made = bytes.chunks(512).filter(|s| s[0] == 1).count();
        torn += usize::from(made > 0 && made < 8);
    }
    assert!(torn > 16, "{torn} of 32 writes were torn");
}

#[test]
fn faults_strike_and_writing_mends() {
    let (sim, io, pool) = world(3);
    let member = sim.add_drive(Model::nvme(), 1 << 20);
    io.block_on(async {
        sim.spoil(member, 4096, 512);
        let buf = pool.alloc(PAGE).await;
        let read = async |offset| {
            let mut group = io.group();
            group.read(member, offset, &buf.all());
            group.submit().await.ok()
        };
        assert_eq!(read(4096).await, Err(OpError::Medium(5)));
        assert_eq!(read(0).await, Ok(()));
        write(&io, &pool, member, 4096, 8, false).await.unwrap();
        assert_eq!(read(4096).await, Ok(()));
        assert_eq!(read(1 << 20).await, Err(OpError::OutOfRange));
        sim.refuse_writes(member);
        assert_eq!(write(&io, &pool, member, 0, 8, false).await, Err(OpError::Medium(5)));
        sim.kill(member);
        assert_eq!(read(0).await, Err(OpError::Gone));
    });
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

#[test]
#[should_panic(expected = "every task waits")]
fn a_world_in_which_nothing_can_happen_says_so() {
    let (_, io, _) = world(0);
    io.block_on(core::future::pending::<()>());
}
