//! Field by field: what `mdadm --examine` says of a member is what `brindle examine` says, and what `mdadm --detail`
//! says of a running array, in words and as variables, is what `brindle detail` says of its members.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use brindle_tests::mdadm::{self, Fields, moment, number};
use brindle_tests::program;
use serde_json::Value;

/// Feature bits by name.
const FEATURES: [(&str, u64); 13] = [
    ("bitmap", 1),
    ("recovery-offset", 2),
    ("reshape", 4),
    ("bad-blocks", 8),
    ("replacement", 16),
    ("reshape-backwards", 32),
    ("new-offset", 64),
    ("recovery-bitmap", 128),
    ("clustered", 256),
    ("journal", 512),
    ("ppl", 1024),
    ("multiple-ppls", 2048),
    ("raid0-layout", 4096),
];

/// Asks both about each member of an array.
pub(super) fn same_of_members(program: &Path, name: &str, members: &[PathBuf]) {
    let mut words = vec!["examine".into(), "--json".into()];
    words.extend(members.iter().map(|member| member.as_os_str().to_owned()));
    let report = program::brindle(words).json();
    assert_eq!(report["problem"], Value::Null, "{name}");
    for (role, member) in members.iter().enumerate() {
        let theirs = mdadm::examine(program, member);
        let ours = &report["members"][role]["superblock"];
        let context = format!("{name}, role {role}: {theirs:?}\n{ours}");
        same_of_member(&theirs, ours, &context);
        same_as_exported(&mdadm::examine_export(program, member), ours, &context);
    }
}

/// Every field that mdadm shows is compared or listed here as one that Brindle leaves out.
fn same_of_member(theirs: &Fields, ours: &Value, context: &str) {
    for (key, value) in &theirs.values {
        match key.as_str() {
            // 0.90 counts devices; our list shows each.
            "Magic" | "Unused Space" | "Preferred Minor" | "Total Devices" | "Active Devices"
            | "Working Devices" | "Failed Devices" | "Spare Devices" => {}
            "Version" => assert!(value.starts_with(text(ours, "metadata")), "{context}"),
            "Feature Map" => assert_eq!(value, &feature_map(ours), "{context}"),
            "Array UUID" | "UUID" => {
                assert_eq!(value.split(' ').next(), ours["array_uuid"].as_str(), "{context}");
            }
            "Name" => same_name(value, ours, context),
            "Creation Time" => assert_eq!(moment(value), ours["created"], "{context}"),
            "Update Time" => assert_eq!(moment(value), ours["updated"], "{context}"),
            "Raid Level" => assert_eq!(value, text(ours, "level"), "{context}"),
            "Raid Devices" => assert_eq!(number(value), ours["raid_devices"], "{context}"),
            "Avail Dev Size" => assert_eq!(number(value) * 512, ours["data_size"], "{context}"),
            "Array Size" => {
                // md fills whole chunks of a RAID 10 only; mdadm leaves the rounding to it.
                let unit = if ours["level"] == "raid10" { ours["chunk"].as_u64().expect(context) } else { 1 };
                let size = number(value) * 1024;
                assert_eq!(size - size % unit, ours["array_size"], "{context}");
            }
            "Used Dev Size" => {
                let unit = if ours["metadata"] == "0.90" { 1024 } else { 512 };
                assert_eq!(number(value) * unit, ours["component_size"], "{context}");
            }
            "Data Offset" => assert_eq!(number(value) * 512, ours["data_offset"], "{context}"),
            "Super Offset" => assert_eq!(number(value) * 512, ours["super_offset"], "{context}"),
            "State" => assert_eq!(value, text(ours, "state"), "{context}"),
            "Device UUID" => assert_eq!(value, text(ours, "device_uuid"), "{context}"),
            "Internal Bitmap" => same_bitmap(value, ours, context),
            "Bad Block Log" => {
                let log = &ours["bad_block_log"];
                let (size, offset) =
                    (log["size"].as_u64().expect(context), log["offset"].as_i64().expect(context));
                let wanted = format!("{} entries available at offset {} sectors", size / 8, offset / 512);
                assert_eq!(value.trim_end_matches(" - bad blocks present."), wanted, "{context}");
            }
            "Checksum" => assert_eq!(value, &format!("{} - correct", text(ours, "checksum")), "{context}"),
            "Events" => assert_eq!(number(value), ours["events"], "{context}"),
            "Layout" => assert_eq!(value, &layout(ours), "{context}"),
            "Chunk Size" | "Rounding" => {
                assert_eq!(number(value) * 1024, ours["chunk"].as_u64().unwrap_or(0), "{context}");
            }
            "Device Role" => {
                assert_eq!(value.replace("Active device", "active"), text(ours, "role"), "{context}");
            }
            "Array State" => assert_eq!(value.split(' ').next(), ours["array_state"].as_str(), "{context}"),
            "Recovery Offset" => assert_eq!(number(value) * 512, ours["recovery_offset"], "{context}"),
            other => panic!("mdadm says '{other}': {context}"),
        }
    }
    same_presence(theirs, ours, context);
}

