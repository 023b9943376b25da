//! ext4 on a volume of a pool, in the machine that serves it: the server is killed and members fail while fio verifies; the machine loses
//! its power again and again.

use std::time::Duration;

use brindle_testkit::skip::is_long;
use brindle_tests::files::{self, MIB};
use brindle_tests::program;
use brindle_tests::tools::or_skip;
use brindle_tests::vm::{Kernel, Report, Vm};

use super::image;

/// Members of the pool, which is a raidz2.
const MEMBERS: usize = 5;

/// More files than a machine writes before its power goes.
const ENDLESS: usize = 1 << 20;

/// up: starts the server with all members, and waits until it answers.
const UP: &str = r#"
    cat /dev/member/0 >/tmp/brindle
    chmod +x /tmp/brindle
    export BRINDLE_RUNTIME_DIR=/tmp/run
    b=/tmp/brindle
    mkdir -p /tmp/mnt
    members=
    for n in 1 2 3 4 5; do
        members="$members $(readlink -f /dev/member/$n)"
    done
    up() {
        $b serve --memory 64M $members >>/tmp/log 2>&1 &
        server=$!
        waited=0
        until $b status tank >/dev/null 2>&1; do
            waited=$((waited + 1))
            [ $waited -lt 600 ]
            sleep 0.1
        done
    }
"#;

/// KILLS: how often the server is killed. LEAST: seconds that fio goes on at least.
const KILLED: &str = r#"
    step create $b pool create tank raidz2 $members --force
    step volume $b volume create tank/one 96M --array $members
    up
    step attach $b attach tank/one
    step mkfs mkfs.ext4 -q /dev/nbd0
    step mount mount -t ext4 /dev/nbd0 /tmp/mnt

    # verified: writes and verifies again and again until /tmp/enough is there; each round is a line of /tmp/rounds.
    verified() {
        while [ ! -e /tmp/enough ]; do
            fio --name=verified --directory=/tmp/mnt --size=1m --rw=randwrite --bsrange=512-64k --direct=1 --ioengine=psync \
                --verify=crc32c --verify_fatal=1 --fsync=8 --randrepeat=0 --thread --eta=never --output=/tmp/fio \
                || { cat /tmp/fio; return 1; }
            echo round >>/tmp/rounds
        done
    }
    # gone MEMBER: a server that has no time to answer says that it fails the member as soon as it has, and does so.
    gone() {
        $b fail tank $1 2>/tmp/said && return
        grep 'is failed as soon as it does' /tmp/said
        waited=0
        until $b status --json tank | grep -q '"state": *"failed"'; do
            waited=$((waited + 1))
            [ $waited -lt 600 ]
            sleep 0.1
        done
    }
    : >/tmp/rounds
    begun=$(cut -d. -f1 /proc/uptime)
    verified &
    fio=$!
    kills=0
    while [ $kills -lt KILLS ] || [ $(($(cut -d. -f1 /proc/uptime) - begun)) -lt LEAST ]; do
        sleep 2
        kill -0 $fio
        if [ $kills -lt KILLS ]; then
            kill -9 $server
            wait $server || true
            kills=$((kills + 1))
            up
        fi
        # Two members fail on the way.
        case $kills in
            1) step 'fail 0.1' gone 0.1 ;;
            $((KILLS / 2 + 1))) step 'fail 0.3' gone 0.3 ;;
        esac
    done
    : >/tmp/enough
    step verified wait $fio
    put rounds $(wc -l </tmp/rounds)
    put kills $kills
    put status "$($b status --json tank | tr -d '\n')"
    step unmount umount /tmp/mnt
    step fsck fsck.ext4 -fn /dev/nbd0
    step detach $b detach /dev/nbd0
    step stop $b stop tank
    # A member that is missing is all that it may find.
    step check sh -c '"$@" || [ $? = 5 ]' check $b check $members
    put errors "$(dmesg | grep -ci 'i/o error' || true)"
    put log "$(flat /tmp/log)"
