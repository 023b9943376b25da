//! Content of drives, and changes to it: noise, discards, short transfers, overlaps, the order of the link.

use brindle_io::sim::{Hostility, Model, Overlaps, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Io, MemberId, OpKind, PAGE, Pool};

use crate::sim::{look, read, world, write, write_bytes};

#[test]
fn what_was_never_written_is_noise_that_stays() {
    let (sim, io, pool) = world(1);
    let drives = [0, 1].map(|_| sim.add_drive(Model::nvme(), 1 << 20));
    let blank = sim.add_blank_drive(Model::nvme(), 1 << 20);
    io.block_on(async {
        let (one, two) =
            (read(&io, &pool, drives[0], 0, 1 << 20).await, read(&io, &pool, drives[1], 0, 1 << 20).await);
        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(one != two && one[..PAGE] != one[PAGE..2 * PAGE]);
        let ones: u32 = one.iter().map(|byte| byte.count_ones()).sum();
        assert!((4_150_000..4_240_000).contains(&ones), "{ones} of 8 Mi bits");
        write(&io, &pool, drives[0], 8192, 7, false).await.unwrap();
        let again = read(&io, &pool, drives[0], 0, 1 << 20).await.unwrap();
        assert!(
            again[..8192] == one[..8192] && again[8192..12288] == [7; PAGE] && again[12288..] == one[12288..]
        );
        assert!(
            look(&sim, drives[0], 0, 1 << 20) == again,
            "and a look beside the engine's back is no different"
        );
        assert_eq!(read(&io, &pool, blank, 0, PAGE).await.unwrap(), [0; PAGE]);
    });
    let other = Sim::new(2);
    let drive = other.add_drive(Model::nvme(), 1 << 20);
    assert!(look(&other, drive, 0, PAGE) != look(&sim, drives[0], 0, PAGE), "another seed, other noise");
}

#[test]
fn zeroed_ranges_are_zeroes_and_discarded_ones_anything_until_they_are_written() {
    let (sim, io, pool) = world(1);
    let member = sim.add_drive(Model::nvme(), 1 << 20);
    io.block_on(async {
        write_bytes(&io, &pool, member, 0, &[1; 8 * PAGE], false).await.unwrap();
        let mut group = io.group();
        group.write_zeroes(member, 512, 1024, true);
        group.submit().await.ok().unwrap();
        let mut group = io.group();
        group.discard(member, 4 * PAGE as u64, 2 * PAGE as u64);
        group.submit().await.ok().unwrap();
        let first = read(&io, &pool, member, 0, 8 * PAGE).await.unwrap();
        assert!(first[..512] == [1; 512] && first[512..1536] == [0; 1024]);
        assert!(first[1536..4 * PAGE].iter().chain(&first[6 * PAGE..]).all(|&byte| byte == 1));
        let discarded = |bytes: &[u8]| bytes[4 * PAGE..6 * PAGE].to_vec();
        let kinds: Vec<_> = discarded(&first).chunks(512).map(|s| (s == [0; 512], s == [1; 512])).collect();
        for kind in [(true, false), (false, true), (false, false)] {
            assert!(kinds.contains(&kind), "zeroes, old bytes or noise: {kinds:?}");
        }
        let again = read(&io, &pool, member, 0, 8 * PAGE).await.unwrap();
        assert!(discarded(&again) != discarded(&first), "at every look anew");
        write(&io, &pool, member, 4 * PAGE as u64, 5, false).await.unwrap();
        assert_eq!(read(&io, &pool, member, 4 * PAGE as u64, PAGE).await.unwrap(), [5; PAGE]);
    });
}

#[test]
fn transfers_come_back_short_and_are_carried_on() {
    for block in [512, 4096] {
        let (sim, io, pool) = world(4);
        let member = sim.add_drive(Model::nvme().with_block(block), 4 << 20);
        sim.set_hostility(Hostility { short_transfers: 700, ..Hostility::default() });
        let bytes: Vec<u8> = (0..1u32 << 20).map(|at| (at * 7 + (at >> 8)) as u8).collect();
        io.block_on(async {
            for _ in 0..10 {
                write_bytes(&io, &pool, member, 8192, &bytes, true).await.unwrap();
                assert!(read(&io, &pool, member, 8192, 1 << 20).await.unwrap() == bytes);
            }
        });
        assert!(sim.steps() > 60, "most of 20 transfers took several goes: {} steps", sim.steps());
    }
}

