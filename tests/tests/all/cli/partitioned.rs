//! Superblocks of 0.90 at the end of a partition that ends where its disk does: they stand at the same place of the disk.

use std::os::unix::fs::FileExt;
use std::process::Command;

use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::tools::{self, or_skip};

use super::*;

const START: u64 = MIB;
const DISK: u64 = 16 * MIB;

/// Puts a DOS table with one partition on a disk, or takes the table off.
fn partition(disk: &Path, bytes: Option<core::ops::Range<u64>>) {
    let file = std::fs::File::options().write(true).open(disk).unwrap();
    let mut end = [0; 66];
    if let Some(bytes) = bytes {
        let sectors = [bytes.start / 512, (bytes.end - bytes.start) / 512].map(|sectors| sectors as u32);
        end[4] = 0xfd;
        end[8..12].copy_from_slice(&sectors[0].to_le_bytes());
        end[12..16].copy_from_slice(&sectors[1].to_le_bytes());
        end[64..].copy_from_slice(&[0x55, 0xaa]);
    }
    file.write_all_at(&end, 446).unwrap();
}

/// Disks whose only partitions are the members of a mirror.
fn disks(count: usize) -> Set {
    let set = Set::sparse(count, DISK - START);
    set.create("-l 1 -e 0.90").ok();
    for member in &set.members {
        let bytes = std::fs::read(member).unwrap();
        let disk = std::fs::File::create(member).unwrap();
        disk.write_all_at(&bytes, START).unwrap();
        partition(member, Some(START..DISK));
    }
    set
}

/// The verdict of libblkid on a disk.
fn blkid_sees_raid(disk: &Path) -> Option<bool> {
    let blkid = or_skip(tools::find("blkid"))?;
    let reported = Command::new(blkid).arg("-p").arg(disk).output().unwrap();
    Some(String::from_utf8_lossy(&reported.stdout).contains("linux_raid_member"))
}

#[test]
fn a_superblock_at_the_end_of_a_partition_is_not_its_disks() {
    let set = disks(2);
    let first = name(&set.members[0]);
    set.unchanged(|| {
        set.serve_refused("").refused(1, &[first, "only read", "--read-only"]);
        // Where nothing is written the disk stands for its partition.
        let reported = set.detail();
        assert_eq!(reported["devices"][0]["path"], format!("{first}#1"), "{reported}");
        set.run("cat").ok();
        let examined = set.run("examine --json").ended(1);
        assert!(examined.text().contains("that of partition 1"), "{}", examined.text());
        let add = format!("add --array {first} --");
        run(&add, &set.members[1..]).refused(1, &[first, "only read"]);
    });
    assert!(blkid_sees_raid(&set.members[0]) != Some(true));
    // Without the table, or where its partition ends before, nothing says so.
    for table in [None, Some(START..DISK - MIB), Some(0..0)] {
        set.members.iter().for_each(|disk| partition(disk, table.clone()));
        assert!(blkid_sees_raid(&set.members[0]) != Some(false), "{table:?}");
        set.run("detail").ok();
    }
}

#[test]
fn whole_disks_that_are_partitioned_inside_or_were_before_go_on_working() {
    let set = Set::sparse(2, DISK);
    set.create("-l 1 -e 0.90 -N a").refused(1, &["0.90"]);
    set.create("-l 1 -e 0.90").ok();
    let size = set.detail()["size"].as_u64().unwrap();
    // A table on the array, which stands in the first sector of its members; and one that was left on the disks.
    for table in [START..size, START..DISK] {
        set.members.iter().for_each(|disk| partition(disk, Some(table.clone())));
        assert!(blkid_sees_raid(&set.members[0]) != Some(false), "{table:?}");
        let server = set.serve("");
        let mut client = Client::connect(&server.uri());
        let work = Work::Write { data: vec![3; 64 << 10], fua: false };
        client.all_at_once(&[Change { offset: START, len: 64 << 10, work }]);
        client.close();
        server.stop();
        assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0);
    }
}
