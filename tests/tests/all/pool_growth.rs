//! Pools that get devices: vdevs, members, copies, spares. After each step the server is killed, and all bytes are there.

use std::path::PathBuf;

use brindle_tests::files::{self, MIB};
use brindle_tests::program::Server;
use rustix::process::Signal;
use serde_json::Value;

use super::pools::{Tank, bytes, write};

/// Bytes of the volume.
const VOLUME: u64 = 4 * MIB;

/// A pool that is served, grows, and is killed.
struct Growing {
    tank: Tank,
    server: Option<Server>,
    content: Vec<u8>,
    kills: usize,
}

impl Growing {
    fn new(vdev: &str, count: usize) -> Self {
        let tank = Tank::new(vdev, count);
        tank.stopped("volume create", &format!("tank/one {VOLUME}")).ok();
        let (server, content) = (Some(tank.serve()), bytes(11, VOLUME));
        write(&mut tank.client("one"), 0, &content);
        Self { tank, server, content, kills: 0 }
    }

    /// New files of so many bytes.
    fn files(&self, prefix: &str, count: usize, size: u64) -> Vec<PathBuf> {
        files::members(self.tank.dir.path(), prefix, count, size)
    }

    /// A command about the pool, with its devices behind it.
    fn asks(&self, words: &str, devices: &[PathBuf]) -> String {
        let names = devices.iter().map(|device| format!(" {}", device.display()));
        let words = format!("{words}{}", names.collect::<String>());
        self.tank.ask(&words).ok().text()
    }

    fn refuses(&self, words: &str, devices: &[&PathBuf], why: &[&str]) {
        let names = devices.iter().map(|device| format!(" {}", device.display())).collect::<String>();
        let refused = self.tank.ask(&format!("{words}{names}"));
        assert!(refused.code != 0 && refused.text().is_empty(), "{words}{names}: {}", refused.text());
        assert!(
            why.iter().all(|word| refused.err.contains(word)),
            "{words}{names}: {why:?}: {}",
            refused.err
        );
    }

    fn pool(&self) -> Value {
        self.tank.ask("status tank --json").json()["pool"].clone()
    }

    /// Members and spares, each as `MEMBER KIND STATE`.
    fn devices(&self) -> Vec<String> {
        let pool = self.pool();
        let word = |device: &Value, key: &str| device[key].as_str().unwrap().to_owned();
        let of = |device: &Value| ["member", "kind", "state"].map(|key| word(device, key)).join(" ");
        pool["devices"].as_array().unwrap().iter().map(of).collect()
    }

    /// Kills the server, and starts another by the members in another order: all is there.
    fn is_killed(&mut self) {
        let before = self.devices();
        let capacity = self.pool()["capacity"].clone();
        assert_eq!(self.server.take().unwrap().signal(Signal::KILL).0, -1);
        self.kills += 1;
        let count = self.tank.members.len();
        self.tank.members.rotate_left(self.kills % count);
        self.server = Some(self.tank.serve());
        self.tank.ask("wait tank").ended(0);
        assert_eq!((self.devices(), &self.pool()["capacity"]), (before, &capacity));
        self.has_all();
    }

    fn has_all(&self) {
        assert!(self.tank.client("one").read(0, VOLUME) == self.content, "nothing is lost");
    }

    fn is_whole(&self) {
        let scrubbed = self.tank.ask("pool scrub -w tank").ended(0).text();
        assert!(scrubbed.contains("healed 0 blocks") && scrubbed.contains(" 0 errors"), "{scrubbed}");
    }
}