/// How much of a write, that is under way for a second, others see.
fn seen_early(seed: u64, meddle: impl FnOnce(&Sim, MemberId)) -> usize {
    let slow = Model { write_latency: 1_000_000_000, ..Model::nvme() };
    let (sim, io, pool) = world(seed);
    let member = sim.add_blank_drive(slow, 1 << 20);
    let (io2, pool2) = (io.clone(), pool.clone());
    let writing =
        io.spawn(async move { write_bytes(&io2, &pool2, member, 4096, &[1; 4 * PAGE], true).await });
    io.block_on(async {
        io.yield_now().await;
        meddle(&sim, member);
        let _ = read(&io, &pool, member, 0, 8 * PAGE).await;
        assert!(io.now().as_nanos() < 500_000_000, "the write is under way still");
        let bytes = look(&sim, member, 0, 8 * PAGE);
        assert!(bytes[..4096].iter().chain(&bytes[5 * PAGE..]).all(|&byte| byte == 0));
        let _ = writing.await;
        if sim.faults(member).gone {
            assert_eq!(look(&sim, member, 0, 8 * PAGE), bytes, "nothing of it comes any more");
        } else {
            assert_eq!(look(&sim, member, 4096, 4 * PAGE), [1; 4 * PAGE]);
        }
        bytes.chunks(512).filter(|sector| sector[0] == 1).count()
    })
}

#[test]
fn a_write_under_way_may_be_seen_in_part_and_leave_part_of_it_on_a_drive_that_dies() {
    for dies in [false, true] {
        let meddle = |sim: &Sim, member| {
            if dies {
                sim.kill(member);
            }
        };
        let seen: Vec<_> = (0..64).map(|seed| seen_early(seed, meddle)).collect();
        assert!(seen.contains(&0) && seen.contains(&32), "{seen:?}");
        assert!(seen.iter().any(|&sectors| sectors % 32 > 0), "{seen:?}");
    }
}

#[test]
fn the_trace_tells_of_the_bytes_that_were_written() {
    let run = |byte: u8| {
        let (sim, io, pool) = world(1);
        let member = sim.add_drive(Model::nvme(), 1 << 20);
        let mut bytes = [1; PAGE];
        bytes[4095] = byte;
        io.block_on(write_bytes(&io, &pool, member, 0, &bytes, false)).unwrap();
        sim.trace()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
#[should_panic(expected = "not aligned to logical blocks of 4096: Write { member: Device(0), offset: 512")]
fn an_access_that_is_not_of_whole_blocks_is_a_bug() {
    let (sim, io, pool) = world(1);
    let member = sim.add_drive(Model::nvme().with_block(4096), 1 << 20);
    let _ = io.block_on(write(&io, &pool, member, 512, 1, false));
}

/// Two writes at once.
fn both(sim: &Sim, io: &Io, pool: &Pool, member: MemberId, offsets: [u64; 2]) {
    let writes = offsets.map(|offset| write(io, pool, member, offset, offset as u8, false));
    assert!(io.block_on(join_all(writes)).iter().all(Result::is_ok));
    assert_eq!(sim.steps() % 4, 0);
}

#[test]
fn writes_under_way_that_overlap_are_reported() {
    let (sim, io, pool) = world(1);
    let member = sim.add_drive(Model::nvme(), 1 << 20);
    both(&sim, &io, &pool, member, [0, 512]);
    assert_eq!(sim.overlaps(), [], "nobody asked");
    sim.set_hostility(Hostility { overlaps: Overlaps::Reported, ..Hostility::default() });
    both(&sim, &io, &pool, member, [0, 4096]);
    both(&sim, &io, &pool, member, [65536, 512]);
    assert_eq!(sim.overlaps(), []);
    both(&sim, &io, &pool, member, [4096, 7680]);
    let [overlap] = &sim.overlaps()[..] else { panic!("{:?}", sim.overlaps()) };
    assert_eq!((&overlap.first.1, &overlap.second.1), (&(4096..8192), &(7680..11776)));
    assert!(matches!(overlap.second.0, OpKind::Write { offset: 7680, .. }));
}

#[test]
#[should_panic(expected = "writes in flight overlap")]
fn or_end_the_run() {
    let (sim, io, pool) = world(1);
    let member = sim.add_drive(Model::nvme(), 1 << 20);
    sim.set_hostility(Hostility { overlaps: Overlaps::Panic, ..Hostility::default() });
    both(&sim, &io, &pool, member, [0, 512]);
}

#[test]
fn the_link_serves_what_is_ready_first() {
    // A read that takes a second to find its bytes, and a write that comes after it and is ready long before.
    let model =
        Model { channels: 2, read_latency: 1_000_000_000, write_latency: 1000, jitter: 0, ..Model::nvme() };
    let (sim, io, pool) = world(1);
    let member = sim.add_drive(model, 1 << 20);
    let reading = io.spawn({
        let (io, pool) = (io.clone(), pool.clone());
        async move { read(&io, &pool, member, 0, PAGE).await.map(drop) }
    });
    io.block_on(async {
        io.yield_now().await;
        assert_eq!(sim.steps(), 1, "the read came first");
        write(&io, &pool, member, 65536, 1, false).await.unwrap();
        assert!(io.now().as_nanos() < 10_000, "{:?}", io.now());
        reading.await.unwrap();
        assert!(io.now().as_nanos() > 1_000_000_000);
    });
}
