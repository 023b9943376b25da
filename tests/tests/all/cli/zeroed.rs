//! Superblocks that are erased, and those that are not.

use super::*;

/// Superblocks of every version of metadata are erased.
#[test]
fn members_become_plain_devices() {
    for version in ["0.90", "1.0", "1.1", "1.2"] {
        let set = Set::sparse(2, 4 * MIB);
        // 0.90 keeps no name.
        let named = if version == "0.90" { "" } else { "-N a" };
        set.create(&format!("-l 1 -e {version} {named}")).ok();
        set.unchanged(|| {
            let reported = set.run("zero-superblock --dry-run").ok().text();
            assert!(reported.contains("would be erased, member 1 of the raid1 array"), "{reported}");
        });
        let reported = set.run("zero-superblock --json").json();
        assert_eq!(reported["erased"].as_array().unwrap().len(), 2, "{reported}");
        assert_eq!(reported["erased"][1]["role"], 1);
        let left = set.run("examine --json").json();
        for member in left["members"].as_array().unwrap() {
            assert_eq!(member["superblock"], Value::Null, "{version}: {member}");
        }
        set.run("zero-superblock").refused(1, &["m0", "no md superblock", "brindle examine"]);
    }
}

#[test]
fn all_or_none_are_changed() {
    let set = Set::sparse(3, 4 * MIB);
    run("create -l 1 -N a", &set.members[..2]).ok();
    set.unchanged(|| {
        set.run("zero-superblock").refused(1, &["m2", "no md superblock", "nothing was changed"]);
    });
    // A device that a server has is refused.
    let server = set.serve_some("--memory 32M", &set.members[..2]);
    run("zero-superblock", &set.members[..1]).refused(1, &["m0", "another Brindle uses it"]);
    server.stop();
    // So is a damaged superblock, without --force.
    flip(&set.members[0], 4096 + 100);
    set.unchanged(|| run("zero-superblock", &set.members[..1]).refused(1, &["m0", "--force"]));
    run("zero-superblock --force", &set.members[..1]).ok();
    run("zero-superblock", &set.members[..1]).refused(1, &["no md superblock"]);
}
