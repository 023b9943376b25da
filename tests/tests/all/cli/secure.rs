//! NBD with TLS, by the clients of others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use brindle_testkit::certificates::{self, Certificate};
use brindle_tests::tools::{self, or_skip};
use rustix::process::Signal;

use super::*;

/// A file of this mode.
fn put(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Flags of a server with this certificate, whose files are in the set's folder.
fn flags(set: &Set, server: Certificate) -> String {
    put(&set.path("server.pem"), server.chain, 0o644);
    put(&set.path("server-key.pem"), server.key, 0o600);
    put(&set.path("ca.pem"), certificates::AUTHORITY, 0o644);
    let path = |of: &str| name(&set.path(of)).to_owned();
    let (cert, key, clients) = (path("server.pem"), path("server-key.pem"), path("ca.pem"));
    format!("--tls-cert {cert} --tls-key {key} --tls-clients {clients}")
}

/// A folder with a client's certificate, as libnbd and QEMU want it.
fn folder(set: &Set, named: &str, client: Certificate) -> String {
    let folder = set.path(named);
    fs::create_dir(&folder).unwrap();
    put(&folder.join("ca-cert.pem"), certificates::AUTHORITY, 0o644);
    put(&folder.join("client-cert.pem"), client.chain, 0o644);
    put(&folder.join("client-key.pem"), client.key, 0o600);
    name(&folder).to_owned()
}

fn reported(out: &Output) -> String {
    String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).into_owned()
}

/// The server's address by the name that its certificate has.
fn address(server: &Server) -> String {
    let uri = server.uri();
    let port = uri.rsplit(':').next().unwrap();
    assert!(uri.starts_with("nbds://127.0.0.1:"), "{uri}");
    format!("localhost:{port}")
}

#[test]
fn clients_of_others_go_through_tls() {
    let set = Set::raid5(3);
    let nbd_tools = ["nbdinfo", "nbdcopy", "qemu-img"].map(tools::find);
    let [Some(nbdinfo), Some(nbdcopy), Some(qemu)] = nbd_tools.map(or_skip) else { return };
    let server = set.serve(&format!("{} --nbd 127.0.0.1:0 --name a", flags(&set, certificates::SERVER)));
    let (at, good) = (address(&server), folder(&set, "good", certificates::CLIENT));
    let bad = folder(&set, "bad", certificates::STRANGER);
    let uri = |folder: &str| format!("nbds://{at}/?tls-certificates={folder}");
    let info = |uri: &str| Command::new(&nbdinfo).args(["--json", uri]).output().unwrap();
    let came = info(&uri(&good));
    assert!(came.status.success() && reported(&came).contains("\"TLS\": true"), "{}", reported(&came));
    for wrong in [uri(&bad), format!("nbd://{at}/")] {
        let came = info(&wrong);
        assert!(!came.status.success(), "{wrong}: {}", reported(&came));
    }
    let (content, back) = (set.path("content"), set.path("back"));
    let size = server.status()["array"]["size"].as_u64().unwrap() as usize;
    let bytes: Vec<u8> = (0..size).map(|n| (n / 7 % 251) as u8).collect();
    fs::write(&content, &bytes).unwrap();
    for (from, to) in [(name(&content), &*uri(&good)), (&*uri(&good), name(&back))] {
        let came = Command::new(&nbdcopy).args(["--connections=4", from, to]).output().unwrap();
        assert!(came.status.success(), "{}", reported(&came));
    }
    assert!(fs::read(&back).unwrap() == bytes, "what was written is read");
    let (host, port) = at.split_once(':').unwrap();
    let credentials = format!("tls-creds-x509,id=t,endpoint=client,dir={good}");
    let image =
        format!("driver=nbd,server.type=inet,server.host={host},server.port={port},export=a,tls-creds=t");
    let came = Command::new(&qemu)
        .args(["compare", "--object", &credentials, "--image-opts", &image])
        .arg(format!("driver=raw,file.driver=file,file.filename={}", content.display()))
        .output()
        .unwrap();
    assert!(came.status.success() && reported(&came).contains("identical"), "{}", reported(&came));
    let (code, err) = server.signal(Signal::TERM);
    let refused: Vec<&str> = err.lines().filter(|line| line.contains("was refused: no TLS")).collect();
    assert!(code == 0 && refused.len() == 1, "once for this peer: {err}");
}

