//! Advice on facts that no machine has to have.

use brindle_format::alignment::Partition;
use brindle_layout::{Layout, Level, ParityLayout};

use super::*;

/// Twice as many requests in each second prediction: the first of two is of what there is now.
#[derive(Default)]
struct Doubling(core::cell::Cell<bool>);

impl Simulator for Doubling {
    fn name(&self) -> &str {
        "modelled"
    }

    fn named_flash(&self) -> Option<bool> {
        None
    }

    fn volatile_flush(&self) -> Option<f64> {
        None
    }

    fn predict(&self, on: On, with: String, load: Load) -> Result<Prediction, String> {
        let rw = load.iter().find(|(name, _)| name == "rw").map(|(_, rw)| rw.as_str());
        if rw == Some("randwrite") && on == On::DriveChoosing(0) {
            return Err("no head".to_owned());
        }
        let better = self.0.replace(!self.0.get());
        let iops = if better { 200.0 } else { 100.0 };
        Ok(Prediction { with, chunk: None, iops, mb_s: iops / 256.0 })
    }
}

/// A RAID 5 of three disks that lacks nothing and is set up well.
fn well() -> Facts {
    let drive = |n: usize| Drive {
        path: format!("/dev/sd{n}1"),
        disk: Some(format!("sd{n}")),
        start: Some(1 << 20),
        rotates: Some(true),
        scheduler: Some("[mq-deadline] none".to_owned()),
        queue_depth: Some(32),
        requests: Some(256),
        write_cache: Some("write back".to_owned()),
        discard_max: Some(0),
        physical_block: Some(4096),
        optimal_io: Some(0),
    };
    let drives: Vec<Drive> = (0..3).map(drive).collect();
    Facts {
        uuid: "0:0:0:1".to_owned(),
        level: Level::Raid5,
        layout: Some("left-symmetric".to_owned()),
        chunk: 64 << 10,
        raid_devices: 3,
        row: 128 << 10,
        size: 2 << 40,
        component: 1 << 40,
        missing: 0,
        in_doubt: false,
        members: drives
            .iter()
            .map(|drive| MemberPath { path: drive.path.clone(), data_offset: 1 << 20 })
            .collect(),
        bitmap: Bitmap::Chunk(64 << 20),
        content: Err("it was not read".to_owned()),
        shape: Layout::Parity(ParityLayout::LeftSymmetric),
        drives,
        md: Some(Md {
            name: "md0".to_owned(),
            read_ahead: Some(256 << 10),
            stripe_cache: Some(1024),
            discard_max: Some(0),
            last_action: Some("check".to_owned()),
            mismatches: Some(0),
        }),
    }
}

fn changes(facts: &Facts) -> Vec<(&'static str, Option<String>)> {
    let findings = advise(facts, Chunks::NoLoad, Some(&Doubling::default()));
    let changes = findings.into_iter().filter(|finding| finding.verdict == Verdict::Change);
    changes.map(|finding| (finding.topic, finding.member)).collect()
}

