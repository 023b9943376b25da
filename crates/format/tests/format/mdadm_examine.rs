//! Superblocks that this crate writes are read the same by real mdadm: `mdadm --examine` on plain files.
//!
//! Without mdadm the tests say SKIPPED, and fail with `CI=true`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use brindle_format::md::badblocks::{self, BadRange};
use brindle_format::md::bitmap::{BitmapState, BitmapSuper, BitmapVersion};
use brindle_format::md::defaults::{self, Consistency, Placement};
use brindle_format::md::{
    DeviceRole, Endian, Features, Reshape, Superblock, Timestamp, Uuid, Version, display_uuid,
};
use brindle_testkit::skip::{find, or_skip};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const DEVICE: u64 = 64 * MIB;
const VERSIONS: [Version; 4] = [Version::V0_90(Endian::Little), Version::V1_0, Version::V1_1, Version::V1_2];

/// One kind of array, and how mdadm names it.
struct Kind {
    level: i32,
    level_name: &'static str,
    layout: u32,
    layout_name: Option<&'static str>,
    chunk: u64,
    disks: u16,
}

const fn kind(
    level: i32,
    level_name: &'static str,
    layout: u32,
    layout_name: Option<&'static str>,
    chunk: u64,
    disks: u16,
) -> Kind {
    Kind { level, level_name, layout, layout_name, chunk, disks }
}

const KINDS: &[Kind] = &[
    kind(-1, "linear", 0, None, 64 << 10, 3),
    kind(0, "raid0", 1, Some("original"), 512 << 10, 4),
    kind(0, "raid0", 2, Some("alternate"), 4 << 10, 3),
    kind(1, "raid1", 0, None, 0, 2),
    kind(4, "raid4", 0, None, 64 << 10, 3),
    kind(5, "raid5", 0, Some("left-asymmetric"), 64 << 10, 3),
    kind(5, "raid5", 1, Some("right-asymmetric"), 64 << 10, 3),
    kind(5, "raid5", 2, Some("left-symmetric"), 512 << 10, 5),
    kind(5, "raid5", 3, Some("right-symmetric"), 64 << 10, 3),
    kind(5, "raid5", 4, Some("parity-first"), 64 << 10, 3),
    kind(5, "raid5", 5, Some("parity-last"), 64 << 10, 3),
    kind(6, "raid6", 2, Some("left-symmetric"), 64 << 10, 4),
    kind(6, "raid6", 8, Some("ddf-zero-restart"), 64 << 10, 5),
    kind(6, "raid6", 9, Some("ddf-N-restart"), 64 << 10, 5),
    kind(6, "raid6", 10, Some("ddf-N-continue"), 64 << 10, 5),
    kind(6, "raid6", 18, Some("left-symmetric-6"), 64 << 10, 5),
    kind(10, "raid10", 0x102, Some("near=2"), 64 << 10, 4),
    kind(10, "raid10", 0x201, Some("far=2"), 64 << 10, 3),
    kind(10, "raid10", 0x10201, Some("offset=2"), 64 << 10, 5),
];

/// The directory for the members, or `None` (said aloud) where there is no mdadm.
fn members_dir() -> Option<TempDir> {
    or_skip(find("mdadm")).map(|_| tempfile::tempdir().unwrap())
}

fn placement(version: Version, kind: &Kind, consistency: Consistency) -> (u64, Placement) {
    let offset = defaults::data_offset(version, DEVICE, kind.chunk, consistency);
    let available = defaults::available(version, DEVICE, offset, consistency).unwrap();
    let size = match kind.level {
        -1 | 0 => 0,
        _ => defaults::component_size(version, available, kind.chunk).unwrap(),
    };
    (size, defaults::place(version, DEVICE, offset, size, consistency).unwrap())
}

