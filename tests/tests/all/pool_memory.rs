//! Memory of a server of pools: the map of one takes as much as it may, whatever its size.

use std::path::PathBuf;

use brindle_tests::files::{self, MIB};
use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::program::Server;

use crate::cli::memory;
use crate::pools::Tank;

/// Bytes of a disk, and of the map's memory.
const DISK: u64 = 8_000_000_000_000;
const MAP: u64 = 64 * MIB;
const BLOCK: u64 = 4096;

fn large_tank() -> Tank {
    let dir = tempfile::tempdir().unwrap();
    let members = files::members(dir.path(), "m", 4, DISK);
    let tank = Tank { dir, members };
    tank.run("pool create tank raidz1", &tank.members).ok();
    tank
}

/// A pool that nobody has used yet, of disks of which nothing is stored but what is written.
#[test]
fn a_pool_of_four_disks_of_8_tb_is_written_here_and_there_within_its_memory() {
    let tank = large_tank();
    tank.stopped("volume create", "tank/one 18T").ok();
    let flags = ["--memory", "256M", "--map-memory", "64M"].map(PathBuf::from).into_iter();
    let server = Server::start(&tank.runtime(), flags.chain(tank.members.clone()));
    let mut client = tank.client("one");
    let blocks = client.size() / BLOCK;
    let at = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks * BLOCK;
    for some in 0..32 {
        let change = |n: u64| {
            let work = Work::Write { data: vec![n as u8; BLOCK as usize], fua: false };
            Change { offset: at(n), len: BLOCK, work }
        };
        let changes: Vec<Change> = (64 * some..64 * (some + 1)).map(change).collect();
        client.all_at_once(&changes);
    }
    assert!((0..2048).all(|n| client.read(at(n), BLOCK) == vec![n as u8; BLOCK as usize]));
    let map = tank.ask("status tank --json").json()["pool"]["map"].clone();
    let number = |key: &str| map[key].as_u64().unwrap();
    assert_eq!(number("limit"), MAP);
    assert!(number("bytes") <= number("most") && number("most") <= MAP, "{map}");
    assert!(number("lookups") >= 2048, "{map}");
    let text = tank.ask("status tank").ok().text();
    assert!(text.contains("of 64 MiB, ") && text.contains(" % misses"), "{text}");
    let peak = memory::bytes(&server, "VmHWM");
    assert!(peak <= 256 * MIB, "{peak} bytes");
    client.close();
    server.stop();
    let server = tank.serve();
    let mut client: Client = tank.client("one");
    assert!((0..64).all(|n| client.read(at(n), BLOCK) == vec![n as u8; BLOCK as usize]));
    assert!(memory::bytes(&server, "VmHWM") <= 256 * MIB);
    server.stop();
}
