//! Arrays whose data move into rows of more members under load, while drives fail and the power goes: the same seeds and cuts each time.

use brindle_testkit::random::Random;
use brindle_testkit::widening::run;

fn check(seed: u64, cut: Option<u64>) -> u64 {
    let driven = run(seed, cut);
    assert_eq!(driven.broken, None, "make storm SEED={seed} CUT={cut:?} ONLY=widening, boot {}", driven.boot);
    driven.steps
}

#[test]
fn arrays_that_get_members_keep_every_byte_through_cuts() {
    for seed in 0..24 {
        let steps = check(seed, None);
        let mut random = Random::stream(seed, 0x6375_7473);
        for _ in 0..10 {
            check(seed, Some(random.below(steps)));
        }
    }
}

/// A new member that does not take the first record of a reshape is lost, and the power goes before all others have it; or it comes back as
/// the spare that it was. Neither keeps the array from being started, and from going on.
#[test]
fn a_new_member_that_lacks_the_first_record_keeps_no_array_from_its_start() {
    for (seed, cut) in [(71, 84), (76, 194), (146, 150), (10_048, 229)] {
        check(seed, Some(cut));
    }
}
