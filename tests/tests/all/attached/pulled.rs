//! Disks that are pulled while fio writes, out of arrays and pools that are attached in the machine: no client and no file system sees an
//! error, and one member has failed on record.

use std::fmt::Write as _;
use std::time::Duration;

use brindle_testkit::skip::is_long;
use brindle_tests::files::{self, MIB};
use brindle_tests::program;
use brindle_tests::tools::or_skip;
use brindle_tests::vm::{Kernel, Report, Vm};
use serde_json::Value;

use super::image;

/// Members on each bus: of virtio, whose PCI device is removed, and of SCSI, which is told to delete a disk. As many
/// loop devices, whose files are cut.
const EACH: usize = 4;

/// Pulls of each level in all, in a long run.
const PULLS: usize = 20;

const SCRIPT: &str = r#"
    cat /dev/member/0 >/tmp/brindle
    chmod +x /tmp/brindle
    export BRINDLE_RUNTIME_DIR=/tmp/run
    b=/tmp/brindle
    mkdir -p /tmp/mnt /tmp/files
    # Of a loop device whose file has a name, that file is looked at. Of a disk there is none.
    for n in 9 10 11 12; do
        truncate -s 16M /tmp/file
        ln /tmp/file /tmp/files/$n
        node=$(losetup -f)
        losetup $node /tmp/file
        ln -s $node /dev/member/$n
        rm /tmp/file
    done

    # number DISK: as which disk of the machine it was given.
    number() {
        found=$(cat $1/serial 2>/dev/null) || found=$(readlink $1/device) || found=
        echo "${found##*[-:]}"
    }
    # pull WAY N
    pull() {
        node=$(readlink -f /dev/member/$2)
        place=/sys/block/${node##*/}/device
        case $1 in
            pci) echo 1 >$(readlink -f $place/..)/remove ;;
            scsi) echo 1 >$place/delete ;;
            loop)
                # Between the two commands the loop device reads as zeroes, which no array can tell from data: nothing is read then.
                kill -STOP $server
                sleep 0.2
                truncate -s 0 /tmp/files/$2
                losetup -c $node
                kill -CONT $server ;;
        esac
    }
    # plug WAY N: it is back.
    plug() {
        case $1 in
            pci) echo 1 >/sys/bus/pci/rescan ;;
            scsi) for host in /sys/class/scsi_host/*; do echo '- - -' >$host/scan; done ;;
            loop)
                truncate -s 16M /tmp/files/$2
                losetup -c $(readlink -f /dev/member/$2)
                return ;;
        esac
        waited=0
        there=
        while [ -z "$there" ]; do
            sleep 0.05
            waited=$((waited + 1))
            [ $waited -lt 600 ]
            for disk in /sys/block/[sv]d*; do
                [ "$(number $disk)" != $2 ] || there=/dev/${disk##*/}
            done
            [ -b "$there" ] || there=
        done
        ln -sf $there /dev/member/$2
    }
    written() {
        cut -c1-200 /sys/block/nbd0/stat | awk '{ print $5 }'
    }
    # round KEY WAY LEVEL USE VICTIM MEMBERS...
    round() {
        key=$1 way=$2 level=$3 use=$4 victim=$5
        shift 5
        members= others=
        for n in "$@"; do
            members="$members $(readlink -f /dev/member/$n)"
            [ $n = $victim ] || others="$others $(readlink -f /dev/member/$n)"
        done
        dmesg -c >/dev/null
        : >/tmp/log
        case $level in
            pool)
                name=tank volume=tank/one
                step "$key create" $b pool create tank raidz1 $members --force
                step "$key volume" $b volume create $volume 8M --array $members ;;
            *)
                name=a volume=a chunk="-c 64K"
                [ $level != 1 ] || chunk=
                step "$key create" $b create --force -l $level $chunk --assume-clean -N a $members ;;
        esac
        $b serve --memory 32M $members >>/tmp/log 2>&1 &
        server=$!
        waited=0
        until $b status $name >/dev/null 2>&1; do
            waited=$((waited + 1))
            [ $waited -lt 600 ]
            sleep 0.05
        done
        step "$key attach" $b attach $volume
        verified='--rw=randwrite --bsrange=4k-16k --ioengine=psync --verify=crc32c --verify_fatal=1 --randrepeat=0 --thread --eta=never'
        if [ $use = direct ]; then
            where='--filename=/dev/nbd0 --direct=1 --size=512k --fsync=32'
        else
            step "$key mkfs" mkfs.ext4 -q /dev/nbd0
            mount -t ext4 /dev/nbd0 /tmp/mnt
            where='--directory=/tmp/mnt --size=512k --fsync=8'
        fi
        before=$(written)
        fio --name=pulled $verified $where --output=/tmp/fio &
        fio=$!
        waited=0
        while [ $(($(written) - before)) -lt 8 ] && [ -d /proc/$fio ]; do
            waited=$((waited + 1))
            [ $waited -lt 1200 ]
            usleep 20000
        done
        pull $way $victim
        still=$([ -d /proc/$fio ] && echo yes || echo no)
        fio_said=0
        wait $fio || fio_said=$?
        if [ $use = direct ]; then
            blkdiscard -o 4194304 -l 1048576 /dev/nbd0
        else
            dd if=/dev/zero of=/tmp/mnt/more bs=64k count=8 conv=fsync 2>/dev/null
            sync
            step "$key unmount" umount /tmp/mnt
            step "$key fsck" fsck.ext4 -fn /dev/nbd0
        fi
        step "$key read" dd if=/dev/nbd0 of=/dev/null bs=1M iflag=direct
        put "status.$key" "$($b status --json $name | tr -d '\n')"
        step "$key detach" $b detach /dev/nbd0
        step "$key stop" $b stop $name
        wait $server || true
        put "kernel.$key" "$(dmesg | grep -E 'nbd0.*([Ee]rror|[Ff]ail|timed out)|EXT4-fs (error|warning)' | tr '\n' '|')"
        put "round.$key" "fio $fio_said running $still"
        put "fio.$key" "$([ $fio_said = 0 ] || flat /tmp/fio)"
        put "log.$key" "$(flat /tmp/log)"
        plug $way $victim
        # The disk that was pulled is out of date, if it holds anything.
        again=
        for n in "$@"; do
            again="$again $(readlink -f /dev/member/$n)"
        done
        if [ $level = pool ]; then $b check $again >/tmp/said 2>&1 || true; else $b detail $others >/tmp/said 2>&1 || true; fi
        put "record.$key" "$(flat /tmp/said)"
    }
