//! The power goes at every step of small runs. Runs record a drive's failure, write superblocks of every version and
//! size of table, repair an array, and rebuild, replace, re-add or flag a member. The power goes again while the
//! first cut is being recovered from.

use brindle_array::SyncMode;
use brindle_format::md::{Endian, Version};
use brindle_layout::Level;
use brindle_testkit::faults::Fault;
use brindle_testkit::shape::Shape;
use brindle_testkit::skip::is_long;
use brindle_testkit::storm::{Condition, Course, Planned, StormPlan, Strike, StrikeTally, Work, calm_steps};

/// Every redundant level, as small as it can be with something left to lose.
fn shapes() -> [Shape; 6] {
    [
        Shape::new(Level::Raid1, 2),
        Shape::new(Level::Raid10, 3).layout("n2"),
        Shape::new(Level::Raid10, 4).layout("f2"),
        Shape::new(Level::Raid4, 3),
        Shape::new(Level::Raid5, 3),
        Shape::new(Level::Raid6, 4),
    ]
}

/// Tables of one sector, of two and of five; 0.90 has superblocks of eight.
const METADATA: [(Version, usize); 6] = [
    (Version::V1_2, 0),
    (Version::V1_1, 0),
    (Version::V1_0, 0),
    (Version::V0_90(Endian::Little), 0),
    (Version::V1_2, 384),
    (Version::V1_1, 1000),
];

fn run(course: &Course, tally: &mut StrikeTally) -> u64 {
    let storm = course.run();
    if let Some(failure) = storm.failure {
        panic!("boot {}: {failure}\n{course:?}", storm.boot);
    }
    tally.add(&storm.tally);
    storm.cuts
}

fn steps(plan: &StormPlan) -> u64 {
    calm_steps(plan.clone()).unwrap_or_else(|failure| panic!("{plan}: {failure}"))
}

/// A client that asks three things only, so that there is time for each step of one boot with each of the next.
fn least(shape: &Shape, seed: u64) -> StormPlan {
    let plan = StormPlan { requests: 3, ..StormPlan::small(shape, seed) };
    let rows = if shape.bitmap.is_some() { plan.shape.rows } else { 2 };
    StormPlan { shape: Shape { rows, ..plan.shape }, ..plan }
}

/// The power goes at each step of the boot after the faults and cuts of `course`, until that boot is too short for it.
fn every_last_cut(course: &Course, tally: &mut StrikeTally) {
    let before = course.cuts.len() as u64;
    for cut in 0.. {
        let mut course = course.clone();
        course.cuts.push(Some(cut));
        if run(&course, tally) <= before {
            break;
        }
    }
}

#[test]
fn a_drive_dies_its_failure_is_recorded_and_the_power_goes_at_every_step() {
    let mut tally = StrikeTally::default();
    for (seed, shape) in (0..).zip(shapes()) {
        let plan = StormPlan { requests: 6, ..StormPlan::small(&shape, seed) };
        for at in 0..steps(&plan) {
            let role = (at % plan.shape.members as u64) as u16;
            let fault = if at % 3 == 0 { Fault::RefusesWrites } else { Fault::Dies };
            // Steps from a failing operation within which its failure is recorded. This test cuts at some of them,
            // its neighbours at the rest.
            let stride = if is_long() { 2 } else { 4 };
            for after in (at % stride..24).step_by(stride as usize) {
                let faults = vec![vec![Planned { step: at, fault, role }]];
                let (cuts, stays_dead) = (vec![Some(at + after)], after % 2 == 0);
                run(&Course { faults, cuts, stays_dead, ..Course::calm(plan.clone()) }, &mut tally);
            }
        }
    }
    let met = tally.count(Strike::PowerCut, Condition::Failing);
    assert!(met > 500, "the power went {met} times while a failure was recorded");
}

