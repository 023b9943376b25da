//! Write-intent bitmaps in files: made, given, moved, done without, and refused by name.

use brindle_tests::nbd::{Change, Client, Work};
use rustix::process::Signal;

use super::*;

/// A RAID 5 of four called `a` with its bitmap in a file, and the file.
fn filed() -> (Set, PathBuf) {
    let set = Set::sparse(4, 4 * MIB);
    let file = set.path("bits");
    set.create(&format!("-l 5 -c 64K -N a --bitmap {} --bitmap-chunk 64K", name(&file))).ok();
    (set, file)
}

fn given(file: &Path) -> String {
    format!("--bitmap {}", name(file))
}

fn write(server: &Server, offset: u64, seed: u64) {
    let mut bytes = vec![0; 64 << 10];
    bytes.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n as u64 ^ seed) as u8);
    let mut client = Client::connect(&server.uri());
    let len = bytes.len() as u64;
    let change = Change { offset, len, work: Work::Write { data: bytes, fua: true } };
    client.all_at_once([&change]);
    client.close();
}

fn bitmap(server: &Server) -> Value {
    server.status()["array"]["bitmap"].clone()
}

fn read(server: &Server) -> u64 {
    let status = server.status();
    let devices = status["array"]["devices"].as_array().unwrap().iter();
    devices.map(|device| device["io"]["bytes_read"].as_u64().unwrap()).sum()
}

/// A file and all members stay as they are.
fn unchanged(set: &Set, file: &Path, work: impl FnOnce()) {
    let before = std::fs::read(file).unwrap();
    set.unchanged(work);
    assert!(std::fs::read(file).unwrap() == before, "the file was changed");
}

#[test]
fn a_killed_server_leaves_a_file_that_tells_what_is_to_be_resynced() {
    let (set, file) = filed();
    let detail = set.run(&format!("detail --json {}", given(&file))).json();
    assert_eq!(
        (&detail["consistency_policy"], &detail["bitmap"]["chunk"]),
        (&"bitmap".into(), &65536.into())
    );
    assert_eq!(detail["bitmap"]["file"], name(&file));
    assert_eq!(set.detail()["consistency_policy"], "resync", "nothing on the members tells of it");
    let server = set.serve(&given(&file));
    write(&server, 0, 1);
    assert_eq!((&bitmap(&server)["file"], &bitmap(&server)["failed"]), (&name(&file).into(), &false.into()));
    assert_eq!(server.signal(Signal::KILL).0, -1);
    let examined = run("examine --json", std::slice::from_ref(&file)).json();
    let reported = &examined["members"][0]["bitmap"];
    assert!(reported["dirty"].as_u64().is_some_and(|dirty| (1..8).contains(&dirty)), "{reported}");
    assert_eq!((&reported["version"], &reported["array_uuid"]), (&4.into(), &detail["uuid"]));
    assert!(run("examine", std::slice::from_ref(&file)).ok().text().contains("Bits : "));
    if state(&set.detail())[0] != "active" {
        return; // it was marked clean before it was killed
    }
    let server = set.serve(&given(&file));
    server.wait_for_state("needs resync", false);
    server.wait_for_state("resyncing", false);
    assert!(read(&server) < 3 * MIB, "{}", server.status());
    server.stop();
    let checked = set.run(&format!("check --json {}", given(&file))).json();
    assert_eq!(checked["mismatch_cnt"], 0);
    // Served without it the array goes on, and the file is out of date.
    let server = set.serve("");
    assert!(bitmap(&server).is_null());
    write(&server, 0, 2);
    server.stop();
    let stale = set.run(&format!("detail --json {}", given(&file))).json();
    assert_eq!(stale["bitmap"]["stale"], true);
    let server = set.serve(&given(&file));
    assert_eq!(bitmap(&server)["dirty"], bitmap(&server)["bits"]);
    let (code, said) = server.signal(Signal::TERM);
    assert!(code == 0 && said.contains(&format!("{} is out of date", name(&file))), "{code} {said}");
}

