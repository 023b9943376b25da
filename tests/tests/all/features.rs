//! Arrays that md made with features which this release can't honour while writing: read where that is safe, never
//! written to, and named.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapSuper, BitmapVersion};
use brindle_format::md::ppl::{self, PPL_HEADER_BYTES, PplEntry, PplHeader};
use brindle_format::md::{Features, SUPERBLOCK_BYTES, Superblock, probe_offsets};
use brindle_tests::features::{self, Featured};
use brindle_tests::files;
use brindle_tests::program::{self, Ran, Server};
use brindle_tests::tools::{self, Missing, or_skip};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// Chunk of the arrays with parity.
const CHUNK: usize = 64 << 10;

/// A copy of an array's devices.
struct Copy {
    dir: TempDir,
    devices: Vec<PathBuf>,
    sha256: String,
}

impl Copy {
    fn of(array: &Featured) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let copy = |(n, from): (usize, &PathBuf)| {
            let to = dir.path().join(format!("d{n}.img"));
            std::fs::copy(from, &to).unwrap();
            to
        };
        let devices = array.devices.iter().enumerate().map(copy).collect();
        let sha256 = array.sha256.clone().unwrap_or_else(|| panic!("{} was made", array.name));
        Self { dir, devices, sha256 }
    }

    /// Without these devices, the last first.
    fn without(mut self, devices: &[usize]) -> Self {
        for &device in devices {
            self.devices.remove(device);
        }
        self
    }

    fn run(&self, words: &str) -> Ran {
        let words = words.split_whitespace().map(Into::into);
        program::brindle(words.chain(self.devices.iter().map(|d| d.clone().into_os_string())))
    }

    fn serve_arguments(&self, flags: &str) -> String {
        format!("serve --memory 32M --runtime-dir {} {flags}", self.dir.path().join("run").display())
    }

    #[track_caller]
    fn detail(&self) -> Value {
        self.run("detail --json").json()
    }

    /// `brindle cat` gives what md held, and says this on the way.
    #[track_caller]
    fn cat_is_mds(&self, word: &str) {
        let ran = self.run("cat").ended(0);
        assert!(ran.err.contains(word), "{}: {}", ran.command, ran.err);
        assert_eq!(files::sha256_of(&ran.out), self.sha256, "{}", ran.command);
    }

    /// A server without flags opens the array read-only, says why, and gives what md held.
    #[track_caller]
    fn is_served_read_only(&self, word: &str) {
        let flags = "--memory 32M".split(' ').map(Into::into);
        let devices = self.devices.iter().map(|d| d.clone().into_os_string());
        let server = Server::start(&self.dir.path().join("run"), flags.chain(devices));
        assert!(words(&server.status()["array"]["state"]).contains(&"read-only"));
        let content = self.dir.path().join("content");
        let uri = server.uri();
        tools::run(&tools::find("nbdcopy").expect("looked for"), [uri.as_ref(), content.as_os_str()]);
        assert_eq!(files::sha256(&content), self.sha256);
        let (code, err) = server.signal(Signal::TERM);
        assert_eq!(code, 0, "{err}");
        assert!(err.contains("serving read-only") && err.contains(word), "{err}");
    }

    /// Asserts that `work` changes no device.
    #[track_caller]
    fn unchanged(&self, work: impl FnOnce()) {
        let hashes = || self.devices.iter().map(|d| files::sha256(d)).collect::<Vec<_>>();
        let before = hashes();
        work();
        assert!(before == hashes(), "a device was changed");
    }
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

/// All arrays, or a word about what is missing.
fn made() -> Option<Vec<Featured>> {
    or_skip(tools::find("nbdcopy").and_then(|_| features::md_made()))
}

fn named<'a>(made: &'a [Featured], name: &str) -> &'a Featured {
    made.iter().find(|array| array.name == name).unwrap()
}