/// A field that one program leaves out must be null in the other's report.
fn same_presence(theirs: &Fields, ours: &Value, context: &str) {
    let both = |key: &str, field: &str| {
        assert_eq!(theirs.get(key).is_some(), !ours[field].is_null(), "{key}, {field}: {context}");
    };
    both("Internal Bitmap", "bitmap_offset");
    both("Bad Block Log", "bad_block_log");
    both("Array Size", "array_size");
    both("Device UUID", "device_uuid");
    both("Recovery Offset", "recovery_offset");
    if ours["metadata"] == "0.90" {
        // Of its own row in the table: number, major, minor, role, state.
        let this = theirs.rest.iter().find_map(|line| line.strip_prefix("this ")).expect(context);
        let words: Vec<&str> = this.split_whitespace().collect();
        assert_eq!(number(words[0]), ours["device_number"], "{context}");
        let role = if words[4] == "spare" { "spare".to_owned() } else { format!("active {}", words[3]) };
        assert_eq!(role, text(ours, "role"), "{context}");
        assert_eq!(ours["super_offset"].as_u64().map(|at| at % 65536), Some(0), "{context}");
    } else if theirs.get("Used Dev Size").is_none() && !ours["array_size"].is_null() {
        assert_eq!(ours["component_size"], ours["data_size"], "{context}");
    }
}

fn same_name(value: &str, ours: &Value, context: &str) {
    let (name, local) = value.split_once("  (local to host ").unwrap_or((value, ""));
    assert_eq!(name, text(ours, "name"), "{context}");
    if !local.is_empty() {
        assert_eq!(Some(local.trim_end_matches(')')), ours["homehost"].as_str(), "{context}");
    }
    let host = name.split_once(':').map(|(host, _)| host);
    assert_eq!(host, ours["homehost"].as_str(), "{context}");
}

fn same_bitmap(value: &str, ours: &Value, context: &str) {
    let offset = ours["bitmap_offset"].as_i64().expect(context);
    match value {
        // 0.90 has one place for it.
        "present" => assert_eq!(offset, 4096, "{context}"),
        _ => assert_eq!(value, format!("{} sectors from superblock", offset / 512), "{context}"),
    }
}

fn same_as_exported(theirs: &BTreeMap<String, String>, ours: &Value, context: &str) {
    for (key, value) in theirs {
        match key.as_str() {
            "MD_ARRAY_SIZE" => {}
            "MD_LEVEL" => assert_eq!(value, text(ours, "level"), "{context}"),
            "MD_DEVICES" => assert_eq!(number(value), ours["raid_devices"], "{context}"),
            "MD_NAME" => assert_eq!(value, text(ours, "name"), "{context}"),
            "MD_UUID" => assert_eq!(value, text(ours, "array_uuid"), "{context}"),
            "MD_DEV_UUID" => assert_eq!(value, text(ours, "device_uuid"), "{context}"),
            "MD_EVENTS" => assert_eq!(number(value), ours["events"], "{context}"),
            // Of 0.90, mdadm up to 4.2 tells the time of creation under this name.
            "MD_UPDATE_TIME" if ours["metadata"] == "0.90" => {
                assert!([&ours["created"], &ours["updated"]].contains(&&number(value).into()), "{context}");
            }
            "MD_UPDATE_TIME" => assert_eq!(number(value), ours["updated"], "{context}"),
            other => panic!("mdadm exports '{other}': {context}"),
        }
    }
}

/// Compares `mdadm --detail` of an array that md has just started with `brindle detail` before that.
pub(super) fn same_of_array(theirs: &Fields, ours: &Value, name: &str) {
    let context = &format!("{name}: {theirs:?}\n{ours}");
    let devices = ours["devices"].as_array().expect(context);
    let count = |state: &str| devices.iter().filter(|device| device["state"] == state).count() as u64;
    for (key, value) in &theirs.values {
        match key.as_str() {
            "Persistence" | "Preferred Minor" => {}
            "Version" => assert_eq!(value, text(ours, "metadata"), "{context}"),
            "Creation Time" => assert_eq!(moment(value), ours["created"], "{context}"),
            "Update Time" => assert_eq!(moment(value), ours["updated"], "{context}"),
            "Raid Level" => assert_eq!(value, text(ours, "level"), "{context}"),
            "Array Size" => assert_eq!(number(value) * 1024, ours["size"], "{context}"),
            "Used Dev Size" => assert_eq!(number(value) * 1024, ours["component_size"], "{context}"),
            "Raid Devices" => assert_eq!(number(value), ours["raid_devices"], "{context}"),
            "Total Devices" => assert_eq!(number(value), devices.len() as u64, "{context}"),
            "Active Devices" => assert_eq!(number(value), count("in-sync"), "{context}"),
            "Working Devices" => assert_eq!(number(value), count("in-sync") + count("spare"), "{context}"),
            "Spare Devices" => assert_eq!(number(value), count("spare"), "{context}"),
            "Failed Devices" => assert_eq!(number(value), count("faulty"), "{context}"),
            "State" => {
                let words: Vec<&str> =
                    ours["state"].as_array().expect(context).iter().filter_map(Value::as_str).collect();
                assert_eq!(value, &words.join(", "), "{context}");
            }
            "Layout" => assert_eq!(value, &layout(ours), "{context}"),
            "Chunk Size" | "Rounding" => {
                assert_eq!(number(value) * 1024, ours["chunk"].as_u64().unwrap_or(0), "{context}");
            }
            "Consistency Policy" => assert_eq!(value, text(ours, "consistency_policy"), "{context}"),
            "Name" => same_name(value, ours, context),
            "UUID" => assert_eq!(value.split(' ').next(), ours["uuid"].as_str(), "{context}"),
            // 0.90 shows two halves.
            "Events" => {
                let events = value.split('.').map(number).fold(0, |sum, half| sum << 32 | half);
                assert_eq!(events, ours["events"], "{context}");
            }
            other => panic!("mdadm says '{other}': {context}"),
        }
    }
    assert_eq!(theirs.get("Used Dev Size").is_some(), !ours["component_size"].is_null(), "{context}");
    same_table(theirs, ours, context);
}

