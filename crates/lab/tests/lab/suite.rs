//! Suites: their loads as jobs, what is left out, how requests are spread, and scores over what came of them.

use std::rc::Rc;

use crate::made::Nowhere;
use brindle_io::Io;
use brindle_io::sim::{Model, Sim};
use brindle_lab::job::{Direction, Distribution};
use brindle_lab::report::grouped;
use brindle_lab::run::{Live, Outcome, Terms, memory_for, run};
use brindle_lab::suite::{Loads, Of, SUITES, suite};
use brindle_volume::LoneMember;
use brindle_volume::{Limits, Volume};

fn shipped(name: &str) -> &'static str {
    SUITES.iter().find(|(own, _)| *own == name).expect("it ships").1
}

fn own(words: &[(&str, &str)]) -> Vec<(String, String)> {
    words.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn loads(name: &str, text: &str, words: &[(&str, &str)]) -> Loads {
    let suite = suite(name, text).unwrap_or_else(|error| panic!("{error}"));
    suite.loads((name, text), &own(words), &Nowhere).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the loads on modelled drives of `size` bytes.
fn measured(loads: &Loads, size: u64, drives: usize) -> Vec<Outcome> {
    let sim = Sim::new(1);
    let all: Vec<_> = (0..drives).map(|_| sim.add_drive(Model::nvme(), size)).collect();
    let io = Io::new(Box::new(sim));
    let targets: Vec<_> =
        all.iter().map(|&drive| LoneMember::new(&io, drive, false).expect("a drive")).collect();
    let mut jobs = loads.plan.jobs.clone();
    loads.spread(&mut jobs, &targets.iter().map(Volume::limits).collect::<Vec<_>>());
    let terms = Terms::new(9, 1 << 30);
    let outcomes = io.block_on(run(&io, &targets, &jobs, terms, &Rc::new(Live::default())));
    io.shutdown();
    grouped(&outcomes.expect("a run"))
}

#[test]
fn every_suite_that_ships_is_jobs_one_after_the_other() {
    let count = |name: &str| {
        let loads = loads(name, shipped(name), &[]);
        assert!(loads.plan.jobs.iter().all(|job| job.stonewall && job.group_reporting), "{name}");
        loads.plan.jobs.len()
    };
    let counts: Vec<_> = SUITES.iter().map(|(name, _)| (*name, count(name))).collect();
    let expected = [
        ("as-ssd", 8),
        ("chunk-table", 32),
        ("fileserver", 5),
        ("gnome-disks", 3),
        ("jesd219", 1),
        ("latency", 9),
        ("mix-matrix", 56),
        ("overhead", 6),
        ("scaling", 8),
        ("throughput", 4),
    ];
    assert_eq!(counts, expected);
    assert_eq!(loads("chunk-table", shipped("chunk-table"), &[]).fixed, ["chunk"]);
    let zones = &loads("jesd219", shipped("jesd219"), &[]).plan.jobs[0].distribution;
    assert!(matches!(zones, Distribution::Zoned(_)), "{zones:?}");
}

#[test]
fn what_writes_is_left_out_where_nobody_asks_for_it() {
    let mut latency = loads("latency", shipped("latency"), &[]);
    let out = latency.leave_out_writes();
    assert_eq!(out.len(), 6, "{out:?}");
    assert_eq!(latency.plan.jobs.len(), 3, "a mix of reads alone writes nothing");
    assert!(latency.plan.jobs.iter().all(|job| !job.access.changes()));
    let mut gnome = loads("gnome-disks", shipped("gnome-disks"), &[]);
    assert_eq!(gnome.leave_out_writes(), ["write-rate"]);
    let scores = gnome.scores(&measured(&gnome, 64 << 20, 1));
    let names: Vec<_> = scores.iter().map(|score| score.name.as_str()).collect();
    assert_eq!(names, ["read-rate", "access-time"]);
}

#[test]
fn samples_are_spread_evenly_over_all_of_a_target() {
    let logged = [("write_lat_log", "x")];
    let gnome = loads("gnome-disks", shipped("gnome-disks"), &logged);
    // A tenth of what 100 samples of 10 MiB need, on each of two.
    let size = 100 << 20;
    let outcomes = measured(&gnome, size, 2);
    for (job, of) in [(0, Direction::Read), (1, Direction::Write)] {
        let tally = &outcomes[job].tallies[of.index()];
        assert_eq!((tally.ios, tally.bytes), (200, 2 * size));
    }
    assert_eq!(outcomes[2].ios(), 1000);
    // Room enough: whole samples, with gaps.
    let mut gnome = loads("gnome-disks", shipped("gnome-disks"), &logged);
    gnome.leave_out_writes();
    let size = 2000 << 20;
    let outcomes = measured(&gnome, size, 1);
    let places: Vec<_> =
        outcomes[0].tallies[0].entries.iter().map(|entry| (entry.offset, entry.len)).collect();
    let expected: Vec<_> = (0..100).map(|at| (at * (20 << 20), 10 << 20)).collect();
    assert_eq!(places, expected);
}

#[test]
fn scores_are_weighted_sums_of_what_jobs_came_to() {
    let ssd = loads("as-ssd", shipped("as-ssd"), &[("runtime", "20ms")]);
    let outcomes = measured(&ssd, 64 << 20, 1);
    let mb = |name: &str| {
        let outcome = outcomes.iter().find(|outcome| outcome.job.name == name).expect("it ran");
        outcome.mixed().bandwidth() / 1_048_576.0
    };
    let total = 0.15 * mb("seq-write")
        + 0.1 * mb("seq-read")
        + 2.0 * mb("4k-read")
        + mb("4k-write")
        + mb("4k-64-write")
        + 1.5 * mb("4k-64-read");
    let scores = ssd.scores(&outcomes);
    let score = |name: &str| scores.iter().find(|score| score.name == name).expect("a score");
    assert!((score("total").value - total).abs() < 1e-6 * total, "{scores:?}, {total}");
    let read = 0.1 * mb("seq-read") + mb("4k-read") + mb("4k-64-read");
    assert!((score("read").value - read).abs() < 1e-6 * read);
    assert_eq!(score("access-read").of, Of::MeanUs);
    assert!(score("access-read").value > 0.0 && score("write").value > 0.0);
}

#[test]
fn what_is_wrong_is_told_with_file_and_line() {
    let wrong = |text: &str, reported: &str| {
        let error = suite("own.toml", text).expect_err(text);
        assert_eq!(error.to_string(), reported);
    };
    wrong("about = 'x'\n\n[[job]]\nrw = 'read'\n", "own.toml:3: a job without name: give name = \"...\"");
    let two = "[[job]]\nname = 'a'\n[[job]]\nname = 'a'\n";
    wrong(two, "own.toml:3: there are two jobs of the name 'a'");
    let score = "[[job]]\nname = 'a'\n[[score]]\nname = 's'\nof = 'iops'\nweights = { b = 1 }\n";
    wrong(score, "own.toml:3: a score of 'b', and there is no such job");
    wrong("[[job]]\nname = 'a'\nspread = 0\n", "own.toml:1: spread is a count of requests from 1 to 65536");
    let text = shipped("latency");
    let clash = suite("s", text).expect("a suite").loads(("s", text), &own(&[("bs", "1m")]), &Nowhere);
    assert!(clash.expect_err("bs is an axis").to_string().ends_with("leave out --bs"));
    let text = "about = ''\n[[job]]\nname = 'a'\nzonemode = 'zbd'\n";
    let unknown = suite("own.toml", text).expect("a suite");
    let error = unknown.loads(("own.toml", text), &[], &Nowhere).expect_err("no such option").to_string();
    assert!(error.starts_with("own.toml:2: job 'a': option 'zonemode'"), "{error}");
}

#[test]
fn requests_that_are_no_whole_blocks_are_left_out() {
    let small = |name: &str, block: u32| {
        let limits =
            Limits { size: 1 << 30, block, preferred: 4096, optimal: 0, read_only: false, discard: false };
        let mut jobs = loads(name, shipped(name), &[]).plan.jobs;
        let all = jobs.len();
        let out = Loads::leave_out_small(&mut jobs, &[limits]);
        assert_eq!(jobs.len() + out.len(), all);
        out.len()
    };
    assert_eq!(
        (small("mix-matrix", 512), small("mix-matrix", 4096)),
        (0, 7),
        "seven mixes by seven sizes are left"
    );
    assert_eq!((small("jesd219", 4096), small("throughput", 4096)), (1, 0));
}

#[test]
fn where_memory_is_short_fewer_requests_are_in_flight() {
    for (name, text) in SUITES {
        let mut jobs = loads(name, text, &[]).plan.jobs;
        let wanted: Vec<_> = jobs.iter().map(|job| job.iodepth).collect();
        let reported = Loads::fit_memory(&mut jobs, 128 << 20);
        assert!(jobs.iter().all(|job| memory_for(job) <= 128 << 20), "{name}: what --memory is at first");
        assert_eq!(
            jobs.iter().zip(wanted).filter(|(job, wanted)| job.iodepth < *wanted).count(),
            reported.len()
        );
        assert_eq!(reported.is_empty(), name != "mix-matrix", "{name}: {reported:?}");
    }
}
