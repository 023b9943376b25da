//! A disk more, beside a rebuild of the same drives: modelled drives of their whole size in virtual time, so that the figures depend on no
//! machine.
//!
//! `cargo run --profile bench -p brindle-lab --example grow_figures`

// `line` and `head` are as of pools.
#[path = "pool_figures/table.rs"]
mod table;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_array::{Access, Array, Device, GrowSpec, OpenConfig};
use brindle_format::md::Version;
use brindle_io::sim::Sim;
use brindle_io::sync::join_all;
use brindle_io::{Duration, Instant, Io, MemberId};
use brindle_lab::drive::{Drive, parse, shipped};
use brindle_layout::{Geometry, Layout, Level};
use brindle_md::create::CreateSpec;
use brindle_testkit::random::Random;
use brindle_testkit::shape::{new_member, planned, spec};
use brindle_testkit::world::{World, clock, unguarded};
use brindle_volume::Volume;

use table::{Limit, head, line};

/// mdadm's own.
const CHUNK: u64 = 512 << 10;
/// Bytes of a client's request.
const SMALL: usize = 4 << 10;
/// Bytes of each drive that keep what is written to them: superblocks stand there.
const KEPT: u64 = 1 << 20;

/// An array that gets a member more, and the load of its clients.
struct Case {
    drive: &'static str,
    level: Level,
    members: usize,
    /// Seconds of virtual time without clients, and with them.
    alone: u64,
    beside: u64,
    clients: u64,
    /// Nanoseconds between two requests of one client at most.
    pause: u64,
    /// Least rate of a member, of a rebuild's.
    least: f64,
}

const CASES: [Case; 2] = [
    Case {
        drive: "hdd-24tb",
        level: Level::Raid5,
        members: 4,
        alone: 40,
        beside: 240,
        clients: 8,
        pause: 400_000_000,
        least: 0.35,
    },
    Case {
        drive: "sata-ssd",
        level: Level::Raid6,
        members: 8,
        alone: 10,
        beside: 10,
        clients: 32,
        pause: 8_000_000,
        least: 0.5,
    },
];

/// The process whose figures are taken.
#[derive(Clone, Copy)]
enum Work {
    Rebuild,
    Grow,
}

/// An array with such a process under way, in a world of its own.
struct Stage {
    io: Io,
    array: Array,
    seen: Rc<Seen>,
    /// Bytes of the process to one of a member.
    parts: u64,
    /// It ends all tasks when it is dropped.
    _world: Option<World<Sim>>,
}

/// How far the process was, and when.
#[derive(Default)]
struct Seen(RefCell<Vec<(Instant, u64)>>);

impl Seen {
    fn note(&self, io: &Io, position: u64) {
        self.0.borrow_mut().push((io.now(), position));
    }

    /// Bytes a second, from the first window's end to the last one's, and windows to a TiB.
    fn rate(&self) -> (f64, f64) {
        let seen = self.0.borrow();
        let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return (0.0, 0.0) };
        let bytes = (last.1 - first.1) as f64;
        (bytes / last.0.since(first.0).as_secs_f64(), (seen.len() - 1) as f64 / bytes * (1u64 << 40) as f64)
    }
}

/// Times of clients' requests, in nanoseconds.
#[derive(Default)]
struct Clients {
    took: RefCell<Vec<u64>>,
    end: Cell<bool>,
}

impl Clients {
    /// One client, which reads and writes by turns at random places.
    async fn run(self: Rc<Self>, io: Io, array: Array, seed: u64, pause: u64) {
        let places = array.limits().size / SMALL as u64;
        let (buf, mut random) = (io.pool(SMALL).alloc(SMALL).await, Random::stream(7, seed));
        for turn in 0_u64.. {
            io.sleep(Duration::from_nanos(random.below(pause))).await;
            if self.end.get() {
                return;
            }
            let (offset, began) = (random.below(places) * SMALL as u64, io.now());
            let done = match turn % 2 {
                0 => array.read(offset, buf.all()).await,
                _ => array.write(offset, buf.all(), false).await,
            };
            done.expect("drives that are well");
            self.took.borrow_mut().push(io.now().since(began).as_nanos() as u64);
        }
    }
}

impl Case {
    fn drive(&self) -> Drive {
        let text = shipped(self.drive).expect("a model that ships");
        parse(self.drive, text).expect("a model that can be read")
    }

    /// So many drives in a new world.
    fn drives(&self, count: usize) -> (Sim, Vec<MemberId>, u64) {
        let (sim, drive) = (Sim::new(7), self.drive());
        let add = |_| {
            let id = sim.add_measured_drive(&drive.stations, drive.size);
            sim.keep_beginning(id, KEPT);
            id
        };
        let ids = (0..count).map(add).collect();
        (sim, ids, drive.size)
    }

    fn stage(&self, work: Work) -> Stage {
        match work {
            Work::Rebuild => self.rebuilt(),
            Work::Grow => self.grown(),
        }
    }

