//! 4K reads of an array in channels: by one reactor and by two, by turns.
//!
//! `cargo run --profile bench -p brindle-array --example channel_reads [--markdown]`
//!
//! Members are null ones: they keep nothing, and complete at once. Each reactor has [`DEPTH`] reads in flight all the time, at random places
//! of one array: home by the array, the other one, on a thread of its own, in its channel. The rate of a reactor is its reads for each
//! second of processor time that its thread used. Medians of [`RUNS`] runs in which one and two reactors take turns.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use brindle_array::{ChannelTable, Channeled, Device};
use brindle_io::memory::Memory;
use brindle_io::{Berth, Io, ThreadClock};
use brindle_layout::{Geometry, Layout, Level, ParityLayout, Raid10Layout};
use brindle_testkit::random::Random;
use brindle_testkit::world::unguarded;
use brindle_volume::{Distant, Volume};

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

fn shapes() -> [Shape; 4] {
    let symmetric = Layout::Parity(ParityLayout::LeftSymmetric);
    [
        ("RAID 0", Level::Raid0, Layout::None, 4),
        ("RAID 10", Level::Raid10, Layout::Raid10(Raid10Layout::near(2)), 4),
        ("RAID 5", Level::Raid5, symmetric, 4),
        ("RAID 6", Level::Raid6, symmetric, 6),
    ]
}

/// Reads, and the processor time that they took.
#[derive(Clone, Copy, Default)]
struct Done {
    reads: u64,
    nanos: u64,
}

impl Done {
    /// Reads a second.
    fn rate(self) -> f64 {
        self.reads as f64 * 1e9 / self.nanos.max(1) as f64
    }
}

/// State that the two threads of a run have in common.
#[derive(Default)]
struct Common {
    begun: AtomicBool,
    ended: AtomicBool,
    done: AtomicBool,
    over: AtomicBool,
    reads: AtomicU64,
    nanos: AtomicU64,
    /// Reads that were done in the channel, as that counts them.
    in_channel: AtomicU64,
}

fn main() {
    let markdown = std::env::args().any(|arg| arg == "--markdown");
    if markdown {
        println!(
            "| 4K reads, 32 in flight on each | ns, one reactor | ns at home, of two | ns in the channel | two to one |\n|---|---:|---:|---:|---:|"
        );
    }
    for shape in shapes() {
        let mut figures: [Vec<f64>; 4] = Default::default();
        for _ in 0..RUNS {
            let (alone, _) = run(shape, false);
            let (home, channel) = run(shape, true);
            let gain = (home.rate() + channel.rate()) / alone.rate();
            let all = [1e9 / alone.rate(), 1e9 / home.rate(), 1e9 / channel.rate(), gain];
            figures.iter_mut().zip(all).for_each(|(list, one)| list.push(one));
        }
        let [alone, home, channel, gain] = figures.map(median);
        let name = format!("{} x{}", shape.0, shape.3);
        if markdown {
            println!("| {name} | {alone:.0} | {home:.0} | {channel:.0} | {gain:.2} |");
        } else {
            println!(
                "{name:<12} {alone:>5.0} ns alone; {home:>5.0} at home beside {channel:>5.0} in a channel: {gain:.2} times as many"
            );
        }
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Home reads, with a channel beside it or alone.
fn run((_, level, layout, members): Shape, with_channel: bool) -> (Done, Done) {
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
        let distant = Distant { number: 0, limits, ticket, paced: Arc::default() };
        thread::spawn(move || read_in_channel(berth, distant, &common))
    });
    while with_channel && !common.begun.load(Ordering::Relaxed) {
        thread::yield_now();
    }
    let done = io.block_on(async {
        let own = read(&io, &array, {
            let begun = Instant::now();
            move || begun.elapsed() >= RUN
        });
        let done = own.await;
        common.ended.store(true, Ordering::Relaxed);
        // Once the array is stopped the channel hands its reads to home, which has to be there for them.
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
    let channel =
        Done { reads: common.reads.load(Ordering::Relaxed), nanos: common.nanos.load(Ordering::Relaxed) };
    let in_channel = common.in_channel.load(Ordering::Relaxed);
    assert!(in_channel >= channel.reads, "{in_channel} of {} reads were done in the channel", channel.reads);
    (done, channel)
}

/// Reads at random places, with so many in flight, until the run has ended.
async fn read<V: Volume + Clone + 'static>(
    io: &Io,
    volume: &V,
    ended: impl Fn() -> bool + Clone + 'static,
) -> Done {
    let clock = ThreadClock::own().expect("a thread's clock");
    let before = clock.used();
    let reads = Rc::new(Cell::new(0));
    let pool = io.pool(1 << 20);
    let lanes = (0..DEPTH).map(|lane| {
        let (volume, pool, reads, ended) = (volume.clone(), pool.clone(), Rc::clone(&reads), ended.clone());
        io.spawn(async move {
            let buf = pool.alloc(LEN).await;
            let mut random = Random::new(lane);
            let blocks = volume.limits().size.min(1 << 38) / LEN as u64;
            let mut count = 0_u32;
            loop {
                volume
                    .read(random.below(blocks) * LEN as u64, buf.all())
                    .await
                    .expect("null members do not fail");
                reads.set(reads.get() + 1);
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
    Done { reads: reads.get(), nanos: (clock.used() - before).as_nanos() as u64 }
}

/// The other reactor.
fn read_in_channel(berth: Berth, distant: Distant, common: &Arc<Common>) {
    let io = Io::new(Box::new(Memory::new()));
    io.join(berth);
    let table = ChannelTable::new(&io);
    let volume = Channeled::new(&io, distant, &table);
    io.block_on(async {
        common.begun.store(true, Ordering::Relaxed);
        let ended = Arc::clone(common);
        let done = read(&io, &volume, move || ended.ended.load(Ordering::Relaxed)).await;
        common.reads.store(done.reads, Ordering::Relaxed);
        common.nanos.store(done.nanos, Ordering::Relaxed);
        common.in_channel.store(table.reads().load(Ordering::Relaxed), Ordering::Relaxed);
        common.done.store(true, Ordering::Release);
        // Home tells it without a wake-up.
        while !common.over.load(Ordering::Relaxed) {
            io.sleep(PAUSE).await;
        }
    });
    drop(volume);
    io.shutdown();
}
