//! How fast the sim is: operations of members for each second of processor time, of arrays of twelve modelled drives that
//! run the engine, and of the reactor without an array.
//!
//! `cargo run --profile bench -p brindle-array --example sim_speed [SECONDS [ROW]]`: the rows whose names hold that text.
//!
//! Requests of 4 KiB at random places, 384 in flight (32 for each drive) and 2048, all of the same memory. The drives keep nothing: they only
//! take their time. `scripts/bench-sim` runs this by turns with an older commit, in whose tree it has to build, too.

mod made;

use std::rc::Rc;

use brindle_array::{Array, Device};
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Io, MemberId, Slice};
use brindle_layout::{Geometry, Layout, Level, ParityLayout, Raid10Layout};
use made::Volume;
use rustix::time::{ClockId, clock_gettime};

const DRIVES: usize = 12;
const LEN: usize = 4 << 10;
/// Bytes of each drive: of what nobody keeps, there can be much.
const MEMBER: u64 = 1 << 38;
const CHUNK: u64 = 64 << 10;

/// The target of the requests.
enum Target {
    Array(Array),
    Bare(Io, Vec<MemberId>),
}

impl Target {
    fn size(&self) -> u64 {
        match self {
            Self::Array(array) => array.limits().size,
            Self::Bare(_, drives) => MEMBER * drives.len() as u64,
        }
    }

    async fn request(&self, offset: u64, memory: Slice, write: bool) {
        let done = match self {
            Self::Array(array) if write => array.write(offset, memory, false).await.is_ok(),
            Self::Array(array) => array.read(offset, memory).await.is_ok(),
            Self::Bare(io, drives) => {
                let (drive, offset) = (drives[(offset / MEMBER) as usize], offset % MEMBER);
                let mut group = io.group();
                if write {
                    group.write(drive, offset, &memory, false);
                } else {
                    group.read(drive, offset, &memory);
                }
                group.submit().await.is_ok()
            }
        };
        assert!(done, "these drives do not fail");
    }
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let wanted = std::env::args().nth(2).unwrap_or_default();
    let near = Layout::Raid10(Raid10Layout::near(2));
    let symmetric = Layout::Parity(ParityLayout::LeftSymmetric);
    let arrays = [
        ("no array", None),
        ("RAID 0", Some((Level::Raid0, Layout::None))),
        ("RAID 10", Some((Level::Raid10, near))),
        ("RAID 6", Some((Level::Raid6, symmetric))),
    ];
    for (name, shape) in arrays {
        for (write, kind) in [(false, "reads"), (true, "writes")] {
            for depth in [32 * DRIVES, 2048] {
                let row = format!("{name}, {kind}, {depth} in flight");
                if row.contains(&wanted) {
                    println!("{row}|{:.4}", measure(shape, write, depth, seconds) / 1e6);
                }
            }
        }
    }
}

/// Operations of drives for each second of processor time.
fn measure(shape: Option<(Level, Layout)>, write: bool, depth: usize, seconds: f64) -> f64 {
    let sim = Sim::new(1);
    let drives: Vec<_> = (0..DRIVES).map(|_| sim.add_hollow_drive(Model::nvme(), MEMBER)).collect();
    let io = Io::new(Box::new(sim.clone()));
    let target = Rc::new(match shape {
        None => Target::Bare(io.clone(), drives),
        Some((level, layout)) => {
            let geometry = Geometry::new(level, layout, CHUNK, &[MEMBER; DRIVES]).expect("a shape");
            let devices = drives.into_iter().map(|id| Some(Device { id, data_offset: 0 })).collect();
            Target::Array(made::array(&io, geometry, devices))
        }
    });
    let pool = io.pool(LEN);
    // As many as take long enough; the last run counts, what comes before it warms up.
    let mut rounds = 16;
    loop {
        let (took, operations) = run(&sim, &io, &pool, &target, (write, depth, rounds));
        if took >= seconds {
            return operations / took;
        }
        rounds = ((rounds as f64 * (1.2 * seconds / took).min(8.0)) as usize).max(rounds + 1);
    }
}

/// Seconds of this thread, and operations of drives.
fn run(
    sim: &Sim,
    io: &Io,
    pool: &brindle_io::Pool,
    target: &Rc<Target>,
    (write, depth, rounds): (bool, usize, usize),
) -> (f64, f64) {
    let places = target.size() / LEN as u64;
    let (began, before) = (processor_time(), sim.trace().1);
    io.block_on(async {
        let memory = pool.alloc(LEN).await;
        let slots = (0..depth).map(|slot| {
            let (target, memory) = (Rc::clone(target), memory.clone());
            io.spawn(async move {
                let mut state = slot as u64 + 1;
                for _ in 0..rounds {
                    // Knuth, MMIX; scaled rather than divided.
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let place = ((u128::from(state) * u128::from(places)) >> 64) as u64;
                    target.request(place * LEN as u64, memory.all(), write).await;
                }
            })
        });
        join_all(slots.collect::<Vec<_>>()).await;
    });
    // Each is noted when it comes and when it is done.
    (processor_time() - began, (sim.trace().1 - before) as f64 / 2.0)
}

fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
