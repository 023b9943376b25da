//! The cost of sharing one array between several reactors, each on a core of its own. A sketch of the ways to do it,
//! not of the engine; docs/design/several-reactors.md draws its conclusion from it.
//!
//! `cargo run --profile bench -p brindle-io --example several_reactors [--markdown]`
//!
//! Two threads carry out requests for rows taken by chance, 32 at a time each. A request has the processor for as long as
//! an engine that needs [`WORK`] rounds of arithmetic would. Figures are nanoseconds of one thread for each request, medians
//! of [`RUNS`] runs in which the ways take turns.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

const RUNS: usize = 9;
/// Requests of each thread and run.
const REQUESTS: u64 = 400_000;
const DEPTH: usize = 32;
const ROWS: u64 = 1 << 20;
/// Some 400 ns: between a read of RAID 0 and a write of RAID 6.
const WORK: u64 = 350;

/// On a cache line of its own, and on that which the processor fetches with it.
#[repr(align(128))]
#[derive(Default)]
struct Apart<T>(T);

/// A queue with one writer and one reader, each on a core of its own.
struct Ring {
    places: Box<[AtomicU64]>,
    written: Apart<AtomicU64>,
    read: Apart<AtomicU64>,
}

impl Ring {
    fn new() -> Self {
        let places = (0..4 * DEPTH).map(|_| AtomicU64::new(0)).collect();
        Self { places, written: Apart::default(), read: Apart::default() }
    }

    /// At most 2 * [`DEPTH`] are ever under way, so that there is always room.
    fn put(&self, at: u64, value: u64) {
        self.places[at as usize % self.places.len()].store(value, Ordering::Relaxed);
    }

    /// Hands over what was put below `at`.
    fn publish(&self, at: u64) {
        self.written.0.store(at, Ordering::Release);
    }

    fn drain(&self, mut each: impl FnMut(u64)) {
        let (from, to) = (self.read.0.load(Ordering::Relaxed), self.written.0.load(Ordering::Acquire));
        for at in from..to {
            each(self.places[at as usize % self.places.len()].load(Ordering::Relaxed));
        }
        if from != to {
            self.read.0.store(to, Ordering::Release);
        }
    }
}

/// The state that two threads share.
struct Shared {
    /// By the thread that reads them: requests for its rows, answers to what it asked.
    requests: [Ring; 2],
    answers: [Ring; 2],
    /// Rows that are held, for all threads: by number modulo the length.
    rows: Box<[Apart<AtomicU32>]>,
    /// The data to be written, by the thread that received them: 4 KiB for each request under way.
    payload: [Box<[AtomicU64]>; 2],
    /// Writes under way: of all threads, or of each.
    writes: Apart<AtomicU64>,
    own_writes: [Apart<AtomicU64>; 2],
    /// The array is marked dirty: read by each write, and next to never changed.
    ready: Apart<AtomicBool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each thread has an array of its own: nothing is shared.
    Alone,
    /// Rows belong to threads; half of the requests come to the wrong one, and are handed over in batches of this
    /// size.
    Owned { batch: usize, payload: bool },
    /// Both threads take rows from one table.
    Table { rows: u64, payload: bool },
    /// Nothing is shared, but 4 KiB come with each request, as from a socket, and are looked at once, as for parity.
    Payload,
    /// `Payload` with one shared count of writes under way.
    Counted,
    /// A count of each thread that a home core adds up, beside a flag.
    Flagged,
}

const WAYS: [(&str, Way); 11] = [
    ("an array for each reactor", Way::Alone),
    ("rows owned, handed over one by one", Way::Owned { batch: 1, payload: false }),
    ("rows owned, handed over by 8", Way::Owned { batch: 8, payload: false }),
    ("rows owned, handed over by 32", Way::Owned { batch: 32, payload: false }),
    ("one table of held rows", Way::Table { rows: ROWS, payload: false }),
    ("one table of held rows, all requests for 64 rows", Way::Table { rows: 64, payload: false }),
    ("an array for each, 4 KiB with each request", Way::Payload),
    ("rows owned, handed over by 8, 4 KiB", Way::Owned { batch: 8, payload: true }),
    ("one table of held rows, 4 KiB", Way::Table { rows: ROWS, payload: true }),
    ("control at home: a flag, and a count of each reactor", Way::Flagged),
    ("control shared: one count of writes", Way::Counted),
];

