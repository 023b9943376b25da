//! Disks of a NAS: each has a partition of three arrays, as vendors make them.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use brindle_tests::nbd::Client;
use brindle_tests::tools::{find, or_skip};

use super::*;

/// The partitions of each disk: number, start, length in MiB.
pub(super) const GPT: [(u32, u64, u64); 3] = [(1, 1, 8), (2, 9, 7), (5, 17, 16)];
pub(super) const DISK: u64 = 34 * MIB;
/// Flags that each array is created with.
const ARRAYS: [&str; 3] = ["-l 1 -e 0.90", "-l 1 -e 1.0 -N swap", "-l 5 -c 64K -N data"];

/// Disks with the members of all arrays inside, and what each array has.
pub(super) struct Nas {
    pub(super) set: Set,
    pub(super) contents: Vec<Vec<u8>>,
}

impl Nas {
    /// Partitioned as `label` says; a DOS label has the third partition in an extended one.
    pub(super) fn new(disks: usize, label: &str) -> Option<Self> {
        or_skip(find("sfdisk"))?;
        let set = Set::sparse(disks, DISK);
        for disk in &set.members {
            let entry = |(number, start, len): (u32, u64, u64)| {
                format!("{number}: start={}, size={}\n", start * MIB / 512, len * MIB / 512)
            };
            let [first, second, third] = GPT.map(entry);
            let extended = match label {
                "dos" => format!("3: start={}, size={}, type=5\n", 16 * MIB / 512 + 1024, 17 * MIB / 512),
                _ => String::new(),
            };
            // sfdisk wants them in the order of their numbers.
            let table = format!("label: {label}\n{first}{second}{extended}{third}");
            sfdisk(disk, &table);
        }
        let contents = (0..3).map(|array| fill(&set, array)).collect();
        Some(Self { set, contents })
    }

    /// The members of an array, as they are named.
    pub(super) fn inside(&self, array: usize) -> Vec<PathBuf> {
        let number = GPT[array].0;
        self.set.members.iter().map(|disk| PathBuf::from(format!("{}#{number}", disk.display()))).collect()
    }
}

