//! Volumes of a container in storms, the same seeds and cuts each time. `make storm ONLY=volumes` searches further.

use brindle_testkit::random::Random;
use brindle_testkit::volumes::run;

#[test]
fn a_device_is_lost_to_all_volumes_of_a_container_wherever_the_power_goes() {
    let (mut cuts, mut without) = (0, 0);
    for seed in 0..12 {
        let calm = run(seed, None);
        assert_eq!(calm.broken, None, "make storm SEED={seed} CUT=none ONLY=volumes, boot {}", calm.boot);
        let mut random = Random::stream(seed, 0x766f_6c73);
        for _ in 0..8 {
            let cut = random.below(calm.steps);
            let driven = run(seed, Some(cut));
            let again = format!("make storm SEED={seed} CUT={cut} ONLY=volumes, boot {}", driven.boot);
            assert_eq!(driven.broken, None, "{again}");
            cuts += driven.cuts;
            without += u64::from(driven.met.contains_key("done without"));
        }
    }
    assert!(cuts > 90 && without > 20, "{cuts} cuts, {without} with a device that was done without");
}

#[test]
fn a_seed_and_a_cut_are_all_that_a_storm_of_volumes_depends_on() {
    let [once, again] = [0, 1].map(|_| run(3, Some(300)));
    assert_eq!((once.trace, once.boot, once.steps), (again.trace, again.boot, again.steps));
}