/// Changes the superblock of a device and gives it the right checksum again.
fn patch(device: &Path, change: impl Fn(&mut Superblock)) {
    let file = std::fs::File::options().read(true).write(true).open(device).unwrap();
    let mut sb = superblock(device);
    change(&mut sb);
    let mut bytes = [0; SUPERBLOCK_BYTES];
    sb.encode(&mut bytes).unwrap();
    file.write_all_at(&bytes, sb.super_offset).unwrap();
}

fn superblock(device: &Path) -> Superblock {
    let bytes = std::fs::read(device).unwrap();
    let size = bytes.len() as u64;
    probe_offsets(size)
        .into_iter()
        .find_map(|probe| Superblock::parse(probe.version, &bytes[probe.offset as usize..], size).ok())
        .unwrap()
}

/// The write-intent bitmap of a member, and how many of its bits are set.
fn bitmap(device: &Path) -> (BitmapSuper, usize) {
    let (sb, bytes) = (superblock(device), std::fs::read(device).unwrap());
    let from = sb.super_offset.checked_add_signed(sb.bitmap_offset.unwrap()).unwrap() as usize;
    let bitmap = BitmapSuper::parse(&bytes[from..]).unwrap();
    let bits = &bytes[from + BITMAP_SUPER_BYTES..];
    let set = (0..bitmap.bits() as usize).filter(|&bit| bits[bit / 8] >> (bit % 8) & 1 == 1).count();
    (bitmap, set)
}

/// The newest header of a member's partial parity log: md writes them in turn to one place after the other.
fn newest_log(device: &Path) -> PplHeader {
    let (sb, bytes) = (superblock(device), std::fs::read(device).unwrap());
    let area = sb.ppl.unwrap();
    let from = sb.super_offset.checked_add_signed(area.offset).unwrap() as usize;
    let places = bytes[from..from + area.size as usize].chunks(PPL_HEADER_BYTES);
    let headers = places.filter_map(|place| PplHeader::parse(place, sb.set_uuid).ok());
    headers.max_by_key(|header| header.generation).unwrap()
}

/// Told by `detail`, read by `cat`, `check` and `serve`, and never written to.
fn is_read_only(copy: &Copy, feature: &str, state: &[&str]) {
    is_read_only_and_differs(copy, feature, state, 0);
}

/// The same, and so many sectors do not agree with their parity.
fn is_read_only_and_differs(copy: &Copy, feature: &str, state: &[&str], sectors: u64) {
    copy.unchanged(|| {
        let detail = copy.detail();
        assert_eq!(words(&detail["state"]), state, "{detail}");
        assert!(words(&detail["limits"]).iter().any(|limit| limit.contains(feature)), "{detail}");
        let text = copy.run("detail").ok().text();
        assert!(text.contains("Limit : ") && text.contains(feature), "{text}");
        copy.cat_is_mds(feature);
        let alike = if state.contains(&"degraded") { 5 } else { 0 };
        let check = copy.run("check --json").ended(if sectors == 0 { alike } else { 3 }).report();
        assert_eq!(check["mismatch_cnt"], sectors, "{check}");
        copy.run(&copy.serve_arguments("--read-write")).refused(1, &["can't be written to", feature]);
        copy.is_served_read_only(feature);
    });
}

const CLEAN: [&str; 2] = ["clean", "read-only"];
const DEGRADED: [&str; 3] = ["clean", "degraded", "read-only"];
const DIRTY: [&str; 3] = ["active", "needs resync", "read-only"];

#[test]
fn arrays_with_features_that_bind_writers_are_read_and_never_written_to() {
    let Some(made) = made() else { return };
    let cases: [(&str, &str, &[&str]); 5] = [
        ("clustered", "feature clustered", &CLEAN),
        ("ppl", "feature ppl", &CLEAN),
        ("ppl-dirty", "feature ppl", &DIRTY),
        ("journal", "feature journal", &CLEAN),
        // Killed, but every write had reached the members.
        ("journal-dirty", "feature journal", &DIRTY),
    ];
    for (name, feature, state) in cases {
        is_read_only(&Copy::of(named(&made, name)), feature, state);
    }
    let (herd, _) = bitmap(&named(&made, "clustered").devices[0]);
    assert_eq!(
        (herd.version, herd.nodes, &herd.cluster_name[..5]),
        (BitmapVersion::Clustered, 2, &b"herd\0"[..])
    );
}

