//! Requests to arrays, in memory and in the sim, and to the bare reactor.

use std::rc::Rc;

use brindle_array::{Array, Device, Volume};
use brindle_io::memory::Memory;
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Io, MemberId, Slice};
use brindle_layout::{Geometry, Layout, Level, ParityLayout, Raid10Layout};

use crate::{HotPath, Run, made, next};

/// Bytes of each null member: so many that requests seldom meet.
const MEMBER: u64 = 1 << 38;
const CHUNK: u64 = 64 << 10;
const SMALL: u64 = 4 << 10;
/// Members of arrays of which a small write must cost the same.
const WIDTHS: [usize; 2] = [10, 100];
/// Requests in flight.
const DEPTH: usize = 32;
const MANY: usize = 1024;
/// Requests in flight where a request is to cost no more for there being many.
const DEEP: usize = 2048;
/// Repetitions of requests that compute much.
const FEW: usize = 128;

/// An array to be counted.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    level: Level,
    layout: Layout,
    members: usize,
    /// Bytes of a full stripe's data; of RAID 1, of a chunk.
    row: u64,
    /// The role that is lost where the array is degraded, if it can be.
    lost: Option<u16>,
    /// Bytes from one chunk of that role to another: the first chunk of the array is one.
    cycle: u64,
}

/// RAID 0 over four members.
pub(crate) const STRIPED: Shape = Shape {
    name: "RAID 0 x4",
    level: Level::Raid0,
    layout: Layout::None,
    members: 4,
    row: 4 * CHUNK,
    lost: None,
    cycle: 0,
};

fn shapes() -> [Shape; 5] {
    let parity = Shape { layout: Layout::Parity(ParityLayout::LeftSymmetric), ..STRIPED };
    [
        STRIPED,
        Shape {
            name: "RAID 1 x2",
            level: Level::Raid1,
            members: 2,
            row: CHUNK,
            lost: Some(0),
            cycle: CHUNK,
            ..STRIPED
        },
        Shape {
            name: "RAID 10 x4",
            level: Level::Raid10,
            layout: Layout::Raid10(Raid10Layout::near(2)),
            row: 2 * CHUNK,
            lost: Some(0),
            cycle: 2 * CHUNK,
            ..STRIPED
        },
        // Of a left-symmetric layout's first row, the last role has P and the first one Q: data begin after them.
        Shape {
            name: "RAID 5 x4",
            level: Level::Raid5,
            row: 3 * CHUNK,
            lost: Some(0),
            cycle: 4 * 3 * CHUNK,
            ..parity
        },
        Shape {
            name: "RAID 6 x6",
            level: Level::Raid6,
            members: 6,
            row: 4 * CHUNK,
            lost: Some(1),
            cycle: 6 * 4 * CHUNK,
            ..parity
        },
    ]
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Flush,
}

/// A request to a target, repeated.
#[derive(Clone, Copy)]
struct Request {
    kind: Kind,
    /// Bytes.
    len: u64,
    /// Requests lie in the first `within` bytes of each `cycle` bytes.
    within: u64,
    cycle: u64,
    /// Requests in flight.
    depth: usize,
}

impl Request {
    /// Anywhere.
    fn new(kind: Kind, len: u64, depth: usize) -> Self {
        Self { kind, len, within: len, cycle: len, depth }
    }
}

/// The target of the requests.
enum Target {
    Bare { io: Io, member: MemberId },
    Array(Array),
}

impl Target {
    fn size(&self) -> u64 {
        match self {
            Target::Bare { .. } => MEMBER,
            Target::Array(array) => array.limits().size,
        }
    }

    async fn request(&self, kind: Kind, offset: u64, memory: Slice) {
        let done = match (self, kind) {
            (Target::Bare { io, member }, kind) => {
                let mut group = io.group();
                match kind {
                    Kind::Read => group.read(*member, offset, &memory),
                    Kind::Write => group.write(*member, offset, &memory, false),
                    Kind::Flush => group.flush(*member),
                };
                group.submit().await.is_ok()
            }
            (Target::Array(array), Kind::Read) => array.read(offset, memory).await.is_ok(),
            (Target::Array(array), Kind::Write) => array.write(offset, memory, false).await.is_ok(),
            (Target::Array(array), Kind::Flush) => array.flush().await.is_ok(),
        };
        assert!(done, "members in memory do not fail");
    }
}

/// The reactor without an array.
pub(crate) fn bare() -> Vec<HotPath> {
    let path = |name: &str, kind, depth| HotPath {
        name: format!("bare reactor, {name}"),
        count: MANY,
        world: Box::new(move || {
            let memory = Memory::new();
            let member = memory.add_null(MEMBER);
            let io = Io::new(Box::new(memory));
            run(io.clone(), Target::Bare { io, member }, Request::new(kind, SMALL, depth))
        }),
    };
    vec![
        path("4K read", Kind::Read, DEPTH),
        path("4K write", Kind::Write, DEPTH),
        path("4K read, one at a time", Kind::Read, 1),
    ]
}

/// All requests to all arrays.
pub(crate) fn paths() -> Vec<HotPath> {
    shapes().into_iter().flat_map(requests).chain(wide()).collect()
}

