//! Arrays of one server that share their spares.

use std::time::{Duration, Instant};

use super::*;

/// Far longer than any of it takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A RAID 5 called `a`, and a mirror called `b` with two spares: one that is too small for `a`, and one that is not.
struct Shared {
    set: Set,
    spares: [PathBuf; 2],
}

impl Shared {
    fn new() -> Self {
        let set = Set::sparse(5, 8 * MIB);
        let spares = ["small", "large"].map(|name| set.path(name));
        files::sparse(&spares[0], 4 * MIB);
        files::sparse(&spares[1], 8 * MIB);
        let (a, b) = set.members.split_at(3);
        run("create -l 5 -c 64K -N a", a).ok();
        run("create -l 1 -N b -x 2 -z 1M", &[b, &spares[..]].concat()).ok();
        Self { set, spares }
    }

    fn serve(&self, flags: &str) -> Server {
        let all = [&self.set.members[..], &self.spares[..]].concat();
        self.set.serve_some(&format!("--memory 32M {flags}"), &all)
    }

    fn ask(&self, words: &[&str]) -> Ran {
        let runtime = self.set.runtime();
        let words = [&words[..1], &["--runtime-dir", name(&runtime)], &words[1..]].concat();
        program::brindle(words)
    }

    fn status(&self, array: &str) -> Value {
        self.ask(&["status", "--json", array]).json()
    }

