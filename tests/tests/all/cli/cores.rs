//! A server with several reactors: sessions go to each, and volumes are where they were.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::tools::{self, or_skip};

use super::*;

/// Has sessions go to others although home is idle.
const SPREAD: (&str, &str) = ("BRINDLE_HOME_BUSY", "0");
/// Has them go where they go without such a variable, whatever the environment of the tests says.
const USUAL: (&str, &str) = ("BRINDLE_HOME_BUSY", "");

/// Whether this process may use two cores.
fn has_two() -> bool {
    std::thread::available_parallelism().is_ok_and(|count| count.get() >= 2)
}

fn serve(set: &Set, cores: &str, env: &[(&str, &str)]) -> Server {
    let words = ["--memory", "32M", "--cores", cores].map(OsString::from);
    let args = words.into_iter().chain(set.members.iter().map(|member| member.clone().into_os_string()));
    Server::start_by("serve", &set.runtime(), args, env)
}

fn write(offset: u64, byte: u8) -> Change {
    let data = vec![byte; 64 << 10];
    Change { offset, len: 64 << 10, work: Work::Write { data, fua: byte % 2 == 1 } }
}

#[test]
fn sessions_go_to_each_reactor_and_their_requests_are_carried_out() {
    if !has_two() {
        return;
    }
    let set = Set::raid5(4);
    let server = serve(&set, "2", &[SPREAD]);
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(&server.uri())).collect();
    for round in 0..8 {
        for (at, client) in (0..).zip(&mut clients) {
            let place = |number: u64| (number * 4 + at) * (64 << 10);
            let changes = (0..8).map(|number| write(place(number), (round + number * 4 + at) as u8));
            client.all_at_once(
                &changes.chain([Change { offset: 0, len: 0, work: Work::Flush }]).collect::<Vec<_>>(),
            );
        }
        if round == 3 {
            server.fail(set.members[1].to_str().unwrap());
        }
    }
    for (at, client) in (0..).zip(clients.iter_mut().rev()) {
        for number in at * 8..at * 8 + 8 {
            let expected = (7 + number) as u8;
            assert!(
                client.read(number * (64 << 10), 64 << 10).iter().all(|&byte| byte == expected),
                "{number}"
            );
        }
    }
    let status = server.status();
    let reactors = status["reactors"].as_array().expect("a list");
    assert_eq!(reactors.len(), 2, "{status}");
    assert!(reactors.iter().all(|reactor| reactor["turns"].as_u64() > Some(0)), "{status}");
    assert_eq!((&reactors[0]["forwarded"], &reactors[1]["sessions"]), (&0.into(), &4.into()), "{status}");
    let (forwarded, own) = second(&server);
    assert!(forwarded > 100 && forwarded + own > 200, "{status}");
    // Counted as if they were here.
    assert_eq!(status["connections"], 4, "{status}");
    assert!(status["requests"].as_u64() > Some(200), "{status}");
    assert!(server.ask("status", &[]).ok().text().contains("2 reactors"));
    server.ask("disconnect", &[]).ok();
    assert!(clients.iter_mut().all(|client| client.try_read(0, 4096).is_none()));
    let mut again = Client::connect(&server.uri());
    assert!(again.read(0, 4096).iter().all(|&byte| byte == 7));
    // A server stops with a session elsewhere as with one at home.
    server.stop_after_failing(1);
}