#[test]
fn a_bitmap_moves_while_the_array_is_served() {
    let set = Set::raid5(3);
    let (one, two) = (set.path("one"), set.path("two"));
    let mut server = set.serve("");
    let grow = |place: &str, chunk: &str| {
        server.ask("grow", &["--bitmap", place, "--bitmap-chunk", chunk, "--json"]).json()
    };
    let now = |report: Value| {
        (report["array"]["bitmap"]["file"].clone(), report["array"]["bitmap"]["chunk"].clone())
    };
    assert_eq!(now(grow(name(&one), "64K")), (name(&one).into(), 65536.into()));
    write(&server, 0, 1);
    assert_eq!(now(grow(name(&two), "128K")), (name(&two).into(), 131_072.into()));
    assert_eq!(now(grow("internal", "64K")), (Value::Null, 65536.into()));
    assert_eq!(now(grow("internal", "128K")), (Value::Null, 131_072.into()));
    // Files that it had are free, and may be overwritten by force.
    server.ask("grow", &["--bitmap", name(&one)]).refused(1, &[name(&one), "there already", "--force"]);
    server.ask("grow", &["--force", "--bitmap", name(&one)]).ok();
    let text = server.ask("status", &[]).ok().text();
    assert!(text.contains(&format!("write-intent bitmap in {}", name(&one))), "{text}");
    server
        .ask("grow", &["--force", "--bitmap", name(&one)])
        .refused(1, &[name(&one), "the bitmap of 'a' already"]);
    let kinds: Vec<Value> = (0..6).map(|_| server.next_event()["kind"].take()).collect();
    assert_eq!(
        kinds,
        ["bitmap-added", "bitmap-moved", "bitmap-moved", "bitmap-removed", "bitmap-added", "bitmap-moved"]
    );
    server.stop();
    let server = set.serve(&given(&one));
    assert_eq!(bitmap(&server)["dirty"], 0);
    server.ask("grow", &["--bitmap", "none"]).ok();
    assert!(bitmap(&server).is_null());
    server.stop();
    assert_eq!(set.run(&format!("detail --json {}", given(&one))).json()["bitmap"]["stale"], true);
}

#[test]
fn a_bitmap_moves_while_nobody_serves_the_array() {
    for metadata in ["0.90", "1.0", "1.1", "1.2"] {
        let set = Set::sparse(3, 4 * MIB);
        set.create(&format!("-l 1 -e {metadata} --bitmap none")).ok();
        let (one, two) = (set.path("one"), set.path("two"));
        let grow = |words: &str| set.run(&format!("grow --bitmap-chunk 64K {words} --array"));
        let reported = grow(&format!("--json --bitmap {}", name(&one))).json();
        assert_eq!(
            (&reported["bitmap"]["file"], &reported["bitmap"]["chunk"]),
            (&name(&one).into(), &65536.into())
        );
        let reported = grow(&format!("--json --bitmap {} --from {}", name(&two), name(&one))).json();
        assert_eq!(reported["bitmap"]["stale"], false, "{metadata}");
        let stale = set.run(&format!("detail --json {}", given(&one))).json();
        assert_eq!(stale["bitmap"]["stale"], true, "{metadata}");
        let reported = grow(&format!("--json --bitmap internal --from {}", name(&two))).json();
        assert_eq!(
            (&reported["bitmap"]["file"], &reported["consistency_policy"]),
            (&Value::Null, &"bitmap".into())
        );
        unchanged(&set, &two, || {
            let both = set.run(&format!("check {}", given(&two)));
            both.refused(1, &[name(&two), "beside its superblocks already"]);
        });
    }
}

