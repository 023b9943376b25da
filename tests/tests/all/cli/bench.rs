//! `brindle bench`: fio's jobs on arrays, files and exports, as a user asks for them.

use std::fs;
use std::process::Command;

use brindle_tests::files::MIB;
use brindle_tests::program::{self, Ran};
use serde_json::Value;

use super::{Set, name, run};

/// The figures of a job's direction in a report.
fn figures<'a>(report: &'a Value, job: usize, direction: &str) -> &'a Value {
    &report["jobs"][job][direction]
}

fn ios(report: &Value, job: usize, direction: &str) -> u64 {
    figures(report, job, direction)["total_ios"].as_u64().expect("a number")
}

#[test]
fn an_array_is_read_by_flags_and_left_as_it_is() {
    let set = Set::raid5(3);
    set.unchanged(|| {
        let flags = "bench --rw=randread --bs=4k --iodepth=8 --number_ios=500 --output-format=json --array";
        let report = set.run(flags).json();
        assert_eq!(ios(&report, 0, "read"), 500);
        assert_eq!(report["jobs"][0]["job options"]["iodepth"], "8");
        assert!(figures(&report, 0, "read")["clat_ns"]["percentile"]["99.000000"].as_u64().is_some());
        let text = set.run("bench --name=look --rw=read --bs=64k --array").ok().text();
        assert!(text.contains("look: group 0, rw=read, bs=64k") && text.contains("read  "), "{text}");
    });
}

#[test]
fn writing_needs_the_users_word_and_leaves_a_sound_array() {
    let set = Set::raid5(4);
    let flags = "bench --rw=randwrite --bsrange=4k-64k --iodepth=16 --verify=crc32c --output-format=json";
    set.unchanged(|| {
        let refused = set.run(&format!("{flags} --array")).ended(2);
        assert!(
            refused.err.contains("job 'bench' writes") && refused.err.contains("--force"),
            "{}",
            refused.err
        );
        let refused = set.run("bench --precondition --array").ended(2);
        assert!(refused.err.contains("--precondition writes"), "{}", refused.err);
    });
    let report = set.run(&format!("{flags} --force --array")).json();
    assert!(ios(&report, 0, "write") > 100);
    assert_eq!(ios(&report, 0, "read"), ios(&report, 0, "write"), "each write was verified");
    set.run("check").ok();
    assert_eq!(super::state(&set.detail()), ["clean"]);
}

#[test]
fn job_files_are_fios() {
    let set = Set::random(1, MIB);
    let file = set.path("job.fio");
    let bench = |flags: &str, text: &str| {
        fs::write(&file, text).unwrap();
        run(&format!("bench {} {flags} --device", name(&file)), &set.members)
    };
    let jobs =
        "[global]\nioengine=psync\nsize=50%\n[one]\nrw=read\nbs=${BLOCK}4k\n[two]\nstonewall\nrw=randread\n";
    let ran = bench("--output-format=json", jobs).ended(0);
    assert!(ran.err.contains("job.fio:2: ioengine: one request in flight"), "{}", ran.err);
    let report = ran.report();
    assert_eq!((ios(&report, 0, "read"), ios(&report, 1, "read")), (128, 128));
    assert_eq!(report["global options"]["size"], "50%");
    assert_eq!(report["jobs"][1]["groupid"], 1);
    let unknown = "[one]\nrw=read\nzonemode=zbd\n";
    let refused = bench("", unknown).ended(2);
    assert!(refused.err.contains("job.fio:3: option 'zonemode' is not supported"), "{}", refused.err);
    let lenient = bench("--lenient --output-format=json", unknown).ended(0);
    assert!(lenient.err.contains("zonemode") && lenient.report()["brindle left out"][0].is_string());
    assert!(bench("--bs=4k", jobs).ended(2).err.contains("not both"));
    assert!(bench("", "[one]\nbs=1m\nsize=10g\n").ended(1).err.contains("goes beyond the end"));
}

#[test]
fn devices_are_asked_in_turn_and_logs_stand_in_the_current_folder() {
    let set = Set::random(3, MIB);
    let mut command = Command::new(program::path());
    command.current_dir(set.dir.path()).args([
        "bench",
        "--name=x",
        "--rw=read",
        "--bs=64k",
        "--write_lat_log=y",
    ]);
    command.args(["--output-format=json+", "--device"]).args(&set.members);
    let report = Ran::of(command).json();
    assert_eq!(ios(&report, 0, "read"), 48, "all of each");
    assert!(figures(&report, 0, "read")["clat_ns"]["bins"].is_object());
    let log = fs::read_to_string(set.path("y_lat.1.log")).unwrap();
    assert_eq!(log.lines().count(), 48);
}

