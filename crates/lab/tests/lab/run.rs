//! Jobs on modelled drives in virtual time: what they measure, when they begin and end, and what they refuse.

use std::rc::Rc;

use crate::made::jobs;
use brindle_io::sim::{Model, Sim};
use brindle_io::{Io, MemberId};
use brindle_lab::job::Job;
use brindle_lab::measure::Tally;
use brindle_lab::run::{Live, Outcome, RunError, Terms, Trouble, WhyNot, run};
use brindle_volume::LoneMember;
use brindle_volume::Volume;

const SIZE: u64 = 4 << 20;
const TERMS: Terms = Terms::new(9, 1 << 30);

struct Bench {
    sim: Sim,
    io: Io,
    drives: Vec<MemberId>,
}

impl Bench {
    fn new(drives: usize) -> Self {
        let sim = Sim::new(1);
        let drives = (0..drives).map(|_| sim.add_drive(Model::nvme(), SIZE)).collect();
        Self { io: Io::new(Box::new(sim.clone())), sim, drives }
    }

    fn devices(&self, read_only: bool) -> Vec<LoneMember> {
        self.drives
            .iter()
            .map(|&drive| LoneMember::new(&self.io, drive, read_only).expect("a drive"))
            .collect()
    }

    fn try_run(
        &self,
        targets: &[impl Volume + Clone + 'static],
        jobs: &[Job],
        terms: Terms,
    ) -> Result<Vec<Outcome>, RunError> {
        self.io.block_on(run(&self.io, targets, jobs, terms, &Rc::new(Live::default())))
    }

    fn run(&self, text: &str) -> Vec<Outcome> {
        self.try_run(&self.devices(false), &jobs(text), TERMS).expect("a run")
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.io.shutdown();
    }
}

fn alone(text: &str) -> Outcome {
    let mut outcomes = Bench::new(1).run(&format!("[job]\n{text}"));
    assert_eq!(outcomes.len(), 1);
    let outcome = outcomes.remove(0);
    assert_eq!(outcome.trouble, None);
    outcome
}

fn read(outcome: &Outcome) -> &Tally {
    &outcome.tallies[0]
}

#[test]
fn latency_is_the_drives_and_depth_multiplies() {
    let one = alone("rw=randread\nbs=4k\n");
    assert_eq!((read(&one).ios, read(&one).bytes), (SIZE / 4096, SIZE));
    let latency = read(&one).total.mean();
    assert!((80_000.0..90_000.0).contains(&latency), "80 us and the link: {latency}");
    let expected = 1e9 / latency;
    assert!((read(&one).iops() / expected - 1.0).abs() < 0.02, "{} {expected}", read(&one).iops());
    assert_eq!(one.depths, [SIZE / 4096, 0, 0, 0, 0, 0, 0]);
    let many = alone("rw=randread\nbs=4k\niodepth=16\n");
    assert!(read(&many).iops() > 14.0 * read(&one).iops(), "{}", read(&many).iops());
    assert!(many.depths[4] > 900, "{:?}", many.depths);
    let sync = alone("rw=randread\nbs=4k\niodepth=16\nioengine=psync\n");
    assert!((read(&sync).iops() / read(&one).iops() - 1.0).abs() < 0.02, "one in flight");
}

#[test]
fn rates_and_pauses_are_kept() {
    let slow = alone("rw=randread\nrate_iops=500\ntime_based\nruntime=2\niodepth=4\n");
    assert!((999..=1001).contains(&read(&slow).ios), "{}", read(&slow).ios);
    let bytes = alone("rw=read\nbs=8k\nrate=1m\ntime_based\nruntime=1\n");
    assert!((127..=129).contains(&read(&bytes).ios), "{}", read(&bytes).ios);
    let pauses = alone("rw=read\nthinktime=1ms\nthinktime_blocks=2\nnumber_ios=100\n");
    let seconds = read(&pauses).runtime.as_secs_f64();
    assert!((0.05..0.07).contains(&seconds), "fifty pauses: {seconds}");
}

#[test]
fn jobs_end_when_they_are_to() {
    let ios = |text: &str| alone(text).ios();
    assert_eq!(ios("rw=read\nsize=1m\n"), 256);
    assert_eq!(ios("rw=read\nsize=1m\nloops=3\niodepth=8\n"), 768);
    assert_eq!(ios("rw=randread\nio_size=64k\n"), 16);
    assert_eq!(ios("rw=randread\nnumber_ios=7\niodepth=4\n"), 7);
    assert_eq!(ios("rw=trimwrite\nnumber_ios=7\n"), 14, "as many trims as writes");
    assert_eq!(ios("rw=read\nnumber_ios=7\nrate_iops=1000\niodepth=3\n"), 7, "each waits for its turn");
    assert_eq!(ios("rw=randrw\nsize=25%\n"), 256);
    let timed = alone("rw=randread\ntime_based\nruntime=1\nramp_time=500ms\n");
    let (elapsed, counted) = (timed.elapsed.as_secs_f64(), read(&timed).runtime.as_secs_f64());
    assert!((1.5..1.501).contains(&elapsed) && (0.99..1.001).contains(&counted), "{elapsed} {counted}");
    assert!(alone("rw=randread\nruntime=10ms\n").elapsed.as_millis() <= 11, "not time_based, but too long");
}

#[test]
fn walls_delays_and_waits_order_jobs() {
    let bench = Bench::new(1);
    let text = "[a]\nsize=1m\n[b]\nsize=1m\nstartdelay=1\n[c]\nwait_for=a\nsize=64k\n[d]\nstonewall\nsize=64k\nnumjobs=2\n";
    let outcomes = bench.run(text);
    let names: Vec<_> = outcomes.iter().map(|outcome| outcome.job.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "d"]);
    let began = |at: usize| outcomes[at].began;
    let end = |at: usize| outcomes[at].began + outcomes[at].elapsed;
    assert!(began(0).is_zero() && began(1).as_secs() == 1);
    assert!(began(2) >= end(0) && began(2) < began(1));
    assert!(began(3) >= end(1) && began(4) == began(3));
    assert_eq!(outcomes.iter().map(|outcome| outcome.group).collect::<Vec<_>>(), [0, 0, 0, 1, 1]);
}

