//! Reads of an array on an executor that is not its home: done there while the array is whole, and at home otherwise; never older than what
//! was answered before.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use brindle_array::{ChannelTable, Channeled, OpenConfig};
use brindle_io::sim::{Model, Sim};
use brindle_io::{Berth, Duration, Io, Pool};
use brindle_layout::Level;
use brindle_testkit::conformance::conforms;
use brindle_testkit::running::Running;
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{World, patient, read, write};
use brindle_volume::forwarded::word;
use brindle_volume::{Distant, Forward, Volume, VolumeError};

const BLOCK: usize = 4096;

/// An array at home, and another executor of its world that reads it.
pub(crate) struct Beside {
    pub(crate) running: Running<Sim>,
    /// The other one.
    pub(crate) io: Io,
    volume: Rc<Channeled>,
    requests: Arc<AtomicU64>,
    paced: Arc<AtomicBool>,
    pub(crate) closed: Arc<AtomicBool>,
    /// Home refuses changes.
    pub(crate) refuses: Arc<AtomicBool>,
}

impl Beside {
    fn of(shape: &Shape, seed: u64) -> Self {
        Self::with(shape, seed, patient())
    }

    pub(crate) fn with(shape: &Shape, seed: u64, config: OpenConfig) -> Self {
        let running = World::in_sim(shape, Model::nvme(), seed).assembled(&[], config);
        let (other, refuses) = (running.bench.add_executor(), Arc::<AtomicBool>::default());
        let mut berths = Berth::crew(2).into_iter();
        for io in [&running.io, &other] {
            io.join(berths.next().expect("a berth for each"));
        }
        for _ in 0..32 {
            let refuses = Arc::clone(&refuses);
            drop(running.io.spawn(answer(running.io.clone(), running.array.clone(), refuses)));
        }
        let (table, paced, closed) = (ChannelTable::new(&other), Arc::default(), Arc::default());
        let (ticket, limits) = (running.array.ticket(1), running.array.limits());
        let distant =
            Distant { number: 7, limits, ticket, paced: Arc::clone(&paced), closed: Arc::clone(&closed) };
        let volume = Rc::new(Channeled::new(&other, distant, &table));
        Self { running, io: other, volume, requests: table.requests(), paced, closed, refuses }
    }

    /// Requests that were carried out in the channel.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The other executor does something, to its end.
    pub(crate) async fn over_there<T: 'static>(
        &self,
        work: impl AsyncFnOnce(Rc<Channeled>, Pool) -> T + 'static,
    ) -> T {
        let done = self.begin_there(work);
        self.ended(&done).await
    }

    /// The outcome of a task of the other executor, once it has come to its end.
    pub(crate) async fn ended<T>(&self, done: &Done<T>) -> T {
        let until = self.running.io.now().after(Duration::from_secs(3600));
        while !done.get() {
            assert!(self.running.io.now() < until, "the other executor comes to no end");
            self.running.io.sleep(Duration::from_micros(10)).await;
        }
        done.take().expect("it was just there")
    }

    pub(crate) fn begin_there<T: 'static>(
        &self,
        work: impl AsyncFnOnce(Rc<Channeled>, Pool) -> T + 'static,
    ) -> Rc<Done<T>> {
        let done = Rc::new(Done { is: Cell::new(false), value: Cell::new(None) });
        let (told, volume, pool) = (Rc::clone(&done), Rc::clone(&self.volume), self.io.pool(8 << 20));
        drop(self.io.spawn(async move {
            told.value.set(Some(work(volume, pool).await));
            told.is.set(true);
        }));
        done
    }

    /// Bytes as the other executor reads them.
    pub(crate) async fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let read = async move |volume: Rc<Channeled>, pool| read(&pool, &*volume, offset, len).await;
        self.over_there(read).await.expect("it can be read")
    }

    /// Reads until that is done in the channel again.
    async fn wait_until_here(&self) {
        for _ in 0..200 {
            let before = self.requests();
            self.read(0, BLOCK).await;
            if self.requests() > before {
                return;
            }
            self.running.io.sleep(Duration::from_millis(100)).await;
        }
        panic!("no read is done here any more");
    }

    pub(crate) fn stop(self) {
        let sim = self.running.bench.clone();
        self.running.stop();
        sim.end_others();
    }
}

/// The outcome of a task on the other executor.
pub(crate) struct Done<T> {
    is: Cell<bool>,
    value: Cell<Option<T>>,
}

impl<T> Done<T> {
    pub(crate) fn get(&self) -> bool {
        self.is.get()
    }

    fn take(&self) -> Option<T> {
        self.value.take()
    }
}