"#;

/// A pull.
struct Round {
    way: &'static str,
    level: &'static str,
    is_direct: bool,
    /// The members' numbers, and which is pulled.
    members: Vec<usize>,
    victim: usize,
}

impl Round {
    fn new(way: &'static str, level: &'static str, is_direct: bool, victim: usize) -> Self {
        let first = 1 + EACH * ["pci", "scsi", "loop"].iter().position(|of| *of == way).unwrap();
        let count = match level {
            "1" => 2,
            "4" | "5" | "pool" => 3,
            _ => 4,
        };
        Self { way, level, is_direct, members: (first..first + count).collect(), victim: victim % count }
    }

    fn command(&self, key: usize) -> String {
        let mut line = format!("round {key} {} {}", self.way, self.level);
        let how = if self.is_direct { "direct" } else { "ext4" };
        write!(line, " {how} {}", self.members[self.victim]).unwrap();
        self.members.iter().for_each(|member| write!(line, " {member}").unwrap());
        line + "\n"
    }

    /// Holds what a round has put against what must be.
    fn judge(&self, key: usize, report: &Report) {
        let of = |what: &str| &report[&format!("{what}.{key}")];
        let context = format!("{}{}\n{}\n{}", self.command(key), of("status"), of("log"), of("fio"));
        assert_eq!(of("round"), "fio 0 running yes", "{context}");
        assert_eq!(of("kernel"), "", "{context}");
        assert!(!of("log").contains("no space"), "{context}");
        let status: Value = serde_json::from_str(of("status")).expect("JSON");
        let of_pool = self.level == "pool";
        let devices = status[if of_pool { "pool" } else { "array" }]["devices"].as_array().expect("devices");
        let failed = devices.iter().filter(|device| device["state"] == "failed").count();
        assert_eq!(failed, 1, "{context}");
        let told = of("log").split('|').find(|line| line.contains("failed"));
        let why = told.is_some_and(|line| line.contains("is gone") || line.contains("is shorter"));
        assert!(why, "{context}");
        let record = if of_pool { "was written to without it" } else { "degraded" };
        // A loop device holds nothing any more.
        let recorded = of("record").contains(record) || of_pool && self.way == "loop";
        assert!(recorded, "{}\n{context}", of("record"));
    }
}

/// Once by each way over other levels; the loop way is one of the host's tests, too. In a long run 20 pulls of each level, or as many as
/// `BRINDLE_PULLS` says.
fn rounds() -> Vec<Round> {
    if !is_long() {
        return vec![
            Round::new("pci", "6", true, 2),
            Round::new("scsi", "1", false, 1),
            Round::new("loop", "pool", true, 1),
        ];
    }
    let levels = ["1", "4", "5", "6", "10", "pool"];
    let each = std::env::var("BRINDLE_PULLS").ok().and_then(|each| each.parse().ok()).unwrap_or(PULLS);
    let round = |n: usize| {
        levels.map(|level| {
            Round::new(["pci", "scsi", "loop"][n % 3], level, n.is_multiple_of(2), n / 2 + n / 3)
        })
    };
    (0..each).flat_map(round).collect()
}

#[test]
fn a_disk_that_is_pulled_is_no_full_file_system() {
    let Some(program) = or_skip(program::without_libraries()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let image = image(&dir, program);
    let rounds = rounds();
    // Several pulls a machine: one with more says nothing for too long.
    for (machine, rounds) in rounds.chunks(12).enumerate() {
        let Some(vm) = or_skip(Vm::on(Kernel::Release).and_then(Vm::initiator)) else { return };
        let members = files::members(dir.path(), &format!("m{machine}-"), 2 * EACH, 16 * MIB);
        let commands: String = rounds.iter().enumerate().map(|(key, round)| round.command(key)).collect();
        let report = vm
            .disks([&image])
            .disks(&members[..EACH])
            .scsi_disks(&members[EACH..])
            .limit(Duration::from_secs(3000))
            .run(&format!("{SCRIPT}{commands}"))
            .unwrap();
        rounds.iter().enumerate().for_each(|(key, round)| round.judge(key, &report));
        println!("machine {machine}: {} pulls in {} s", rounds.len(), report.took.as_secs());
    }
}