#[test]
fn a_raidz_gets_a_vdev_a_wider_one_and_a_spare_that_takes_a_lost_members_role() {
    let mut pool = Growing::new("raidz1", 3);
    let before = pool.pool()["capacity"].as_u64().unwrap();
    let vdev = pool.files("v", 3, 16 * MIB);
    let told = pool.asks("pool add tank raidz1", &vdev);
    assert!(told.contains("tank has raidz1") && told.contains("room for"), "{told}");
    assert_eq!(pool.pool()["capacity"].as_u64().unwrap(), 2 * before);
    pool.tank.members.extend(vdev);
    pool.is_killed();
    // The room of a wider vdev is there at once.
    let wider = pool.files("w", 1, 16 * MIB);
    let told = pool.asks("pool attach tank raidz1-0", &wider);
    assert!(told.contains("is in use, and tank has room for"), "{told}");
    assert!(pool.pool()["capacity"].as_u64().unwrap() > 2 * before);
    pool.tank.members.extend(wider);
    pool.is_killed();
    let spare = pool.files("s", 2, 16 * MIB);
    pool.asks("pool add tank spare", &spare);
    pool.tank.members.extend(spare.clone());
    pool.is_killed();
    assert_eq!(pool.devices()[7..], ["7 spare spare", "8 spare spare"]);
    let status = pool.tank.ask("pool status tank").ok().text();
    assert!(status.contains("\n        spares\n") && status.contains("AVAIL"), "{status}");
    let speeds = pool.tank.ask("pool iostat -v tank").ok().text();
    assert!(speeds.contains("\n  spares ") && !speeds.contains("spare-"), "{speeds}");
    let label = pool.tank.run("examine", &spare).ok().text();
    assert!(label.contains("member 7 of") && label.contains("of 9 members"), "{label}");
    // One is lost: a spare has its role by itself, and is its name from then on.
    pool.tank.ask("fail tank 0.1").ended(0);
    crate::cli::until("a spare takes the role", || {
        let devices = pool.devices();
        devices.len() == 8 && devices[..7].iter().all(|device| device.ends_with("online"))
    });
    pool.tank.ask("wait tank").ended(0);
    let path = pool.pool()["devices"][1]["path"].clone();
    assert!(spare.iter().any(|spare| path == spare.display().to_string()), "{path}");
    pool.has_all();
    pool.is_killed();
    // Another spare leaves; the device that was lost can be anything again.
    let left = pool.pool()["devices"][7]["path"].as_str().unwrap().to_owned();
    let told = pool.tank.ask(&format!("pool detach tank {left}")).ok().text();
    assert!(told.contains("is no member of tank any more"), "{told}");
    pool.tank.members.retain(|member| member.display().to_string() != left);
    pool.is_killed();
    assert_eq!(pool.devices().len(), 7);
    pool.is_whole();
    let history = pool.tank.ask("pool history tank").ok().text();
    for words in
        ["pool add tank raidz1", "pool attach tank raidz1-0", "pool add tank spare", "pool detach tank"]
    {
        assert!(history.contains(words), "{words}: {history}");
    }
}

/// A device that stands for itself becomes a mirror, which gets copies and gives the first ones away.
#[test]
fn a_device_becomes_a_mirror_and_leaves_it() {
    let mut pool = Growing::new("--no-redundancy", 1);
    let copies = pool.files("c", 3, 16 * MIB);
    let told = pool.asks("pool attach tank 0.0", &copies[..1]);
    assert!(told.contains("is a copy in a mirror now, and gets what it lacks"), "{told}");
    pool.tank.ask("wait tank").ok();
    pool.tank.members.push(copies[0].clone());
    pool.is_killed();
    for copy in &copies[1..] {
        pool.asks("pool attach tank mirror-0", std::slice::from_ref(copy));
        pool.tank.ask("wait tank").ended(0);
        pool.tank.members.push(copy.clone());
        pool.is_killed();
    }
    pool.is_whole();
    // Four copies are as many as there can be: a fifth would leave labels that nobody reads.
    let fifth = pool.files("f", 1, 16 * MIB);
    pool.refuses("pool attach tank mirror-0", &[&fifth[0]], &["mirror-0", "4 copies", "detach one"]);
    pool.is_killed();
    let first = pool.tank.dir.path().join("m0.img");
    for member in [&first, &copies[0], &copies[1]] {
        pool.asks("pool detach tank", std::slice::from_ref(member));
        pool.tank.members.retain(|other| other != member);
        pool.is_killed();
    }
    pool.refuses("pool detach tank", &[&copies[2]], &["no other member of its vdev"]);
    assert_eq!(pool.devices().len(), 1);
    // A number that nobody has any more means nobody.
    pool.refuses("pool detach tank 1", &[], &["1 is not a member of tank"]);
    // One that left says so, and comes back as a new one.
    pool.refuses("pool attach tank mirror-0", &[&first], &["\"tank\"", "--force"]);
    pool.asks("pool attach tank --force mirror-0", &[first]);
    pool.tank.ask("wait tank").ended(0);
    pool.has_all();
}

