//! Loads: so many requests in flight, or so many begun a second.

use core::future::Future;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::{Duration, Instant, Io, Slice};
use brindle_testkit::random::Random;
use brindle_volume::Volume;

use crate::world::{BLOCK, Shared};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// A write that is stable when it is answered.
    Fua,
    /// A write, and then a flush.
    Flushed,
}

/// Results of a load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    /// Requests a second.
    pub(crate) rate: f64,
    /// Nanoseconds that each took, the shortest first.
    pub(crate) took: Vec<u64>,
    /// Requests that ended in each whole second.
    pub(crate) seconds: Vec<u64>,
}

impl Done {
    fn of(began: Instant, ended: Instant, marks: &[(u64, u64)]) -> Self {
        let mut took: Vec<u64> = marks.iter().map(|(_, took)| *took).collect();
        took.sort_unstable();
        let span = ended.since(began).as_secs_f64();
        let mut seconds = vec![0; span as usize];
        for (at, _) in marks {
            if let Some(second) = seconds.get_mut((at / 1_000_000_000) as usize) {
                *second += 1;
            }
        }
        Self { rate: marks.len() as f64 / span.max(1e-9), took, seconds }
    }

    /// Microseconds within which so many of a thousand were answered.
    pub(crate) fn within(&self, thousandths: usize) -> f64 {
        let at = (self.took.len() * thousandths / 1000).min(self.took.len().saturating_sub(1));
        self.took.get(at).map_or(0.0, |nanos| *nanos as f64 / 1e3)
    }

    /// The worst second, as a part of the mean of all.
    pub(crate) fn worst_second(&self) -> f64 {
        let mean = self.seconds.iter().sum::<u64>() as f64 / self.seconds.len().max(1) as f64;
        self.seconds.iter().min().map_or(1.0, |least| *least as f64 / mean)
    }
}

async fn one<V: Volume>(volume: &V, kind: Kind, block: u64, slice: &Slice) {
    let (at, list) = (block * BLOCK, core::slice::from_ref(slice));
    match kind {
        Kind::Read => volume.read(at, list).await,
        Kind::Write => volume.write(at, list, false).await,
        Kind::Fua => volume.write(at, list, true).await,
        Kind::Flushed => match volume.write(at, list, false).await {
            Ok(()) => volume.flush().await,
            failed => failed,
        },
    }
    .expect("drives that are well");
}

/// Requests of one block at random places of volumes, `depth` in flight, `count` in all. Volumes take turns.
pub(crate) fn closed<V: Volume + Clone + 'static>(
    io: &Io,
    volumes: &[V],
    kind: Kind,
    depth: u64,
    count: u64,
    seed: u64,
) -> Done {
    let left = Cell::new(count);
    let more = move || left.get().checked_sub(1).inspect(|less| left.set(*less)).is_some();
    io.block_on(lanes(io.clone(), volumes.to_vec(), kind, depth, seed, more))
}

/// The same for as long as some work takes.
pub(crate) fn beside<V: Volume + Clone + 'static>(
    io: &Io,
    volume: &V,
    kind: Kind,
    depth: u64,
    work: impl Future<Output = ()>,
) -> Done {
    let goes_on = Rc::new(Cell::new(true));
    let more = Rc::clone(&goes_on);
    let clients = io.spawn(lanes(io.clone(), vec![volume.clone()], kind, depth, 6, move || more.get()));
    io.block_on(async {
        work.await;
        goes_on.set(false);
        clients.await
    })
}