/// Compares `mdadm --detail --export`, member by member: `disks` are those that md was given, by role.
pub(super) fn same_of_exported_array(
    theirs: &BTreeMap<String, String>,
    ours: &Value,
    disks: &[&str],
    name: &str,
) {
    let context = &format!("{name}: {theirs:?}\n{ours}");
    let mut wanted: BTreeMap<String, String> = BTreeMap::new();
    let mut want = |key: &str, value: &str| wanted.insert(key.to_owned(), value.to_owned());
    want("MD_LEVEL", text(ours, "level"));
    want("MD_DEVICES", &ours["raid_devices"].to_string());
    want("MD_METADATA", text(ours, "metadata"));
    want("MD_UUID", text(ours, "uuid"));
    if ours["metadata"] != "0.90" {
        want("MD_NAME", text(ours, "name"));
    }
    let mut roles: Vec<u64> = ours["devices"]
        .as_array()
        .expect(context)
        .iter()
        .map(|device| device["role"].as_u64().expect(context))
        .collect();
    roles.sort_unstable();
    assert_eq!(roles.len(), disks.len(), "{context}");
    for (role, disk) in roles.iter().zip(disks) {
        // `/dev/sda` is `dev_sda` in a key.
        let key = format!("MD_DEVICE_{}", disk.trim_start_matches('/').replace('/', "_"));
        want(&format!("{key}_ROLE"), &role.to_string());
        want(&format!("{key}_DEV"), disk);
    }
    // Only md's host has a name under /dev/md for it.
    let known = |key: &str| key != "MD_DEVNAME";
    let theirs: BTreeMap<_, _> = theirs.iter().filter(|(key, _)| known(key)).collect();
    assert_eq!(theirs, wanted.iter().collect(), "{context}");
}

/// Rows of number, major, minor, role, state and device; a role that nobody fills has no number.
fn same_table(theirs: &Fields, ours: &Value, context: &str) {
    let rows = theirs.rest.iter().skip_while(|line| !line.starts_with("Number ")).skip(1);
    let (mut filled, mut missing) = (Vec::new(), Vec::new());
    for row in rows {
        let words: Vec<&str> = row.split_whitespace().collect();
        match words[..] {
            [number, _, _, role, "active", "sync", ..] => filled.push((role.parse(), number.parse())),
            ["-", _, _, role, "removed"] => missing.push(role.parse()),
            _ => panic!("row {row}: {context}"),
        }
    }
    let devices = ours["devices"].as_array().expect(context).iter();
    let mut ours_filled: Vec<(Result<u64, _>, Result<u64, _>)> = devices
        .map(|device| {
            (Ok(device["role"].as_u64().expect(context)), Ok(device["number"].as_u64().expect(context)))
        })
        .collect();
    ours_filled.sort_by_key(|(role, _)| role.clone().ok());
    assert_eq!(filled, ours_filled, "{context}");
    let ours_missing: Vec<Result<u64, std::num::ParseIntError>> = ours["missing"]
        .as_array()
        .expect(context)
        .iter()
        .map(|role| Ok(role.as_u64().expect(context)))
        .collect();
    assert_eq!(missing, ours_missing, "{context}");
}

fn feature_map(ours: &Value) -> String {
    let names = ours["features"].as_array().expect("a list");
    let bit = |name: &Value| FEATURES.iter().find(|(known, _)| name == known).expect("a known feature").1;
    format!("0x{:x}", names.iter().map(bit).sum::<u64>())
}

/// A layout as mdadm shows it: RAID 10's in full.
pub(super) fn layout(ours: &Value) -> String {
    // A RAID 0 over members of one size may lack its layout, which does not matter there.
    let name = ours["layout"].as_str().unwrap_or("-unknown-");
    if ours["level"] != "raid10" {
        return name.to_owned();
    }
    let (kind, copies) = name.split_at(1);
    let kind = match kind {
        "n" => "near",
        "f" => "far",
        _ => "offset",
    };
    format!("{kind}={copies}")
}

fn text<'a>(ours: &'a Value, field: &str) -> &'a str {
    ours[field].as_str().unwrap_or_else(|| panic!("no text {field} in {ours}"))
}
