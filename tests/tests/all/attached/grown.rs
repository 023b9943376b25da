//! ext4 on an array that gets a disk more, in the machine that serves it: the server is killed and the machine loses its power on the way.

use std::time::Duration;

use brindle_tests::files::{self, MIB};
use brindle_tests::program;
use brindle_tests::tools::{self, or_skip};
use brindle_tests::vm::{Kernel, Report, Vm};

use super::image;

/// Members in the end.
const MEMBERS: usize = 4;
/// How often the server is killed before the machine loses its power.
const KILLS: usize = 2;

const HELPERS: &str = r#"
    cat /dev/member/0 >/tmp/brindle
    chmod +x /tmp/brindle
    export BRINDLE_RUNTIME_DIR=/tmp/run
    b=/tmp/brindle
    mkdir -p /tmp/mnt
    three="$(readlink -f /dev/member/1) $(readlink -f /dev/member/2) $(readlink -f /dev/member/3)"
    fourth=$(readlink -f /dev/member/4)
    # up FLAG... MEMBER...: starts the server, and waits until it answers.
    up() {
        $b serve --memory 64M "$@" >>/tmp/log 2>&1 &
        server=$!
        waited=0
        until $b status a >/dev/null 2>&1; do
            waited=$((waited + 1))
            [ $waited -lt 600 ]
            sleep 0.1
        done
    }
    # moved: bytes that have moved; 0 if none are being moved.
    moved() {
        at=$($b status --json a | tr -d '\n' | grep -o '"position": *[0-9]*' | tail -n 1 | grep -o '[0-9]*$' || true)
        echo ${at:-0}
    }
    # further: waits until more has moved.
    further() {
        from=$(moved)
        waited=0
        until [ $(moved) -gt $from ]; do
            waited=$((waited + 1))
            [ $waited -lt 600 ]
            sleep 0.1
        done
    }
    # content N: that of file N.
    content() {
        yes "line of $1" | head -c $((100000 + $1 * 1000))
    }
    # verified: writes and verifies again and again until /tmp/enough is there; each round is a line of /tmp/rounds.
    verified() {
        while [ ! -e /tmp/enough ]; do
            fio --name=verified --directory=/tmp/mnt --size=1m --rw=randwrite --bsrange=4k-64k --direct=1 --ioengine=psync \
                --verify=crc32c --verify_fatal=1 --fsync=8 --randrepeat=0 --thread --eta=never --output=/tmp/fio \
                || { cat /tmp/fio; return 1; }
            echo round >>/tmp/rounds
        done
    }
"#;

/// Until the machine loses its power.
const BEGUN: &str = r#"
    step create $b create --force -l 5 -e 1.2 --chunk 64K --assume-clean --bitmap none -N a $three
    up --max-speed 1M $three
    step attach $b attach a
    step mkfs mkfs.ext4 -q /dev/nbd0
    step mount mount -t ext4 /dev/nbd0 /tmp/mnt
    for n in 1 2 3 4 5 6 7 8; do content $n >/tmp/mnt/$n; done
    sync
    : >/tmp/rounds
    verified &
    step grow $b grow a --raid-devices 4 --add $fourth
    kills=0
    while [ $kills -lt KILLS ]; do
        further
        kill -9 $server
        wait $server || true
        kills=$((kills + 1))
        up --continue --max-speed 1M $three $fourth
    done
    further
    content 9 >/tmp/mnt/9
    sync
    put log "$(flat /tmp/log)"
    put rounds $(wc -l </tmp/rounds)
    put moved $(moved)
    sleep 600
"#;

const ENDED: &str = r#"
    up --continue --max-speed 1M $three $fourth
    put moved $(moved)
    step attach $b attach a
    put before $(blockdev --getsize64 /dev/nbd0)
    step mount mount -t ext4 /dev/nbd0 /tmp/mnt
    verified &
    fio=$!
    step speed $b action --max-speed 0 a speed
    step wait $b wait a
    waited=0
    until [ $(blockdev --getsize64 /dev/nbd0) -gt BEFORE ]; do
        waited=$((waited + 1))
        [ $waited -lt 100 ]
        sleep 0.1
    done
    put after $(blockdev --getsize64 /dev/nbd0)
    step resize resize2fs /dev/nbd0
    : >/tmp/enough
    step verified wait $fio
    put blocks $(stat -f -c '%b %S' /tmp/mnt | tr ' ' '*')
    step unmount umount /tmp/mnt
    step fsck fsck.ext4 -fn /dev/nbd0
    step remount mount -t ext4 /dev/nbd0 /tmp/mnt
    for n in 1 2 3 4 5 6 7 8 9; do
        content $n | cmp - /tmp/mnt/$n
    done
    step unmount umount /tmp/mnt
    step detach $b detach /dev/nbd0
    step stop $b stop a
    step check $b check $three $fourth
    put errors "$(dmesg | grep -ci 'i/o error' || true)"
    put log "$(flat /tmp/log)"
"#;

#[test]
fn ext4_stays_whole_while_its_array_gets_a_disk_more_servers_are_killed_and_the_power_goes() {
    let Some(program) = or_skip(program::without_libraries()) else { return };
    let Some(resize2fs) = or_skip(tools::find("resize2fs")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (image, members) = (image(&dir, program), files::members(dir.path(), "m", MEMBERS, 48 * MIB));
    let vm = || {
        let vm = or_skip(Vm::on(Kernel::Release).and_then(Vm::initiator))?;
        Some(
            vm.program("resize2fs", &resize2fs)
                .disks([&image])
                .disks(&members)
                .limit(Duration::from_secs(900)),
        )
    };
    let number = |report: &Report, key: &str| -> u64 { report[key].parse().unwrap() };
    let Some(first) = vm() else { return };
    let begun = format!("{HELPERS}{BEGUN}").replace("KILLS", &KILLS.to_string());
    let begun = first.start(&begun).kill_when(|report| report.results.contains_key("moved"));
    let size = 2 * 48 * MIB;
    assert!((1..size).contains(&number(&begun, "moved")), "{}", &begun["log"]);
    let Some(second) = vm() else { return };
    let ended = second.run(&format!("{HELPERS}{ENDED}").replace("BEFORE", &size.to_string())).unwrap();
    assert!(number(&ended, "moved") >= number(&begun, "moved"), "{}", &ended["log"]);
    let (before, after) = (number(&ended, "before"), number(&ended, "after"));
    assert!(before < size && after * 2 > before * 3 - 4 * MIB, "{before} {after}");
    assert_eq!(&ended["errors"], "0", "{}", &ended["log"]);
    println!("{} rounds of fio before the power went; {before} bytes, then {after}", &begun["rounds"]);
}
