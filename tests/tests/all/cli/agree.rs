//! `examine`, `detail` and `cat` of one array agree on who is a member of it.

use super::*;

/// Each device's state by `examine` and by `detail`, in the order in which the devices are named.
fn states(set: &Set) -> [Vec<(String, Value)>; 2] {
    let examined = set.run("examine --json").report();
    let members = examined["members"].as_array().unwrap().iter();
    let examined =
        members.map(|member| (member["path"].as_str().unwrap().to_owned(), member["in_array"].clone()));
    let detail = set.run("detail --json").report();
    let state = |path: &PathBuf| {
        let device = detail["devices"].as_array().unwrap().iter().find(|device| device["path"] == name(path));
        (name(path).to_owned(), device.map_or(Value::Null, |device| device["state"].clone()))
    };
    [examined.collect(), set.members.iter().map(state).collect()]
}

#[test]
fn a_member_that_is_out_of_date_is_none_whoever_is_asked() {
    let set = Set::sparse(5, 4 * MIB);
    set.create("-l 6 -c 64K -N a -x 1").ok();
    let server = set.serve("");
    server.ask("fail", &["1"]).ok();
    server.ask("wait", &[]).ok();
    server.stop_after_failing(1);
    // Its place is taken, and its own superblock says that it is active.
    let report = set.run("examine --json").json();
    assert_eq!(report["members"][1]["superblock"]["role"], "active 1", "{report}");
    let [examined, detail] = states(&set);
    assert_eq!(examined, detail);
    let reported: Vec<&str> = examined.iter().filter_map(|(_, state)| state.as_str()).collect();
    assert_eq!(reported, ["in-sync", "stale", "in-sync", "in-sync", "in-sync"]);
    let text = set.run("examine").ok().text();
    assert!(text.contains("In use as : stale") && text.contains("In use as : in-sync"), "{text}");
    // The bytes read are the members', and nothing of them comes from the one that is none.
    flip_all(&set.members[1]);
    let without = [&set.members[..1], &set.members[2..]].concat();
    assert_eq!(run("cat", &without).ok().out, set.run("cat").ended(0).out);
}

/// Other bytes all over the data area.
fn flip_all(member: &Path) {
    (2 * MIB..4 * MIB).step_by(4096).for_each(|offset| flip(member, offset));
}

/// Something that is wrong with a member, and how it comes to be.
type Spoiled = (&'static str, fn(&Path));

#[test]
fn a_member_that_is_bad_is_none_whoever_is_asked() {
    let spoiled: [Spoiled; 3] = [
        ("short", |path| std::fs::File::options().write(true).open(path).unwrap().set_len(MIB).unwrap()),
        ("torn", |path| flip(path, 4096 + 100)),
        ("without superblock", |path| (4096..8192).step_by(4).for_each(|offset| flip(path, offset))),
    ];
    for (what, spoil) in spoiled {
        let set = Set::random(5, 4 * MIB);
        set.create("-l 6 -c 64K -N a").ok();
        let content = set.run("cat").ok().out;
        spoil(&set.members[3]);
        let [examined, detail] = states(&set);
        assert_eq!(examined, detail, "{what}");
        assert_eq!(examined[3].1, Value::Null, "{what}");
        assert!(examined.iter().filter(|(_, state)| state == "in-sync").count() == 4, "{what}: {examined:?}");
        let detail = set.run("detail --json").report();
        assert_eq!(detail["left_out"][0]["path"], name(&set.members[3]), "{what}");
        let read = set.run("cat").ended(0);
        assert!(read.out == content && read.err.contains(name(&set.members[3])), "{what}: {}", read.err);
    }
}

#[test]
fn devices_that_form_no_array_are_members_of_none() {
    let set = Set::raid5(3);
    let alone = run("examine --json", &set.members[..1]).report();
    assert_eq!(alone["members"][0]["in_array"], Value::Null);
    let two = run("examine --json", &set.members[..2]).json();
    assert_eq!(two["members"][1]["in_array"], "in-sync");
}
