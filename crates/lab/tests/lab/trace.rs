//! Traces: what each format says, what is wrong with one and where, when requests are due, and a replay on modelled drives.

use core::time::Duration;
use std::io::Cursor;
use std::rc::Rc;

use brindle_io::Io;
use brindle_io::sim::{Model, Sim};
use brindle_lab::job::{Blocks, Direction, IoPattern, Job, Kinds};
use brindle_lab::load::Request;
use brindle_lab::run::{Live, Replayed, RunError, Terms, index, replay};
use brindle_lab::trace::{
    Act, Format, Pacing, TraceEntry, TraceError, columns, entries, msr, paced, recognised, set, survey,
};
use brindle_volume::LoneMember;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// A stored input of the fuzzer, without the byte that says which it is.
fn stored(name: &str) -> Vec<u8> {
    let path = format!("{}/../../fuzz/corpus/trace/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("a stored input")[1..].to_vec()
}

fn read(format: Format, bytes: impl Into<Vec<u8>>) -> Result<Vec<TraceEntry>, TraceError> {
    entries("t", format, Cursor::new(bytes.into())).collect()
}

fn asked(at: u64, direction: Direction, offset: u64, len: u64) -> TraceEntry {
    TraceEntry { at, act: Act::Request(Request { direction, offset, len }) }
}

const fn flush(at: u64) -> TraceEntry {
    TraceEntry { at, act: Act::Flush }
}

#[test]
fn each_format_says_what_was_asked_and_when() {
    use Direction::{Read, Trim, Write};
    let two = [
        asked(0, Read, 0, 4096),
        asked(1_500_000, Write, 8192, 65536),
        flush(1_500_000),
        asked(1_500_000, Trim, 1 << 20, 1 << 20),
    ];
    assert_eq!(read(Format::Iolog, stored("iolog-2")).unwrap(), two);
    let three = [asked(878_000, Read, 0, 16384), asked(1_888_000, Write, 512, 512), flush(2_000_000)];
    assert_eq!(read(Format::Iolog, stored("iolog-3")).unwrap(), three);
    let lines = [
        asked(829, Write, 223_490 * 512, 4096),
        flush(100_004_661),
        asked(1_500_004_661, Read, 512 << 10, 128 << 10),
        asked(2_500_000_000, Trim, 2 << 20, 64 << 20),
    ];
    assert_eq!(read(Format::Blkparse, stored("blkparse")).unwrap(), lines);
    let records = [
        asked(10, Write, 1 << 20, 4096),
        asked(MS, Read, 2 << 20, 128 << 10),
        flush(MS + 100),
        asked(2 * MS, Trim, 4 << 20, 64 << 10),
    ];
    for order in ["blktrace-little", "blktrace-big"] {
        assert_eq!(read(Format::Blktrace, stored(order)).unwrap(), records, "{order}");
    }
    let rows = read(Format::Csv(msr()), stored("msr")).unwrap();
    assert_eq!((rows.len(), rows[1].at - rows[0].at), (3, 1_332_052_600));
    assert_eq!(rows[0].act, asked(0, Read, 7_014_609_920, 24576).act);
    let both = stored("columns");
    let zero = both.iter().position(|byte| *byte == 0).unwrap();
    let map = columns("map.toml", core::str::from_utf8(&both[..zero]).unwrap()).unwrap();
    let rows = read(Format::Csv(map), &both[zero + 1..]).unwrap();
    let begin = 1_538_323_200_000 * MS;
    // Requests of the other volume are left out.
    assert_eq!(rows, [asked(begin, Read, 64 << 10, 4096), asked(begin + 1500 * MS, Write, 68 << 10, 4096)]);
}

#[test]
fn a_trace_is_recognised_by_its_beginning() {
    assert_eq!(recognised(&stored("iolog-2")), Some(Format::Iolog));
    assert_eq!(recognised(&stored("iolog-3")), Some(Format::Iolog));
    assert_eq!(recognised(&stored("blktrace-little")), Some(Format::Blktrace));
    assert_eq!(recognised(&stored("blktrace-big")), Some(Format::Blktrace));
    assert_eq!(recognised(&stored("blkparse")), Some(Format::Blkparse));
    assert_eq!(recognised(&stored("msr")), Some(Format::Csv(msr())));
    assert_eq!(recognised(b"hello\n"), None);
    assert_eq!(recognised(b""), None);
}

#[test]
fn what_is_wrong_is_told_with_file_place_and_reason() {
    let wrong = |format: Format, bytes: &[u8], reported: &str| {
        let error = read(format, bytes).expect_err(reported);
        assert_eq!(error.to_string(), reported);
    };
    wrong(
        Format::Iolog,
        b"x\n",
        "t:1: is not an iolog: its first line is 'fio version 2 iolog' or 'fio version 3 iolog'",
    );
    let iolog = |line: &str| format!("fio version 2 iolog\nf add\n{line}\n").into_bytes();
    wrong(Format::Iolog, &iolog("f read x 4096"), "t:3: 'x' is not a number of bytes");
    wrong(Format::Iolog, &iolog("g read 0 4096"), "t:3: 'g' is not a file that a line before adds");
    wrong(Format::Iolog, &iolog("f read 0 1g"), "t:3: '1g' is not a number of bytes");
    wrong(
        Format::Iolog,
        &iolog("f read 0 33554433"),
        "t:3: no request has offset 0 and size 33554433: sizes are up to 32 MiB",
    );
    wrong(
        Format::Blkparse,
        b"8,0 1 1 0.0 1 Q W 18446744073709551615 + 8 [x]",
        "t:1: no request has offset too large to count and size 4096: sizes are up to 32 MiB",
    );
    wrong(
        Format::Csv(msr()),
        b"1,a,0,Read,0,512,1\n1,a,0,Rad,0,512,1",
        "t:2: 'Rad' is not a kind of request that the map knows",
    );
    wrong(Format::Csv(msr()), b"1,a,0\n", "t:1: 3 fields: there is none where the map has a column");
    wrong(Format::Csv(msr()), b"\xff\n", "t:1: is not UTF-8; if it is compressed, unpack it first");
    let mut records = stored("blktrace-little");
    records.truncate(records.len() - 60);
    let error = read(Format::Blktrace, records).expect_err("cut off");
    assert!(error.to_string().starts_with("t:5: is cut off after "), "{error}");
    wrong(Format::Blktrace, &[7; 48], "t:1: is not a record of blktrace: it begins with 0x07070707");
    let empty = survey("t", entries("t", Format::Iolog, Cursor::new(iolog("f close")))).expect_err("nothing");
    assert_eq!(empty.to_string(), "t: holds no request");
    let map = "time = 1\ntime_unit = 'h'\n";
    assert!(columns("m.toml", map).expect_err("no unit").to_string().starts_with("m.toml:2: "));
    assert!(set("s.toml", "[[trace]]\nfile = 'a'\nweight = 0\n").is_err());
}

fn due(pacing: Pacing, at: &[u64]) -> Vec<u64> {
    let all: Vec<_> = at.iter().map(|&at| Ok(flush(at))).collect();
    paced(pacing, all.into_iter()).map(|due| due.expect("no error").0.as_nanos() as u64).collect()
}

#[test]
fn times_are_kept_scaled_cut_or_left_out() {
    // From a moment that is not 0, and once back in time.
    let at = [500, 600, 550, 10_000, 10_100];
    let usual = Pacing::default();
    assert_eq!(due(usual, &at), [0, 100, 100, 9500, 9600]);
    assert_eq!(due(Pacing { scale: 0.5, ..usual }, &at), [0, 50, 50, 4750, 4800]);
    let most = Some(Duration::from_nanos(1000));
    assert_eq!(due(Pacing { max_idle: most, ..usual }, &at), [0, 100, 100, 1100, 1200]);
    assert_eq!(due(Pacing { full_speed: true, ..usual }, &at), [0; 5]);
}

const SIZE: u64 = 4 << 20;

fn replayed(
    all: &[TraceEntry],
    pacing: Pacing,
    depth: u32,
    (wrap, read_only): (bool, bool),
) -> Result<Replayed, RunError> {
    let sim = Sim::new(1);
    let drive = sim.add_drive(Model::nvme(), SIZE);
    let io = Io::new(Box::new(sim));
    let device = LoneMember::new(&io, drive, read_only).expect("a drive");
    let job = Job {
        access: IoPattern { kinds: Kinds::Mixed, random: true, step: 0 },
        blocks: core::array::from_fn(|_| Blocks::One(64 << 10)),
        iodepth: depth,
        ..Job::default()
    };
    let terms = Terms::new(9, 1 << 30);
    let all: Vec<_> = all.iter().map(|&entry| Ok(entry)).collect();
    let due = paced(pacing, all.into_iter());
    let live = Rc::new(Live::default());
    let replayed = io.block_on(replay(&io, &device, job, terms, wrap, due, &live));
    io.shutdown();
    replayed
}

#[test]
fn a_replay_sends_what_is_due_when_it_is() {
    use Direction::{Read, Write};
    let all: Vec<_> =
        (0..100).map(|at| asked(at * MS, if at % 4 == 0 { Write } else { Read }, at * 4096, 4096)).collect();
    let own = replayed(&all, Pacing::default(), 8, (false, false)).expect("a replay");
    assert_eq!((own.outcome.tallies[0].ios, own.outcome.tallies[1].ios), (75, 25));
    assert!(own.outcome.elapsed >= Duration::from_millis(99), "{:?}", own.outcome.elapsed);
    assert!(own.outcome.elapsed < Duration::from_millis(110));
    assert_eq!((own.late.max(), own.moved, own.widened), (0, 0, 0));
    let fast = Pacing { full_speed: true, ..Pacing::default() };
    let fast = replayed(&all, fast, 8, (false, false)).expect("a replay");
    assert_eq!(fast.outcome.ios(), 100);
    assert!(fast.outcome.elapsed < own.outcome.elapsed / 4, "{:?}", fast.outcome.elapsed);
    assert!(fast.outcome.depths[3] > 0, "eight in flight: {:?}", fast.outcome.depths);
    // All at once with room for one: the others are late.
    let burst: Vec<_> = (0..20).map(|at| asked(0, Read, at * 4096, 4096)).collect();
    let late = replayed(&burst, Pacing::default(), 1, (false, false)).expect("a replay");
    assert!(late.late.max() > 0);
    let refused = replayed(&all, Pacing::default(), 8, (false, true));
    assert!(matches!(refused, Err(RunError::ReadOnly(_))));
}

#[test]
fn requests_are_made_to_fit_and_that_is_counted() {
    use Direction::{Read, Write};
    let all =
        [asked(0, Write, 100, 50), asked(1, Read, SIZE - 512, 1024), asked(2, Read, 100 * SIZE + 4096, 4096)];
    let beyond = replayed(&all, Pacing::default(), 1, (false, false)).expect("a replay");
    assert!(beyond.outcome.trouble.is_some(), "it goes beyond the end");
    let wrapped = replayed(&all, Pacing::default(), 1, (true, false)).expect("a replay");
    assert_eq!(wrapped.outcome.trouble, None);
    assert_eq!((wrapped.outcome.ios(), wrapped.moved, wrapped.widened), (3, 2, 1));
    assert_eq!(wrapped.outcome.tallies[1].bytes, 512);
}

#[test]
fn an_index_weighs_traces() {
    let all = |at| [asked(0, Direction::Read, at, 4096), asked(MS, Direction::Read, at, 8192)];
    let one = replayed(&all(0), Pacing::default(), 1, (false, false)).expect("a replay").outcome;
    let other = replayed(&[all(0)[0]], Pacing::default(), 1, (false, false)).expect("a replay").outcome;
    let micros = |outcome: &brindle_lab::run::Outcome| outcome.mixed().total.mean() / 1000.0;
    let (same, _) = index(core::slice::from_ref(&one), &[3.0]).expect("an index");
    assert!((same - micros(&one)).abs() < 1e-6 * same);
    let expected = (micros(&one).ln() * 0.75 + micros(&other).ln() * 0.25).exp();
    let (both, rate) = index(&[one.clone(), other], &[3.0, 1.0]).expect("an index");
    assert!((both - expected).abs() < 1e-6 * both && rate > 0.0);
    assert_eq!(index(&[one], &[1.0, 1.0]), None, "a trace did not run");
}

proptest! {
    /// Requests written in any of the formats are read back the same.
    #[test]
    fn requests_survive_every_format(all in proptest::collection::vec((0u64..1 << 40, 0u8..2, 0u64..1 << 30, 1u64..64), 1..40)) {
        let mut now = 0;
        let (mut iolog, mut lines, mut rows) = ("fio version 3 iolog\n0 f add\n".to_owned(), String::new(), String::new());
        let mut expected = Vec::new();
        for (gap, write, sector, sectors) in all {
            now += gap / 1000 * 1000;
            let (word, letter, name) = if write == 1 { ("write", "W", "Write") } else { ("read", "R", "Read") };
            let direction = if write == 1 { Direction::Write } else { Direction::Read };
            expected.push(asked(now, direction, sector * 512, sectors * 512));
            iolog += &format!("{} f {word} {} {}\n", now / 1000, sector * 512, sectors * 512);
            lines += &format!("8,0 1 1 {}.{:09} 7 Q {letter} {sector} + {sectors} [x y]\n", now / 1_000_000_000, now % 1_000_000_000);
            rows += &format!("{},h,0,{name},{},{},1\n", now / 100, sector * 512, sectors * 512);
        }
        prop_assert_eq!(&read(Format::Iolog, iolog).unwrap(), &expected);
        prop_assert_eq!(&read(Format::Blkparse, lines).unwrap(), &expected);
        prop_assert_eq!(&read(Format::Csv(msr()), rows).unwrap(), &expected);
    }
}
