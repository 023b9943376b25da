//! Pools keep what they were given while members fail and the power goes at any step, in recovery too; and whenever one opens, every
//! checksum and all parity is true without a resync.

use brindle_testkit::pools::{Phase, Phases, REUSED, run};
use brindle_testkit::random::Random;

fn storms(seeds: core::ops::Range<u64>, each: u64) -> (u64, Phases) {
    let (mut cuts, mut phases) = (0, Phases::default());
    for seed in seeds {
        let calm = run(seed, None);
        assert_eq!(calm.broken, None, "seed {seed}, calm");
        // Nothing of it is cut, and all segments are written again and again.
        if let Some((segment, times)) = calm.reuses.least() {
            assert!(times >= REUSED, "seed {seed}: segment {segment} was reused {times} times");
        }
        let mut random = Random::stream(seed, 0x706f_6f6c);
        for _ in 0..each {
            let cut = calm.cut(&mut random);
            let driven = run(seed, Some(cut));
            assert_eq!(driven.broken, None, "make storm SEED={seed} CUT={cut} ONLY=pools");
            cuts += driven.cuts;
            phases.add(&driven.phases);
        }
    }
    (cuts, phases)
}

#[test]
fn pools_keep_what_they_were_given_while_members_fail_and_the_power_goes() {
    // More of them: make storm ONLY=pools MINUTES=10.
    let (cuts, phases) = storms(0..8, 8);
    assert!(cuts >= 60, "{cuts}");
    for phase in [Phase::Closing, Phase::Checkpoint, Phase::Cleaning, Phase::Recovery, Phase::Degraded] {
        assert!(phases.of(phase) > 0, "{}", phases.table());
    }
}

/// Finds of longer searches. A batch that was refused found no place as large. A summary of an earlier use named a block at the place where
/// it stood again. A batch lay under one of an earlier use, which a member showed that had lost writes. Two uberblocks that were torn in one
/// slot made a whole one. A member that was taken again made batches whole that were read as lost before.
#[test]
fn what_was_found_stays_mended() {
    let found = [
        (2_030_100_124, 11_502),
        (2_040_000_124, 5_277),
        (2_050_000_617, 3_177),
        (3_103_154, 9_400),
        (28_112_607, 862),
    ];
    for (seed, cut) in found {
        assert_eq!(run(seed, Some(cut)).broken, None, "make storm SEED={seed} CUT={cut} ONLY=pools");
    }
}
