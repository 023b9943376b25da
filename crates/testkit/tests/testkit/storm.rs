//! The storms that are always run: the same seeds and cuts each time. `make storm` searches further.

use brindle_array::SyncMode;
use brindle_layout::Level;
use brindle_testkit::faults::Fault;
use brindle_testkit::random::Random;
use brindle_testkit::shape::Shape;
use brindle_testkit::storm::{self, Calm, Condition, Course, Storm, StormPlan, Strike, StrikeTally, Work};

/// Storms of these seeds, some cuts of each.
fn storms(seeds: core::ops::Range<u64>, cuts: u64, kinds: &[Fault]) -> StrikeTally {
    let mut tally = StrikeTally::default();
    for seed in seeds {
        let calm = Calm::of(seed).unwrap_or_else(|failure| panic!("seed {seed}, no cut: {failure}"));
        let mut random = Random::stream(seed, 0x6669_7865);
        for _ in 0..cuts {
            let cut = calm.cut(&mut random);
            let storm = storm::run(seed, Some(cut), kinds);
            if let Some(failure) = storm.failure {
                panic!(
                    "make storm SEED={seed} CUT={cut}, boot {}: {failure}\n{}",
                    storm.boot,
                    StormPlan::new(seed)
                );
            }
            tally.add(&storm.tally);
        }
    }
    tally
}

/// A storm of a plan, with all kinds of faults, that breaks no promise.
fn survived(plan: &StormPlan, seed: u64, cut: u64) -> Storm {
    let storm = Course::of_plan(plan.clone(), Some(cut), &Fault::ALL).run();
    if let Some(failure) = &storm.failure {
        panic!("seed {seed}, cut {cut}, boot {}: {failure}\n{plan}", storm.boot);
    }
    storm
}

#[test]
fn power_cuts_alone() {
    let tally = storms(0..60, 12, &[]);
    assert_eq!(tally.never_met(&[Strike::PowerCut]), [(Strike::PowerCut, Condition::Failing)]);
}

#[test]
fn power_cuts_and_drives_that_die() {
    let tally = storms(1000..1060, 12, &[Fault::Dies, Fault::RefusesWrites]);
    let met = |condition| tally.count(Strike::PowerCut, condition);
    assert!(met(Condition::Failing) > 2 && met(Condition::Degraded) > 20 && met(Condition::Resync) > 2);
}

#[test]
fn power_cuts_and_all_that_goes_wrong_with_drives() {
    storms(2000..2060, 12, &Fault::ALL);
}

/// Arrays whose state a container keeps: another ledger, the same promises.
#[test]
fn power_cuts_and_all_that_goes_wrong_with_drives_of_a_container() {
    let (mut runs, mut tally) = (0, StrikeTally::default());
    for seed in 3000..3040 {
        let plan = StormPlan::new(seed).contained();
        if !plan.shape.level.is_redundant() {
            continue;
        }
        let calm = Calm::of_plan(plan.clone()).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        let mut random = Random::stream(seed, 0x6669_7865);
        for _ in 0..8 {
            let cut = calm.cut(&mut random);
            let storm = survived(&plan, seed, cut);
            tally.add(&storm.tally);
            runs += 1;
        }
    }
    let met = |condition| tally.count(Strike::PowerCut, condition);
    assert!(
        runs > 200 && met(Condition::Failing) > 0 && met(Condition::Degraded) > 10,
        "{}",
        tally.table(&[Strike::PowerCut])
    );
}

/// Members fail, and are rebuilt on spares that may fail too, while the power goes, at any step and again in the next boot.
#[test]
fn power_cuts_while_spares_take_the_place_of_members() {
    let (mut runs, mut recovered, mut tally) = (0, 0, StrikeTally::default());
    for seed in 5000..5060 {
        let mut plan = StormPlan::new(seed);
        if !plan.may_have_spares() {
            continue;
        }
        plan.shape.spares = plan.shape.spares.max(1);
        let mut random = Random::stream(seed, 0x7370_6172);
        // The number of steps of a boot without a cut, which depends on the faults.
        let steps = Course::of_plan(plan.clone(), None, &Fault::ALL).run().steps;
        for _ in 0..10 {
            let cut = random.below(steps);
            let storm = survived(&plan, seed, cut);
            tally.add(&storm.tally);
            (runs, recovered) = (runs + 1, recovered + storm.recovered);
        }
    }
    let met = |strike| tally.count(strike, Condition::Recovery);
    let table = tally.table(&[Strike::PowerCut, Strike::Fault(Fault::Dies)]);
    assert!(runs > 300 && recovered > 50 && met(Strike::PowerCut) > 30, "{runs} {recovered}\n{table}");
    assert!(met(Strike::Fault(Fault::Dies)) > 0, "{runs} {recovered}\n{table}");
}

