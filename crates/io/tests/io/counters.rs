//! Counters of each member.

use brindle_io::memory::Memory;
use brindle_io::sim::{Model, Sim};
use brindle_io::{Duration, Io, MemberCounters, PAGE};

#[test]
fn operations_bytes_and_errors_are_counted_by_member() {
    let memory = Memory::new();
    let (a, b) = (memory.add_ram(1 << 20), memory.add_ram(1 << 20));
    memory.spoil(a, 0, 512);
    let io = Io::new(Box::new(memory));
    let pool = io.pool(1 << 20);
    io.block_on(async {
        let (buf, other) = (pool.alloc(4 * PAGE).await, pool.alloc(PAGE).await);
        let mut group = io.group();
        group.write(b, 0, &buf.all(), false);
        group.flush(b);
        group.discard(b, 0, PAGE as u64);
        group.read(a, 0, &other.all());
        let _ = group.submit().await;
        let mut group = io.group();
        group.read(b, 0, &other.all());
        group.submit().await.ok().unwrap();
    });
    let (a, b) = (io.counters(a), io.counters(b));
    assert_eq!((a.reads, a.bytes_read, a.errors, a.writes), (1, 0, 1, 0));
    assert_eq!((b.reads, b.writes, b.flushes, b.other, b.errors), (1, 1, 1, 1, 0));
    assert_eq!((b.bytes_read, b.bytes_written), (PAGE as u64, 4 * PAGE as u64));
    assert_eq!((b.in_flight, b.oldest, b.given_up, b.late), (0, None, 0, 0));
    assert_eq!(b.read_latency.buckets.iter().sum::<u64>(), 1);
    assert_eq!(b.write_latency.buckets.iter().sum::<u64>(), 1);
}

#[test]
fn what_is_given_up_is_counted_and_so_is_its_late_end() {
    let sim = Sim::new(1);
    let drive = sim.add_drive(Model::nvme(), 1 << 20);
    let io = Io::new(Box::new(sim.clone()));
    let pool = io.pool(1 << 20);
    assert_eq!(io.counters(drive), MemberCounters::default());
    sim.afflict(drive, |faults| faults.hangs = true);
    io.block_on(async {
        let mut group = io.group();
        group.read(drive, 0, &pool.alloc(PAGE).await.all());
        let _ = group.submit_by(io.now().after(Duration::from_secs(3))).await;
        io.sleep(Duration::from_secs(4)).await;
        let counters = io.counters(drive);
        assert_eq!((counters.given_up, counters.late, counters.in_flight), (1, 0, 1));
        assert_eq!(counters.oldest, Some(Duration::from_secs(7)));
        sim.afflict(drive, |faults| faults.hangs = false);
        io.orphans_ended(drive).await;
    });
    let counters = io.counters(drive);
    assert_eq!((counters.given_up, counters.late, counters.in_flight), (1, 1, 0));
    assert_eq!((counters.reads, counters.oldest), (0, None), "nobody got the answer");
}

#[test]
fn latencies_fall_into_powers_of_two_of_microseconds() {
    let sim = Sim::new(1);
    let model = Model { read_latency: 100_000, jitter: 0, ..Model::nvme() };
    let drive = sim.add_drive(model, 1 << 20);
    let io = Io::new(Box::new(sim));
    let pool = io.pool(1 << 20);
    io.block_on(async {
        for _ in 0..10 {
            let mut group = io.group();
            group.read(drive, 0, &pool.alloc(PAGE).await.all());
            group.submit().await.ok().unwrap();
        }
    });
    // 100 microseconds and the transfer: from 64 to below 128.
    assert_eq!(io.counters(drive).read_latency.buckets[7], 10);
}
