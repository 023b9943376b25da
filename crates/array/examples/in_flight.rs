//! The cost of a 4K write by the number of writes in flight: nanoseconds of processor time, on null members and in
//! the sim with twelve drives (drive model included). Also the ratio of the cost at the greatest number to the cost
//! at 32.
//!
//! `cargo run --profile bench -p brindle-array --example in_flight [--markdown] [--only=ARRAY] [SECONDS]`
//!
//! Medians of [`shared::TURNS`] turns. The drives of the sim keep nothing: they only take their time.

#[allow(dead_code, reason = "other examples use the rest")]
mod requests;
mod shared;

use brindle_array::Device;
use brindle_io::memory::Memory;
use brindle_io::sim::{Model, Sim};
use brindle_io::{Io, MemberId};
use brindle_layout::{Geometry, Layout, Level, ParityLayout, Raid10Layout};
use brindle_testkit::world::unguarded;

use requests::{Request, Target};
use shared::{TURNS, arguments, median};

const DEPTHS: [usize; 5] = [8, 32, 128, 512, 2048];
/// Bytes of each member: so many that requests seldom meet.
const MEMBER: u64 = 1 << 38;
const CHUNK: u64 = 64 << 10;
const LEN: usize = 4 << 10;
/// Members in the sim.
const DRIVES: usize = 12;

/// A level, and how many null members it is given.
type Shape = (&'static str, Level, Layout, usize);

fn shapes() -> [Shape; 5] {
    let symmetric = Layout::Parity(ParityLayout::LeftSymmetric);
    [
        ("RAID 0", Level::Raid0, Layout::None, 4),
        ("RAID 1", Level::Raid1, Layout::None, 2),
        ("RAID 10", Level::Raid10, Layout::Raid10(Raid10Layout::near(2)), 4),
        ("RAID 5", Level::Raid5, symmetric, 4),
        ("RAID 6", Level::Raid6, symmetric, 6),
    ]
}

fn main() {
    let said = arguments("in_flight [--markdown] [--only=ARRAY] [SECONDS a row]", 2.0);
    if said.markdown {
        println!(
            "| array | members | 8 | 32 | 128 | 512 | 2048 | 2048 to 32 |\n|---|---|{}",
            "---:|".repeat(6)
        );
    }
    for shape in shapes() {
        // No one runs a mirror of twelve copies.
        let drives = if shape.1 == Level::Raid1 { 2 } else { DRIVES };
        for (members, sim) in [(shape.3, false), (drives, true)] {
            let (name, kind) = (format!("{} x{members}", shape.0), if sim { "in the sim" } else { "null" });
            if !name.starts_with(&said.only) {
                continue;
            }
            let each = DEPTHS.map(|depth| measure(shape, members, sim, depth, said.seconds));
            let growth = each[4] / each[1];
            let [a, b, c, d, e] = each.map(|nanoseconds| format!("{nanoseconds:.0}"));
            if said.markdown {
                println!("| {name} | {kind} | {a} | {b} | {c} | {d} | {e} | {growth:.2} |");
            } else {
                println!("{name:<12} {kind:<11} {a:>6} {b:>6} {c:>6} {d:>6} {e:>6} ns  {growth:>5.2} times");
            }
        }
    }
}

/// Nanoseconds a write.
fn measure((_, level, layout, _): Shape, members: usize, sim: bool, depth: usize, seconds: f64) -> f64 {
    let (io, ids): (Io, Vec<MemberId>) = if sim {
        let sim = Sim::new(1);
        let ids = (0..members).map(|_| sim.add_hollow_drive(Model::nvme(), MEMBER)).collect();
        (Io::new(Box::new(sim)), ids)
    } else {
        let memory = Memory::new();
        let ids = (0..members).map(|_| memory.add_null(MEMBER)).collect();
        (Io::new(Box::new(memory)), ids)
    };
    let geometry =
        Geometry::new(level, layout, CHUNK, &vec![MEMBER; members]).expect("the table's shapes are possible");
    let devices = ids.into_iter().map(|id| Some(Device { id, data_offset: 0 })).collect();
    let array = Target::Array(unguarded(&io, geometry, devices));
    let pool = io.pool(LEN);
    let request = Request { len: LEN, write: true, sequential: false, together: true };
    let turn = seconds * 1e9 / (DEPTHS.len() * TURNS) as f64;
    let count = array.enough(&io, &pool, request, depth, turn);
    median((0..TURNS).map(|_| array.run(&io, &pool, request, depth, count)).collect())
}
