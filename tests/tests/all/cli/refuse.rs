//! Members that form no array: each set gets one line that names the thing and the way out, and stays as it is.

use brindle_tests::tools::{self, or_skip};

use super::*;

/// Every command that needs an array says the same.
fn no_array(set: &Set, members: &[PathBuf], words: &[&str]) {
    set.unchanged(|| {
        for command in ["detail", "cat", "check"] {
            run(command, members).refused(1, words);
        }
        run(&format!("serve --runtime-dir {}", set.runtime().display()), members).refused(1, words);
    });
}

#[test]
fn too_few_members() {
    let set = Set::raid5(4);
    no_array(&set, &set.members[..2], &["roles 2 and 3 are missing", "at least 3 are needed"]);
    let set = Set::sparse(2, 4 * MIB);
    set.create("-l 0").ok();
    no_array(&set, &set.members[1..], &["role 0 is missing", "all are needed"]);
}

#[test]
fn members_of_two_arrays() {
    let (set, other) = (Set::raid5(3), Set::raid5(3));
    let mixed = [&set.members[..2], &other.members[2..]].concat();
    set.unchanged(|| {
        for command in ["cat", "check"] {
            run(command, &mixed)
                .refused(1, &["different arrays", name(&other.members[2]), "give those of one"]);
        }
        // Each is told, and one of them can't be had.
        let ran = run("detail --json", &mixed).ended(1);
        let told = ran.report();
        assert_eq!(state(&told["arrays"][0]), ["clean", "degraded"], "{told}");
        assert_eq!(told["arrays"][1]["devices"][0]["path"], name(&other.members[2]), "{told}");
        assert!(ran.err.contains("at least 2 are needed"), "{}", ran.err);
    });
    let serve = format!("serve --runtime-dir {}", set.runtime().display());
    run(&serve, &mixed).refused(1, &["different arrays", name(&other.members[2])]);
    let report = run("examine --json", &mixed).json();
    assert!(report["problem"].as_str().unwrap().contains("different arrays"), "{report}");
}

#[test]
fn a_copy_of_a_member() {
    let set = Set::raid5(3);
    let copy = set.path("copy.img");
    std::fs::copy(&set.members[1], &copy).unwrap();
    let with_copy = [&set.members[..], std::slice::from_ref(&copy)].concat();
    no_array(&set, &with_copy, &[name(&copy), name(&set.members[1]), "give one of them"]);
}

#[test]
fn a_role_claimed_twice() {
    let set = Set::raid5(3);
    // Device 3, in the role of device 1: the table of every member says so.
    let impostor = set.path("impostor.img");
    std::fs::copy(&set.members[1], &impostor).unwrap();
    for member in set.members.iter().chain([&impostor]) {
        limits::patch(member, |sb| sb.roles[3] = brindle_format::md::DeviceRole::Active(1));
    }
    limits::patch(&impostor, |sb| sb.device_number = 3);
    let all = [&set.members[..], std::slice::from_ref(&impostor)].concat();
    no_array(&set, &all, &["both claim role 1", name(&impostor), "leave one of them out"]);
}

#[test]
fn one_member_named_twice() {
    let set = Set::raid5(3);
    let link = set.path("link");
    std::os::unix::fs::symlink(&set.members[0], &link).unwrap();
    let twice = [&set.members[..], std::slice::from_ref(&link)].concat();
    set.unchanged(|| {
        for command in ["create -l 5 --force", "detail", "cat", "check", "serve"] {
            run(command, &twice).refused(2, &["the same device", name(&link), "once"]);
        }
    });
}

#[test]
fn a_truncated_image() {
    let set = Set::raid5(3);
    std::fs::File::options().write(true).open(&set.members[2]).unwrap().set_len(2 * MIB).unwrap();
    set.unchanged(|| {
        set.run("check").refused(1, &[name(&set.members[2]), "truncated"]);
        set.serve_refused("").refused(1, &[name(&set.members[2]), "truncated"]);
        // Commands that only look go on without it.
        for command in ["detail", "cat"] {
            let looked = set.run(command).ended(0).err;
            assert!(looked.contains(name(&set.members[2])) && looked.contains("truncated"), "{looked}");
        }
    });
    // Without it there is still an array.
    assert_eq!(state(&run("detail --json", &set.members[..2]).json()), ["clean", "degraded"]);
}

#[test]
fn no_member_at_all() {
    let set = Set::random(2, MIB);
    no_array(&set, &set.members, &[name(&set.members[0]), "no md superblock", "leave it out"]);
    set.unchanged(|| {
        let text = set.run("examine").ok().text();
        assert!(text.contains("nothing that Brindle knows, but not blank"), "{text}");
    });
}

