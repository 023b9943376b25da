//! Requests to an array or to its bare members, counted and timed.

use std::cell::Cell;
use std::rc::Rc;

use brindle_array::Array;
use brindle_io::sync::join_all;
use brindle_io::{Io, MemberId, Pool, Slice};
use brindle_volume::Volume;

use crate::shared::{TURNS, next, processor_time};

/// The target of the requests.
#[derive(Clone)]
pub(crate) enum Target {
    /// Members of `size` bytes each (a power of two), one after the other: each request is one operation on one.
    Bare {
        io: Io,
        members: Rc<[MemberId]>,
        size: u64,
    },
    Array(Array),
}

/// One kind of request.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    /// Bytes.
    pub(crate) len: usize,
    pub(crate) write: bool,
    pub(crate) sequential: bool,
    /// All requests move the same memory, which is in cache then however many there are.
    pub(crate) together: bool,
}

impl Target {
    /// Bytes.
    fn size(&self) -> u64 {
        match self {
            Target::Bare { members, size, .. } => members.len() as u64 * size,
            Target::Array(array) => array.limits().size,
        }
    }

    async fn request(&self, offset: u64, memory: Slice, write: bool) {
        let done = match self {
            Target::Bare { io, members, size } => {
                let (member, offset) = (members[(offset >> size.ilog2()) as usize], offset & (size - 1));
                let mut group = io.group();
                if write {
                    group.write(member, offset, &memory, false);
                } else {
                    group.read(member, offset, &memory);
                }
                group.submit().await.is_ok()
            }
            Target::Array(array) if write => array.write(offset, memory, false).await.is_ok(),
            Target::Array(array) => array.read(offset, memory).await.is_ok(),
        };
        assert!(done, "members in memory do not fail");
    }

    /// Nanoseconds of this thread's time for each of `count` requests, `depth` of them in flight.
    pub(crate) fn run(&self, io: &Io, pool: &Pool, request: Request, depth: usize, count: usize) -> f64 {
        let places = self.size() / request.len as u64;
        let ahead = Rc::new(Cell::new(0));
        let rounds = count.div_ceil(depth);
        let began = processor_time();
        io.block_on(async {
            let one = if request.together { Some(pool.alloc(request.len).await) } else { None };
            let slots = (0..depth).map(|slot| {
                let (target, pool, ahead) = (self.clone(), pool.clone(), Rc::clone(&ahead));
                let one = one.clone();
                io.spawn(async move {
                    let buf = match one {
                        Some(one) => one,
                        None => pool.alloc(request.len).await,
                    };
                    let mut state = slot as u64 + 1;
                    for _ in 0..rounds {
                        let place = if request.sequential {
                            ahead.replace((ahead.get() + 1) % places)
                        } else {
                            next(&mut state, places)
                        };
                        target.request(place * request.len as u64, buf.all(), request.write).await;
                    }
                })
            });
            join_all(slots.collect::<Vec<_>>()).await;
        });
        (processor_time() - began) / (rounds * depth) as f64
    }

    /// Number of requests that take `nanoseconds`; running them warms up caches and tables.
    pub(crate) fn enough(
        &self,
        io: &Io,
        pool: &Pool,
        request: Request,
        depth: usize,
        nanoseconds: f64,
    ) -> usize {
        let mut count = depth;
        loop {
            let each = self.run(io, pool, request, depth, count);
            if each * count as f64 >= nanoseconds / 4.0 {
                return (nanoseconds / each) as usize + 1;
            }
            count *= 2;
        }
    }
}

/// Nanoseconds of a request in each turn of either target; `seconds` for all turns.
pub(crate) fn take_turns(
    io: &Io,
    pool: &Pool,
    request: Request,
    depth: usize,
    targets: [&Target; 2],
    seconds: f64,
) -> [Vec<f64>; 2] {
    let turn = seconds * 1e9 / (2 * TURNS) as f64;
    let counts = targets.map(|target| target.enough(io, pool, request, depth, turn));
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for ((target, count), times) in targets.iter().zip(counts).zip(&mut times) {
            times.push(target.run(io, pool, request, depth, count));
        }
    }
    times
}
