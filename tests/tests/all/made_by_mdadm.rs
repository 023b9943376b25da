//! Containers of Intel's that mdadm has made in a machine: the program reads from the disks what the kernel read.

use std::path::PathBuf;

use brindle_tests::files::{self, MIB};
use brindle_tests::program;
use brindle_tests::tools::or_skip;
use brindle_tests::vm::Vm;

/// Makes a container of all disks, and in it volumes, each of so many KiB of each disk; writes to them, and stops all.
fn script(volumes: &[(&str, &str)], after: &str) -> String {
    let mut script = "export IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1 IMSM_TEST_OROM=1 MDADM_NO_UDEV=1
mkdir -p /sbin /dev/md; ln -sf /bin/mdmon /sbin/mdmon
disks=; for at in $(ls /dev/member | sort -n); do disk=$(readlink -f /dev/member/$at); disks=\"$disks $disk\"; put disk$at ${disk##*/}; done
count=$(echo $disks | wc -w)
step container mdadm --create /dev/md/imsm0 --metadata imsm --raid-devices $count --run $disks
"
    .to_owned();
    for (name, flags) in volumes {
        script.push_str(&format!(
            "step {name} mdadm --create /dev/md/{name} --raid-devices $count --run {flags} $disks
dev=$(readlink -f /dev/md/{name}); dd if=/dev/urandom of=$dev bs=1M oflag=direct 2>/dev/null || true
[ ! -e /sys/block/${{dev##*/}}/md/sync_action ] || idle $dev
sync; put {name} \"$(sha $dev)\"
"
        ));
    }
    script.push_str(after);
    script.push_str("\nput examined \"$(mdadm --examine ${disks%% /*} 2>&1 | tr '\\n' '|')\"\n");
    for (name, _) in volumes.iter().rev() {
        script.push_str(&format!("step stop-{name} mdadm --stop /dev/md/{name}\n"));
    }
    script.push_str("step stop mdadm --stop /dev/md/imsm0\n");
    script
}

#[test]
fn volumes_that_mdadm_makes_are_read_from_its_disks() {
    let cases: [(usize, &[(&str, &str)]); 4] = [
        (
            4,
            &[("first", "--level 5 --chunk 64 --size 8192"), ("second", "--level 10 --chunk 32 --size 8192")],
        ),
        (2, &[("first", "--level 1 --size 8192"), ("second", "--level 0 --chunk 16 --size 8192")]),
        (3, &[("first", "--level 0 --chunk 128 --size 8192")]),
        (3, &[("first", "--level 5 --chunk 4 --size 8192")]),
    ];
    for (count, volumes) in cases {
        let Some(vm) = or_skip(Vm::new()) else { return };
        let dir = tempfile::tempdir().unwrap();
        let disks = files::members(dir.path(), "m", count, 64 * MIB);
        let report = vm.disks(&disks).run(&script(volumes, "")).unwrap();
        // Serial numbers are names of devices there: files get them.
        let mut images: Vec<PathBuf> = Vec::new();
        for (at, disk) in disks.iter().enumerate() {
            let image = dir.path().join(format!("{}.img", &report[format!("disk{at}").as_str()]));
            std::fs::rename(disk, &image).unwrap();
            images.push(image);
        }
        images.rotate_left(1);
        for (name, flags) in volumes {
            let to = dir.path().join(name);
            program::cat_with(&["--volume", name], &images, &to);
            assert_eq!(files::sha256(&to), report[*name], "{count} {flags}: {}", &report["examined"]);
        }
    }
}
