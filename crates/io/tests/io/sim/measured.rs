//! Drives that take as long as real ones were measured to take.

use std::rc::Rc;

use brindle_io::sim::{Curve, Emulation, Path, Platter, Sim, Stations};
use brindle_io::sync::join_all;
use brindle_io::{Io, MemberId, OpKey, OpKind, PAGE};

use crate::sim::world;

const US: u64 = 1000;

fn flat() -> Stations {
    let read = Path {
        latency: Curve::flat(90 * US),
        stream: Curve::flat(10 * US),
        occupancy: Curve::through(vec![(4096, 10 * US), (8192, 20 * US)]).expect("points"),
        streamed: None,
        spread: 0,
    };
    let write = Path { latency: Curve::flat(5 * US), occupancy: Curve::flat(30 * US), ..read.clone() };
    Stations {
        units: 64,
        read,
        write,
        mixed: Vec::new(),
        flush: 0,
        uplink: 0,
        volatile_cache: false,
        platter: None,
    }
}

/// Runs `depth` tasks, each of which sends `rounds` requests, one after the other: `of` gives the request of a number. Returns
/// the nanoseconds that all took.
fn load(io: &Io, depth: u64, rounds: u64, of: impl Fn(u64) -> (MemberId, u64, usize, bool)) -> u64 {
    let began = io.now();
    let pool = io.pool(64 << 20);
    io.block_on(join_all((0..depth).map(|lane| {
        let (io, pool, of) = (io.clone(), pool.clone(), &of);
        async move {
            for round in 0..rounds {
                let (member, offset, len, write) = of(lane * rounds + round);
                let buf = pool.alloc(len).await;
                let mut group = io.group();
                if write {
                    group.write(member, offset, &buf.all(), false);
                } else {
                    group.read(member, offset, &buf.all());
                }
                group.submit().await.ok().expect("a drive that works");
            }
        }
    })));
    io.now().since(began).as_nanos() as u64
}

fn with(stations: Stations) -> (Sim, Io, MemberId) {
    let (sim, io, _) = world(3);
    let drive = sim.add_measured_drive(&Rc::new(stations), 1 << 40);
    (sim, io, drive)
}

/// A place for each number, far from one another.
fn place(number: u64) -> u64 {
    // SplitMix64.
    let z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) >> 44 << 20
}

#[test]
fn a_hollow_drive_can_keep_its_beginning() {
    let (sim, io, drive) = with(flat());
    sim.keep_beginning(drive, 1 << 20);
    let pool = io.pool(PAGE);
    let kept = |offset: u64| {
        io.block_on(async {
            let buf = pool.alloc(PAGE).await;
            for (byte, write) in [(0xa5, true), (0, false)] {
                buf.bytes_mut().fill(byte);
                let mut group = io.group();
                if write {
                    group.write(drive, offset, &buf.all(), true);
                } else {
                    group.read(drive, offset, &buf.all());
                }
                group.submit().await.ok().expect("a drive that works");
            }
            buf.bytes().iter().all(|byte| *byte == 0xa5)
        })
    };
    assert_eq!(
        [0, (1 << 20) - 4096, (1 << 20) - 2048, 1 << 20, 1 << 39].map(kept),
        [true, true, false, false, false]
    );
    sim.poke(drive, 512, &[7; 8]);
    let mut bytes = [0; 8];
    sim.peek(drive, 512, &mut bytes);
    assert_eq!(bytes, [7; 8]);
}

#[test]
fn alone_a_request_takes_both_and_many_are_bound_by_the_shared_station() {
    let (_, io, drive) = with(flat());
    assert_eq!(load(&io, 1, 10, |n| (drive, place(n + 1), PAGE, false)), 10 * 100 * US);
    let many = load(&io, 32, 100, |n| (drive, place(n + 50), PAGE, false));
    assert!((32_000 * US..32_200 * US).contains(&many), "{many}: 3200 times 10 us, and the first one's wait");
    assert_eq!(load(&io, 1, 1, |_| (drive, place(9999), 2 * PAGE, false)), 110 * US);
    assert_eq!(
        load(&io, 1, 1, |_| (drive, place(9999) + 2 * PAGE as u64, 4 * PAGE, false)),
        50 * US,
        "a stream"
    );
}