#[test]
fn bitmaps_of_md_are_kept_and_what_a_killed_machine_left_marked_is_resynced() {
    let Some(made) = made() else { return };
    // Set when the array was found, and after it was written to and stopped.
    for (name, before, after) in [("bitmap", 0, 0), ("bitmap-0.90", 0, 0), ("bitmap-degraded", 1, 1)] {
        let copy = Copy::of(named(&made, name));
        let (found, set) = bitmap(&copy.devices[0]);
        assert_eq!(set, before, "{name}");
        assert_eq!(copy.detail()["limits"], Value::Array(Vec::new()), "{name}");
        write_again(&copy);
        let (left, set) = bitmap(&copy.devices[0]);
        assert_eq!((left.events, set), (superblock(&copy.devices[0]).events, after), "{name}");
        // Nothing is forgotten of what the missing member lacks.
        let stands = left.events_cleared == found.events_cleared;
        assert_eq!(stands, name == "bitmap-degraded", "{name}");
    }
    let copy = Copy::of(named(&made, "bitmap-dirty"));
    let marked = bitmap(&copy.devices[0]).1;
    assert!(marked > 1 && superblock(&copy.devices[0]).resync_offset == Some(0));
    write_again(&copy);
    assert_eq!(bitmap(&copy.devices[0]).1, 0);
    assert!(superblock(&copy.devices[0]).is_clean());
    assert_eq!(copy.run("check --json").ended(0).report()["mismatch_cnt"], 0);
    // A bitmap does not tell what a member held that is missing.
    let copy = Copy::of(named(&made, "bitmap-dirty")).without(&[1]);
    copy.unchanged(|| {
        copy.run("cat").refused(1, &["not stopped cleanly", "role 1", "--force"]);
    });
}

#[test]
fn one_member_less_is_fine_if_md_stopped_the_array_and_refused_if_not() {
    let Some(made) = made() else { return };
    for (name, feature) in [("ppl", "feature ppl"), ("journal", "feature journal")] {
        is_read_only(&Copy::of(named(&made, name)).without(&[1]), feature, &DEGRADED);
    }
    // Its logs tell what the missing member held.
    for lost in 0..3 {
        let copy = Copy::of(named(&made, "ppl-dirty")).without(&[lost]);
        copy.unchanged(|| {
            copy.cat_is_mds("feature ppl");
            copy.is_served_read_only("feature ppl");
            copy.run(&copy.serve_arguments("--force --read-write"))
                .refused(1, &["can't be written to", "feature ppl"]);
        });
    }
    let (name, feature) = ("journal-dirty", "feature journal");
    let copy = Copy::of(named(&made, name)).without(&[1]);
    copy.unchanged(|| {
        for command in ["cat", "check", &copy.serve_arguments("--read-only")] {
            copy.run(command).refused(1, &["not stopped cleanly", "role 1", "--force"]);
        }
        let detail = copy.detail();
        assert!(words(&detail["limits"]).iter().any(|limit| limit.contains(feature)), "{detail}");
        let forced = copy.run("cat --force").ended(0);
        assert!(forced.err.contains(feature) && forced.err.contains("not stopped cleanly"), "{}", forced.err);
        copy.run(&copy.serve_arguments("--force --read-write")).refused(1, &["can't be written to", feature]);
    });
}