/// The superblock of one member of an array with one spare behind its members where the level can use one.
fn superblock(version: Version, kind: &Kind, consistency: Consistency, number: u32) -> Superblock {
    let (size, placement) = placement(version, kind, consistency);
    let mut sb = Superblock::new(version, DEVICE).unwrap();
    sb.set_uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210);
    sb.created = Timestamp { seconds: 1_700_000_000, micros: 0 };
    sb.updated = Timestamp { seconds: 1_700_000_060, micros: 0 };
    sb.level = kind.level;
    sb.layout = kind.layout;
    sb.chunk = kind.chunk;
    sb.raid_disks = u32::from(kind.disks);
    sb.component_size = size;
    sb.events = 23;
    sb.device_number = number;
    sb.resync_offset = None;
    let devices = usize::from(kind.disks) + usize::from(kind.level > 0);
    if version.is_v1() {
        sb.name = "examiner:set".into();
        sb.device_uuid = Uuid::from_u128(0xd00d_0000 + u128::from(number));
        if kind.level == 0 {
            sb.features |= Features::RAID0_LAYOUT;
        }
    } else {
        sb.roles = vec![DeviceRole::Spare; devices];
    }
    for role in 0..kind.disks {
        sb.roles[usize::from(role)] = DeviceRole::Active(role);
    }
    placement.apply(&mut sb);
    sb
}

/// A sparse file with the superblock at its place.
fn write_member(dir: &Path, sb: &Superblock) -> PathBuf {
    let path = dir.join(format!("{}-{}-{}-{}", sb.version, sb.level, sb.layout, sb.device_number));
    let mut bytes = vec![0; sb.version.superblock_bytes()];
    sb.encode(&mut bytes).unwrap();
    let file = File::create(&path).unwrap();
    file.set_len(DEVICE).unwrap();
    write_at(&file, sb.super_offset, &bytes);
    path
}

fn write_at(mut file: &File, offset: u64, bytes: &[u8]) {
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(bytes).unwrap();
}

/// The output of mdadm about a file.
fn mdadm(option: &str, path: &Path) -> String {
    let out = Command::new(find("mdadm").unwrap_or_else(|missing| panic!("{missing}")))
        .args([option, path.to_str().unwrap()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "mdadm {option} failed: {}{text}", String::from_utf8_lossy(&out.stderr));
    text
}

/// `key : value` lines as a table.
fn table(text: &str) -> HashMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(" : "));
    pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
}

