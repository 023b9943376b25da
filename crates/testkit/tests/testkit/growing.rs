//! Arrays that get larger under load, while members are slow and the power goes: the same seeds and cuts each time.

use brindle_testkit::faults::Fault;
use brindle_testkit::random::Random;
use brindle_testkit::storm::{Course, StormPlan, run_growing};

fn check(seed: u64, cut: Option<u64>) -> u64 {
    let driven = run_growing(seed, cut);
    assert_eq!(driven.broken, None, "make storm SEED={seed} CUT={cut:?} ONLY=growing, boot {}", driven.boot);
    driven.steps
}

#[test]
fn arrays_that_grow_keep_every_byte_through_cuts() {
    for seed in 0..40 {
        let steps = check(seed, None);
        let mut random = Random::stream(seed, 0x6375_7473);
        for _ in 0..12 {
            check(seed, Some(random.below(steps)));
        }
    }
}

/// A change of size that a lost member stopped left a task that marked the array clean again and again, before the next write could
/// begin.
#[test]
fn a_write_begins_after_a_change_that_was_refused_on_its_way() {
    let storm = Course::of_plan(StormPlan::growing(39), Some(396), &Fault::ALL).run();
    assert!(storm.failure.is_none(), "{:?}", storm.failure.map(|failure| failure.to_string()));
}
