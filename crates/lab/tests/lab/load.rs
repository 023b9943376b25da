//! Requests of jobs: within their range, aligned, each block once where that is asked for, and the same again for a seed.

use brindle_lab::job::{Blocks, Direction, Job, Kinds};
use brindle_lab::load::{Load, Range, RangeError, Request};
use proptest::prelude::*;

fn job(options: &str) -> Job {
    crate::made::jobs(&format!("[job]\n{}\n", options.replace(' ', "\n"))).remove(0)
}

const BLOCK: u64 = 512;

fn pass(job: &Job, target: u64, seed: u64) -> (Range, Vec<Request>) {
    let range = Range::of(job, 0, target, BLOCK).expect("a range");
    let mut load = Load::new(job, range, seed, 0).expect("a load");
    (range, std::iter::from_fn(|| load.next_request()).collect())
}

fn offsets(options: &str, target: u64) -> Vec<u64> {
    pass(&job(options), target, 1).1.iter().map(|request| request.offset).collect()
}

const RANDOM: [&str; 9] = [
    "norandommap",
    "random_distribution=zipf:1.2",
    "random_distribution=pareto:0.3",
    "ba=512",
    "bssplit=512/20:4k/80",
    "random_distribution=zoned:60/10:40/90",
    "bsrange=1k-8k",
    "bs=4k",
    "random_distribution=zoned_abs:50/4k:50/1m",
];

proptest! {
    #[test]
    fn requests_stay_in_their_range_and_repeat_by_seed(
        which in 0..RANDOM.len(), rw in 0..6usize, blocks in 64u64..400, begin in 0u64..9, seed: u64,
    ) {
        let rw = ["randread", "randwrite", "randrw", "randtrimwrite", "randread:3", "randtrim"][rw];
        let job = job(&format!("rw={rw} offset={} io_size=200k {}", begin * 512, RANDOM[which]));
        let (range, requests) = pass(&job, blocks * 512, seed);
        prop_assert!(!requests.is_empty());
        for request in &requests {
            prop_assert!(request.len > 0 && request.len <= job.largest());
            prop_assert!(request.offset >= range.begin && request.offset + request.len <= range.begin + range.len);
            prop_assert!(request.offset % BLOCK == 0 && request.len % BLOCK == 0, "{request:?}");
            prop_assert!(job.access.has(request.direction));
        }
        prop_assert_eq!(&requests, &pass(&job, blocks * 512, seed).1);
    }

    #[test]
    fn a_random_pass_comes_by_every_block_once(blocks in 16u64..600, sizes in 0..3usize, seed: u64) {
        let sizes = ["bs=512", "bsrange=512-4k", "bssplit=512/30:1k/30:4k/40"][sizes];
        let job = job(&format!("rw=randwrite {sizes}"));
        let (range, requests) = pass(&job, blocks * 512, seed);
        let mut times = vec![0; (range.len / BLOCK) as usize];
        for request in requests {
            let first = (request.offset / BLOCK) as usize;
            times[first..first + (request.len / BLOCK) as usize].iter_mut().for_each(|times| *times += 1);
        }
        prop_assert!(times.iter().all(|times| *times == 1), "{times:?}");
    }

    #[test]
    fn a_sequential_pass_is_one_after_the_other(blocks in 8u64..300, size in 1u64..8) {
        let (range, requests) = pass(&job(&format!("rw=read bs={}", size * 512)), blocks * 512, 3);
        let mut at = range.begin;
        for request in requests {
            prop_assert_eq!(request.offset, at);
            at += request.len;
        }
        prop_assert!(range.begin + range.len - at < size * 512, "what is left is less than a request");
    }
}