    /// The array as it is before it grows, with a member that is rebuilt.
    fn rebuilt(&self) -> Stage {
        let (sim, ids, size) = self.drives(self.members + 1);
        let io = Io::new(Box::new(sim));
        let (data_offset, layout) = (128 << 20, Layout::default_for(self.level));
        let used = (size - data_offset) / CHUNK * CHUNK;
        let geometry = Geometry::new(self.level, layout, CHUNK, &vec![used; self.members]);
        let device = |(role, &id)| (role > 0).then_some(Device { id, data_offset });
        let devices = ids[..self.members].iter().enumerate().map(device).collect();
        let array = unguarded(&io, geometry.expect("the shape is possible"), devices);
        let seen = Rc::<Seen>::default();
        let spare = Device { id: ids[self.members], data_offset };
        let process = {
            let (io, seen) = (io.clone(), Rc::clone(&seen));
            array.recover(0, spare, move |progress| seen.note(&io, progress.position))
        };
        // It ends with the world.
        drop(io.spawn(async move {
            process.await.expect("drives that are well");
        }));
        Stage { io, array, seen, parts: 1, _world: None }
    }

    /// The array while its data move.
    fn grown(&self) -> Stage {
        let (sim, ids, size) = self.drives(self.members + 1);
        let shape = CreateSpec {
            chunk: Some(CHUNK),
            roles: (0..self.members).map(|n| Some(new_member(n, size))).collect(),
            spares: vec![new_member(self.members, size)],
            ..spec(self.level, self.members, Version::V1_2)
        };
        for write in planned(&shape).writes() {
            sim.poke(ids[write.device], write.offset, &write.bytes);
        }
        let world = World::over(sim, ids, shape.version);
        let assembly = world.assembly().expect("a new array");
        let config = OpenConfig::new(Access::ReadWrite, clock);
        let array = world.try_open(assembly, config).expect("a new array");
        let (io, seen) = (world.io.clone(), Rc::<Seen>::default());
        let count = self.members as u16 + 1;
        io.block_on(array.grow(GrowSpec::Members { count, coming: 0 }))
            .expect("there is room before the data");
        let process = {
            let (io, seen) = (io.clone(), Rc::clone(&seen));
            array.reshape(move |progress| seen.note(&io, progress.position))
        };
        drop(io.spawn(async move {
            process.await.expect("drives that are well");
        }));
        Stage { io, array, seen, parts: self.data_members(), _world: Some(world) }
    }

    /// Bytes of a member a second, of a process without clients; windows to a TiB that it moves.
    fn rate(&self, work: Work) -> (f64, f64) {
        let Stage { io, array, seen, parts, _world } = self.stage(work);
        io.block_on(io.sleep(Duration::from_secs(self.alone)));
        let (rate, windows) = seen.rate();
        drop(array);
        io.shutdown();
        (rate / parts as f64, windows)
    }

    /// Sorted times of clients' requests beside a process, and its bytes of a member a second.
    fn beside(&self, work: Work) -> (Vec<u64>, f64) {
        let Stage { io, array, seen, parts, _world } = self.stage(work);
        let clients = Rc::<Clients>::default();
        let client = |seed| io.spawn(Rc::clone(&clients).run(io.clone(), array.clone(), seed, self.pause));
        let all: Vec<_> = (1..=self.clients).map(client).collect();
        io.block_on(async {
            io.sleep(Duration::from_secs(self.beside)).await;
            clients.end.set(true);
            join_all(all).await;
        });
        let mut took = clients.took.take();
        took.sort_unstable();
        let rate = seen.rate().0 / parts as f64;
        drop(array);
        io.shutdown();
        (took, rate)
    }

    fn name(&self) -> String {
        format!("{} of {} to {} {}", self.level, self.members, self.members + 1, self.drive)
    }

    /// Prints the figures that have a limit; gives the windows to a TiB.
    fn print(&self) -> f64 {
        let what = self.name();
        let ((rebuild, _), (grow, windows)) = (self.rate(Work::Rebuild), self.rate(Work::Grow));
        let why = format!("{:.0} MB of each member a second beside {:.0}", grow / 1e6, rebuild / 1e6);
        line(&format!("{what}: a rebuild's rate"), Limit::Least(self.least), grow / rebuild, "x", &why);
        let ((rebuilt, under_rebuild), (grown, under_grow)) =
            (self.beside(Work::Rebuild), self.beside(Work::Grow));
        let within = |took: &[u64], part: usize| took[(took.len() - 1) * part / 1000] as f64 / 1e6;
        let (before, after) = (within(&rebuilt, 999), within(&grown, 999));
        let why = format!(
            "{after:.1} ms beside {before:.1}; medians {:.1} and {:.1}; {} requests; meanwhile {:.0} MB of each member a second beside {:.0}",
            within(&grown, 500),
            within(&rebuilt, 500),
            grown.len(),
            under_grow / 1e6,
            under_rebuild / 1e6,
        );
        let what = format!("{what}: clients' 4K p99.9, of that under a rebuild");
        line(&what, Limit::Most(1.5), after / before, "x", &why);
        windows
    }

    /// Members of a row that hold data in the end.
    fn data_members(&self) -> u64 {
        let parity = if self.level == Level::Raid6 { 2 } else { 1 };
        self.members as u64 + 1 - parity
    }
}

fn main() {
    head("A disk more, beside a rebuild of a member of the same drives");
    let windows: Vec<f64> = CASES.iter().map(Case::print).collect();
    println!(
        "\n## Records\n\n| array | records for a TiB moved | MiB of a member between two |\n|---|---:|---:|"
    );
    for (case, windows) in CASES.iter().zip(windows) {
        let part = f64::from(1 << 20) / windows / case.data_members() as f64;
        println!("| {} | {windows:.0} | {part:.1} |", case.name());
    }
}
