//! Machines with md are killed; Brindle sees what they left, says so, and makes it good or refuses it. What md makes of a copy
//! is the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use brindle_testkit::oracle::Change as Kind;
use brindle_testkit::random::Random;
use brindle_testkit::stamp::{self, SECTOR};
use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::program::Server;
use brindle_tests::tools::{self, or_skip};
use brindle_tests::vm::{Report, Vm};
use serde_json::json;

use super::{Shape, Victim, shape, state};

const SHAPES: [Shape; 11] = [
    shape("1", "0.90", 2, &[]),
    shape("1", "1.2", 3, &[]),
    shape("4", "1.1", 3, &[]),
    shape("5", "0.90", 4, &[]),
    shape("5", "1.2", 4, &[]),
    shape("6", "1.2", 5, &[]),
    shape("10", "1.0", 4, &[]),
    shape("1", "1.2", 3, &[0]),
    shape("10", "0.90", 4, &[3]),
    shape("5", "1.2", 4, &[2]),
    shape("6", "0.90", 5, &[1]),
];

/// Of these, the array that is being resynced when the machine is killed, and the sector at which md was told to wait.
const RESYNCING: usize = 4;
const UP_TO_SECTOR: u64 = 512;

/// Writes to each array; the last ones are never reached.
const WRITES: usize = 120;

/// Flushed writes to each array after which a machine is killed.
const MOMENTS: [usize; 2] = [3, 15];

/// Each array has a writer, which flushes every write before it says that it is done. Nothing is marked clean meanwhile.
const HELPERS: &str = "
begin() {
    md=/dev/md$1
    sys=/sys/block/md$1/md
    echo 600 >$sys/safe_mode_delay
}

# writer N: from standard input: offset in the source, offset in the array, length.
writer() {
    i=0
    while read -r from to length; do
        dd if=$source of=/dev/md$1 bs=$length count=1 skip=$from seek=$to conv=notrunc,fsync \
            iflag=skip_bytes,fullblock oflag=seek_bytes 2>/dev/null
        i=$((i + 1))
        put flushed$1 $i
    done
}
";

/// The writes to an array, one after the other. All are planned beforehand; how many the machine carried out is known
/// afterwards.
fn plan(victim: &Victim, random: &mut Random) -> Vec<Range<u64>> {
    let sectors = victim.size / 512;
    let write = |_| {
        let most = [1, 8, 64, 400][random.below(4) as usize];
        let begin = random.below(sectors);
        let end = (begin + 1 + random.below(most)).min(sectors);
        begin * 512..end * 512
    };
    (0..WRITES).map(write).collect()
}

/// The script that has md assemble one array.
fn assemble(victim: &Victim, first: usize) -> String {
    let n = victim.number;
    let disk = |role: usize| format!(" /dev/member/{}", first + role);
    let disks: String = (0..victim.members.len()).map(disk).collect();
    let mut script = String::new();
    if n == RESYNCING {
        let _ = writeln!(
            script,
            "echo 1 >/sys/module/md_mod/parameters/start_ro
             step 'assemble {victim}' mdadm --assemble --update=resync /dev/md{n} {disks}
             echo 0 >/sys/module/md_mod/parameters/start_ro
             begin {n}
             echo {UP_TO_SECTOR} >$sys/sync_max
             step 'resync {victim}' mdadm --readwrite $md"
        );
    } else {
        let _ = writeln!(script, "step 'assemble {victim}' mdadm --assemble /dev/md{n} {disks}\nbegin {n}");
    }
    for &role in victim.shape.lost {
        let _ = writeln!(script, "step 'fail role {role}' mdadm $md --fail{}", disk(role));
    }
    script
}

/// The script that writes to one array; what it writes comes behind what is in the source already.
fn write(victim: &Victim, plan: &[Range<u64>], source: &mut Vec<u8>) -> String {
    let mut script = format!("writer {} <<END &\n", victim.number);
    for (number, range) in (1..).zip(plan) {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        stamp::stamp(&mut bytes, range.start / SECTOR as u64, number);
        let _ = writeln!(script, "{} {} {}", source.len(), range.start, bytes.len());
        source.extend(bytes);
    }
    script + "END\n"
}

/// The first so many writes of a plan are there, and any of the others may be.
fn note(victim: &Victim, plan: &[Range<u64>], flushed: usize) {
    let oracle = &mut *victim.oracle.borrow_mut();
    for (at, range) in plan.iter().enumerate() {
        let number = oracle.change_begins(Kind::Write, range.start, range.end - range.start);
        if at < flushed {
            oracle.change_ended(number, true, true);
        }
    }
    oracle.power_cut();
}

fn flushed(report: &Report, number: usize) -> usize {
    report.results.get(&format!("flushed{number}")).map_or(0, |count| count.parse().unwrap())
}

