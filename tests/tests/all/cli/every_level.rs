//! The whole life of an array of every level: made, written, used whole and degraded, read back from what is left.

use brindle_tests::files::{self, MIB};
use brindle_tests::tools::{self, or_skip};

use super::*;

struct Shape {
    level: &'static str,
    layout: Option<&'static str>,
    members: usize,
    /// Roles that the array does without at the end, in order.
    lost: &'static [usize],
}

fn live(shape: &Shape) {
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    for metadata in ["0.90", "1.0", "1.1", "1.2"] {
        let life = Life { set: Set::sparse(shape.members, 4 * MIB), nbdcopy: nbdcopy.clone(), shape };
        let size = life.create(metadata);
        let first = life.write_whole(size);
        life.read_offline(&first, shape.lost.len().min(1));
        let last = life.lose_members(size);
        life.read_offline(&last, shape.lost.len());
    }
}

struct Life<'a> {
    set: Set,
    nbdcopy: PathBuf,
    shape: &'a Shape,
}

impl Life<'_> {
    fn create(&self, metadata: &str) -> u64 {
        let mut flags = format!("-l {} -e {metadata} --json", self.shape.level);
        if let Some(layout) = self.shape.layout {
            flags += &format!(" --layout {layout}");
        }
        if !["1", "linear"].contains(&self.shape.level) {
            flags += " --chunk 64K";
        }
        if metadata != "0.90" {
            flags += " --name life";
        }
        let report = self.set.create(&flags).json();
        assert_eq!(state(&report), ["clean"]);
        assert_eq!(report["metadata"], metadata);
        assert_eq!(report["raid_devices"], self.shape.members);
        report["size"].as_u64().unwrap()
    }

    /// Writes a pattern over the whole array through NBD, and reads it back through NBD.
    fn copy_in_and_out(&self, server: &Server, size: u64, seed: u64) -> String {
        let (source, back) = (self.set.path("source"), self.set.path("back"));
        files::write_pattern(&source, size, seed);
        tools::run(&self.nbdcopy, ["--flush", name(&source), &server.uri()]);
        tools::run(&self.nbdcopy, [&server.uri(), name(&back)]);
        let hash = files::sha256(&source);
        assert_eq!(files::sha256(&back), hash);
        hash
    }

    fn write_whole(&self, size: u64) -> String {
        let mut server = self.set.serve("");
        let hash = self.copy_in_and_out(&server, size, 1);
        server.ask("stop", &[]).ok();
        // Members are free as soon as `stop` has returned.
        assert_eq!(state(&self.set.detail()), ["clean"]);
        assert_eq!(server.end(), (0, String::new()));
        self.set.unchanged(|| {
            let check = self.set.run("check --memory 32M --json");
            if self.shape.lost.is_empty() {
                check.refused(2, &["no redundancy"]);
            } else {
                assert_eq!(check.json()["mismatch_cnt"], 0);
            }
        });
        hash
    }

    /// Fails members while the array is served, and writes something else.
    fn lose_members(&self, size: u64) -> String {
        let server = self.set.serve("");
        for (done, role) in self.shape.lost.iter().enumerate() {
            // By path and by number.
            let (path, number) = (name(&self.set.members[*role]).to_owned(), role.to_string());
            server.fail(if done == 0 { &path } else { &number });
            let status = server.status();
            assert!(state(&status["array"]).contains(&"degraded"), "{status}");
            assert_eq!(status["array"]["missing"].as_array().unwrap().len(), done + 1, "{status}");
        }
        let hash = self.copy_in_and_out(&server, size, 2);
        server.stop_after_failing(self.shape.lost.len());
        let detail = self.set.detail();
        let degraded: &[&str] = if self.shape.lost.is_empty() { &["clean"] } else { &["clean", "degraded"] };
        assert_eq!(state(&detail), degraded);
        assert_eq!(detail["missing"], serde_json::json!(self.shape.lost));
        hash
    }

    /// `cat` without the first `without` of the lost, in another order than that of the roles.
    fn read_offline(&self, hash: &str, without: usize) {
        let lost = &self.shape.lost[..without];
        let left = (0..self.shape.members).filter(|role| !lost.contains(role));
        let mut paths: Vec<PathBuf> = left.map(|role| self.set.members[role].clone()).collect();
        paths.reverse();
        paths.rotate_left(1);
        self.set.unchanged(|| {
            assert_eq!(files::sha256_of(&run("cat --memory 32M", &paths).ok().out), hash);
        });
    }
}

#[test]
fn linear() {
    live(&Shape { level: "linear", layout: None, members: 3, lost: &[] });
}

#[test]
fn raid0() {
    live(&Shape { level: "0", layout: None, members: 3, lost: &[] });
}