#[test]
fn a_stream_leaves_nothing_out_and_is_no_sooner_than_what_it_follows() {
    let page = PAGE as u64;
    let (_, io, drive) = with(flat());
    assert_eq!(load(&io, 1, 10, |n| (drive, (1 << 30) + n * page, PAGE, false)), (100 + 9 * 20) * US);
    // Every second page: no figure tells that a drive would have read it ahead.
    let (_, io, drive) = with(flat());
    assert_eq!(load(&io, 1, 10, |n| (drive, (1 << 30) + 2 * n * page, PAGE, false)), 10 * 100 * US);
    // All at once: the bytes of the first bring those of the others.
    let (_, io, drive) = with(flat());
    assert_eq!(load(&io, 10, 1, |n| (drive, (1 << 30) + n * page, PAGE, false)), (90 + 10 * 10) * US);
    // Writes go on where the last one ended, or not at all.
    let (_, io, drive) = with(flat());
    assert_eq!(load(&io, 1, 10, |n| (drive, (1 << 30) + 2 * n * page, PAGE, true)), 10 * 35 * US);
}

#[test]
fn what_the_drive_is_given_wears_a_mix_down() {
    // Alone each is 10 and 30 us: a mix of half and half 20 on average, and half as much again as the model has it.
    let mixed = vec![(0, Curve::flat(1000)), (50, Curve::flat(1500)), (100, Curve::flat(1000))];
    let (sim, io, drive) = with(Stations { mixed, ..flat() });
    let took = load(&io, 32, 200, |n| (drive, place(n), PAGE, n % 2 == 0));
    let each = took as f64 / 6400.0 / US as f64;
    assert!((28.5..30.5).contains(&each), "{each} us");
    assert!(sim.worked(drive) <= took && sim.worked(drive) > took / 100 * 98);
}

#[test]
fn spread_keeps_the_mean_and_a_pair_waits_for_the_slower() {
    let mut stations = flat();
    stations.read.spread = 20;
    let (sim, io, _) = world(5);
    let stations = Rc::new(stations);
    let pair = [0, 1].map(|_| sim.add_measured_drive(&stations, 1 << 40));
    let alone = load(&io, 1, 2000, |n| (pair[0], place(n + 1), PAGE, false)) as f64 / 2000.0 / US as f64;
    assert!((99.0..101.0).contains(&alone), "{alone} us");
    let pool = io.pool(1 << 20);
    let began = io.now();
    io.block_on(async {
        let buf = pool.alloc(2 * PAGE).await;
        for n in 0..2000 {
            let mut group = io.group();
            group.read(pair[0], place(n + 3), &buf.slice(0..PAGE));
            group.read(pair[1], place(n + 3), &buf.slice(PAGE..2 * PAGE));
            group.submit().await.ok().expect("drives that work");
        }
    });
    // Of two draws the larger is 0.56 deviations above the mean.
    let both = io.now().since(began).as_nanos() as f64 / 2000.0 / US as f64;
    assert!((108.5..111.5).contains(&both), "{both} us");
}

#[test]
fn drives_on_one_uplink_share_it() {
    // 64 KiB take 160 us of a drive, and 128 us of the link that both share.
    let mut stations = flat();
    stations.read.occupancy = Curve::through(vec![(0, 0), (64 << 10, 160 * US)]).expect("points");
    stations.uplink = 512_000_000;
    let (sim, io, _) = world(5);
    let stations = Rc::new(stations);
    let pair = [0, 1].map(|_| sim.add_measured_drive(&stations, 1 << 40));
    let took = load(&io, 16, 50, |n| (pair[n as usize % 2], place(n), 64 << 10, false)) as f64 / 1e3;
    assert!((800.0 * 128.0..800.0 * 130.0).contains(&took), "{took} us");
}

fn disk() -> Stations {
    let path = Path {
        latency: Curve::flat(100 * US),
        stream: Curve::flat(0),
        occupancy: Curve::flat(0),
        streamed: None,
        spread: 0,
    };
    let platter = Platter {
        seek: Curve::through(vec![(0, 0), (10, 500 * US), (330_000, 8000 * US), (1_000_000, 15_000 * US)])
            .expect("points"),
        rotation: 8333 * US,
        outer: 250_000_000,
        inner: 125_000_000,
        queue: 32,
        cache: 1 << 20,
        look_ahead: 1 << 20,
    };
    Stations { units: 1, read: path.clone(), write: path, platter: Some(platter), ..flat() }
}

#[test]
fn a_disk_seeks_turns_and_chooses_the_nearest() {
    let (_, io, drive) = with(disk());
    let iops = |depth, rounds| {
        depth as f64 * rounds as f64 * 1e9
            / load(&io, depth, rounds, |n| (drive, place(n * 31 + 7), PAGE, false)) as f64
    };
    let (alone, many) = (iops(1, 200), iops(32, 40));
    assert!((60.0..100.0).contains(&alone), "{alone:.0} IOPS");
    assert!(many > 2.0 * alone && many < 5.0 * alone, "{many:.0} IOPS of 32 in flight");
}