#[test]
fn every_level_and_version_reads_as_written() {
    let Some(dir) = members_dir() else { return };
    for version in VERSIONS {
        for kind in KINDS {
            let devices = u32::from(kind.disks) + u32::from(kind.level > 0);
            for number in 0..devices {
                let sb = superblock(version, kind, Consistency::Resync, number);
                let path = write_member(dir.path(), &sb);
                let text = mdadm("--examine", &path);
                check(&sb, kind, &text);
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}

/// Compares what mdadm says with the superblock that was written.
fn check(sb: &Superblock, kind: &Kind, text: &str) {
    let table = table(text);
    let says = |key: &str| {
        table.get(key).unwrap_or_else(|| panic!("mdadm says nothing of {key:?}:\n{text}")).as_str()
    };
    let context = format!(
        "{} {} {:?} device {}:\n{text}",
        sb.version, kind.level_name, kind.layout_name, sb.device_number
    );
    assert!(says("Checksum").ends_with("- correct"), "{context}");
    assert_eq!(says("Magic"), "a92b4efc", "{context}");
    assert_eq!(says("Raid Level"), kind.level_name, "{context}");
    assert_eq!(says("Raid Devices"), kind.disks.to_string(), "{context}");
    assert_eq!(says("Events"), "23", "{context}");
    assert_eq!(says("State"), "clean", "{context}");
    let uuid = display_uuid(sb.set_uuid).to_string();
    // 0.90 cannot record which layout a RAID 0 of different members has.
    if let Some(layout) = kind.layout_name.filter(|_| sb.version.is_v1() || kind.level != 0) {
        assert_eq!(says("Layout"), layout, "{context}");
    }
    if kind.chunk != 0 {
        let key = if kind.level == -1 { "Rounding" } else { "Chunk Size" };
        assert_eq!(says(key), format!("{}K", kind.chunk >> 10), "{context}");
    }
    if sb.version.is_v1() {
        check_v1(sb, &table, &uuid, &context);
    } else {
        check_0_90(sb, &table, &uuid, &context);
    }
}

fn check_v1(sb: &Superblock, table: &HashMap<String, String>, uuid: &str, context: &str) {
    let says =
        |key: &str| table.get(key).unwrap_or_else(|| panic!("nothing of {key:?} in {context}")).as_str();
    assert_eq!(says("Version"), sb.version.to_string(), "{context}");
    assert_eq!(says("Array UUID"), uuid, "{context}");
    assert_eq!(says("Name"), "examiner:set", "{context}");
    assert_eq!(says("Device UUID"), display_uuid(sb.device_uuid).to_string(), "{context}");
    assert_eq!(says("Super Offset"), format!("{} sectors", sb.super_offset / 512), "{context}");
    assert!(says("Avail Dev Size").starts_with(&format!("{} ", sb.data_size / 512)), "{context}");
    if sb.data_offset != 0 {
        assert_eq!(says("Data Offset"), format!("{} sectors", sb.data_offset / 512), "{context}");
    }
    assert!(!context.contains("TRUNCATED") && !context.contains("TOO SMALL"), "{context}");
    let role = match sb.role() {
        DeviceRole::Active(role) => format!("Active device {role}"),
        _ => "spare".to_owned(),
    };
    assert_eq!(says("Device Role"), role, "{context}");
    let all = "A".repeat(sb.raid_disks as usize);
    assert!(says("Array State").starts_with(&format!("{all} ")), "{context}");
    let log = sb.bad_block_log.expect("mdadm reserves a bad-block log by default");
    let wanted = format!("512 entries available at offset {} sectors", log.offset / 512);
    assert_eq!(says("Bad Block Log"), wanted, "{context}");
}

fn check_0_90(sb: &Superblock, table: &HashMap<String, String>, uuid: &str, context: &str) {
    let says =
        |key: &str| table.get(key).unwrap_or_else(|| panic!("nothing of {key:?} in {context}")).as_str();
    assert_eq!(says("Version"), "0.90.00", "{context}");
    assert!(says("UUID").starts_with(uuid), "{context}");
    let spares = sb.roles.len() - sb.raid_disks as usize;
    assert_eq!(says("Active Devices"), sb.raid_disks.to_string(), "{context}");
    assert_eq!(says("Working Devices"), sb.roles.len().to_string(), "{context}");
    assert_eq!(says("Total Devices"), sb.roles.len().to_string(), "{context}");
    assert_eq!(says("Spare Devices"), spares.to_string(), "{context}");
    assert_eq!(says("Failed Devices"), "0", "{context}");
    if sb.level > 0 {
        assert!(says("Used Dev Size").starts_with(&format!("{} ", sb.component_size >> 10)), "{context}");
    }
    let this: Vec<&str> = context
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("this "))
        .unwrap_or_else(|| panic!("no line about this device in {context}"))
        .split_whitespace()
        .collect();
    let state: &[&str] = if sb.role() == DeviceRole::Spare { &["spare"] } else { &["active", "sync"] };
    let number = sb.device_number.to_string();
    assert_eq!(this[..4], [number.as_str(), "0", "0", number.as_str()], "{context}");
    assert_eq!(this[4..], *state, "{context}");
}

#[test]
fn dirty_degraded_and_recovering_members_read_as_written() {
    let Some(dir) = members_dir() else { return };
    let raid5 = &KINDS[7];
    for version in VERSIONS {
        let mut sb = superblock(version, raid5, Consistency::Resync, 0);
        sb.resync_offset = Some(0);
        sb.roles[2] = DeviceRole::Faulty;
        let text = mdadm("--examine", &write_member(dir.path(), &sb));
        let said = table(&text);
        assert_eq!(said["State"], "active", "{version}:\n{text}");
        assert!(said["Checksum"].ends_with("- correct"), "{version}:\n{text}");
        if version.is_v1() {
            assert!(said["Array State"].starts_with("AA.AA"), "{version}:\n{text}");
            sb.recovery_offset = Some(8 * MIB);
            sb.flags.write_mostly = true;
            let text = mdadm("--examine", &write_member(dir.path(), &sb));
            let said = table(&text);
            assert_eq!(said["Feature Map"], "0x2", "{version}:\n{text}");
            assert_eq!(said["Recovery Offset"], "16384 sectors", "{version}:\n{text}");
            assert_eq!(said["Flags"], "write-mostly", "{version}:\n{text}");
        } else {
            assert_eq!(said["Failed Devices"], "1", "{version}:\n{text}");
            assert_eq!(said["Active Devices"], "4", "{version}:\n{text}");
        }
    }
}

#[test]
fn ppl_journal_and_reshape_read_as_written() {
    let Some(dir) = members_dir() else { return };
    let raid5 = &KINDS[7];
    let examine = |sb: &Superblock| {
        let text = mdadm("--examine", &write_member(dir.path(), sb));
        let said = table(&text);
        assert!(said["Checksum"].ends_with("- correct"), "{text}");
        (said, text)
    };
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let sb = superblock(version, raid5, Consistency::Ppl, 0);
        let (said, text) = examine(&sb);
        let ppl = sb.ppl.unwrap();
        // Some releases of mdadm show the signed offset as unsigned.
        let signed = ppl.offset / 512;
        let shown = [signed, i64::from(signed as u16)];
        let wanted =
            shown.map(|at| format!("{} sectors at offset {at} sectors from superblock", ppl.size / 512));
        assert!(wanted.contains(&said["PPL"]), "{version}:\n{text}");
        assert_eq!(said["Feature Map"], "0x400", "{version}:\n{text}");

        let mut sb = superblock(version, raid5, Consistency::Resync, 5);
        sb.roles[5] = DeviceRole::Journal;
        sb.journal_tail = Some(4096);
        sb.features |= Features::JOURNAL;
        let (said, text) = examine(&sb);
        assert_eq!(said["Device Role"], "Journal", "{version}:\n{text}");
        assert_eq!(said["Feature Map"], "0x200", "{version}:\n{text}");
    }
    for version in VERSIONS {
        let mut sb = superblock(version, raid5, Consistency::Resync, 0);
        sb.reshape = Some(Reshape {
            position: 16 * MIB,
            new_level: 6,
            new_layout: 18,
            new_chunk: 64 << 10,
            delta_disks: 1,
            new_offset: version.is_v1().then_some(-(MIB as i64)),
        });
        let (said, text) = examine(&sb);
        assert!(said["Reshape pos'n"].starts_with("16384 "), "{version}:\n{text}");
        assert_eq!(said["Delta Devices"], "1 (4->5)", "{version}:\n{text}");
        assert_eq!(said["New Level"], "raid6", "{version}:\n{text}");
        let chunk = if version.is_v1() { "64K" } else { "65536" };
        assert_eq!(said["New Chunksize"], chunk, "{version}:\n{text}");
    }
}

#[test]
fn big_endian_0_90_reads_as_written() {
    let Some(dir) = members_dir() else { return };
    let version = Version::V0_90(Endian::Big);
    for kind in KINDS {
        let sb = superblock(version, kind, Consistency::Resync, 1);
        let path = write_member(dir.path(), &sb);
        let out = Command::new(find("mdadm").unwrap_or_else(|missing| panic!("{missing}")))
            .args(["--examine", "--metadata=0.swap", path.to_str().unwrap()])
            .output()
            .unwrap();
        check(&sb, kind, &String::from_utf8_lossy(&out.stdout));
    }
}

fn bitmap(uuid: Uuid, sync_bytes: u64, chunk: u64) -> BitmapSuper {
    BitmapSuper {
        version: BitmapVersion::LittleEndian,
        uuid,
        events: 23,
        events_cleared: 22,
        sync_bytes,
        state: BitmapState::default(),
        chunk,
        daemon_sleep: defaults::BITMAP_DAEMON_SLEEP,
        write_behind: 0,
        reserved_bytes: 0,
        nodes: 0,
        cluster_name: [0; 64],
    }
}

#[test]
fn bitmap_superblock_reads_as_written() {
    let Some(dir) = members_dir() else { return };
    for version in [BitmapVersion::LittleEndian, BitmapVersion::HostEndian] {
        let plan = defaults::bitmap_plan(DEVICE, 128 << 10, Some(1 << 20)).unwrap();
        let uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210);
        let bitmap = BitmapSuper { version, ..bitmap(uuid, DEVICE, plan.chunk) };
        // mdadm takes a plain file for a bitmap file, not for a member.
        let path = dir.path().join("bitmap");
        let file = File::create(&path).unwrap();
        file.set_len(plan.bytes).unwrap();
        write_at(&file, 0, &bitmap.encode().unwrap());
        write_at(&file, 256, &[0b0001_0110]);
        let text = mdadm("--examine-bitmap", &path);
        let said = table(&text);
        assert_eq!(said["Magic"], "6d746962", "{text}");
        assert_eq!(said["Version"], version.number().to_string(), "{text}");
        assert_eq!(said["UUID"].replace([':', ' '], "").len(), 32, "{text}");
        assert_eq!(said["Events"], "23", "{text}");
        assert_eq!(said["Events Cleared"], "22", "{text}");
        assert_eq!(said["State"], "OK", "{text}");
        assert_eq!(said["Chunksize"], "1 MB", "{text}");
        assert_eq!(said["Daemon"], "5s flush period", "{text}");
        assert!(said["Sync Size"].starts_with("65536 "), "{text}");
        assert!(said["Bitmap"].starts_with("64 bits (chunks), 3 dirty"), "{text}");
    }
}

