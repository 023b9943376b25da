//! How long clients' writes take while a member is rebuilt: modelled drives in virtual time, so that the figures depend on no
//! machine.
//!
//! `cargo run --profile bench -p brindle-array --example recovery_latency [--markdown]`
//!
//! Clients write 4 KiB at random places, each with a pause between two; first without a member, then while it is rebuilt. The
//! recovery is held to a pace, so that both take as long whatever locks cost it.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::rc::Rc;

use brindle_array::{Array, Device, Speeds};
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io, MemberId};
use brindle_layout::{Geometry, Layout, Level};
use brindle_testkit::random::Random;
use brindle_testkit::world::unguarded;
use brindle_volume::Volume;

/// Bytes of each member, and of a second that are rebuilt.
const MEMBER: u64 = 32 << 20;
const PACE: u64 = 16 << 20;
const CHUNK: u64 = 64 << 10;
/// Clients, bytes of a write, and nanoseconds between two writes of one client at most.
const CLIENTS: u64 = 32;
const SMALL: usize = 4 << 10;
const PAUSE: u64 = 4_000_000;

/// Writes of all clients: how long each took, in nanoseconds.
#[derive(Default)]
struct Writes {
    took: RefCell<Vec<u64>>,
    end: Cell<bool>,
}

impl Writes {
    /// One client.
    async fn write(self: Rc<Self>, io: Io, array: Array, seed: u64) {
        let places = array.limits().size / SMALL as u64;
        let (buf, mut random) = (io.pool(SMALL).alloc(SMALL).await, Random::stream(7, seed));
        while !self.end.get() {
            io.sleep(Duration::from_nanos(random.below(PAUSE))).await;
            let (offset, began) = (random.below(places) * SMALL as u64, io.now());
            array.write(offset, buf.all(), false).await.expect("drives that are well");
            self.took.borrow_mut().push(io.now().since(began).as_nanos() as u64);
        }
    }

    /// Runs all clients for as long as `meanwhile` takes.
    async fn beside(io: &Io, array: &Array, meanwhile: impl Future<Output = ()>) -> Vec<u64> {
        let writes = Rc::new(Self::default());
        let client = |seed| io.spawn(Rc::clone(&writes).write(io.clone(), array.clone(), seed));
        let clients: Vec<_> = (1..=CLIENTS).map(client).collect();
        meanwhile.await;
        writes.end.set(true);
        join_all(clients).await;
        let mut took = writes.took.take();
        took.sort_unstable();
        took
    }
}

fn main() {
    let markdown = std::env::args().any(|arg| arg == "--markdown");
    if markdown {
        println!("| array | clients' 4K writes | writes | median us | p99 us | p99.9 us | longest us |");
        println!("|---|---|---:|---:|---:|---:|---:|");
    }
    for (name, level, members) in [("RAID 6 x8", Level::Raid6, 8), ("RAID 10 x4", Level::Raid10, 4)] {
        for (when, took) in measured(level, members) {
            let at = |per_mille: usize| took[(took.len() - 1) * per_mille / 1000] / 1000;
            let (count, longest) = (took.len(), took[took.len() - 1] / 1000);
            let figures = [at(500), at(990), at(999), longest];
            let [median, p99, p999, longest] = figures;
            if markdown {
                println!("| {name} | {when} | {count} | {median} | {p99} | {p999} | {longest} |");
            } else {
                println!(
                    "{name:<11}{when:<22}{count:>7} writes  median {median:>5} us  p99 {p99:>5}  p99.9 {p999:>5}  longest {longest:>5}"
                );
            }
        }
    }
}

/// Sorted times of writes to an array that lacks a member, and of writes while that is rebuilt.
fn measured(level: Level, members: usize) -> [(&'static str, Vec<u64>); 2] {
    let sim = Sim::new(7);
    let drive = |_| sim.add_blank_drive(Model::sata_ssd(), MEMBER);
    let ids: Vec<MemberId> = (0..=members).map(drive).collect();
    let io = Io::new(Box::new(sim));
    let geometry = Geometry::new(level, Layout::default_for(level), CHUNK, &vec![MEMBER; members]);
    let device = |(role, &id)| (role > 0).then_some(Device { id, data_offset: 0 });
    let devices = ids[..members].iter().enumerate().map(device).collect();
    let array = unguarded(&io, geometry.expect("the shape is possible"), devices);
    let pace = NonZeroU64::new(PACE);
    array.set_speeds(Speeds { pace, floor: pace });
    let spare = Device { id: ids[members], data_offset: 0 };
    let both = io.block_on(async {
        let alone = Writes::beside(&io, &array, io.sleep(Duration::from_secs(MEMBER / PACE))).await;
        let rebuilt = async { array.recover(0, spare, |_| ()).await.expect("drives that are well") };
        [("one member missing", alone), ("while it is rebuilt", Writes::beside(&io, &array, rebuilt).await)]
    });
    io.shutdown();
    both
}