#[test]
fn an_array_that_is_well_set_up_is_left_alone_and_each_fault_is_found_by_itself() {
    assert_eq!(changes(&well()), []);
    let found = |break_it: &dyn Fn(&mut Facts)| {
        let mut facts = well();
        break_it(&mut facts);
        changes(&facts).into_iter().map(|(topic, _)| topic).collect::<Vec<_>>()
    };
    assert_eq!(found(&|facts| facts.missing = 1), ["state"]);
    assert_eq!(found(&|facts| facts.bitmap = Bitmap::None), ["bitmap"]);
    assert_eq!(found(&|facts| facts.bitmap = Bitmap::Chunk(1 << 20)), ["bitmap"]);
    assert_eq!(found(&|facts| facts.members[1].data_offset += 512), ["alignment"]);
    assert_eq!(found(&|facts| facts.drives[1].queue_depth = Some(1)), ["queue depth"]);
    assert_eq!(
        found(&|facts| facts.drives[1].write_cache = Some("write through".to_owned())),
        ["write cache"]
    );
    // No simulated drive has a scheduler: that is no evidence for a change.
    assert!(found(&|facts| facts.drives[1].scheduler = Some("[bfq] none".to_owned())).is_empty());
    assert_eq!(found(&|facts| facts.drives[1].discard_max = Some(1 << 30)), ["TRIM"]);
    assert_eq!(found(&|facts| facts.drives[1].disk = Some("sd0".to_owned())), ["drive"]);
    let md = |change: &dyn Fn(&mut Md)| found(&|facts| facts.md.iter_mut().for_each(change));
    assert_eq!(md(&|md| md.read_ahead = Some(128 << 10)), ["read-ahead"]);
    assert_eq!(md(&|md| md.stripe_cache = Some(256)), ["stripe cache"]);
    assert_eq!(md(&|md| md.mismatches = Some(8)), ["mismatches"]);
}

#[test]
fn a_gain_is_told_where_there_is_a_simulator_and_else_that_there_is_none() {
    let mut facts = well();
    facts.drives[1].write_cache = Some("write through".to_owned());
    let of = |simulator: Option<&dyn Simulator>| {
        let findings = advise(&facts, Chunks::NoLoad, simulator);
        findings
            .into_iter()
            .find(|finding| finding.topic == "write cache" && finding.verdict == Verdict::Change)
    };
    let (with, without) = (of(Some(&Doubling::default())).unwrap(), of(None).unwrap());
    let reported = with.expected.unwrap();
    assert!(reported.contains("(+100 %)") && reported.ends_with("on modelled drives"), "{reported}");
    assert_eq!(with.predicted.len(), 2);
    assert!(without.expected.unwrap().contains("--drive") && without.predicted.is_empty());
}

/// Half as many requests in each second prediction.
struct Halving(core::cell::Cell<bool>);

impl Simulator for Halving {
    fn name(&self) -> &str {
        "modelled"
    }

    fn named_flash(&self) -> Option<bool> {
        None
    }

    fn volatile_flush(&self) -> Option<f64> {
        None
    }

    fn predict(&self, _: On, with: String, _: Load) -> Result<Prediction, String> {
        let worse = self.0.replace(!self.0.get());
        let iops = if worse { 50.0 } else { 100.0 };
        Ok(Prediction { with, chunk: None, iops, mb_s: iops / 256.0 })
    }
}

#[test]
fn nothing_is_advised_that_the_simulator_expects_to_lose() {
    let faults: [&dyn Fn(&mut Facts); 8] = [
        &|facts| facts.md = None,
        &|facts| facts.md.iter_mut().for_each(|md| md.read_ahead = Some(128 << 10)),
        &|facts| facts.md.iter_mut().for_each(|md| md.stripe_cache = Some(256)),
        &|facts| facts.bitmap = Bitmap::Chunk(1 << 20),
        &|facts| facts.drives[1].queue_depth = Some(1),
        &|facts| facts.drives[1].write_cache = Some("write through".to_owned()),
        &|facts| facts.drives[1].scheduler = Some("[none]".to_owned()),
        &|facts| {
            facts.content = Ok(ArrayContent {
                parts: vec![(Partition { start: 0, size: 1 << 40 }, None)],
                partitioned: false,
                named: Vec::new(),
            });
        },
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let mut facts = well();
        fault(&mut facts);
        let findings = advise(&facts, Chunks::NoLoad, Some(&Halving(Default::default())));
        let judged: Vec<&Finding> = findings.iter().filter(|finding| finding.predicted.len() == 2).collect();
        assert!(!judged.is_empty(), "fault {number}");
        for finding in judged {
            assert!(finding.verdict != Verdict::Change && finding.command.is_none(), "{finding:?}");
            assert!(finding.expected.is_none() && finding.advice.contains("no gain"), "{finding:?}");
        }
        assert!(!text(&findings).contains("(-"), "{}", text(&findings));
    }
    // A bitmap is for the time after a crash: its cost is no gain.
    let mut facts = well();
    facts.bitmap = Bitmap::None;
    // One drive is asked first, for what a resync takes.
    let findings = advise(&facts, Chunks::NoLoad, Some(&Halving(core::cell::Cell::new(true))));
    let bitmap = findings.iter().find(|finding| finding.topic == "bitmap").unwrap();
    assert!(bitmap.expected.as_ref().unwrap().contains("it costs 50 % in random writes"), "{bitmap:?}");
}

