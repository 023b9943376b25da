//! Predictions: the same question has the same answer, and answers are what counted I/O allows.

use brindle_lab::drive::{Drive, parse, shipped};
use brindle_lab::predict::{
    Beside, Door, Kernel, Policies, PredictError, Predicted, Shape, Spec, job, predict, predict_long,
};
use brindle_layout::{Layout, Level};

fn drive(name: &str) -> Drive {
    parse(name, shipped(name).expect("it ships")).expect("a model")
}

fn spec(level: Level, members: u16, words: &[(&str, &str)]) -> Spec {
    let shape = Shape { level, layout: Layout::default_for(level), chunk: 64 << 10, members, bitmap: None };
    let job = job(words).expect("a load");
    Spec {
        drive: drive("nvme"),
        shape: Some(shape),
        policies: Policies::DrivesAlone,
        cores: 1,
        by_job: false,
        job,
    }
}

fn iops(spec: &Spec) -> f64 {
    predict(spec).expect("a prediction").outcome.mixed().iops()
}

const WRITES: [(&str, &str); 3] = [("rw", "randwrite"), ("bs", "4k"), ("iodepth", "256")];

#[test]
fn the_same_question_has_the_same_answer() {
    let of = |predicted: &Predicted| (predicted.digest, predicted.operations, predicted.outcome.ios());
    let spec = spec(Level::Raid5, 4, &WRITES);
    let first = predict(&spec).expect("a prediction");
    assert_eq!(of(&first), of(&predict(&spec).expect("a prediction")));
    let other = Spec { job: job(&[("rw", "randread"), ("bs", "4k")]).expect("a load"), ..spec };
    assert_ne!(first.digest, predict(&other).expect("a prediction").digest);
    assert_eq!(first.busy.len(), 4);
    assert!(first.busy.iter().all(|busy| (500..=1000).contains(busy)), "{:?}", first.busy);
    assert_eq!((first.processor, first.drives_carry), (0, None));
}

#[test]
fn one_core_carries_what_it_does_and_says_what_it_does_not() {
    let reads = [("rw", "randread"), ("bs", "4k"), ("iodepth", "512")];
    let drives = spec(Level::Raid0, 8, &reads);
    let by =
        |door| predict(&Spec { policies: Policies::Brindle(door), ..drives.clone() }).expect("a prediction");
    let core = by(Door::Tcp);
    let carried = core.outcome.mixed().iops();
    // A socket's request and a member's operation take some 6.6 us: docs/bench/iscsi.md.
    assert!((145_000.0..160_000.0).contains(&carried), "{carried}");
    assert!((970..=1000).contains(&core.processor), "{}", core.processor);
    let times = core.drives_carry.expect("the drives carry more");
    assert!((carried * times / iops(&drives) - 1.0).abs() < 0.01, "{times}");
    let [unix, iscsi, inside] = [Door::Unix, Door::Iscsi, Door::InProcess].map(|door| {
        let predicted = by(door);
        assert!(predicted.processor >= 970, "{door:?}");
        predicted.outcome.mixed().iops()
    });
    // Each core is busy all the time, so that rates differ by the time of a request: 4.54, 4.26, 3.16 and 0 us, with 2.06 us beside it.
    let near = |rate: f64, nanos: f64| (rate * nanos / 1e9 - 1.0).abs() < 0.02;
    assert!(near(carried, 6_596.0) && near(unix, 6_320.0), "{carried} {unix}");
    assert!(near(iscsi, 5_224.0) && near(inside, 2_060.0), "{iscsi} {inside}");
    let shy = [("rw", "randread"), ("bs", "4k")];
    let shy = Spec { policies: Policies::Brindle(Door::Tcp), ..spec(Level::Raid0, 8, &shy) };
    let shy = predict(&shy).expect("a prediction");
    assert!(shy.processor < 200 && shy.drives_carry.is_none(), "{}", shy.processor);
}

