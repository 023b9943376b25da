//! Disks of a NAS with whatever can be wrong with them: what is there is told and read, and what is not proved is said.

use std::os::unix::fs::FileExt;

use brindle_tests::tools::{find, or_skip};

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
        let ran = run("detail", &left).ended(1);
        assert!(ran.err.contains("data: roles 1 and 2") && ran.err.lines().count() == 1, "{}", ran.err);
        let text = ran.text();
        assert!(text.contains("raid1") && text.contains("can't be had"), "{text}");
        run("detail --test", &left).ended(3);
    });
    // One alone is refused, as ever; a member of it without superblock is named.
    let one = Set::raid5(4);
    put(&one.members[1], 4096, &[0; 4096]);
    run("detail", &one.members[..2])
        .refused(1, &["at least 3 are needed", "may be role 1: brindle cat --assume"]);
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
        run(line.strip_prefix("brindle ").unwrap(), &[]).ended(0).out
    };
    assert!(read(&open[1]) == nas.contents[2] && read(&open[0]) != nas.contents[2]);
}

/// Shortens a disk.
fn cut(disk: &Path, size: u64) {
    std::fs::File::options().write(true).open(disk).unwrap().set_len(size).unwrap();
}

/// Erases the first copy of a GUID table, and the last one too.
fn erase_tables(disk: &Path, both: bool) {
    put(disk, 0, &[0; 34 * 512]);
    if both {
        let end = std::fs::metadata(disk).unwrap().len();
        put(disk, end - 33 * 512, &[0; 33 * 512]);
    }
}

#[test]
fn a_partition_within_which_an_image_ends_is_read_as_far_as_it_goes() {
    for label in ["gpt", "dos"] {
        let Some(nas) = Nas::new(4, label) else { return };
        let inside = nas.inside(2);
        cut(&nas.set.members[3], 28 * MIB);
        let left = [0, 2, 3].map(|disk| inside[disk].clone());
        nas.set.unchanged(|| {
            let ran = run("cat --force --length 20M", &left).ended(0);
            assert!(ran.out == nas.contents[2][..20 * MIB as usize], "{label}: {}", ran.err);
            assert!(
                ran.err.contains("it is cut") && ran.err.contains("read as far as it goes"),
                "{}",
                ran.err
            );
            let told = run("detail", &nas.set.members).ended(0);
            assert!(told.err.contains("#5: it is cut"), "{}", told.err);
            // The gap is in the map.
            let to = nas.set.path(&format!("out-{label}"));
            let flags = format!("cat --force --output {}", name(&to));
            run(&flags, &left).ended(4);
            let map = std::fs::read_to_string(format!("{}.map", name(&to))).unwrap();
            let bytes = std::fs::read(&to).unwrap();
            let read = read_bytes(&map, &bytes, &nas.contents[2]);
            assert!((20 * MIB..bytes.len() as u64).contains(&read), "{read}: {map}");
        });
    }
}

#[test]
fn an_array_of_which_all_images_are_cut_is_told_with_the_way_to_read_it() {
    let Some(nas) = Nas::new(4, "gpt") else { return };
    nas.set.members.iter().for_each(|disk| cut(disk, 28 * MIB));
    let inside = nas.inside(2);
    let way = inside.iter().map(|member| format!("'{}'", name(member))).collect::<Vec<_>>().join(" ");
    nas.set.unchanged(|| {
        let all = arrays(&run("detail --json", &nas.set.members).ended(1).report());
        let levels: Vec<&Value> = all.iter().map(|one| &one["level"]).collect();
        assert_eq!(levels, ["raid1", "raid1", "raid5"]);
        assert_eq!(state(&all[0]), ["clean"]);
        assert_eq!(all[2]["devices"].as_array().unwrap().len(), 4);
        let problem = all[2]["problem"].as_str().unwrap();
        assert!(problem.contains(&format!("brindle cat --force -o FILE {way} reads")), "{problem}");
        // By themselves they are refused with the same words, and in a heap they are not blamed for what others lack.
        let ran = run("detail", &inside).ended(1);
        assert!(
            ran.err.contains("cut before the end of the data") && ran.err.contains("--force"),
            "{}",
            ran.err
        );
        let one = arrays(&run("detail --json", &nas.set.members[3..]).ended(1).report());
        assert_eq!(one[0]["left_out"], serde_json::json!([]));
        assert_eq!((&one[2]["name"], &one[2]["missing"]), (&all[2]["name"], &serde_json::json!([0, 1, 2])));
        // The command does what it says.
        let to = nas.set.path("out");
        run(&format!("cat --force --output {}", name(&to)), &inside).ended(4);
        assert!(std::fs::read(&to).unwrap()[..20 * MIB as usize] == nas.contents[2][..20 * MIB as usize]);
    });
    // Of a disk without table that was cut, the search finds the members: it is not taken for one of them as a whole.
    erase_tables(&nas.set.members[3], false);
    let left = [&nas.set.members[..1], &nas.set.members[3..]].concat();
    let ran = run("detail --search", &left).ended(1);
    assert!(!ran.text().contains("may be role"), "{}", ran.text());
}

