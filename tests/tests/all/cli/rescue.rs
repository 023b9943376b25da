//! `brindle cat --output`: an array in a file, sparse, in parts, around places that can't be read.

use std::os::unix::fs::{FileExt, MetadataExt};

use brindle_testkit::hang::HangingFiles;
use brindle_tests::tools::or_skip;

use super::*;

/// A mirror of which only the middle MiB is not zero.
fn mirror() -> Set {
    let set = Set::sparse(2, 8 * MIB);
    set.create("-l 1 -N a").ok();
    let first = set.run("examine --json").json()["members"][0]["superblock"]["data_offset"].as_u64().unwrap();
    let middle = vec![7; MIB as usize];
    for member in &set.members {
        let file = std::fs::File::options().write(true).open(member).unwrap();
        file.write_all_at(&middle, first + 3 * MIB).unwrap();
    }
    set
}

fn to(set: &Set, name: &str) -> String {
    set.path(name).display().to_string()
}

#[test]
fn a_new_file_is_sparse_and_an_old_one_is_written_over_only_if_told() {
    let set = mirror();
    let (content, file) = (set.run("cat").ok().out, set.path("out"));
    set.unchanged(|| {
        let reported = set.run(&format!("cat -o {}", to(&set, "out"))).ok().text();
        assert!(reported.contains("all of it read"), "{reported}");
    });
    assert!(std::fs::read(&file).unwrap() == content);
    let taken = std::fs::metadata(&file).unwrap().blocks() * 512;
    assert!((MIB..2 * MIB).contains(&taken), "{taken}");
    let map = std::fs::read_to_string(set.path("out.map")).unwrap();
    assert!(map.contains("# Mapfile.") && map.contains("0x00000000") && map.contains("# Events:"), "{map}");

    // Nothing is left to do.
    set.run(&format!("cat -o {}", to(&set, "out"))).ok();
    let old = set.path("old");
    std::fs::write(&old, vec![9; 9 * MIB as usize]).unwrap();
    set.run(&format!("cat -o {}", to(&set, "old"))).refused(1, &["there already", "--overwrite"]);
    assert!(std::fs::read(&old).unwrap()[..] == vec![9; 9 * MIB as usize]);
    set.run(&format!("cat --overwrite -o {}", to(&set, "old"))).ok();
    assert!(std::fs::read(&old).unwrap() == content);
}

#[test]
fn an_interrupted_copy_goes_on_but_not_with_members_that_changed() {
    let set = mirror();
    let content = set.run("cat").ok().out;
    let (out, map) = (set.path("out"), set.path("out.map"));
    let copy = format!("cat -o {}", to(&set, "out"));
    set.run(&copy).ok();
    // As if it had come to the middle only: what is in the file before that is not read again.
    let text = std::fs::read_to_string(&map).unwrap();
    let size = content.len() as u64;
    let comments: Vec<&str> = text.lines().filter(|line| line.starts_with("# ")).collect();
    let half = size / 2;
    let cut = format!("{}\n0x0 ? 1\n0 {half} +\n{half} {} ?\n", comments.join("\n"), size - half);
    std::fs::write(&map, &cut).unwrap();
    let file = std::fs::File::options().write(true).open(&out).unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.write_all_at(&vec![1; half as usize], half).unwrap();
    set.run(&copy).ok();
    let copied = std::fs::read(&out).unwrap();
    assert!(copied[..4096] == [1; 4096] && copied[4096..] == content[4096..]);

    for (damage, words) in [
        (cut.replace("# Array: ", "# Array: 1"), "of array"),
        (cut.replace("# Events: ", "# Events: 9"), "changed since"),
        (cut.replace("0 ", "1 "), "not a map"),
        (String::new(), "not a map"),
    ] {
        std::fs::write(&map, damage).unwrap();
        set.run(&copy).refused(1, &[words, "out.map"]);
    }
    std::fs::write(&map, &cut).unwrap();
    let other = format!("{copy} --offset 4K");
    set.run(&other).refused(1, &["not a map"]);
    std::fs::remove_file(&out).unwrap();
    set.run(&copy).refused(1, &["is gone"]);
    // A server that writes counts events.
    std::fs::write(&out, &content).unwrap();
    let server = set.serve("");
    server.ask("fail", &[name(&set.members[1])]).ok();
    server.stop_after_failing(1);
    let refused = set.run(&copy).ended(1);
    assert!(refused.err.contains("changed since") && refused.err.contains("out of date"), "{}", refused.err);
}

#[test]
fn members_are_never_written_to() {
    let set = mirror();
    set.unchanged(|| {
        for flags in ["", "--overwrite "] {
            let member = name(&set.members[1]).to_owned();
            set.run(&format!("cat {flags}-o {member}")).refused(1, &["member of the array"]);
            let link = set.path("link");
            let _ = std::fs::hard_link(&set.members[0], &link);
            set.run(&format!("cat {flags}-o {}", link.display())).refused(1, &["member of the array"]);
        }
        set.run("cat -o /dev/null --overwrite").refused(1, &["neither a file nor a block device"]);
    });
}

#[test]
fn places_that_can_not_be_read_are_reported_and_tried_again() {
    const LEN: usize = 4 << 20;
    let Some(files) = or_skip(HangingFiles::mount(1, LEN)) else { return };
    let set = Set::random(2, LEN as u64);
    let mut members = set.members.clone();
    members.insert(1, files.path(0));
    run("create -l 5 -c 64K --force", &members).ended(0);
    let content = run("cat", &members).ok().out;
    let first = run("examine --json", &members[1..2]).json();
    let first = first["members"][0]["superblock"]["data_offset"].as_u64().unwrap() as usize;
    files.spoil(0, first + 65_536..first + 65_536 + 1024);
    let copy = format!("cat -o {}", to(&set, "out"));
    // Without the third nothing makes up for it.
    let reported = run(&copy, &members[..2]).ended(4).text();
    assert!(reported.contains("can't be read") && reported.contains("  bytes "), "{reported}");
    let map = std::fs::read_to_string(set.path("out.map")).unwrap();
    assert_eq!(map.lines().filter(|line| line.ends_with("  -")).count(), 1, "{map}");
    let copied = std::fs::read(set.path("out")).unwrap();
    let wrong = copied.iter().zip(&content).filter(|(a, b)| a != b).count();
    assert!(copied.len() == content.len() && (1..=4096).contains(&wrong), "{wrong}");
    // All three have it.
    let reported = run(&copy, &members).ended(0).text();
    assert!(reported.contains("all of it read"), "{reported}");
    assert!(std::fs::read(set.path("out")).unwrap() == content);
}
