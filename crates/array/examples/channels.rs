//! 4K requests of an array in channels: by one reactor and by two, by turns.
//!
//! `cargo run --profile bench -p brindle-array --example channels [--markdown]`
//!
//! Members are null ones: they keep nothing, and complete at once. Each reactor has [`DEPTH`] requests in flight all the time, at random
//! places of one array: home by the array, the other one, on a thread of its own, in its channel. The rate of a reactor is its requests for
//! each second of processor time that its thread used. Medians of [`RUNS`] runs in which one and two reactors take turns.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use brindle_array::{Array, ChannelTable, Channeled, Device};
use brindle_io::memory::Memory;
use brindle_io::{Berth, Io, ThreadClock};
use brindle_layout::{Geometry, Layout, Level, ParityLayout, Raid10Layout};
use brindle_testkit::random::Random;
use brindle_testkit::world::unguarded;
use brindle_volume::{Distant, Forward, Volume};

const RUNS: usize = 9;
const DEPTH: u64 = 32;
/// The time of a run.
const RUN: Duration = Duration::from_millis(300);
/// Between two looks at what the other thread has told.
const PAUSE: brindle_io::Duration = brindle_io::Duration::from_millis(1);
const MEMBER: u64 = 1 << 38;
const CHUNK: u64 = 64 << 10;
const LEN: usize = 4096;

type Shape = (&'static str, Level, Layout, usize);

/// The requests of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reads,
    Writes,
}

fn runs() -> [(Kind, Shape); 8] {
    let symmetric = Layout::Parity(ParityLayout::LeftSymmetric);
    let raid0 = ("RAID 0", Level::Raid0, Layout::None, 4);
    let raid10 = ("RAID 10", Level::Raid10, Layout::Raid10(Raid10Layout::near(2)), 4);
    let raid5 = ("RAID 5", Level::Raid5, symmetric, 4);
    let raid6 = ("RAID 6", Level::Raid6, symmetric, 6);
    [
        (Kind::Reads, raid0),
        (Kind::Reads, raid10),
        (Kind::Reads, raid5),
        (Kind::Reads, raid6),
        (Kind::Writes, raid0),
        (Kind::Writes, raid10),
        (Kind::Writes, raid5),
        (Kind::Writes, raid6),
    ]
}

/// Requests, and the processor time that they took.
#[derive(Clone, Copy, Default)]
struct Done {
    requests: u64,
    nanos: u64,
}

impl Done {
    /// Requests a second.
    fn rate(self) -> f64 {
        self.requests as f64 * 1e9 / self.nanos.max(1) as f64
    }
}

/// State that the two threads of a run have in common.
#[derive(Default)]
struct Common {
    begun: AtomicBool,
    ended: AtomicBool,
    done: AtomicBool,
    over: AtomicBool,
    requests: AtomicU64,
    nanos: AtomicU64,
    /// Requests that were done in the channel, as that counts them.
    in_channel: AtomicU64,
}