#[test]
fn job_files_behind_the_devices_are_not_written_to_and_fios_flags_are_taken() {
    let set = Set::random(2, MIB);
    let file = set.path("job.fio");
    let job = "[one]\nrw=write\nnumber_ios=3\n";
    fs::write(&file, job).unwrap();
    let flags = "bench --force --output-format=json --device";
    let words = |last: &str| {
        let words = flags.split(' ').chain(set.members.iter().map(|member| name(member)));
        program::brindle(words.chain(last.split(' ')))
    };
    let report = words(name(&file)).json();
    assert_eq!(ios(&report, 0, "write"), 3);
    assert_eq!(fs::read_to_string(&file).unwrap(), job, "a job file is not a device");
    program::brindle(["bench", "--device", name(&file)]).refused(2, &["only job files are named"]);
    words(&format!("{} --suite latency", name(&file))).refused(2, &["job.fio is a job file"]);
    let taken =
        words("--name=x --filename=/dev/x --direct=1 --thread --invalidate=0 --time_based --runtime=50ms");
    let ran = taken.ended(0);
    assert!(ran.err.contains("filename: without effect: the target is named"), "{}", ran.err);
    let options = &ran.report()["jobs"][0]["job options"];
    assert_eq!((&options["filename"], &options["name"]), (&"/dev/x".into(), &"x".into()), "{options}");
    assert!(
        options["thread"].is_null() && options["time_based"].is_null(),
        "words alone have no value: {options}"
    );
}

#[test]
fn what_happens_over_time_is_written_and_drawn() {
    let set = Set::raid5(3);
    let (table, page) = (set.path("t.csv"), set.path("t.html"));
    let series = format!("--series {} --series {}", name(&table), name(&page));
    set.run(&format!("bench --rw=randread --runtime=300ms --time_based --log_avg_msec=50 {series} --array"))
        .ok();
    let text = fs::read_to_string(&table).unwrap();
    assert!(
        text.starts_with("job,direction,seconds,iops,mb_s,mean_us,max_us\n\"bench\",read,0.050,"),
        "{text}"
    );
    assert!(text.lines().count() > 4, "{text}");
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("\"name\":\"bench read\"") && page.contains("Longest latency"), "{page:.9000}");
}

#[test]
fn an_export_is_measured_and_its_members_are_not_to_be_had_beside() {
    let set = Set::raid5(3);
    let server = set.serve("");
    let uri = server.uri();
    let report = run(
        &format!("bench --nbd {uri} --force --rw=randrw --number_ios=200 --iodepth=4 --output-format=json"),
        &[],
    )
    .json();
    assert_eq!(ios(&report, 0, "read") + ios(&report, 0, "write"), 200);
    let refused = set.run("bench --rw=write --force --device").ended(1);
    assert!(refused.err.contains("uses it"), "{}", refused.err);
}

#[test]
fn rounds_end_when_they_are_steady_or_there_have_been_enough() {
    let set = Set::random(1, MIB);
    let flags = "bench --until-steady --rw=read --number_ios=20 --output-format=json --device";
    let report = set.run(flags).json();
    let steady = &report["brindle steady state"];
    let rounds = steady["rounds"].as_array().expect("rounds").len();
    assert!((5..=25).contains(&rounds) && (steady["attained"] == true || rounds == 25), "{steady}");
}

#[test]
fn a_target_is_needed_and_only_one() {
    for words in ["bench --rw=read", "bench --nbd nbd://h --device x", "bench --nbd x"] {
        run(words, &[]).ended(2);
    }
    let gone = run("bench --nbd nbd+unix:///?socket=/nowhere/x", &[]).ended(1);
    assert!(gone.err.contains("can't be connected to"), "{}", gone.err);
}

#[test]
fn suites_measure_what_they_may_and_score_it() {
    let set = Set::raid5(3);
    set.unchanged(|| {
        let ran = set.run("bench --suite gnome-disks --output-format=json --array").ended(0);
        assert!(ran.err.contains("without --force jobs that write are left out: write-rate"), "{}", ran.err);
        let report = ran.report();
        assert_eq!(ios(&report, 0, "read"), 100);
        let suite = &report["brindle suite"];
        assert_eq!((&suite["name"], &suite["left_out"][0]), (&"gnome-disks".into(), &"write-rate".into()));
        let names: Vec<_> = suite["scores"].as_array().unwrap().iter().map(|score| &score["name"]).collect();
        assert_eq!(names, ["read-rate", "access-time"]);
        assert!(suite["scores"][0]["value"].as_f64().unwrap() > 0.0);
        let ran = set.run("bench --suite chunk-table --runtime=10ms --size=4m --array");
        assert!(ran.err.contains("suite chunk-table varies chunk"), "{}", ran.err);
        let own = set.path("own.toml");
        fs::write(&own, "[[job]]\nname = 'w'\nrw = 'write'\n").unwrap();
        let refused = set.run(&format!("bench --suite {} --array", name(&own))).ended(2);
        assert!(refused.err.contains("job 'w' writes"), "{}", refused.err);
        fs::write(&own, "[[job]]\nname = 'w'\nzonemode = 1\n").unwrap();
        let refused = set.run(&format!("bench --suite {} --array", name(&own))).ended(2);
        assert!(refused.err.contains("own.toml:1: job 'w': option 'zonemode'"), "{}", refused.err);
        let refused = set.run("bench --suite nothing --array").ended(1);
        assert!(refused.err.contains("no suite of this name ships (as-ssd, "), "{}", refused.err);
    });
    let large = Set::random(2, 16 * MIB);
    let text = large.run("bench --suite as-ssd --runtime=10ms --force --device").ok().text();
    assert!(text.contains("as-ssd, total: ") && text.contains(" MiB/s"), "{text}");
}

