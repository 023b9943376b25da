//! Disks of a NAS with whatever can be wrong with them: what is there is told and read, and what is not proved is said.

use std::os::unix::fs::FileExt;

use super::nas::{GPT, Nas};
use super::*;

/// Writes bytes into a disk.
fn put(disk: &Path, at: u64, bytes: &[u8]) {
    std::fs::File::options().write(true).open(disk).unwrap().write_all_at(bytes, at).unwrap();
}

/// The arrays of a report of several.
fn arrays(report: &Value) -> Vec<Value> {
    report["arrays"].as_array().unwrap_or_else(|| panic!("{report}")).clone()
}

#[test]
fn of_a_heap_of_disks_each_array_is_told_and_broken_ones_with_their_members() {
    let Some(nas) = Nas::new(4, "gpt") else { return };
    let left = [nas.set.members[0].clone(), nas.set.members[3].clone()];
    nas.set.unchanged(|| {
        let all = arrays(&run("detail --json", &left).ended(1).report());
        assert_eq!(
            all.iter().map(|one| one["level"].clone()).collect::<Vec<_>>(),
            ["raid1", "raid1", "raid5"]
        );
        assert_eq!(state(&all[0]), ["clean", "degraded"]);
        assert_eq!(all[2]["missing"], serde_json::json!([1, 2]));
        assert!(all[2]["problem"].as_str().unwrap().contains("at least 3 are needed"), "{}", all[2]);
        assert_eq!(all[2]["devices"][1]["path"], name(&nas.inside(2)[3]));
        run("detail", &left).refused(1, &["array", "data", "at least 3 are needed"]);
        let text = run("detail", &left).text();
        assert!(text.contains("raid1") && text.contains("can't be had"), "{text}");
        run("detail --test", &left).ended(3);
    });
    // Several that are broken, in a heap of plain members.
    let (one, other) = (Set::raid5(3), Set::raid5(4));
    let heap = [&one.members[..1], &other.members[..2]].concat();
    let all = arrays(&run("detail --json", &heap).report());
    assert!(all.iter().all(|array| array["problem"].is_string()) && all.len() == 2, "{all:?}");
    let ran = run("detail", &heap).ended(1);
    assert_eq!(ran.err.lines().count(), 2, "{}", ran.err);
    assert!(
        ran.err.contains("at least 2 are needed") && ran.err.contains("at least 3 are needed"),
        "{}",
        ran.err
    );
}

#[test]
fn a_member_without_superblock_is_named_with_the_roles_that_are_open() {
    let Some(nas) = Nas::new(4, "gpt") else { return };
    // The superblock of the array's third member is erased, and the second disk is lost.
    let (_, start, _) = GPT[2];
    put(&nas.set.members[2], start * MIB + 4096, &[0; 4096]);
    let left = [0, 2, 3].map(|disk| nas.set.members[disk].clone());
    let all = arrays(&run("detail --json", &left).report());
    assert!(all[..2].iter().all(|mirror| mirror["open_roles"].is_null()), "{all:?}");
    let open = all[2]["open_roles"].as_array().unwrap();
    assert_eq!(open.iter().map(|one| one["role"].clone()).collect::<Vec<_>>(), [1, 2]);
    let inside = nas.inside(2);
    assert!(open.iter().all(|one| one["path"] == name(&inside[2])), "{open:?}");
    let text = run("detail", &left).text();
    assert!(text.contains("may be role 2: brindle cat --assume"), "{text}");
    // The line of the role that it has reads the array, and the other one reads it wrong.
    let read = |line: &Value| {
        let line = line["command"].as_str().unwrap().replace('\'', "");
        run(line.strip_prefix("brindle ").unwrap(), &[]).ok().out
    };
    assert!(read(&open[1]) == nas.contents[2] && read(&open[0]) != nas.contents[2]);
}
