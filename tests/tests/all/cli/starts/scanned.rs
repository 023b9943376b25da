//! Servers that `assemble --scan` starts for what it finds.

use super::*;

const SCAN: &str = "assemble --scan --json --wait 0 --homehost";

#[test]
fn assemble_starts_what_it_did() {
    let mut group = Group::new("assemble");
    group.scene("all that there is", "a b tank", |scene| {
        scene.runs(&format!("{SCAN} any %disks"));
        scene.runs(&format!("{SCAN} any %disks"));
        for name in ["a", "b", "tank"] {
            scene.runs(&format!("stop --json {name}"));
        }
    });
    group.scene("another host's", "a", |scene| {
        scene.runs(&format!("{SCAN} there %disks"));
    });
    group.scene("one by its name", "a b", |scene| {
        scene.runs(&format!("{SCAN} there --array b %disks"));
        scene.runs("stop --json b");
    });
    group.scene("one that lacks too many members, and one that lacks one", "a b", |scene| {
        for disk in ["a0", "a1", "b0"] {
            std::fs::remove_file(scene.disk(disk)).unwrap();
        }
        scene.runs(&format!("{SCAN} any %disks"));
        scene.runs("stop --json b");
    });
    group.scene("a pool that lacks a member", "tank", |scene| {
        std::fs::remove_file(scene.disk("tank0")).unwrap();
        scene.is_vague = true;
        scene.runs(&format!("{SCAN} any %disks"));
        scene.runs(&format!("{SCAN} any --degraded %disks"));
        scene.runs("stop --json tank");
    });
    group.scene("a folder with nothing in it", "", |scene| {
        scene.runs(&format!("{SCAN} any %disks"));
    });
    group.scene("a folder that is not there", "", |scene| {
        scene.runs(&format!("{SCAN} any %nowhere"));
    });
    group.hold();
}
