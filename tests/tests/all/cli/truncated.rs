//! Members that end before their device does, devices that end before their member does, and partitions of an array by its name.

use std::os::unix::fs::FileExt;

use brindle_tests::nbd::Client;

use super::*;

/// An array whose members are then copied onto larger disks that held something else: its content, and how the members are named there.
fn copied(create: &str, at: u64) -> (Set, Vec<u8>, Vec<PathBuf>) {
    let made = Set::random(3, 8 * MIB);
    made.create(&format!("--force {create}")).ended(0);
    let (disks, content) = (Set::random(3, 20 * MIB), made.run("cat").ok().out);
    for (disk, member) in disks.members.iter().zip(&made.members) {
        let disk = std::fs::File::options().write(true).open(disk).unwrap();
        disk.write_all_at(&std::fs::read(member).unwrap(), at).unwrap();
    }
    let range = format!("@{at}..{}", at + 8 * MIB);
    let inside = disks.members.iter().map(|disk| PathBuf::from(format!("{}{range}", disk.display())));
    let inside = inside.collect();
    (disks, content, inside)
}

#[test]
fn members_are_found_where_they_ended_on_a_larger_disk() {
    for (create, at) in [("-l 1 -e 0.90", 0), ("-l 5 -c 64K -e 1.0", 0), ("-l 5 -c 64K -e 1.0", 3 * MIB)] {
        let (disks, content, inside) = copied(create, at);
        disks.unchanged(|| {
            // Nothing else is there, and the disks are small: unasked, too.
            for search in ["", "--search "] {
                let reported = disks.run(&format!("examine {search}--json")).json();
                assert_eq!(reported["problem"], Value::Null, "{reported}");
                let found: Vec<&Value> = reported["members"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|one| one["superblock"].is_object())
                    .collect();
                let names: Vec<&str> = found.iter().map(|one| one["path"].as_str().unwrap()).collect();
                assert_eq!(names, inside.iter().map(|one| name(one)).collect::<Vec<_>>(), "{create}");
            }
            assert!(run("cat", &inside).ok().out == content, "{create} at {at}");
            assert!(run("cat", &inside[1..]).ok().out == content, "{create} at {at}, degraded");
            run("check", &inside).ok();
        });
    }
}

#[test]
fn a_disk_is_looked_through_only_if_asked_where_it_has_something_else() {
    let (disks, ..) = copied("-l 1 -e 0.90", 0);
    // A file system, as far as its first sector tells.
    let first = std::fs::File::options().write(true).open(&disks.members[0]).unwrap();
    first.write_all_at(b"XFSB\0\0\x10\0", 0).unwrap();
    let found = |search: &str| {
        let reported = run(&format!("examine {search}--json"), &disks.members[..1]).ended(0).report();
        reported["members"].as_array().unwrap().len()
    };
    assert_eq!((found(""), found("--search ")), (1, 2));
    // One that would take hours is not looked through unasked, and says how to have it looked through.
    let large = disks.path("large");
    files::sparse(&large, 2 << 30);
    let file = std::fs::File::options().write(true).open(&large).unwrap();
    file.write_all_at(b"something", 0).unwrap();
    let reported = run("examine", &[large]).ok().text();
    assert!(reported.contains("--search"), "{reported}");
    let beyond = [PathBuf::from(format!("{}@0..1T", name(&disks.members[0])))];
    run("detail", &beyond).refused(1, &["no part"]);
}

#[test]
fn a_member_that_was_cut_is_read_as_far_as_it_goes_if_that_is_forced() {
    let set = Set::random(3, 8 * MIB);
    set.create("--force -l 5 -c 64K -N a").ended(0);
    let content = set.run("cat").ok().out;
    std::fs::File::options().write(true).open(&set.members[1]).unwrap().set_len(5 * MIB + 512).unwrap();
    let out = set.path("out").display().to_string();
    set.unchanged(|| {
        // The others do without it.
        let without = set.run("cat").ended(0);
        assert!(without.out == content && without.err.contains("truncated or too small"), "{}", without.err);
        run("cat", &set.members[..2]).ended(1);
        // Where they can't, it gives what it has.
        let reported = run(&format!("cat --force -o {out}"), &set.members[..2]).ended(4);
        assert!(reported.err.contains("was cut at byte 5243392"), "{}", reported.err);
        let read = std::fs::read(&out).unwrap();
        let same =
            read.chunks(4096).zip(content.chunks(4096)).filter(|(read, wanted)| read == wanted).count();
        let share = same * 100 / (content.len() / 4096);
        assert!(
            read.len() == content.len() && read[..4 * MIB as usize] == content[..4 * MIB as usize],
            "{share}"
        );
        // Half of its end has to be worked out from the member that is missing.
        assert!((70..95).contains(&share), "{share}");
        assert!(set.run("cat --force").ended(0).out == content);

        let server = set.serve("--read-only --force");
        let mut client = Client::connect(&server.uri());
        let end = content.len() - 64 * KIB as usize;
        assert!(client.read(end as u64, 64 * KIB) == content[end..]);
        client.close();
        server.signal(rustix::process::Signal::TERM);
    });
    // Nothing is written to such a member.
    set.serve_refused("--force").refused(1, &["truncated or too small"]);
}