/// Home carries requests out; no changes while it refuses them.
async fn answer<V: Volume>(io: Io, volume: V, refuses: Arc<AtomicBool>) {
    loop {
        let loan = io.next_loan().await;
        let forward = Forward::of(loan.question()).expect("a request");
        if forward.changes() && refuses.load(Ordering::Relaxed) {
            loan.answer(word(Err(VolumeError::ReadOnly)));
            continue;
        }
        let answer = forward.carry_out(&volume, &loan).await;
        loan.answer(answer);
    }
}

fn shapes() -> Vec<Shape> {
    let shape = |level, members| Shape { rows: 32, ..Shape::new(level, members) };
    vec![
        shape(Level::Linear, 3),
        shape(Level::Raid0, 3),
        shape(Level::Raid1, 2),
        shape(Level::Raid10, 4).layout("n2"),
        shape(Level::Raid10, 3).layout("f2"),
        shape(Level::Raid4, 4),
        shape(Level::Raid5, 4),
        shape(Level::Raid6, 5),
    ]
}

#[test]
fn an_array_that_is_read_in_a_channel_conforms() {
    for (seed, shape) in (40..).zip(shapes()) {
        let beside = Beside::of(&shape, seed);
        beside.running.io.block_on(async {
            let name = shape.level.name();
            let io = beside.io.clone();
            beside.over_there(async move |volume, pool| conforms(name, &io, &pool, &*volume).await).await;
        });
        assert!(beside.requests() > 20, "{}: {}", shape.level, beside.requests());
        beside.stop();
    }
}

#[test]
fn bytes_are_those_that_home_has_at_any_place_and_length() {
    for (seed, shape) in (60..).zip(shapes()) {
        let beside = Beside::of(&shape, seed);
        let size = beside.running.size() as usize;
        let bytes: Vec<u8> = (0..size).map(|at| (at / 512 * 7 + at % 251) as u8).collect();
        beside.running.io.block_on(async {
            write(&beside.running.pool, &beside.running.array, 0, &bytes).await.expect("written");
            for (at, len) in [(0, size), (512, size - 1024), (BLOCK - 512, 1024), (size - 512, 512)] {
                let before = beside.requests();
                let found = beside.read(at as u64, len).await;
                assert!(found == bytes[at..at + len], "{}: {len} bytes at {at}", shape.level);
                assert_eq!(beside.requests(), before + 1, "{}: {len} bytes at {at}", shape.level);
            }
            let given = |&id| beside.running.array.given_channels(id).reads;
            beside.running.io.sleep(Duration::from_secs(1)).await;
            assert!(beside.running.ids.iter().map(given).sum::<u64>() >= 4, "{}", shape.level);
        });
        beside.stop();
    }
}

/// A member is lost: whatever the others have is read there, and home makes up for the rest.
#[test]
fn a_degraded_array_is_read_there_as_far_as_its_members_have_the_bytes() {
    let shapes = shapes().into_iter().filter(|shape| shape.level.is_redundant());
    for (seed, shape) in (100..).zip(shapes) {
        let beside = Beside::of(&shape, seed);
        let size = beside.running.size() as usize;
        let bytes: Vec<u8> = (0..size).map(|at| (at / 512 * 11 + at % 249) as u8).collect();
        beside.running.io.block_on(async {
            write(&beside.running.pool, &beside.running.array, 0, &bytes).await.expect("written");
            beside.wait_until_here().await;
            beside.running.array.fail(0).await.expect("it can do without the member");
            // Until home has looked again.
            beside.running.io.sleep(Duration::from_secs(1)).await;
            let before = beside.requests();
            let blocks = size / BLOCK;
            for at in (0..blocks).map(|block| block * BLOCK) {
                let found = beside.read(at as u64, BLOCK).await;
                assert!(found == bytes[at..at + BLOCK], "{}: at {at}", shape.level);
            }
            let there = (beside.requests() - before) as usize;
            assert!(there * 2 >= blocks, "{}: {there} of {blocks}", shape.level);
            // It is written to at home, and what was written is read.
            let before = beside.requests();
            let written = beside.over_there(async move |volume: Rc<Channeled>, pool| {
                write(&pool, &*volume, 0, &[7; 4 * BLOCK]).await
            });
            written.await.expect("it can be written");
            assert_eq!(beside.requests(), before, "{}", shape.level);
            assert_eq!(beside.read(0, 4 * BLOCK).await, [7; 4 * BLOCK], "{}", shape.level);
        });
        beside.stop();
    }
}