#[test]
fn a_row_that_a_killed_machine_tore_is_read_by_its_log_as_md_does_with_a_member_less() {
    let Some(made) = made() else { return };
    let torn = named(&made, "ppl-torn");
    let copy = Copy::of(torn);
    let content = copy.run("cat").ended(0).out;
    // Parity is ahead of the first chunk, whose write never reached its member. The log has what the second one adds.
    is_read_only_and_differs(&copy, "feature ppl", &DIRTY, 8);
    let beside = CHUNK..CHUNK + 4096;
    let entry = PplEntry {
        data_offset: 0,
        data_bytes: 4096,
        parity_bytes: 4096,
        parity_role: 2,
        checksum: ppl::parity_checksum(&content[beside.clone()]),
    };
    assert_eq!(newest_log(&copy.devices[2]).entries, [entry]);
    // md makes the second member's bytes of it, and so do we; without parity nothing is to be made.
    assert_eq!(torn.recovered, torn.sha256);
    for lost in [1, 2] {
        let left = Copy::of(torn).without(&[lost]);
        left.unchanged(|| {
            assert!(left.run("cat").ended(0).out == content, "without {lost}");
            assert!(left.run("cat --force").ended(0).out == content, "without {lost}");
            left.cat_is_mds("feature ppl");
            left.is_served_read_only("feature ppl");
        });
    }
    // No log can tell what the first member itself was being given: parity gives the new block.
    let left = Copy::of(torn).without(&[0]);
    let read = left.run("cat").ended(0).out;
    let differs: Vec<usize> = (0..content.len()).filter(|&at| read[at] != content[at]).collect();
    assert!(differs.iter().all(|at| (0..4096).contains(at)), "{} bytes", differs.len());
    // A log that is damaged needs force, and then nothing true comes of that parity.
    let left = Copy::of(torn).without(&[1]);
    let sb = superblock(&left.devices[1]);
    let log = sb.super_offset.checked_add_signed(sb.ppl.unwrap().offset).unwrap();
    let device = std::fs::File::options().read(true).write(true).open(&left.devices[1]).unwrap();
    let mut places = vec![0; sb.ppl.unwrap().size as usize];
    device.read_exact_at(&mut places, log).unwrap();
    let newest = newest_log(&left.devices[1]).generation;
    let is_newest =
        |place: &[u8]| PplHeader::parse(place, sb.set_uuid).is_ok_and(|header| header.generation == newest);
    let at =
        places.chunks(PPL_HEADER_BYTES).position(is_newest).unwrap() * PPL_HEADER_BYTES + PPL_HEADER_BYTES;
    device.write_all_at(&[0xbd; 512], log + at as u64).unwrap();
    left.unchanged(|| {
        left.run("cat").refused(1, &["d2.img", "partial parity log", "checksum", "--force"]);
        let forced = left.run("cat --force").ended(0);
        assert!(forced.err.contains("is damaged"), "{}", forced.err);
        let wrong: Vec<usize> = (0..content.len()).filter(|&at| forced.out[at] != content[at]).collect();
        assert!(wrong.len() > 4000 && wrong.iter().all(|at| beside.contains(at)), "{} bytes", wrong.len());
    });
}

#[test]
fn writes_that_only_a_journal_holds_are_not_passed_over_in_silence() {
    let Some(made) = made() else { return };
    let pending = Copy::of(named(&made, "journal-pending"));
    // The members count as clean: nothing but the journal tells.
    assert!(superblock(&pending.devices[0]).is_clean());
    let is_refused = |copy: &Copy, refusal: &[&str], limit: &str| {
        copy.unchanged(|| {
            for command in ["cat", "check", &copy.serve_arguments(""), &copy.serve_arguments("--read-only")] {
                copy.run(command).refused(1, refusal);
            }
            let detail = copy.detail();
            assert!(words(&detail["limits"]).iter().any(|reported| reported.contains(limit)), "{detail}");
            let forced = copy.run("cat --force").ended(0);
            assert!(forced.err.contains(limit), "{}", forced.err);
            assert_ne!(files::sha256_of(&forced.out), copy.sha256, "only the journal had it all");
        });
    };
    is_refused(&pending, &["d3.img", "feature journal", "--force"], "d3.img holds writes");
    is_refused(&pending.without(&[3]), &["journal device is missing", "--force"], "missing or out of date");
    // mdadm, too, wants force for a journal that is missing, however the array was stopped.
    let stopped = Copy::of(named(&made, "journal")).without(&[3]);
    stopped.run("cat").refused(1, &["journal device is missing", "--force"]);
    let forced = stopped.run("cat --force").ended(0);
    assert_eq!(files::sha256_of(&forced.out), stopped.sha256);
}