fn wait(done: impl Fn() -> bool, why: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < until, "{why}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Has clients end, also when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Requests that the second reactor has handed to home, and those that it has carried out itself.
fn second(server: &Server) -> (u64, u64) {
    let second = &server.status()["reactors"][1];
    let count = |of: &str| second[of].as_u64().expect("a count");
    (count("forwarded"), count("carried_out"))
}

/// Reads again and again, and holds all of what is there against one byte; gives how often.
fn reads_until(uri: &str, over: &AtomicBool, expected: u8) -> u64 {
    let (mut client, mut count) = (Client::connect(uri), 0);
    while !over.load(Ordering::Relaxed) {
        for at in 0..8 {
            let found = client.read(at * (64 << 10), 64 << 10);
            assert!(found.iter().all(|&byte| byte == expected), "{at}");
            count += 1;
        }
    }
    count
}

#[test]
fn an_array_that_is_whole_is_read_where_the_session_is() {
    if !has_two() {
        return;
    }
    for level in ["-l 1", "-l 5 -c 64K", "-l 10 -c 64K", "-l 6 -c 64K"] {
        let (set, has_parity) = (Set::sparse(4, 4 * MIB), !level.starts_with("-l 1"));
        set.create(&format!("{level} -N a --assume-clean --bitmap none")).ok();
        let server = serve(&set, "2", &[SPREAD]);
        let mut client = Client::connect(&server.uri());
        client.all_at_once(&(0..8).map(|at| write(at * (64 << 10), 9)).collect::<Vec<_>>());
        let before = second(&server);
        (0..8).for_each(|at| assert!(client.read(at * (64 << 10), 64 << 10).iter().all(|&byte| byte == 9)));
        let after = second(&server);
        assert_eq!(
            (after.0, after.1),
            (before.0, before.1 + 8),
            "{level}: all of these reads, and none at home"
        );
        // A member is lost and comes back while others read.
        let (over, member) = (AtomicBool::new(false), name(&set.members[1]));
        let read = std::thread::scope(|scope| {
            let ends = Ends(&over);
            let readers: Vec<_> =
                (0..2).map(|_| scope.spawn(|| reads_until(&server.uri(), &over, 9))).collect();
            server.fail(member);
            let (forwarded, reads) = second(&server);
            // Where there is parity, bytes of the lost member are home's to compute.
            wait(|| second(&server).1 > reads + 16, "nothing is read there");
            wait(|| second(&server).0 > forwarded + 16 || !has_parity, "nothing is computed at home");
            server.ask("remove", &["failed"]).ok();
            server.ask("add", &[member]).ok();
            server.ask("wait", &[]).ok();
            let reads = second(&server).1;
            wait(|| second(&server).1 > reads + 16, "reads do not come back");
            drop(ends);
            readers.into_iter().map(|reader| reader.join().expect("right bytes")).sum::<u64>()
        });
        assert!(read > 32, "{level}");
        let status = server.status();
        let given = |device: &Value| device["io"]["reads"].as_u64().unwrap_or(0);
        let given: u64 = status["array"]["devices"].as_array().expect("a list").iter().map(given).sum();
        assert!(given >= second(&server).1 / 2, "{level}: members count what channels have read: {status}");
        assert!(server.ask("status", &[]).ok().text().contains("requests of its own"));
        client.close();
        server.stop_after_failing(1);
        assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0, "{level}");
    }
}

/// Another's client copies an array; every byte of it is read in the channel.
#[test]
fn what_others_copy_is_read_where_the_session_is() {
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    if !has_two() {
        return;
    }
    let set = Set::sparse(4, 4 * MIB);
    set.create("-l 5 -c 64K -N a --assume-clean").ok();
    let (source, back) = (set.path("source"), set.path("back"));
    let server = serve(&set, "2", &[SPREAD]);
    let size = server.status()["array"]["size"].as_u64().expect("a size");
    files::write_pattern(&source, size, 7);
    tools::run(&nbdcopy, ["--flush", name(&source), &server.uri()]);
    let before = second(&server);
    tools::run(&nbdcopy, [&server.uri(), name(&back)]);
    let after = second(&server);
    assert!(after.1 > before.1, "{before:?} {after:?}");
    assert_eq!(files::sha256(&source), files::sha256(&back));
    server.stop();
}

