//! Servers of Brindle are killed; md sees what they left, makes it good, and gives all that was flushed.

use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use brindle_tests::files::MIB;
use brindle_tests::program::Server;
use brindle_tests::tools::or_skip;
use brindle_tests::vm::{Report, Vm};

use super::client::Client;
use super::{Shape, Victim, shape, state};

/// Each with the number of acknowledged writes after which its server is killed: some at once, some later.
const SHAPES: [(Shape, usize); 16] = [
    (shape("1", "0.90", 2, &[]), 8),
    (shape("1", "1.2", 3, &[]), 100),
    (shape("4", "1.0", 3, &[]), 50),
    (shape("5", "0.90", 3, &[]), 100),
    (shape("5", "1.2", 4, &[]), 8),
    (shape("5", "1.1", 4, &[]), 250),
    (shape("6", "0.90", 4, &[]), 50),
    (shape("6", "1.2", 5, &[]), 200),
    (shape("10", "0.90", 4, &[]), 50),
    (shape("10", "1.2", 5, &[]), 150),
    // Without redundancy that is in doubt, or with copies that can be made alike: nobody minds that members are missing.
    (shape("1", "1.2", 3, &[1]), 50),
    (shape("10", "1.0", 4, &[2]), 50),
    (shape("5", "1.2", 4, &[1]), 50),
    (shape("6", "0.90", 5, &[0]), 100),
    (shape("6", "1.2", 5, &[1, 3]), 50),
    (shape("6", "1.1", 5, &[2]), 50),
];

/// Of these, the one that is started by force, and killed again before its resync: md resyncs it.
const FORCED: usize = 15;

/// Room for the content of one array on the disk that takes what md reads, in MiB.
const ROOM: usize = 12;

/// `$md` is an array and `$sys` its folder; `give MIB` hands over its content at this place of the last disk.
const HELPERS: &str = "
# Nothing is made good before somebody writes, so that it can be seen what has to be.
echo 1 >/sys/module/md_mod/parameters/start_ro
give() {
    dd if=$md of=$out bs=1M seek=$1 iflag=direct oflag=direct conv=notrunc 2>/dev/null
}
";

/// Kills a server under writes until it leaves a dirty array: a busy machine may make a pause before the end that is
/// long enough for the array to be marked clean.
fn kill(victim: &mut Victim, client: &Client, dir: &Path, writes: usize) {
    for _ in 0..10 {
        let runtime = dir.join(format!("run{}", victim.number));
        let flags = ["--memory", "16M"].map(PathBuf::from).into_iter();
        let server = Server::start(&runtime, flags.chain(victim.left()));
        client.write_until_killed(server, writes, &mut victim.oracle.borrow_mut());
        victim.released();
        if state(&victim.detail())[0] == "active" {
            return;
        }
    }
    panic!("{victim}: ten servers were killed under writes, and all left it clean");
}

/// Starts it by force, as slow in its resync as can be, and kills that server too.
fn kill_forced(victim: &mut Victim, client: &Client, dir: &Path, writes: usize) {
    let words = ["--memory", "16M", "--force", "--max-speed", "1K"].map(PathBuf::from);
    let server = Server::start(&dir.join("forced"), words.into_iter().chain(victim.left()));
    client.write_until_killed(server, writes, &mut victim.oracle.borrow_mut());
    victim.released();
}

/// The reports of Brindle about the array that it left; they change nothing.
fn look(victim: &Victim) {
    let detail = victim.detail();
    let degraded: &[&str] = if victim.shape.lost.is_empty() { &[] } else { &["degraded"] };
    assert_eq!(state(&detail), [&["active"], degraded, &["needs resync"]].concat(), "{victim}");
    victim.unchanged(|| {
        if victim.shape.hopeless() {
            victim.brindle(&["serve"]).refused(1, &["not stopped cleanly", "--force"]);
            victim.brindle(&["cat"]).refused(1, &["not stopped cleanly", "--force"]);
            victim.judge_cat(&["--force"], "what Brindle reads when forced");
        } else {
            victim.judge_cat(&[], "what Brindle reads");
        }
    });
}