#[test]
fn a_member_that_was_away_comes_back_by_the_file() {
    let (set, file) = filed();
    let server = set.serve(&given(&file));
    server.fail("1");
    write(&server, 0, 3);
    server.stop_after_failing(1);
    let members: Vec<&str> = set.members.iter().map(|member| name(member)).collect();
    let add = |bitmap: &str| {
        let words = format!("add --json --re-add {bitmap} --array {} --", members.join(" "));
        run(&words, &set.members[1..2])
    };
    add("").refused(1, &[members[1], "no write-intent bitmap"]);
    let added = add(&given(&file)).json();
    assert_eq!((&added["joined"][0]["role"], &added["bitmap"]["file"]), (&1.into(), &name(&file).into()));
    let server = set.serve(&given(&file));
    server.wait_for_state("degraded", false);
    assert!(read(&server) < 4 * MIB, "{}", server.status());
    server.stop();
    assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0);
    // A server has its file, or was started without.
    let server = set.serve("");
    server.ask("add", &["--bitmap", name(&file), members[1]]).refused(2, &["--bitmap", "--array"]);
    server.stop();
}

#[test]
fn a_server_goes_on_without_a_file_that_was_cut_short() {
    let (set, file) = filed();
    let mut server = set.serve(&given(&file));
    std::fs::File::options().write(true).open(&file).unwrap().set_len(100).unwrap();
    write(&server, 0, 4);
    assert_eq!(server.next_event()["kind"], "bitmap-failed");
    assert_eq!(bitmap(&server)["failed"], true);
    let text = server.ask("status", &[]).ok().text();
    assert!(text.contains(&format!("write-intent bitmap in {}, which has failed", name(&file))), "{text}");
    server.ask("grow", &["--bitmap", "internal"]).ok();
    assert_eq!((&bitmap(&server)["file"], &bitmap(&server)["failed"]), (&Value::Null, &false.into()));
    let (code, said) = server.signal(Signal::TERM);
    assert!(
        code == 0 && said.contains(name(&file)) && said.contains("is not used any more"),
        "{code} {said}"
    );
    assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0);
}

#[test]
fn files_of_several_arrays_are_told_by_what_they_say() {
    let (a, bits) = filed();
    let b = Set::sparse(2, 4 * MIB);
    let other = b.path("bits");
    b.create(&format!("-l 1 -N b --bitmap {}", name(&other))).ok();
    let all: Vec<PathBuf> = a.members.iter().chain(&b.members).cloned().collect();
    let server = a.serve_some(&format!("--memory 32M {} {}", given(&other), given(&bits)), &all);
    let status = run(&format!("status --json --runtime-dir {}", a.runtime().display()), &[]).json();
    let files: Vec<&Value> =
        status.as_array().unwrap().iter().map(|one| &one["array"]["bitmap"]["file"]).collect();
    assert_eq!(files, [name(&bits), name(&other)]);
    server.stop();
    b.serve_refused(&given(&bits)).refused(1, &[name(&bits), "that of another array"]);
    let twice = format!("serve --runtime-dir {} {} {}", a.runtime().display(), given(&bits), given(&bits));
    a.run(&twice).refused(2, &["one write-intent bitmap"]);
}

