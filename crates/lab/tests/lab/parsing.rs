//! Job files from text: sections, globals, includes, variables, and the place of errors.

use core::time::Duration;
use std::collections::BTreeMap;

use brindle_lab::job::{
    Blocks, DIRECTIONS, Direction, Distribution, HONOURED, Job, JobErrorKind, JobExtent, JobPlan, Kinds,
    Surroundings, TAKEN, Verify, parse, parse_words,
};
use proptest::prelude::*;

/// Files and variables by name.
#[derive(Default)]
struct Made(BTreeMap<&'static str, String>);

impl Made {
    fn with(files: &[(&'static str, &str)]) -> Self {
        Self(files.iter().map(|(name, text)| (*name, (*text).to_owned())).collect())
    }
}

impl Surroundings for Made {
    fn read(&self, file: &str) -> Result<String, String> {
        self.0.get(file).cloned().ok_or_else(|| "no such file".to_owned())
    }
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
    fn pagesize(&self) -> u64 {
        4096
    }
    fn mb_memory(&self) -> u64 {
        512
    }
    fn ncpus(&self) -> u64 {
        6
    }
}

fn plan(text: &str) -> JobPlan {
    parse(&["a.fio"], false, &Made::with(&[("a.fio", text)])).expect("a job file that is read")
}

fn job(text: &str) -> Job {
    plan(&format!("[job]\n{text}")).jobs.remove(0)
}

fn error(text: &str) -> String {
    parse(&["a.fio"], false, &Made::with(&[("a.fio", text)])).expect_err("wrong").to_string()
}

#[test]
fn globals_hold_for_the_jobs_behind_them() {
    let plan = plan(
        "; a comment\n[global]\nbs=8k   # of all\niodepth = 4\n\n[one]\nrw=write\n[global]\nbs=16k\n[two]\nreadwrite=randrw\nbs=4k,64k\n",
    );
    let [one, two] = &plan.jobs[..] else { panic!("two jobs") };
    assert_eq!((one.name.as_str(), one.iodepth, one.blocks[1].clone()), ("one", 4, Blocks::One(8192)));
    assert_eq!(one.access.kinds, Kinds::One(Direction::Write));
    assert_eq!(two.blocks, [4096, 65536, 65536].map(Blocks::One));
    let said = |given: &[brindle_lab::job::Given]| {
        given.iter().map(|given| format!("{}={}", given.name, given.value)).collect::<Vec<_>>()
    };
    assert_eq!(said(&plan.global), ["bs=16k", "iodepth=4"]);
    assert_eq!(said(&two.given), ["rw=randrw", "bs=4k,64k"], "by fio's first names");
}

#[test]
fn included_files_stand_where_they_are_named() {
    let files = [
        ("dir/a.fio", "[global]\ninclude glob.inc\n[job]\nrw=read\ninclude sub/job.inc\n"),
        ("dir/glob.inc", "bs=64k\n"),
        ("dir/sub/job.inc", "include deeper.inc\nrw=randread\n"),
        ("dir/sub/deeper.inc", "iodepth=7"),
    ];
    let plan = parse(&["dir/a.fio"], false, &Made::with(&files)).expect("read");
    let job = &plan.jobs[0];
    assert_eq!((job.iodepth, job.access.random, job.blocks[0].clone()), (7, true, Blocks::One(65536)));
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    assert_eq!(
        error("[a]\nrw=read\nzonemode=zbd\n"),
        "a.fio:3: option 'zonemode' is not supported; --lenient leaves it out"
    );
    assert!(error("rw=read\n").starts_with("a.fio:1: option 'rw' stands in no section"));
    assert!(error("[a\n").starts_with("a.fio:1: a section's name"));
    assert!(error("[a]\n\nbs=4x\n").starts_with("a.fio:3: bs=4x: give 1 byte"));
    assert!(error("[a]\nbs\n").contains("give a value"));
    assert!(error("[global]\nbs=4k\n").contains("no job"));
    assert!(error("[a]\nioengine=cpuio\n").contains("a.fio:2: ioengine=cpuio reads and writes no blocks"));
    assert!(error("[a]\nioengine=magic\n").contains("an engine of fio"));
    assert!(error("[a]\ninclude b.inc\n").starts_with("a.fio:2: can't be read: no such file"));
    assert!(error("[a]\niodepth=0\n").contains("1 to 65536"));
    assert!(error("[a]\niodepth=999999999999\n").contains("1 to 65536"));
    let files = [("a.fio", "[a]\ninclude b.inc\n"), ("b.inc", "rw=read\n[b]\n")];
    let inside = parse(&["a.fio"], false, &Made::with(&files)).expect_err("a section");
    assert_eq!((inside.place.to_string().as_str(), inside.kind), ("b.inc:2", JobErrorKind::SectionInside));
}

#[test]
fn what_contradicts_itself_is_refused() {
    for (options, why) in [
        ("time_based\n", "needs a runtime"),
        ("rw=read\nrandom_distribution=zipf:1.2\n", "needs random requests"),
        ("verify=pattern\n", "need a verify_pattern"),
        ("verify=sha512\nbs=512\nverify_interval=128\n", "verify needs blocks"),
        ("wait_for=other\n", "wait_for names no job"),
    ] {
        let error = error(&format!("[here]\n{options}"));
        assert!(error.starts_with("a.fio:1: job 'here'") && error.contains(why), "{error}");
    }
}

#[test]
fn files_that_include_themselves_end() {
    let files = [("a.fio", "[a]\ninclude a.inc\n"), ("a.inc", "include a.inc\n")];
    let error = parse(&["a.fio"], false, &Made::with(&files)).expect_err("without end");
    assert!(matches!(error.kind, JobErrorKind::TooMuch(_)), "{error}");
    let twice = [("a.fio", "[a]\ninclude a.inc\n".to_owned()), ("a.inc", "include a.inc\n".repeat(1 << 20))];
    let files: Vec<(&str, &str)> = twice.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let error = parse(&["a.fio"], false, &Made::with(&files)).expect_err("too large");
    assert!(matches!(error.kind, JobErrorKind::TooMuch(_)), "{error}");
}

#[test]
fn variables_and_words_are_replaced() {
    let files = [
        ("a.fio", "[a]\nsize=${SIZE}m\nnumjobs=$ncpus\nbs=$pagesize\nio_size=2*$mb_memory\nname=x${NONE}y\n"),
        ("SIZE", "12"),
    ];
    let plan = parse(&["a.fio"], false, &Made::with(&files)).expect("read");
    let job = &plan.jobs[0];
    assert_eq!(job.size, Some(JobExtent::Bytes(12 << 20)));
    assert_eq!((job.numjobs, job.blocks[0].clone(), job.name.as_str()), (6, Blocks::One(4096), "xy"));
    assert_eq!(job.io_size, Some(JobExtent::Bytes(1024)));
}

#[test]
fn options_are_typed() {
    let all = job(
        "rw=randrw:4\nbssplit=4k/60:64k/40,8k\nrwmixread=70\nsize=25%\noffset=1m\nruntime=2m\ntime_based=1\n\
        ramp_time=500ms\nstartdelay=1-3\nthinktime=50\nrate=1m,\nrate_iops=,200\nrandom_distribution=zipf:1.2\n\
        verify=pattern\nverify_pattern=0xab\nfsync=32\nsync=dsync\npercentile_list=99:50\nlog_avg_msec=500\n\
        write_bw_log=x\nwrite_lat_log\nunified_rw_reporting=both\nnew_group\nloops=3\nnumber_ios=9\n",
    );
    assert_eq!(all.access.step, 4);
    assert_eq!(all.blocks[0], Blocks::Split(vec![(4096, 60), (65536, 40)]));
    assert_eq!(all.blocks[2], Blocks::Split(vec![(8192, 100)]));
    assert_eq!(
        (all.reads, all.size, all.offset),
        (70, Some(JobExtent::Percent(25)), JobExtent::Bytes(1 << 20))
    );
    assert_eq!((all.runtime, all.ramp_time), (Some(Duration::from_secs(120)), Duration::from_millis(500)));
    assert_eq!(all.startdelay, (Duration::from_secs(1), Duration::from_secs(3)));
    assert_eq!(all.thinktime, Duration::from_micros(50));
    assert_eq!(all.rate, [Some(1 << 20), None, None]);
    assert_eq!(all.rate_iops, [None, Some(200), Some(200)]);
    assert_eq!(all.distribution, Distribution::Zipf(1.2));
    assert_eq!(
        (all.verify, all.verify_pattern.map(|pattern| pattern.at(0))),
        (Some(Verify::Pattern), Some(vec![0xab]))
    );
    assert_eq!(all.percentiles, [50.0, 99.0]);
    assert_eq!(all.logs.bandwidth, Some(Some("x".to_owned())));
    assert_eq!((all.logs.latency, all.logs.iops), (Some(None), None));
    assert!(all.sync && all.new_group && all.fsync == 32 && all.loops == 3 && all.number_ios == Some(9));
    assert_eq!(job("rwmixread=80\nrwmixwrite=30\n").reads, 70, "the latter overrides");
    assert_eq!(job("kb_base=1000\nbs=4k\n").blocks[0], Blocks::One(4000));
    assert_eq!(job("bs=4k\nkb_base=1000\n").blocks[0], Blocks::One(4000), "wherever it stands");
    assert_eq!(job("bsrange=512-4k/1k-8k\n").blocks[1], Blocks::Range(1024, 8192));
}

#[test]
fn what_is_taken_without_effect_is_said() {
    let plan = plan("[a]\nioengine=psync\niodepth=32\nfilename=/x\nthread\nverify=md5\n");
    assert_eq!((plan.jobs[0].depth(), plan.jobs[0].iodepth), (1, 32));
    assert_eq!(plan.jobs[0].verify, Some(Verify::Md5));
    let notes: Vec<_> = plan.notes.iter().map(|note| (note.option.as_str(), note.place.line)).collect();
    assert_eq!(notes, [("ioengine", 2), ("filename", 4), ("thread", 5)]);
    assert!(plan.notes[0].effect.starts_with("one request in flight"));
}

#[test]
fn lenient_leaves_out_what_is_unknown_and_nothing_else() {
    let lenient = |text| parse(&["a.fio"], true, &Made::with(&[("a.fio", text)]));
    let plan = lenient("[a]\nzonemode=zbd\nbs=8k\n").expect("read");
    assert_eq!(plan.jobs[0].blocks[0], Blocks::One(8192));
    assert_eq!(plan.warnings.len(), 1);
    assert!(lenient("[a]\nbs=x\n").is_err());
    assert!(lenient("[a]\nioengine=cpuio\n").is_err());
}

#[test]
fn files_run_one_after_the_other() {
    let files = [("a.fio", "[global]\nbs=8k\n[a]\n[b]\n"), ("b.fio", "[c]\n[d]\n")];
    let plan = parse(&["a.fio", "b.fio"], false, &Made::with(&files)).expect("read");
    let walls: Vec<bool> = plan.jobs.iter().map(|job| job.stonewall).collect();
    assert_eq!(walls, [false, false, true, false]);
    assert_eq!(plan.jobs[2].blocks[0], Blocks::One(4096), "globals end with their file");
}

#[test]
fn flags_are_options() {
    let words = |words: &[(&str, Option<&str>)]| {
        let words: Vec<_> =
            words.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect();
        parse_words(&words, false, &Made::default())
    };
    let plan = words(&[("bs", Some("8k")), ("name", Some("a")), ("rw", Some("write")), ("name", Some("b"))]);
    let plan = plan.expect("read");
    assert_eq!(plan.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(plan.jobs.iter().all(|job| job.blocks[0] == Blocks::One(8192)));
    assert!(plan.jobs[0].access.changes() && !plan.jobs[1].access.changes());
    let alone = words(&[("rw", Some("randread"))]).expect("read");
    assert_eq!((alone.jobs.len(), alone.jobs[0].name.as_str()), (1, "bench"));
    assert!(alone.jobs[0].access.random);
    let wrong = words(&[("bs", Some("x"))]).expect_err("wrong");
    assert!(wrong.to_string().starts_with("command line: bs=x"), "{wrong}");
}

#[test]
fn every_option_is_documented_and_has_one_meaning() {
    let text = include_str!("../../../../docs/fio.md");
    let mut all: Vec<&str> = Vec::new();
    for option in HONOURED {
        all.push(option.name);
        all.extend(option.aliases);
    }
    all.extend(TAKEN.iter().flat_map(|(names, _)| names.iter()));
    for name in &all {
        assert!(text.contains(&format!("`{name}`")), "docs/fio.md says nothing of {name}");
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "an option stands in two places");
}

proptest! {
    /// Sizes, shares and depths are parsed as written, wherever spaces and comments stand.
    #[test]
    fn what_is_written_is_read(
        kib in 1u64..16384, depth in 1u32..65536, share in 0u64..=100, spaces in "[ \t]{0,3}", comment in "[;#][ -~]{0,9}",
    ) {
        let text = format!(
            "[job]{comment}\n{spaces}bs{spaces}={spaces}{kib}k{spaces}{comment}\niodepth={depth}\nrwmixread={share}{comment}\n"
        );
        let job = plan(&text).jobs.remove(0);
        prop_assert_eq!(&job.blocks, &[kib, kib, kib].map(|kib| Blocks::One(kib << 10)));
        prop_assert_eq!((job.iodepth, job.reads), (depth, share));
    }

    /// Whatever a value is, it is taken or refused with its place, and what is taken keeps to the limits.
    #[test]
    fn any_value_is_taken_or_refused(at in 0..HONOURED.len(), value in "[0-9a-z:/%.,*()=^ -]{0,14}|\\PC{0,6}") {
        let text = format!("[job]\n{}={value}\n", HONOURED[at].name);
        match parse(&["a.fio"], false, &Made::with(&[("a.fio", &text)])) {
            Ok(plan) => {
                let job = &plan.jobs[0];
                for direction in DIRECTIONS {
                    let blocks = &job.blocks[direction.index()];
                    prop_assert!(blocks.least() > 0 && blocks.least() <= blocks.most() && blocks.most() <= 32 << 20);
                }
                prop_assert!(job.depth() > 0 && job.numjobs > 0 && job.loops > 0 && job.reads <= 100);
                prop_assert!(job.startdelay.0 <= job.startdelay.1 && job.percentiles.len() <= 20);
            }
            Err(error) => prop_assert!((1..=2).contains(&error.place.line), "{error}"),
        }
    }
}

/// Each option of fio, as fio itself lists them: it stands in a table, or is of those that change what is done.
#[test]
fn what_only_states_fios_default_is_taken() {
    use brindle_lab::job::{DEFAULTS, HONOURED, TAKEN};
    let Some(fio) = brindle_testkit::skip::or_skip(brindle_testkit::skip::find("fio")) else { return };
    let said = |flag: &str| {
        let output = std::process::Command::new(&fio).arg(flag).output().expect("fio runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let known = |name: &str| {
        let taken = TAKEN.iter().any(|(names, _)| names.contains(&name));
        taken || HONOURED.iter().any(|one| one.name == name || one.aliases.contains(&name))
    };
    let (mut stated, mut options) = (0, 0);
    for line in said("--cmdhelp=all").lines() {
        let Some((name, _)) = line.split_once(" : ") else { continue };
        let name = name.trim();
        options += 1;
        if name.contains(' ') || known(name) {
            continue;
        }
        let help = said(&format!("--cmdhelp={name}"));
        let Some(default) = help.lines().find_map(|line| line.trim().strip_prefix("default: ")) else {
            continue;
        };
        let default = default.trim();
        let own = DEFAULTS.iter().find(|(own, _)| *own == name).map(|(_, own)| *own);
        if default != "no default" && !["ioengine", "steadystate"].contains(&name) {
            assert_eq!(own, Some(default), "{name}");
            stated += 1;
        }
    }
    assert!(options > 150 && stated > 25, "{options} {stated}");
    for (name, default) in DEFAULTS {
        assert!(!known(name), "{name} is there twice");
        let file = format!("[a]\nrw=read\n{name}={default}\n");
        let text = |_: &str| Ok::<String, String>(file.clone());
        let plan = parse_text(&text, name);
        assert_eq!(plan, Ok(()), "{name}={default}");
        if default.parse::<f64>().is_ok() {
            let other = format!("[a]\nrw=read\n{name}=77\n");
            let text = |_: &str| Ok::<String, String>(other.clone());
            assert!(parse_text(&text, name).is_err(), "{name}=77 changes what is done");
        }
    }
}

#[test]
fn a_default_is_stated_in_fewer_words_or_in_a_unit() {
    let parsed = |option: &str| {
        let file = format!("[a]\nrw=randread\n{option}\n");
        let name = option.split('=').next().unwrap();
        parse_text(&|_: &str| Ok(file.clone()), name)
    };
    for option in [
        "percentage_random=100",
        "percentage_random=100,100",
        "write_hint=none",
        "rate_min=0",
        "rate_min=0k,0,0",
        "latency_window=0ms",
        "trim_percentage=0%",
    ] {
        assert_eq!(parsed(option), Ok(()), "{option}");
    }
    for option in [
        "percentage_random=50",
        "percentage_random=100,50",
        "percentage_random=100,100,100,100",
        "write_hint=short",
        "rate_min=0,1k",
        "latency_window=1ms",
        "disk_util=1,1",
        "zonesize=k",
    ] {
        assert!(parsed(option).is_err(), "{option}");
    }
}

fn parse_text(text: &dyn Fn(&str) -> Result<String, String>, name: &str) -> Result<(), String> {
    struct Around<'a>(&'a dyn Fn(&str) -> Result<String, String>);
    impl brindle_lab::job::Surroundings for Around<'_> {
        fn read(&self, file: &str) -> Result<String, String> {
            (self.0)(file)
        }
        fn variable(&self, _: &str) -> Option<String> {
            None
        }
        fn pagesize(&self) -> u64 {
            4096
        }
        fn mb_memory(&self) -> u64 {
            1024
        }
        fn ncpus(&self) -> u64 {
            1
        }
    }
    let plan = brindle_lab::job::parse(&["file"], false, &Around(text)).map_err(|why| why.to_string())?;
    let noted = plan.notes.iter().any(|note| note.option == name && note.effect.contains("default"));
    noted.then_some(()).ok_or_else(|| "it is not told of".to_owned())
}