/// A session that another reactor has goes beyond the size that was agreed upon once the array has grown, and no further.
#[test]
fn an_array_grows_under_sessions_of_other_reactors() {
    if !has_two() {
        return;
    }
    let set = Set::sparse(2, 4 * MIB);
    set.create("-l 1 --size 1M --assume-clean --bitmap none").ok();
    let server = serve(&set, "2", &[SPREAD]);
    let mut client = Client::connect(&server.uri());
    client.all_at_once(&[write(0, 3)]);
    assert!(client.try_read(MIB, 4096).is_none(), "it is not there yet");
    server.ask("grow", &["--size", "max"]).ok();
    let size = server.status()["array"]["size"].as_u64().unwrap();
    client.all_at_once(&[write(size - (64 << 10), 5)]);
    assert!(client.read(size - 4096, 4096).iter().all(|&byte| byte == 5));
    assert!(client.try_read(size, 4096).is_none(), "it ends there");
    assert_eq!(server.status()["reactors"][1]["sessions"], 1);
    client.close();
    server.ask("wait", &[]).ok();
    server.stop();
}

/// Half of the memory is for requests, and one may have all of that while nobody else has any: on each reactor.
#[test]
fn a_request_may_have_as_much_on_each_reactor_as_with_one() {
    if !has_two() {
        return;
    }
    let set = Set::sparse(3, 40 * MIB);
    set.create("-l 5 -c 64K -N a --assume-clean").ok();
    for (memory, way) in [("64M", SPREAD), ("64M", USUAL), ("128M", SPREAD)] {
        let words = ["--memory", memory, "--cores", "2"].map(OsString::from);
        let args = words.into_iter().chain(set.members.iter().map(|member| member.clone().into_os_string()));
        let server = Server::start_by("serve", &set.runtime(), args, &[way]);
        let len = 32 * MIB;
        let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(&server.uri())).collect();
        for round in 0..3 {
            for (at, client) in (0..).zip(&mut clients) {
                let data: Vec<u8> = (0..len).map(|place| (place >> 12) as u8 ^ (round * 3 + at)).collect();
                let change =
                    Change { offset: 4096, len, work: Work::Write { data: data.clone(), fua: false } };
                client.all_at_once(&[change]);
                assert!(client.read(4096, len) == data, "{memory}: {at} in round {round}");
            }
        }
        let sessions = &server.status()["reactors"][1]["sessions"];
        assert_eq!(sessions, if way == SPREAD { 3 } else { 1 }, "{memory}");
        clients.into_iter().for_each(Client::close);
        server.stop();
    }
}

/// The same by another's client, which asks how large a request may be.
#[test]
fn others_copy_by_requests_of_32_mib_on_another_reactor() {
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    if !has_two() {
        return;
    }
    let set = Set::sparse(3, 100 * MIB);
    set.create("-l 5 -c 64K -N a --assume-clean").ok();
    let (source, back) = (set.path("source"), set.path("back"));
    let words = ["--memory", "64M", "--cores", "2"].map(OsString::from);
    let args = words.into_iter().chain(set.members.iter().map(|member| member.clone().into_os_string()));
    let server = Server::start_by("serve", &set.runtime(), args, &[SPREAD]);
    let size = server.status()["array"]["size"].as_u64().expect("a size");
    files::write_pattern(&source, size, 7);
    let large = ["--request-size=33554432", "--connections=2", "--requests=2"];
    tools::run(&nbdcopy, large.into_iter().chain(["--flush", name(&source), &server.uri()]));
    tools::run(&nbdcopy, large.into_iter().chain([&*server.uri(), name(&back)]));
    assert_eq!(files::sha256(&source), files::sha256(&back));
    assert!(second(&server).0 + second(&server).1 > 8);
    server.stop();
}