#[test]
fn holes_and_ways_back_are_kept() {
    assert_eq!(offsets("rw=read:4k bs=4k io_size=16k", 64 << 10), [0, 8192, 16384, 24576]);
    assert_eq!(offsets("rw=read:-8k bs=8k io_size=32k", 32 << 10), [24576, 16384, 8192, 0]);
    assert_eq!(offsets("rw=read bs=4k io_size=12k size=8k", 64 << 10), [0, 4096, 0], "round");
    let mut twice = offsets("rw=randread bs=4k io_size=64k size=32k", 64 << 10);
    assert_eq!(twice.len(), 16, "the range twice");
    twice.sort_unstable();
    assert!(twice.chunks(2).all(|pair| pair[0] == pair[1]), "{twice:?}");
    let three = offsets("rw=randread:3 bs=4k io_size=24k", 64 << 10);
    assert!(three[..3].windows(2).all(|pair| pair[1] == pair[0] + 4096), "{three:?}");
}

#[test]
fn trims_are_followed_by_writes_of_the_same_blocks() {
    let (_, requests) = pass(&job("rw=randtrimwrite bs=4k"), 64 << 10, 1);
    assert_eq!(requests.len(), 32);
    for pair in requests.chunks(2) {
        assert_eq!((pair[0].direction, pair[1].direction), (Direction::Trim, Direction::Write));
        assert_eq!(pair[0].offset, pair[1].offset);
    }
}

#[test]
fn mixes_have_their_shares() {
    let mixed = job("rw=randrw rwmixread=70 bs=512,1k");
    assert_eq!(mixed.access.kinds, Kinds::Mixed);
    let (_, requests) = pass(&job("rw=randrw rwmixread=70 norandommap bs=512 io_size=5000k"), 1 << 20, 1);
    let reads = requests.iter().filter(|request| request.direction == Direction::Read).count();
    assert!((6700..7300).contains(&reads), "{reads} of {}", requests.len());
    let (_, all) = pass(&job("rw=rw rwmixread=100 bs=4k"), 1 << 20, 1);
    assert!(all.iter().all(|request| request.direction == Direction::Read));
    let (_, split) = pass(&job("rw=randread norandommap bssplit=512/25:4k/75 io_size=10m"), 1 << 20, 1);
    let small = split.iter().filter(|request| request.len == 512).count() as f64 / split.len() as f64;
    assert!((0.22..0.28).contains(&small), "{small}");
}

#[test]
fn zones_have_their_shares() {
    let (range, requests) =
        pass(&job("rw=randread random_distribution=zoned:50/5:30/15:20/ bs=512 io_size=5m"), 1 << 20, 1);
    let within = |percent: u64| {
        let count = requests.iter().filter(|request| request.offset * 100 < range.len * percent).count();
        count * 100 / requests.len()
    };
    assert!(
        (47..=52).contains(&within(5)) && (77..=82).contains(&within(20)),
        "{} {}",
        within(5),
        within(20)
    );
}

#[test]
fn parts_of_a_target_are_where_they_are_asked_for() {
    let of = |options, copy| Range::of(&job(options), copy, 1 << 20, BLOCK);
    let range = |begin, len, pass| Ok(Range { begin, len, pass });
    assert_eq!(of("bs=4k", 0), range(0, 1 << 20, 1 << 20));
    assert_eq!(of("size=25% offset=50%", 0), range(512 << 10, 256 << 10, 256 << 10));
    assert_eq!(of("size=64k offset_increment=64k", 3), range(192 << 10, 64 << 10, 64 << 10));
    assert_eq!(of("filesize=512k io_size=1m", 0), range(0, 512 << 10, 1 << 20));
    assert_eq!(of("filesize=512k size=1m", 0), range(0, 512 << 10, 512 << 10));
    assert_eq!(of("size=2m", 0), Err(RangeError::Beyond(2 << 20, 0, 1 << 20)));
    assert_eq!(of("offset=1m", 0), Err(RangeError::Empty(4096)));
    assert_eq!(of("bs=1000", 0), Err(RangeError::Unaligned(1000, 512)));
    assert_eq!(of("offset=100", 0), Err(RangeError::Unaligned(100, 512)));
    assert_eq!(of("rw=read:100", 0), Err(RangeError::Unaligned(100, 512)));
    let Blocks::One(size) = job("bs=2m").blocks[0] else { panic!("one size") };
    assert_eq!(of("bs=2m", 0), Err(RangeError::Empty(size)));
}