/// Has md assemble an array, which sees what there is to do, and do it.
fn script(victim: &Victim, first: usize) -> String {
    let (n, shape) = (victim.number, &victim.shape);
    let disks: String = (0..victim.left().len()).map(|i| format!(" /dev/member/{}", first + i)).collect();
    let mut script = format!(
        "md=/dev/md{n}\nsys=/sys/block/md{n}/md
         put examine{n} \"$(mdadm --examine /dev/member/{first} | sed -n 's/^ *State : //p')\"\n"
    );
    let (before, after) = (2 * n * ROOM, (2 * n + 1) * ROOM);
    if n == FORCED {
        let fewer = disks.trim_start().split_once(' ').map_or("", |(_, rest)| rest);
        let _ = writeln!(
            script,
            "put refused{n} \"$(mdadm --assemble $md {disks} 2>&1 | tr '\\n' ' ')\"
             mdadm --stop $md || true
             echo 1 >/sys/module/md_mod/parameters/start_dirty_degraded
             step 'start {victim}, dirty' mdadm --assemble --run $md {disks}
             put start{n} $(cat $sys/resync_start)
             give {before}
             step 'let {victim} be written to' mdadm --readwrite $md
             until grep -q none $sys/resync_start; do
                 sleep 0.05
             done
             idle $md
             step 'stop {victim}' mdadm --stop $md
             step 'assemble {victim} without another member' mdadm --assemble --run $md {fewer}
             give {after}"
        );
    } else if shape.hopeless() {
        let _ = writeln!(
            script,
            "put refused{n} \"$(mdadm --assemble $md {disks} 2>&1 | tr '\\n' ' ')\"
             mdadm --stop $md || true
             step 'force {victim}' mdadm --assemble --force $md {disks}
             put start{n} $(cat $sys/resync_start)
             give {before}
             step 'stop {victim}' mdadm --stop $md
             step 'assemble {victim} again' mdadm --assemble --run $md {disks}"
        );
    } else {
        let _ = writeln!(
            script,
            "step 'assemble {victim}' mdadm --assemble --run $md {disks}
             put start{n} $(cat $sys/resync_start)
             give {before}
             step 'let {victim} be written to' mdadm --readwrite $md
             until grep -q none $sys/resync_start; do
                 sleep 0.05
             done
             idle $md
             echo check >$sys/sync_action
             idle $md
             put mismatches{n} $(cat $sys/mismatch_cnt)
             give {after}"
        );
    }
    let _ = writeln!(script, "step 'stop {victim}' mdadm --stop $md");
    script
}

fn judge(victim: &Victim, report: &Report, out: &File) {
    let n = victim.number;
    let value = |key: &str| &report[format!("{key}{n}").as_str()];
    let content = |time: usize| {
        let mut bytes = vec![0; victim.size as usize];
        out.read_exact_at(&mut bytes, ((2 * n + time) * ROOM) as u64 * MIB).unwrap();
        bytes
    };
    assert_eq!(value("examine"), "active", "{victim}");
    victim.judge(&content(0), "what md reads before it does anything");
    if n == FORCED {
        assert!(value("refused").contains("not clean"), "{victim}: {}", value("refused"));
        assert!(value("start").parse::<u64>().is_ok(), "{victim}: md is to resync: {}", value("start"));
        assert!(content(0) == content(1), "{victim}: P and Q do not agree");
        assert_eq!(state(&victim.detail()), ["clean", "degraded"], "{victim}");
        return;
    }
    if victim.shape.hopeless() {
        assert!(value("refused").contains("not clean"), "{victim}: {}", value("refused"));
        assert_eq!(value("start"), "none", "{victim}: forced, parity counts as true");
        // Nobody has written to it: mdadm marks it so at once.
        assert_eq!(state(&victim.detail()), ["clean", "degraded"], "{victim}");
        return;
    }
    assert!(value("start").parse::<u64>().is_ok(), "{victim}: md is to resync: {}", value("start"));
    assert_eq!(value("mismatches"), "0", "{victim}: after the resync");
    let last = content(1);
    victim.judge(&last, "what md reads after the resync");
    assert_eq!(state(&victim.detail())[0], "clean", "{victim}: Brindle sees that md made it good");
    assert!(
        victim.judge_cat(&[], "what Brindle reads in the end") == last,
        "{victim}: md and Brindle differ"
    );
}

#[test]
fn what_a_killed_server_left_is_resynced_by_md_and_all_flushed_data_are_there() {
    let (Some(vm), Some(client)) = (or_skip(Vm::new()), or_skip(Client::find())) else { return };
    let dir = tempfile::tempdir().unwrap();
    let victims: Vec<Victim> = SHAPES
        .iter()
        .enumerate()
        .map(|(number, &(shape, writes))| {
            let mut victim = Victim::new(dir.path(), number, shape);
            kill(&mut victim, &client, dir.path(), writes);
            if number % 3 == 1 && !shape.hopeless() {
                // The next server is killed while it makes good what the first left, and is written to.
                kill(&mut victim, &client, dir.path(), writes);
            }
            look(&victim);
            if number == FORCED {
                kill_forced(&mut victim, &client, dir.path(), writes);
                look(&victim);
            }
            victim
        })
        .collect();

    let mut disks: Vec<PathBuf> = Vec::new();
    let mut scripts = String::new();
    for victim in &victims {
        scripts += &script(victim, disks.len());
        disks.extend(victim.left());
    }
    let out = dir.path().join("out");
    File::create(&out).and_then(|file| file.set_len((2 * ROOM * victims.len()) as u64 * MIB)).unwrap();
    let helpers = format!("{HELPERS}out=/dev/member/{}\n", disks.len());
    disks.push(out.clone());
    let report = vm.disks(&disks).run(&format!("{helpers}{scripts}")).unwrap();

    let out = File::open(out).unwrap();
    victims.iter().for_each(|victim| judge(victim, &report, &out));
}