#[test]
fn sessions_of_an_array_are_spread_and_one_alone_stays_home() {
    if !has_two() {
        return;
    }
    let set = Set::raid5(3);
    let server = serve(&set, "2", &[USUAL]);
    let sessions = || server.status()["reactors"][1]["sessions"].as_u64();
    let mut client = Client::connect(&server.uri());
    client.all_at_once(&[write(0, 3)]);
    assert_eq!(sessions(), Some(0));
    assert_eq!(server.status()["reactors"][1]["forwarded"], 0);
    let mut second = Client::connect(&server.uri());
    second.all_at_once(&[write(1 << 20, 4)]);
    assert_eq!(sessions(), Some(1));
    let mut others = [Client::connect(&server.uri()), Client::connect(&server.uri())];
    others.iter_mut().for_each(|other| other.all_at_once(&[write(2 << 20, 5)]));
    assert_eq!(sessions(), Some(2));
    [client, second].into_iter().chain(others).for_each(Client::close);
    server.stop();
    let server = serve(&set, "1", &[SPREAD]);
    assert!(server.status().get("reactors").is_none());
    server.stop();
}

#[test]
fn cores_that_are_not_there_are_refused_by_name() {
    let set = Set::raid5(3);
    for (cores, words) in [
        ("0", "1 to 64"),
        ("65", "1 to 64"),
        ("0,0", "named twice"),
        ("1-0", "neither a number"),
        ("9999-9999", "core 9999 is not there, or offline"),
    ] {
        let ran = run(&format!("serve --cores {cores}"), &set.members).ended(2);
        assert!(ran.err.contains(words), "{cores}: {}", ran.err);
    }
}

/// Writes again and again, each time another byte all over, and reads it back; gives how often.
fn writes_until(uri: &str, over: &AtomicBool, place: u64) -> u64 {
    let (mut client, mut count) = (Client::connect(uri), 0);
    while !over.load(Ordering::Relaxed) {
        let byte = (count % 250) as u8;
        let changes: Vec<Change> = (0..4).map(|at| write((place + at) * (64 << 10), byte)).collect();
        client.all_at_once(&changes);
        for at in 0..4 {
            let found = client.read((place + at) * (64 << 10), 64 << 10);
            assert!(found.iter().all(|&found| found == byte), "{at}");
        }
        count += 1;
    }
    count
}

#[test]
fn an_array_is_written_where_the_session_is() {
    if !has_two() {
        return;
    }
    for level in [
        "-l 0 -c 64K",
        "-l 1 --bitmap none",
        "-l 1 --bitmap internal",
        "-l 10 -c 64K --bitmap internal",
        "-l 5 -c 64K --bitmap none",
        "-l 6 -c 64K --bitmap internal",
    ] {
        let set = Set::sparse(4, 16 * MIB);
        set.create(&format!("{level} -N a --assume-clean")).ok();
        let server = serve(&set, "2", &[SPREAD]);
        let (over, member) = (AtomicBool::new(false), name(&set.members[1]));
        let written = std::thread::scope(|scope| {
            let (ends, over, uri) = (Ends(&over), &over, server.uri());
            let writers: Vec<_> = (0..2)
                .map(|at| {
                    let uri = uri.clone();
                    scope.spawn(move || writes_until(&uri, over, at * 4))
                })
                .collect();
            let own = |more: u64| {
                let before = second(&server).1;
                wait(|| second(&server).1 > before + more, "nothing is written there");
            };
            own(800);
            if level != "-l 0 -c 64K" {
                // A member is lost and comes back while others write.
                server.fail(member);
                let forwarded = second(&server).0;
                wait(|| second(&server).0 > forwarded + 16, "no write goes home");
                server.ask("remove", &["failed"]).ok();
                server.ask("add", &[member]).ok();
                server.ask("wait", &[]).ok();
                own(200);
                server.ask("action", &["check"]).ok();
                server.ask("wait", &[]).ok();
            }
            drop(ends);
            writers.into_iter().map(|writer| writer.join().expect("right bytes")).sum::<u64>()
        });
        assert!(written > 32, "{level}");
        let status = server.status();
        let of = |device: &Value| device["io"]["writes"].as_u64().unwrap_or(0);
        let writes: u64 = status["array"]["devices"].as_array().expect("a list").iter().map(of).sum();
        assert!(writes > 100, "{level}: {status}");
        if level == "-l 0 -c 64K" {
            server.stop_after_failing(0);
        } else {
            server.stop_after_failing(1);
            assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0, "{level}");
        }
    }
}