/// A copy that did not take a write still has what was there, and gives it to whoever asks.
#[test]
fn nothing_is_acknowledged_that_an_executor_which_is_late_would_not_read() {
    for (seed, shape) in [(80, Shape::new(Level::Raid1, 2)), (81, Shape::new(Level::Raid10, 4).layout("n2"))]
    {
        let beside = Beside::of(&shape, seed);
        let Running { array, ids, .. } = &beside.running;
        let (io, pool) = (&beside.running.io, &beside.running.pool);
        io.block_on(async {
            write(pool, array, 0, &[1; BLOCK]).await.expect("written");
            assert_eq!(beside.read(0, BLOCK).await, [1; BLOCK]);
            assert!(beside.requests() > 0, "it is read there");
            // The first copy fails. The other executor, which reads it, does not hear of that at once.
            beside.io.take_parcels_late(true);
            beside.running.bench.refuse_writes(ids[0]);
            let (array, pool) = (array.clone(), pool.clone());
            let writing = async move || write(&pool, &array, 0, &[2; BLOCK]).await;
            let acknowledged = Rc::new(Cell::new(false));
            let told = Rc::clone(&acknowledged);
            let written = io.spawn(async move {
                let written = writing().await;
                told.set(true);
                written
            });
            for _ in 0..100 {
                let before = acknowledged.get();
                let found = beside.read(0, BLOCK).await;
                assert!(!before || found == [2; BLOCK], "what was acknowledged is not read");
            }
            assert!(!acknowledged.get(), "one executor still reads the copy that failed");
            beside.io.take_parcels_late(false);
            written.await.expect("the other copy has it");
            assert_eq!(beside.read(0, BLOCK).await, [2; BLOCK]);
        });
        beside.stop();
    }
}

#[test]
fn a_silent_member_is_handed_to_home_and_reads_come_back_with_it() {
    let beside = Beside::of(&Shape { rows: 32, ..Shape::new(Level::Raid5, 4) }, 90);
    let io = &beside.running.io;
    io.block_on(async {
        write(&beside.running.pool, &beside.running.array, 0, &[3; 4 * BLOCK]).await.expect("written");
        beside.wait_until_here().await;
        for &id in &beside.running.ids[..1] {
            beside.running.bench.afflict(id, |faults| faults.hangs = true);
        }
        let began = io.now();
        for at in 0..4 {
            assert_eq!(beside.read(at * BLOCK as u64, BLOCK).await, [3; BLOCK]);
        }
        let took = io.now().since(began);
        assert!(took > Duration::from_millis(400) && took < Duration::from_secs(4), "{took:?}");
        let before = beside.requests();
        assert_eq!(beside.read(0, 4 * BLOCK).await, [3; 4 * BLOCK]);
        assert_eq!(beside.requests(), before, "home reads while a member is silent");
        beside.running.bench.afflict(beside.running.ids[0], |faults| faults.hangs = false);
        beside.wait_until_here().await;
    });
    beside.stop();
}

#[test]
fn a_read_that_meets_an_error_is_judged_at_home() {
    let beside = Beside::of(&Shape { rows: 32, ..Shape::new(Level::Raid6, 5) }, 91);
    beside.running.io.block_on(async {
        write(&beside.running.pool, &beside.running.array, 0, &[4; 8 * BLOCK]).await.expect("written");
        beside.wait_until_here().await;
        let start = beside.running.data_offset;
        beside.running.ids.iter().for_each(|&id| beside.running.bench.spoil(id, start, 512));
        // One bad block of each row at a time can be made up for; the rows of the others follow.
        beside.running.ids[2..].iter().for_each(|&id| {
            beside.running.bench.afflict(id, |faults| faults.unreadable.clear());
        });
        assert_eq!(beside.read(0, 8 * BLOCK).await, [4; 8 * BLOCK]);
        beside.wait_until_here().await;
        let before = beside.requests();
        assert_eq!(beside.read(0, 8 * BLOCK).await, [4; 8 * BLOCK], "home has mended it");
        assert_eq!(beside.requests(), before + 1);
    });
    beside.stop();
}

#[test]
fn home_lets_each_request_through_where_clients_may_ask_for_so_much_only() {
    let beside = Beside::of(&Shape::new(Level::Raid0, 2), 92);
    beside.running.io.block_on(async {
        beside.paced.store(true, Ordering::Relaxed);
        beside.read(0, BLOCK).await;
        assert_eq!(beside.requests(), 0);
        beside.paced.store(false, Ordering::Relaxed);
        beside.read(0, BLOCK).await;
        assert_eq!(beside.requests(), 1);
    });
    beside.stop();
}
