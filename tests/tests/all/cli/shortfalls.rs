//! Members, comparisons, words and folders that fall short of what they were meant for, and what is said of that.

use brindle_tests::tools::{self, or_skip};

use super::*;

#[test]
fn members_of_very_unlike_sizes_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = files::members(dir.path(), "m", 2, 100 * MIB);
    let small = dir.path().join("small");
    files::sparse(&small, 10 * MIB);
    members.push(small);
    let said =
        |flags: &str, members: &[PathBuf]| run(&format!("create --force -N a {flags}"), members).ended(0).err;
    for flags in ["-l 5", "-l 1", "-l 5 --json"] {
        let text = said(flags, &members);
        let words = ["small has only 10 MiB", "180 MiB are left unused", "90 MiB of", "m0.img", "m1.img"];
        assert!(words.iter().all(|word| text.contains(word)), "{flags}: {text}");
    }
    // Where nothing is lost, or it was asked for, nothing is said.
    assert_eq!(said("-l 0", &members), "");
    assert_eq!(said("-l 5 --size 4M", &members), "");
    assert_eq!(said("-l 1", &members[..2]), "");
    let nearly = dir.path().join("nearly");
    files::sparse(&nearly, 95 * MIB);
    assert_eq!(said("-l 1", &[members[0].clone(), nearly]), "");
}

#[test]
fn a_comparison_without_all_members_has_a_status_of_its_own() {
    for (level, lost) in [("1", 1), ("5", 1), ("6", 1), ("6", 2), ("10", 1)] {
        let set = Set::random(4, 4 * MIB);
        let chunk = if level == "1" { "" } else { "-c 64K" };
        set.create(&format!("-l {level} {chunk} -N a -f")).ok();
        run("check", &set.members).ok();
        let left = &set.members[lost..];
        for command in ["check", "check --json"] {
            let ran = run(command, left).ended(5);
            let text = ran.text();
            assert!(text.contains("unverified") || text.contains("could not be compared"), "{text}");
        }
        // A known mismatch matters more.
        if (level, lost) == ("6", 1) || level == "10" {
            flip(&set.members[3], 3 * MIB);
            run("check", left).ended(3);
        }
        // A running one says the same.
        let server = set.serve_some("--memory 32M", left);
        server.ask("action", &["check"]).ok();
        let code = if (level, lost) == ("6", 1) || level == "10" { 3 } else { 5 };
        server.ask("wait", &[]).ended(code);
        assert_eq!(server.signal(rustix::process::Signal::TERM).0, 0);
    }
}

#[test]
fn a_sweep_of_which_no_point_can_be_has_a_status_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("s");
    let words = |members: &str| {
        let flags =
            format!("sweep --simulate --drive nvme --level 6 --members {members} --rw randread --bs 4k");
        let flags: Vec<String> = flags.split(' ').map(str::to_owned).collect();
        flags.into_iter().chain(["--output".to_owned(), format!("{}{members}", out.display())])
    };
    let ran = program::brindle(words("3")).ended(6);
    assert!(ran.text().contains("1 that can't be"), "{}", ran.text());
    // Neither is it done when it is asked again.
    program::brindle(words("3")).ended(6);
    program::brindle(words("3,4")).ended(0);
}

#[test]
fn an_empty_address_and_a_size_below_nothing_are_answered_in_words() {
    let set = Set::raid5(3);
    let serve = |address: &str| program::brindle(["serve", "--nbd", address, name(&set.members[0])]);
    let said = |ran: Ran, words: &[&str]| {
        let ran = ran.ended(2);
        assert!(words.iter().all(|word| ran.err.contains(word)), "{}: {}", ran.command, ran.err);
    };
    said(serve(""), &["the address is empty", "unix:PATH or HOST:PORT"]);
    for words in [
        ["create", "-l", "5", "--size", "-1"],
        ["create", "-l", "5", "--chunk", "-1"],
        ["create", "-l", "5", "-z", "-65536"],
        ["serve", "--memory", "-1", "--max-speed", "-1"],
    ] {
        let ran = program::brindle(words.into_iter().chain([name(&set.members[0])]));
        said(ran, &["is below 0, and sizes are not", "write for example 64K or 1G"]);
    }
}

#[test]
fn a_runtime_folder_of_somebody_else_is_refused_also_when_it_is_named() {
    let root = rustix::process::geteuid().is_root();
    let root = root.then_some(()).ok_or_else(|| tools::Missing::new("root, to give a folder away"));
    let Some(()) = or_skip(root) else { return };
    let set = Set::raid5(3);
    let folder = set.path("theirs");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(65534), None).unwrap();
    let flag = format!("--runtime-dir {}", folder.display());
    let words = ["theirs", "belongs to user 65534", "--runtime-dir"];
    run(&format!("serve {flag}"), &set.members).refused(1, &words);
    for command in ["status", "stop", "wait"] {
        run(&format!("{command} {flag}"), &[]).refused(1, &words);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing was made in it");
    let file = set.path("file");
    std::fs::write(&file, "").unwrap();
    run(&format!("status --runtime-dir {}", file.display()), &[]).refused(1, &["it is not a folder"]);
}
