//! Members that can't read, refuse to write, or vanish, at every moment of a run of writes.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::{Array, Device, RoleState, SyncMode};
use brindle_io::OpError;
use brindle_layout::{Layout, Level, ParityLayout, Place, Raid10Layout};
use brindle_testkit::client::{Client, Trouble};
use brindle_testkit::load::{Load, Mix, Request};
use brindle_testkit::oracle::Oracle;
use brindle_testkit::shape::info;
use brindle_testkit::stamp::SECTOR;
use brindle_testkit::world::in_memory;
use brindle_volume::Volume;

use crate::world::{self, DATA_OFFSET, Random, Running};

const CHUNK: u64 = 8192;
const ROWS: u64 = 6;

type Shape = (Level, Layout, usize);

/// The fault of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Vanishes,
    RefusesWrites,
}

/// An array, a client of it, and what its sectors may hold.
struct Struck {
    run: Running,
    client: Client<Array>,
    oracle: Rc<RefCell<Oracle>>,
}

/// An array whose members fail as told: after how many operations, which, how.
fn struck((level, layout, members): Shape, faults: &[(u64, usize, Fault)]) -> Struck {
    let run = world::start(level, layout, CHUNK, members, ROWS * CHUNK);
    for &(after, role, fault) in faults {
        run.bench.strike_after(after, run.ids[role], fault == Fault::RefusesWrites);
    }
    let oracle = run.oracle();
    let client = run.client(&oracle);
    Struck { run, client, oracle }
}

/// The same requests every time: all of the array, then small ones, across chunks, and full rows.
fn requests(size: u64) -> Vec<Request> {
    let mix = Mix { reads: 0, writes: 4, zeroes: 1, flushes: 1, most: 20 << 10, ..Mix::default() };
    let mut load = Load::new(Random::new(77), size, mix);
    let offset = size / 3 / (16 << 10) * (16 << 10);
    let rows = Request::Write { offset, len: (48 << 10).min(size - offset), fua: false };
    let all = Request::Write { offset: 0, len: size, fua: false };
    [all].into_iter().chain((0..8).map(|_| load.next_request())).chain([rows]).collect()
}

impl Struck {
    /// Does all requests; gives those that were not done as they should have been.
    async fn write_through(&self) -> Vec<Trouble> {
        let mut troubles = Vec::new();
        for request in requests(self.run.size()) {
            troubles.extend(self.client.ask(request).await.err());
        }
        troubles
    }

    /// Reads every sector: what may be there, or an error; gives the sectors that are an error.
    async fn unreadable(&self, who: &str) -> Vec<u64> {
        let mut errors = Vec::new();
        for offset in (0..self.run.size()).step_by(SECTOR) {
            match self.client.ask(Request::Read { offset, len: SECTOR as u64 }).await {
                Ok(()) => {}
                Err(Trouble::Refused(..)) => errors.push(offset),
                Err(wrong) => panic!("{who}: {wrong}"),
            }
        }
        errors
    }

    /// Bytes of the array that a member holds as they are.
    fn held_by(&self, role: u16) -> impl Iterator<Item = u64> + '_ {
        let geometry = self.run.array.geometry();
        (0..geometry.member_size()).step_by(SECTOR).filter_map(move |at| match geometry.place(role, at) {
            Place::Data { array_offset, .. } => Some(array_offset),
            _ => None,
        })
    }
}

fn raid5() -> Shape {
    (Level::Raid5, Layout::Parity(ParityLayout::LeftSymmetric), 4)
}

fn raid6() -> Shape {
    (Level::Raid6, Layout::Parity(ParityLayout::LeftSymmetric), 5)
}

fn mirrors() -> [Shape; 2] {
    [(Level::Raid1, Layout::None, 2), (Level::Raid10, Layout::Raid10(Raid10Layout::near(2)), 5)]
}

/// Operations of all members in a run in which nothing goes wrong.
fn operations(shape: Shape) -> u64 {
    let calm = struck(shape, &[]);
    let counts = calm.run.counted(async |_| assert_eq!(calm.write_through().await, []));
    counts.into_iter().map(|(reads, writes)| reads + writes).sum()
}

/// Nothing fails, and all is there.
fn bears(shape: Shape, faults: &[(u64, usize, Fault)]) {
    let struck = struck(shape, faults);
    struck.run.run(async |_| {
        assert_eq!(struck.write_through().await, [], "{shape:?} {faults:?}");
        assert_eq!(struck.client.read_all().await, Ok(()), "{shape:?} {faults:?}");
    });
}