/// Has md assemble the arrays and write to all of them, and pulls the plug when each has some flushed writes.
fn kill(vm: Vm, victims: &[Victim], moment: usize, dir: &Path) {
    let mut random = Random::new(moment as u64);
    let mut disks: Vec<PathBuf> = Vec::new();
    let mut source = Vec::new();
    let (mut assembly, mut writers) = (String::new(), String::new());
    let plans: Vec<_> = victims.iter().map(|victim| plan(victim, &mut random)).collect();
    for (victim, plan) in victims.iter().zip(&plans) {
        assembly += &assemble(victim, disks.len());
        writers += &write(victim, plan, &mut source);
        disks.extend(victim.members.iter().cloned());
    }
    let path = dir.join("source");
    std::fs::write(&path, source).unwrap();
    let names = format!("source=/dev/member/{}\n", disks.len());
    disks.push(path);
    let numbers: Vec<usize> = victims.iter().map(|victim| victim.number).collect();
    let enough = |report: &Report| numbers.iter().all(|&n| flushed(report, n) >= moment);
    let machine = vm.disks(&disks).start(&format!("{HELPERS}{names}{assembly}{writers}wait\nsleep 1000\n"));
    let report = machine.kill_when(enough);
    for (victim, plan) in victims.iter().zip(&plans) {
        let count = flushed(&report, victim.number);
        assert!(count < WRITES, "{victim}: the machine was to be killed under writes");
        note(victim, plan, count);
    }
}

/// The reports of Brindle about the array agree with one another.
fn look(victim: &Victim) {
    let detail = victim.detail();
    let degraded: &[&str] = if victim.shape.lost.is_empty() { &[] } else { &["degraded"] };
    assert_eq!(state(&detail), [&["active"], degraded, &["needs resync"]].concat(), "{victim}");
    assert_eq!(detail["missing"], json!(victim.shape.lost), "{victim}");
    if !victim.shape.hopeless() {
        let offset = detail["resync_offset"].as_u64().unwrap_or_else(|| panic!("{victim}: {detail}"));
        let most = if victim.number == RESYNCING { UP_TO_SECTOR * 512 } else { 0 };
        assert!(offset <= most, "{victim}: {offset}");
    }
    let text = victim.brindle(&["detail"]).ok().text();
    assert!(text.contains("needs resync"), "{victim}: {text}");
    let examined = victim.brindle(&["examine"]).ok().text();
    assert!(examined.contains("State : active"), "{victim}: {examined}");
}

/// An array without parity to stand in for members is safe to read as it is, and is made good when it is served.
fn take_over(victim: &Victim, dir: &Path, nbdcopy: &Path) {
    victim.unchanged(|| {
        victim.judge_cat(&[], "what Brindle reads");
        let server = serve(victim, dir, &["--read-only"]);
        let status = server.status();
        let words = state(&status["array"]);
        assert!(words.contains(&"needs resync") && words.contains(&"read-only"), "{victim}: {status}");
        let copy = dir.join("copy");
        tools::run(nbdcopy, [&server.uri(), copy.to_str().unwrap()]);
        victim.judge(&std::fs::read(copy).unwrap(), "what a read-only server gives");
        server.stop();
    });
    let server = serve(victim, dir, &[]);
    server.wait_for_state("resyncing", false);
    server.stop();
    settled(victim);
}

/// Nobody knows what the lost members of an array with parity in doubt held: it has to be asked for.
fn refuse(victim: &Victim, dir: &Path) {
    victim.unchanged(|| {
        let runtime = dir.join("run");
        let way_out = ["not stopped cleanly", "missing", "--force"];
        let serve = ["serve", "--runtime-dir", runtime.to_str().unwrap()];
        victim.brindle(&serve).refused(1, &way_out);
        victim.brindle(&[&serve[..], &["--read-only"]].concat()).refused(1, &way_out);
        victim.brindle(&["cat"]).refused(1, &way_out);
        victim.judge_cat(&["--force"], "what Brindle reads when forced");
    });
    let server = serve(victim, dir, &["--force"]);
    // A RAID 6 that lacks one has two parities, which are made to agree. Of others nothing is left to go by: the first change records
    // that what parity gives counts as true.
    if victim.shape.level == "6" {
        server.wait_for_state("resyncing", false);
    }
    assert!(!state(&server.status()["array"]).contains(&"resyncing"), "{victim}: there is nothing to go by");
    let mut client = Client::connect(&server.uri());
    let work = Work::Write { data: vec![1; 4096], fua: false };
    client.all_at_once(&[Change { offset: 0, len: 4096, work }]);
    client.close();
    server.stop();
    assert_eq!(state(&victim.detail()), ["clean", "degraded"], "{victim}");
}

fn serve(victim: &Victim, dir: &Path, flags: &[&str]) -> Server {
    let name = format!("v{}", victim.number);
    let members = victim.left().into_iter().map(|member| member.to_str().unwrap().to_owned());
    let flags = [&["--memory", "16M", "--name", &name], flags].concat().into_iter().map(str::to_owned);
    Server::start(&dir.join("run"), flags.chain(members))
}

