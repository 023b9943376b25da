//! Arrays whose superblocks are lost, read by a geometry that is given by hand.

use std::os::unix::fs::FileExt;

use brindle_tests::nbd::Client;

use super::*;

/// Members without superblocks: what they held, and where their data begin and how much of each is used, in bytes.
fn bare(members: usize, create: &str) -> (Set, Vec<u8>, u64, u64) {
    let set = Set::random(members, 8 * MIB);
    set.create(&format!("--force {create}")).ended(0);
    let content = set.run("cat").ok().out;
    let reported = set.run("examine --json").json();
    let superblock = &reported["members"][0]["superblock"];
    let number = |field: &str| superblock[field].as_u64().unwrap();
    let offset = number("data_offset");
    // Levels without redundancy use all of each member.
    let size = if number("component_size") > 0 { number("component_size") } else { number("data_size") };
    for member in &set.members {
        let file = std::fs::File::options().write(true).open(member).unwrap();
        file.write_all_at(&vec![0; offset as usize], 0).unwrap();
    }
    (set, content, offset, size)
}

/// The flag, with the members in their order; the one at `missing` is not there.
fn assume(set: &Set, geometry: &str, missing: Option<usize>) -> String {
    let named = |(at, member): (usize, &PathBuf)| match missing == Some(at) {
        true => "missing".to_owned(),
        false => name(member).to_owned(),
    };
    let order: Vec<String> = set.members.iter().enumerate().map(named).collect();
    format!("--assume {geometry},order={}", order.join(","))
}

const NONE: &[PathBuf] = &[];

#[test]
fn arrays_are_read_by_the_geometry_that_is_given() {
    for (create, geometry, redundant) in [
        ("-l 5 -c 64K -p ra", "level=5,chunk=64K,layout=ra", true),
        ("-l 6 -c 16K", "level=6,chunk=16K", true),
        ("-l 10 -c 64K -p f2", "level=10,chunk=64K,layout=f2", true),
        ("-l 1", "level=1", true),
        ("-l 0 -c 64K", "level=0,chunk=64K,layout=original", false),
        ("-l linear", "level=linear", false),
    ] {
        let (set, content, offset, size) = bare(4, create);
        let geometry = format!("{geometry},offset={}s,size={size}", offset / 512);
        set.run("cat").ended(1);
        set.unchanged(|| {
            assert!(
                run(&format!("cat {}", assume(&set, &geometry, None)), NONE).ended(0).out == content,
                "{create}"
            );
            let reported = run(&format!("detail --json {}", assume(&set, &geometry, None)), NONE).json();
            assert!(reported["limits"][0].as_str().unwrap().contains("by hand"), "{reported}");
            assert_eq!(reported["size"], content.len(), "{create}");
            if redundant {
                let without = format!("cat {}", assume(&set, &geometry, Some(1)));
                assert!(run(&without, NONE).ended(0).out == content, "{create}, degraded");
                let checked = run(&format!("check --json {}", assume(&set, &geometry, None)), NONE).json();
                assert_eq!(checked["mismatch_cnt"], 0, "{create}: {checked}");
            }
        });
    }
}

#[test]
fn such_an_array_is_served_to_be_read_and_what_can_not_be_is_reported() {
    let (set, content, offset, _) = bare(3, "-l 5 -c 64K");
    let geometry = format!("level=5,chunk=64K,offset={offset}");
    set.unchanged(|| {
        let server = set.serve_some(&format!("--read-only {}", assume(&set, &geometry, None)), NONE);
        let mut client = Client::connect(&server.uri());
        assert!(client.read(0, 64 * KIB) == content[..64 * KIB as usize]);
        client.close();
        server.stop();
        // Another order is another content.
        let mut turned = set.members.clone();
        turned.swap(0, 1);
        let order = turned.iter().map(|one| name(one)).collect::<Vec<_>>().join(",");
        let other = format!("cat --assume {geometry},order={order}");
        assert!(run(&other, NONE).ended(0).out != content);
        let beyond = assume(&set, "level=5,chunk=64K,offset=8M", None);
        run(&format!("cat {beyond}"), NONE).refused(2, &["leaves no room"]);
        let odd = assume(&set, "level=5,chunk=64K,offset=100", None);
        run(&format!("cat {odd}"), NONE).ended(1);
        let few = format!("cat --assume {geometry},order={},missing,missing", name(&set.members[0]));
        run(&few, NONE).ended(1);
        run(&format!("cat {}", assume(&set, &geometry, None)), &set.members[..1]).ended(2);
        let reported = run("cat --assume level=5", NONE).ended(2).err;
        assert!(reported.contains("order=A,B"), "{reported}");
        let reported = run("repair --assume level=1,order=a,b", NONE).ended(2).err;
        assert!(reported.contains("--assume"), "{reported}");
    });
}