/// Drives that carry more than cores do: what several do, beside one.
#[test]
fn cores_carry_at_most_so_many_times_as_much() {
    let words = |rw| [("rw", rw), ("bs", "4k"), ("iodepth", "1024")];
    for (level, rw, most) in [
        (Level::Raid0, "randread", 1.0),
        (Level::Raid0, "randwrite", 1.0),
        // A copy that goes by its place costs a channel less than home's choice.
        (Level::Raid10, "randread", 1.05),
        (Level::Raid5, "randread", 1.0),
        (Level::Raid6, "randread", 1.0),
        (Level::Raid5, "randwrite", 1.0),
        (Level::Raid6, "randwrite", 1.0),
    ] {
        let one = Spec { policies: Policies::Brindle(Door::InProcess), ..spec(level, 12, &words(rw)) };
        let of = |cores| predict(&Spec { cores, ..one.clone() }).expect("a prediction");
        let (alone, cores) = (of(1).outcome.mixed().iops(), [2, 3]);
        for (cores, predicted) in cores.map(|cores| (cores, of(cores))) {
            let times = predicted.outcome.mixed().iops() / alone;
            let share = times / f64::from(cores);
            assert!((0.97..most).contains(&share), "{level:?} {rw}: {cores} do {times:.2} times as many");
            assert!(predicted.is_by_all_cores() && predicted.drives_carry.is_some(), "{predicted:?}");
        }
    }
}

/// The same to the byte as one core.
#[test]
fn sessions_that_one_core_has_gain_nothing_by_others() {
    let reads = [("rw", "randread"), ("bs", "4k"), ("iodepth", "512")];
    let by = |door, cores, by_job| {
        let spec = Spec { policies: Policies::Brindle(door), cores, by_job, ..spec(Level::Raid0, 8, &reads) };
        predict(&spec).expect("a prediction")
    };
    let digest = |predicted: Predicted| (predicted.digest, predicted.outcome.ios());
    let (iscsi, of_two) = (by(Door::Iscsi, 1, false), by(Door::Iscsi, 2, false));
    assert_eq!((iscsi.processor / 2, of_two.busiest), (of_two.processor, iscsi.busiest));
    assert!(of_two.drives_carry == iscsi.drives_carry && !of_two.is_by_all_cores());
    assert_eq!(digest(iscsi), digest(of_two));
    let tcp = |cores, by_job| digest(by(Door::Tcp, cores, by_job));
    assert_eq!(tcp(1, false), tcp(4, true), "a job is one session");
    assert!(tcp(4, false).1 > 0 && tcp(4, false) != tcp(1, false));
}

#[test]
fn what_drives_limit_is_the_same_on_more_cores() {
    for (name, level, rw, bs) in [
        ("hdd-7200", Level::Raid5, "randread", "4k"),
        ("hdd-7200", Level::Raid1, "randwrite", "4k"),
        ("evo850", Level::Raid10, "randread", "64k"),
    ] {
        let words = [("rw", rw), ("bs", bs), ("iodepth", "64")];
        let one =
            Spec { drive: drive(name), policies: Policies::Brindle(Door::Tcp), ..spec(level, 4, &words) };
        let [one, four] = [1, 4].map(|cores| iops(&Spec { cores, ..one.clone() }));
        assert!((four / one - 1.0).abs() < 0.02, "{name} {rw}: {four:.0} beside {one:.0}");
    }
}

#[test]
fn mirrors_write_twice_and_read_from_both() {
    let one = iops(&Spec { shape: None, ..spec(Level::Raid1, 1, &WRITES) });
    let pair = iops(&spec(Level::Raid1, 2, &WRITES));
    assert!((0.93..1.02).contains(&(pair / one)), "writes: {pair:.0} against {one:.0}");
    let reads = [("rw", "randread"), ("bs", "64k"), ("iodepth", "64")];
    let one = iops(&Spec { shape: None, ..spec(Level::Raid1, 1, &reads) });
    let pair = iops(&spec(Level::Raid1, 2, &reads));
    assert!((1.85..2.02).contains(&(pair / one)), "reads: {pair:.0} against {one:.0}");
}