#[test]
fn traces_are_replayed_and_weighed() {
    let set = Set::raid5(3);
    let reads = set.path("reads.log");
    fs::write(&reads, "fio version 3 iolog\n0 f add\n10 f read 0 4096\n900000000 f read 65536 8192\n")
        .unwrap();
    let writes = set.path("writes.csv");
    fs::write(&writes, "1,h,0,Write,0,4096,1\n2,h,0,Read,1000000000512,512,1\n").unwrap();
    let weights = set.path("set.toml");
    fs::write(&weights, "[[trace]]\nfile = 'reads.log'\nweight = 2\n[[trace]]\nfile = 'writes.csv'\n")
        .unwrap();
    set.unchanged(|| {
        let flags = format!("bench --trace {} --max-idle 1ms --output-format=json --array", name(&reads));
        let report = set.run(&flags).json();
        assert_eq!((ios(&report, 0, "read"), report["jobs"][0]["jobname"].as_str()), (2, Some("reads")));
        let trace = &report["brindle replay"]["traces"][0];
        assert_eq!((trace["requests"].as_u64(), trace["span_ns"].as_u64()), (Some(2), Some(899_999_990_000)));
        assert!(report["brindle replay"]["index"].is_null());
        let flags = format!("bench --full-speed --trace-set {}", name(&weights));
        let refused = set.run(&format!("{flags} --array")).ended(2);
        assert!(
            refused.err.contains("writes.csv writes") && refused.err.contains("--force"),
            "{}",
            refused.err
        );
        fs::write(set.path("broken.csv"), "1,h,0,Read,0,4096,1\n2,h,0,Rad,0,512,1\n").unwrap();
        let broken = set.run(&format!("bench --trace {} --array", name(&set.path("broken.csv")))).ended(1);
        assert!(broken.err.contains("broken.csv:2: 'Rad' is not a kind of request"), "{}", broken.err);
        let unknown = set.run(&format!("bench --trace {} --array", name(&weights))).ended(1);
        assert!(unknown.err.contains("--trace-format"), "{}", unknown.err);
        let both = set.run(&format!("bench --rw=read --trace {} --array", name(&reads))).ended(2);
        assert!(both.err.contains("leave out options of jobs"), "{}", both.err);
    });
    let flags = format!("bench --full-speed --force --trace-set {} --output-format=json", name(&weights));
    let beyond = set.run(&format!("{flags} --array")).ended(1);
    assert!(
        beyond.err.contains("writes.csv: goes up to byte") && beyond.err.contains("--wrap"),
        "{}",
        beyond.err
    );
    let report = set.run(&format!("{flags} --wrap --array")).json();
    assert_eq!((ios(&report, 1, "write"), ios(&report, 1, "read")), (1, 1));
    let replay = &report["brindle replay"];
    assert_eq!((&replay["traces"][0]["weight"], &replay["traces"][1]["moved"]), (&2.0.into(), &1.into()));
    assert!(replay["index"]["mean_us"].as_f64().unwrap() > 0.0);
    set.run("check").ok();
}

#[test]
fn columns_pace_and_depth_of_a_trace_are_as_they_are_given() {
    let set = Set::raid5(3);
    let (trace, map) = (set.path("own.txt"), set.path("map.toml"));
    // Milliseconds, sectors, and the kind.
    fs::write(&trace, "0,0,8,0\n100,128,8,0\n").unwrap();
    let units = "time_unit = \"ms\"\noffset_unit = 512\nsize_unit = 512\n";
    let columns = "time = 1\noffset = 2\nsize = 3\nkind = 4\nread = [\"0\"]\nwrite = [\"1\"]\n";
    fs::write(&map, format!("{columns}{units}")).unwrap();
    let replay = format!("bench --trace {} --trace-columns {}", name(&trace), name(&map));
    let flags = format!("{replay} --time-scale 3 --trace-depth 1 --output-format=json --array");
    let report = set.run(&flags).json();
    assert_eq!(ios(&report, 0, "read"), 2);
    assert_eq!(report["brindle replay"]["traces"][0]["span_ns"], 100_000_000);
    assert!(report["jobs"][0]["job_runtime"].as_u64().unwrap() >= 300, "{report}");
    for (flag, why) in [("--trace-depth 0", "0 is not in 1..=65536"), ("--time-scale 0", "not a factor")] {
        let refused = set.run(&format!("{replay} {flag} --array")).ended(2);
        assert!(refused.err.contains(why), "{}", refused.err);
    }
}