/// Requests of one block, `depth` in flight, while there are to be more.
async fn lanes<V: Volume + Clone + 'static>(
    io: Io,
    volumes: Vec<V>,
    kind: Kind,
    depth: u64,
    seed: u64,
    more: impl Fn() -> bool + 'static,
) -> Done {
    let marks: Shared<Vec<(u64, u64)>> = Rc::default();
    let (began, more) = (io.now(), Rc::new(more));
    let memory = io.pool((depth * BLOCK) as usize + (1 << 20));
    let mut lanes = Vec::new();
    for lane in 0..depth {
        let (now, more, marks) = (io.clone(), Rc::clone(&more), Rc::clone(&marks));
        let volume = volumes[lane as usize % volumes.len()].clone();
        let buf = memory.alloc(BLOCK as usize).await;
        buf.bytes_mut().fill(lane as u8);
        lanes.push(io.spawn(async move {
            let (mut random, slice) = (Random::stream(seed, lane), buf.all());
            let blocks = volume.limits().size / BLOCK;
            while more() {
                let asked = now.now();
                one(&volume, kind, random.below(blocks), &slice).await;
                let ended = now.now();
                let mark = (ended.since(began).as_nanos() as u64, ended.since(asked).as_nanos() as u64);
                marks.borrow_mut().push(mark);
            }
        }));
    }
    for lane in lanes {
        lane.await;
    }
    Done::of(began, io.now(), &marks.borrow())
}

/// Requests that begin at even distances, `rate` a second, whether or not others have been answered.
pub(crate) fn open_loop<V: Volume + Clone + 'static>(
    io: &Io,
    volume: &V,
    kind: Kind,
    rate: f64,
    count: u64,
    seed: u64,
) -> Done {
    let marks: Shared<Vec<(u64, u64)>> = Rc::new(RefCell::new(Vec::with_capacity(count as usize)));
    let began = io.now();
    io.block_on(async {
        let memory = io.pool(256 << 20);
        let mut random = Random::new(seed);
        let (blocks, left) = (volume.limits().size / BLOCK, Rc::new(Cell::new(count)));
        let all = Rc::new(brindle_io::sync::Notify::new(io));
        for n in 0..count {
            let due = began.after(Duration::from_secs_f64(n as f64 / rate));
            if due > io.now() {
                io.sleep_until(due).await;
            }
            let (now, volume, marks) = (io.clone(), volume.clone(), Rc::clone(&marks));
            let (left, all, block) = (Rc::clone(&left), Rc::clone(&all), random.below(blocks));
            let buf = memory.alloc(BLOCK as usize).await;
            drop(io.spawn(async move {
                one(&volume, kind, block, &buf.all()).await;
                // From when it was due: a load that waits for memory would hide a stall.
                let ended = now.now();
                let mark = (ended.since(began).as_nanos() as u64, ended.since(due).as_nanos() as u64);
                marks.borrow_mut().push(mark);
                left.set(left.get() - 1);
                if left.get() == 0 {
                    all.notify();
                }
            }));
        }
        all.until(|| (left.get() == 0).then_some(())).await;
    });
    let ended = io.now();
    Done::of(began, ended, &marks.borrow())
}

/// Writes all blocks of a volume in order, `blocks` at a time.
pub(crate) fn fill<V: Volume + Clone + 'static>(io: &Io, volume: &V, blocks: u64) -> Duration {
    let began = io.now();
    io.block_on(async {
        let (all, next, mut lanes) = (volume.limits().size / BLOCK, Rc::new(Cell::new(0)), Vec::new());
        let memory = io.pool((32 * blocks * BLOCK) as usize + (1 << 20));
        for _ in 0..32 {
            let (next, volume) = (Rc::clone(&next), volume.clone());
            let buf = memory.alloc((blocks * BLOCK) as usize).await;
            buf.bytes_mut().fill(1);
            lanes.push(io.spawn(async move {
                while next.get() < all {
                    let (at, count) = (next.get(), blocks.min(all - next.get()));
                    next.set(at + count);
                    let slice = buf.slice(0..(count * BLOCK) as usize);
                    volume.write(at * BLOCK, slice, false).await.expect("room for all that is sold");
                }
            }));
        }
        for lane in lanes {
            lane.await;
        }
        volume.flush().await.expect("drives that are well");
    });
    io.now().since(began)
}
