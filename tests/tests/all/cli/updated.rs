//! Superblocks that are changed as mdadm changes them, and mdadm's word on them.

use brindle_tests::tools::{self, or_skip};

use super::*;

/// A field of `mdadm --examine` of a member.
fn mdadm_says(member: &Path, field: &str) -> Option<String> {
    let program = or_skip(tools::find("mdadm"))?;
    let said = tools::run(&program, [OsString::from("--examine"), member.into()]);
    let line = said.lines().find(|line| line.trim_start().starts_with(field));
    Some(
        line.unwrap_or_else(|| panic!("no {field} in {said}")).split_once(" : ").unwrap().1.trim().to_owned(),
    )
}

/// mdadm says so of each member, if it is there.
#[track_caller]
fn agrees(set: &Set, field: &str, wanted: &str) {
    for member in &set.members {
        if let Some(said) = mdadm_says(member, field) {
            assert!(said.starts_with(wanted), "{field}: {said}");
            let sum = mdadm_says(member, "Checksum").unwrap();
            assert!(sum.contains("correct"), "{sum}");
        }
    }
}

#[test]
fn name_host_and_uuid_are_changed() {
    let set = Set::sparse(3, 8 * MIB);
    set.create("-l 5 -c 64K -N nas:data --bitmap internal").ok();
    set.unchanged(|| {
        let reported = set.run("update --update name --name media --dry-run").ok().text();
        assert!(reported.contains("m2.img: name would become 'nas:media', and was 'nas:data'"), "{reported}");
    });
    let reported = set.run("update --update=name --name media --json").json();
    assert_eq!(
        (&reported["name"], &reported["devices"][2]["fields"][0]["before"]),
        (&"nas:media".into(), &"nas:data".into())
    );
    agrees(&set, "Name", "nas:media");
    set.run("update -U homehost --homehost other").ok();
    agrees(&set, "Name", "other:media");
    let uuid = "01234567:89abcdef:01234567:89abcdef";
    set.run(&format!("update -U uuid --uuid {uuid}")).ok();
    agrees(&set, "Array UUID", uuid);
    let detail = set.detail();
    assert_eq!(
        (&detail["uuid"], &detail["name"], &detail["limits"]),
        (&uuid.into(), &"other:media".into(), &serde_json::json!([]))
    );
    // The bitmap goes by the new UUID, too: the array takes writes.
    set.serve("--read-write").stop();
    assert!(set.run("update -U uuid --json").json()["uuid"] != uuid, "a random one");
}

#[test]
fn resync_sizes_and_logs_are_changed() {
    let set = Set::sparse(2, 8 * MIB);
    set.create("-l 1 -N a").ok();
    agrees(&set, "State", "clean");
    set.run("update -U resync").ok();
    agrees(&set, "State", "active");
    assert_eq!(set.detail()["resync_offset"], 0);
    set.run("update -U no-bbl").ok();
    let left = set.run("update -U no-bbl").ok().text();
    assert!(left.contains("m0.img: is so already"), "{left}");
    set.run("update -U bbl").ok();
    agrees(&set, "Bad Block Log", "512 entries available");
    for member in &set.members {
        std::fs::File::options().write(true).open(member).unwrap().set_len(16 * MIB).unwrap();
    }
    set.run("update -U devicesize").ok();
    agrees(&set, "Avail Dev Size", &((16 * MIB - MIB) / 512).to_string());
    let server = set.serve("");
    server.stop();
}

#[test]
fn metadata_0_90_becomes_1_0() {
    let set = Set::sparse(2, 8 * MIB);
    set.create("-l 1 -e 0.90").ok();
    set.unchanged(|| set.run("update -U name --name x").refused(1, &["0.90", "--update=metadata"]));
    set.run("update -U metadata --name data").ok();
    agrees(&set, "Version", "1.0");
    agrees(&set, "Name", "data");
    let detail = set.detail();
    assert_eq!((&detail["metadata"], &detail["name"]), (&"1.0".into(), &"data".into()));
    set.serve("").stop();
    set.run("update -U metadata").refused(1, &["1.0 already"]);
}

#[test]
fn refusals_change_nothing() {
    let set = Set::raid5(3);
    set.unchanged(|| {
        for other in
            ["byteorder", "summaries", "super-minor", "no-bitmap", "ppl", "layout-original", "sparc2.2"]
        {
            set.run(&format!("update -U {other}")).refused(2, &[other, "mdadm"]);
        }
        assert!(set.run("update -U nonsense").ended(2).err.contains("homehost"));
        set.run("update -U name").refused(2, &["--name"]);
        set.run("update -U resync --name x").refused(2, &["--name"]);
        assert!(set.run("update -U uuid --uuid 12").ended(2).err.contains("32 hexadecimal digits"));
        run("update -U name --name x", &set.members[..2]).refused(1, &["role 2", "--force"]);
    });
    let server = set.serve("");
    run("update -U name --name x", &set.members).refused(1, &["m0", "another Brindle uses it"]);
    server.stop();
}