#[test]
fn exitall_ends_those_that_run_beside() {
    let outcomes = Bench::new(1).run("[a]\nsize=64k\nexitall\n[b]\ntime_based\nruntime=100\n");
    assert!(outcomes[1].elapsed.as_secs() < 1);
    assert_eq!(outcomes[0].ios(), 16);
}

#[test]
fn what_was_written_is_verified() {
    for options in [
        "bs=4k",
        "bsrange=512-8k",
        "bs=4k\nnorandommap",
        "bs=4k\nverify=pattern\nverify_pattern=0xabcdef",
        "bsrange=4k-16k\nnorandommap",
        "bsrange=4k-16k\nnorandommap\nba=512\nverify=pattern_hdr\nverify_pattern=0xab%o",
        "bssplit=4k/50:12k/50\nrandom_distribution=zipf:1.2\nverify=md5\nverify_interval=2k\nverify_offset=512",
        "bs=16k\nio_size=3m\nverify=sha256",
        "bs=8k\nrw=write:4k\nio_size=2m",
    ] {
        let verify = if options.contains("verify") { "" } else { "verify=crc32c\n" };
        let outcome = alone(&format!("rw=randwrite\nsize=1m\niodepth=8\nloops=2\n{verify}{options}\n"));
        let [read, wrote, _] = outcome.tallies.each_ref().map(|tally| tally.ios);
        let again = ["norandommap", "zipf", "io_size"].iter().any(|word| options.contains(word));
        // Of what lies over one another the last is read, as fio does it.
        assert!(
            if again { wrote / 9 < read && read < wrote } else { read == wrote },
            "{options}: {read} of {wrote}"
        );
        assert!(read > 0);
    }
    assert_eq!(alone("rw=write\nsize=1m\nverify=crc32c\ndo_verify=0\n").tallies[0].ios, 0);
    // A job that ends before all is written has no more to read than it wrote.
    let outcome = alone("rw=randwrite\nsize=1m\niodepth=8\nverify=crc32c\nnumber_ios=100\n");
    assert_eq!((outcome.tallies[0].ios, outcome.tallies[1].ios), (100, 100));
}

#[test]
fn a_changed_byte_ends_the_job_that_reads_it() {
    let bench = Bench::new(1);
    bench.run("[a]\nrw=write\nsize=1m\nverify=crc32c\ndo_verify=0\n");
    let good = bench.run("[b]\nrw=read\nsize=1m\nverify=crc32c\n");
    assert_eq!((good[0].trouble, good[0].ios()), (None, 256));
    bench.sim.rot(bench.drives[0], 8192 + 100..8192 + 101);
    let bad = bench.run("[b]\nrw=read\nsize=1m\nverify=crc32c\n");
    let Some(Trouble { request, why: WhyNot::Verify(_) }) = bad[0].trouble else {
        panic!("{:?}", bad[0].trouble)
    };
    assert_eq!(request.offset, 8192);
    assert!(bad[0].trouble.expect("trouble").to_string().contains("read of 4096 bytes at byte 8192"));
}