#[test]
fn a_partition_of_an_array_is_named_by_the_array() {
    let set = Set::sparse(3, 8 * MIB);
    set.create("-l 5 -c 64K -N data").ok();
    let server = set.serve("");
    let mut client = Client::connect(&server.uri());
    // A DOS table with one partition.
    let mut data = vec![0; 4096];
    data[446 + 4] = 0x83;
    data[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
    data[446 + 12..446 + 16].copy_from_slice(&1000u32.to_le_bytes());
    data[510..512].copy_from_slice(&[0x55, 0xaa]);
    let write = |offset: u64, data: Vec<u8>| {
        let work = brindle_tests::nbd::Work::Write { data, fua: true };
        brindle_tests::nbd::Change { offset, len: 4096, work }
    };
    client.all_at_once(&[write(0, data), write(MIB, vec![7; 4096])]);
    client.close();
    server.stop();
    let part = set.run("cat --partition 1").ok().out;
    assert!(part.len() == 512_000 && part[..4096] == [7; 4096]);
    let names: Vec<&str> = set.members.iter().map(|member| name(member)).collect();
    let joined = |end: &str| [PathBuf::from(format!("{}{end}", names.join("+")))];
    assert!(run("cat", &joined("#1")).ok().out == part);
    assert!(set.run("cat data#1").ok().out == part);
    run("cat", &joined("#2")).refused(1, &["no partition 2"]);
    set.run("cat other#1").refused(2, &["no device 'other'", "the array 'data'"]);
    run("cat --partition 1", &joined("#1")).refused(2, &["leave out --partition"]);
}

#[test]
fn quotes_and_markup_in_names_are_data() {
    let set = Set::sparse(1, 8 * MIB);
    let odd = |name: &str| set.path(name);
    let members = ["it's <i>\"one\"<i> $(touch x) `b`", "a;b&c|d #2 \\e", "\u{1b}[31mred"].map(odd);
    members.iter().for_each(|member| files::sparse(member, 8 * MIB));
    let mut create = words("create -l 5 -c 64K --name", &[PathBuf::from("<b>\"it's\"</b>")]);
    create.extend(members.iter().map(OsString::from));
    program::brindle(&create).ok();
    let reported = run("detail --json", &members).json();
    assert_eq!(reported["name"].as_str().unwrap().rsplit(':').next(), Some("<b>\"it's\"</b>"));
    let paths: Vec<&str> =
        reported["devices"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, members.iter().map(|member| name(member)).collect::<Vec<_>>());
    // The file system makes the server suggest a command to be pasted.
    let server = set.serve_some("", &members);
    let mut client = Client::connect(&server.uri());
    let mut data = b"XFSB\0\0\x10\0".to_vec();
    data.resize(4096, 0);
    let work = brindle_tests::nbd::Work::Write { data, fua: true };
    client.all_at_once(&[brindle_tests::nbd::Change { offset: 0, len: 4096, work }]);
    client.close();
    server.stop();
    let reported = run("detail --json", &members).json();
    let next = reported["holds"][0]["next"].as_str().unwrap();
    let (_, pasted) = next.split_once("--read-only ").unwrap();
    let (pasted, _) = pasted.split_once(" --nbd").unwrap();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("printf '%s\\n' {pasted}")]);
    let said = Ran::of(shell).ok().text();
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        members.iter().map(|member| name(member)).collect::<Vec<_>>()
    );
    // No name puts a terminal out of order.
    let text = run("detail", &members).ok().text();
    assert!(!text.contains('\u{1b}'), "{text:?}");
    std::fs::remove_file(&members[1]).unwrap();
    run("detail", &members).refused(1, &["a;b&c|d #2 \\e: no such file"]);
}

