//! Volumes as block devices of the kernel that serves them: made, used, found again after a crash, ended.

mod grown;
mod pools;
mod pulled;
mod reclaim;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use brindle_tests::files::{self, MIB};
use brindle_tests::program;
use brindle_tests::tools::{self, Missing, or_skip};
use brindle_tests::vm::{Kernel, Vm};
use tempfile::TempDir;

/// A disk that holds the program, as one that needs no library. Each boot copies all of it: it goes without its symbols, which are
/// three quarters of it, where there is `strip`.
fn image(dir: &TempDir, program: &Path) -> PathBuf {
    let image = dir.path().join("image");
    std::fs::copy(program, &image).unwrap();
    if let Ok(strip) = tools::find("strip") {
        assert!(Command::new(strip).arg(&image).status().unwrap().success(), "strip");
    }
    let size = std::fs::metadata(&image).unwrap().len();
    std::fs::File::options().write(true).open(&image).unwrap().set_len(size.next_multiple_of(4096)).unwrap();
    image
}

const SCRIPT: &str = r#"
    cat /dev/member/0 >/tmp/brindle
    chmod +x /tmp/brindle
    export BRINDLE_RUNTIME_DIR=/tmp/run
    b=/tmp/brindle
    members="$(readlink -f /dev/member/1) $(readlink -f /dev/member/2)"
    # up: starts the server, and waits until it answers.
    up() {
        $b serve --memory 32M $members 2>>/tmp/log >>/tmp/log &
        server=$!
        waited=0
        until $b status a >/dev/null 2>&1; do
            waited=$((waited + 1))
            [ $waited -lt 600 ]
            sleep 0.1
        done
    }
    step create $b create --force -l 1 -N a $members
    up
    step attach $b attach a
    put size $(blockdev --getsize64 /dev/nbd0)
    put backend "$(cat /sys/block/nbd0/backend 2>/dev/null)"
    put status "$($b status --json a | tr -d '\n')"
    $b attach a >/tmp/twice 2>&1 || true
    put twice "$(flat /tmp/twice)"
    dd if=/dev/urandom of=/tmp/content bs=64k count=32 2>/dev/null
    step write dd if=/tmp/content of=/dev/nbd0 bs=64k conv=fsync

    # In use: neither the device nor its server is ended.
    step mkfs mkfs.ext4 -q /dev/nbd0
    mkdir -p /tmp/mnt
    step mount mount -t ext4 /dev/nbd0 /tmp/mnt
    cp /tmp/content /tmp/mnt/one
    for word in detach stop; do
        if $b $word a >/tmp/said 2>&1; then put refused "$word was not refused"; else put $word "$(flat /tmp/said)"; fi
    done

    # The server is killed while a file is written; the next one finds the device.
    dd if=/tmp/content of=/tmp/mnt/two bs=4k conv=fsync 2>/tmp/dd &
    writes=$!
    sleep 0.2
    kill -9 $server
    wait $server || true
    dd if=/tmp/content of=/tmp/mnt/three bs=4k conv=fsync 2>/dev/null &
    more=$!
    up
    step written wait $writes
    step more wait $more
    put again "$($b status --json a | tr -d '\n')"
    step unmount umount /tmp/mnt
    step remount mount -t ext4 /dev/nbd0 /tmp/mnt
    put one "$(cmp /tmp/content /tmp/mnt/one && echo same)"
    put two "$(cmp /tmp/content /tmp/mnt/two && echo same)"
    put three "$(cmp /tmp/content /tmp/mnt/three && echo same)"
    step unmount umount /tmp/mnt
    step detach $b detach /dev/nbd0
    put gone $(blockdev --getsize64 /dev/nbd0 2>/dev/null || echo 0)

    # Nothing is left behind by many.
    before=$(ls /proc/$server/fd | wc -l)
    cycles=0
    while [ $cycles -lt CYCLES ]; do
        $b attach a /dev/nbd1 >/dev/null
        $b detach a >/dev/null
        cycles=$((cycles + 1))
    done
    sleep 0.5
    put fds "$before $(ls /proc/$server/fd | wc -l)"
    $b attach a >/dev/null
    step stop $b stop a
    put clean "$($b detail $members | grep -c 'clean')"
    put errors "$(dmesg | grep -ci 'i/o error' || true)"
    put log "$(flat /tmp/log)"
"#;

/// A machine of little memory, with what its script calls.
fn machine(kernel: Kernel) -> Result<Vm, Missing> {
    let mut vm = Vm::on(kernel)?.network()?.file_system()?.memory(reclaim::MEMORY);
    for program in ["mkfs.ext4", "fsck.ext4", "losetup"] {
        vm = vm.program(program, &tools::find(program)?);
    }
    Ok(vm)
}

#[test]
fn a_device_is_made_found_again_after_a_crash_and_ended() {
    let Some(program) = or_skip(program::without_libraries()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let image = image(&dir, program);
    // An emulated machine takes seconds for each cycle: all of them, and the other kernel, are for long runs.
    let long = std::env::var_os("BRINDLE_LONG").is_some();
    let (kernels, cycles) = if long { (&Kernel::ALL[..], "100") } else { (&Kernel::ALL[..1], "4") };
    for &kernel in kernels {
        let Some(vm) = or_skip(machine(kernel)) else { return };
        let members = files::members(dir.path(), &format!("{kernel:?}"), 2, 64 * MIB);
        let more = files::members(dir.path(), &format!("{kernel:?}-more"), 3, reclaim::MEMBER);
        let report = vm
            .disks([&image])
            .disks(&members)
            .disks(&more)
            .limit(Duration::from_secs(1800))
            .run(&format!("{}\n{}", SCRIPT.replace("CYCLES", cycles), reclaim::script()))
            .unwrap();
        let size: u64 = report["size"].parse().unwrap();
        assert!(size > 48 * MIB && size < 64 * MIB, "{size}");
        let backend = &report["backend"];
        assert!(backend.starts_with("brindle:") && backend.ends_with(" a"), "{backend}");
        for key in ["status", "again"] {
            assert!(report[key].contains(r#""device": "/dev/nbd0""#), "{key}: {}", &report[key]);
        }
        assert!(report["twice"].contains("it is attached already, as /dev/nbd0"), "{}", &report["twice"]);
        for word in ["detach", "stop"] {
            assert!(report[word].contains("/dev/nbd0 is in use"), "{word}: {}", &report[word]);
        }
        for file in ["one", "two", "three"] {
            assert_eq!(&report[file], "same", "{kernel:?}: {}", &report["log"]);
        }
        assert_eq!((&report["gone"], &report["errors"]), ("0", "0"), "{kernel:?}");
        let (before, after) = report["fds"].split_once(' ').unwrap();
        assert_eq!(before, after, "{kernel:?}: file descriptors of the server");
        assert_ne!(&report["clean"], "0", "{}", &report["log"]);
        reclaim::judge(&report);
    }
}