/// A small write to arrays of few members and of many: it reads and writes three of them.
fn wide() -> impl Iterator<Item = HotPath> {
    let raid6 =
        |members| shapes().into_iter().find(|s| s.level == Level::Raid6).map(|s| Shape { members, ..s });
    let path = move |members| {
        let shape = raid6(members)?;
        Some(HotPath {
            name: format!("RAID 6 x{members}, 4K write of a few columns"),
            count: MANY,
            world: Box::new(move || {
                let (io, array) = array(&Memory::new(), shape, None);
                run(io, Target::Array(array), Request::new(Kind::Write, SMALL, DEPTH))
            }),
        })
    };
    WIDTHS.into_iter().filter_map(path)
}

fn requests(shape: Shape) -> Vec<HotPath> {
    let row = shape.row >> 10;
    let path = |what: String, count, lost, request| HotPath {
        name: format!("{}, {what}", shape.name),
        count,
        world: Box::new(move || {
            let (io, array) = array(&Memory::new(), shape, lost);
            run(io, Target::Array(array), request)
        }),
    };
    let small = |kind| Request::new(kind, SMALL, DEPTH);
    let large = |kind| Request::new(kind, shape.row, DEPTH);
    let deep = Request::new(Kind::Write, SMALL, DEEP);
    let mut paths = vec![
        path("4K read".into(), MANY, None, small(Kind::Read)),
        path("4K write".into(), MANY, None, small(Kind::Write)),
        path(format!("4K write, {DEEP} in flight"), 2 * DEEP, None, deep),
        path(format!("{row}K read"), FEW, None, large(Kind::Read)),
        path(format!("{row}K write"), FEW, None, large(Kind::Write)),
        path("flush".into(), MANY, None, Request::new(Kind::Flush, SMALL, 1)),
    ];
    if shape.lost.is_some() {
        let of_lost = Request { within: CHUNK, cycle: shape.cycle, ..small(Kind::Read) };
        paths.push(path("4K read of the lost member".into(), MANY, shape.lost, of_lost));
    }
    paths
}

/// 4K writes to arrays of twelve drives that only take their time, few and many in flight. The model of the drives is
/// counted with the array: RAID 0 tells what it takes.
pub(crate) fn sim_paths() -> Vec<HotPath> {
    let levels = [("RAID 0 x12", Level::Raid0), ("RAID 10 x12", Level::Raid10), ("RAID 6 x12", Level::Raid6)];
    let depths = [(DEPTH, String::new()), (DEEP, format!(", {DEEP} in flight"))];
    let each = shapes().into_iter().filter_map(|shape| {
        let (name, _) = levels.into_iter().find(|&(_, level)| level == shape.level)?;
        Some(Shape { name, members: 12, ..shape })
    });
    each.flat_map(|shape| {
        depths.clone().map(|(depth, deep)| HotPath {
            name: format!("{} in the sim, 4K write{deep}", shape.name),
            count: 2 * DEEP,
            world: Box::new(move || {
                let sim = Sim::new(1);
                let ids = (0..shape.members).map(|_| sim.add_hollow_drive(Model::nvme(), MEMBER));
                let devices = ids.map(|id| Some(Device { id, data_offset: 0 })).collect();
                let io = Io::new(Box::new(sim));
                let array = array_of(&io, shape, devices);
                run(io, Target::Array(array), Request::new(Kind::Write, SMALL, depth))
            }),
        })
    })
    .collect()
}

/// An array on null members of `memory`, without the role `lost`.
pub(crate) fn array(memory: &Memory, shape: Shape, lost: Option<u16>) -> (Io, Array) {
    let device = |role| {
        let id = memory.add_null(MEMBER);
        (lost != Some(role)).then_some(Device { id, data_offset: 0 })
    };
    let devices = (0..shape.members as u16).map(device).collect();
    let io = Io::new(Box::new(memory.clone()));
    let array = array_of(&io, shape, devices);
    (io, array)
}

fn array_of(io: &Io, shape: Shape, devices: Vec<Option<Device>>) -> Array {
    let geometry = Geometry::new(shape.level, shape.layout, CHUNK, &vec![MEMBER; shape.members])
        .expect("the table's shapes are possible");
    made::array(io, geometry, devices)
}

/// Slots that each do one request after the other, as those of an export.
fn run(io: Io, target: Target, request: Request) -> Run {
    let pool = io.pool(request.depth * request.len as usize);
    let cycles = target.size() / request.cycle;
    let target = Rc::new(target);
    Box::new(move |count| {
        let rounds = count / request.depth;
        io.block_on(async {
            let slots = (0..request.depth).map(|slot| {
                let (target, pool) = (Rc::clone(&target), pool.clone());
                io.spawn(async move {
                    let buf = pool.alloc(request.len as usize).await;
                    let (memory, mut state) = (buf.all(), slot as u64 + 1);
                    for _ in 0..rounds {
                        let cycle = next(&mut state, cycles) * request.cycle;
                        let within = next(&mut state, request.within / request.len) * request.len;
                        target.request(request.kind, cycle + within, memory.clone()).await;
                    }
                })
            });
            join_all(slots.collect::<Vec<_>>()).await;
        });
        rounds * request.depth
    })
}
