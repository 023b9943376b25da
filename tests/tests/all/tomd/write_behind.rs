//! Arrays whose bitmaps say how many writes may lag behind: md takes what Brindle says, and Brindle what md says; and what a machine
//! was killed with that lagged under md, Brindle resyncs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_tests::files::{self, MIB};
use brindle_tests::program::{self, Server};
use brindle_tests::tools::{Missing, or_skip};
use brindle_tests::vm::{Kernel, Vm};
use serde_json::{Value, json};

/// Of each member.
const SIZE: u64 = 12 * MIB;

fn words<'a>(words: &'a str, members: &'a [PathBuf]) -> impl Iterator<Item = PathBuf> + 'a {
    words.split(' ').map(PathBuf::from).chain(members.iter().cloned())
}

/// The first member is write-mostly, and so many writes may lag on it.
fn make(dir: &Path, metadata: &str, behind: u32) -> Vec<PathBuf> {
    let members = files::members(dir, &format!("behind{behind}-"), 2, SIZE);
    let bitmap = format!("--bitmap internal --bitmap-chunk 64K --write-behind={behind}");
    let mostly = members[0].display();
    let make = format!("create --assume-clean {bitmap} -l 1 -e {metadata} --write-mostly {mostly}");
    program::brindle(words(&make, &members)).ok();
    members
}

fn detail(members: &[PathBuf]) -> Value {
    program::brindle(words("detail --json", members)).json()
}

/// md writes by the count that it found; it is given another by a bitmap of its own, and one more while it runs; it is never
/// stopped.
fn script(index: usize) -> String {
    let (first, second) = (2 * index, 2 * index + 1);
    format!(
        "md=/dev/md{index} sys=/sys/block/md{index}/md
         step 'assemble' mdadm --assemble --run $md /dev/member/{first} /dev/member/{second}
         idle $md
         put found{index} $(cat $sys/bitmap/backlog)
         put told{index} \"$(mdadm -X /dev/member/{second} | grep 'Write Mode')\"
         put state{index} $(cat $sys/dev-*/state | grep -c write_mostly)
         step 'write' dd if=/dev/urandom of=$md bs=4k count=64 oflag=direct
         put used{index} $(cat $sys/bitmap/max_backlog_used)
         step 'no bitmap' mdadm --grow --bitmap=none $md
         step 'another' mdadm --grow --bitmap=internal --bitmap-chunk=64K --write-behind=9 $md
         idle $md
         put given{index} $(cat $sys/bitmap/backlog)
         step 'write again' dd if=/dev/urandom of=$md bs=64k count=8 oflag=direct\n"
    )
}

fn both_ways() -> Result<(), Missing> {
    let vm = Vm::on(Kernel::Release)?.limit(Duration::from_secs(600));
    let dir = tempfile::tempdir().unwrap();
    let arrays = [make(dir.path(), "1.2", 5), make(dir.path(), "0.90", 300)];
    let script: String = (0..arrays.len()).map(script).collect();
    let report = vm.disks(arrays.iter().flatten()).run(&script).unwrap();
    for (index, (members, behind)) in arrays.iter().zip(["5", "300"]).enumerate() {
        let value = |key: &str| &report[format!("{key}{index}").as_str()];
        assert_eq!((value("found"), value("state"), value("given")), (behind, "1", "9"));
        assert!(value("told").contains(&format!("max {behind}")), "{}", value("told"));
        assert_ne!(value("used"), "0", "md let writes lag");
        let found = detail(members);
        assert_eq!(found["bitmap"]["write_behind"], 9, "{found}");
        let run = dir.path().join(format!("run{index}"));
        let server = Server::start(&run, words("--memory 32M", members));
        assert_eq!(server.status()["array"]["bitmap"]["write_behind"], 9);
        server.ask("wait", &[]).ok();
        server.stop();
        let checked = program::brindle(words("check --json", members)).json();
        assert_eq!(checked["mismatch_cnt"], 0);
        assert_eq!(detail(members)["state"], json!(["clean"]));
    }
    Ok(())
}

#[test]
fn md_and_brindle_let_as_many_writes_lag_as_the_other_has_said() {
    let _ = or_skip(both_ways());
}
