//! Advice on facts that no machine has to have.

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
