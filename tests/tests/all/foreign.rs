//! Members of other kinds of RAID that mdadm itself makes: Intel's and SNIA's. `examine` names them and `create`
//! keeps off.

use std::path::{Path, PathBuf};

use brindle_tests::files::{self, MIB};
use brindle_tests::program;
use brindle_tests::tools::or_skip;
use brindle_tests::vm::{Report, Vm};
use serde_json::Value;

/// Has mdadm make containers, each of two disks and with a mirror in it, and say what it made.
fn containers(vm: Vm, members: &[PathBuf], sector: u32, kinds: &str) -> Report {
    let script = format!(
        "
        export IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1
        first=0
        for kind in {kinds}; do
            disks=\"/dev/member/$first /dev/member/$((first + 1))\"
            first=$((first + 2))
            step \"create $kind\" mdadm --create /dev/md/$kind --run --metadata=$kind --raid-devices=2 $disks
            step \"create a mirror in $kind\" mdadm --create /dev/md/mirror-$kind --run --level=1 \\
                --raid-devices=2 --size=4M --assume-clean /dev/md/$kind
            mdadm --examine ${{disks%% *}} | grep -E 'Orig Family|Container GUID' >/tmp/id
            put $kind \"$(sed 's/.* : //' /tmp/id)\"
            step \"stop all\" mdadm --stop --scan
        done"
    );
    vm.disks(members).sector(sector).run(&script).unwrap()
}

/// The one signature on a member.
fn signature(member: &Path) -> Value {
    let report = program::brindle([Path::new("examine"), Path::new("--json"), member]).json();
    let signatures = report["members"][0]["signatures"].as_array().unwrap();
    assert_eq!(signatures.len(), 1, "{report}");
    signatures[0].clone()
}

#[test]
fn members_of_intel_and_ddf_containers_are_known() {
    const SIZE: u64 = 64 * MIB;
    // mdadm's own DDF does not work on disks with sectors of 4096 bytes.
    for (sector, kinds) in [(512, "imsm ddf"), (4096, "imsm")] {
        let Some(vm) = or_skip(Vm::new()) else { return };
        let dir = tempfile::tempdir().unwrap();
        let members = files::members(dir.path(), "disk", 2 * kinds.split(' ').count(), SIZE);
        let report = containers(vm, &members, sector, kinds);
        for (kind, pair) in kinds.split(' ').zip(members.chunks(2)) {
            for member in pair {
                let found = signature(member);
                let (kind_name, offset, label) = match kind {
                    "imsm" => ("Intel IMSM RAID member", SIZE - 2 * u64::from(sector), Some("mirror-imsm")),
                    _ => ("DDF RAID member", SIZE - 512, None),
                };
                assert_eq!((&found["kind"], &found["offset"]), (&kind_name.into(), &offset.into()));
                assert_eq!((found["label"].as_str(), found["uuid"].as_str()), (label, Some(&report[kind])));
            }
            let create = ["create", "-l", "1"].map(PathBuf::from);
            let before = files::sha256(&pair[0]);
            let what = if kind == "imsm" { "IMSM" } else { "DDF" };
            program::brindle(create.iter().chain(pair)).refused(1, &["disk", what, "--force"]);
            assert_eq!(files::sha256(&pair[0]), before);
        }
    }
}
