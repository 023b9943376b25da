//! Members with places that can't be read, under the real ring: files of a file system in user space.

use brindle_testkit::hang::HangingFiles;
use brindle_tests::nbd::Client;
use brindle_tests::tools::or_skip;

use super::*;

/// Bytes of a member.
const LEN: usize = 4 << 20;

/// An array of files, with the second one on the file system that can have bad places.
struct Scene {
    files: HangingFiles,
    set: Set,
    members: Vec<PathBuf>,
}

impl Scene {
    fn new(create: &str, members: usize) -> Option<Self> {
        let files = or_skip(HangingFiles::mount(1, LEN))?;
        let set = Set::sparse(members - 1, LEN as u64);
        let mut members = set.members.clone();
        members.insert(1, files.path(0));
        run(&format!("create {create}"), &members).ok();
        Some(Self { files, set, members })
    }

    fn run(&self, command: &str) -> Ran {
        run(command, &self.members)
    }

    /// Spoils 1 KiB of the member's data area at each of these bytes.
    fn spoil(&self, places: [u64; 2]) {
        let report = run("examine --json", &self.members[1..2]).json();
        let first = report["members"][0]["superblock"]["data_offset"].as_u64().unwrap();
        for place in places.map(|place| (first + place) as usize) {
            self.files.spoil(0, place..place + 1024);
        }
    }
}

#[test]
fn a_place_that_can_not_be_read_matters_only_if_no_other_holds_a_superblock() {
    for metadata in ["0.90", "1.0"] {
        let Some(scene) = Scene::new(&format!("-l 5 -c 64K -e {metadata}"), 3) else { return };
        let content = scene.run("cat").ok().out;
        // Where 1.1 and 1.2 have theirs, which is data here.
        for place in [0, 4096] {
            scene.files.spoil(0, place..place + 512);
        }
        let cat = scene.run("cat").ok();
        assert!(cat.out == content, "{metadata}");
        assert_eq!(state(&scene.run("detail --json").json()), ["clean"], "{metadata}");
        // The place that counts is another matter.
        let place = if metadata == "0.90" { LEN - (64 << 10) } else { LEN - (8 << 10) };
        scene.files.spoil(0, place..place + 512);
        let cat = scene.run("cat").ended(0);
        let words = [name(&scene.members[1]), "can't be read", "going on without it"];
        assert!(words.iter().all(|word| cat.err.contains(word)), "{metadata}: {}", cat.err);
        assert!(cat.out == content, "{metadata}");
    }
}

#[test]
fn a_check_names_what_it_can_not_read_and_goes_on() {
    for create in ["-l 1", "-l 10", "-l 5 -c 64K", "-l 6 -c 64K"] {
        let members = if create == "-l 1" { 3 } else { 4 };
        let Some(scene) = Scene::new(create, members) else { return };
        assert_eq!(scene.run("check --json").json()["unreadable"], 0, "{create}");
        scene.spoil([65_536, 1 << 20]);
        let mut report = scene.run("check --json").ended(4).report();
        for place in report["bad_places"].as_array_mut().unwrap() {
            let held = place.as_object_mut().unwrap().remove("array").unwrap();
            assert!(
                held[0]["to"].as_u64() > held[0]["from"].as_u64()
                    || create.starts_with("-l 5")
                    || create.starts_with("-l 6")
            );
        }
        let bad = |offset: u64| serde_json::json!({"role": 1, "device": name(&scene.members[1]), "offset": offset, "length": 1024});
        assert_eq!(
            report["bad_places"],
            serde_json::json!([bad(65_536), bad(1 << 20)]),
            "{create}: {report}"
        );
        assert_eq!((report["unreadable"].as_u64(), report["mismatch_cnt"].as_u64()), (Some(2048), Some(0)));
        let uncompared = report["unverified"].as_u64().unwrap();
        assert!((1..=2048 * 4).contains(&uncompared), "{create}: {report}");
        let text = scene.run("check").ended(4).text();
        for words in ["could not be compared", name(&scene.members[1]), "role 1", "65536", "1048576"] {
            assert!(text.contains(words), "{create}: '{words}' is not in {text}");
        }
        assert!(scene.files.content(0)[..] != [0; LEN], "the member is there");
    }
}

#[test]
fn places_that_are_mended_are_counted_in_status() {
    let Some(scene) = Scene::new("-l 5 -c 64K", 3) else { return };
    // Rows 0 and 17, where this member has no parity.
    scene.spoil([0, 17 * 65_536]);
    let server = scene.set.serve_some("--memory 32M", &scene.members);
    let content = Client::connect(&server.uri()).read(0, 4 << 20);
    assert!(content.iter().all(|byte| *byte == 0));
    let status = server.status();
    let io = |role: usize| status["array"]["devices"][role]["io"].clone();
    assert_eq!((io(0)["corrected"].as_u64(), io(1)["corrected"].as_u64()), (Some(0), Some(2)), "{status}");
    assert!(io(1)["errors"].as_u64() >= Some(2) && io(0)["errors"] == 0, "{status}");
    assert!(io(1)["bytes_written"].as_u64() >= Some(2048) && io(1)["bytes_read"].as_u64() > Some(1 << 20));
    let counted: u64 = io(1)["read_latency"].as_array().unwrap().iter().filter_map(|n| n.as_u64()).sum();
    assert_eq!(Some(counted), io(1)["reads"].as_u64(), "{status}");
    assert_eq!(io(1)["slow"], 0);
    let text = server.ask("status", &[]).ok().text();
    assert!(
        text.contains("2 corrected") && text.contains("0 corrected") && text.contains("reads of"),
        "{text}"
    );
    let (code, err) = server.signal(rustix::process::Signal::TERM);
    assert!(code == 0 && err.contains(name(&scene.members[1])), "{code}: {err}");
    // Mended places stay readable.
    assert_eq!(scene.run("check --json").json()["unreadable"], 0);
}