#[test]
fn things_that_are_no_storage() {
    let set = Set::raid5(3);
    let folder = set.dir.path().to_owned();
    let missing = set.path("nowhere.img");
    let empty = set.path("empty.img");
    std::fs::write(&empty, "").unwrap();
    let wrong: [(&Path, &str); 4] = [
        (&folder, "a directory"),
        (Path::new("/dev/null"), "a character device"),
        (&missing, "no such file"),
        (&empty, "less than one block"),
    ];
    for (path, words) in wrong {
        let mut members = set.members.clone();
        members[1] = path.to_owned();
        set.unchanged(|| {
            for command in ["create -l 5 --force", "check", "serve"] {
                run(command, &members).refused(1, &[name(path), words]);
            }
            for command in ["detail", "cat"] {
                // An empty file may have been a member.
                let looked = run(command, &members).ended(i32::from(path != empty)).err;
                assert!(looked.contains(name(path)) && looked.contains(words), "{looked}");
            }
        });
        // `examine` counts an empty file as examined, and succeeds.
        let looked = path == empty;
        let report = run("examine --json", &members).ended(i32::from(!looked)).report();
        let error = report["members"][1]["error"].as_str().unwrap_or_default();
        assert_eq!(error.contains(words), !looked, "{report}");
        assert!(report["members"][2]["superblock"].is_object(), "the others are told about all the same");
    }
}

#[test]
fn arrays_that_can_not_be_made() {
    let cases: [(usize, &str, i32, &[&str]); 16] = [
        (3, "-l 7", 2, &["--level", "'7' is not a RAID level"]),
        (3, "-l 5 -p near", 2, &["--layout", "'near' is not a layout of raid5"]),
        (2, "-l 5 -n 3", 2, &["--raid-devices 3", "2 members"]),
        (2, "-l 5 -x 2", 2, &["--spares 2", "no member"]),
        (3, "-l 0 -x 1", 1, &["no redundancy", "spares"]),
        (2, "-l 6", 1, &["raid6", "at least 4 members", "2"]),
        (1, "-l 1", 1, &["raid1", "at least 2"]),
        (3, "-l 5 -c 12K", 1, &["power of two", "12288"]),
        (3, "-l 5 -c 1001s", 1, &["chunk", "multiple of 4096"]),
        (3, "-l 5 -c 0", 1, &["chunk of 0"]),
        (3, "-l 5 -c 16M", 1, &["m0.img", "larger device", "--chunk"]),
        (3, "-l 1 -c 64K", 1, &["raid1 has no chunks"]),
        (3, "-l 5 -z 1G", 1, &["m0.img", "1073741824", "--size"]),
        (3, "-l 5 --data-offset 1G", 1, &["m0.img", "--data-offset"]),
        (3, "-l 5 -e 0.90 -N name", 1, &["0.90 keeps no name"]),
        (4, "-l 10 -p n5", 1, &["copies", "4 members"]),
    ];
    for (members, flags, code, words) in cases {
        let set = Set::sparse(members, 4 * MIB);
        set.unchanged(|| set.create(flags).refused(code, words));
    }
    let set = Set::sparse(3, 4 * MIB);
    let missing = |count: usize| {
        let names = ["missing".into(), "missing".into(), "missing".into()];
        [&names[..count], &set.members[count..]].concat()
    };
    set.unchanged(|| {
        run("create -l 5", &missing(2)).refused(1, &["roles 0 and 1", "raid5"]);
        run("create -l 0", &missing(1)).refused(1, &["role 0", "raid0"]);
        run("create -l 1", &missing(3)).refused(1, &["at least one member"]);
    });
}

#[test]
fn a_member_that_is_too_small() {
    let set = Set::sparse(3, 4 * MIB);
    std::fs::File::options().write(true).open(&set.members[1]).unwrap().set_len(16384).unwrap();
    set.unchanged(|| set.create("-l 5").refused(1, &[name(&set.members[1]), "16384 bytes", "larger device"]));
}

#[test]
fn chunks_need_be_no_power_of_two_where_md_asks_for_none() {
    let set = Set::sparse(2, 4 * MIB);
    assert_eq!(set.create("-l 0 -c 12K --json").json()["chunk"], 12288);
}

#[test]
fn ranges_beyond_the_end() {
    let set = Set::raid5(3);
    let size = set.detail()["size"].as_u64().unwrap();
    for flags in [
        format!("--offset {}", size + 1),
        format!("--offset 1 --length {size}"),
        format!("--offset {0} --length {0}", u64::MAX),
    ] {
        set.run(&format!("cat {flags}")).refused(2, &[&size.to_string(), "beyond its end"]);
    }
    // Any byte range within is fine.
    assert_eq!(set.run("cat --offset 513 --length 1021").ok().out, vec![0; 1021]);
    assert_eq!(set.run(&format!("cat --offset {size}")).ok().out, b"");
}

#[test]
fn unaligned_requests_over_nbd() {
    let Some(nbdsh) = or_skip(tools::find("nbdsh")) else { return };
    let set = Set::raid5(3);
    let server = set.serve("");
    let script = "
import errno
h.set_strict_mode(0)
for call in [lambda: h.pread(512, 100), lambda: h.pread(100, 0), lambda: h.pwrite(b'x' * 100, 512),
             lambda: h.pwrite(b'x' * 512, 1), lambda: h.zero(100, 0), lambda: h.trim(512, 7)]:
    try:
        call()
        raise SystemExit('an unaligned request was served')
    except nbd.Error as error:
        assert error.errnum == errno.EINVAL, error
assert h.pread(512, 512) == bytes(512)
";
    let mut command = std::process::Command::new(nbdsh);
    command.args(["-u", &server.uri(), "-c", script]).env("PATH", SYSTEM_PATH);
    Ran::of(command).ok();
    server.stop();
}
