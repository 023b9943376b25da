//! mdadm reads what we create, of every level and version.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use brindle_format::md::display_uuid;
use brindle_layout::{Layout, Level};
use brindle_md::create::CreateSpec;

use brindle_testkit::skip::{find, or_skip};

use crate::common::*;

/// The fields that `mdadm --examine` prints, by name.
fn examine(path: &std::path::Path) -> BTreeMap<String, String> {
    let mdadm = find("mdadm").unwrap_or_else(|missing| panic!("{missing}"));
    let output = Command::new(mdadm).arg("--examine").arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let field = |line: &str| {
        let (name, value) = line.split_once(" : ")?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(field).collect()
}

fn agree(spec: &CreateSpec) {
    let dir = tempfile::tempdir().unwrap();
    let plan = planned(spec);
    let what = format!("{} {} {:?}", spec.level, spec.version, spec.layout);
    for (write, member) in plan.superblocks.iter().zip(given(spec)) {
        let path = dir.path().join(&member.label);
        let file = File::create(&path).unwrap();
        file.set_len(member.info.size).unwrap();
        file.write_all_at(&write.bytes, write.offset).unwrap();
        let said = examine(&path);
        let is = |name: &str, value: &str| {
            let found = said.get(name).map_or("", String::as_str);
            assert!(found.starts_with(value), "{what}: {name} is {found:?}, not {value:?}\n{said:#?}");
        };
        is("Raid Level", spec.level.name());
        is("Raid Devices", &spec.roles.len().to_string());
        is("State", if plan.needs_resync { "active" } else { "clean" });
        let uuid = display_uuid(spec.uuid).to_string();
        is("Events", "1");
        assert!(said["Checksum"].ends_with("correct"), "{what}: {said:#?}");
        if spec.version.is_v1() {
            is("Version", &spec.version.to_string());
            is("Name", "host:data");
            is("Array UUID", &uuid);
            if plan.data_offset > 0 {
                is("Data Offset", &format!("{} sectors", plan.data_offset / 512));
            }
            let missing = |m: &Option<_>| if m.is_some() { "A" } else { "." };
            is("Array State", &spec.roles.iter().map(missing).collect::<String>());
        } else {
            is("Version", "0.90.00");
            is("UUID", &uuid);
        }
        if spec.level.is_redundant() {
            let number = |name: &str| {
                said.get(name).map(|value| value.split(' ').next().unwrap().parse::<u64>().unwrap())
            };
            // Not shown where it is all that is available.
            if let Some(used) = number("Used Dev Size") {
                let unit = if spec.version.is_v1() { 512 } else { 1024 };
                assert_eq!(used * unit, plan.component_size, "{what}");
            }
            // mdadm does not round what an odd RAID 10 makes of its members to whole chunks; the kernel does.
            let size = number("Array Size").unwrap() * 1024;
            let rounded =
                if spec.level == Level::Raid10 { size - size % plan.geometry.chunk() } else { size };
            assert_eq!(rounded, plan.geometry.size(), "{what}");
        }
        if let Some(layout @ Layout::Parity(_)) = spec.layout {
            is("Layout", &layout.name());
        }
    }
}

#[test]
fn mdadm_agrees_on_every_level_and_version() {
    let Some(_) = or_skip(find("mdadm")) else { return };
    let levels = [
        (Level::Linear, 3),
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid4, 4),
        (Level::Raid5, 4),
        (Level::Raid6, 5),
        (Level::Raid10, 4),
        (Level::Raid10, 5),
    ];
    for (level, members) in levels {
        for version in VERSIONS {
            for assume_clean in [false, true] {
                agree(&CreateSpec { assume_clean, ..spec(level, members, version) });
            }
        }
    }
}

#[test]
fn mdadm_agrees_on_layouts_missing_members_and_spares() {
    let Some(_) = or_skip(find("mdadm")) else { return };
    for version in VERSIONS {
        for layout in ["right-asymmetric", "parity-first", "ddf-N-continue", "left-symmetric-6"] {
            let layout = Some(Layout::parse(Level::Raid6, layout).unwrap());
            agree(&CreateSpec { layout, ..spec(Level::Raid6, 5, version) });
        }
        let mut degraded = spec(Level::Raid5, 4, version);
        degraded.roles[2] = None;
        agree(&degraded);
        let spares = vec![new_member(9, 8 * MIB)];
        agree(&CreateSpec { spares, ..spec(Level::Raid1, 2, version) });
    }
}