#[test]
fn what_can_be_no_bitmap_is_refused_by_name_and_nothing_changes() {
    let (set, file) = filed();
    let good = std::fs::read(&file).unwrap();
    let refused = |what: &[u8], words: &[&str]| {
        std::fs::write(&file, what).unwrap();
        unchanged(&set, &file, || {
            let reported: Vec<&str> = words.iter().copied().chain([name(&file)]).collect();
            set.serve_refused(&given(&file)).refused(1, &reported);
            set.run(&format!("check {}", given(&file))).refused(1, &reported);
            set.run(&format!("repair {}", given(&file))).refused(1, &reported);
        });
    };
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    refused(&[], &["cut short"]);
    refused(&good[..260], &["cut short", "260 bytes"]);
    refused(&with(0, b"none"), &["no write-intent bitmap"]);
    refused(&with(4, &[3]), &["version 3", "byte order"]);
    refused(&with(4, &[5]), &["version 5", "cluster"]);
    refused(&with(4, &[6]), &["version 6", "lockless"]);
    refused(&with(4, &[9]), &["unknown version 9"]);
    refused(&with(8, &[1; 16]), &["that of another array"]);
    refused(&with(24, &[99]), &["at event 99", "newer"]);
    refused(&with(53, &[0x30]), &["chunksize"]);
    std::fs::write(&file, &good).unwrap();
    // Paths that are no bitmap file.
    let folder = set.path("folder/");
    std::fs::create_dir(&folder).unwrap();
    let missing = set.path("missing");
    unchanged(&set, &file, || {
        let refuse = |path: &Path, word: &str| {
            set.serve_refused(&given(path)).refused(1, &[name(path), word]);
            set.run(&format!("detail {}", given(path))).refused(1, &[name(path), word]);
        };
        refuse(&folder, "a directory");
        refuse(&missing, "No such file");
        refuse(&set.members[0], "a member");
        assert!(set.serve_refused("--bitmap internal").ended(2).err.contains("./internal"));
    });
    // As mdadm makes it, it ends with its last bit; it is made as long as pages are where it is kept.
    let bytes = 256 + 64 / 8;
    std::fs::write(&file, &good[..bytes]).unwrap();
    let server = set.serve(&given(&file));
    assert_eq!(bitmap(&server)["dirty"], 0);
    server.stop();
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 4096);
}

#[test]
fn what_can_not_have_a_bitmap_in_a_file_is_refused_and_leaves_none() {
    let (set, file) = filed();
    let new = set.path("new");
    unchanged(&set, &file, || {
        let grow = |words: &str| set.run(&format!("grow {words} --array"));
        let reported = grow("--bitmap bits2").ended(2).err;
        assert!(
            reported.contains("give internal, none, or a file") && reported.contains("./bits2"),
            "{reported}"
        );
        grow(&format!("--bitmap {}", name(&file))).refused(1, &[name(&file), "there already", "--force"]);
        grow(&format!("--force --bitmap {}", name(&set.members[0]))).refused(1, &["a device of the array"]);
        let chunk = |size: &str| format!("--bitmap {} --bitmap-chunk {size}", name(&new));
        assert!(grow(&chunk("12K")).ended(2).err.contains("not a power of two"));
        grow(&chunk("256b")).refused(1, &["--bitmap-chunk", name(&new)]);
        grow(&format!("--bitmap {}/nowhere/bits", name(&new))).refused(1, &["No such file"]);
        grow("--force --bitmap none").refused(2, &["--force"]);
        assert!(set.run("grow --bitmap none --from x").ended(2).err.contains("--array"));
        assert!(!new.exists());
    });
    let striped = Set::sparse(2, 4 * MIB);
    striped.create("-l 0 -N s").ok();
    striped.unchanged(|| {
        striped
            .run(&format!("grow --bitmap {} --array", name(&new)))
            .refused(1, &["raid0 has no redundancy"]);
        striped.run(&format!("check {}", given(&file))).refused(1, &[name(&file), "no redundancy"]);
        let flags = format!("-f -l 0 --bitmap {}", name(&new));
        striped.create(&flags).refused(1, &["--bitmap"]);
        assert!(!new.exists());
    });
    let server = set.serve(&given(&file));
    let there = set.path("there");
    std::fs::write(&there, "mine").unwrap();
    server.ask("grow", &["--bitmap", name(&there)]).refused(1, &[name(&there), "there already"]);
    assert_eq!(std::fs::read(&there).unwrap(), b"mine");
    server.ask("grow", &["--bitmap", name(&new), "--bitmap-chunk", "256b"]).refused(1, &["--bitmap-chunk"]);
    assert!(!new.exists());
    server.stop();
}