#[test]
fn the_power_goes_at_every_step_with_superblocks_of_every_kind() {
    let mut tally = StrikeTally::default();
    for (seed, shape) in (10..).zip(shapes()) {
        for (version, table) in METADATA {
            let plan = StormPlan::small(&shape.clone().metadata(version, table), seed);
            every_last_cut(&Course::calm(plan), &mut tally);
        }
    }
    for condition in [Condition::Dirtying, Condition::Cleaning] {
        let met = tally.count(Strike::PowerCut, condition);
        assert!(met > 120, "the power went {met} times while {condition}");
    }
}

#[test]
fn the_power_goes_at_every_step_with_a_bitmap() {
    let mut tally = StrikeTally::default();
    for (seed, shape) in (50..).zip(shapes()) {
        let (version, table) = METADATA[seed as usize % METADATA.len()];
        let shape = Shape { bitmap: Some(4096), ..shape.metadata(version, table) };
        let plan = StormPlan { requests: 6, ..StormPlan::small(&shape, seed) };
        every_last_cut(&Course::calm(plan), &mut tally);
        // And again in the recovery.
        twice(&shape, seed, if is_long() { 23 } else { 131 }, &mut tally);
    }
    let met = tally.count(Strike::PowerCut, Condition::AfterCut);
    assert!(met > 100, "the power went {met} times in a recovery");
}

/// Every `stride`th step of the first boot, with each of the second.
fn twice(shape: &Shape, seed: u64, stride: usize, tally: &mut StrikeTally) {
    let plan = least(shape, seed);
    for first in (seed % stride as u64..steps(&plan)).step_by(stride) {
        let cuts = vec![Some(first)];
        let course = Course { cuts, ..Course::calm(plan.clone()) };
        every_last_cut(&course, tally);
    }
}

#[test]
fn the_power_goes_at_every_step_and_again_at_every_step_of_the_recovery() {
    let mut tally = StrikeTally::default();
    let [raid1, raid10, _, _, raid5, _] = shapes();
    let stride = if is_long() { 1 } else { 5 };
    for (seed, shape) in (20..).zip([raid1, raid10, raid5]) {
        twice(&shape, seed, stride, &mut tally);
    }
    let met = tally.count(Strike::PowerCut, Condition::AfterCut);
    assert!(met > 20_000 / stride as u64, "the power went {met} times in a recovery");
}

#[test]
fn the_power_goes_again_at_every_step_of_the_recovery_with_superblocks_of_every_kind() {
    let mut tally = StrikeTally::default();
    let stride = if is_long() { 43 } else { 151 };
    let kinds = shapes().into_iter().flat_map(|shape| METADATA.map(|kind| (shape.clone(), kind)));
    for (number, (shape, (version, table))) in (0..).zip(kinds) {
        // The first cut at other steps with each.
        twice(&shape.metadata(version, table), number, stride, &mut tally);
    }
    let met = tally.count(Strike::PowerCut, Condition::AfterCut);
    assert!(met > 344_000 / stride as u64, "the power went {met} times in a recovery");
}

#[test]
fn a_drive_dies_in_the_recovery_and_the_power_goes_again() {
    let mut tally = StrikeTally::default();
    for (seed, shape) in (30..).zip(shapes()) {
        let plan = least(&shape, seed);
        for first in 0..steps(&plan) {
            let stride = if is_long() { 4 } else { 12 };
            for at in (first % stride..100).step_by(stride as usize) {
                let role = ((at + first) % plan.shape.members as u64) as u16;
                let faults = vec![Vec::new(), vec![Planned { step: at, fault: Fault::Dies, role }]];
                let cuts = vec![Some(first), Some(at + 1 + (at + first) % 19)];
                let stays_dead = first % 2 == 0;
                run(&Course { faults, cuts, stays_dead, ..Course::calm(plan.clone()) }, &mut tally);
            }
        }
    }
    let met = tally.count(Strike::Fault(Fault::Dies), Condition::AfterCut);
    assert!(met > 500, "a drive died {met} times in a recovery");
}