#[test]
fn bad_blocks_of_members_are_not_read() {
    let Some(made) = made() else { return };
    let copy = Copy::of(named(&made, "bad-blocks"));
    assert!(superblock(&copy.devices[1]).features.contains(Features::BAD_BLOCKS));
    // The content of the bad blocks was never written: they begin 4096 sectors from the start of the device.
    let device = std::fs::File::options().write(true).open(&copy.devices[1]).unwrap();
    device.write_all_at(&[0xbd; 16 * 512], 4096 * 512).unwrap();
    copy.unchanged(|| copy.cat_is_mds(""));
    let states: Vec<Value> = words_of_devices(&copy.detail());
    assert_eq!(states, ["in-sync"; 3]);
    // Without redundancy they are an error; never what stands there.
    let whole = copy.run("cat").ok().out;
    let without = copy.without(&[0]);
    without.unchanged(|| {
        let read = without.run("cat").ended(1);
        assert!(read.err.contains("input/output error"), "{}", read.err);
        assert!(read.out.len() < whole.len() && whole.starts_with(&read.out), "{} bytes", read.out.len());
    });
}

fn words_of_devices(detail: &Value) -> Vec<Value> {
    detail["devices"].as_array().unwrap().iter().map(|device| device["state"].clone()).collect()
}

#[test]
fn half_replaced_and_half_recovered_members_are_used_as_far_as_they_go() {
    let Some(made) = made() else { return };
    let copy = Copy::of(named(&made, "replacing"));
    copy.unchanged(|| {
        let detail = copy.detail();
        assert_eq!(words_of_devices(&detail), ["in-sync", "in-sync", "in-sync", "replacement"]);
        assert_eq!(
            (words(&detail["state"]), &detail["devices"][3]["recovered"]),
            (vec!["clean"], &(4096 * 512).into())
        );
        copy.cat_is_mds("");
    });
    // The process that md began is completed from where md left it.
    let devices = copy.devices.iter().map(|device| device.clone().into_os_string());
    let server = Server::start(&copy.dir.path().join("run"), devices);
    server.ask("wait", &[]).ok();
    let events = server.status()["events"].as_array().unwrap().clone();
    assert_eq!(
        events.iter().find(|event| event["kind"] == "copy-begun").unwrap()["range"]["from"],
        4096 * 512
    );
    server.stop();
    assert_eq!(words_of_devices(&copy.detail())[2..], ["in-sync", "in-sync"]);
    let whole = copy.without(&[1]);
    assert_eq!(words(&whole.detail()["state"]), ["clean"]);
    assert_eq!(whole.run("check --json").json()["mismatch_cnt"], 0);
    whole.cat_is_mds("");
    whole.without(&[0]).cat_is_mds("");
    let copy = Copy::of(named(&made, "replacing"));
    // Without the member that it replaces, it is that member as far as it goes.
    let copy = copy.without(&[1]);
    copy.unchanged(|| {
        let detail = copy.detail();
        assert_eq!(words_of_devices(&detail), ["in-sync", "in-sync", "recovering"]);
        assert_eq!(detail["devices"][2]["recovered"], 4096 * 512);
        copy.cat_is_mds("");
    });
    let copy = Copy::of(named(&made, "recovering"));
    copy.unchanged(|| {
        let detail = copy.detail();
        assert_eq!(words_of_devices(&detail), ["in-sync", "stale", "in-sync", "recovering"]);
        copy.cat_is_mds("");
        // Not all could be compared.
        copy.run("check --json").ended(5).report();
    });
    // The part behind the border has no second copy.
    copy.without(&[0]).run("cat").refused(1, &["roles 0 and 1 are missing", "d1.img is out of date"]);
}