/// Members leave, come back, and are given by the bitmap what they missed, while the power goes at any step.
#[test]
fn power_cuts_while_members_leave_and_come_back() {
    let (mut runs, mut returned) = (0, 0);
    for seed in 6000..6060 {
        let mut plan = StormPlan::new(seed);
        if !plan.shape.level.is_redundant() || plan.container || !plan.shape.version.is_v1() {
            continue;
        }
        (plan.shape.bitmap, plan.shape.rows) = (Some(8192), 16);
        let mut random = Random::stream(seed, 0x6167_6169);
        let steps = Course::of_plan(plan.clone(), None, &Fault::ALL).run().steps;
        for _ in 0..6 {
            let cut = random.below(steps);
            let storm = survived(&plan, seed, cut);
            (runs, returned) = (runs + 1, returned + storm.returned);
        }
    }
    assert!(runs > 100 && returned > 50, "{runs} {returned}");
}

/// Writes lag on a member that is write-mostly, the first copy of all, while members fail and the power goes at any step.
#[test]
fn power_cuts_while_writes_lag_behind() {
    let mut tally = StrikeTally::default();
    for seed in 8000..8140 {
        let mut plan = StormPlan::new(seed);
        let (bitmap, behind) = (Some(8192), [1, 3, 256][seed as usize % 3]);
        let shape = Shape { bitmap, behind, rows: 16, ..Shape::new(Level::Raid1, 2 + seed as usize % 2) };
        (plan.shape, plan.container, plan.slower) = (shape, false, [1, 4, 16, 40][seed as usize / 3 % 4]);
        let mut random = Random::stream(seed, 0x6265_6869);
        let steps = Course::of_plan(plan.clone(), None, &Fault::ALL).run().steps;
        for _ in 0..8 {
            let cut = random.below(steps);
            let storm = survived(&plan, seed, cut);
            tally.add(&storm.tally);
        }
    }
    let met = |strike| tally.count(strike, Condition::Lagging);
    let strikes = [Strike::PowerCut, Strike::Fault(Fault::Dies), Strike::Fault(Fault::FailsFlush)];
    assert!(strikes.iter().all(|&strike| met(strike) > 3), "{}", tally.table(&strikes));
}

/// Arrays are compared, repaired and searched for members that are wrong beside clients, while members fail and the power goes.
#[test]
fn power_cuts_while_arrays_are_gone_over() {
    let mut tally = StrikeTally::default();
    for seed in 9000..9060 {
        let mode = [SyncMode::Repair, SyncMode::Check, SyncMode::Locate][seed as usize % 3];
        let plan = StormPlan { work: Some(Work::Scrub(mode)), ..StormPlan::new(seed) };
        let calm = Calm::of_plan(plan.clone()).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        let mut random = Random::stream(seed, 0x7363_7275);
        for _ in 0..8 {
            let cut = calm.cut(&mut random);
            let storm = survived(&plan, seed, cut);
            tally.add(&storm.tally);
        }
    }
    let met = |strike| tally.count(strike, Condition::Scrub);
    let strikes = [Strike::PowerCut, Strike::Fault(Fault::Dies), Strike::Fault(Fault::BadSector)];
    assert!(strikes.iter().all(|&strike| met(strike) > 3), "{}", tally.table(&strikes));
}

#[test]
fn a_storm_is_replayed_by_its_seed_and_its_cut() {
    let trace = |seed, cut| storm::run(seed, Some(cut), &Fault::ALL).trace;
    assert_eq!(trace(5, 200), trace(5, 200));
    assert_ne!(trace(5, 200), trace(5, 201));
    assert_ne!(trace(5, 200), trace(6, 200));
}

#[test]
fn plans_are_of_every_kind() {
    let plans: Vec<StormPlan> = (0..300).map(StormPlan::new).collect();
    let some = |what: &dyn Fn(&StormPlan) -> bool| plans.iter().filter(|plan| what(plan)).count() > 5;
    for level in ["raid0", "raid1", "raid4", "raid5", "raid6", "raid10"] {
        assert!(some(&|plan| plan.shape.level.name() == level), "{level}");
    }
    for sectors in [1, 2, 5, 8] {
        assert!(
            some(&|plan| plan.shape.sectors_of_superblock() == sectors),
            "superblocks of {sectors} sectors"
        );
    }
    assert!(some(&|plan| plan.model.logical_block == 4096) && some(&|plan| !plan.shape.in_sync));
    assert!(some(&|plan| plan.container), "those of a container");
    assert!(plans.iter().any(|plan| plan.shape.behind > 0), "with writes that lag behind");
    assert!(some(&|plan| plan.shape.filed), "bitmaps in files");
    for level in ["raid0", "raid1", "raid5", "raid6", "raid10"] {
        let direct = |plan: &StormPlan| !plan.watched && plan.shape.level.name() == level;
        assert!(plans.iter().any(direct), "{level} whose writes go the direct way");
    }
    assert!(some(&|plan| plan.shape.spares == 1) && some(&|plan| plan.shape.spares == 2), "with spares");
    assert!(some(&|plan| plan.late), "with spares that are added late");
    assert!(some(&|plan| plan.unable), "with drives that make no zeroes");
    assert!(some(&|plan| [19, 25, 37].contains(&plan.shape.rows)), "of odd sizes");
    assert!((0..4000).map(StormPlan::new).any(|plan| plan.is_large()), "with windows of the product's size");
    assert!(plans.iter().all(|plan| plan.lanes * plan.requests >= 50), "at least 50 requests");
}