#[test]
fn raid1() {
    live(&Shape { level: "1", layout: None, members: 3, lost: &[0, 2] });
}

#[test]
fn raid4() {
    live(&Shape { level: "4", layout: None, members: 4, lost: &[1] });
}

#[test]
fn raid5() {
    live(&Shape { level: "5", layout: None, members: 4, lost: &[3] });
}

#[test]
fn raid6() {
    live(&Shape { level: "6", layout: None, members: 5, lost: &[1, 4] });
}

#[test]
fn raid10_near() {
    live(&Shape { level: "10", layout: Some("n2"), members: 4, lost: &[1, 3] });
}

#[test]
fn raid10_far() {
    live(&Shape { level: "10", layout: Some("f2"), members: 4, lost: &[2] });
}

#[test]
fn raid10_offset() {
    live(&Shape { level: "10", layout: Some("o2"), members: 5, lost: &[0] });
}

/// One byte of one member is changed, and `check` must say where.
struct Damage {
    flags: &'static str,
    members: usize,
    victim: usize,
    kind: &'static str,
    /// The sectors that md counts for it: a page of a row, or a block of 64 KiB of a mirror.
    sectors: u64,
    /// Whether it can be known that this member is wrong.
    located: bool,
}

impl Damage {
    const fn of(
        flags: &'static str,
        members: usize,
        victim: usize,
        kind: &'static str,
        sectors: u64,
    ) -> Self {
        Self { flags, members, victim, kind, sectors, located: false }
    }

    const fn located(self) -> Self {
        Self { located: true, ..self }
    }
}

/// In row 0, left-symmetric RAID 5 of 4 keeps P on role 3, and RAID 6 of 5 keeps Q on role 0.
const DAMAGES: [Damage; 7] = [
    Damage::of("-l 4 -c 64K", 4, 3, "p", 8),
    Damage::of("-l 5 -c 64K", 4, 3, "p", 8),
    Damage::of("-l 6 -c 64K", 5, 0, "q", 8).located(),
    Damage::of("-l 6 -c 64K", 5, 2, "data", 8).located(),
    Damage::of("-l 1", 2, 1, "copy", 128),
    Damage::of("-l 1", 3, 0, "copy", 256).located(),
    Damage::of("-l 10 -c 64K", 4, 1, "copy", 128),
];

#[test]
fn redundancy_is_brought_in_sync_over_any_content_and_check_finds_the_byte_that_changes() {
    for Damage { flags, members, victim, kind, sectors, located } in DAMAGES {
        let set = Set::random(members, 4 * MIB);
        let created = set.create(&format!("{flags} --json")).json();
        assert_eq!(state(&created), ["clean"], "{flags}");
        set.unchanged(|| assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0, "{flags}"));
        let device = &created["devices"][victim];
        assert_eq!(device["role"], victim, "{flags}");
        let whole = set.hashes();
        flip(&set.members[victim], device["data_offset"].as_u64().unwrap() + 4096 + 5);
        set.unchanged(|| {
            let report = set.run("check --json").ended(3).report();
            assert_eq!(report["mismatch_cnt"], sectors, "{flags}: {report}");
            let place = &report["places"][0];
            assert_eq!((&place["kind"], &place["role"]), (&kind.into(), &victim.into()), "{flags}: {report}");
            assert_eq!(place["device"], name(&set.members[victim]), "{flags}: {report}");
            assert_eq!(place["located"], located, "{flags}: {report}");
            let offset = if kind == "copy" && !located { 0 } else { 4096 };
            assert_eq!(place["offset"], offset, "{flags}: {report}");
            let text = set.run("check").ended(3).text();
            assert!(text.contains(name(&set.members[victim])), "{text}");
        });
        if located {
            set.run("repair --locate").ok();
            assert!(set.hashes() == whole, "{flags}: not as it was");
        } else {
            set.unchanged(|| {
                assert_eq!(set.run("repair --locate --json").ended(3).report()["mismatch_cnt"], sectors);
            });
            assert_eq!(set.run("repair --json").json()["mismatch_cnt"], sectors, "{flags}");
        }
        set.unchanged(|| assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0, "{flags}"));
    }
}

#[test]
fn a_degraded_array_is_checked_as_far_as_it_goes() {
    let set = Set::random(5, 4 * MIB);
    set.create("-l 6 -c 64K").ok();
    for count in [4, 3] {
        let check = run("check", &set.members[..count]).ended(5);
        assert!(check.text().contains("could not be compared"), "{}", check.text());
        let report = run("check --json", &set.members[..count]).ended(5).report();
        assert!(report["unverified"].as_u64().unwrap() > 0, "{report}");
    }
}
