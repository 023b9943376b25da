//! Clients that may come in, and what start says of them.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use brindle_tests::nbd::Client;
use brindle_tests::tools::{self, or_skip};
use rustix::process::{Signal, geteuid};

use super::*;

/// A file of a test, with this mode.
fn file(set: &Set, named: &str, text: &str, mode: u32) -> String {
    let path = set.path(named);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    name(&path).to_owned()
}

#[test]
fn each_address_that_others_reach_is_reported_once() {
    let set = Set::raid5(3);
    let secrets = file(&set, "secrets", "initiator iqn.x:a a secret of 20 bytes\n", 0o600);
    let state = set.path("state");
    let flags = format!(
        "--insecure --nbd 0.0.0.0:0 --nbd 127.0.0.1:0 --iscsi 0.0.0.0:0 --iscsi-secrets {secrets} --iscsi-state {}",
        state.display()
    );
    let server = set.serve(&flags);
    // One that asks for targets is told the address that it has reached.
    if let Some(list) = or_skip(tools::find("iscsi-ls")) {
        let uri = server.said["iscsi"][0].as_str().expect("a URI");
        let port = uri.split('/').nth(2).and_then(|at| at.rsplit(':').next()).expect("a port");
        let secret =
            [("LIBISCSI_CHAP_USERNAME", "iqn.x:a"), ("LIBISCSI_CHAP_PASSWORD", "a secret of 20 bytes")];
        let out = Command::new(list).arg(format!("iscsi://127.0.0.1:{port}")).envs(secret).output().unwrap();
        let told = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(told.contains(&format!("Portal:127.0.0.1:{port},1")), "{told}");
    }
    let (code, err) = server.signal(Signal::TERM);
    let reported: Vec<&str> = err.lines().filter(|line| line.contains("authenticated")).collect();
    let expected = [
        "brindle: --nbd 0.0.0.0:0: not authenticated, not encrypted",
        "brindle: --iscsi 0.0.0.0:0: authenticated, not encrypted",
    ];
    assert_eq!((code, reported), (0, expected.to_vec()));
    assert!(!err.contains("a secret"), "{err}");
    // Without secrets nobody would have to prove anything.
    let refused = set.serve_refused("--iscsi 0.0.0.0:0");
    set.unchanged(|| refused.refused(2, &["--iscsi 0.0.0.0:0", "--iscsi-secrets", "--insecure"]));
}

#[test]
fn secrets_are_read_from_files_of_their_owner_alone() {
    let set = Set::raid5(3);
    let serve = |secrets: &str| {
        set.serve_refused(&format!("--iscsi 127.0.0.1:0 --iscsi-secrets {secrets} --iscsi-state /nowhere"))
    };
    let good = "initiator iqn.x:a a secret of 20 bytes\n";
    serve(&file(&set, "open", good, 0o640)).refused(1, &["0640", "chmod 600"]);
    for (text, words) in [
        ("initiator iqn.x:a short\n", ["iqn.x:a", "12 bytes"]),
        (&format!("{good}target iqn.x:t a secret of 20 bytes\n"), ["iqn.x:a", "differ"]),
        (&format!("{good}{good}"), ["iqn.x:a", "two secrets"]),
        ("initiator iqn.x:a\n", ["line 1", "initiator NAME SECRET"]),
        ("", ["no initiator", "name one"]),
    ] {
        let ran = serve(&file(&set, "secrets", text, 0o600));
        assert!(!ran.err.contains("a secret of"), "{}", ran.err);
        ran.refused(1, &words);
    }
}

#[test]
fn a_file_says_who_may_use_an_array() {
    let set = Set::raid5(3);
    let access = |text: &str, mode| format!("--access {}", file(&set, "access", text, mode));
    set.serve_refused(&access("* anyone read\n", 0o666)).refused(1, &["access", "0666", "chmod 644"]);
    set.serve_refused(&access("\nb anyone read\n", 0o644)).refused(1, &["line 2", "\"b\"", "a, or *"]);
    set.serve_refused(&access("a everybody read\n", 0o644)).refused(1, &["line 1", "everybody", "anyone"]);
    set.serve_refused(&access("a anyone all\n", 0o644)).refused(1, &["line 1", "all", "read, write or none"]);
    for (rule, way_out) in [("a chap:b write", "--iscsi-secrets"), ("* cert:b read", "--tls-clients")] {
        let refused = set.serve_refused(&access(&format!("a local read\n{rule}\n"), 0o644));
        refused.refused(1, &["line 2", "is nobody", way_out]);
    }
    let Some(nbdinfo) = or_skip(tools::find("nbdinfo")) else { return };
    let reported = |flags: &str| {
        let server = set.serve(&format!("{flags} --name a"));
        let out = Command::new(&nbdinfo).args(["--json", "--list", &server.uri()]).output().unwrap();
        let (code, err) = server.signal(Signal::TERM);
        assert_eq!(code, 0, "{err}");
        let exports = serde_json::from_slice::<Value>(&out.stdout).unwrap()["exports"].clone();
        (
            exports
                .as_array()
                .map_or(Vec::new(), |all| all.iter().map(|one| one["is_read_only"].clone()).collect()),
            err,
        )
    };
    assert_eq!(reported("").0, [false]);
    let (read_only, err) = reported(&access("a 10.0.0.0/8 write\n* local read\n", 0o644));
    assert_eq!((read_only, err.as_str()), (vec![Value::from(true)], ""));
    let (none, err) = reported(&access("# nobody\n", 0o644));
    assert!(none.is_empty() && err.contains("no line for a: nobody may use it"), "{none:?} {err}");
}