fn main() {
    let markdown = std::env::args().any(|arg| arg == "--markdown");
    if markdown {
        println!(
            "| 4K, 32 in flight on each | ns, one reactor | ns at home, of two | ns in the channel | two to one |\n|---|---:|---:|---:|---:|"
        );
    }
    for (kind, shape) in runs() {
        let mut figures: [Vec<f64>; 4] = Default::default();
        for _ in 0..RUNS {
            let (alone, _) = run(kind, shape, false);
            let (home, channel) = run(kind, shape, true);
            let gain = (home.rate() + channel.rate()) / alone.rate();
            let all = [1e9 / alone.rate(), 1e9 / home.rate(), 1e9 / channel.rate(), gain];
            figures.iter_mut().zip(all).for_each(|(list, one)| list.push(one));
        }
        let [alone, home, channel, gain] = figures.map(median);
        let what = if kind == Kind::Reads { "reads" } else { "writes" };
        let name = format!("{what}, {} x{}", shape.0, shape.3);
        if markdown {
            println!("| {name} | {alone:.0} | {home:.0} | {channel:.0} | {gain:.2} |");
        } else {
            println!(
                "{name:<18} {alone:>5.0} ns alone; {home:>5.0} at home beside {channel:>5.0} in a channel: {gain:.2} times as many"
            );
        }
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Home carries requests out, with a channel beside it or alone.
fn run(kind: Kind, (_, level, layout, members): Shape, with_channel: bool) -> (Done, Done) {
    let memory = Memory::new();
    let ids: Vec<_> = (0..members).map(|_| memory.add_null(MEMBER)).collect();
    let io = Io::new(Box::new(memory));
    let geometry = Geometry::new(level, layout, CHUNK, &vec![MEMBER; members]).expect("it is possible");
    let devices = ids.into_iter().map(|id| Some(Device { id, data_offset: 0 })).collect();
    let array = unguarded(&io, geometry, devices);
    let common = Arc::<Common>::default();
    let mut berths = Berth::crew(2).into_iter();
    let other = with_channel.then(|| {
        berths.next().into_iter().for_each(|berth| io.join(berth));
        let (berth, common) = (berths.next().expect("a crew of two"), Arc::clone(&common));
        let (ticket, limits) = (array.ticket(1), array.limits());
        let distant = Distant { number: 0, limits, ticket, paced: Arc::default(), closed: Arc::default() };
        for _ in 0..DEPTH {
            drop(io.spawn(answer(io.clone(), array.clone())));
        }
        thread::spawn(move || in_channel(kind, berth, distant, &common))
    });
    let done = io.block_on(async {
        while with_channel && !common.begun.load(Ordering::Relaxed) {
            io.sleep(PAUSE).await;
        }
        let own = ask(kind, &io, &array, {
            let begun = Instant::now();
            move || begun.elapsed() >= RUN
        });
        let done = own.await;
        common.ended.store(true, Ordering::Relaxed);
        // Once the array is stopped the channel hands its requests to home, which has to be there for them.
        while with_channel && !common.done.load(Ordering::Acquire) {
            io.sleep(PAUSE).await;
        }
        // The channel answers once more.
        array.stop().await.expect("nothing is written");
        common.over.store(true, Ordering::Relaxed);
        done
    });
    other.into_iter().for_each(|other| other.join().expect("it has ended well"));
    drop(array);
    io.shutdown();
    let channel = Done {
        requests: common.requests.load(Ordering::Relaxed),
        nanos: common.nanos.load(Ordering::Relaxed),
    };
    let in_channel = common.in_channel.load(Ordering::Relaxed);
    let all = channel.requests;
    assert!(in_channel * 20 >= all * 19, "{in_channel} of {all} requests were carried out in the channel");
    (done, channel)
}

/// Home carries out what the channel hands to it: first writes, for which it has no lease yet.
async fn answer(io: Io, array: Array) {
    loop {
        let loan = io.next_loan().await;
        let Some(forward) = Forward::of(loan.question()) else { continue };
        let answer = forward.carry_out(&array, &loan).await;
        loan.answer(answer);
    }
}

/// Requests at random places, with so many in flight, until the run has ended.
async fn ask<V: Volume + Clone + 'static>(
    kind: Kind,
    io: &Io,
    volume: &V,
    ended: impl Fn() -> bool + Clone + 'static,
) -> Done {
    let clock = ThreadClock::own().expect("a thread's clock");
    let before = clock.used();
    let requests = Rc::new(Cell::new(0));
    let pool = io.pool(1 << 20);
    let lanes = (0..DEPTH).map(|lane| {
        let (volume, pool) = (volume.clone(), pool.clone());
        let (requests, ended) = (Rc::clone(&requests), ended.clone());
        io.spawn(async move {
            let buf = pool.alloc(LEN).await;
            // The two reactors are not to come to the same places at the same time.
            let mut random = Random::stream(before.as_nanos() as u64, lane);
            let blocks = volume.limits().size.min(1 << 38) / LEN as u64;
            let mut count = 0_u32;
            loop {
                let offset = random.below(blocks) * LEN as u64;
                let done = match kind {
                    Kind::Reads => volume.read(offset, buf.all()).await,
                    Kind::Writes => volume.write(offset, buf.all(), false).await,
                };
                done.expect("null members do not fail");
                requests.set(requests.get() + 1);
                count += 1;
                if count.is_multiple_of(64) && ended() {
                    return;
                }
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await;
    }
    Done { requests: requests.get(), nanos: (clock.used() - before).as_nanos() as u64 }
}

/// The other reactor.
fn in_channel(kind: Kind, berth: Berth, distant: Distant, common: &Arc<Common>) {
    let io = Io::new(Box::new(Memory::new()));
    io.join(berth);
    let table = ChannelTable::new(&io);
    let volume = Channeled::new(&io, distant, &table);
    io.block_on(async {
        let own = || table.requests().load(Ordering::Relaxed);
        // Home lends it the array once it has written something.
        let buf = io.pool(LEN).alloc(LEN).await;
        while own() == 0 {
            match kind {
                Kind::Reads => volume.read(0, buf.all()).await,
                Kind::Writes => volume.write(0, buf.all(), false).await,
            }
            .expect("null members do not fail");
            io.sleep(PAUSE).await;
        }
        let before = own();
        common.begun.store(true, Ordering::Relaxed);
        let ended = Arc::clone(common);
        let done = ask(kind, &io, &volume, move || ended.ended.load(Ordering::Relaxed)).await;
        common.requests.store(done.requests, Ordering::Relaxed);
        common.nanos.store(done.nanos, Ordering::Relaxed);
        common.in_channel.store(own() - before, Ordering::Relaxed);
        common.done.store(true, Ordering::Release);
        // Home tells it without a wake-up.
        while !common.over.load(Ordering::Relaxed) {
            io.sleep(PAUSE).await;
        }
    });
    drop(volume);
    io.shutdown();
}