/// The array is clean, what is redundant agrees, and all that was flushed is there.
fn settled(victim: &Victim) {
    assert_eq!(state(&victim.detail())[0], "clean", "{victim}");
    assert!(victim.detail()["resync_offset"].is_null(), "{victim}");
    let checked = victim.brindle(&["check", "--json", "--memory", "16M"]);
    // The data of a member that is missing is compared with nothing.
    let lacks = checked.report()["unverified"] != 0;
    let check = checked.ended(if lacks { 5 } else { 0 }).report();
    assert_eq!(check["mismatch_cnt"], 0, "{victim}: {check}");
    victim.judge_cat(&[], "what Brindle reads in the end");
}

/// Has md make good what the machine left; gives what it reads of each array then.
fn recovered_by_md(vm: Vm, victims: &[Victim], dir: &Path) -> Vec<Vec<u8>> {
    let mut disks: Vec<PathBuf> = Vec::new();
    let (mut assembly, mut copies) = (String::new(), String::new());
    let (mut expected, mut at) = (BTreeMap::new(), 0);
    for victim in victims {
        let (n, first) = (victim.number, disks.len());
        disks.extend(victim.left());
        let members: String = (first..disks.len()).map(|disk| format!(" /dev/member/{disk}")).collect();
        let _ = writeln!(
            assembly,
            "step 'assemble {victim}' mdadm --assemble --run /dev/md{n} {members}
             echo resync >/sys/block/md{n}/md/sync_action 2>/dev/null || true"
        );
        let _ = writeln!(
            copies,
            "idle /dev/md{n}
             put resynced{n} $(cat /sys/block/md{n}/md/resync_start)
             step 'read {victim}' dd if=/dev/md{n} of=$out bs=64k seek={at} oflag=seek_bytes conv=notrunc,fsync
             step 'stop {victim}' mdadm --stop /dev/md{n}"
        );
        expected.insert(format!("resynced{n}"), "none".to_owned());
        at += victim.size;
    }
    let path = dir.join("recovered");
    std::fs::File::create(&path).unwrap().set_len(at).unwrap();
    let script = format!("out=/dev/member/{}\n{assembly}{copies}", disks.len());
    disks.push(path.clone());
    assert_eq!(vm.disks(&disks).run(&script).unwrap().results, expected);
    let mut content = std::fs::read(path).unwrap();
    let each = victims.iter().map(|victim| content.drain(..victim.size as usize).collect());
    each.collect()
}

/// Brindle, which has made the array good too, gives what md does: all of it where parity was recomputed; of copies, which one
/// counts is each's own choice, what was flushed.
fn is_what_md_gives(victim: &Victim, content: &[u8]) {
    victim.judge(content, "what md has recovered");
    let own = victim.judge_cat(&[], "what Brindle has recovered");
    assert!(
        !matches!(victim.shape.level, "4" | "5" | "6") || own == content,
        "{victim}: md gives another content"
    );
}

/// md finds nothing left to do.
fn confirm(vm: Vm, victims: &[Victim]) {
    let mut disks: Vec<PathBuf> = Vec::new();
    let mut script = String::new();
    let mut expected = BTreeMap::new();
    for victim in victims {
        let (n, first) = (victim.number, disks.len());
        disks.extend(victim.left());
        let members: String = (first..disks.len()).map(|disk| format!(" /dev/member/{disk}")).collect();
        let _ = writeln!(
            script,
            "step 'assemble {victim}' mdadm --assemble --run /dev/md{n} {members}
             sys=/sys/block/md{n}/md
             put state{n} \"$(cat $sys/array_state) $(cat $sys/sync_action) $(cat $sys/resync_start)\"
             echo check >$sys/sync_action
             idle /dev/md{n}
             put mismatches{n} $(cat $sys/mismatch_cnt)
             step 'stop {victim}' mdadm --stop /dev/md{n}"
        );
        expected.insert(format!("state{n}"), "clean idle none".to_owned());
        expected.insert(format!("mismatches{n}"), "0".to_owned());
    }
    assert_eq!(vm.disks(&disks).run(&script).unwrap().results, expected);
}

#[test]
fn what_a_killed_machine_left_is_reported_and_made_good_or_refused_and_all_flushed_data_are_there() {
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    if or_skip(Vm::new()).is_none() {
        return;
    }
    for moment in MOMENTS {
        let dir = tempfile::tempdir().unwrap();
        let make = |(number, &shape)| Victim::new(dir.path(), number, shape);
        let victims: Vec<Victim> = SHAPES.iter().enumerate().map(make).collect();
        kill(Vm::new().unwrap(), &victims, moment, dir.path());
        let copied = |victim: &&Victim| moment == MOMENTS[0] && !victim.shape.hopeless();
        let copies: Vec<Victim> =
            victims.iter().filter(copied).map(|victim| victim.copy(dir.path())).collect();
        for victim in &victims {
            look(victim);
            if victim.shape.hopeless() {
                refuse(victim, dir.path());
            } else {
                take_over(victim, dir.path(), &nbdcopy);
            }
        }
        if moment == MOMENTS[0] {
            let contents = recovered_by_md(Vm::new().unwrap(), &copies, dir.path());
            let recovered = victims.iter().filter(copied).zip(contents);
            recovered.for_each(|(victim, content)| is_what_md_gives(victim, &content));
            confirm(Vm::new().unwrap(), &victims);
        }
    }
}