#[test]
fn a_fine_bitmap_costs_writes_in_sequence_and_a_coarse_one_nearly_nothing() {
    let writes = [("rw", "write"), ("bs", "1m"), ("iodepth", "4")];
    let plain = Spec { drive: drive("hdd-7200"), ..spec(Level::Raid5, 3, &writes) };
    let marked = |chunk: u64| {
        let shape = plain.shape.map(|shape| Shape { bitmap: Some(chunk), ..shape });
        predict(&Spec { shape, ..plain.clone() }).map(|predicted| predicted.outcome.mixed().iops())
    };
    let [without, fine, coarse] = [Ok(iops(&plain)), marked(16 << 20), marked(1 << 30)].map(Result::unwrap);
    assert!(fine < 0.985 * without && coarse > 0.99 * without, "{fine} {coarse} {without}");
    assert!(matches!(marked(4 << 10), Err(PredictError::Create(_))), "more bits than there is room for");
    // Chunks that are written all the while keep their bits set.
    let hot = [("rw", "randwrite"), ("bs", "4k"), ("iodepth", "4"), ("size", "1g")];
    let hot = Spec { drive: drive("hdd-7200"), ..spec(Level::Raid1, 2, &hot) };
    let shape = hot.shape.map(|shape| Shape { bitmap: Some(64 << 20), ..shape });
    let share = iops(&Spec { shape, ..hot.clone() }) / iops(&hot);
    assert!((0.9..1.02).contains(&share), "{share}");
}

/// Chunks are larger and rounds come more often in a prediction: what that comes to is what a long run does.
#[test]
fn a_bitmaps_shortened_rounds_come_to_what_a_long_run_does() {
    let errors = [
        ("nvme-consumer", Level::Raid5, 5, "1", 512 << 20, 240),
        ("nvme-consumer", Level::Raid5, 5, "1", 1 << 30, 16),
        ("hdd-7200", Level::Raid1, 2, "4", 64 << 20, 200),
        ("nvme", Level::Raid5, 4, "1", 64 << 20, 10),
    ]
    .map(|(name, level, members, depth, chunk, seconds)| {
        let words = [("rw", "randwrite"), ("bs", "4k"), ("iodepth", depth)];
        let plain = Spec { drive: drive(name), ..spec(level, members, &words) };
        let shape = plain.shape.map(|shape| Shape { bitmap: Some(chunk), ..shape });
        let marked = Spec { shape, policies: Policies::LinuxMd(Kernel::USUAL), ..plain };
        let short = iops(&marked);
        let span = brindle_io::Duration::from_secs(seconds);
        let long = predict_long(&marked, span).expect("a prediction").outcome.mixed().iops();
        short / long - 1.0
    });
    assert!(errors.iter().all(|error| error.abs() < 0.02), "{errors:?}");
}

/// Pages take 5.7 ms, whatever waits for them. One write after the other would come to 500 a second.
#[test]
fn one_flight_of_pages_serves_all_writes_that_wait() {
    let words = [("rw", "randwrite"), ("bs", "4k"), ("iodepth", "32")];
    let plain = Spec { drive: drive("nvme-consumer"), ..spec(Level::Raid1, 2, &words) };
    let shape = plain.shape.map(|shape| Shape { bitmap: Some(4 << 20), ..shape });
    let marked = Spec { shape, policies: Policies::LinuxMd(Kernel::USUAL), ..plain };
    let first = predict(&marked).expect("a prediction").at_first.expect("a bitmap");
    assert!((2000.0..6000.0).contains(&first), "{first}");
}

#[test]
fn md_reads_a_mirror_from_the_nearest_and_its_parity_thread_is_a_limit() {
    let reads = [("rw", "randread"), ("bs", "1024k")];
    let ours = spec(Level::Raid10, 4, &reads);
    let nearest = Spec { policies: Policies::LinuxMd(Kernel::PUBLISHED), ..ours.clone() };
    let pending = Spec { policies: Policies::LinuxMd(Kernel::USUAL), ..ours.clone() };
    let [ours, nearest, pending] = [&ours, &nearest, &pending].map(iops);
    assert!(nearest < 0.75 * ours && pending > 0.9 * ours, "{nearest} {pending} {ours}");
    let md = Spec { policies: Policies::LinuxMd(Kernel::PUBLISHED), ..spec(Level::Raid6, 12, &WRITES) };
    let threads = Spec { cores: 4, ..md.clone() };
    let (one, four) = (iops(&md), iops(&threads));
    assert!((38_000.0..40_500.0).contains(&one), "25 us for each: {one:.0}");
    assert!(four > 3.5 * one, "{four:.0}");
}