#[test]
fn devices_that_a_pool_cannot_get_are_refused_by_name_and_nothing_is_changed() {
    let pool = Growing::new("raidz2", 4);
    let devices = pool.devices();
    let (new, small) = (pool.files("n", 3, 16 * MIB), pool.files("t", 1, 8 * MIB));
    let (member, spare) = (pool.tank.members[0].clone(), pool.files("s", 1, 16 * MIB).remove(0));
    let other = Tank::new("mirror", 2);
    let of_other = &other.members[0];
    let before = std::fs::read(of_other).unwrap();
    let [a, b, c] = [&new[0], &new[1], &new[2]];
    let in_use = ["a device of 'tank' already"];
    // Too small, in use, twice, of another pool, not there.
    pool.refuses(
        "pool attach tank raidz2-0",
        &[&small[0]],
        &["t0", "has 8388608 bytes", "choose a larger one"],
    );
    pool.refuses("pool add tank spare", &[&small[0]], &["t0", "choose a larger one"]);
    pool.refuses("pool attach tank raidz2-0", &[&member], &in_use);
    pool.refuses("pool add tank spare", &[&member], &in_use);
    pool.refuses("pool add tank raidz2", &[a, b, c, &member], &in_use);
    pool.refuses("pool add tank spare", &[a, a], &["n0", "is named twice"]);
    pool.refuses("pool add tank raidz2", &[a, b, c, b], &["n1", "is named twice"]);
    for command in ["pool add tank spare", "pool attach tank raidz2-0", "pool add tank --no-redundancy"] {
        pool.refuses(command, &[of_other], &["m0", "\"tank\"", "--force"]);
    }
    let nobody = pool.tank.dir.path().join("nobody");
    pool.refuses("pool add tank spare", &[&nobody], &["no such file"]);
    // Weaker than the pool, too few or too many, no devices, words that are none of Brindle's.
    pool.refuses("pool add tank raidz1", &[a, b, c], &["raidz1", "loss of 1", "that of 2", "--force"]);
    pool.refuses("pool add tank mirror", &[a, b], &["mirror", "loss of 1", "--force"]);
    pool.refuses("pool add tank raidz2", &[a, b], &["2 devices, and needs 3"]);
    pool.refuses("pool add -f tank mirror", &[a], &["1 devices, and needs 2"]);
    pool.refuses("pool add tank", &[a], &["stands for itself", "--no-redundancy"]);
    pool.refuses("pool add tank spare", &[], &["'spare' has no devices"]);
    pool.refuses("pool add tank log", &[a], &["no 'log' vdevs"]);
    pool.refuses("pool add pond spare", &[a], &["has a pool 'pond'"]);
    pool.refuses("pool attach tank raidz2-7", &[a], &["raidz2-7 is not a member", "raidz2-0"]);
    // Members that a vdev can't do without for good.
    pool.refuses("pool detach tank 0.1", &[], &["no copy of others", "replace it"]);
    pool.refuses("pool detach tank nosuch", &[], &["nosuch is not a member"]);
    assert_eq!(pool.devices(), devices);
    // A spare is no member, and no other's.
    pool.asks("pool add tank spare", std::slice::from_ref(&spare));
    pool.refuses("pool add tank spare", &[&spare], &in_use);
    pool.refuses("pool attach tank raidz2-0", &[&spare], &in_use);
    pool.refuses("pool replace tank 0.0", &[&spare], &in_use);
    let no_role = ["it is a spare, and has no role", "pool detach tank 4"];
    for command in
        ["pool offline tank", "pool online tank", "fail tank", "pool attach tank 4", "pool replace tank 4"]
    {
        let device = if command.ends_with('4') { a } else { &spare };
        pool.refuses(command, &[device], &no_role);
    }
    pool.asks("pool detach tank", std::slice::from_ref(&spare));
    // It carries nothing of the pool any more.
    let left = pool.tank.run("examine", std::slice::from_ref(&spare)).ok().text();
    assert!(left.contains("zeroes wherever something could stand"), "{left}");
    pool.asks("pool add tank spare", std::slice::from_ref(&spare));
    pool.asks("pool detach tank", std::slice::from_ref(&spare));
    assert_eq!(pool.devices(), devices);
    assert!(std::fs::read(of_other).unwrap() == before, "another pool's member is as it was");
    // All of them can be had still, and a weaker vdev with the word for that.
    pool.asks("pool add --force tank mirror", &new[..2]);
    pool.asks("pool attach tank raidz2-0", &new[2..]);
    assert_eq!(pool.devices().len(), devices.len() + 3);
    pool.has_all();
    pool.is_whole();
}