#[test]
fn a_socket_is_given_to_a_user_and_a_group() {
    let set = Set::raid5(3);
    let socket = set.path("nbd.sock");
    let unknown = set.serve_refused("--socket-group no-such-group");
    assert!(
        unknown.code == 2 && unknown.err.contains("/etc/group has no \"no-such-group\""),
        "{}",
        unknown.err
    );
    let flags = format!(
        "--nbd unix:{} --socket-mode 660 --socket-owner 65534 --socket-group 65534",
        socket.display()
    );
    if !geteuid().is_root() {
        set.serve_refused(&flags).refused(1, &[name(&socket), "only root"]);
        return;
    }
    let server = set.serve(&flags);
    let meta = std::fs::metadata(&socket).unwrap();
    assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o777), (65534, 65534, 0o660));
    server.stop();
}

#[test]
fn the_file_is_read_anew_at_sighup_and_those_whose_right_is_another_are_ended() {
    let set = Set::raid5(3);
    let path = file(&set, "access", "a local write\n", 0o644);
    let mut server = set.serve(&format!("--name a --access {path}"));
    let mut client = Client::connect(&server.uri());
    client.read(0, 4096);
    let mut read_anew = |text: &str| {
        std::fs::write(&path, text).unwrap();
        server.send(Signal::HUP);
        server.next_event()
    };
    // A file that is no list changes nothing, nor does another list that gives the same right.
    let event = read_anew("a everybody write\n");
    assert!(event["event"] == "access-kept" && event["why"].to_string().contains("line 1"), "{event}");
    assert_eq!(read_anew("a anyone write\n")["event"], "access-replaced");
    client.read(0, 4096);
    assert_eq!(server.status()["clients"].as_array().map(Vec::len), Some(1));
    std::fs::write(&path, "a local read\n").unwrap();
    server.send(Signal::HUP);
    assert_eq!(server.next_event()["event"], "access-replaced");
    // It is told before it is done.
    while server.status()["clients"] != Value::Array(vec![]) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut again = Client::connect(&server.uri());
    again.read(0, 4096);
    again.close();
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.contains("access: all stays as it was"), "{code} {err}");
}

#[test]
fn secrets_are_read_anew_with_the_rest_or_not_at_all_and_sighup_ends_no_server() {
    let set = Set::raid5(3);
    // One that was given no files goes on, too.
    let plain = set.serve("--name a");
    plain.send(Signal::HUP);
    let mut client = Client::connect(&plain.uri());
    client.read(0, 4096);
    client.close();
    let (code, err) = plain.signal(Signal::TERM);
    assert!(code == 0 && err.is_empty(), "{code} {err}");
    let secrets = file(&set, "secrets", "initiator one a secret of 20 bytes\n", 0o600);
    let access = file(&set, "access", "a local write\na chap:one write\n", 0o644);
    let state = set.path("state");
    let flags = format!(
        "--name a --access {access} --iscsi 127.0.0.1:0 --iscsi-secrets {secrets} --iscsi-state {}",
        state.display()
    );
    let mut server = set.serve(&flags);
    let target = server.said["iscsi"][0].as_str().expect("a URI").to_owned();
    let inquire = or_skip(tools::find("iscsi-inq"));
    let comes_in = |secret: &str| {
        let Some(inquire) = &inquire else { return None };
        let names = ["LIBISCSI_CHAP_USERNAME", "LIBISCSI_CHAP_PASSWORD"];
        let out = Command::new(inquire).arg(&target).envs(names.into_iter().zip(["one", secret])).output();
        Some(String::from_utf8_lossy(&out.unwrap().stdout).contains("DIRECT_ACCESS"))
    };
    let is = |expected: bool| Some(expected).filter(|_| inquire.is_some());
    assert_eq!(comes_in("a secret of 20 bytes"), is(true));
    let mut events = |secret: &str, rules: &str| {
        std::fs::write(&secrets, format!("initiator one {secret}\n")).unwrap();
        std::fs::write(&access, rules).unwrap();
        server.send(Signal::HUP);
        let events = [server.next_event(), server.next_event()];
        events.map(|event| {
            (
                event["event"].as_str().unwrap().to_owned(),
                event["why"].as_str().unwrap_or_default().to_owned(),
            )
        })
    };
    let [access_kept, secrets_kept] = events("short", "a local read\na chap:one write\n");
    assert_eq!((&*access_kept.0, &*secrets_kept.0), ("access-kept", "secrets-kept"));
    assert!(access_kept.1.contains("secrets can't be taken") && secrets_kept.1.contains("12 bytes"));
    assert_eq!(comes_in("a secret of 20 bytes"), is(true));
    let [access_kept, secrets_kept] = events("another secret of 23", "a nobody read\n");
    assert_eq!((&*access_kept.0, &*secrets_kept.0), ("access-kept", "secrets-kept"));
    assert_eq!(comes_in("a secret of 20 bytes"), is(true));
    let replaced = events("another secret of 23", "a local read\na chap:one write\n");
    assert_eq!(replaced.map(|(event, _)| event), ["access-replaced", "secrets-replaced"]);
    while comes_in("a secret of 20 bytes") == Some(true) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(comes_in("another secret of 23"), is(true));
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && !err.contains("of 2"), "{code} {err}");
}
