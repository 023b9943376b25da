//! Reasons for which `serve` refuses good members: other machines, copies beside their originals, too little memory.

use std::process::Command;

use brindle_tests::nbd::{Change, Client, Work};
use rustix::process::Signal;

use super::*;

#[test]
fn other_machines_are_served_only_when_that_is_said_twice() {
    let set = Set::raid5(3);
    for outside in ["0.0.0.0:0", "[::]:0"] {
        set.unchanged(|| {
            set.serve_refused(&format!("--nbd {outside}")).refused(2, &[outside, "--insecure", "127.0.0.1"]);
        });
    }
    let server = set.serve("--insecure --nbd 0.0.0.0:0");
    assert!(server.uri().starts_with("nbd://0.0.0.0:"), "{}", server.uri());
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!((code, err.as_str()), (0, "brindle: --nbd 0.0.0.0:0: not authenticated, not encrypted\n"));
    set.serve("--nbd 127.0.0.1:0").stop();
}

#[test]
fn copies_are_not_served_beside_their_originals() {
    let set = Set::raid5(3);
    let copies: Vec<PathBuf> = (0..3).map(|at| set.path(&format!("copy{at}"))).collect();
    for (member, copy) in set.members.iter().zip(&copies) {
        std::fs::copy(member, copy).unwrap();
    }
    let original = set.serve("");
    let uuid = original.status()["array"]["uuid"].as_str().unwrap().to_owned();
    let flags = format!("serve --memory 32M --name b --runtime-dir {}", set.runtime().display());
    let way_out = ["'a'", &uuid, "--read-only", "UUID of their own"];
    run(&flags, &copies).refused(1, &way_out);
    let reader = set.serve_some("--memory 32M --name b --read-only", &copies);
    let (code, err) = reader.signal(Signal::TERM);
    assert!(code == 0 && err.contains("'a'") && err.lines().count() == 1, "{err}");
    original.stop();
    let alone = set.serve_some("--memory 32M --name b", &copies);
    alone.stop();
    // Two that only read disturb nobody.
    let readers = ["a", "b"].map(|name| set.serve(&format!("--read-only --name {name}")));
    readers.into_iter().for_each(Server::stop);
}

/// Writes to copies and not to their originals make members that do not fit together.
#[test]
fn members_that_were_written_apart_are_told_from_each_other() {
    for metadata in ["1.2", "0.90"] {
        let set = Set::sparse(3, 4 * MIB);
        set.create(&format!("-l 5 -c 64K -e {metadata}")).ok();
        let copies: Vec<PathBuf> = (0..3).map(|at| set.path(&format!("copy{at}"))).collect();
        for (member, copy) in set.members.iter().zip(&copies) {
            std::fs::copy(member, copy).unwrap();
        }
        for (members, byte) in [(&set.members, 1), (&copies, 2)] {
            let server = set.serve_some("--memory 32M --name a", members);
            Client::connect(&server.uri()).all_at_once(&[write(byte)]);
            server.stop();
            // Superblocks know whole seconds only.
            std::thread::sleep(std::time::Duration::from_millis(1100));
        }
        let mixed = [set.members[0].clone(), copies[1].clone(), set.members[2].clone()];
        let before: Vec<String> = mixed.iter().map(|member| files::sha256(member)).collect();
        let together = format!("({}, {}) and {}", name(&mixed[0]), name(&mixed[2]), name(&mixed[1]));
        let words = [together.as_str(), "same event count", "different times", "belong together", "--force"];
        for command in ["cat", "check"] {
            run(command, &mixed).refused(1, &words);
        }
        let serve = format!("serve --memory 32M --runtime-dir {}", set.runtime().display());
        run(&serve, &mixed).refused(1, &words);
        let detail = run("detail", &mixed).ended(0);
        assert!(detail.text().contains("different times"), "{}", detail.text());
        // Forced, they are read and not written to.
        assert!(run("cat --force --length 4K", &mixed).ended(0).err.contains(&together));
        let server = set.serve_some("--memory 32M --force", &mixed);
        assert!(state(&server.status()["array"]).contains(&"read-only"));
        let (code, err) = server.signal(Signal::TERM);
        assert!(code == 0 && err.contains(&together), "{err}");
        let after: Vec<String> = mixed.iter().map(|member| files::sha256(member)).collect();
        assert!(before == after, "a member was changed");
        // Members that belong together are as good as ever.
        assert_eq!(run("cat --length 4K", &copies).ok().out, [2; 4096]);
        assert_eq!(set.run("cat --length 4K").ok().out, [1; 4096]);
    }
}

fn write(byte: u8) -> Change {
    Change { offset: 0, len: 4096, work: Work::Write { data: vec![byte; 4096], fua: false } }
}

/// The log may be a file, too.
#[test]
fn a_file_that_may_not_grow_ends_nothing() {
    let set = Set::raid5(3);
    let members: String = set.members.iter().map(|member| format!(" {}", member.display())).collect();
    let program = program::path().display();
    let out = set.path("out").display().to_string();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("ulimit -f 0; exec {program} detail {members} >{out}")]);
    Ran::of(shell).refused(1, &["standard output", "File too large"]);
}

#[test]
fn memory_that_can_not_be_had_is_reported_in_one_line() {
    let set = Set::raid5(3);
    let members: String = set.members.iter().map(|member| format!(" {}", member.display())).collect();
    let (program, runtime) = (program::path().display(), set.runtime());
    for command in [format!("serve --runtime-dir {}", runtime.display()), "cat".into(), "check".into()] {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("ulimit -v 200000; exec {program} {command}{members}")]);
        set.unchanged(|| Ran::of(shell).refused(1, &["memory", "--memory", "ulimit"]));
    }
    assert!(!runtime.join("a.control").exists() && !runtime.join("a.nbd").exists());
}