#[test]
fn certificates_are_read_anew_at_sighup() {
    let set = Set::raid5(3);
    let mut server = set.serve(&format!("{} --nbd 127.0.0.1:0 --name a", flags(&set, certificates::SERVER)));
    flags(&set, certificates::SERVER_EXPIRED);
    server.send(Signal::HUP);
    let event = server.next_event();
    assert!(event["event"] == "certificates-kept" && event["why"].to_string().contains("expired"), "{event}");
    let mixed = Certificate { key: certificates::SERVER_NEXT.key, ..certificates::SERVER };
    flags(&set, mixed);
    server.send(Signal::HUP);
    let event = server.next_event();
    assert!(event["event"] == "certificates-kept" && event["why"].to_string().contains("key"), "{event}");
    flags(&set, certificates::SERVER_NEXT);
    server.send(Signal::HUP);
    assert_eq!(server.next_event()["event"], "certificates-replaced");
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && !err.contains("PRIVATE"), "{err}");
}

#[test]
fn tls_is_refused_where_it_would_prove_nothing() {
    let set = Set::raid5(3);
    let all = flags(&set, certificates::SERVER);
    let no_clients = all.split(" --tls-clients").next().unwrap().to_owned();
    let refused = |flags: &str, words: &[&str]| {
        let ran = set.serve_refused(flags);
        assert!(ran.code != 0 && words.iter().all(|word| ran.err.contains(word)), "{flags}: {}", ran.err);
    };
    refused(&format!("{no_clients} --nbd 0.0.0.0:0"), &["0.0.0.0:0", "--tls-clients", "--insecure"]);
    refused("--tls-psk keys", &["TLS-PSK", "rustls", "--tls-cert"]);
    refused(&no_clients.replace(" --tls-key", " --name"), &["--tls-key"]);
    put(&set.path("server-key.pem"), certificates::SERVER.key, 0o640);
    refused(&all, &["server-key.pem", "0640", "chmod 600"]);
    flags(&set, certificates::SERVER_EXPIRED);
    refused(&all, &["server.pem", "expired"]);
    flags(&set, certificates::SERVER);
    let server = set.serve(&format!("{all} --nbd 0.0.0.0:0"));
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!((code, err.as_str()), (0, "brindle: --nbd 0.0.0.0:0: authenticated, encrypted\n"));
}

#[test]
fn certificates_that_were_taken_back_are_refused_from_sighup_on() {
    let set = Set::raid5(3);
    let Some(nbdinfo) = or_skip(tools::find("nbdinfo")) else { return };
    let all = flags(&set, certificates::SERVER);
    let list = set.path("revoked.pem");
    put(&list, "nothing", 0o644);
    let refused = set.serve_refused(&format!("{all} --tls-revoked {}", name(&list)));
    assert!(refused.code != 0 && refused.err.contains("revoked.pem: there is no list"), "{}", refused.err);
    put(&list, certificates::REVOKED, 0o644);
    let mut server = set.serve(&format!("{all} --tls-revoked {} --nbd 127.0.0.1:0 --name a", name(&list)));
    let good = folder(&set, "good", certificates::CLIENT);
    let revoked = folder(&set, "revoked", certificates::CLIENT_REVOKED);
    let let_in = |server: &Server, folder: &str| {
        let uri = format!("nbds://{}/?tls-certificates={folder}", address(server));
        Command::new(&nbdinfo).args(["--size", &uri]).output().unwrap().status.success()
    };
    assert!(let_in(&server, &good) && !let_in(&server, &revoked));
    put(&list, certificates::REVOKED_EXPIRED, 0o644);
    server.send(Signal::HUP);
    assert_eq!(server.next_event()["event"], "certificates-replaced");
    assert!(!let_in(&server, &good), "the list is out of date");
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.contains("Revoked"), "{err}");
}