/// Seen of Linux 7.2.7 with one read in flight: 64 reads of 128 KiB are 64 whole reads of one member, in sequence and at random.
#[test]
fn md_reads_whole_and_stays_with_the_first_idle_copy() {
    let rate = |level, members, words: &[(&str, &str)], name: &str, kernel: &str| {
        let policies = Policies::LinuxMd(kernel.parse().expect("a kernel"));
        let alone = spec(level, members, words);
        let shape = alone.shape.filter(|_| members > 1);
        let spec = Spec { drive: drive(name), shape, policies, ..alone };
        predict(&spec).expect("a prediction").outcome.mixed().bandwidth()
    };
    for (name, kernel) in [("evo850", "6.12"), ("evo850", "4.11"), ("hdd-7200", "6.12")] {
        for words in [[("rw", "randread"), ("bs", "64k")], [("rw", "read"), ("bs", "64k")]] {
            let one = rate(Level::Raid0, 1, &words, name, kernel);
            for (level, members) in [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid10, 2)] {
                let times = rate(level, members, &words, name, kernel) / one;
                assert!(
                    (0.9..1.1).contains(&times),
                    "{level:?} of {members} {name} {kernel} {words:?}: {times}"
                );
            }
        }
    }
    // Where all members hold all of it, a read larger than a chunk is not cut by Linux 6.1; 6.12 cuts it, and asks both.
    let words = [("rw", "randread"), ("bs", "1m")];
    let times = |kernel| {
        rate(Level::Raid10, 2, &words, "evo850", kernel) / rate(Level::Raid0, 1, &words, "evo850", kernel)
    };
    assert!((0.9..1.1).contains(&times("6.1")) && times("6.12") > 1.5, "{} {}", times("6.1"), times("6.12"));
    // So it is with a bitmap.
    let whole = spec(Level::Raid10, 2, &words);
    let shape = whole.shape.map(|shape| Shape { bitmap: Some(64 << 20), ..shape });
    let policies = Policies::LinuxMd("6.12".parse().expect("a kernel"));
    let whole = Spec { drive: drive("evo850"), shape, policies, ..whole };
    let times = predict(&whole).expect("a prediction").outcome.mixed().bandwidth()
        / rate(Level::Raid0, 1, &words, "evo850", "6.12");
    assert!(times > 1.5, "{times}");
    // Two of a stream are in flight: RAID 1 stays with it.
    let words = [("rw", "read"), ("bs", "512k"), ("iodepth", "4")];
    let times =
        rate(Level::Raid1, 2, &words, "evo850", "6.12") / rate(Level::Raid0, 1, &words, "evo850", "6.12");
    assert!((0.9..1.1).contains(&times), "{times}");
}

#[test]
fn what_can_not_be_is_refused() {
    for cores in [0, 1025] {
        let spec = Spec { cores, policies: Policies::Brindle(Door::Tcp), ..spec(Level::Raid5, 4, &WRITES) };
        assert!(matches!(predict(&spec), Err(PredictError::Range { what: "--cores", .. })), "{cores}");
    }
    assert!(matches!(predict(&spec(Level::Raid6, 2, &WRITES)), Err(PredictError::Geometry(_))));
    assert!(job(&[("rw", "sideways")]).is_err());
}

#[test]
fn beside_an_array_stand_its_drives_alone_and_what_counted_io_allows() {
    let beside = Beside::default();
    let deep = |rw| [("rw", rw), ("bs", "4k"), ("iodepth", "1024")];
    let mut all = Vec::new();
    for (level, members, rw, jbod) in [
        (Level::Raid0, 4, "randread", 1.0),
        (Level::Raid10, 4, "randwrite", 0.5),
        // Six operations for each write, of which half are reads, which these drives are quicker with.
        (Level::Raid6, 6, "randwrite", 0.25),
    ] {
        let spec = spec(level, members, &deep(rw));
        let own = predict(&spec).expect("a prediction").outcome.mixed().bandwidth();
        let alone = beside.jbod(&spec).expect("drives").expect("an array");
        let limit = beside.limit(&spec).expect("drives").expect("no trim");
        all.push((level, own / alone, own / limit));
        assert!((own / alone / jbod - 1.0).abs() < 0.2, "to JBOD: {all:?}");
        assert!((0.9..1.05).contains(&(own / limit)), "to the limit: {all:?}");
    }
    let shy = spec(Level::Raid0, 4, &[("rw", "randread"), ("bs", "4k")]);
    let own = iops(&shy) * 4096.0;
    assert!(own / beside.limit(&shy).expect("drives").expect("no trim") < 0.05, "one request in flight");
    let one = Spec { shape: None, ..shy };
    assert_eq!(beside.jbod(&one).expect("nothing is asked"), None);
}