fn work(row: u64) -> u64 {
    (0..WORK).fold(row, |value, round| {
        black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ round)
    })
}

/// Words of a request's payload.
const WORDS: usize = 512;

impl Shared {
    fn words(&self, thread: usize, place: u64) -> &[AtomicU64] {
        let at = place as usize % (2 * DEPTH) * WORDS;
        &self.payload[thread][at..at + WORDS]
    }

    /// Bytes come to a thread.
    fn receive(&self, thread: usize, place: u64) {
        self.words(thread, place).iter().for_each(|word| word.store(place, Ordering::Relaxed));
    }

    /// Parity is computed of them.
    fn look(&self, thread: usize, place: u64) -> u64 {
        self.words(thread, place).iter().fold(0, |sum, word| sum ^ word.load(Ordering::Relaxed))
    }
}

struct Thread<'a> {
    me: usize,
    shared: &'a Shared,
    state: u64,
    sent: u64,
    answered: u64,
}

impl Thread<'_> {
    fn chance(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn run(&mut self, way: Way) {
        match way {
            Way::Alone => (0..REQUESTS).for_each(|_| {
                black_box(work(self.chance() % ROWS));
            }),
            Way::Owned { batch, payload } => self.owned(batch, payload),
            Way::Table { rows, payload } => self.table(rows, payload),
            Way::Payload => (0..REQUESTS).for_each(|place| {
                self.shared.receive(self.me, place);
                black_box(self.shared.look(self.me, place) ^ work(self.chance() % ROWS));
            }),
            Way::Counted | Way::Flagged => (0..REQUESTS).for_each(|_| self.counted(way)),
        }
    }

    /// Serves the other's requests between its own, and beyond them until the other has its answers.
    fn owned(&mut self, batch: usize, payload: bool) {
        let (mine, theirs) = (self.me, 1 - self.me);
        let shared = self.shared;
        let (mut done, mut asked, mut under_way) = (0, 0, 0);
        let mut unsent = 0;
        while done < REQUESTS || shared.own_writes[theirs].0.load(Ordering::Acquire) < REQUESTS {
            while asked < REQUESTS && under_way < DEPTH {
                asked += 1;
                let row = self.chance() % ROWS;
                if payload {
                    shared.receive(mine, self.sent);
                }
                if row as usize % 2 == mine {
                    black_box(work(row) ^ if payload { shared.look(mine, self.sent) } else { 0 });
                    done += 1;
                    continue;
                }
                shared.requests[theirs].put(self.sent, row);
                (self.sent, under_way, unsent) = (self.sent + 1, under_way + 1, unsent + 1);
                if unsent == batch {
                    shared.requests[theirs].publish(self.sent);
                    unsent = 0;
                }
            }
            shared.requests[theirs].publish(self.sent);
            unsent = 0;
            let before = self.answered;
            shared.requests[mine].drain(|row| {
                let seen = if payload { shared.look(theirs, self.answered) } else { 0 };
                shared.answers[theirs].put(self.answered, work(row) ^ seen);
                self.answered += 1;
                if (self.answered - before).is_multiple_of(batch as u64) {
                    shared.answers[theirs].publish(self.answered);
                }
            });
            shared.answers[theirs].publish(self.answered);
            shared.answers[mine].drain(|answer| {
                black_box(answer);
                (under_way, done) = (under_way - 1, done + 1);
            });
            shared.own_writes[mine].0.store(done, Ordering::Release);
        }
    }

    /// A request whose row is held by the other waits while those behind it go on.
    fn table(&mut self, rows: u64, payload: bool) {
        let mut waiting = VecDeque::with_capacity(DEPTH);
        let (mut begun, mut done) = (0, 0);
        while done < REQUESTS {
            let row = if begun < REQUESTS && waiting.len() < DEPTH {
                begun += 1;
                self.chance() % rows
            } else {
                waiting.pop_front().expect("what was begun is done or waits")
            };
            let shared = self.shared;
            let held = &shared.rows[row as usize % shared.rows.len()].0;
            if held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
                waiting.push_back(row);
                continue;
            }
            if payload {
                shared.receive(self.me, begun);
            }
            black_box(work(row) ^ if payload { shared.look(self.me, begun) } else { 0 });
            held.store(0, Ordering::Release);
            done += 1;
        }
    }

    fn counted(&mut self, way: Way) {
        let row = self.chance() % ROWS;
        let shared = self.shared;
        let own = &shared.own_writes[self.me].0;
        if way == Way::Counted {
            shared.writes.0.fetch_add(1, Ordering::SeqCst);
        } else {
            // The home core takes the flag back, and then looks at the counts: one of the two sees the other.
            own.store(own.load(Ordering::Relaxed) + 1, Ordering::SeqCst);
        }
        assert!(shared.ready.0.load(Ordering::SeqCst));
        black_box(work(row));
        if way == Way::Counted {
            shared.writes.0.fetch_sub(1, Ordering::SeqCst);
        } else {
            own.store(own.load(Ordering::Relaxed) - 1, Ordering::Release);
        }
    }
}

