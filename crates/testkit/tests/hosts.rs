//! Hosts in storms, the same seeds and cuts each time. `make storm ONLY=hosts` searches further.

use std::collections::BTreeMap;

use brindle_testkit::hosts;
use brindle_testkit::random::Random;

#[test]
fn arrays_of_one_host_share_spares_and_take_members_again_whenever_the_power_goes() {
    let mut met = BTreeMap::new();
    for seed in 0..8 {
        let calm = hosts::run(seed, None);
        assert_eq!(calm.broken, None, "make storm SEED={seed} CUT=none ONLY=hosts, boot {}", calm.boot);
        let mut random = Random::stream(seed, 0x6669_7865);
        for _ in 0..6 {
            let cut = random.below(calm.steps);
            let driven = hosts::run(seed, Some(cut));
            assert_eq!(
                driven.broken, None,
                "make storm SEED={seed} CUT={cut} ONLY=hosts, boot {}",
                driven.boot
            );
            for (kind, count) in driven.met {
                *met.entry(kind).or_insert(0) += count;
            }
        }
    }
    for kind in
        ["member-failed", "spare-given", "spare-taken", "recovery-ended", "copy-ended", "re-added", "stopped"]
    {
        assert!(met.get(kind).is_some_and(|&count| count > 2), "{kind} in {met:?}");
    }
}

#[test]
fn a_seed_and_a_cut_are_all_that_a_storm_of_hosts_depends_on() {
    let [once, again] = [0, 1].map(|_| hosts::run(3, Some(4000)));
    assert_eq!((once.trace, once.boot, once.steps), (again.trace, again.boot, again.steps));
}