"#;

#[test]
fn fio_verifies_ext4_on_a_volume_while_servers_are_killed_and_two_members_fail() {
    let Some(program) = or_skip(program::without_libraries()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(vm) = or_skip(Vm::on(Kernel::Release).and_then(Vm::initiator)) else { return };
    let (kills, least) = if is_long() { ("20", "600") } else { ("3", "0") };
    let script = format!("{UP}{KILLED}").replace("KILLS", kills).replace("LEAST", least);
    let report = vm
        .disks([image(&dir, program)])
        .disks(files::members(dir.path(), "m", MEMBERS, 64 * MIB))
        .limit(Duration::from_secs(2400))
        .run(&script)
        .unwrap();
    assert_eq!((&report["errors"], &report["kills"]), ("0", kills), "{}", &report["log"]);
    // Writes without them lie on the others: the next server has them again.
    let status = &report["status"];
    assert!(!status.contains("was written to without it"), "{status}");
    assert!(status.contains("is in use again: it gets what it lacks"), "{status}");
    println!("{} rounds of fio, {kills} servers killed, two members failed", &report["rounds"]);
}

/// SYNCED: files that are on stable storage.
const POWER: &str = r#"
    if [ SYNCED = 0 ]; then
        step create $b pool create tank raidz2 $members --force
        step volume $b volume create tank/one 64M --array $members
    fi
    up
    step attach $b attach tank/one
    [ SYNCED != 0 ] || step mkfs mkfs.ext4 -q /dev/nbd0
    step mount mount -t ext4 /dev/nbd0 /tmp/mnt
    content() {
        yes "line of $1" | head -c $((4096 + $1 % 50 * 1000))
    }
    n=0
    while [ $n -lt SYNCED ]; do
        n=$((n + 1))
        content $n | cmp - /tmp/mnt/$n
    done
    put verified $n
    while [ $n -lt MOST ]; do
        n=$((n + 1))
        content $n >/tmp/content
        dd if=/tmp/content of=/tmp/mnt/$n bs=64k conv=fsync 2>/dev/null
        put synced $n
        # Some that nobody waits for.
        cp /tmp/content /tmp/mnt/loose
    done
    step unmount umount /tmp/mnt
    step fsck fsck.ext4 -fn /dev/nbd0
    step detach $b detach /dev/nbd0
    step stop $b stop tank
    put log "$(flat /tmp/log)"
"#;

#[test]
fn what_was_flushed_to_ext4_on_a_volume_is_there_after_power_cuts() {
    let Some(program) = or_skip(program::without_libraries()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (image, members) = (image(&dir, program), files::members(dir.path(), "m", MEMBERS, 32 * MIB));
    let vm = || {
        let vm = or_skip(Vm::on(Kernel::Release).and_then(Vm::initiator))?;
        Some(vm.disks([&image]).disks(&members).limit(Duration::from_secs(600)))
    };
    let script = |synced: usize, most: usize| {
        format!("{UP}{POWER}").replace("SYNCED", &synced.to_string()).replace("MOST", &most.to_string())
    };
    let count =
        |report: &Report| report.results.get("synced").and_then(|last| last.parse().ok()).unwrap_or(0usize);
    let (cuts, mut synced) = (if is_long() { 10 } else { 2 }, 0);
    for cut in 0..cuts {
        let Some(vm) = vm() else { return };
        let enough = synced + 3 + 7 * cut % 20;
        let report = vm.start(&script(synced, ENDLESS)).kill_when(|report| count(report) >= enough);
        synced = count(&report);
        program::brindle(["check".into()].into_iter().chain(members.clone())).ok();
    }
    let Some(vm) = vm() else { return };
    let report = vm.run(&script(synced, synced + 2)).unwrap();
    assert_eq!(report["verified"].parse(), Ok(synced), "{}", &report["log"]);
    println!("{synced} files were there after {cuts} cuts");
}