#[test]
fn no_write_fails_and_none_is_lost_while_redundancy_suffices() {
    let shapes = [raid5(), raid6()].into_iter().chain(mirrors());
    for shape in shapes {
        let last = operations(shape);
        for fault in [Fault::Vanishes, Fault::RefusesWrites] {
            (0..last).for_each(|at| bears(shape, &[(at, at as usize % shape.2, fault)]));
        }
    }
}

#[test]
fn raid_6_survives_two_members_that_fail_at_any_moment() {
    let last = operations(raid6());
    for at in 0..last {
        for gap in [0, 1, 2, 5] {
            let (first, second) = (at as usize % 5, (at as usize + 1 + gap as usize) % 5);
            if first != second {
                bears(raid6(), &[(at, first, Fault::RefusesWrites), (at + gap, second, Fault::Vanishes)]);
            }
        }
    }
}

/// Sectors of members to which nothing happened are read, whatever became of the others; and beside those many more are.
#[test]
fn beyond_tolerance_there_are_errors_but_never_wrong_bytes() {
    for (shape, count) in [(raid5(), 2), (raid6(), 3), (mirrors()[0], 2), (mirrors()[1], 3)] {
        let last = operations(shape);
        for fault in [Fault::Vanishes, Fault::RefusesWrites] {
            let (mut answered, mut all, mut done) = (0, 0, 0);
            for at in 0..last {
                let first = at as usize % shape.2;
                let faults: Vec<_> =
                    (0..count).map(|n| (at + n as u64 * (at % 3), (first + n) % shape.2, fault)).collect();
                let who = format!("{shape:?} {faults:?}");
                let struck = struck(shape, &faults);
                struck.oracle.borrow_mut().upset();
                struck.run.run(async |run| {
                    let refused = struck.write_through().await;
                    assert!(refused.iter().all(|trouble| matches!(trouble, Trouble::Refused(..))), "{who}");
                    let errors = struck.unreadable(&who).await;
                    let well = (0..shape.2 as u16).filter(|&r| !faults.iter().any(|f| f.1 == usize::from(r)));
                    for role in well {
                        let lost = struck.held_by(role).find(|at| errors.contains(at));
                        assert_eq!(lost, None, "{who}: held by role {role}, to which nothing happened");
                    }
                    let sectors = run.size() as usize / SECTOR;
                    (answered, all) = (answered + sectors - errors.len(), all + sectors);
                    done += usize::from(refused.len() < requests(run.size()).len());
                });
            }
            // Where all members vanish there is nothing to read.
            let some = fault == Fault::RefusesWrites || count < shape.2;
            assert!(
                !some || answered * 3 > all,
                "{shape:?} {fault:?}: {answered} sectors of {all} were read"
            );
            assert!(done * 3 > last as usize, "{shape:?} {fault:?}: {done} runs of {last} did anything");
        }
    }
}

/// An array that is full of what `pattern` gives.
fn filled((level, layout, members): Shape) -> (Running, Vec<u8>) {
    let run = world::start(level, layout, CHUNK, members, ROWS * CHUNK);
    let content = world::pattern(3, run.size() as usize);
    run.run(async |run| run.write_all(&content).await).unwrap();
    (run, content)
}

#[test]
fn bad_ranges_are_mended_in_place() {
    for shape in [raid5(), raid6()].into_iter().chain(mirrors()) {
        let (world, content) = filled(shape);
        // One bad place in each row, on a member after the other.
        for row in 0..ROWS {
            let member = world.ids[row as usize % shape.2];
            world.bench.spoil(member, DATA_OFFSET + row * CHUNK + 512 * row, 512);
        }
        let seen = world.run(async |w| w.read_all().await).unwrap();
        assert!(seen == content, "{shape:?}");
        let report = world.run(async |w| w.scrub(SyncMode::Check).await).unwrap();
        assert_eq!(report.mismatch_sectors, 0);
        for (role, &id) in (0..).zip(&world.ids) {
            assert_eq!(world.array.state(role), RoleState::InSync);
            assert!(world.readable(id, DATA_OFFSET, (ROWS * CHUNK) as usize), "{shape:?} member {role}");
        }
    }
}

