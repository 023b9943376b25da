//! Disks of Intel's firmware RAID, made here byte by byte: looked at, read in any order and with whatever lacks, and never written to.

use brindle_format::imsm::{
    Container, ContainerAttributes, ContainerDisk, ContainerVolume, DiskSlot, DiskStatus, MapState,
    Migration, MigrationKind, VolumeMap, anchor, extended,
};
use brindle_tests::files;
use brindle_tests::loops::Loop;
use brindle_tests::nbd::Client;
use brindle_tests::tools::{find, or_skip};

use super::*;

const STRIP: u64 = 64 * KIB;
const DISK: u64 = 16 * MIB;

/// A volume: level as the format counts it, and bytes of each disk.
type Shape = (u8, u64);

/// Disks of a container, and what each volume has.
struct Disks {
    set: Set,
    container: Container,
    contents: Vec<Vec<u8>>,
    sector: u64,
}

fn padded(text: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// Bytes that look like chance, by way of a file.
fn pattern(file: &Path, size: u64, seed: u64) -> Vec<u8> {
    files::write_pattern(file, size, seed);
    let bytes = std::fs::read(file).unwrap();
    std::fs::remove_file(file).unwrap();
    bytes
}

/// Strips of data in a row.
fn data_strips(level: u8, count: u64) -> u64 {
    match level {
        0 => count,
        5 => count - 1,
        1 if count == 2 => 1,
        _ => count / 2,
    }
}

/// Puts content onto the parts of disks, as the level has it.
fn lay(level: u8, content: &[u8], parts: &mut [Vec<u8>]) {
    let count = parts.len();
    let data = data_strips(level, count as u64) as usize;
    if level == 1 && count == 2 {
        parts.iter_mut().for_each(|part| part.copy_from_slice(content));
        return;
    }
    for (row, strips) in content.chunks(STRIP as usize * data).enumerate() {
        let place = row * STRIP as usize..(row + 1) * STRIP as usize;
        // Left-asymmetric: parity goes from the last disk to the first.
        let parity = (level == 5).then(|| count - 1 - row % count);
        let mut sum = vec![0; STRIP as usize];
        for (at, strip) in strips.chunks(STRIP as usize).enumerate() {
            let disks = match (level, parity) {
                (0, _) => vec![at],
                (_, Some(parity)) => vec![if at < parity { at } else { at + 1 }],
                _ => vec![2 * at, 2 * at + 1],
            };
            disks.iter().for_each(|disk| parts[*disk][place.clone()].copy_from_slice(strip));
            sum.iter_mut().zip(strip).for_each(|(sum, byte)| *sum ^= byte);
        }
        if let Some(parity) = parity {
            parts[parity][place].copy_from_slice(&sum);
        }
    }
}

impl Disks {
    fn new(count: usize, shapes: &[Shape], sector: u64) -> Self {
        let set = Set::sparse(count, DISK);
        let serials: Vec<String> = (0..count).map(|at| format!("SERIAL{at}X")).collect();
        let mut container = Container::new(0x1234_5678, 7);
        let disk = |serial: &String| ContainerDisk::new(padded(serial), DISK, DiskStatus::CONFIGURED);
        container.disks = serials.iter().map(disk).collect();
        let (mut offset, mut contents) = (0, Vec::new());
        for (number, &(level, per)) in shapes.iter().enumerate() {
            let content =
                pattern(&set.path("pattern"), per * data_strips(level, count as u64), number as u64 + 1);
            let mut parts = vec![vec![0; per as usize]; count];
            lay(level, &content, &mut parts);
            for (disk, part) in set.members.iter().zip(&parts) {
                put(disk, offset, part);
            }
            let mut map = VolumeMap::new(level, STRIP, (0..count as u32).map(DiskSlot).collect());
            (map.offset, map.member_size) = (offset, per + MIB);
            map.domains = if matches!(level, 1 | 10) { 2 } else { 1 };
            map.stripes = per / STRIP / u64::from(map.domains);
            container.volumes.push(ContainerVolume::new(
                padded(&format!("Volume{number}")),
                content.len() as u64,
                map,
            ));
            offset += per + MIB;
            contents.push(content);
        }
        let mut disks = Self { set, container, contents, sector };
        // Names of the files hold the serial numbers: nothing else tells disks from each other.
        for (path, serial) in disks.set.members.iter_mut().zip(&serials) {
            let named = path.with_file_name(format!("{serial}.img"));
            std::fs::rename(&*path, &named).unwrap();
            *path = named;
        }
        (0..count).for_each(|disk| disks.write(disk, &disks.container));
        disks
    }

    /// Writes metadata to a disk.
    fn write(&self, disk: usize, container: &Container) {
        write(&self.set.members[disk], container, self.sector);
    }

    /// Changes the metadata of all disks.
    fn change(&mut self, change: impl FnOnce(&mut Container)) {
        change(&mut self.container);
        (0..self.set.members.len()).for_each(|disk| self.write(disk, &self.container));
    }

    fn cat(&self, flags: &str, disks: &[usize]) -> Ran {
        let members: Vec<PathBuf> = disks.iter().map(|disk| self.set.members[*disk].clone()).collect();
        run(&format!("cat {flags}"), &members)
    }
}

/// The metadata, changed.
fn with(disks: &Disks, change: impl FnOnce(&mut Container)) -> Container {
    let mut container = disks.container.clone();
    change(&mut container);
    container
}

fn in_state(map: &VolumeMap, state: MapState) -> VolumeMap {
    let mut map = map.clone();
    map.state = state;
    map
}

fn write(path: &Path, container: &Container, sector: u64) {
    let bytes = container.encode(sector).unwrap();
    let (first, rest) = bytes.split_at(bytes.len().min(sector as usize));
    put(path, anchor(DISK, sector).unwrap().start, first);
    put(path, extended(DISK, sector, bytes.len()).unwrap().start, rest);
}

fn put(path: &Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    std::fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

/// All levels, one volume and two, on disks of either kind of sectors.
const SHAPES: [(usize, &[Shape], u64); 9] = [
    (2, &[(0, 2 * MIB)], 512),
    (3, &[(0, MIB), (5, 2 * MIB)], 512),
    (6, &[(0, MIB)], 4096),
    (2, &[(1, 2 * MIB), (0, MIB)], 512),
    (2, &[(1, 2 * MIB)], 4096),
    (4, &[(5, 2 * MIB), (1, 2 * MIB)], 512),
    (6, &[(5, MIB)], 512),
    (4, &[(1, 2 * MIB), (5, MIB)], 4096),
    (6, &[(10, 2 * MIB)], 512),
];

#[test]
fn volumes_of_all_levels_are_read_in_any_order_and_without_a_disk() {
    for (count, shapes, sector) in SHAPES {
        let disks = Disks::new(count, shapes, sector);
        disks.set.unchanged(|| {
            for (number, (level, _)) in shapes.iter().enumerate() {
                let content = &disks.contents[number];
                let flags = format!("--volume Volume{number}");
                let mut order: Vec<usize> = (0..count).collect();
                for turn in 0..count {
                    order.rotate_left(1);
                    let read = disks.cat(&flags, &order);
                    assert!(read.out == *content, "{count} {shapes:?} {sector}: {}", read.err);
                    if *level != 0 {
                        assert!(disks.cat(&flags, &order[1..]).out == *content, "{shapes:?} without {turn}");
                    }
                }
                if *level == 0 {
                    disks
                        .cat(&flags, &order[1..])
                        .refused(1, &["Volume", "are missing", "give more of them"]);
                } else {
                    let check = run(&format!("check --json --volume {number}"), &disks.set.members);
                    assert_eq!(check.ended(0).report()["mismatch_cnt"], 0);
                }
            }
        });
    }
}

#[test]
fn what_a_container_has_is_told_and_its_disks_are_no_disks_with_partitions() {
    let mut disks = Disks::new(3, &[(0, 2 * MIB), (5, MIB)], 512);
    // A partition table within the first volume stands at the beginning of a disk.
    let mut table = vec![0; 512];
    table[446 + 4] = 0x83;
    table[454..458].copy_from_slice(&64u32.to_le_bytes());
    table[458..462].copy_from_slice(&64u32.to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    put(&disks.set.members[0], 0, &table);
    let examined = run("examine --json", &disks.set.members).json();
    let members = examined["members"].as_array().unwrap();
    assert_eq!(members.len(), 3, "{examined}");
    let seen = &members[0]["container"];
    assert_eq!((seen["family"].as_str(), seen["generation"].as_u64()), (Some("12345678"), Some(7)));
    assert_eq!(seen["volumes"][1]["offset"], 3 * MIB);
    let all = run("detail --json", &disks.set.members).json();
    assert_eq!(
        (&all["arrays"][0]["level"], &all["arrays"][1]["layout"]),
        (&"raid0".into(), &"left-asymmetric".into())
    );
    assert!(
        all["arrays"][0]["holds"][0]["next"]
            .as_str()
            .unwrap()
            .contains("--partition 1 -o part1.img --volume 0")
    );
    let container = &all["arrays"][1]["container"];
    assert_eq!((&container["family"], &container["generation"]), (&"12345678".into(), &7.into()));
    assert_eq!(container["volumes"], serde_json::json!(["Volume0", "Volume1"]));
    let lone = run("detail --volume 1 --json", &disks.set.members[..2]).json();
    let seen = &lone["container"]["disks"];
    assert_eq!((&seen[2]["state"], &seen[2]["path"]), (&"configured".into(), &serde_json::Value::Null));
    assert_eq!(seen[0]["serial"], "SERIAL0X");
    let text = run("detail --volume 1", &disks.set.members[..2]).ok().text();
    assert!(text.contains("Container : disk 2, serial SERIAL2X: configured, not here"), "{text}");
    // Features that nothing here knows are named, and it is only read.
    disks.change(|container| container.attributes = ContainerAttributes(0x8000_0021));
    let text = run("examine", &disks.set.members[..1]).ok().text();
    assert!(text.contains("Attributes : not supported: cng"), "{text}");
    let read = disks.cat("--volume 1", &[0, 1, 2]);
    assert!(read.out == disks.contents[1] && read.err.contains("does not know: cng"), "{}", read.err);
}

#[test]
fn what_is_not_done_with_volumes_is_refused_by_name() {
    let disks = Disks::new(3, &[(5, MIB)], 512);
    run("bench --rw=read --bs=4k --size=1M --array", &disks.set.members)
        .refused(1, &["SERIAL0X", "Intel's RAID", "--read-only", "--nbd"]);
    run("advise", &disks.set.members).refused(1, &["SERIAL0X", "Intel's RAID", "firmware's tool"]);
}

#[test]
fn the_fields_are_those_that_mdadm_shows() {
    let Some(mdadm) = or_skip(find("mdadm")) else { return };
    for (count, shapes, sector) in SHAPES {
        let mut disks = Disks::new(count, shapes, sector);
        if count == 4 {
            disks.change(|container| {
                let volume = &mut container.volumes[0];
                let before = in_state(&volume.map, MapState::Degraded);
                (volume.migration, volume.dirty) =
                    (Some(Migration { kind: MigrationKind::Rebuild, before }), 1);
                volume.map.slots[1] = DiskSlot(1 << 24 | 1);
            });
        }
        let Some(device) = or_skip(Loop::over(&disks.set.members[0], sector as u32)) else { return };
        let mut command = std::process::Command::new(&mdadm);
        command
            .arg("--examine")
            .arg(device.path())
            .envs([("IMSM_NO_PLATFORM", "1"), ("IMSM_DEVNAME_AS_SERIAL", "1")]);
        let theirs = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let ours = run("examine", &disks.set.members[..1]).ok().text();
        let fields = |text: &str| -> Vec<(String, String)> {
            let pairs = text.lines().filter_map(|line| line.split_once(" : "));
            // Sizes are shown in other units behind the number, and no machine knows serial numbers of files.
            let number = |value: &str| value.split(" (").next().unwrap().trim().to_owned();
            pairs.map(|(name, value)| (name.trim().to_owned(), number(value))).collect()
        };
        let ours = fields(&ours);
        assert!(theirs.contains("Intel Raid"), "{theirs}");
        // Of large sectors mdadm shows the checksum of what it has made of them.
        let sum = if sector == 512 { "" } else { "Checksum" };
        let unshown = ["This Slot", "Map State", "Checkpoint", "Migrate State", sum];
        for field in fields(&theirs).iter().filter(|(name, _)| !unshown.contains(&name.as_str())) {
            assert!(ours.contains(field), "{field:?} of\n{theirs}\nis not in {ours:?}");
        }
    }
}

#[test]
fn metadata_alone_are_kept_without_names_if_that_is_wanted() {
    let disks = Disks::new(3, &[(5, 2 * MIB)], 512);
    for anonymous in [false, true] {
        let to: Vec<PathBuf> =
            (0..3).map(|disk| disks.set.path(&format!("dump{anonymous}-DISK0{disk}"))).collect();
        for (disk, to) in disks.set.members.iter().zip(&to) {
            let flags = if anonymous { " --anonymous" } else { "" };
            run(&format!("examine --dump {}{flags}", name(to)), std::slice::from_ref(disk)).ok();
            let bytes = std::fs::read(to).unwrap();
            assert_eq!(bytes.len() as u64, DISK);
            assert!(bytes[..DISK as usize - 8192].iter().all(|byte| *byte == 0), "content is kept");
            let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
            assert_eq!((has(b"SERIAL"), has(b"Volume0")), (!anonymous, true));
        }
        if anonymous {
            assert_eq!(run("detail --json", &to).json()["size"], 4 * MIB);
        }
        run(&format!("examine --dump {}", name(&to[0])), &disks.set.members[..1]).refused(1, &["exists"]);
    }
    let other = Set::raid5(3);
    let to = other.path("dump");
    run(&format!("examine --dump {}", name(&to)), &other.members[..1])
        .refused(1, &["no metadata of Intel's RAID"]);
    assert!(!to.exists());
}

#[test]
fn disks_that_are_out_of_date_failed_or_another_containers_are_left_out_or_refused() {
    let mut disks = Disks::new(3, &[(5, 2 * MIB)], 512);
    // One missed writes: the others have gone on.
    let old = disks.container.clone();
    disks.change(|container| container.generation = 20);
    disks.write(1, &old);
    put(&disks.set.members[1], 0, &[9; 4096]);
    let read = disks.cat("", &[0, 1, 2]);
    assert!(
        read.out == disks.contents[0] && read.err.contains("out of date, at generation 7 of 20"),
        "{}",
        read.err
    );
    // One event is what a crash leaves.
    disks.write(1, &with(&disks, |own| own.generation = 19));
    assert!(!disks.cat("", &[0, 1, 2]).err.contains("out of date"));
    disks.change(|container| container.disks[1].status = DiskStatus(6));
    let read = disks.cat("", &[0, 1, 2]);
    assert!(read.out == disks.contents[0] && read.err.contains("says that it has failed"), "{}", read.err);
    // Two of one generation that say different things.
    let other = with(&disks, |own| own.power_cycles = 9);
    disks.write(2, &other);
    disks.cat("", &[0, 1, 2]).refused(1, &["SERIAL2X", "different things at generation 20"]);
    // Disks of two families.
    disks.write(2, &with(&disks, |own| own.family = 5));
    disks.cat("", &[0, 1, 2]).refused(1, &["different containers", "00000005", "12345678"]);
    // One disk twice.
    disks.write(2, &disks.container);
    let twin = disks.set.path("copy-of-SERIAL0X.img");
    std::fs::copy(&disks.set.members[0], &twin).unwrap();
    run("cat", &[disks.set.members[0].clone(), twin, disks.set.members[2].clone()])
        .refused(1, &["are both the disk of serial number 'SERIAL0X'"]);
}

#[test]
fn disks_that_nothing_tells_apart_are_refused_unless_their_order_is_given() {
    let mut disks = Disks::new(3, &[(5, 2 * MIB)], 512);
    for (at, path) in disks.set.members.iter_mut().enumerate() {
        let named = path.with_file_name(format!("image{at}"));
        std::fs::rename(&*path, &named).unwrap();
        *path = named;
    }
    disks.cat("", &[2, 0, 1]).refused(1, &["image2", "SERIAL0X", "--disks"]);
    let all: Vec<&str> = disks.set.members.iter().map(|path| name(path)).collect();
    let flags = format!("--disks {},{},{}", all[0], all[1], all[2]);
    assert!(disks.cat(&flags, &[2, 0, 1]).ended(0).out == disks.contents[0]);
    // One that is left has the place that is left, and mirrors hold the same.
    std::fs::rename(&disks.set.members[1], disks.set.path("SERIAL1X")).unwrap();
    let two = [disks.set.path("SERIAL1X"), disks.set.members[0].clone()];
    run("cat", &two).refused(1, &["image0"]);
    let mirror = Disks::new(2, &[(1, 2 * MIB)], 512);
    let lone = mirror.set.path("some");
    std::fs::rename(&mirror.set.members[1], &lone).unwrap();
    assert!(run("cat", &[lone]).ended(0).out == mirror.contents[0]);
}

#[test]
fn what_is_not_known_true_is_not_computed_from() {
    let mut disks = Disks::new(3, &[(5, 2 * MIB)], 512);
    disks.change(|container| container.volumes[0].dirty = 1);
    assert!(disks.cat("", &[0, 1, 2]).ended(0).out == disks.contents[0]);
    disks.cat("", &[0, 2]).refused(1, &["not stopped cleanly", "'SERIAL1X'", "--force"]);
    let forced = disks.cat("--force", &[0, 2]).ended(0);
    assert!(forced.out == disks.contents[0] && forced.err.contains("may be wrong"), "{}", forced.err);
    // A disk that is being rebuilt gives nothing.
    disks.change(|container| {
        let volume = &mut container.volumes[0];
        let before = in_state(&volume.map, MapState::Degraded);
        (volume.dirty, volume.unit) = (0, 3);
        volume.migration = Some(Migration { kind: MigrationKind::Rebuild, before });
        volume.map.slots[1] = DiskSlot(1 << 24 | 1);
    });
    put(&disks.set.members[1], 0, &[5; 2 << 20]);
    assert!(disks.cat("", &[0, 1, 2]).ended(0).out == disks.contents[0]);
    disks.cat("", &[0, 1]).refused(1, &["are missing"]);
    assert_eq!(state(&run("detail --json", &disks.set.members).json()), ["clean", "degraded", "read-only"]);
    // mdadm has the mark in the map of before alone.
    disks.change(|container| {
        let volume = &mut container.volumes[0];
        volume.map.slots[1] = DiskSlot(1);
        volume.migration.as_mut().unwrap().before.slots[1] = DiskSlot(1 << 24 | 1);
    });
    assert!(disks.cat("", &[0, 1, 2]).ended(0).out == disks.contents[0]);
    disks.cat("", &[0, 1]).refused(1, &["are missing"]);
    // Redundancy that was never made true.
    disks.change(|container| {
        let volume = &mut container.volumes[0];
        let before = in_state(&volume.map, MapState::Uninitialised);
        volume.migration = Some(Migration { kind: MigrationKind::Init, before });
        volume.map.slots[1] = DiskSlot(1);
    });
    disks.cat("", &[0, 2]).refused(1, &["not initialised"]);
    // Bytes that are being moved.
    disks.change(|container| {
        let volume = &mut container.volumes[0];
        let before = volume.map.clone();
        volume.migration = Some(Migration { kind: MigrationKind::General, before });
    });
    disks.cat("", &[0, 1, 2]).refused(1, &["general migration"]);
}

#[test]
fn volumes_that_can_not_be_are_refused_with_the_reason() {
    let refused = |change: fn(&mut Container), words: &[&str]| {
        let mut disks = Disks::new(3, &[(5, 2 * MIB), (0, MIB)], 512);
        disks.change(change);
        disks.set.unchanged(|| disks.cat("--volume 1", &[0, 1, 2]).refused(1, words));
        run("detail", &disks.set.members).ended(1);
    };
    refused(|container| container.volumes[1].map.offset = MIB, &["'Volume0'", "'Volume1'", "overlap"]);
    refused(
        |container| (container.volumes[1].map.offset, container.volumes[1].map.member_size) = (DISK, DISK),
        &["reaches to byte", "SERIAL0X"],
    );
    refused(|container| container.volumes[1].size = u64::MAX - 511, &["'Volume1' can't be read"]);
    refused(|container| container.volumes[1].map.level = 7, &["level 7 with 3 disks"]);
    refused(
        |container| container.volumes[1].map.slots[2] = DiskSlot(9),
        &["a disk that the container does not have"],
    );
    refused(|container| container.volumes[1].map.slots[2] = DiskSlot(0), &["names a disk twice"]);
    refused(|container| container.volumes[1].map.strip = 0, &["'Volume1' can't be read"]);
    // Damaged metadata of one disk: the others do without it.
    let disks = Disks::new(3, &[(5, 2 * MIB)], 512);
    put(&disks.set.members[1], anchor(DISK, 512).unwrap().start + 100, &[1]);
    let read = disks.cat("", &[0, 1, 2]);
    assert!(read.out == disks.contents[0] && read.err.contains("torn or damaged"), "{}", read.err);
    run("examine", &disks.set.members[1..2]).ended(1);
    disks.cat("--volume 4", &[0, 2]).refused(1, &["no volume '4'", "'Volume0'"]);
}

#[test]
fn a_part_is_written_of_a_volume_that_lacks_too_many_disks() {
    let disks = Disks::new(4, &[(5, 2 * MIB)], 512);
    let to = disks.set.path("out");
    let ran = disks.cat(&format!("--partial -o {}", name(&to)), &[0, 3]).ended(8);
    assert!(ran.text().contains("% of it"), "{}", ran.text());
    let (bytes, content) = (std::fs::read(&to).unwrap(), &disks.contents[0]);
    let strips = bytes.chunks(STRIP as usize).zip(content.chunks(STRIP as usize));
    let (same, zero) = strips.fold((0, 0), |(same, zero), (got, want)| {
        if got == want {
            (same + 1, zero)
        } else {
            (same, zero + usize::from(got.iter().all(|byte| *byte == 0)))
        }
    });
    assert_eq!(same + zero, content.len() / STRIP as usize);
    assert!(same * 3 > zero, "{same} of {zero}");
}

#[test]
fn all_volumes_of_a_container_are_served_at_once_to_be_read() {
    let disks = Disks::new(4, &[(5, 2 * MIB), (1, 2 * MIB)], 512);
    disks.set.unchanged(|| {
        let server = disks.set.serve("--read-only");
        for (number, content) in disks.contents.iter().enumerate() {
            let uri = server.uri().replacen("Volume0", &format!("Volume{number}"), 1);
            let mut client = Client::connect(&uri);
            assert!(client.read(0, 64 * KIB) == content[..64 * KIB as usize], "{number}");
            client.close();
        }
        server.stop();
    });
}

#[test]
fn a_disk_that_was_copied_onto_a_larger_one_is_found() {
    let disks = Disks::new(3, &[(5, 2 * MIB)], 512);
    let larger = std::fs::File::options().write(true).open(&disks.set.members[0]).unwrap();
    larger.set_len(DISK + 5 * MIB).unwrap();
    let examined = run("examine --json --search", &disks.set.members[..1]).json();
    let part = PathBuf::from(format!("{}@0..{DISK}", name(&disks.set.members[0])));
    let found = examined["members"].as_array().unwrap().iter().find(|member| member["path"] == name(&part));
    assert!(found.is_some_and(|member| member["container"].is_object()), "{examined}");
    let read = run("cat", &[part, disks.set.members[1].clone()]);
    assert!(read.out == disks.contents[0], "{}", read.err);
}

#[test]
fn the_others_are_told_beside_the_image_of_a_disk_that_was_cut() {
    let disks = Disks::new(3, &[(5, 2 * MIB)], 512);
    let cut = std::fs::File::options().write(true).open(&disks.set.members[1]).unwrap();
    cut.set_len(DISK - MIB).unwrap();
    disks.set.unchanged(|| {
        let told = run("detail --json", &disks.set.members).ended(0);
        assert!(
            told.err.contains("has no md superblock") && told.err.contains("leave it out"),
            "{}",
            told.err
        );
        let report = told.report();
        assert_eq!(
            (&report["name"], &report["state"][1]),
            (&"Volume0".into(), &"degraded".into()),
            "{report}"
        );
        let read = disks.cat("", &[0, 1, 2]).ended(0);
        assert!(read.out == disks.contents[0] && read.err.contains("going on without it"), "{}", read.err);
    });
}