/// Bytes that a map has as read, all of which are equal to the content; the others are zeroes.
fn read_bytes(map: &str, bytes: &[u8], content: &[u8]) -> u64 {
    assert_eq!(bytes.len(), content.len());
    let number = |word: &str| u64::from_str_radix(&word[2..], 16).unwrap() as usize;
    let mut read = 0;
    for line in map.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let range = number(words[0])..number(words[0]) + number(words[1]);
        if words[2] == "+" {
            assert!(bytes[range.clone()] == content[range.clone()], "{line}");
            read += range.len() as u64;
        } else {
            assert!(bytes[range].iter().all(|byte| *byte == 0), "{line}");
        }
    }
    read
}

#[test]
fn a_backup_of_the_table_is_used_and_said() {
    let Some(nas) = Nas::new(3, "gpt") else { return };
    nas.set.members.iter().for_each(|disk| erase_tables(disk, false));
    let ran = run("cat", &nas.inside(2)).ended(0);
    assert!(ran.out == nas.contents[2] && ran.err.lines().count() == 3, "{}", ran.err);
    assert!(ran.err.contains("the backup of it at the end is used"), "{}", ran.err);
    let all = arrays(&run("detail --json", &nas.set.members).ended(0).report());
    assert_eq!(all.len(), 3);
}

#[test]
fn tables_that_count_other_sectors_than_the_disk_are_read_as_they_count() {
    if or_skip(find("sfdisk")).is_none() {
        return;
    }
    let made = Set::random(3, 8 * MIB);
    made.create("-l 5 -c 64K --force").ended(0);
    let content = made.run("cat").ok().out;
    let disks = Set::sparse(3, 34 * MIB);
    for (member, disk) in made.members.iter().zip(&disks.members) {
        put(disk, 8 * MIB, &std::fs::read(member).unwrap());
        // One entry of a DOS table, in sectors of 4096 bytes, as an adapter shows a large disk.
        let mut entry = [0; 66];
        entry[4] = 0xfd;
        entry[8..12].copy_from_slice(&(8 * MIB as u32 / 4096).to_le_bytes());
        entry[12..16].copy_from_slice(&(8 * MIB as u32 / 4096).to_le_bytes());
        entry[64..].copy_from_slice(&[0x55, 0xaa]);
        put(disk, 446, &entry);
    }
    let inside: Vec<PathBuf> =
        disks.members.iter().map(|disk| PathBuf::from(format!("{}#1", disk.display()))).collect();
    let ran = run("cat", &inside).ended(0);
    assert!(ran.out == content && ran.err.contains("sectors of 4096 bytes"), "{}", ran.err);
}

#[test]
fn members_whose_partitions_are_in_no_table_are_read_where_their_sizes_say() {
    let Some(nas) = Nas::new(3, "gpt") else { return };
    nas.set.members.iter().for_each(|disk| erase_tables(disk, true));
    nas.set.unchanged(|| {
        let all = arrays(&run("detail --json --search", &nas.set.members).ended(0).report());
        let levels: Vec<&str> = all.iter().map(|array| array["level"].as_str().unwrap()).collect();
        assert_eq!(levels, ["raid1", "raid1", "raid5"], "{all:?}");
        for (array, content) in all.iter().zip(&nas.contents) {
            let devices = array["devices"].as_array().unwrap();
            let members: Vec<PathBuf> =
                devices.iter().map(|device| PathBuf::from(device["path"].as_str().unwrap())).collect();
            let ran = run("cat", &members).ended(0);
            assert!(ran.out == *content, "{array}");
            // 0.90 alone does not say where it begins.
            assert_eq!(
                ran.err.contains("is worked out from the size"),
                array["metadata"] == "0.90",
                "{}",
                ran.err
            );
        }
        let wrong = nas.set.members.iter().map(|disk| PathBuf::from(format!("{}@0..9M", disk.display())));
        let ran = run("cat", &wrong.collect::<Vec<_>>()).ended(0);
        assert!(ran.err.contains("it may begin at byte 1048576 of the disk"), "{}", ran.err);
        let to = nas.set.path("out");
        let right = nas.set.members.iter().map(|disk| PathBuf::from(format!("{}@1M..9M", disk.display())));
        run(&format!("cat -o {}", name(&to)), &right.collect::<Vec<_>>()).ended(0);
        let map = std::fs::read_to_string(nas.set.path("out.map")).unwrap();
        assert!(map.contains("# Not proved: ") && std::fs::read(&to).unwrap() == nas.contents[0], "{map}");
    });
}

#[test]
fn a_member_whose_beginning_nothing_tells_is_said_and_breaks_no_other() {
    let Some(nas) = Nas::new(3, "gpt") else { return };
    // Another member of 0.90 that uses little of its place, where no partition begins that would fit.
    let small = Set::sparse(2, 2 * MIB);
    small.create("-l 1 -e 0.90 --size 1000K").ok();
    for (member, disk) in small.members.iter().zip(&nas.set.members) {
        put(disk, 7 * MIB, &std::fs::read(member).unwrap());
    }
    nas.set.members.iter().for_each(|disk| erase_tables(disk, true));
    let ran = run("detail --json --search", &nas.set.members).ended(0);
    assert!(ran.err.contains("is not known: if you know it, name"), "{}", ran.err);
    assert_eq!(arrays(&ran.report()).len(), 3);
}