pub(super) fn sfdisk(disk: &Path, table: &str) {
    let mut command = Command::new(find("sfdisk").unwrap_or_else(|missing| panic!("{missing}")));
    command.args(["--quiet", "--no-reread", "--no-tell-kernel"]).arg(disk).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(table.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{table}");
}

/// Makes an array and puts its members into the partitions; gives its content.
fn fill(disks: &Set, array: usize) -> Vec<u8> {
    let (_, start, len) = GPT[array];
    let made = Set::random(disks.members.len(), len * MIB);
    made.create(&format!("--force {}", ARRAYS[array])).ended(0);
    for (member, disk) in made.members.iter().zip(&disks.members) {
        let disk = std::fs::File::options().write(true).open(disk).unwrap();
        disk.write_all_at(&std::fs::read(member).unwrap(), start * MIB).unwrap();
    }
    made.run("cat").ok().out
}

#[test]
fn three_arrays_in_the_partitions_of_disks_are_told_apart_and_read() {
    for label in ["gpt", "dos"] {
        let Some(nas) = Nas::new(4, label) else { return };
        nas.set.unchanged(|| {
            let reported = nas.set.run("detail --json").json();
            let arrays = reported["arrays"].as_array().unwrap();
            let levels: Vec<&str> = arrays.iter().map(|array| array["level"].as_str().unwrap()).collect();
            assert_eq!(levels, ["raid1", "raid1", "raid5"], "{label}");
            assert!(nas.set.run("detail").ok().text().contains(name(&nas.inside(2)[3])));
            for (array, content) in nas.contents.iter().enumerate() {
                let inside = nas.inside(array);
                assert!(run("cat", &inside).ok().out == *content, "{label}: {array}");
                assert!(run("cat", &inside[1..]).ok().out == *content, "{label}: {array}, degraded");
                assert_eq!(run("check --json", &inside).json()["mismatch_cnt"], 0);
            }
            let examined = nas.set.run("examine --json").json();
            assert_eq!(examined["problem"], Value::Null, "{examined}");
            let members = examined["members"].as_array().unwrap();
            assert_eq!(members.len(), 4 * (1 + 3), "{label}: {examined}");
            assert_eq!(members.iter().filter(|member| member["superblock"].is_object()).count(), 12);
            // Of several arrays one has to be meant.
            nas.set.run("cat").refused(1, &[name(&nas.inside(2)[0]), "different arrays"]);
        });
    }
}

#[test]
fn partitions_are_served_to_be_read_and_never_written_to() {
    let Some(nas) = Nas::new(3, "gpt") else { return };
    nas.set.unchanged(|| {
        let server = nas.set.serve("--read-only");
        let export = nas.set.path("run");
        assert!(export.exists());
        let uri = server.said["arrays"][2]["nbd"][0].as_str().unwrap_or_default().to_owned();
        let uri = if uri.is_empty() { server.uri() } else { uri };
        let mut client = Client::connect(&uri);
        let first = client.read(0, 64 * KIB);
        assert!(nas.contents.iter().any(|content| content.starts_with(&first)));
        client.close();
        server.stop();
        nas.set.serve_refused("").refused(1, &["only read", "--read-only"]);
        let first: Vec<PathBuf> = nas.inside(2);
        run("repair", &first).refused(1, &["only read", "--read-only"]);
    });
}

#[test]
fn a_place_is_named_by_its_offset_and_a_file_of_such_a_name_is_a_file() {
    let Some(nas) = Nas::new(3, "gpt") else { return };
    let (_, start, _) = GPT[2];
    let by_offset = |what: &str| -> Vec<PathBuf> {
        nas.set.members.iter().map(|disk| PathBuf::from(format!("{}@{what}", disk.display()))).collect()
    };
    for what in [format!("{start}M"), format!("{}s", start * MIB / 512), (start * MIB).to_string()] {
        assert!(run("cat", &by_offset(&what)).ok().out == nas.contents[2], "{what}");
    }
    let disk = name(&nas.set.members[0]);
    let odd = [PathBuf::from(format!("{disk}@513"))];
    run("detail", &odd).refused(1, &["whole sectors"]);
    let beyond = [PathBuf::from(format!("{disk}@1T"))];
    run("detail", &beyond).refused(1, &["no part"]);
    let none = [PathBuf::from(format!("{disk}#7"))];
    run("detail", &none).refused(1, &["no partition 7", "1, 2, 5"]);
    // The path as it is written.
    let other = Set::random(2, 4 * MIB);
    let inside = nas.inside(2);
    std::fs::copy(&other.members[0], &inside[0]).unwrap();
    let examined = run("examine --json", &inside[..1]).json();
    assert_eq!(examined["members"][0]["size"], 4 * MIB);
    assert_eq!(examined["members"][0]["superblock"], Value::Null);
}

#[test]
fn what_stands_on_an_array_is_named_with_the_command_that_goes_on() {
    let luks = b"LUKS\xba\xbe\0\x01".as_slice();
    let xfs = b"XFSB\0\0\x10\0".as_slice();
    for (magic, kind, next) in
        [(luks, "LUKS", "cryptsetup open --readonly"), (xfs, "XFS", "mount -o ro,norecovery")]
    {
        let set = Set::sparse(3, 4 * MIB);
        set.create("-l 5 -c 64K").ok();
        assert_eq!(set.detail()["holds"], serde_json::json!([]));
        let server = set.serve("");
        let mut client = Client::connect(&server.uri());
        let mut data = magic.to_vec();
        data.resize(4096, 0);
        let work = brindle_tests::nbd::Work::Write { data, fua: true };
        client.all_at_once(&[brindle_tests::nbd::Change { offset: 0, len: 4096, work }]);
        client.close();
        server.stop();
        // Degraded, too.
        for members in [&set.members[..], &set.members[1..]] {
            let reported = run("detail --json", members).json();
            assert!(reported["holds"][0]["kind"].as_str().unwrap().contains(kind), "{reported}");
            let line = reported["holds"][0]["next"].as_str().unwrap();
            assert!(
                line.contains(next) && line.contains("--read-only") && line.contains(name(&members[0])),
                "{line}"
            );
        }
    }
}

#[test]
fn a_partition_of_the_array_is_read_by_its_number() {
    if or_skip(find("sfdisk")).is_none() {
        return;
    }
    let set = Set::random(3, 8 * MIB);
    set.create("-l 5 -c 64K --force").ended(0);
    let content = set.path("content");
    std::fs::write(&content, set.run("cat").ok().out).unwrap();
    sfdisk(&content, "label: dos\n1: start=2048, size=2048\n2: start=4096, size=1000\n");
    let server = set.serve("");
    let mut bytes = std::fs::read(&content).unwrap();
    let mut client = Client::connect(&server.uri());
    let data = bytes[..64 * KIB as usize].to_vec();
    client.all_at_once(&[brindle_tests::nbd::Change {
        offset: 0,
        len: 64 * KIB,
        work: brindle_tests::nbd::Work::Write { data, fua: true },
    }]);
    client.close();
    server.stop();
    let second = bytes.drain((4096 * 512)..(4096 * 512 + 1000 * 512)).collect::<Vec<u8>>();
    assert!(set.run("cat --partition 2").ok().out == second);
    assert!(set.run("cat --partition 2 --offset 512 --length 1K").ok().out == second[512..1536]);
    let reported = set.detail();
    let held = &reported["holds"][0];
    let next = held["next"].as_str().unwrap();
    assert!(
        held["kind"] == "DOS partition table" && next.contains("brindle cat --partition 1 -o"),
        "{reported}"
    );
    assert!(set.run("detail").ok().text().contains("To get at it : partitions 1 (1 MiB), 2 (500 KiB): "));
    set.run("cat --partition 3").refused(1, &["no partition 3", "1, 2"]);
    set.run("cat --partition 2 --length 1M").refused(2, &["partition has 512000 bytes"]);
}