#[test]
fn what_comes_together_of_a_sequence_is_counted_as_one() {
    let beside = Beside::default();
    let words = [("rw", "write"), ("bs", "4k"), ("iodepth", "256")];
    let spec = spec(Level::Raid6, 4, &words);
    let own = predict(&spec).expect("a prediction").outcome.mixed().bandwidth();
    let limit = beside.limit(&spec).expect("drives").expect("no trim");
    assert!((0.3..1.03).contains(&(own / limit)), "to the limit: {}", own / limit);
}

#[test]
fn a_disks_cache_is_full_before_anything_counts() {
    let writes = |depth| [("rw", "randwrite"), ("bs", "16k"), ("iodepth", depth)];
    let disk =
        |depth| Spec { drive: drive("hdd-7200"), shape: None, ..spec(Level::Raid0, 1, &writes(depth)) };
    let (one, many) = (iops(&disk("1")), iops(&disk("64")));
    assert!(
        (0.4..1.3).contains(&(one / many)) && many < 1000.0,
        "{one} with one in flight, {many} with many"
    );
    let words = [("rw", "randwrite"), ("bs", "16k")];
    let through = iops(&Spec {
        drive: drive("hdd-7200").without_write_cache(),
        shape: None,
        ..spec(Level::Raid0, 1, &words)
    });
    assert!((2.0..5.0).contains(&(one / through)), "{one} with a cache, {through} without");
}

#[test]
fn nothing_is_read_ahead_past_parity_and_large_writes_do_not_wait_for_all_of_it() {
    let evo = |level, rw, bs| {
        let words = [("rw", rw), ("bs", bs)];
        let shape =
            Shape { level, layout: Layout::default_for(level), chunk: 32 << 10, members: 4, bitmap: None };
        let policies = Policies::LinuxMd(Kernel::PUBLISHED);
        let job = job(&words).expect("a load");
        let spec =
            Spec { drive: drive("evo850"), shape: Some(shape), policies, cores: 1, by_job: false, job };
        predict(&spec).expect("a prediction").outcome.mixed().bandwidth() / 1_048_576.0
    };
    for bs in ["8k", "16k", "32k"] {
        let (with, without) = (evo(Level::Raid5, "read", bs), evo(Level::Raid0, "read", bs));
        // No figure tells that a drive reads on beyond a chunk of parity: what follows it begins as a random read does.
        assert!((0.6..0.98).contains(&(with / without)), "{bs}: {with} against {without}");
    }
    // Four blocks of each stripe are written, of which three are data: 24.9 us for 12 KiB.
    let written = evo(Level::Raid5, "write", "20000k");
    assert!((455.0..475.0).contains(&written), "{written}");
}

#[test]
fn a_long_queue_before_a_modelled_drive_fails_it_not() {
    // Four operations of some milliseconds for each write: what is sent last waits for longer than the engine does for a member.
    let words = [("rw", "randwrite"), ("bs", "4k"), ("iodepth", "6000")];
    let slow = Spec { drive: drive("hdd-7200"), ..spec(Level::Raid5, 4, &words) };
    let predicted = predict(&slow).expect("a prediction");
    let longest = predicted.outcome.mixed().total.max();
    assert!(longest > 20_000_000_000, "no drive is asked for so much: {longest} ns");
    // One that was failed would have nothing to do from then on.
    let (least, most) = (predicted.busy.iter().min(), predicted.busy.iter().max());
    assert!(least.is_some_and(|least| *least > 950) && most.is_some(), "{:?}", predicted.busy);
}