#[test]
fn bitmap_place_and_bad_blocks_read_as_written() {
    let Some(dir) = members_dir() else { return };
    let raid5 = &KINDS[7];
    for version in VERSIONS {
        let (size, _) = placement(version, raid5, Consistency::Resync);
        let room = if version.is_v1() { defaults::bitmap_space(size) } else { 60 << 10 };
        let plan = defaults::bitmap_plan(size, room, None).unwrap();
        let mut sb = superblock(version, raid5, Consistency::Bitmap { bytes: plan.bytes }, 0);
        if version.is_v1() {
            sb.features |= Features::BAD_BLOCKS;
        }
        let path = write_member(dir.path(), &sb);
        let file = File::options().write(true).open(&path).unwrap();
        let place = sb.super_offset.checked_add_signed(sb.bitmap_offset.unwrap()).unwrap();
        write_at(&file, place, &bitmap(sb.bitmap_uuid(), size, plan.chunk).encode().unwrap());
        let text = mdadm("--examine", &path);
        let said = table(&text);
        assert!(said["Checksum"].ends_with("- correct"), "{version}:\n{text}");
        let Some(log) = sb.bad_block_log else {
            assert_eq!(said["Internal Bitmap"], "present", "{version}:\n{text}");
            continue;
        };
        let place = format!("{} sectors from superblock", sb.bitmap_offset.unwrap() / 512);
        assert_eq!(said["Internal Bitmap"], place, "{version}:\n{text}");
        assert!(said["Bad Block Log"].ends_with("bad blocks present."), "{version}:\n{text}");

        let bad = [BadRange { offset: 4096, len: 1 << 20 }, BadRange { offset: 8 * MIB, len: 512 }];
        let mut bytes = vec![0; log.size as usize];
        assert!(badblocks::write(&mut bytes, &bad));
        write_at(&file, sb.super_offset.checked_add_signed(log.offset).unwrap(), &bytes);
        let text = mdadm("--examine-badblocks", &path);
        let listed: Vec<&str> = text.lines().skip(1).map(str::trim).collect();
        let line = |sector: u64, len: u64| format!("{sector} for {len} sectors");
        let wanted = [line(8, 512), line(520, 512), line(1032, 512), line(1544, 512), line(16384, 1)];
        assert_eq!(listed, wanted, "{version}:\n{text}");
    }
}