#[test]
fn read_ahead_is_never_less_than_the_default() {
    let ahead = |row: u64, known: Option<u64>| {
        let mut facts = well();
        (facts.row, facts.chunk) = (row, row / 2);
        match known {
            Some(bytes) => facts.md.iter_mut().for_each(|md| md.read_ahead = Some(bytes)),
            None => facts.md = None,
        }
        let findings = advise(&facts, Chunks::NoLoad, Some(&Doubling::default()));
        findings.into_iter().find(|finding| finding.topic == "read-ahead").unwrap()
    };
    let setra =
        |finding: &Finding| -> Option<u64> { finding.command.as_ref()?.split(' ').nth(2)?.parse().ok() };
    for row in [8 << 10, 12 << 10, 48 << 10, 64 << 10] {
        let here = ahead(row, None);
        assert!(here.verdict == Verdict::Fine && here.command.is_none(), "{here:?}");
        assert_eq!(ahead(row, Some(128 << 10)).verdict, Verdict::Fine);
        for less in [0, 4 << 10, 64 << 10] {
            assert_eq!(setra(&ahead(row, Some(less))), Some(256), "{row} {less}");
        }
    }
    let here = ahead(256 << 10, None);
    assert_eq!((here.verdict, setra(&here)), (Verdict::Unknown, Some(1024)));
    assert!(here.expected.as_ref().unwrap().contains("(at most +100 %, a bound: "), "{here:?}");
}

#[test]
fn members_that_say_the_same_share_a_line() {
    let facts = well();
    let findings = advise(&facts, Chunks::NoLoad, None);
    let said = text(&findings);
    let lines = |start: &str| said.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!((lines("ok     scheduler"), lines("ok     alignment")), (1, 1), "{said}");
    assert!(said.contains("ok     scheduler of all 3 members: mq-deadline"), "{said}");
    let mut facts = well();
    facts.drives[..2].iter_mut().for_each(|drive| drive.queue_depth = Some(1));
    let said = text(&advise(&facts, Chunks::NoLoad, None));
    assert!(said.contains("CHANGE queue depth of /dev/sd01, /dev/sd11: 1\n"), "{said}");
    for disk in ["sd0", "sd1"] {
        assert!(said.contains(&format!("$ echo 31 > /sys/block/{disk}/device/queue_depth")), "{said}");
    }
    assert_eq!(said.matches("queue depth of").count(), 2, "{said}");
}

#[test]
fn a_chunk_is_changed_only_for_a_tenth_more() {
    let facts = well();
    assert_eq!(chunks(64 << 10)[0], 64 << 10);
    let of = |best: f64| {
        let predicted = chunks(64 << 10).into_iter().enumerate().map(|(at, chunk)| {
            let iops = if at == 1 { best } else { 100.0 };
            Prediction { with: String::new(), chunk: Some(chunk), iops, mb_s: 1.0 }
        });
        let chunks = Chunks::Predicted("modelled".to_owned(), predicted.collect());
        advise(&facts, chunks, None).into_iter().find(|finding| finding.topic == "chunk").unwrap()
    };
    assert_eq!((of(109.0).verdict, of(111.0).verdict), (Verdict::Fine, Verdict::Change));
    let command = of(111.0).command.unwrap();
    assert!(command.contains("--chunk=128") && command.contains("/dev/md0"), "{command}");
}