/// A job of each kind of header: its name, and its options in fio's words.
const VERIFIED: &[(&str, &str)] = &[
    ("crc32c", ""),
    ("crc32c-intel", "bs=16k"),
    ("crc32", ""),
    ("crc16", ""),
    ("crc7", ""),
    ("crc64", "verify_interval=1k"),
    ("xxhash", ""),
    ("md5", "verify_offset=1000"),
    ("sha1", ""),
    ("sha256", "verify_interval=512"),
    ("sha512", "verify_interval=2k"),
    ("sha3-224", ""),
    ("sha3-256", ""),
    ("sha3-384", ""),
    ("sha3-512", ""),
    ("meta", "verify_pattern=0xdeadbe"),
    ("pattern", "verify_pattern=0x11%o0xabcdef"),
    ("crc32c", "bsrange=4k-16k\nrw=randREST"),
    ("md5", "bssplit=8k/50:16k/50\nrw=randREST\nverify_interval=3k"),
    ("xxhash", "bs=16k,4k\nrw=randREST"),
];
const PART: u64 = 64 << 10;

/// The jobs on parts of `file` of their own, that write or read.
fn verified(file: &str, does: &str) -> String {
    let mut text =
        format!("[global]\nioengine=psync\nfilename={file}\nsize={PART}\ndo_verify=0\nrw={does}\nbs=4k\n");
    for (at, (kind, options)) in VERIFIED.iter().enumerate() {
        let options = options.replace("REST", does);
        text += &format!("[{kind}-{at}]\nstonewall\noffset={}\nverify={kind}\n{options}\n", at as u64 * PART);
    }
    text
}

#[test]
fn content_is_verified_as_fio_does_in_both_directions() {
    use std::os::unix::fs::FileExt;

    let Some(fio) = brindle_testkit::skip::or_skip(brindle_testkit::skip::find("fio")) else { return };
    let set = Set::random(1, 0);
    let target = set.path("content");
    let size = VERIFIED.len() as u64 * PART;
    let job = |does: &str| {
        let path = set.path(&format!("{does}.fio"));
        fs::write(&path, verified(target.to_str().expect("a name"), does)).unwrap();
        path
    };
    let own = |does: &str| {
        run(
            &format!("bench {} --force --output-format=json --device", name(&job(does))),
            std::slice::from_ref(&target),
        )
    };
    let theirs = |does: &str| {
        let ran = Command::new(&fio)
            .arg(job(does))
            .arg("--minimal")
            .current_dir(set.dir.path())
            .output()
            .expect("fio runs");
        (ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let blank = || fs::File::create(&target).and_then(|file| file.set_len(size)).expect("a file");
    let flip = |at: u64| {
        let file = fs::File::options().read(true).write(true).open(&target).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    };
    blank();
    let unwritten = own("read").ended(1).report();
    assert!(
        unwritten["jobs"].as_array().unwrap().iter().all(|job| job["error"] == 84),
        "nothing was written"
    );
    assert_eq!(
        (&unwritten["jobs"][0]["first_error"], &unwritten["jobs"][0]["total_err"]),
        (&84.into(), &1.into())
    );
    let (done, said) = theirs("write");
    assert!(done, "{said}");
    let read = own("read").ended(0).report();
    for (at, (kind, options)) in VERIFIED.iter().enumerate() {
        assert_eq!(figures(&read, at, "read")["io_bytes"], PART, "{kind} {options}");
    }
    // One byte of each part's data, near the end of a block: fio's SHA-512 covers only the first 128 bytes and the last.
    (0..VERIFIED.len() as u64).for_each(|at| flip(at * PART + 10230));
    let broken = own("read").ended(1).report();
    let found: Vec<bool> = broken["jobs"].as_array().unwrap().iter().map(|job| job["error"] == 84).collect();
    assert_eq!(found, vec![true; VERIFIED.len()]);
    blank();
    own("write").ended(0);
    let (done, said) = theirs("read");
    assert!(done && !said.contains("verify"), "{said}");
    flip(3 * PART + 10230);
    let (done, said) = theirs("read");
    assert!(!done && said.contains("crc16"), "{said}");
}
