//! Places that are taken or forbidden: sockets, names, files of others.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Command;

use brindle_tests::tools::{self, or_skip};
use rustix::process::geteuid;

use super::*;

#[test]
fn a_socket_path_in_use() {
    let set = Set::raid5(3);
    let socket = set.path("nbd.sock");
    let flag = format!("--nbd unix:{}", socket.display());
    let listener = UnixListener::bind(&socket).unwrap();
    set.unchanged(|| set.serve_refused(&flag).refused(1, &["in use", name(&socket), "another path"]));
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok(), "the other server is left alone");
    // A dead server's socket is nobody's.
    drop(listener);
    let server = set.serve(&flag);
    server.stop();
    assert!(!socket.exists());

    std::fs::write(&socket, "precious").unwrap();
    set.unchanged(|| set.serve_refused(&flag).refused(1, &["in use", name(&socket), "not a socket"]));
    assert_eq!(std::fs::read(&socket).unwrap(), b"precious");
    let nowhere = set.path("nowhere/nbd.sock");
    let flag = format!("--nbd unix:{}", nowhere.display());
    set.unchanged(|| set.serve_refused(&flag).refused(1, &[name(&nowhere), "directory must exist"]));
}

#[test]
fn an_address_in_use() {
    let set = Set::raid5(3);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let flag = format!("--nbd {address}");
    set.unchanged(|| set.serve_refused(&flag).refused(1, &["in use", &address, "another port"]));
    let wrong = set.serve_refused("--nbd no-such-host.invalid:10809");
    set.unchanged(|| wrong.refused(1, &["no-such-host.invalid"]));
}

#[test]
fn one_port_of_both_families_and_a_socket_for_the_group() {
    let set = Set::raid5(3);
    // A port that is free in one address family is nearly always free in the other too.
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let socket = set.path("nbd.sock");
    let flags = format!(
        "--insecure --nbd 0.0.0.0:{port} --nbd [::]:{port} --nbd unix:{} --socket-mode 660",
        socket.display()
    );
    let server = set.serve(&flags);
    assert_eq!(server.status()["nbd"].as_array().map(Vec::len), Some(3));
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    let (code, err) = server.signal(rustix::process::Signal::TERM);
    assert!(code == 0 && err.lines().all(|line| line.ends_with("not authenticated, not encrypted")), "{err}");
}

#[test]
fn a_control_name_in_use() {
    let (set, other) = (Set::raid5(3), Set::raid5(3));
    let server = set.serve("--name same");
    let second = run(&format!("serve --name same --runtime-dir {}", set.runtime().display()), &other.members);
    other.unchanged(|| second.refused(1, &["'same' runs already", "--name"]));
    assert_eq!(server.status()["name"], "same");
    server.stop();
}

#[test]
fn an_ordinary_file_in_place_of_the_control_socket() {
    let set = Set::raid5(3);
    std::fs::create_dir(set.runtime()).unwrap();
    let file = set.runtime().join("a.control");
    std::fs::write(&file, "precious").unwrap();
    set.unchanged(|| set.serve_refused("").refused(1, &[name(&file), "not a socket"]));
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[test]
fn names_that_name_no_server() {
    let set = Set::raid5(3);
    let run = |words: &[&str]| {
        let runtime = set.runtime();
        program::brindle([words, &["--runtime-dir", name(&runtime)]].concat())
    };
    run(&["status", "nobody"]).refused(1, &["'nobody'", "none runs"]);
    run(&["stop", "nobody"]).refused(1, &["'nobody'"]);
    run(&["fail", "nobody", "0"]).refused(1, &["'nobody'"]);
    run(&["status", "../escape"]).refused(2, &["'../escape' can't name a server"]);
    set.serve_refused("--name a/b").refused(2, &["'a/b' can't name a server"]);
    let long = "x".repeat(300);
    set.serve_refused(&format!("--runtime-dir /tmp/{long} --name a"));
    let none = run(&["status"]).ok();
    assert!(none.text().contains("no array is served"), "{}", none.text());
}

/// The program as a user who may not do everything; root hands it to nobody.
pub(super) fn unprivileged(set: &Set, command: &str, members: &[PathBuf]) -> Option<Ran> {
    if !geteuid().is_root() {
        return Some(run(command, members));
    }
    let setpriv = or_skip(tools::find("setpriv"))?;
    // Where the program was built may be closed to others.
    let program = set.path("brindle");
    if !program.exists() {
        std::fs::copy(program::path(), &program).unwrap();
        std::fs::set_permissions(set.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut ran = Command::new(setpriv);
    ran.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).args(words(command, members));
    Some(Ran::of(ran))
}

pub(super) fn set_mode(set: &Set, mode: u32) {
    for member in &set.members {
        std::fs::set_permissions(member, PermissionsExt::from_mode(mode)).unwrap();
    }
}

#[test]
fn no_permission() {
    let set = Set::raid5(3);
    let hashes = set.hashes();
    set_mode(&set, 0o000);
    for command in ["create -l 5 --force", "detail", "cat", "check", "serve"] {
        let Some(ran) = unprivileged(&set, command, &set.members) else { return };
        ran.refused(1, &[name(&set.members[0]), "permission denied", "root"]);
    }
    set_mode(&set, 0o644);
    assert!(set.hashes() == hashes);
}

#[test]
fn read_only_files() {
    let set = Set::raid5(3);
    set_mode(&set, 0o444);
    set.unchanged(|| {
        for command in ["create -l 5 --force", "serve"] {
            let Some(ran) = unprivileged(&set, command, &set.members) else { return };
            ran.refused(1, &[name(&set.members[0]), "permission denied"]);
        }
        // Reading needs no more than reading.
        for command in ["detail", "cat", "check", "examine"] {
            if let Some(ran) = unprivileged(&set, command, &set.members) {
                ran.ok();
            }
        }
    });
}