#[test]
fn what_can_be_read_beside_a_bad_place_is_left_as_it_is() {
    let level = [(Level::Raid5, 4), (Level::Raid6, 5)];
    let parity = level.map(|(level, members)| (level, Layout::Parity(ParityLayout::LeftSymmetric), members));
    for shape in parity.into_iter().chain(mirrors()) {
        for bad in 0..shape.2 {
            let world = world::start(shape.0, shape.1, 65536, shape.2, 1 << 20);
            let content = world::pattern(3, world.size() as usize);
            world.run(async |run| run.write_all(&content).await).unwrap();
            // Nearby, all others hold something else than they should: what they give is not what stood there.
            for other in (0..shape.2).filter(|&other| other != bad) {
                let at = DATA_OFFSET + 30000 + other as u64;
                let mut byte = [0];
                world.bench.peek(world.ids[other], at, &mut byte);
                world.bench.poke(world.ids[other], at, &[byte[0] ^ 1]);
            }
            let holds = || {
                let mut bytes = vec![0; 8192];
                world.bench.peek(world.ids[bad], DATA_OFFSET + (24 << 10), &mut bytes);
                bytes
            };
            let before = holds();
            for at in [22 << 10, 33 << 10] {
                world.bench.spoil(world.ids[bad], DATA_OFFSET + at, 512);
            }
            let report = world.run(async |w| w.scrub(SyncMode::Check).await).unwrap();
            assert!(report.mended > 0, "{shape:?} member {bad}: {report:?}");
            assert!(world.readable(world.ids[bad], DATA_OFFSET, 65536), "{shape:?} member {bad}");
            assert!(holds() == before, "{shape:?} member {bad}");
        }
    }
}

#[test]
fn writes_over_bad_ranges_mend_what_they_need() {
    for shape in [raid5(), raid6()] {
        for member in 0..shape.2 {
            let (world, mut content) = filled(shape);
            for row in 0..ROWS {
                world.bench.spoil(world.ids[member], DATA_OFFSET + row * CHUNK + 1024, 2048);
            }
            for start in (0..content.len() - 4096).step_by(6 << 10) {
                let bytes = world::pattern(start as u64, 3072);
                world.run(async |w| w.write(start as u64, &bytes).await).unwrap();
                content[start..start + 3072].copy_from_slice(&bytes);
            }
            assert!(world.run(async |w| w.read_all().await).unwrap() == content, "{shape:?} member {member}");
            for lost in 0..shape.2 as u16 {
                let degraded = world.without(&[lost]);
                assert!(degraded.run(async |w| w.read_all().await).unwrap() == content);
            }
        }
    }
}

#[test]
fn a_bad_range_without_redundancy_is_an_error_and_the_rest_is_read() {
    let (whole, content) = filled(raid5());
    let run = whole.without(&[1]);
    run.bench.spoil(run.ids[0], DATA_OFFSET + 512, 512);
    let mut errors = 0;
    for at in (0..content.len()).step_by(512) {
        match run.run(async |run| run.read(at as u64, 512).await) {
            Ok(sector) => assert!(sector == content[at..at + 512], "sector at {at}"),
            Err(_) => errors += 1,
        }
    }
    assert!((1..=2).contains(&errors), "the bad sector and what is rebuilt from it: {errors}");
    assert_eq!(run.array.state(0), RoleState::InSync);
}

/// A member that knows no flush, beside one that fails to.
#[test]
fn a_member_without_flush_does_not_go_with_one_that_fails_to_flush() {
    for (shape, tolerated) in
        [(raid5(), true), (mirrors()[0], true), ((Level::Raid0, Layout::None, 2), false)]
    {
        let world = struck(shape, &[]).run;
        let served = |error: OpError| {
            let served = world.io.serve_member(info(1 << 20));
            let member = served.member();
            drop(world.io.spawn(async move {
                loop {
                    let request = served.next().await;
                    request.complete(Err(error));
                }
            }));
            member
        };
        let (without, failing) = (served(OpError::Unsupported), served(OpError::Medium(5)));
        let ids = [vec![without, failing], world.ids[2..].to_vec()].concat();
        let devices = ids.iter().map(|&id| Some(Device { id, data_offset: DATA_OFFSET })).collect();
        let array = in_memory(&world.io, world.array.geometry().clone(), devices);
        let result = world.io.block_on(array.flush());
        assert_eq!(result.is_ok(), tolerated, "{shape:?}: {result:?}");
        assert_eq!(array.state(0), RoleState::InSync);
        assert_eq!(array.state(1) == RoleState::Failed, tolerated);
        drop(array);
    }
}
