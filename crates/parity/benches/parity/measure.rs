//! Interleaved measurement: contenders take turns of some milliseconds each, so that whatever else
//! the machine does hits all of them alike. The clock is the thread's CPU time: a busy machine takes
//! turns away from all, and would else take them at random.

use std::hint::black_box;
use std::time::Duration;

use brindle_parity::Kernel;

use rustix::time::{ClockId, clock_gettime};

use crate::isal::{Isal, sets};
use crate::report::Figures;

/// Bytes of a block: a common chunk.
pub(crate) const BLOCK: usize = 64 << 10;
/// Bytes that cold walks go round in: far more than any cache.
const RING: usize = 3 << 30;
/// Data bytes of one cold turn.
const COLD_TURN: usize = 96 << 20;
/// The time of one turn in cache.
const CACHE_TURN: Duration = Duration::from_millis(4);
/// Turns of each contender.
const ROUNDS: usize = 21;

/// The computation for each row.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Work {
    Xor,
    Pq,
    Pqr,
    RecoverTwo,
}

impl Work {
    pub(crate) const ALL: [Self; 4] = [Self::Xor, Self::Pq, Self::Pqr, Self::RecoverTwo];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Xor => "XOR",
            Work::Pq => "P+Q",
            Work::Pqr => "P+Q+R",
            Work::RecoverTwo => "recover two",
        }
    }

    /// Blocks of a row beside the data.
    fn outputs(self) -> usize {
        match self {
            Work::Xor => 1,
            Work::Pq => 2,
            Work::Pqr => 3,
            Work::RecoverTwo => 2,
        }
    }
}

/// The place of the blocks before the measurement: which cache.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Place {
    Cache,
    Cold,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Place::Cache => "in cache",
            Place::Cold => "cold",
        }
    }
}

/// The memory that rows are cut from.
pub(crate) struct Ring {
    bytes: Vec<u8>,
    start: usize,
}

impl Ring {
    pub(crate) fn new() -> Self {
        // Not zero: the kernel must give each page memory of its own.
        let bytes = vec![0x5a; RING + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        Self { bytes, start }
    }

    fn row(&mut self, index: usize, blocks: usize) -> &mut [u8] {
        let start = self.start + index * blocks * BLOCK;
        &mut self.bytes[start..start + blocks * BLOCK]
    }
}

/// One of those who take turns.
type Contender<'a> = Box<dyn Fn(&mut [u8]) + 'a>;

/// Splits a row into data and `N` outputs.
fn split<const N: usize>(row: &mut [u8], members: usize) -> ([&[u8]; 16], [&mut [u8]; N]) {
    let (data, out) = row.split_at_mut(members * BLOCK);
    let mut slots: [&[u8]; 16] = [&[]; 16];
    for (slot, block) in slots.iter_mut().zip(data.chunks_exact(BLOCK)) {
        *slot = block;
    }
    let mut blocks = out.chunks_exact_mut(BLOCK);
    (slots, std::array::from_fn(|_| blocks.next().expect("a row has room for all outputs")))
}

/// Brindle's kernel.
fn ours(kernel: &'static Kernel, work: Work, members: usize) -> Contender<'static> {
    match work {
        Work::Xor => Box::new(move |row| {
            let (data, [p]) = split(row, members);
            kernel.xor(&data[..members], p);
        }),
        Work::Pq => Box::new(move |row| {
            let (data, [p, q]) = split(row, members);
            kernel.pq(&data[..members], p, q);
        }),
        Work::Pqr => Box::new(move |row| {
            let (data, [p, q, r]) = split(row, members);
            kernel.pqr(&data[..members], p, q, r);
        }),
        // The survivors of a row whose first two data members are lost, with P and Q: as many
        // sources as there are data members.
        Work::RecoverTwo => Box::new(move |row| {
            let (mut slots, [x, y]) = split(row, members);
            let (p, q) = (slots[0], slots[1]);
            (slots[0], slots[1]) = (&[], &[]);
            kernel.recover_two(&slots[..members], 0, 1, p, q, x, y);
        }),
    }
}

/// ISA-L's functions.
fn theirs(isal: &Isal, work: Work, members: usize) -> Contender<'_> {
    let power = |exponent: usize| (0..exponent).fold(1u8, |a, _| a << 1 ^ if a >= 128 { 0x1d } else { 0 });
    match work {
        Work::Xor => Box::new(move |row| {
            let (data, [p]) = split(row, members);
            isal.xor(&data[..members], p);
        }),
        Work::Pq => Box::new(move |row| {
            let (data, [p, q]) = split(row, members);
            isal.pq(&data[..members], p, q);
        }),
        Work::Pqr => {
            let matrix: Vec<_> = (0..3).flat_map(|k| (0..members).map(move |i| power(k * i))).collect();
            let tables = isal.tables(members, &matrix);
            Box::new(move |row| {
                let (data, out) = split::<3>(row, members);
                isal.encode(&tables, &data[..members], out);
            })
        }
        // As many sources as ours. ISA-L's speed does not depend on the matrix.
        Work::RecoverTwo => {
            let matrix: Vec<_> = (0..2 * members).map(power).collect();
            let tables = isal.tables(members, &matrix);
            Box::new(move |row| {
                let (sources, out) = split::<2>(row, members);
                isal.encode(&tables, &sources[..members], out);
            })
        }
    }
}

/// Measures a kernel and ISA-L's functions for the same instruction set in turns.
pub(crate) fn compare(
    kernel: &'static Kernel,
    ring: &mut Ring,
    work: Work,
    place: Place,
    members: usize,
) -> Figures {
    let blocks = members + work.outputs();
    let rows = RING / (blocks * BLOCK);
    let isal = sets(kernel.name()).iter().find_map(|name| Isal::open(name));
    let mut contenders = vec![ours(kernel, work, members)];
    contenders.extend(isal.iter().map(|isal| theirs(isal, work, members)));
    let mut rates = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    let mut next = 0;
    for round in 0..=ROUNDS {
        for (contender, rates) in contenders.iter().zip(&mut rates) {
            let (done, elapsed) = match place {
                Place::Cache => in_cache(contender, ring.row(0, blocks)),
                Place::Cold => {
                    let count = COLD_TURN / (members * BLOCK);
                    let start = cpu_time();
                    for _ in 0..count {
                        contender(black_box(ring.row(next, blocks)));
                        next = (next + 1) % rows;
                    }
                    (count, cpu_time() - start)
                }
            };
            // The first round warms up.
            if round > 0 {
                rates.push((done * members * BLOCK) as f64 / elapsed.as_secs_f64() / 1e9);
            }
        }
    }
    Figures::new(kernel.name(), isal.as_ref().map(|isal| isal.name), &rates)
}

/// CPU time that this thread has used.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Repeats a call on the same row for the time of a turn.
fn in_cache(contender: &Contender<'_>, row: &mut [u8]) -> (usize, Duration) {
    // Bring the row into the cache, whatever the contender before has left there.
    contender(row);
    let start = cpu_time();
    let mut done = 0;
    loop {
        for _ in 0..16 {
            contender(black_box(&mut *row));
        }
        done += 16;
        let elapsed = cpu_time() - start;
        if elapsed >= CACHE_TURN {
            return (done, elapsed);
        }
    }
}
