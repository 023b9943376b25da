//! Arrays that use what this release can't honour while writing: readable, not writable, and told why.

use brindle_format::md::{Features, SUPERBLOCK_BYTES, Superblock, probe_offsets};
use rustix::process::Signal;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::*;

/// Changes a member's superblock and gives it the right checksum again.
pub(super) fn patch(path: &Path, change: impl Fn(&mut Superblock)) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let size = file.metadata().unwrap().len();
    let mut patched = 0;
    for probe in probe_offsets(size) {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut bytes, probe.offset).unwrap();
        let Ok(mut sb) = Superblock::parse(probe.version, &bytes, size) else { continue };
        change(&mut sb);
        sb.encode(&mut bytes).unwrap();
        file.write_all_at(&bytes, probe.offset).unwrap();
        patched += 1;
    }
    assert_eq!(patched, 1, "{}", path.display());
}

/// A kind of array that must not be written to.
struct Limit {
    feature: &'static str,
    change: fn(&mut Superblock),
}

const LIMITS: [Limit; 3] = [
    Limit { feature: "feature bitmap", change: |sb| sb.bitmap_offset = Some(4096) },
    Limit {
        feature: "feature ppl",
        change: |sb| {
            sb.features |= Features::PPL;
            sb.ppl = Some(brindle_format::md::Ppl { offset: 8192, size: 4096 });
        },
    },
    Limit { feature: "0x40000000", change: |sb| sb.features |= Features(0x4000_0000) },
];

#[test]
fn features_that_forbid_writes_are_named_and_leave_the_array_readable() {
    for limit in &LIMITS {
        let set = Set::raid5(3);
        for member in &set.members {
            patch(member, limit.change);
        }
        set.unchanged(|| {
            set.serve_refused("--read-write").refused(1, &["can't be written to", limit.feature]);
            let detail = set.detail();
            assert_eq!(state(&detail), ["clean", "read-only"], "{}", limit.feature);
            assert!(detail["limits"][0].as_str().unwrap().contains(limit.feature), "{detail}");
            let cat = set.run("cat").ended(0);
            assert!(cat.err.contains(limit.feature), "{}", cat.err);
            let server = set.serve("");
            assert!(state(&server.status()["array"]).contains(&"read-only"));
            server.ask("fail", &["0"]).refused(1, &["read-only"]);
            let (code, err) = server.signal(Signal::TERM);
            assert_eq!(code, 0, "{err}");
            assert!(err.contains("serving read-only") && err.contains(limit.feature), "{err}");
            assert_eq!(err.lines().count(), 1, "{err}");
        });
    }
}

#[test]
fn read_only_writes_nothing_to_members() {
    let set = Set::raid5(3);
    set.unchanged(|| {
        let server = set.serve("--read-only");
        assert!(state(&server.status()["array"]).contains(&"read-only"));
        server.stop();
    });
}

/// Values that no honest superblock has, each with a word that the message must hold.
type Lie = (&'static str, fn(&mut Superblock));

const LIES: [Lie; 7] = [
    ("field size", |sb| sb.component_size = 1 << 62),
    ("impossible", |sb| sb.component_size = 512),
    ("chunk", |sb| sb.chunk = 3 * 4096),
    ("impossible", |sb| sb.raid_disks = 2),
    ("level", |sb| sb.level = 7),
    ("layout", |sb| sb.layout = 77),
    ("data", |sb| sb.data_size = 1 << 60),
];

#[test]
fn superblocks_that_lie_are_refused_in_one_line() {
    for (word, lie) in LIES {
        let set = Set::raid5(3);
        for member in &set.members {
            patch(member, lie);
        }
        set.unchanged(|| {
            for command in ["detail", "cat", "check"] {
                set.run(command).refused(1, &[word]);
            }
            set.serve_refused("").refused(1, &[word]);
            let report = set.run("examine --json").report();
            assert!(report["problem"].is_string(), "{report}");
        });
    }
}