#[test]
fn a_disk_is_slower_inside_and_streams_without_seeks() {
    for (from, rate) in [(0, 250.0), ((1u64 << 40) - (1 << 29), 125.0)] {
        let (_, io, drive) = with(disk());
        let len = 4 << 20;
        load(&io, 1, 1, |_| (drive, from, len, false));
        let took = load(&io, 1, 20, |n| (drive, from + (n + 1) * len as u64, len, false));
        let reached = 20.0 * len as f64 * 1e3 / took as f64;
        assert!((rate * 0.97..=rate).contains(&reached), "{reached} MB/s");
    }
}

#[test]
fn a_disk_takes_writes_into_its_cache_until_that_is_full() {
    let (_, io, drive) = with(disk());
    let write = |n| (drive, place(n * 31 + 7), 64 << 10, true);
    let first = load(&io, 1, 16, write);
    assert!(first < 16 * 500 * US, "{first}: into the cache");
    let then = load(&io, 1, 64, |n| write(n + 16)) / 64;
    assert!((1000 * US..15_000 * US).contains(&then), "{then}: as the head has time, sorted");
    let before = io.now();
    io.block_on(async {
        let mut group = io.group();
        group.flush(drive);
        group.submit().await.ok().expect("a flush");
    });
    assert!(io.now().since(before).as_nanos() as u64 > 8 * then, "a flush waits for what is in the cache");
}

/// The same load on drives of an emulation: nanoseconds.
fn emulated(stations: Stations, depth: u64, rounds: u64, of: impl Fn(u64) -> (u64, usize, bool)) -> u64 {
    let mut drives = Emulation::new(3);
    let drive = drives.add(&Rc::new(stations), 1 << 40);
    let (mut next, mut now, mut done) = (vec![0; depth as usize], 0, Vec::new());
    let ask = |drives: &mut Emulation, now, lane: u64, round| {
        let (offset, len, write) = of(lane * rounds + round);
        let member = MemberId::device(0);
        let kind = match write {
            true => OpKind::Write { member, offset, fua: false },
            false => OpKind::Read { member, offset },
        };
        drives.ask(now, drive, OpKey(lane as u32), kind, len as u64);
    };
    (0..depth).for_each(|lane| ask(&mut drives, 0, lane, 0));
    while let Some(moment) = drives.next() {
        assert!(moment >= now, "it never goes back");
        now = moment;
        drives.advance(moment, &mut done);
        for (key, at) in done.drain(..) {
            assert_eq!(at, moment, "nothing is told of before its time, nor after it");
            let lane = &mut next[key.0 as usize];
            *lane += 1;
            if *lane < rounds {
                let round = *lane;
                ask(&mut drives, at, key.0.into(), round);
            }
        }
    }
    now
}

#[test]
fn drives_on_another_clock_take_as_long() {
    let mixed = vec![(0, Curve::flat(1000)), (50, Curve::flat(1500)), (100, Curve::flat(1000))];
    let stations = Stations { mixed, units: 8, ..flat() };
    for (depth, rounds) in [(1, 50), (4, 50), (32, 100)] {
        let of = |n: u64| (place(n), PAGE, n.is_multiple_of(3));
        let (_, io, drive) = with(stations.clone());
        let simulated = load(&io, depth, rounds, |n| (drive, of(n).0, of(n).1, of(n).2));
        let took = emulated(stations.clone(), depth, rounds, of);
        // Events of one moment come in another order, so that the times differ a little.
        let apart = took.abs_diff(simulated) as f64 / simulated as f64;
        assert!(apart < 0.01, "{depth} in flight: {took} and {simulated}");
    }
    let reads = |n: u64| (place(n), PAGE, false);
    assert_eq!(emulated(flat(), 1, 10, reads), 10 * 100 * US);
}

/// Runs `depth` tasks of `rounds` writes each, stable when they are acknowledged or not, with a flush after each or none. Returns the
/// nanoseconds of one round.
fn written(io: &Io, drive: MemberId, depth: u64, (fua, flush): (bool, bool)) -> u64 {
    const ROUNDS: u64 = 20;
    let began = io.now();
    let pool = io.pool(1 << 20);
    io.block_on(join_all((0..depth).map(|lane| {
        let (io, pool) = (io.clone(), pool.clone());
        async move {
            for round in 0..ROUNDS {
                let buf = pool.alloc(PAGE).await;
                let mut group = io.group();
                group.write(drive, place(lane * ROUNDS + round), &buf.all(), fua);
                group.submit().await.ok().expect("a drive that works");
                if flush {
                    let mut group = io.group();
                    group.flush(drive);
                    group.submit().await.ok().expect("a flush");
                }
            }
        }
    })));
    io.now().since(began).as_nanos() as u64 / ROUNDS
}