#[test]
fn of_too_few_members_that_is_written_which_they_have() {
    let Some(nas) = Nas::new(4, "gpt") else { return };
    let inside = nas.inside(2);
    let left = [inside[0].clone(), inside[3].clone()];
    nas.set.unchanged(|| {
        run("cat -o nowhere", &left).refused(1, &["at least 3 are needed"]);
        for flag in ["--partial", "--force"] {
            let to = nas.set.path(&flag[2..]);
            let flags = format!("cat {flag} -o {}", name(&to));
            let ran = run(&flags, &left).ended(8);
            assert!(ran.text().contains("50.0 % of it"), "{}", ran.text());
            assert!(
                ran.err.contains("roles 1 and 2 are missing that the array can't do without"),
                "{}",
                ran.err
            );
            let map = std::fs::read_to_string(format!("{}.map", name(&to))).unwrap();
            let content = &nas.contents[2];
            assert_eq!(read_bytes(&map, &std::fs::read(&to).unwrap(), content), content.len() as u64 / 2);
            // With one member more the same command reads the rest.
            let more = [0, 1, 3].map(|disk| inside[disk].clone());
            run(&flags, &more).ended(0);
            assert!(std::fs::read(&to).unwrap() == *content);
        }
        assert!(run("cat --partial", &left).ended(2).err.contains("--output"));
    });
}

#[test]
fn partial_arrays_of_all_levels_are_read_as_far_as_their_members_go() {
    for (level, left, share) in [("0", 3, 3), ("linear", 3, 3), ("4", 2, 2), ("6", 1, 1), ("10", 1, 2)] {
        let set = Set::random(4, 4 * MIB);
        let chunk = if level == "linear" { "" } else { " -c 64K" };
        set.create(&format!("-l {level}{chunk} --force")).ended(0);
        let content = set.run("cat").ok().out;
        let to = set.path("out");
        run(&format!("cat --partial -o {}", name(&to)), &set.members[..left]).ended(8);
        let map = std::fs::read_to_string(set.path("out.map")).unwrap();
        let read = read_bytes(&map, &std::fs::read(&to).unwrap(), &content);
        let least = content.len() as u64 * share / 4 - 256 * KIB;
        assert!((least..content.len() as u64).contains(&read), "{level}: {read} of {}", content.len());
    }
}

#[test]
fn volumes_of_lvm_over_several_arrays_have_one_list_of_commands() {
    let mut label = vec![0; 4096];
    label[512..520].copy_from_slice(b"LABELONE");
    label[532] = 32;
    label[536..544].copy_from_slice(b"LVM2 001");
    let sets = [Set::sparse(3, 4 * MIB), Set::sparse(2, 4 * MIB)];
    for (set, flags) in sets.iter().zip(["-l 5 -c 64K -N big", "-l 1 -N small"]) {
        set.create(flags).ok();
        let server = set.serve("");
        let mut client = brindle_tests::nbd::Client::connect(&server.uri());
        let work = brindle_tests::nbd::Work::Write { data: label.clone(), fua: true };
        client.all_at_once(&[brindle_tests::nbd::Change { offset: 0, len: 4096, work }]);
        client.close();
        server.stop();
    }
    let heap = [&sets[0].members[1..], &sets[1].members[..1]].concat();
    let all = arrays(&run("detail --json", &heap).json());
    let next: Vec<&str> = all.iter().map(|array| array["holds"][0]["next"].as_str().unwrap()).collect();
    assert_eq!(next[0], next[1], "one list for both");
    for word in ["rescue0.sock", "rescue1.sock", "/dev/nbd0", "/dev/nbd1"] {
        assert!(next[0].contains(word), "{next:?}");
    }
    assert!(next[0].ends_with("; vgchange --activate y; lvs") && next[0].matches("vgchange").count() == 1);
    // Both are served at once by these words.
    let dir = tempfile::tempdir().unwrap();
    let served = next[0].split("; ").filter_map(|command| command.strip_prefix("brindle "));
    for command in served {
        let mut brindle = std::process::Command::new(program::path());
        brindle.args(command.split(' ')).current_dir(dir.path());
        brindle.env("BRINDLE_RUNTIME_DIR", dir.path().join("run"));
        Ran::of(brindle).ended(0);
    }
    for socket in ["rescue0.sock", "rescue1.sock"] {
        let uri = format!("nbd+unix:///?socket={}", name(&dir.path().join(socket)));
        let mut client = brindle_tests::nbd::Client::connect(&uri);
        assert!(client.read(0, 4096) == label, "{socket}");
        client.close();
    }
    for array in ["big", "small"] {
        let mut stop = std::process::Command::new(program::path());
        stop.args(["stop", array]).env("BRINDLE_RUNTIME_DIR", dir.path().join("run"));
        Ran::of(stop).ended(0);
    }
}