#[test]
fn a_drive_that_goes_ends_the_job_with_its_error() {
    let bench = Bench::new(1);
    bench.sim.kill(bench.drives[0]);
    let outcome = bench.run("[a]\nrw=randread\niodepth=4\n").remove(0);
    assert!(matches!(outcome.trouble, Some(Trouble { why: WhyNot::Volume(_), .. })), "{:?}", outcome.trouble);
    assert_eq!(outcome.ios(), 0);
}

#[test]
fn flushes_come_when_they_are_due() {
    // As fio has it: before the next request, so that none comes after the last, and the one at the end is not counted.
    assert_eq!(alone("rw=write\nsize=1m\nfsync=32\n").flushes.count(), 7);
    assert_eq!(alone("rw=write\nsize=64k\n").flushes.count(), 0);
    let bench = Bench::new(1);
    let outcome = bench.run("[a]\nrw=write\nsize=1m\nfdatasync=64\nend_fsync=1\n").remove(0);
    assert_eq!((outcome.flushes.count(), bench.sim.operations(bench.drives[0])), (3, 256 + 3 + 1));
}

#[test]
fn several_drives_are_asked_in_turn() {
    let bench = Bench::new(3);
    let outcome = bench.run("[a]\nrw=randread\nsize=64k\niodepth=3\n").remove(0);
    assert_eq!(outcome.ios(), 48, "the size is of each");
    for &drive in &bench.drives {
        assert_eq!(bench.sim.operations(drive), 16);
    }
}

#[test]
fn the_same_seed_measures_the_same() {
    let text = "[a]\nrw=randrw\niodepth=4\nbssplit=4k/50:16k/50\n";
    let measured = |text: &str| {
        let outcome = Bench::new(1).run(text).remove(0);
        (outcome.tallies[0].total.bins(), outcome.tallies[1].total.bins(), outcome.elapsed)
    };
    assert_eq!(measured(text), measured(text));
    assert_ne!(measured(text), measured(&format!("{text}randseed=5\n")));
}

#[test]
fn what_can_not_run_is_refused_before_anything_is_written() {
    let bench = Bench::new(1);
    let refused = |text: &str, read_only: bool, terms: Terms| {
        bench.try_run(&bench.devices(read_only), &jobs(text), terms).expect_err("refused")
    };
    assert_eq!(refused("[a]\nrw=write\n", true, TERMS), RunError::ReadOnly("a".to_owned()));
    assert!(matches!(refused("[a]\nrw=write\n[b]\nsize=1g\n", false, TERMS), RunError::Range { .. }));
    let little = Terms { memory: 100_000, ..TERMS };
    // Jobs behind a wall do not run together with those before it. Buffers take 4 KiB, and each job has one more.
    let needed = "[a]\niodepth=64\nnumjobs=2\n[b]\n[c]\nstonewall\n";
    assert_eq!(
        refused(needed, false, little),
        RunError::Memory { needed: 4096 * (2 * 65 + 2), there: little.memory }
    );
    let none: [LoneMember; 0] = [];
    assert_eq!(bench.try_run(&none, &jobs("[a]\n"), TERMS).map(drop), Err(RunError::NoTarget));
    assert_eq!(bench.sim.operations(bench.drives[0]), 0);
}

#[test]
fn jobs_can_be_ended_and_are_watched() {
    let bench = Bench::new(1);
    let (live, watched) = (Rc::new(Live::default()), bench.io.clone());
    let beside = Rc::clone(&live);
    bench.io.spawn(async move {
        watched.sleep(core::time::Duration::from_millis(100)).await;
        assert!(beside.jobs() == 1 && beside.ios()[0] > 100 && beside.bytes()[0] == beside.ios()[0] * 4096);
        beside.stop();
    });
    let jobs = jobs("[a]\nrw=randread\ntime_based\nruntime=1000\n[b]\nstonewall\nsize=1m\n");
    let outcomes =
        bench.io.block_on(run(&bench.io, &bench.devices(false), &jobs, TERMS, &live)).expect("a run");
    assert_eq!((outcomes[0].elapsed.as_millis(), outcomes[1].ios(), live.jobs()), (100, 0, 0));
}

#[test]
fn memory_that_reads_have_used_is_filled_again() {
    let bench = Bench::new(1);
    let outcomes = bench.run("[job]\nrw=randrw\nbsrange=512-64k\niodepth=4\nbuffer_pattern=0xa5\n");
    let written = outcomes[0].tallies[1].bytes;
    let mut image = vec![0; SIZE as usize];
    bench.sim.peek(bench.drives[0], 0, &mut image);
    assert!((SIZE / 4..SIZE * 3 / 4).contains(&written), "{written}");
    // No place is written twice.
    let own = image.chunks(512).filter(|block| **block == [0xa5; 512]);
    assert_eq!(own.count() as u64 * 512, written);
}
