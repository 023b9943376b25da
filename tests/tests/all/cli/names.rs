//! A name is no identity: which array a command took is told where that is not plain, and no device is overwritten for an array
//! that may not be the one which was meant.

use std::process::Command;

use brindle_tests::loops::Loop;
use brindle_tests::tools::{Missing, or_skip};

use super::*;

/// An array called `a` that an older server has, and another of that name, of files in a folder in which its user is.
struct Two {
    old: Set,
    new: Set,
    blank: PathBuf,
}

impl Two {
    fn new() -> Self {
        let (old, new) = (Set::raid5(3), Set::raid5(3));
        let blank = new.path("blank");
        files::write_pattern(&blank, 4 * MIB, 9);
        Self { old, new, blank }
    }

    /// Asks the old server, from the folder of the new array.
    fn ask(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(program::path());
        let folder = self.new.dir.path();
        command.args([&[words[0], "--runtime-dir", name(&self.old.runtime())], &words[1..]].concat());
        command.current_dir(folder).env("XDG_RUNTIME_DIR", folder);
        Ran::of(command)
    }
}

fn uuid(set: &Set) -> String {
    set.detail()["uuid"].as_str().unwrap().to_owned()
}

#[test]
fn a_device_is_not_overwritten_for_an_older_servers_array_of_that_name() {
    let two = Two::new();
    let (old, new) = (uuid(&two.old), uuid(&two.new));
    let server = two.old.serve("");
    let before = files::sha256(&two.blank);
    let words =
        ["'a' is the array", &old, name(&two.old.members[0]), "of another array of that name", &new, "UUID"];
    let refused = |args: &[&str]| {
        let ran = two.ask(args).ended(1);
        let err = ran.err.lines().last().unwrap_or_default().to_owned();
        for word in words {
            assert!(err.contains(word), "{args:?}: '{word}' is not in\n{err}");
        }
        assert_eq!(files::sha256(&two.blank), before, "nothing was written");
    };
    refused(&["add", "a", "blank"]);
    refused(&["add", "--force", "a", "blank"]);
    refused(&["replace", "a", "0", "--with", "blank"]);
    // A former member of the other array is refused even with --force.
    let own = two.new.hashes();
    refused(&["add", "--force", "a", "m0"]);
    assert_eq!(two.new.hashes(), own);
    // A name that can mean only one array is accepted.
    two.ask(&["add", &old, "blank"]).ok();
    two.ask(&["remove", name(&two.old.members[0]), name(&two.blank)]).ok();
    two.new.members.iter().for_each(|member| std::fs::remove_file(member).unwrap());
    let added = two.ask(&["add", "a", "blank"]).ended(0);
    assert!(added.err.contains(&old) && added.err.lines().count() == 1, "{}", added.err);
    server.stop();
}

#[test]
fn an_array_that_another_server_has_as_well_is_not_meant_by_its_name() {
    let two = Two::new();
    let server = two.old.serve("");
    let other = Server::start(&two.old.runtime(), words("--memory 32M --name b", &two.new.members));
    let alone = tempfile::tempdir().unwrap();
    let disk = alone.path().join("disk");
    files::sparse(&disk, 4 * MIB);
    let add = |array: &str| server_ask(&two.old, &["add", array, name(&disk)]);
    add("a").refused(1, &["server 'b' has an array of that name as well", &uuid(&two.new), "UUID"]);
    add(&uuid(&two.old)).ok();
    other.stop();
    server.stop();
    // So does one whose sockets are where sockets usually are.
    let usual = two.new.dir.path().join("brindle");
    let (server, other) = (two.old.serve(""), Server::start(&usual, words("--memory 32M", &two.new.members)));
    std::fs::remove_file(two.new.path("blank")).unwrap();
    let ran = two.ask(&["add", "a", name(&disk)]).ended(1);
    assert!(ran.err.contains("as well") || ran.err.contains("of another array"), "{}", ran.err);
    other.stop();
    server.stop();
}

fn server_ask(set: &Set, words: &[&str]) -> Ran {
    program::brindle([&[words[0], "--runtime-dir", name(&set.runtime())], &words[1..]].concat())
}

#[test]
fn a_command_from_elsewhere_says_which_array_it_took_before_it_writes() {
    let two = Two::new();
    let (old, m1) = (uuid(&two.old), two.old.members[1].clone());
    let server = two.old.serve("");
    let changes: [&[&str]; 6] = [
        &["flag", "a", "1", "failfast"],
        &["grow", "--bitmap", "internal", "a"],
        &["action", "a", "repair"],
        &["fail", "a", "1"],
        &["remove", "a", "failed"],
        &["stop", "a"],
    ];
    for words in &changes[..5] {
        let ran = two.ask(words);
        let reported = format!("brindle: 'a' is the array {old} of ");
        assert!(
            ran.err.starts_with(&reported) && ran.err.contains(name(&two.old.members[0])),
            "{words:?}: {ran:?}"
        );
        two.ask(&["wait", "a"]);
    }
    // No note says what is certain: by UUID or member, where it was given, and by what writes nothing.
    two.ask(&["add", &old, name(&m1)]).ok();
    two.ask(&["status", "a"]).ok();
    server.ask("flag", &["0", "write-mostly", "--clear"]).ok();
    let stopped = two.ask(changes[5]).ended(0);
    assert!(stopped.err.contains(&old), "{}", stopped.err);
    drop(server);
}

#[test]
fn among_block_devices_one_is_not_overwritten_for_an_array_of_that_name_either() {
    let _ = or_skip(among_block_devices());
}

fn among_block_devices() -> Result<(), Missing> {
    let two = Two::new();
    let over = |files: &[PathBuf]| -> Result<Vec<Loop>, Missing> {
        files.iter().map(|file| Loop::over(file, 512)).collect()
    };
    let (old, new) = (over(&two.old.members)?, over(&two.new.members)?);
    let blank = Loop::over(&two.blank, 512)?;
    let members: Vec<PathBuf> = old.iter().map(|device| device.path().to_owned()).collect();
    let server = two.old.serve_some("", &members);
    let before = files::sha256(&two.blank);
    // The user is nowhere near: what tells are the other block devices of the machine.
    let ask = |array: &str| {
        let mut command = Command::new(program::path());
        command.args([
            "add",
            "--force",
            "--runtime-dir",
            name(&two.old.runtime()),
            array,
            name(blank.path()),
        ]);
        let elsewhere = tempfile::tempdir().unwrap();
        command.current_dir(elsewhere.path()).env("XDG_RUNTIME_DIR", elsewhere.path());
        Ran::of(command)
    };
    let refused = ask("a").ended(1);
    let is_named = new.iter().any(|device| refused.err.contains(name(device.path())));
    assert!(is_named && refused.err.contains("of another array of that name"), "{}", refused.err);
    assert_eq!(files::sha256(&two.blank), before, "nothing was written");
    ask(&uuid(&two.old)).ended(0);
    server.stop();
    Ok(())
}
