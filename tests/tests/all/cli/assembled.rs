//! Arrays found among many devices, as at boot: started, listed, waited for, refused.

use brindle_tests::tools::{self, or_skip};

use super::*;

/// Disks in one folder: a RAID 5 `a` of host `here`, a RAID 1 `b` of host `there`, and a file that is nothing.
fn disks() -> Set {
    let set = Set::sparse(5, 4 * MIB);
    run("create -l 5 -c 64K -N here:a", &set.members[..3]).ok();
    run("create -l 1 -N there:b", &set.members[3..]).ok();
    std::fs::write(set.path("notes.txt"), "nothing\n").unwrap();
    set
}

/// `brindle assemble --scan FLAGS` in the folder of the disks.
fn assemble(set: &Set, flags: &str) -> Ran {
    let flags = format!("assemble --scan --runtime-dir {} {flags}", set.runtime().display());
    run(&flags, &[set.dir.path().to_owned()])
}

/// The outcome of each: by name, in that order.
fn outcomes(report: &Value) -> Vec<(String, String)> {
    let word = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let mut all: Vec<_> = report["found"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (word(one, "name"), word(one, "outcome")))
        .collect();
    all.sort();
    all
}

fn are(report: &Value, expected: &[(&str, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(name, outcome)| ((*name).to_owned(), (*outcome).to_owned())).collect();
    assert_eq!(outcomes(report), expected, "{report}");
}

fn stop(set: &Set, name: &str) {
    run(&format!("stop --runtime-dir {} {name}", set.runtime().display()), &[]).ok();
}

#[test]
fn arrays_of_this_host_are_started_and_others_listed() {
    let set = disks();
    set.unchanged(|| {
        are(&assemble(&set, "-n --homehost here --json").json(), &[("a", "would-start"), ("b", "foreign")]);
    });
    let said = assemble(&set, "--homehost here").ok().text();
    assert!(said.contains("a (raid5, 3 devices) is served"), "{said}");
    assert!(
        said.contains("b (raid1, 2 devices) belongs to host there: --homehost there or --array b"),
        "{said}"
    );
    let lines = run(&format!("detail --scan --runtime-dir {}", set.runtime().display()), &[]).ok().text();
    assert!(
        lines.starts_with("ARRAY /dev/md/a metadata=1.2 UUID=") && lines.ends_with(" name=here:a\n"),
        "{lines}"
    );
    let again = assemble(&set, "--homehost here --array b --json").json();
    are(&again, &[("a", "served"), ("b", "started")]);
    stop(&set, "a");
    stop(&set, "b");
}

#[test]
fn members_that_were_there_are_waited_for_and_then_gone_without() {
    let set = disks();
    let elsewhere = tempfile::tempdir().unwrap();
    let parked = elsewhere.path().join("m1");
    std::fs::rename(&set.members[1], &parked).unwrap();
    let (at, home) = (parked.clone(), set.members[1].clone());
    let returns = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(1500));
        std::fs::rename(at, home).unwrap();
    });
    let report = assemble(&set, "--homehost here --wait 10m --json").ended(0).report();
    returns.join().unwrap();
    assert_eq!(
        report["found"].as_array().unwrap().iter().find(|one| one["name"] == "a").unwrap()["missing"],
        serde_json::json!([])
    );
    stop(&set, "a");

    std::fs::rename(&set.members[1], &parked).unwrap();
    let ran = assemble(&set, "--homehost here --wait 100ms").ended(0);
    assert!(ran.err.contains("waiting 1 s at most for member 1 of a"), "{}", ran.err);
    assert!(ran.text().contains("a (raid5, 2 devices, without member 1) is served"), "not told");
    stop(&set, "a");
}

#[test]
fn two_devices_that_say_that_they_are_one_member_are_never_chosen_between() {
    let set = disks();
    let copy = set.path("m0.copy");
    std::fs::copy(&set.members[0], &copy).unwrap();
    set.unchanged(|| {
        let ran = assemble(&set, "--homehost any --array a").ended(1);
        let text = ran.text();
        assert!(text.contains("m0.copy") && text.contains("same member"), "{text}");
    });
}

#[test]
fn members_that_are_out_of_date_are_used_by_force_alone() {
    let set = disks();
    let three: Vec<&str> = set.members[..3].iter().map(|member| name(member)).collect();
    run(&format!("fail --array {} -- {}", three.join(" "), three[1]), &[]).ok();
    // Without the third there are too few, and the second is out of date.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::rename(&set.members[2], elsewhere.path().join("m2")).unwrap();
    let of_a = |report: &Value| {
        report["found"].as_array().unwrap().iter().find(|one| one["name"] == "a").unwrap().clone()
    };
    let refused = assemble(&set, "--homehost here --wait 1ms --json").ended(1).report();
    are(&refused, &[("a", "refused"), ("b", "foreign")]);
    let risks = of_a(&refused)["risks"].clone();
    assert!(risks[0].as_str().unwrap().contains("m1.img is out of date"), "{refused}");
    let said = assemble(&set, "--homehost here --wait 1ms --force --dry-run").ok().text();
    assert!(said.contains("would be served by force") && said.contains("  risk: "), "{said}");
    let forced = assemble(&set, "--homehost here --wait 1ms --force --json").ended(0).report();
    are(&forced, &[("a", "started"), ("b", "foreign")]);
    assert_eq!(of_a(&forced)["risks"], risks);
    stop(&set, "a");
}

#[test]
fn a_pool_of_this_host_is_found_and_started_and_one_that_is_not_meant_by_name() {
    let set = Set::sparse(3, 64 * MIB);
    run("pool create tank raidz1", &set.members).ok();
    are(&assemble(&set, "-n --json").json(), &[("tank", "would-start")]);
    are(&assemble(&set, "-n --homehost none --json").json(), &[("tank", "foreign")]);
    are(&assemble(&set, "--array tank --json").json(), &[("tank", "started")]);
    stop(&set, "tank");
}

#[test]
fn lines_for_mdadms_configuration_are_mdadms_own() {
    let set = disks();
    let lines = run("examine --scan", &[set.dir.path().to_owned()]).ok().text();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    let Some(program) = or_skip(tools::find("mdadm")) else { return };
    let mut args = vec![OsString::from("--examine"), "--scan".into()];
    args.extend(set.members.iter().map(OsString::from));
    let theirs = tools::run(&program, args);
    let words = |text: &str| {
        let mut all: Vec<Vec<String>> = text
            .lines()
            .map(|line| {
                let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
                words.sort();
                words
            })
            .collect();
        all.sort();
        all
    };
    assert_eq!(words(&lines), words(&theirs));
}