/// Drives that read so many MiB a second.
struct Reading(f64);

impl Simulator for Reading {
    fn name(&self) -> &str {
        "modelled"
    }

    fn named_flash(&self) -> Option<bool> {
        None
    }

    fn volatile_flush(&self) -> Option<f64> {
        None
    }

    fn predict(&self, _: On, with: String, _: Load) -> Result<Prediction, String> {
        Ok(Prediction { with, chunk: None, iops: self.0, mb_s: self.0 })
    }
}

/// Drives whose cache is lost with the power. Chunks of a bitmap from this one on cost random writes little.
struct Waiting(u64);

impl Simulator for Waiting {
    fn name(&self) -> &str {
        "modelled"
    }

    fn named_flash(&self) -> Option<bool> {
        None
    }

    fn volatile_flush(&self) -> Option<f64> {
        Some(2.85)
    }

    fn predict(&self, on: On, with: String, _: Load) -> Result<Prediction, String> {
        let iops = match on {
            On::WithBitmap(Some(chunk)) if chunk < self.0 => 50.0,
            On::WithBitmap(Some(_)) => 900.0,
            _ => 1000.0,
        };
        Ok(Prediction { with, chunk: None, iops, mb_s: 100.0 })
    }
}

#[test]
fn where_writes_wait_for_bits_a_chunk_is_advised_that_avoids_it_if_there_is_one() {
    let bitmap = |now: Bitmap, quick: u64| {
        let findings = advise(&Facts { bitmap: now, ..well() }, Chunks::NoLoad, Some(&Waiting(quick)));
        findings.into_iter().find(|finding| finding.topic == "bitmap").unwrap()
    };
    let usual = || Bitmap::Chunk(64 << 20);
    let coarser = bitmap(usual(), 1 << 30);
    assert_eq!(coarser.verdict, Verdict::Change);
    assert!(coarser.command.unwrap().contains("--bitmap-chunk=1G"), "{}", coarser.advice);
    assert!(coarser.advice.contains("2.9 ms") || coarser.advice.contains("2.8 ms"), "{}", coarser.advice);
    let none = bitmap(usual(), u64::MAX);
    assert_eq!((none.verdict, none.command), (Verdict::Unknown, None));
    assert!(none.advice.contains("no larger chunk avoids it"), "{}", none.advice);
    assert_eq!(bitmap(usual(), 0).verdict, Verdict::Fine);
    let new = bitmap(Bitmap::None, 1 << 30);
    assert!(new.command.unwrap().contains("--bitmap-chunk=1G") && !new.advice.contains("any chunk"));
    let new = bitmap(Bitmap::None, u64::MAX);
    assert!(!new.command.unwrap().contains("--bitmap-chunk"), "mdadm's own");
    assert!(new.advice.contains("any chunk"), "{}", new.advice);
}

#[test]
fn a_bitmap_is_advised_where_a_resync_takes_long_enough_to_be_saved() {
    let facts = Facts { bitmap: Bitmap::None, ..well() };
    let bitmap = |speed: f64| {
        let findings = advise(&facts, Chunks::NoLoad, Some(&Reading(speed)));
        findings.into_iter().find(|finding| finding.topic == "bitmap").unwrap()
    };
    // 1 TiB.
    for (speed, words) in [(100.0, "instead of 2.9 hours,"), (1000.0, "instead of 17 minutes,")] {
        let slow = bitmap(speed);
        assert_eq!(slow.verdict, Verdict::Change);
        assert!(slow.expected.as_ref().unwrap().contains(words), "{slow:?}");
    }
    let fast = bitmap(20_000.0);
    assert_eq!((fast.verdict, fast.command), (Verdict::Fine, None));
    assert!(fast.advice.contains("in 52 seconds"), "{}", fast.advice);
}