#[test]
fn what_is_to_be_stable_waits_until_a_volatile_cache_is_written_out() {
    const FLUSH: u64 = 2000 * US;
    let volatile = Stations { flush: FLUSH, volatile_cache: true, ..flat() };
    let protected = Stations { volatile_cache: false, flush: 20 * US, ..volatile.clone() };
    let round = |stations: &Stations, depth, how| {
        let (_, io, drive) = with(stations.clone());
        written(&io, drive, depth, how)
    };
    let (plain, through, flushed) = ((false, false), (true, false), (false, true));
    assert_eq!([plain, through, flushed].map(|how| round(&protected, 1, how)), [35 * US, 35 * US, 55 * US]);
    assert_eq!(
        [plain, through, flushed].map(|how| round(&volatile, 1, how)),
        [35 * US, 35 * US + FLUSH, 35 * US + FLUSH]
    );
    // Those that wait at one time are made stable together: what comes while the cache is written out waits for that and for the next.
    for how in [through, flushed] {
        let many = round(&volatile, 8, how);
        assert!((FLUSH..2 * FLUSH + 500 * US).contains(&many), "{how:?}: {many}");
    }
    // Nothing is to be written: a flush is soon done.
    let (_, io, drive) = with(volatile);
    let flush = || {
        let began = io.now();
        io.block_on(async {
            let mut group = io.group();
            group.flush(drive);
            group.submit().await.ok().expect("a flush");
        });
        io.now().since(began).as_nanos() as u64
    };
    written(&io, drive, 1, plain);
    assert_eq!([flush(), flush()], [FLUSH, 20 * US]);
}

#[test]
fn a_disk_takes_writes_that_are_to_be_stable_to_the_platter() {
    let (_, io, drive) = with(disk());
    let through = written(&io, drive, 1, (true, false));
    let (_, io, drive) =
        with(Stations { platter: disk().platter.map(|of| Platter { cache: 0, ..of }), ..disk() });
    let uncached = written(&io, drive, 1, (false, false));
    assert!(through > 5000 * US && through.abs_diff(uncached) < 100 * US, "{through} and {uncached}");
}

#[test]
fn a_disk_reads_ahead_of_streams() {
    let rate = |len: usize, streams: u64, gap: u64, look_ahead| {
        let stations = Stations { platter: disk().platter.map(|of| Platter { look_ahead, ..of }), ..disk() };
        let (_, io, drive) = with(stations);
        let rounds = (32 << 20) / len as u64;
        let of = |n: u64| (drive, ((n / rounds) << 34) + (n % rounds) * (len as u64 + gap), len, false);
        (streams * rounds * len as u64) as f64 * 1e3 / load(&io, streams, rounds, of) as f64
    };
    let (small, large, ahead) = (128 << 10, 1 << 20, 1 << 20);
    for streams in [1, 4, 12] {
        let [by_small, by_large] = [small, large].map(|len| rate(len, streams, 0, ahead));
        assert!(
            (0.85..1.15).contains(&(by_small / by_large)),
            "{streams}: {by_small:.0} and {by_large:.0} MB/s"
        );
    }
    assert!(rate(small, 4, 0, ahead) > 2.5 * rate(small, 4, 0, 0), "a seek for each 128K, or for each 1M");
    // A gap is read and not wanted: half of what passes the head.
    let half = rate(64 << 10, 1, 64 << 10, ahead);
    assert!((100.0..130.0).contains(&half), "{half:.0} MB/s");
}

#[test]
fn a_deep_queue_of_one_stream_is_as_fast_as_a_shallow_one() {
    const LEN: u64 = 128 << 10;
    // As of a member with parity: after twelve requests one chunk is passed over.
    let rate = |in_flight: u64| {
        let stations =
            Stations { platter: disk().platter.map(|of| Platter { look_ahead: 1 << 20, ..of }), ..disk() };
        let (_, io, drive) = with(stations);
        let rounds = 1024 / in_flight;
        let of = |n: u64| {
            let at = n % rounds * in_flight + n / rounds;
            (drive, at * LEN + at / 12 * (512 << 10), LEN as usize, false)
        };
        (rounds * in_flight * LEN) as f64 * 1e3 / load(&io, in_flight, rounds, of) as f64
    };
    let one = rate(1);
    for in_flight in [4, 16, 32] {
        let many = rate(in_flight);
        assert!(many > 0.95 * one, "{in_flight} in flight: {many:.0} MB/s, one: {one:.0}");
    }
}
