//! A server with several reactors: sessions go to each, and volumes are where they were.

use brindle_tests::nbd::{Change, Client, Work};

use super::*;

/// Has sessions go to others although home is idle.
const SPREAD: (&str, &str) = ("BRINDLE_HOME_BUSY", "0");

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
    assert!(reactors[1]["forwarded"].as_u64() > Some(200), "{status}");
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

#[test]
fn sessions_stay_home_while_it_has_time_for_them() {
    if !has_two() {
        return;
    }
    let set = Set::raid5(3);
    let server = serve(&set, "2", &[]);
    let mut client = Client::connect(&server.uri());
    client.all_at_once(&[write(0, 3)]);
    let status = server.status();
    assert_eq!(
        (&status["reactors"][1]["sessions"], &status["reactors"][1]["forwarded"]),
        (&0.into(), &0.into())
    );
    client.close();
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