    /// Waits until the array has no state of that word.
    fn wait_without(&self, array: &str, word: &str) -> Value {
        let begun = Instant::now();
        loop {
            let status = self.status(array);
            if !state(&status["array"]).contains(&word) {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "{status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn paths(status: &Value) -> Vec<&str> {
    let devices = status["array"]["devices"].as_array().unwrap().iter();
    devices.map(|device| device["path"].as_str().unwrap()).collect()
}

fn has_event(status: &Value, kind: &str, member: &Path) -> bool {
    let events = status["events"].as_array().unwrap();
    events.iter().any(|event| event["kind"] == kind && event["member"] == name(member))
}

#[test]
fn a_lost_member_is_rebuilt_on_the_spare_of_another_array_of_the_group() {
    let shared = Shared::new();
    let [small, large] = &shared.spares;
    let (a, b) = shared.set.members.split_at(3);
    let server = shared.serve("--spare-group pool=a,b");
    let text = shared.ask(&["status", "a"]).ok().text();
    assert!(text.contains("group pool") && shared.status("b")["spare_group"] == "pool", "{text}");
    shared.ask(&["fail", "a", name(&a[1])]).ok();
    let whole = shared.wait_without("a", "degraded");
    assert!(paths(&whole).contains(&name(large)) && has_event(&whole, "spare-taken", large), "{whole}");
    let giver = shared.status("b");
    assert_eq!(paths(&giver), [name(&b[0]), name(&b[1]), name(small)], "{giver}");
    assert!(has_event(&giver, "spare-given", large), "{giver}");
    // It is a device of `a` as any other, by its name; `b` goes without taking it along.
    shared.ask(&["remove", "a", name(large)]).refused(1, &[name(large), "in use"]);
    shared.ask(&["stop", "b"]).ok();
    shared.ask(&["action", "a", "check"]).ok();
    assert_eq!(shared.ask(&["wait", "--json", "a"]).json()["last_action"]["mismatch_cnt"], 0);
    let (code, err) = server.signal(rustix::process::Signal::TERM);
    assert!(code == 0 && err.contains("has left for another array"), "{err}");
    let now = [a[0].clone(), a[2].clone(), large.clone()];
    assert_eq!(state(&run("detail --json", &now).json()), ["clean"]);
    assert_eq!(run("check --json", &now).json()["mismatch_cnt"], 0);
    let left = run("detail --json", &[b, std::slice::from_ref(small)].concat()).json();
    assert_eq!((state(&left), left["devices"].as_array().unwrap().len()), (vec!["clean"], 3));
}

#[test]
fn a_pool_gets_the_spare_of_an_array_and_an_array_that_of_a_pool() {
    let set = Set::sparse(5, 16 * MIB);
    let spares = ["array's", "pool's"].map(|name| set.path(name));
    spares.iter().for_each(|spare| files::sparse(spare, 20 * MIB));
    let (pool, mirror) = set.members.split_at(3);
    run("pool create tank raidz1", pool).ok();
    run("create -l 1 -N b -x 1 -z 8M", &[mirror, &spares[..1]].concat()).ok();
    let shared = Shared { set, spares };
    let (pool, mirror) = shared.set.members.split_at(3);
    let all = [&shared.set.members[..], &shared.spares[..1]].concat();
    let mut server = shared.set.serve_some("--memory 32M --spare-group all --raise-after 10m", &all);
    let text = shared.ask(&["status", "tank"]).ok().text();
    assert!(text.contains("arrays and pools of group all"), "{text}");
    let states = || {
        let devices = shared.status("tank")["pool"]["devices"].as_array().unwrap().clone();
        devices.iter().map(|one| (one["path"].clone(), one["state"].clone())).collect::<Vec<_>>()
    };
    let has = |path: &Path, state: &str| states().contains(&(name(path).into(), state.into()));
    shared.ask(&["fail", "tank", name(&pool[1])]).ok();
    let [arrays, pools] = &shared.spares;
    until("the array's spare has the role", || has(arrays, "online"));
    shared.ask(&["wait", "tank"]).ok();
    let giver = shared.status("b");
    assert_eq!(paths(&giver), [name(&mirror[0]), name(&mirror[1])], "{giver}");
    assert!(has_event(&giver, "spare-given", arrays), "{giver}");

    let runtime = shared.set.runtime();
    run(&format!("pool add --runtime-dir {} tank spare", runtime.display()), std::slice::from_ref(pools))
        .ok();
    shared.ask(&["fail", "b", name(&mirror[0])]).ok();
    let whole = shared.wait_without("b", "degraded");
    assert!(paths(&whole).contains(&name(pools)) && has_event(&whole, "spare-taken", pools), "{whole}");
    assert!(states().iter().all(|(path, _)| *path != name(pools)), "{:?}", states());
    // After a kill each has what it took.
    server.send(rustix::process::Signal::KILL);
    let _killed = server.end();
    let tank = [pool[0].clone(), arrays.clone(), pool[2].clone()];
    run("check", &tank).ended(0);
    let now = [mirror[1].clone(), pools.clone()];
    assert_eq!(run("check --json", &now).json()["mismatch_cnt"], 0);
}

#[test]
fn spares_stay_where_no_group_shares_them_and_groups_of_nothing_are_refused() {
    let shared = Shared::new();
    let all = [&shared.set.members[..], &shared.spares[..]].concat();
    let refused = |flags: &str, words: &[&str]| {
        let command = format!("serve --runtime-dir {} {flags}", shared.set.runtime().display());
        shared.set.unchanged(|| run(&command, &all).refused(2, words));
    };
    refused("--spare-group pool=a,c", &["--spare-group pool", "no array or pool 'c'", "a, b"]);
    refused("--spare-group all --spare-group pool=b", &["'b'", "all and pool"]);
    run("serve --spare-group pool= x", &[]).ended(2);
    // `a` shares with nobody.
    let server = shared.serve("--spare-group pool=b");
    shared.ask(&["fail", "a", "1"]).ok();
    std::thread::sleep(Duration::from_millis(2500));
    let status = shared.status("a");
    assert!(state(&status["array"]).contains(&"degraded") && status["spare_group"].is_null(), "{status}");
    assert_eq!(paths(&shared.status("b")).len(), 4);
    let (code, said) = server.signal(rustix::process::Signal::TERM);
    assert!(code == 0 && said.contains("--spare-group pool: it has fewer than two"), "{said}");
}