/// A client that asks some things while only one other thing is done. A member is struck before some step, so that it may be
/// rebuilt, or never, so that it may be replaced or leave.
fn beside(work: Option<Work>, shape: &Shape, seed: u64, strikes: Option<u64>) -> Course {
    let plan = StormPlan { requests: 6, work, ..StormPlan::small(shape, seed) };
    let role = (seed % shape.members as u64) as u16;
    let fault = Planned { step: strikes.unwrap_or(u64::MAX), fault: Fault::Dies, role };
    let is_scrubbed = matches!(work, Some(Work::Scrub(_)));
    let faults = if is_scrubbed { Vec::new() } else { vec![vec![fault]] };
    Course { faults, stays_dead: true, ..Course::calm(plan) }
}

/// The power goes at each step of a course, and after some of these at each step of the next boot. Gives how often it went
/// under a condition.
fn at_every_step_and_again(course: &Course, condition: Condition) -> u64 {
    let mut tally = StrikeTally::default();
    every_last_cut(course, &mut tally);
    let storm = course.run();
    assert!(storm.failure.is_none(), "{:?}", storm.failure);
    let (seed, stride) = (course.plan.seed, if is_long() { 23 } else { 173 });
    for first in (seed * 31 % stride..storm.steps).step_by(stride as usize) {
        let course = Course { cuts: vec![Some(first)], ..course.clone() };
        every_last_cut(&course, &mut tally);
    }
    tally.count(Strike::PowerCut, condition)
}

/// Shapes with superblocks of one kind each, and their seeds.
fn each_shape() -> impl Iterator<Item = (u64, Shape)> {
    let kinds = METADATA.into_iter().cycle();
    let kept =
        shapes().into_iter().zip(kinds).map(|(shape, (version, table))| shape.metadata(version, table));
    (60..).zip(kept)
}

#[test]
fn the_power_goes_at_every_step_of_a_repair() {
    let mut met = 0;
    for (seed, shape) in each_shape() {
        for in_sync in [true, false] {
            let shape = Shape { in_sync, ..shape.clone() };
            let repair = beside(Some(Work::Scrub(SyncMode::Repair)), &shape, seed, None);
            met += at_every_step_and_again(&repair, Condition::Scrub);
        }
    }
    assert!(met > 100, "the power went {met} times in a repair");
}

#[test]
fn the_power_goes_at_every_step_of_a_recovery() {
    let mut met = 0;
    for (seed, shape) in each_shape() {
        let shape = Shape { spares: 1, ..shape };
        // Of some it is the spare that is struck.
        let recovery = beside(None, &shape, seed, Some(20 + seed % 20));
        met += at_every_step_and_again(&recovery, Condition::Recovery);
    }
    assert!(met > 100, "the power went {met} times while a spare was rebuilt");
}

#[test]
fn the_power_goes_at_every_step_of_a_replacement() {
    for (seed, shape) in each_shape() {
        let shape = Shape { spares: 1, ..shape };
        let replacing = beside(Some(Work::Replace), &shape, seed, None);
        let met = at_every_step_and_again(&replacing, Condition::Recovery);
        let refused = !shape.version.is_v1();
        assert!(met > 5 || refused, "{shape}: the power went {met} times while a member was copied");
    }
}

#[test]
fn the_power_goes_at_every_step_while_members_leave_and_are_taken_again() {
    for (seed, shape) in each_shape() {
        let shape = Shape { bitmap: Some(4096), ..shape };
        let leaving = beside(Some(Work::Leave), &shape, seed, None);
        let met = at_every_step_and_again(&leaving, Condition::Recovery);
        let refused = !shape.version.is_v1();
        assert!(
            met > 5 || refused,
            "{shape}: the power went {met} times while a member was given what it lacked"
        );
    }
}

#[test]
fn the_power_goes_at_every_step_while_flags_change() {
    for (seed, shape) in each_shape() {
        at_every_step_and_again(&beside(Some(Work::Flags), &shape, seed, None), Condition::Healthy);
    }
}
