//! The power goes under a server that writes through the real ring, or threads: its disks lose what they had not made stable, sector by
//! sector, and what clients were told is stable is there. In the sim all of that is searched through; here it is seen that
//! flushes and writes with FUA reach the kernel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use brindle_testkit::hang::HangingFiles;
use brindle_testkit::random::Random;
use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::tools::or_skip;
use rustix::process::Signal;

use super::*;

const BLOCK: usize = 4096;
const LEN: usize = 4 << 20;
/// Blocks that are written to, at the beginning of the array.
const BLOCKS: u64 = 256;
const CUTS: usize = 6;

/// Versions of a block: the least that has to be there, what was acknowledged, and the last that may be there.
#[derive(Clone, Copy, Default)]
struct Known {
    stable: u64,
    done: u64,
    begun: u64,
}

/// A block says which it is, and of which version, in each of its words.
fn content(block: u64, version: u64) -> Vec<u8> {
    (version << 16 | block).to_le_bytes().repeat(BLOCK / 8)
}

/// Writes blocks until it is told to end: some requests at once, each of another block.
fn write(uri: &str, known: &Mutex<Vec<Known>>, enough: &AtomicBool) {
    let (mut client, mut random, mut version) = (Client::connect(uri), Random::new(3), 0);
    while !enough.load(Ordering::Relaxed) {
        version += 1;
        let (first, fua) = (random.below(BLOCKS), random.below(4) == 0);
        let blocks: Vec<u64> = (0..1 + random.below(8)).map(|n| (first + n * 29) % BLOCKS).collect();
        let change = |&block: &u64| Change {
            offset: block * BLOCK as u64,
            len: BLOCK as u64,
            work: Work::Write { data: content(block, version), fua },
        };
        let changes: Vec<Change> = blocks.iter().map(change).collect();
        blocks.iter().for_each(|&block| known.lock().unwrap()[block as usize].begun = version);
        client.all_at_once(&changes);
        for &block in &blocks {
            let of = &mut known.lock().unwrap()[block as usize];
            of.done = version;
            of.stable = if fua { version } else { of.stable };
        }
        if random.below(6) == 0 {
            client.all_at_once(&[Change { offset: 0, len: 0, work: Work::Flush }]);
            known.lock().unwrap().iter_mut().for_each(|of| of.stable = of.done);
        }
        // Idle now and then, so that the array is marked clean and dirty again.
        if random.below(40) == 0 {
            thread::sleep(Duration::from_millis(random.below(400)));
        }
    }
    client.close();
}

/// The members' content after a power cut, with the data that must and that may be there.
struct Cut {
    images: Vec<Vec<u8>>,
    before: Vec<Known>,
    after: Vec<Known>,
}

impl Cut {
    /// The array is served again, everything is there, and redundancy agrees when it has been brought in sync.
    fn holds(&self, label: &str, fails: bool) {
        let set = Set::sparse(self.images.len(), LEN as u64);
        for (member, image) in set.members.iter().zip(&self.images) {
            std::fs::write(member, image).unwrap();
        }
        let server = set.serve("");
        self.is_there(&server, label);
        server.ask("wait", &[]).ok();
        self.is_there(&server, label);
        let (code, err) = server.signal(Signal::TERM);
        assert_eq!(code, 0, "{label}: {err}");
        let checked = set.run("check --json");
        // The data of a member that has failed is compared with nothing.
        let lacks = checked.report()["unverified"] != 0;
        assert!(fails || !lacks, "{label}");
        assert_eq!(checked.ended(if lacks { 5 } else { 0 }).report()["mismatch_cnt"], 0, "{label}");
    }

    fn is_there(&self, server: &Server, label: &str) {
        let mut client = Client::connect(&server.uri());
        let content = client.read(0, BLOCKS * BLOCK as u64);
        client.close();
        for (block, bytes) in content.chunks(BLOCK).enumerate() {
            let may_be = self.before[block].stable..=self.after[block].begun;
            for sector in bytes.chunks(512) {
                let word = u64::from_le_bytes(sector[..8].try_into().unwrap());
                let (version, of) = (word >> 16, word & 0xffff);
                let whole = sector.chunks(8).all(|bytes| bytes == word.to_le_bytes());
                let own = of == block as u64 || version == 0;
                assert!(
                    whole && own && may_be.contains(&version),
                    "{label}: {block}: {word:x}, not {may_be:?}"
                );
            }
        }
    }
}

/// Power cuts under a server, one of whose members fails on the way if that is asked for.
fn cuts(create: &str, serve: &str, members: usize, fails: bool) -> Option<Vec<Cut>> {
    let files = or_skip(HangingFiles::mount(members, LEN))?;
    let paths: Vec<PathBuf> = (0..members).map(|file| files.path(file)).collect();
    run(&format!("create {create}"), &paths).ok();
    files.watch_caches();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("run"), words(&format!("--memory 32M {serve}"), &paths));
    let known = Arc::new(Mutex::new(vec![Known::default(); BLOCKS as usize]));
    let enough = Arc::new(AtomicBool::new(false));
    let writing = {
        let (uri, known, enough) = (server.uri(), Arc::clone(&known), Arc::clone(&enough));
        thread::spawn(move || write(&uri, &known, &enough))
    };
    let mut random = Random::new(members as u64);
    let mut cuts = Vec::new();
    // The first one comes when something is stable.
    while known.lock().unwrap().iter().all(|of| of.stable == 0) && !writing.is_finished() {
        thread::sleep(Duration::from_millis(5));
    }
    for number in 0..CUTS {
        if fails && number == CUTS / 2 {
            server.fail("0");
        }
        thread::sleep(Duration::from_millis(random.below(300)));
        let before = known.lock().unwrap().clone();
        let images = files.after_power_cut(&mut random);
        let after = known.lock().unwrap().clone();
        cuts.push(Cut { images, before, after });
    }
    // A create without a stable step would show nothing.
    assert!(cuts.iter().any(|cut| cut.before.iter().any(|of| of.stable > 0)), "{create}: nothing was stable");
    enough.store(true, Ordering::Relaxed);
    writing.join().unwrap();
    server.stop_after_failing(usize::from(fails));
    Some(cuts)
}

fn holds(create: &str, members: usize, fails: bool) {
    holds_served(create, "", members, fails);
}

fn holds_served(create: &str, serve: &str, members: usize, fails: bool) {
    let Some(cuts) = cuts(create, serve, members, fails) else { return };
    for (number, cut) in cuts.iter().enumerate() {
        cut.holds(&format!("{create}, cut {number}"), fails);
    }
}

#[test]
fn what_was_stable_on_mirrors_is_there_after_a_power_cut() {
    holds("-l 1 -b internal --bitmap-chunk 64K", 3, true);
}

#[test]
fn what_was_stable_on_striped_mirrors_is_there_after_a_power_cut() {
    holds("-l 10 -c 64K", 4, true);
}

#[test]
fn what_was_stable_on_raid5_is_there_after_a_power_cut() {
    holds("-l 5 -c 64K -b internal --bitmap-chunk 64K", 4, false);
}

#[test]
fn what_was_stable_on_raid6_is_there_after_a_power_cut() {
    holds("-l 6 -c 64K -e 1.0", 5, false);
}

#[test]
fn what_was_stable_is_there_after_a_power_cut_where_threads_ask_the_members() {
    holds_served("-l 5 -c 64K -b internal --bitmap-chunk 64K", "--reactor threads", 4, false);
}