/// Nanoseconds of a thread for each request.
fn measure(way: Way) -> f64 {
    let shared = Shared {
        requests: [Ring::new(), Ring::new()],
        answers: [Ring::new(), Ring::new()],
        rows: (0..4096).map(|_| Apart::default()).collect(),
        payload: [0, 1].map(|_| (0..2 * DEPTH * WORDS).map(|_| AtomicU64::new(0)).collect()),
        writes: Apart::default(),
        own_writes: Default::default(),
        ready: Apart(AtomicBool::new(true)),
    };
    let start = Barrier::new(2);
    let spent = thread::scope(|scope| {
        let threads = [0, 1].map(|me| {
            let (shared, start) = (&shared, &start);
            scope.spawn(move || {
                let mut thread = Thread { me, shared, state: 77 + me as u64, sent: 0, answered: 0 };
                start.wait();
                let begun = Instant::now();
                thread.run(way);
                begun.elapsed()
            })
        });
        threads.map(|thread| thread.join().unwrap().as_nanos() as f64)
    });
    (spent[0] + spent[1]) / 2.0 / REQUESTS as f64
}

/// Nanoseconds for a request that is handed to a thread that sleeps, and back.
fn asleep() -> f64 {
    const TIMES: u32 = 20_000;
    let ring = Arc::new((Apart(AtomicU64::new(0)), Apart(AtomicU64::new(0))));
    let (there, home) = (Arc::clone(&ring), thread::current());
    let other = thread::spawn(move || {
        for turn in 1..=u64::from(TIMES) {
            while there.0.0.load(Ordering::Acquire) < turn {
                thread::park();
            }
            there.1.0.store(turn, Ordering::Release);
            home.unpark();
        }
    });
    let begun = Instant::now();
    for turn in 1..=u64::from(TIMES) {
        ring.0.0.store(turn, Ordering::Release);
        other.thread().unpark();
        while ring.1.0.load(Ordering::Acquire) < turn {
            thread::park();
        }
    }
    let spent = begun.elapsed().as_nanos() as f64 / f64::from(TIMES);
    other.join().unwrap();
    spent
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let markdown = std::env::args().any(|arg| arg == "--markdown");
    let mut runs = vec![Vec::new(); WAYS.len()];
    for _ in 0..RUNS {
        for ((_, way), runs) in WAYS.iter().zip(&mut runs) {
            runs.push(measure(*way));
        }
    }
    let alone = median(runs[0].clone());
    if markdown {
        println!("| way | ns a request | more than alone |\n|---|---:|---:|");
    }
    for ((name, _), runs) in WAYS.iter().zip(runs) {
        let ns = median(runs);
        if markdown {
            println!("| {name} | {ns:.0} | {:+.0} |", ns - alone);
        } else {
            println!("{name:<56} {ns:>8.0} {:>+8.0}", ns - alone);
        }
    }
    let ns = median((0..RUNS).map(|_| asleep()).collect());
    if markdown {
        println!("| handed to a reactor that sleeps, and back | {ns:.0} | |");
    } else {
        println!("{:<56} {ns:>8.0}", "handed to a reactor that sleeps, and back");
    }
}