#[test]
fn features_that_md_can_not_make_here_are_named_too() {
    let Some(made) = made() else { return };
    // A bit that no kernel knows.
    let copy = Copy::of(named(&made, "bitmap"));
    copy.devices.iter().for_each(|device| patch(device, |sb| sb.features |= Features(0x8000)));
    is_read_only(&copy, "feature bits 0x8000", &CLEAN);
    // On one member it counts for all.
    let copy = Copy::of(named(&made, "replacing")).without(&[3]);
    patch(&copy.devices[1], |sb| sb.features |= Features(0x2000));
    is_read_only(&copy, "feature bits 0x2000", &CLEAN);
}

#[test]
fn a_logical_block_size_of_a_newer_kernel_survives_writing() {
    let Some(made) = made() else { return };
    let copy = Copy::of(named(&made, "replacing")).without(&[3]);
    copy.devices.iter().for_each(|device| patch(device, |sb| sb.logical_block_size = 4096));
    copy.cat_is_mds("");
    write_again(&copy);
    for device in &copy.devices {
        assert_eq!(superblock(device).logical_block_size, 4096);
    }
}

/// Writes the array's content over itself through a server, which marks it dirty and clean.
fn write_again(copy: &Copy) {
    let content = copy.dir.path().join("content");
    program::cat(&copy.devices, &content);
    let devices = copy.devices.iter().map(|d| d.clone().into_os_string());
    let flags = "--memory 32M".split(' ').map(Into::into);
    let server = Server::start(&copy.dir.path().join("run"), flags.chain(devices));
    let uri = server.uri();
    tools::run(
        &tools::find("nbdcopy").expect("looked for"),
        ["--flush".as_ref(), content.as_os_str(), uri.as_ref()],
    );
    server.stop();
    copy.cat_is_mds("");
}

#[test]
fn a_bitmap_in_a_file_binds_nobody_since_md_sees_that_it_was_left_behind() {
    let Some(made) = made() else { return };
    let array = named(&made, "bitmap-file");
    let possible = array.sha256.as_ref().ok_or_else(|| Missing::new("this kernel keeps no bitmaps in files"));
    let Some(_) = or_skip(possible) else { return };
    let file = BitmapSuper::parse(&std::fs::read(&array.devices[4]).unwrap()).unwrap();
    let copy = Copy::of(array).without(&[4, 3]);
    assert_eq!(file.uuid, superblock(&copy.devices[0]).bitmap_uuid());
    assert_eq!(copy.detail()["limits"], Value::Array(Vec::new()), "the superblocks do not tell of it");
    write_again(&copy);
    // A bitmap that is behind the array's count is out of date: the kernel then takes every bit as set.
    assert!(superblock(&copy.devices[0]).events > file.events);
}

#[test]
fn a_member_that_md_went_on_without_is_taken_again_by_the_bitmap_that_md_kept() {
    let Some(made) = made() else { return };
    let copy = Copy::of(named(&made, "bitmap-degraded"));
    let words = ["add", "--json", "--re-add", "--array"].map(PathBuf::from);
    let again = [PathBuf::from("--"), copy.devices[2].clone()];
    let added = program::brindle(words.iter().chain(&copy.devices).chain(&again)).json();
    assert_eq!(
        (&added["joined"][0]["role"], &added["joined"][0]["why"]),
        (&2.into(), &Value::Null),
        "{added}"
    );
    let guided = Features::RECOVERY_OFFSET | Features::RECOVERY_BITMAP;
    assert!(superblock(&copy.devices[2]).features.contains(guided));
    let devices = copy.devices.iter().map(|d| d.clone().into_os_string());
    let server = Server::start(&copy.dir.path().join("run"), devices);
    server.ask("wait", &[]).ok();
    server.wait_for_state("degraded", false);
    server.stop();
    assert_eq!(copy.run("check --json").json()["mismatch_cnt"], 0);
    copy.cat_is_mds("");
    copy.without(&[0]).cat_is_mds("");
}