#[test]
fn detail_cat_check_and_serve_find_members_that_end_before_their_disk_by_themselves() {
    for (create, at) in [("-l 1 -e 0.90", 0), ("-l 5 -c 64K -e 1.0", 3 * MIB)] {
        let (disks, content, inside) = copied(create, at);
        disks.unchanged(|| {
            for search in ["", " --search"] {
                assert!(disks.run(&format!("cat{search}")).ok().out == content, "{create}{search}");
                let reported = disks.run(&format!("detail --json{search}")).json();
                let devices = reported["devices"].as_array().unwrap();
                let paths: Vec<&str> = devices.iter().map(|one| one["path"].as_str().unwrap()).collect();
                assert_eq!(paths, inside.iter().map(|one| name(one)).collect::<Vec<_>>(), "{create}{search}");
                disks.run(&format!("check{search}")).ok();
                assert!(
                    served(&disks, &format!("--read-only{search}"))
                        == content[MIB as usize..][..64 * KIB as usize]
                );
            }
        });
        // Something else is there, as far as the first sector tells: only if asked.
        for disk in &disks.members {
            let disk = std::fs::File::options().write(true).open(disk).unwrap();
            disk.write_all_at(b"XFSB\0\0\x10\0", 0).unwrap();
        }
        disks.run("detail").ended(1);
        disks.serve_refused("--read-only").refused(1, &["not a member"]);
        disks.unchanged(|| {
            assert_eq!(
                disks.run("detail --search --json").json()["missing"],
                serde_json::json!([]),
                "{create}"
            );
            assert!(
                served(&disks, "--read-only --search") == content[MIB as usize..][..64 * KIB as usize],
                "{create}"
            );
        });
        // Bytes that look like a member may be a copy of one: to be written to, it has to be named.
        let refused = disks.serve_refused("--search").ended(2);
        assert!(refused.err.contains("--read-only"), "{}", refused.err);
    }
}

/// Bytes of what a server of these disks has, behind what the first sectors of a disk may be.
fn served(disks: &Set, flags: &str) -> Vec<u8> {
    let server = disks.serve(flags);
    let mut client = Client::connect(&server.uri());
    let bytes = client.read(MIB, 64 * KIB);
    client.close();
    server.signal(rustix::process::Signal::TERM);
    bytes
}

#[test]
fn the_image_of_a_member_in_the_place_of_another_is_not_taken_for_it() {
    let (others, ..) = copied("-l 5 -c 64K -e 1.0", 0);
    let set = Set::random(3, 20 * MIB);
    set.create("--force -l 5 -c 64K -e 1.0").ended(0);
    let content = set.run("cat").ok().out;
    std::fs::copy(&others.members[0], &set.members[1]).unwrap();
    for flags in ["", " --search"] {
        let ran = set.run(&format!("cat{flags}")).ended(0);
        assert!(ran.out == content && ran.err.contains("another array"), "{}", ran.err);
    }
}

/// 1.0 has its superblock at the end, which is cut off with it.
#[test]
fn the_way_to_a_member_that_lost_its_superblock_with_its_end_is_reported_and_leads_there() {
    let set = Set::random(3, 8 * MIB);
    set.create("--force -l 5 -c 64K -e 1.0 -N a").ended(0);
    let content = set.run("cat").ok().out;
    std::fs::File::options().write(true).open(&set.members[1]).unwrap().set_len(5 * MIB + 512).unwrap();
    set.unchanged(|| {
        // The others do without it.
        assert!(set.run("cat").ended(0).out == content);
        for command in ["cat", "detail"] {
            let reported = run(command, &set.members[..2]).ended(1).err;
            let (_, way) = reported.split_once("brindle cat ").unwrap_or_else(|| panic!("{reported}"));
            let (way, _) = way.split_once(" reads it").unwrap();
            assert!(reported.contains("is a guess"), "{reported}");
            let read = |way: &str, part: &str| {
                let mut shell = std::process::Command::new("sh");
                let brindle = name(program::path());
                shell.args(["-c", &format!("{brindle} cat {part} {way} 2>{}", name(&set.path("err")))]);
                Ran::of(shell)
            };
            let half = content.len() / 2;
            assert!(read(way, &format!("--length {half}")).ended(0).out == content[..half]);
            // Only where it is forced, and what is gone is no zeroes.
            read(&way.replace("--force ", ""), "").ended(2);
            let said = std::fs::read_to_string(set.path("err")).unwrap();
            assert!(said.contains("--force"), "{said}");
            read(way, "").ended(1);
        }
        let order: Vec<String> = set.members.iter().map(|member| name(member).to_owned()).collect();
        let geometry = format!("level=5,chunk=64K,size=8M,order={},missing", order[..2].join(","));
        run(&format!("detail --assume {geometry}"), &[]).ended(0);
    });
}
